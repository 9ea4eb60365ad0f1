//! Messages of a rank to itself.

use std::thread;

use collect::{CallOptions, World};

use crate::ranks;
use crate::reference::calls::{Lent, barrier, receive, receive_of, send, send_of};

const LARGE: usize = 50_000;

#[test]
fn small_messages_to_oneself_wait_for_their_receives() {
    ranks::threads(2, &ranks::options(), &|world: &World| {
        let me = world.rank();
        for tag in 0..10u64 {
            send(world, &[tag, me as u64], me, tag).unwrap();
            send(world, &[tag + 1, me as u64], me, tag).unwrap();
        }
        send::<u64>(world, &[], me, 3).unwrap();
        for tag in (0..10u64).rev() {
            assert_eq!(receive(world, 2, me, tag), Ok(vec![tag, me as u64]));
            assert_eq!(receive(world, 2, None, tag), Ok(vec![tag + 1, me as u64]));
        }
        assert_eq!(receive(world, 0, None, 3), Ok(Vec::<u64>::new()));
        barrier(world).unwrap();
    });
}

#[test]
fn large_messages_to_oneself_meet_requests_and_other_threads() {
    ranks::threads(2, &ranks::blocking(), &|world: &World| {
        let me = world.rank();
        let data = |seed: u64| (0..LARGE as u64).map(|at| at ^ seed).collect::<Vec<_>>();
        // The receive is there first.
        let got = Lent::<u64>::receive(world, LARGE, me, 1);
        send(world, &data(1), me, 1).unwrap();
        assert!(got.end().unwrap() == (data(1), Some(me)));
        // The message is there first.
        let sent = Lent::send(world, data(2), me, 1);
        let (got, source) = Lent::<u64>::receive(world, LARGE, None, 1).end().unwrap();
        assert!(got == data(2) && source == Some(me));
        sent.end().unwrap();
        // Both wait, on threads of their own.
        thread::scope(|scope| {
            let sends =
                scope.spawn(|| (3..23).for_each(|seed| send(world, &data(seed), me, 1).unwrap()));
            for seed in 3..23 {
                assert!(receive::<u64>(world, LARGE, me, 1).unwrap() == data(seed), "{seed}");
            }
            ranks::join(vec![sends]);
        });
        barrier(world).unwrap();
    });
}

#[test]
fn sendrecv_with_oneself_copies() {
    ranks::threads(3, &ranks::options(), &|world: &World| {
        let me = world.rank();
        for many in [0, 1, 100, LARGE] {
            let data: Vec<u64> = (0..many as u64).map(|at| at * 3 + me as u64).collect();
            let mut got = vec![0; many];
            let calls = (send_of(&data, me, 5), receive_of(&mut got, Some(me), 5));
            world.sendrecv(&calls.0, &calls.1, &CallOptions::default()).unwrap();
            assert!(got == data, "{many}");
        }
    });
}

/// What comes from oneself and from others is taken by a receive from anybody in the order in which it comes.
#[test]
fn a_receive_from_anybody_takes_from_oneself_too() {
    ranks::threads(2, &ranks::options(), &|world: &World| {
        let me = world.rank();
        send(world, &[me as u64], me, 1).unwrap();
        send(world, &[me as u64], 1 - me, 1).unwrap();
        let mut sources: Vec<usize> = (0..2)
            .map(|_| {
                let (data, source) = Lent::<u64>::receive(world, 1, None, 1).end().unwrap();
                assert_eq!(data, [source.unwrap() as u64]);
                source.unwrap()
            })
            .collect();
        sources.sort_unstable();
        assert_eq!(sources, [0, 1]);
    });
}
