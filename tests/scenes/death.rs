//! A rank dies in the middle of a large allreduce.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use collect::store::{Store, TcpServer, TcpStore};
use collect::{Error, World};

use super::{Running, barrier, eventually, join, patient, state_of};
use crate::ranks::{self, Ranks};

const SIZE: usize = 4;
/// 64 MiB.
const COUNT: usize = 8 << 20;

/// How it dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    /// By SIGKILL.
    Killed,
    /// By SIGKILL, and a child made by `fork(2)` lives on.
    Survived,
    /// By `exit`, without destroying anything.
    Exits,
}

/// The survivors are told who is gone, because its connections ended: nothing here has a deadline.
pub(crate) fn is_told(name: &str, victim: usize, death: Death) {
    if ranks::is_rank() {
        let world = join(SIZE, &patient()).unwrap();
        return if world.rank() == victim { die(&world, death) } else { survive(&world, victim) };
    }
    let told = [("victim", &*victim.to_string())];
    let mut processes = Ranks::spawn_told(name, SIZE, &told);
    let folder = processes.folder.clone();
    ranks::await_mark(&folder, "inside");
    if death != Death::Exits {
        processes.signal(victim, libc::SIGKILL);
    }
    let child = fs::read_to_string(folder.join("child")).ok();
    let child = child.map(|pid| Sleeper(pid.parse().unwrap()));
    let until = Instant::now() + ranks::DEADLINE;
    for rank in (0..SIZE).filter(|rank| *rank != victim) {
        let status = processes.wait(rank, until);
        assert!(status.success(), "rank {rank}, when {victim} was {death:?}: {status}");
    }
    processes.wait(victim, until);
    assert_eq!(child.is_some(), death == Death::Survived);
    if let Some(child) = child {
        assert!(state_of(child.0).is_some(), "the child was to live until here");
    }
}

/// The child of a victim, ended with the test.
struct Sleeper(u32);

impl Drop for Sleeper {
    fn drop(&mut self) {
        // SAFETY: takes no pointer. The process sleeps for longer than the test takes, so the number is its own.
        unsafe { libc::kill(i32::try_from(self.0).unwrap(), libc::SIGKILL) };
    }
}

fn die(world: &World, death: Death) {
    barrier(world).unwrap();
    if death == Death::Survived {
        let pid = sleeper();
        fs::write(ranks::folder().join("child"), pid.to_string()).unwrap();
    }
    loop {
        let running = Running::start_together(world, COUNT).unwrap();
        if running.is_in_the_middle() {
            if death == Death::Exits {
                ranks::mark("inside");
                std::process::exit(0);
            }
            ranks::mark("inside");
        }
        running.end(SIZE).unwrap();
    }
}

fn survive(world: &World, victim: usize) {
    barrier(world).unwrap();
    let error = loop {
        let outcome = Running::start_together(world, COUNT).and_then(|running| running.end(SIZE));
        if let Err(error) = outcome {
            break error;
        }
    };
    assert!(matches!(&error, Error::PeerLost { rank, .. } if *rank == victim), "{error}");
    let text = error.to_string();
    let seen = ["closed its connection", "reset by peer", "Broken pipe"];
    assert!(seen.iter().any(|seen| text.contains(seen)), "{text}");
    assert!(text.contains(&format!("rank {victim}")), "{text}");
    assert_eq!(barrier(world), Err(error), "later calls say the same");
}

/// The store's server dies while a client waits and a child of it lives: the client is told at once.
pub(crate) fn of_a_store_is_seen(name: &str) {
    if ranks::is_rank() {
        let door = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = TcpServer::start(door, None).unwrap();
        fs::write(ranks::folder().join("address"), server.address().to_string()).unwrap();
        ranks::await_mark(&ranks::folder(), "connected");
        fs::write(ranks::folder().join("child"), sleeper().to_string()).unwrap();
        ranks::mark("forked");
        loop {
            std::thread::park();
        }
    }
    let processes = Ranks::spawn(name, 1);
    let folder = processes.folder.clone();
    let address = || fs::read_to_string(folder.join("address")).unwrap_or_default();
    eventually("the server writes its address", || address().parse::<SocketAddr>().is_ok());
    let until = Instant::now() + ranks::DEADLINE;
    let store = TcpStore::connect(&address(), None, until).unwrap();
    ranks::mark_in(&folder, "connected");
    ranks::await_mark(&folder, "forked");
    let child = fs::read_to_string(folder.join("child")).unwrap();
    let child = Sleeper(child.parse().unwrap());
    std::thread::scope(|scope| {
        let get = scope.spawn(|| store.get("absent", until));
        std::thread::sleep(Duration::from_millis(50));
        processes.signal(0, libc::SIGKILL);
        let error = get.join().unwrap().unwrap_err();
        assert!(matches!(error, Error::Store(_)), "{error:?}");
    });
    let again = TcpStore::connect(&address(), None, Instant::now() + Duration::from_millis(300));
    let error = again.unwrap_err();
    assert!(error.to_string().contains("refused"), "{error:?}");
    assert!(state_of(child.0).is_some(), "the child was to live until here");
}

/// A child that does nothing, for as long as a test may take.
fn sleeper() -> libc::pid_t {
    // SAFETY: the child only sleeps and ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: takes no pointer.
        unsafe { libc::sleep(150) };
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) };
    }
    assert!(pid > 0);
    pid
}
