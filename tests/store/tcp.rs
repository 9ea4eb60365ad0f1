//! The TCP store: strangers, tokens, ends and restarts of either side.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

use collect::Error;
use collect::store::{FileStore, Store, TcpServer, TcpStore};

use crate::{Directory, child_command, generous, soon, start_child};

const LOCAL: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

fn start(token: Option<&[u8]>) -> TcpServer {
    TcpServer::start(SocketAddr::from(LOCAL), token.map(<[u8]>::to_vec)).unwrap()
}

/// An address whose port no other test can get, since it is on a host of its own.
fn free_address(host: u8) -> SocketAddr {
    let host = SocketAddr::from(([127, 0, 77, host], 0));
    TcpServer::start(host, None).unwrap().address()
}

fn connect(server: &TcpServer) -> TcpStore {
    TcpStore::connect(&server.address().to_string(), None, generous()).unwrap()
}

/// Connects as somebody who speaks something else; no read of it waits for ever.
fn stranger(server: &TcpServer) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    stream
}

/// Reads until the server has closed the connection.
fn read_to_end(mut stream: TcpStream) -> usize {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(e) if e.kind() != std::io::ErrorKind::ConnectionReset => panic!("not closed: {e}"),
        _ => bytes.len(),
    }
}

/// Connects as somebody who knows the (empty) token, but may say anything then.
fn insider(server: &TcpServer) -> TcpStream {
    let mut stream = stranger(server);
    let mut greeting = [0; 56];
    stream.read_exact(&mut greeting).unwrap();
    let proof = <Hmac<Sha256> as Mac>::new_from_slice(&Sha256::digest(b"")).unwrap();
    let proof = proof.chain_update(b"libcollect store client").chain_update(greeting);
    let proof = proof.chain_update([9; 24]).finalize().into_bytes();
    stream.write_all(&[&b"COLSTOR\x01"[..], &[9; 24], &proof].concat()).unwrap();
    let mut verdict = [0; 33];
    stream.read_exact(&mut verdict).unwrap();
    assert_eq!(verdict[0], 0);
    stream
}

/// A request, whose kind and rest may be nonsense.
fn frame(kind: u8, key: &[u8], rest: &[u8]) -> Vec<u8> {
    let length = u32::try_from(3 + key.len() + rest.len()).unwrap().to_le_bytes();
    let key_bytes = u16::try_from(key.len()).unwrap().to_le_bytes();
    [&length[..], &[kind], &key_bytes, key, rest].concat()
}

/// Bytes without a pattern, the same in every run.
fn noise(seed: u64) -> impl Iterator<Item = u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::from_fn(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Some(state.to_le_bytes()[4])
    })
}

#[test]
fn all_forms_of_address_work() {
    let server = start(None);
    let port = server.address().port();
    for host in ["127.0.0.1", "localhost"] {
        let store = TcpStore::connect(&format!("{host}:{port}"), None, generous()).unwrap();
        store.add("connected", 1, generous()).unwrap();
        assert_eq!(store.description(), format!("tcp store {host}:{port}"));
    }
    match TcpServer::start("[::1]:0".parse().unwrap(), None) {
        Ok(server) => connect(&server).set("k", b"", generous()).unwrap(),
        Err(e) => println!("skipped: no IPv6 here: {e}"),
    }
    for bad in ["", "localhost", "localhost:x", "localhost:99999"] {
        let e = TcpStore::connect(bad, None, generous()).unwrap_err();
        assert!(matches!(e, Error::InvalidArgument(_)), "{bad}: {e}");
    }
}

#[test]
fn a_client_waits_for_its_server_to_start() {
    let address = free_address(1);
    thread::scope(|scope| {
        let client = scope.spawn(move || {
            let store = TcpStore::connect(&address.to_string(), None, generous()).unwrap();
            store.get("k", generous()).unwrap()
        });
        // So that the client is, most likely, refused at first.
        assert!(TcpStore::connect(&address.to_string(), None, soon()).is_err());
        let server = TcpServer::start(address, None).unwrap();
        connect(&server).set("k", b"v", generous()).unwrap();
        assert_eq!(client.join().unwrap(), b"v");
    });
}

#[test]
fn an_address_at_which_nobody_answers_is_named() {
    let address = free_address(2).to_string();
    let e = TcpStore::connect(&address, None, soon()).unwrap_err();
    let text = e.to_string();
    assert!(matches!(e, Error::TimedOut { .. }), "{text}");
    assert!(text.contains(&address) && text.contains("nobody answers"), "{text}");
    assert!(text.contains("refused"), "{text}");
    // Somebody who never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let e = TcpStore::connect(&address, None, soon()).unwrap_err();
    assert!(matches!(&e, Error::TimedOut { text, .. } if text.contains("nobody answers")), "{e}");
}

#[test]
fn who_answers_but_is_no_store_is_told_from_one() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::scope(|scope| {
        scope.spawn(|| {
            for greeting in [b"HTTP/1.1".to_vec(), b"COLSTOR\x09".to_vec()] {
                let mut stream = listener.accept().unwrap().0;
                stream.write_all(&[greeting, vec![0; 48]].concat()).unwrap();
                read_to_end(stream);
            }
        });
        for expected in ["no store of libcollect", "version 9"] {
            let e = TcpStore::connect(&address, None, generous()).unwrap_err();
            assert!(matches!(&e, Error::Store(text) if text.contains(expected)), "{e}");
        }
    });
}

#[test]
fn a_server_answers_nobody_without_the_token() {
    let server = start(Some(b"right"));
    let address = server.address().to_string();
    for token in [None, Some(b"wrong".to_vec()), Some(b"right\0".to_vec())] {
        let e = TcpStore::connect(&address, token, generous()).unwrap_err();
        let text = e.to_string();
        assert!(matches!(e, Error::Store(_)), "{text}");
        assert!(text.contains("wrong token") && !text.contains("right"), "{text}");
    }
    let store = TcpStore::connect(&address, Some(b"right".to_vec()), generous()).unwrap();
    store.set("k", b"v", generous()).unwrap();
    assert!(!format!("{store:?} {server:?}").contains("right"));
    // A client with a token must not speak to a server without one, either.
    let open = start(None);
    let e = TcpStore::connect(&open.address().to_string(), Some(b"x".to_vec()), generous());
    assert!(matches!(&e, Err(Error::Store(text)) if text.contains("wrong token")), "{e:?}");
    assert!(matches!(TcpServer::start(LOCAL.into(), Some(vec![])), Err(Error::InvalidArgument(_))));
}

#[test]
fn a_server_that_only_claims_to_know_the_token_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = listener.accept().unwrap().0;
            stream.write_all(&[b"COLSTOR\x01".to_vec(), vec![7; 48]].concat()).unwrap();
            let mut hello = [0; 64];
            stream.read_exact(&mut hello).unwrap();
            // Sends the client's own proof back.
            stream.write_all(&[&[0], &hello[32..]].concat()).unwrap();
            read_to_end(stream);
        });
        let e = TcpStore::connect(&address, Some(b"t".to_vec()), generous()).unwrap_err();
        assert!(matches!(&e, Error::Store(text) if text.contains("wrong token")), "{e}");
    });
}

#[test]
fn strangers_are_closed_and_disturb_nobody() {
    let server = start(None);
    let store = connect(&server);
    store.set("k", b"v", generous()).unwrap();
    let mut silent = Vec::new();
    for seed in 0..40 {
        // A port scanner.
        drop(stranger(&server));
        silent.push(stranger(&server));
        let mut garbage = stranger(&server);
        let bytes: Vec<u8> = noise(seed).take(1 + usize::try_from(seed).unwrap() * 8).collect();
        // The server may have closed it before everything is written.
        let _ = garbage.write_all(&bytes);
        let _ = garbage.write_all(b"GET / HTTP/1.1\r\n\r\n");
        assert!(read_to_end(garbage) <= 56, "only the greeting is told");
        assert_eq!(store.get("k", generous()).unwrap(), b"v");
    }
    // A right start, and a wrong proof: told so, with no store's content.
    let mut wrong = stranger(&server);
    wrong.write_all(&[&b"COLSTOR\x01"[..], &[0; 56]].concat()).unwrap();
    wrong.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(wrong), 56 + 33);
    // Those who say nothing are closed in time.
    for stream in silent {
        assert_eq!(read_to_end(stream), 56);
    }
    assert_eq!(connect(&server).get("k", generous()).unwrap(), b"v");
}

#[test]
fn nonsense_of_a_client_with_the_token_ends_its_connection_only() {
    let server = start(None);
    let store = connect(&server);
    store.set("k", b"v", generous()).unwrap();
    let get = frame(2, b"absent", b"");
    let nonsense = [
        0_u32.to_le_bytes().to_vec(),
        u32::MAX.to_le_bytes().to_vec(),
        ((16 << 20) + (1 << 10) + 65_u32).to_le_bytes().to_vec(),
        frame(0, b"k", b""),
        frame(6, b"k", b""),
        frame(2, b"k", b"rest"),
        frame(3, b"k", b"seven b"),
        frame(4, b"k", &[0; 40]),
        frame(4, b"k", &[2; 41]),
        frame(1, b"\xff", b"no text"),
        [&3_u32.to_le_bytes()[..], &[2, 255, 255]].concat(),
        // A next request while the first one waits.
        [&get[..], &get].concat(),
    ];
    for (i, bytes) in nonsense.iter().enumerate() {
        let mut stream = insider(&server);
        stream.write_all(bytes).unwrap();
        assert_eq!(read_to_end(stream), 0, "nonsense {i}");
    }
    for seed in 0..200 {
        let bytes: Vec<u8> = noise(seed).take(64).collect();
        let mut stream = insider(&server);
        let body =
            [&64_u32.to_le_bytes()[..], &[u8::try_from(seed % 6).unwrap(), 1, 0], &bytes[3..]];
        stream.write_all(&body.concat()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        read_to_end(stream);
    }
    // A well-formed request of a bad key, byte by byte, is refused with a reason.
    let mut stream = insider(&server);
    for byte in frame(2, b"", b"") {
        stream.write_all(&[byte]).unwrap();
    }
    let mut reply = [0; 5];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply[4], 4);
    // One that announces much and sends little costs little, and is not waited for.
    let mut silent = insider(&server);
    silent.write_all(&(16_u32 << 20).to_le_bytes()).unwrap();
    assert_eq!(store.get("k", generous()).unwrap(), b"v");
}

#[test]
fn an_occupied_address_is_named() {
    let server = start(None);
    let e = TcpServer::start(server.address(), None).unwrap_err();
    let text = e.to_string();
    assert!(matches!(e, Error::Store(_)), "{text}");
    assert!(text.contains(&server.address().to_string()) && text.contains("in use"), "{text}");
}

#[test]
fn the_end_of_the_server_is_an_error_and_a_restart_too() {
    let server = TcpServer::start(free_address(3), None).unwrap();
    let address = server.address();
    let (waiting, calling, idle) = (connect(&server), connect(&server), connect(&server));
    thread::scope(|scope| {
        let get = scope.spawn(|| waiting.get("never", generous()));
        calling.set("k", b"v", generous()).unwrap();
        assert!(calling.get("never", soon()).is_err());
        drop(server);
        let e = get.join().unwrap().unwrap_err();
        assert!(matches!(&e, Error::Store(text) if text.contains("gone")), "{e}");
    });
    let e = calling.set("k", b"w", generous()).unwrap_err();
    assert!(matches!(&e, Error::Store(text) if text.contains("gone")), "{e}");
    let server = TcpServer::start(address, None).unwrap();
    for store in [&waiting, &calling, &idle] {
        // An old connection's end, then a new one to another server.
        let errors =
            [store.get("k", generous()).unwrap_err(), store.get("k", generous()).unwrap_err()];
        assert!(matches!(&errors[1], Error::Store(text) if text.contains("anew")), "{errors:?}");
    }
    assert_eq!(connect(&server).add("k", 1, generous()), Ok(1));
}

#[test]
fn a_waiting_get_does_not_hold_other_threads_of_its_client() {
    let server = start(None);
    let store = connect(&server);
    thread::scope(|scope| {
        let gets = [(); 20].map(|()| scope.spawn(|| store.get("last", generous()).unwrap()));
        for i in 1..=100 {
            assert_eq!(store.add("n", 1, generous()), Ok(i));
        }
        store.set("last", b"v", generous()).unwrap();
        assert!(gets.into_iter().all(|get| get.join().unwrap() == b"v"));
    });
}

pub(crate) fn child_waits_for_a_key(address: &str) {
    let store = TcpStore::connect(address, None, generous()).unwrap();
    store.get("absent", soon()).unwrap_err();
    println!("\nready");
    store.get("absent", generous()).unwrap();
}

#[test]
fn clients_that_are_gone_are_forgotten() {
    let server = start(None);
    let mut child = start_child("wait for a key", &server.address().to_string());
    child.kill().unwrap();
    child.wait().unwrap();
    let store = connect(&server);
    for _ in 0..10 {
        assert!(matches!(store.get("absent", soon()), Err(Error::TimedOut { .. })));
    }
    let large = vec![1; 1 << 20];
    store.set("absent", &large, generous()).unwrap();
    assert!(store.get("absent", generous()).unwrap() == large);
}

#[test]
fn a_client_that_does_not_read_holds_nobody() {
    let server = start(None);
    let store = connect(&server);
    let large = vec![1; 16 << 20];
    store.set("large", &large, generous()).unwrap();
    // It gives up while the reply is on its way, again and again.
    for _ in 0..20 {
        let _ = store.get("large", Instant::now() + Duration::from_millis(1));
    }
    assert!(store.get("large", generous()).unwrap() == large);
}

pub(crate) fn child_serves(path: &str) {
    let store = FileStore::open(path).unwrap();
    let server = start(None);
    store.set("address", server.address().to_string().as_bytes(), generous()).unwrap();
    // Until the parent closes it: to look for a file would need a descriptor, and strangers have them all.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Runs a server in a process that may open `descriptors` files, opens `strangers` silent connections to it, and checks
/// that clients are served all the same.
fn crowd(descriptors: usize, strangers: usize) {
    let directory = Directory::new();
    let child = child_command("serve", directory.path().to_str().unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -n {descriptors}; exec \"$@\""), "sh"]);
    shell.arg(child.get_program()).args(child.get_args());
    shell.stdin(Stdio::piped()).stdout(Stdio::null());
    shell.envs(child.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut child = shell.spawn().unwrap();
    let file = FileStore::open(directory.path()).unwrap();
    let address = String::from_utf8(file.get("address", generous()).unwrap()).unwrap();
    let early = TcpStore::connect(&address, None, generous()).unwrap();
    let crowd: Vec<_> = (0..strangers).map(|_| TcpStream::connect(&address).unwrap()).collect();
    for i in 1..=5 {
        let late = TcpStore::connect(&address, None, generous()).unwrap();
        assert_eq!(late.add("n", 1, generous()), Ok(2 * i - 1));
        assert_eq!(early.add("n", 1, generous()), Ok(2 * i));
    }
    drop(crowd);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn clients_are_served_when_strangers_have_taken_all_descriptors() {
    crowd(64, 100);
}

#[test]
fn clients_are_served_when_strangers_have_taken_all_connections() {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    match limit.split_whitespace().next().unwrap().parse::<usize>() {
        Ok(limit) if limit < 6000 => println!("skipped: only {limit} files may be opened here"),
        _ => crowd(5000, 4200),
    }
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

pub(crate) fn child_has_many_clients() {
    let before = threads();
    let server = start(None);
    let stores: Vec<TcpStore> = (0..200).map(|_| connect(&server)).collect();
    for (i, store) in (1..).zip(&stores) {
        assert_eq!(store.add("n", 1, generous()), Ok(i));
    }
    assert_eq!(threads(), before + 1);
    let name = format!("store-{}\n", server.address().port());
    let task = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let ours: Vec<_> =
        task.filter(|t| std::fs::read_to_string(t.join("comm")).unwrap() == name).collect();
    let status = std::fs::read_to_string(ours[0].join("status")).unwrap();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
    // SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGALRM, SIGTERM, SIGCHLD, SIGPROF.
    let blocked = u64::from_str_radix(blocked.trim(), 16).unwrap();
    for signal in [1, 2, 3, 10, 14, 15, 17, 27] {
        assert_ne!(blocked & (1 << (signal - 1)), 0, "signal {signal} may run on the thread");
    }
    drop(server);
    assert_eq!(threads(), before);
    // No descriptor of ours is inherited by a program that the process starts.
    let server = start(None);
    let store = connect(&server);
    store.set("k", b"", generous()).unwrap();
    let listing = std::process::Command::new("ls").args(["-l", "/proc/self/fd"]).output().unwrap();
    let listing = String::from_utf8(listing.stdout).unwrap();
    assert!(!listing.contains("socket:"), "{listing}");
}

#[test]
fn many_clients_need_one_thread_of_the_server() {
    let output = child_command("many clients", "").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
