//! Messages and parts of another length or type than their receiver expects, and senders that die: errors on both
//! sides, and no hang.

use std::time::Instant;

use collect::{Call, CallOptions, Datatype, Error, ForkOptions, Source, Target, World};

use crate::ranks::{self, Ranks};
use crate::reference::calls::{Lent, barrier, receive, send};

/// What a rank learns of a fork of its own in which `act` goes wrong: by the act, or by a later call.
fn error_of(world: &World, act: impl FnOnce(&World) -> Result<(), Error>) -> Error {
    let fork = world.fork(&ForkOptions::default()).unwrap();
    let error = act(&fork).and_then(|()| barrier(&fork)).unwrap_err();
    assert_eq!(fork.error().as_ref(), Some(&error));
    error
}

fn must_be_mismatch(error: &Error, texts: &[&str]) {
    let text = error.to_string();
    assert!(matches!(error, Error::Mismatch(_)), "{error:?}");
    assert!(texts.iter().all(|one| text.contains(one)), "not all of {texts:?}: {text}");
}

#[test]
fn lengths_that_differ_are_a_mismatch_on_both_sides() {
    ranks::both("fitting::lengths_that_differ_are_a_mismatch_on_both_sides", 2, |world| {
        let pairs =
            [(0, 5), (5, 0), (1, 0), (0, 1), (3, 4), (70_000, 3), (3, 70_000), (70_000, 70_001)];
        for (sent, expected) in pairs {
            let error = error_of(world, |fork| match fork.rank() {
                0 => send(fork, &vec![1u8; sent], 1, 2),
                _ => receive::<u8>(fork, expected, 0, 2).map(drop),
            });
            let (sends, expects) = (format!("sends {sent} bytes"), format!("expects {expected}"));
            must_be_mismatch(&error, &[&sends, &expects, "tag 2"]);
            // The same by a receive from anybody.
            let error = error_of(world, |fork| match fork.rank() {
                0 => receive::<u8>(fork, expected, None, 3).map(drop),
                _ => send(fork, &vec![1u8; sent], 0, 3),
            });
            must_be_mismatch(&error, &[&sends, &expects, "tag 3"]);
        }
        assert_eq!(world.error(), None);
    });
}

#[test]
fn types_that_differ_are_a_mismatch_on_both_sides() {
    ranks::both("fitting::types_that_differ_are_a_mismatch_on_both_sides", 2, |world| {
        for count in [0, 4, 50_000] {
            let error = error_of(world, |fork| match fork.rank() {
                0 => send(fork, &vec![1f32; count], 1, 2),
                _ => receive::<u32>(fork, count, 0, 2).map(drop),
            });
            must_be_mismatch(&error, &["f32", "u32", "rank 0", "rank 1"]);
        }
        assert_eq!(world.error(), None);
    });
}

#[test]
fn what_does_not_fit_to_oneself_is_a_mismatch() {
    ranks::threads(1, &ranks::options(), &|world: &World| {
        for (sent, expected) in [(0, 5), (5, 0), (1, 0), (3, 4), (70_000, 3)] {
            let error = error_of(world, |fork| {
                let sent = Lent::send(fork, vec![1u8; sent], 0, 2);
                receive::<u8>(fork, expected, 0, 2)?;
                sent.end().map(drop)
            });
            let (sends, gets) =
                (format!("sent {sent} bytes"), format!("receives {expected} bytes"));
            must_be_mismatch(&error, &[&sends, &gets]);
        }
        let error = error_of(world, |fork| {
            send(fork, &[1f32], 0, 2)?;
            receive::<u32>(fork, 1, 0, 2).map(drop)
        });
        must_be_mismatch(&error, &["f32", "u32"]);
        assert_eq!(world.error(), None);
    });
}

/// Gatherv, scatterv, alltoallv: each rank knows lengths that the other one does not.
#[test]
fn parts_that_differ_are_a_mismatch_on_all_ranks() {
    ranks::both("fitting::parts_that_differ_are_a_mismatch_on_all_ranks", 3, |world| {
        let (datatype, root, displacements) = (Datatype::U8, 1, None);
        let options = CallOptions::default();
        for (told, real) in [(5, 4), (0, 3), (3, 0), (1, 0), (0, 1), (90_000, 89_999)] {
            // Rank 2's part is of another length than the root believes.
            let part = if world.rank() == 2 { real } else { 2 };
            let counts = [2, 2, told];
            let total = counts.iter().sum();
            let gatherv = error_of(world, |fork| {
                let (small, mut all) = (vec![1u8; part], vec![0u8; total]);
                let (source, target) = (Source::of(&small), Target::of(&mut all));
                let counts = &counts[..];
                let call = Call::Gatherv { source, target, counts, displacements, datatype, root };
                fork.run(&call, &options)
            });
            let scatterv = error_of(world, |fork| {
                let (all, mut small) = (vec![1u8; total], vec![0u8; part]);
                let (source, target) = (Source::of(&all), Target::of(&mut small));
                let counts = &counts[..];
                let call = Call::Scatterv { source, target, counts, displacements, datatype, root };
                fork.run(&call, &options)
            });
            let alltoallv = error_of(world, |fork| alltoallv(fork, told, real));
            for (error, sent, expected) in
                [(gatherv, real, told), (scatterv, told, real), (alltoallv, real, told)]
            {
                let (sends, expects) =
                    (format!("sends {sent} bytes"), format!("expects {expected}"));
                must_be_mismatch(&error, &[&sends, &expects]);
            }
        }
        assert_eq!(world.error(), None);
    });
}

/// Everybody sends two bytes to everybody; but rank 2 sends `real` to rank 1, which expects `told`.
fn alltoallv(world: &World, told: usize, real: usize) -> Result<(), Error> {
    let (mut send_counts, mut receive_counts) = ([2; 3], [2; 3]);
    match world.rank() {
        1 => receive_counts[2] = told,
        2 => send_counts[1] = real,
        _ => {}
    }
    let data = vec![1u8; send_counts.iter().sum()];
    let mut got = vec![0u8; receive_counts.iter().sum()];
    let call = Call::Alltoallv {
        source: Source::of(&data),
        send_counts: &send_counts,
        send_displacements: None,
        target: Target::of(&mut got),
        receive_counts: &receive_counts,
        receive_displacements: None,
        datatype: Datatype::U8,
    };
    world.run(&call, &CallOptions::default())
}

/// Bytes of a message that is under way for a while.
const LARGE: usize = 64 << 20;

/// The receiver is told, because the connection ends: nothing here has a deadline.
fn dies(name: &str, act: impl Fn(&World)) {
    if !ranks::is_rank() {
        let mut processes = Ranks::spawn(name, 2);
        let until = Instant::now() + ranks::DEADLINE;
        for rank in 0..2 {
            let status = processes.wait(rank, until);
            assert!(status.success(), "rank {rank}: {status}");
        }
        assert!(processes.folder.join("told").exists(), "nobody was told");
        return;
    }
    let store = collect::store::FileStore::open(ranks::folder().join("store")).unwrap();
    let options =
        collect::WorldOptions { timeout: collect::config::Timeout::Never, ..ranks::blocking() };
    let world = World::create(&store, ranks::rank(), 2, &options).unwrap();
    barrier(&world).unwrap();
    if world.rank() == 1 {
        ranks::await_mark(&ranks::folder(), "through");
        act(&world);
        // SAFETY: takes no pointer; what the library holds is not destroyed.
        unsafe { libc::_exit(0) };
    }
    ranks::mark("through");
    for from in [Some(1), None] {
        // What the sender has begun may have come as a whole.
        let receive = || receive::<u8>(&world, LARGE, from, 1).map(drop).err();
        let error = std::iter::repeat_with(receive).flatten().next().unwrap();
        assert!(matches!(error, Error::PeerLost { rank: 1, .. }), "{error:?}");
    }
    ranks::mark("told");
}

#[test]
fn a_receive_from_a_rank_that_dies_ends() {
    dies("fitting::a_receive_from_a_rank_that_dies_ends", |_| {});
}

#[test]
fn a_receive_in_the_middle_of_which_its_sender_dies_ends() {
    dies("fitting::a_receive_in_the_middle_of_which_its_sender_dies_ends", |world| {
        let sent = Lent::send(world, vec![1u8; LARGE], 0, 1);
        let _ = sent.request.wait_for(Some(std::time::Duration::from_millis(5)));
    });
}
