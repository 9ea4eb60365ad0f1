//! One rank calls once more than the others: an error by the deadline, which names the call and who has not come.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ranks;
mod reference;

use std::sync::Barrier;
use std::time::Duration;

use collect::config::Timeout;
use collect::{
    Algorithm, Call, CallOptions, Datatype, Error, ForkOptions, Op, Source, Target, World,
};
use reference::calls::{barrier, receive_of, send_of, sum};

const SIZE: usize = 3;

/// On a fork, makes `act` on all ranks three times, then once more on rank 0 alone, with a deadline. Its error must have
/// all of `texts`; the others learn of it, and the fork's parent does not mind.
fn once_more(texts: &[&str], act: impl Fn(&World, &CallOptions) -> Result<(), Error> + Sync) {
    let is_over = Barrier::new(SIZE);
    ranks::threads(SIZE, &ranks::blocking(), &|world: &World| {
        let fork = world.fork(&ForkOptions::default()).unwrap();
        (0..3).for_each(|_| act(&fork, &CallOptions::default()).unwrap());
        let outcome = if world.rank() == 0 {
            let timeout = Timeout::After(Duration::from_secs(1));
            let outcome = act(&fork, &CallOptions { timeout, ..CallOptions::default() });
            is_over.wait();
            outcome
        } else {
            is_over.wait();
            barrier(&fork)
        };
        let error = outcome.unwrap_err();
        let text = error.to_string();
        let Error::TimedOut { rank, .. } = error else { panic!("{error:?}") };
        // Whoever receives from any rank waits for nobody in particular.
        let is_known = !texts[0].contains("any rank");
        assert!(rank.is_some() == is_known && rank != Some(0), "{error:?}");
        let missing: Vec<_> = texts.iter().filter(|one| !text.contains(**one)).collect();
        assert!(missing.is_empty(), "{missing:?} is not in {text:?}");
        assert_eq!(fork.error(), Some(error));
        assert_eq!(world.error(), None);
        barrier(world).unwrap();
    });
}

fn allreduce(algorithm: Algorithm, waits: &str) {
    for count in [3, 200_000] {
        let name = format!("allreduce(u64, {count}, sum)");
        once_more(&[&name, "operation 3", waits], |world, options| {
            let options = CallOptions { algorithm: Some(algorithm), ..options.clone() };
            sum(world, &mut vec![1; count], &options)
        });
    }
}

#[test]
fn an_allreduce_too_many_by_a_ring() {
    allreduce(Algorithm::Ring, "this rank waits for rank");
}

#[test]
fn an_allreduce_too_many_by_direct_exchange() {
    allreduce(Algorithm::Direct, "rank 2");
}

#[test]
fn an_allreduce_too_many_by_doubling() {
    allreduce(Algorithm::Doubling, "rank 1");
}

#[test]
fn a_barrier_too_many() {
    once_more(&["barrier()", "operation 3", "rank 2"], |world, options| {
        world.run(&Call::Barrier, options)
    });
}

#[test]
fn an_alltoall_too_many() {
    for count in [1, 50_000] {
        let texts = ["alltoall(u64", "operation 3", "rank 1", "rank 2"];
        once_more(&texts, |world, options| {
            let (data, mut got) = (vec![1u64; SIZE * count], vec![0u64; SIZE * count]);
            let (source, target) = (Source::of(&data), Target::of(&mut got));
            let call = Call::Alltoall { source, target, datatype: Datatype::U64 };
            world.run(&call, options)
        });
    }
}

#[test]
fn a_keyed_call_too_many() {
    let texts = ["reduce(u64, 1, sum, root 0)", "key 99", "has not called it"];
    once_more(&texts, |world, options| {
        let (data, mut got) = ([1u64], [0u64]);
        let (source, target) = (Source::of(&data), Target::of(&mut got));
        let (datatype, op, root) = (Datatype::U64, Op::Sum, 0);
        let call = Call::Reduce { source, target, datatype, op, root };
        world.run(&call, &CallOptions { key: Some(99), ..options.clone() })
    });
}

#[test]
fn a_receive_that_nobody_sends_to() {
    let act = |from: Option<usize>| {
        move |world: &World, options: &CallOptions| {
            let next = (world.rank() + 1) % SIZE;
            if options.timeout == Timeout::Default {
                // Everybody sends, and receives as often.
                let (data, mut got) = ([1u64], [0u64]);
                let from = from.map(|_| (world.rank() + SIZE - 1) % SIZE);
                let calls = (send_of(&data, next, 5), receive_of(&mut got, from, 5));
                return world.sendrecv(&calls.0, &calls.1, options);
            }
            world.run(&receive_of(&mut [0u64], from, 5), options)
        }
    };
    once_more(&["rank 2", "tag 5", "has not called it"], act(Some(2)));
    once_more(&["receive from any rank", "tag 5"], act(None));
}

/// A small message is away before anybody receives it; a large one waits.
#[test]
fn a_large_message_that_nobody_receives() {
    once_more(&["rank 1", "tag 6", "has not called it"], |world, options| {
        if options.timeout == Timeout::Default {
            return barrier(world);
        }
        world.run(&send_of(&vec![1u64; 50_000], 1, 6), options)
    });
}

/// Of three ranks two call: the third one is named, by whoever waits for it.
#[test]
fn the_one_that_does_not_come_is_named() {
    let is_over = Barrier::new(SIZE);
    ranks::threads(SIZE, &ranks::blocking(), &|world: &World| {
        let fork = world.fork(&ForkOptions::default()).unwrap();
        let outcome = if world.rank() == 1 {
            is_over.wait();
            barrier(&fork)
        } else {
            let timeout = Timeout::After(Duration::from_secs(1));
            let (algorithm, timeout) = (Some(Algorithm::Direct), timeout);
            let options = CallOptions { algorithm, timeout, ..CallOptions::default() };
            let outcome = sum(&fork, &mut [1], &options);
            is_over.wait();
            outcome
        };
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::TimedOut { rank: Some(1), .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("this rank waits for rank 1 (0 of 8 bytes have come"), "{text}");
        assert!(!text.contains("rank 0") && !text.contains("rank 2"), "{text}");
        assert_eq!(world.error(), None);
    });
}
