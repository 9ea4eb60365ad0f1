//! Reports about ranks that are gone before others come to them.

use std::fs;
use std::time::Instant;

use collect::config::{Timeout, Wait};
use collect::store::{FileStore, Store};
use collect::{Call, CallOptions, Datatype, Error, Source, Target, World, WorldOptions};

use super::{all_began, all_succeed, begin};
use crate::ranks::{self, Ranks};
use crate::scenes::stranger::doors;
use crate::scenes::{barrier, join, patient, sum, values};

const SIZE: usize = 4;

/// A world that starts without any link: through an allgather of the test's own.
fn join_without_links(size: usize, options: &WorldOptions) -> World {
    let store = FileStore::open(ranks::folder().join("exchange")).unwrap();
    let until = Instant::now() + ranks::DEADLINE;
    let mut exchange = |bytes: &[u8]| {
        store.set(&format!("{}", ranks::rank()), bytes, until)?;
        (0..size).map(|rank| store.get(&format!("{rank}"), until)).collect()
    };
    World::create_with(&mut exchange, ranks::rank(), size, options).unwrap()
}

/// Ends this process as if it had been killed: nothing is destroyed, no handler runs.
fn vanish() -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) }
}

/// A rank ends when the world is made; the others call their first collective, without a deadline, when it is gone.
fn is_named_at_once(name: &str, victim: usize, make: impl Fn() -> World) {
    if !ranks::is_rank() {
        let mut processes = Ranks::spawn(name, SIZE);
        let until = Instant::now() + ranks::DEADLINE;
        assert!(processes.wait(victim, until).success());
        ranks::mark_in(&processes.folder, "gone");
        for rank in (0..SIZE).filter(|rank| *rank != victim) {
            let status = processes.wait(rank, until);
            assert!(status.success(), "rank {rank} when {victim} was gone: {status}");
        }
        return all_began(name, &processes);
    }
    begin();
    let world = make();
    if world.rank() == victim {
        let [port] = doors()[..] else { panic!("{:?}", doors()) };
        fs::write(ranks::folder().join("port"), port.to_string()).unwrap();
        vanish();
    }
    ranks::await_mark(&ranks::folder(), "gone");
    let port: u16 = fs::read_to_string(ranks::folder().join("port")).unwrap().parse().unwrap();
    let mut numbers = values(world.rank(), 100_000);
    let error = sum(&world, &mut numbers, Timeout::Default).unwrap_err();
    assert!(matches!(&error, Error::PeerLost { rank, .. } if *rank == victim), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&format!("127.0.0.1:{port}")), "{port} is not in {text}");
    assert!(
        port == port.swap_bytes() || !text.contains(&format!(":{}", port.swap_bytes())),
        "{text}"
    );
    assert_eq!(barrier(&world), Err(error));
}

/// pytorch/gloo 520: on a lazily connected context, a peer that died before the first collective is waited for, five times
/// the time-out or for ever. pytorch/gloo 525: ports in errors are in the wrong order of bytes. Here the first who needs
/// the dead rank is refused, which is the end of it; the text has the port at which it listened.
#[test]
fn a_peer_that_died_before_the_first_collective_is_named_with_its_port() {
    let name = "gone::a_peer_that_died_before_the_first_collective_is_named_with_its_port";
    is_named_at_once(name, 2, || join(SIZE, &patient()).unwrap());
}

/// The same in a world that has no link at all when it begins.
#[test]
fn a_peer_that_died_before_the_first_link_of_any_is_named_with_its_port() {
    let name = "gone::a_peer_that_died_before_the_first_link_of_any_is_named_with_its_port";
    is_named_at_once(name, 1, || join_without_links(SIZE, &patient()));
}

fn send(world: &World, numbers: &[u64], to: usize, tag: u64) -> Result<(), Error> {
    let (source, datatype) = (Source::of(numbers), Datatype::U64);
    world.run(&Call::Send { source, datatype, to, tag }, &CallOptions::default())
}

fn receive(world: &World, numbers: &mut [u64], from: usize, tag: u64) -> Result<(), Error> {
    let (target, datatype) = (Target::of(numbers), Datatype::U64);
    world.run(&Call::Receive { target, datatype, from: Some(from), tag }, &CallOptions::default())
}

/// Counts whose messages need nobody at the other side: they are away when the send returns.
const SMALL: [usize; 4] = [0, 1, 1000, 4096];

/// pytorch/pytorch 75512, 78514, 61396: a rank that sends and ends at once makes the receiver fail. Here a world that is
/// destroyed has delivered what was sent, however late the receiver calls.
#[test]
fn a_message_sent_before_the_end_arrives() {
    const SENDER: usize = 1;
    let name = "gone::a_message_sent_before_the_end_arrives";
    if !ranks::is_rank() {
        let mut processes = Ranks::spawn(name, 3);
        let until = Instant::now() + ranks::DEADLINE;
        assert!(processes.wait(SENDER, until).success());
        ranks::mark_in(&processes.folder, "gone");
        assert!(processes.wait_all().iter().all(std::process::ExitStatus::success));
        return all_began(name, &processes);
    }
    begin();
    // Rank 0 has a link to the sender from the beginning, rank 2 has none.
    let world = join(3, &patient()).unwrap();
    if world.rank() == SENDER {
        for (tag, count) in SMALL.into_iter().enumerate() {
            for to in [0, 2] {
                send(&world, &values(SENDER, count), to, tag as u64).unwrap();
            }
        }
        return drop(world);
    }
    ranks::await_mark(&ranks::folder(), "gone");
    for (tag, count) in SMALL.into_iter().enumerate() {
        let mut numbers = vec![0; count];
        receive(&world, &mut numbers, SENDER, tag as u64).unwrap();
        assert!(numbers == values(SENDER, count));
    }
    // Who asks for more fails the world, so the other one must have its messages first.
    ranks::mark(&format!("through.{}", world.rank()));
    ranks::await_mark(&ranks::folder(), &format!("through.{}", 2 - world.rank()));
    let error = receive(&world, &mut [0], SENDER, 99).unwrap_err();
    assert!(matches!(error, Error::PeerLost { rank: SENDER, .. }), "{error:?}");
}

/// The same without an end of the world: the process is gone as soon as the send has returned. The receiver has the
/// message, or an error that names the sender.
#[test]
fn a_message_sent_before_sudden_death_arrives_whole_or_not_at_all() {
    const SENDER: usize = 1;
    let name = "gone::a_message_sent_before_sudden_death_arrives_whole_or_not_at_all";
    if !ranks::is_rank() {
        for round in 0..8_usize {
            let count = [1, 1000, 4096, 1 << 20][round % 4].to_string();
            let waits = (round / 4).to_string();
            let mut processes = Ranks::spawn_told(name, 3, &[("count", &count), ("waits", &waits)]);
            let until = Instant::now() + ranks::DEADLINE;
            assert!(processes.wait(SENDER, until).success());
            ranks::mark_in(&processes.folder, "gone");
            assert!(processes.wait_all().iter().all(std::process::ExitStatus::success));
            all_began(name, &processes);
        }
        return;
    }
    begin();
    let told = |file| fs::read_to_string(ranks::folder().join(file)).unwrap();
    let count: usize = told("count").parse().unwrap();
    // A large message needs its receiver: that one cannot wait for the end of the sender.
    let waits = told("waits") == "1" && count <= SMALL[3];
    let world = join(3, &WorldOptions { wait: Wait::Block, ..patient() }).unwrap();
    if world.rank() == SENDER {
        let _ = send(&world, &values(SENDER, count), 2, 7);
        vanish();
    }
    if world.rank() == 2 {
        if waits {
            ranks::await_mark(&ranks::folder(), "gone");
        }
        let mut numbers = vec![0; count];
        match receive(&world, &mut numbers, SENDER, 7) {
            Ok(()) => assert!(numbers == values(SENDER, count)),
            Err(error) => {
                assert!(matches!(error, Error::PeerLost { rank: SENDER, .. }), "{error:?}");
            }
        }
    }
    // What is left of the world says who it was.
    let error = barrier(&world).unwrap_err();
    assert!(matches!(error, Error::PeerLost { rank: SENDER, .. }), "{error:?}");
}

/// pytorch/gloo 155: a barrier, and the end of the context right behind it, fails some of the participants. Here whoever
/// has passed a barrier may go: the others pass it too.
#[test]
fn a_barrier_before_the_end_is_passed_by_all() {
    let name = "gone::a_barrier_before_the_end_is_passed_by_all";
    if !ranks::is_rank() {
        return all_succeed(name, 3);
    }
    begin();
    for round in 0..30 {
        let options = WorldOptions { name: format!("round {round}"), ..patient() };
        let world = join(3, &options).unwrap();
        barrier(&world).unwrap();
    }
}

/// The other side of it: a rank that still needs those that have left is told so at once.
#[test]
fn a_rank_that_calls_when_all_others_have_left_is_told_at_once() {
    let name = "gone::a_rank_that_calls_when_all_others_have_left_is_told_at_once";
    if !ranks::is_rank() {
        return all_succeed(name, 3);
    }
    begin();
    let world = join_without_links(3, &patient());
    if world.rank() != 2 {
        drop(world);
        return ranks::mark(&format!("left.{}", ranks::rank()));
    }
    (0..2).for_each(|rank| ranks::await_mark(&ranks::folder(), &format!("left.{rank}")));
    let error = barrier(&world).unwrap_err();
    assert!(matches!(error, Error::PeerLost { rank: 0 | 1, .. }), "{error:?}");
}
