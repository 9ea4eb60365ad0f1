//! In which order messages meet receives.

use std::sync::Barrier;

use collect::{CallOptions, World};

use crate::ranks;
use crate::reference::calls::{Lent, barrier, receive, receive_of, send, send_of};
use crate::reference::values::mix;

/// Elements of u64: a small message that leaves at once, and one that must be granted.
const SMALL: usize = 100;
const LARGE: usize = 50_000;

/// What a message carries: nobody else's looks alike.
fn content(from: usize, tag: u64, number: usize, count: usize) -> Vec<u64> {
    let seed = mix((from as u64) << 48 ^ tag << 24 ^ number as u64);
    (0..count as u64).map(|at| seed.wrapping_add(at)).collect()
}

/// Elements of the so-many-th message between two.
fn count(number: usize, tag: u64) -> usize {
    [3, 0, SMALL, 1, LARGE, 4096, 5000][(number + (tag % 7) as usize) % 7]
}

#[test]
fn messages_of_one_pair_and_tag_come_in_their_order() {
    const MESSAGES: usize = 21;
    const TAGS: [u64; 3] = [0, 7, u64::MAX];
    ranks::both("order::messages_of_one_pair_and_tag_come_in_their_order", 3, |world| {
        let (rank, size) = (world.rank(), world.size());
        let mut sent = Vec::new();
        for number in 0..MESSAGES {
            for tag in TAGS {
                for to in (0..size).filter(|to| *to != rank) {
                    let data = content(rank, tag, number, count(number, tag));
                    sent.push(Lent::send(world, data, to, tag));
                }
            }
        }
        // The last tag first: what came before it waits.
        for tag in TAGS.into_iter().rev() {
            for from in (0..size).filter(|from| *from != rank) {
                for number in 0..MESSAGES {
                    let right = content(from, tag, number, count(number, tag));
                    assert!(receive::<u64>(world, right.len(), from, tag).unwrap() == right);
                }
            }
        }
        sent.into_iter().for_each(|sent| drop(sent.end().unwrap()));
    });
}

#[test]
fn tags_are_received_in_any_order() {
    ranks::both("order::tags_are_received_in_any_order", 2, |world| {
        for many in [SMALL, LARGE] {
            let tags: Vec<u64> = (0..20).collect();
            if world.rank() == 0 {
                let start = |tag: &u64| Lent::send(world, content(0, *tag, 0, many), 1, *tag);
                let sent: Vec<Lent<u64>> = tags.iter().map(start).collect();
                sent.into_iter().for_each(|sent| drop(sent.end().unwrap()));
                continue;
            }
            let mut order = tags;
            order.sort_by_key(|tag| mix(*tag));
            for tag in order {
                assert!(receive::<u64>(world, many, 0, tag).unwrap() == content(0, tag, 0, many));
            }
        }
    });
}

#[test]
fn a_receive_from_anybody_tells_who_sent() {
    const MESSAGES: usize = 40;
    ranks::both("order::a_receive_from_anybody_tells_who_sent", 4, |world| {
        for many in [0, 1, SMALL, LARGE] {
            // What is sent next may not be taken for this.
            barrier(world).unwrap();
            if world.rank() != 2 {
                for number in 0..MESSAGES {
                    // The number comes first, as a message of no elements cannot tell it.
                    send(world, &[world.rank() as u64, number as u64], 2, 1).unwrap();
                    send(world, &content(world.rank(), 2, number, many), 2, 2).unwrap();
                }
                continue;
            }
            let mut seen = [0; 4];
            for _ in 0..3 * MESSAGES {
                let (told, source) = Lent::<u64>::receive(world, 2, None, 1).end().unwrap();
                let from = source.unwrap();
                assert_eq!(told, [from as u64, seen[from] as u64]);
                let (data, source) = Lent::<u64>::receive(world, many, from, 2).end().unwrap();
                assert!(data == content(from, 2, seen[from], many) && source == Some(from));
                seen[from] += 1;
            }
            assert_eq!(seen, [MESSAGES, MESSAGES, 0, MESSAGES]);
        }
    });
}

#[test]
fn large_messages_from_anybody_are_each_of_one_sender() {
    const MESSAGES: usize = 10;
    ranks::both("order::large_messages_from_anybody_are_each_of_one_sender", 3, |world| {
        if world.rank() > 0 {
            for number in 0..MESSAGES {
                send(world, &content(world.rank(), 5, number, LARGE), 0, 5).unwrap();
            }
            return;
        }
        let receives = (0..2 * MESSAGES).map(|_| Lent::<u64>::receive(world, LARGE, None, 5));
        let receives: Vec<Lent<u64>> = receives.collect();
        let mut seen = [0; 3];
        for receive in receives {
            let (data, source) = receive.end().unwrap();
            let from = source.unwrap();
            assert!(data == content(from, 5, seen[from], LARGE), "from {from}");
            seen[from] += 1;
        }
        assert_eq!(seen, [0, MESSAGES, MESSAGES]);
    });
}

/// A message goes to the receive that was called first among those that would take it.
#[test]
fn a_receive_from_one_rank_waits_behind_one_from_anybody() {
    for many in [1, SMALL, LARGE] {
        let are_called = Barrier::new(3);
        let body = |world: &World| {
            if world.rank() > 0 {
                are_called.wait();
                let sent: Vec<Lent<u64>> = (0..2)
                    .map(|number| content(world.rank(), 9, number, many))
                    .map(|data| Lent::send(world, data, 0, 9))
                    .collect();
                sent.into_iter().for_each(|sent| drop(sent.end().unwrap()));
                return;
            }
            let calls = [None, Some(1), Some(2), None];
            let receives = calls.map(|from| Lent::<u64>::receive(world, many, from, 9));
            are_called.wait();
            let [first, one, two, last] = receives.map(|receive| receive.end().unwrap());
            let (first_from, last_from) = (first.1.unwrap(), last.1.unwrap());
            assert_eq!((one.1, two.1), (Some(1), Some(2)));
            assert_eq!(first_from + last_from, 3, "each rank sends two");
            // Whose message the first one took, the second one goes to the receive from that rank.
            assert!(first.0 == content(first_from, 9, 0, many));
            let number = |rank: usize| usize::from(first_from == rank);
            assert!(one.0 == content(1, 9, number(1), many));
            assert!(two.0 == content(2, 9, number(2), many));
            assert!(last.0 == content(last_from, 9, 1, many));
        };
        ranks::threads(3, &ranks::blocking(), &body);
    }
}

#[test]
fn five_thousand_messages_wait_for_their_receives_in_reverse() {
    const MESSAGES: u64 = 5000;
    let name = "order::five_thousand_messages_wait_for_their_receives_in_reverse";
    ranks::both(name, 2, |world| {
        if world.rank() == 0 {
            let start = |tag: u64| Lent::send(world, vec![tag, mix(tag)], 1, tag);
            let sent: Vec<Lent<u64>> = (0..MESSAGES).map(start).collect();
            // This one overtakes those for which there is no room.
            send(world, &[1u64], 1, u64::MAX).unwrap();
            sent.into_iter().for_each(|sent| drop(sent.end().unwrap()));
        } else {
            assert_eq!(receive(world, 1, 0, u64::MAX), Ok(vec![1u64]));
            for tag in (0..MESSAGES).rev() {
                assert_eq!(receive(world, 2, 0, tag), Ok(vec![tag, mix(tag)]));
            }
        }
        barrier(world).unwrap();
    });
}

#[test]
fn messages_of_no_bytes_keep_their_place() {
    ranks::both("order::messages_of_no_bytes_keep_their_place", 2, |world| {
        for _ in 0..100 {
            if world.rank() == 0 {
                let counts = [0, 1, 0, 0, SMALL, 0];
                counts.iter().for_each(|many| send(world, &vec![3u32; *many], 1, 4).unwrap());
            } else {
                for many in [0, 1, 0, 0, SMALL, 0] {
                    assert_eq!(receive(world, many, 0, 4), Ok(vec![3u32; many]));
                }
            }
        }
        barrier(world).unwrap();
    });
}

/// Everybody sends to the next rank and receives from the one before: no order of the calls would do without both at
/// once.
fn ring(world: &World) {
    let (rank, size) = (world.rank(), world.size());
    let (next, last) = ((rank + 1) % size, (rank + size - 1) % size);
    let options = CallOptions::default();
    for (number, many) in [0, 1, SMALL, LARGE, SMALL].into_iter().enumerate() {
        let data = content(rank, 6, number, many);
        let mut got = vec![0; many];
        let calls = (send_of(&data, next, 6), receive_of(&mut got, Some(last), 6));
        world.sendrecv(&calls.0, &calls.1, &options).unwrap();
        assert!(got == content(last, 6, number, many), "{many} elements from {last}");

        // The other way round, as a request.
        let (data, mut got) = (content(rank, 8, number, many), vec![0; many]);
        // SAFETY: the vector stays until the request has ended, and nobody changes it before.
        let source = unsafe { std::slice::from_raw_parts(data.as_ptr(), many) };
        // SAFETY: as above, and nobody else uses it.
        let target = unsafe { std::slice::from_raw_parts_mut(got.as_mut_ptr(), many) };
        let calls = (send_of(source, last, 8), receive_of(target, Some(next), 8));
        world.start_sendrecv(&calls.0, &calls.1, &options).unwrap().wait().unwrap();
        assert!(got == content(next, 8, number, many), "{many} elements from {next}");
    }
}

#[test]
fn a_ring_of_sendrecv_goes_round() {
    for size in [1, 2, 5] {
        ranks::threads(size, &ranks::options(), &ring);
    }
    ranks::both("order::a_ring_of_sendrecv_goes_round", 3, ring);
}

/// A send and a receive between different ranks, as in a shift without wrap-around: one side's partner may be anybody.
#[test]
fn sendrecv_receives_from_anybody() {
    ranks::threads(4, &ranks::options(), &|world: &World| {
        let (rank, size) = (world.rank(), world.size());
        let (data, mut got) = ([rank as u64; 3], [u64::MAX; 3]);
        let calls = (send_of(&data, (rank + 3) % size, 2), receive_of(&mut got, None, 2));
        world.sendrecv(&calls.0, &calls.1, &CallOptions::default()).unwrap();
        assert_eq!(got, [(rank as u64 + 1) % 4; 3]);
    });
}
