//! System calls that fail because something is short, or because a signal came: nothing that can be tried again fails,
//! the rest says what to raise, and the same call succeeds once there is enough.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ranks;
mod scarce;
mod scenes;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use collect::config::Timeout;
use collect::store::{FileStore, Store, TcpServer, TcpStore};
use collect::{
    Call, CallOptions, Datatype, Error, ForkOptions, Source, Target, World, WorldOptions,
};
use scarce::Faults;
use scenes::scarce as limits;
use scenes::{are_sums, barrier, entries, eventually, patient, sum, values};

/// A world over the store in the folder of the test.
fn join(name: &str, size: usize, timeout: Timeout) -> Result<World, Error> {
    let options = WorldOptions { name: name.into(), timeout, ..patient() };
    scenes::join(size, &options)
}

/// Collectives of several sizes, and messages around a ring.
fn use_it(world: &World) {
    let (size, rank) = (world.size(), world.rank());
    for count in [1, 1000, 300_000] {
        let mut numbers = values(rank, count);
        sum(world, &mut numbers, Timeout::Default).unwrap();
        assert!(are_sums(&numbers, size));
        let (sent, mut got) = (values(rank, count), vec![0; count]);
        let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
        let (source, target, datatype) = (Source::of(&sent), Target::of(&mut got), Datatype::U64);
        let send = Call::Send { source, datatype, to: next, tag: 5 };
        let receive = Call::Receive { target, datatype, from: Some(before), tag: 5 };
        world.sendrecv(&send, &receive, &CallOptions::default()).unwrap();
        assert!(got == values(before, count));
    }
}

/// Worlds over a store of each kind are made, forked, used and destroyed.
fn live(round: usize, size: usize) {
    let name = format!("round {round}");
    let folder = ranks::folder();
    let _server = (ranks::rank() == 0).then(|| {
        let server = TcpServer::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), None).unwrap();
        let draft = folder.join("draft");
        fs::write(&draft, server.address().to_string()).unwrap();
        fs::rename(draft, folder.join(&name)).unwrap();
        server
    });
    ranks::await_mark(&folder, &name);
    let address = fs::read_to_string(folder.join(&name)).unwrap();
    let until = Instant::now() + ranks::DEADLINE;
    let tcp = TcpStore::connect(&address, None, until).unwrap();
    let file = FileStore::open(folder.join("store")).unwrap();
    let stores: [&dyn Store; 2] = [&tcp, &file];
    for store in stores {
        let options = WorldOptions { name: name.clone(), ..patient() };
        let world = World::create(store, ranks::rank(), size, &options).unwrap();
        let fork = world.fork(&ForkOptions::default()).unwrap();
        use_it(&fork);
        drop(world);
        use_it(&fork);
        // The server must outlive the calls of the others.
        barrier(&fork).unwrap();
    }
}

/// Lives while every so manieth of these calls fails with this error; each of them must have failed at all.
fn live_with(name: &str, error: i32, calls: &[(&str, i64)]) {
    const SIZE: usize = 3;
    if !ranks::is_rank() {
        return scarce::run_and_look(name, SIZE, |folder| {
            for (call, _) in calls {
                let failed = |rank| fs::read_to_string(folder.join(format!("{call}.{rank}")));
                let any = (0..SIZE).any(|rank| failed(rank).unwrap() != "0");
                assert!(any, "no {call} has failed");
            }
        });
    }
    let faults = Faults::find();
    live(0, SIZE); // Opens what stays for the life of the process.
    let before = (entries("fd"), entries("task"));
    calls.iter().for_each(|(call, every)| faults.set(call, error, *every));
    (1..=3).for_each(|round| live(round, SIZE));
    faults.clear();
    for (call, _) in calls {
        let file = ranks::folder().join(format!("{call}.{}", ranks::rank()));
        fs::write(file, faults.failed(call).to_string()).unwrap();
    }
    eventually("ended threads are gone", || entries("task") <= before.1);
    assert_eq!((entries("fd"), entries("task")), before, "descriptors and threads");
}

#[test]
fn interrupted_calls_harm_nothing() {
    let calls = [
        ("accept4", 2),
        ("connect", 2),
        ("epoll_pwait2", 2),
        ("epoll_wait", 2),
        ("flock", 2),
        ("getrandom", 2),
        ("open64", 3),
        ("poll", 2),
        ("recv", 2),
        ("recvmsg", 2),
        ("send", 2),
        ("sendmsg", 2),
        ("write", 2),
    ];
    live_with("interrupted_calls_harm_nothing", libc::EINTR, &calls);
}

#[test]
fn transfers_without_buffers_go_on() {
    let calls = [("recv", 3), ("recvmsg", 5), ("send", 3), ("sendmsg", 5)];
    live_with("transfers_without_buffers_go_on", libc::ENOBUFS, &calls);
}

#[test]
fn transfers_without_memory_go_on() {
    let calls = [("poll", 3), ("recv", 3), ("recvmsg", 5), ("send", 3), ("sendmsg", 5)];
    live_with("transfers_without_memory_go_on", libc::ENOMEM, &calls);
}

/// What a rank lacks for good while a world is made: the call, the error, and what the message must hold.
const LACKS: [(&str, i32, &str); 11] = [
    ("socket", libc::EMFILE, "ulimit -n"),
    ("socket", libc::ENOBUFS, "memory"),
    ("bind", libc::EADDRINUSE, "ip_local_port_range"),
    ("epoll_create1", libc::EMFILE, "ulimit -n"),
    ("epoll_create1", libc::ENFILE, "fs.file-max"),
    ("epoll_ctl", libc::ENOSPC, "fs.epoll.max_user_watches"),
    ("epoll_ctl", libc::ENOMEM, "memory"),
    ("eventfd", libc::EMFILE, "ulimit -n"),
    ("pthread_create", libc::EAGAIN, "ulimit -u"),
    ("accept4", libc::EMFILE, "ulimit -n"),
    ("accept4", libc::ENOMEM, "memory"),
];

/// Both ranks have come here.
fn meet(mark: &str) {
    ranks::mark(&format!("{mark}.{}", ranks::rank()));
    ranks::await_mark(&ranks::folder(), &format!("{mark}.{}", 1 - ranks::rank()));
}

#[test]
fn a_creation_that_lacks_something_says_what_and_succeeds_when_it_is_back() {
    let name = "a_creation_that_lacks_something_says_what_and_succeeds_when_it_is_back";
    if !ranks::is_rank() {
        return scarce::run(name, 2);
    }
    let faults = Faults::find();
    drop(join("first", 2, Timeout::Never).unwrap());
    let before = (entries("fd"), entries("task"));
    for (at, (call, error, says)) in LACKS.into_iter().enumerate() {
        for victim in 0..2 {
            if call == "accept4" && victim == 1 {
                continue; // Nobody connects to it while the world is made.
            }
            let case = format!("{at}, rank {victim} lacks {call}");
            let is_victim = ranks::rank() == victim;
            if is_victim {
                faults.set(call, error, 1);
            }
            let timeout = Timeout::After(Duration::from_millis(1500));
            let made = join(&case, 2, timeout).and_then(|world| barrier(&world));
            faults.clear();
            let told = made.unwrap_err();
            if is_victim {
                assert!(
                    matches!(&told, Error::Resource(text) if text.contains(says)),
                    "{case}: {told:?}"
                );
            } else {
                let fault = told.rank().is_none_or(|rank| rank == victim);
                assert!(fault, "{case}: {told:?}");
            }
            meet(&format!("failed {case}"));
            barrier(&join(&format!("{case} no more"), 2, Timeout::Never).unwrap()).unwrap();
            eventually("ended threads are gone", || entries("task") <= before.1);
            assert_eq!((entries("fd"), entries("task")), before, "after {case}");
        }
    }
}

#[test]
fn a_first_link_that_lacks_something_says_what_and_names_the_rank() {
    const SIZE: usize = 4;
    const VICTIM: usize = 2;
    const LACKS: [(&str, i32, &str); 4] = [
        ("socket", libc::EMFILE, "ulimit -n"),
        ("connect", libc::ENOBUFS, "memory"),
        ("connect", libc::EADDRNOTAVAIL, "ip_local_port_range"),
        ("epoll_ctl", libc::ENOSPC, "fs.epoll.max_user_watches"),
    ];
    let name = "a_first_link_that_lacks_something_says_what_and_names_the_rank";
    if !ranks::is_rank() {
        return scarce::run(name, SIZE);
    }
    let faults = Faults::find();
    for (at, (call, error, says)) in LACKS.into_iter().enumerate() {
        let world = join(&format!("{at}"), SIZE, Timeout::Never).unwrap();
        let is_victim = world.rank() == VICTIM;
        if is_victim {
            faults.set(call, error, 1);
            // Else a link that another rank begins would do.
            faults.set("accept4", libc::EMFILE, 1);
        }
        let mut numbers = values(world.rank(), 1 << 20);
        let told = sum(&world, &mut numbers, Timeout::Default).unwrap_err();
        faults.clear();
        if is_victim {
            assert!(
                matches!(&told, Error::Resource(text) if text.contains(says)),
                "{call}: {told:?}"
            );
        } else {
            assert!(matches!(&told, Error::PeerLost { rank: VICTIM, .. }), "{call}: {told:?}");
        }
        drop(world);
        use_it(&join(&format!("{at} no more"), SIZE, Timeout::Never).unwrap());
    }
}

/// A rank that cannot accept for a while gets the links that others make when it can again. It does not spin meanwhile.
#[test]
fn a_first_link_waits_for_what_comes_back() {
    const SIZE: usize = 3;
    const REFUSED: i64 = 8;
    let name = "a_first_link_waits_for_what_comes_back";
    if !ranks::is_rank() {
        return scarce::run(name, SIZE);
    }
    let faults = Faults::find();
    let world = join("world", SIZE, Timeout::Never).unwrap();
    if world.rank() == 2 {
        faults.set("accept4", libc::EMFILE, 1);
        // It calls nothing itself, so that it does not dial.
        let begin = Instant::now();
        eventually("somebody calls", || faults.failed("accept4") >= REFUSED);
        // An accept that is refused is not made again at once: a slower machine takes longer yet.
        assert!(begin.elapsed() >= Duration::from_millis(15) * 7, "{:?}", begin.elapsed());
        faults.clear();
    }
    use_it(&world);
    assert_eq!(world.error(), None);
}

#[test]
fn a_first_link_waits_for_descriptors_that_come_back() {
    limits::first_link_waits_for_one("a_first_link_waits_for_descriptors_that_come_back");
}

#[test]
fn a_fork_needs_no_descriptor() {
    limits::a_fork_needs_none("a_fork_needs_no_descriptor");
}

#[test]
fn a_taken_port_is_named() {
    limits::taken_port_is_named();
}
