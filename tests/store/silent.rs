//! Servers of the TCP store that stop: every call ends by its deadline, and says whose fault it is.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use collect::config::Timeout;
use collect::store::{FileStore, Store, TcpServer, TcpStore};
use collect::{Error, World, WorldOptions};

use crate::{Directory, child_command, generous};

/// Long enough for a server's silence to count against it.
fn fair() -> Instant {
    Instant::now() + Duration::from_millis(800)
}

/// A server in a process of its own, which can be stopped.
struct Served {
    process: Child,
    address: String,
    /// Later than anything takes.
    until: Instant,
    _directory: Directory,
}

impl Served {
    fn new() -> Self {
        let directory = Directory::new();
        let mut command = child_command("serve", directory.path().to_str().unwrap());
        let process = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let file = FileStore::open(directory.path()).unwrap();
        let address = String::from_utf8(file.get("address", generous()).unwrap()).unwrap();
        Self { process, address, until: generous(), _directory: directory }
    }

    /// Stops it, and waits until all of its threads have.
    fn stop(&self) {
        self.signal(libc::SIGSTOP);
        let tasks = format!("/proc/{}/task", self.process.id());
        let is_stopped = |task: &fs::DirEntry| {
            let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T"))
        };
        let all_are = || fs::read_dir(&tasks).unwrap().all(|task| is_stopped(&task.unwrap()));
        while !all_are() {
            assert!(Instant::now() < self.until, "the server does not stop");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn signal(&self, signal: i32) {
        let process = i32::try_from(self.process.id()).unwrap();
        // SAFETY: the process has not been waited for, so the number is still its own.
        assert_eq!(unsafe { libc::kill(process, signal) }, 0);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn must_blame<T: std::fmt::Debug>(outcome: Result<T, Error>, address: &str) {
    let Err(Error::Store(text)) = &outcome else { panic!("{outcome:?}") };
    assert!(text.contains(address) && text.contains("does not answer"), "{text}");
}

#[test]
fn a_server_that_is_stopped_is_blamed_by_every_call_and_serves_on_when_it_goes_on() {
    let served = Served::new();
    let address = &served.address;
    let store = TcpStore::connect(address, None, generous()).unwrap();
    store.set("k", b"v", generous()).unwrap();
    served.stop();
    // The first call has a connection, those after it make one each.
    must_blame(store.get("k", fair()), address);
    must_blame(store.set("k", b"w", fair()), address);
    must_blame(store.add("n", 1, fair()), address);
    must_blame(store.compare_and_set("k", None, b"x", fair()), address);
    must_blame(store.delete("k", fair()), address);
    let error = TcpStore::connect(address, None, fair()).unwrap_err();
    let told = matches!(&error, Error::TimedOut { text, .. } if text.contains("nobody answers"));
    assert!(told, "{error:?}");
    let timeout = Timeout::After(Duration::from_millis(800));
    for rank in 0..2 {
        let listen = Some("127.0.0.1".into());
        let options = WorldOptions { timeout, listen, ..WorldOptions::default() };
        must_blame(World::create(&store, rank, 2, &options), address);
    }
    served.signal(libc::SIGCONT);
    store.set("k", b"y", generous()).unwrap();
    assert_eq!(store.get("k", generous()).unwrap(), b"y");
}

#[test]
fn a_living_server_is_not_blamed_for_a_key_that_nobody_sets() {
    let served = Served::new();
    let store = TcpStore::connect(&served.address, None, generous()).unwrap();
    let error = store.get("absent", Instant::now() + Duration::from_secs(3)).unwrap_err();
    let told = matches!(&error, Error::TimedOut { text, .. } if text.contains("nobody has set it"));
    assert!(told, "{error:?}");
}

/// Copies until the end, or until so many bytes have gone; then holds what comes.
fn copy(mut from: TcpStream, mut to: TcpStream, allowed: &AtomicUsize) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let left = allowed.load(Ordering::Relaxed);
        let count = count.min(left);
        allowed.fetch_sub(count, Ordering::Relaxed);
        if to.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}

/// Stands between clients and a server. Replies go through as long as they are allowed.
fn relay(server: SocketAddr, allowed: &Arc<AtomicUsize>) -> SocketAddr {
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, allowed) = (door.local_addr().unwrap(), Arc::clone(allowed));
    thread::spawn(move || {
        while let Ok((client, _)) = door.accept() {
            let server = TcpStream::connect(server).unwrap();
            let (requests, replies) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let allowed = Arc::clone(&allowed);
            thread::spawn(move || copy(requests, server, &AtomicUsize::new(usize::MAX)));
            thread::spawn(move || copy(replies, client, &allowed));
        }
    });
    address
}

#[test]
fn a_server_that_stops_in_the_middle_of_a_reply_is_blamed() {
    let server = TcpServer::start(SocketAddr::from(([127, 0, 0, 1], 0)), None).unwrap();
    let allowed = Arc::new(AtomicUsize::new(usize::MAX));
    let address = relay(server.address(), &allowed).to_string();
    let store = TcpStore::connect(&address, None, generous()).unwrap();
    store.set("large", &vec![7; 1 << 20], generous()).unwrap();
    allowed.store(100_000, Ordering::Relaxed);
    let outcome = store.get("large", fair()).map(|value| value.len());
    assert!(format!("{outcome:?}").contains("in the middle of its reply"), "{outcome:?}");
    must_blame(outcome, &address);
    allowed.store(usize::MAX, Ordering::Relaxed);
    assert_eq!(store.get("large", generous()).unwrap().len(), 1 << 20);
}
