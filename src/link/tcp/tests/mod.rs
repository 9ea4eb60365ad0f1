//! Meshes as threads on loopback.

mod crossing;
mod refusal;
mod silence;

use std::io::Write;
use std::net::TcpStream;
use std::thread;

use super::half_open::HalfOpen;
use super::listener::ListenOptions;
use super::*;
use crate::link::handshake::Key;

const RUN: [u8; 16] = [3; 16];
const PATIENCE: Duration = Duration::from_secs(20);

fn identity(rank: usize, size: usize) -> Identity {
    Identity { key: Key::new(b"secret", &RUN), run: RUN, rank, size }
}

fn listener(address: &str) -> Listener {
    Listener::bind(&ListenOptions { address: address.into(), port: 0 }).unwrap()
}

fn mesh(identity: Identity, listener: Listener, addresses: Vec<Vec<SocketAddr>>) -> TcpMesh {
    let (listener, links, silence) = (Some(listener), Vec::new(), Some(PATIENCE));
    TcpMesh::new(MeshOptions { identity, listener, addresses, links, silence }).unwrap()
}

fn meshes_at(address: &str, size: usize) -> Vec<TcpMesh> {
    let listeners: Vec<Listener> = (0..size).map(|_| listener(address)).collect();
    let addresses: Vec<_> = listeners.iter().map(|one| one.addresses().unwrap()).collect();
    let make = |(rank, one)| mesh(identity(rank, size), one, addresses.clone());
    listeners.into_iter().enumerate().map(make).collect()
}

fn meshes(size: usize) -> Vec<TcpMesh> {
    meshes_at("127.0.0.1", size)
}

/// Polls until an event passes, and returns all that came.
fn until(mesh: &mut TcpMesh, passes: impl Fn(&Event) -> bool) -> Vec<Event> {
    let (end, mut events) = (Instant::now() + PATIENCE, Vec::new());
    while !events.iter().any(&passes) {
        assert!(Instant::now() < end, "{events:?} in {mesh:?}");
        mesh.poll(Some(Duration::from_millis(100)), &mut events).unwrap();
    }
    events
}

fn idle(mesh: &mut TcpMesh, duration: Duration) -> Vec<Event> {
    let (end, mut events) = (Instant::now() + duration, Vec::new());
    while Instant::now() < end {
        mesh.poll(Some(Duration::from_millis(2)), &mut events).unwrap();
    }
    events
}

fn until_up(mesh: &mut TcpMesh, peer: usize) {
    until(mesh, |event| *event == Event::Up(peer));
}

fn send(mesh: &mut TcpMesh, peer: usize, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match mesh.write(peer, &[IoSlice::new(bytes)]) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                until(mesh, |event| *event == Event::Writable(peer));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Reads exactly `count` bytes, or fewer up to the peer's end.
fn receive(mesh: &mut TcpMesh, peer: usize, count: usize) -> Vec<u8> {
    let (mut bytes, mut filled) = (vec![0; count], 0);
    while filled < count {
        match mesh.read(peer, &mut [IoSliceMut::new(&mut bytes[filled..])]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                until(mesh, |event| *event == Event::Readable(peer));
            }
            Err(error) => panic!("{error}"),
        }
    }
    bytes.truncate(filled);
    bytes
}

fn in_threads(meshes: Vec<TcpMesh>, body: impl Fn(&mut TcpMesh) + Sync) {
    thread::scope(|scope| {
        for mut mesh in meshes {
            let body = &body;
            scope.spawn(move || body(&mut mesh));
        }
    });
}

/// Both dial; then each sends its rank, and reads the other's up to the end.
fn exchange(mesh: &mut TcpMesh, dials: impl Fn(usize, usize) -> bool) {
    let (own, size) = (mesh.identity.rank, mesh.identity.size);
    let others = || (0..size).filter(move |&peer| peer != own);
    others().filter(|&peer| dials(own, peer)).for_each(|peer| mesh.dial(peer));
    let mut up = vec![0; size];
    let (end, mut events) = (Instant::now() + PATIENCE, Vec::new());
    while up.iter().sum::<usize>() < size - 1 {
        assert!(Instant::now() < end, "{up:?} {mesh:?}");
        events.clear();
        mesh.poll(Some(Duration::from_millis(100)), &mut events).unwrap();
        for event in &events {
            match event {
                Event::Up(peer) => up[*peer] += 1,
                Event::Down(..) => panic!("{event:?}"),
                _ => {}
            }
        }
    }
    assert!(up.iter().all(|&count| count <= 1), "{up:?}");
    others().for_each(|peer| send(mesh, peer, &[own as u8]));
    others().for_each(|peer| assert_eq!(receive(mesh, peer, 1), [peer as u8]));
    others().for_each(|peer| mesh.shutdown(peer));
    others().for_each(|peer| assert_eq!(receive(mesh, peer, 1), [0u8; 0]));
}

#[test]
fn one_dial_makes_a_link_from_either_side() {
    for lower_dials in [true, false] {
        in_threads(meshes(2), |mesh| exchange(mesh, |own, peer| (own < peer) == lower_dials));
    }
}

#[test]
fn links_are_made_over_ipv6() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return eprintln!("skipped: this host has no IPv6");
    }
    for lower_dials in [true, false] {
        let all = meshes_at("::1", 2);
        in_threads(all, |mesh| exchange(mesh, |own, peer| (own < peer) == lower_dials));
    }
}

#[test]
fn four_ranks_that_all_dial_each_other_end_with_one_link_a_pair() {
    for _ in 0..5 {
        in_threads(meshes(4), |mesh| exchange(mesh, |_, _| true));
    }
}

#[test]
fn crossing_dials_end_with_one_link() {
    for _ in 0..200 {
        in_threads(meshes(2), |mesh| exchange(mesh, |_, _| true));
    }
}

#[test]
fn several_addresses_of_a_peer_end_with_one_link() {
    let mut all = meshes(2);
    for mesh in &mut all {
        for remote in &mut mesh.peers {
            let address = remote.addresses[0];
            remote.addresses = vec![address, "127.0.0.1:1".parse().unwrap(), address, address];
        }
    }
    in_threads(all, |mesh| exchange(mesh, |_, _| true));
}

#[test]
fn bytes_of_any_amount_pass_both_ways_at_once() {
    const BYTES: usize = 24 << 20;
    let pattern = |rank: usize, at: usize| (at * 31 + at / 4096 + rank * 7) as u8;
    in_threads(meshes(2), |mesh| {
        let own = mesh.identity.rank;
        let peer = 1 - own;
        mesh.dial(peer);
        until_up(mesh, peer);
        let data: Vec<u8> = (0..BYTES).map(|at| pattern(own, at)).collect();
        let (mut received, mut filled, mut sent, mut partial) = (vec![0; BYTES], 0, 0, 0);
        let (mut can_read, mut can_write, mut events) = (true, true, Vec::new());
        while filled < BYTES || sent < BYTES {
            if can_write && sent < BYTES {
                let (a, b) = data[sent..].split_at((BYTES - sent) / 3);
                match mesh.write(peer, &[IoSlice::new(a), IoSlice::new(b)]) {
                    Ok(count) => (sent, partial) = (sent + count, partial + 1),
                    Err(error) => (can_write, _) = (false, assert_would_block(&error)),
                }
            }
            if can_read && filled < BYTES {
                let (a, b) = received[filled..].split_at_mut(1.min(BYTES - filled));
                match mesh.read(peer, &mut [IoSliceMut::new(a), IoSliceMut::new(b)]) {
                    Ok(count) => filled += count,
                    Err(error) => (can_read, _) = (false, assert_would_block(&error)),
                }
            }
            let may_go_on = (can_read && filled < BYTES) || (can_write && sent < BYTES);
            if !may_go_on && (filled < BYTES || sent < BYTES) {
                events.clear();
                let limit = Duration::from_secs(5);
                mesh.poll(Some(limit), &mut events).unwrap();
                assert!(!events.is_empty(), "an edge was lost: {sent} sent, {filled} received");
                can_read |= events.contains(&Event::Readable(peer));
                can_write |= events.contains(&Event::Writable(peer));
            }
        }
        assert!(partial > 1, "the socket took everything at once");
        assert!(received.iter().enumerate().all(|(at, &byte)| byte == pattern(peer, at)));
    });
}

fn assert_would_block(error: &io::Error) {
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
}

#[test]
fn strangers_do_not_disturb() {
    let mut all = meshes(2);
    let target = all[1].peers[0].addresses[0];
    let mut held = Vec::new();
    for round in 0..300_u32 {
        let mut stranger = TcpStream::connect(target).unwrap();
        match round % 3 {
            0 => drop(stranger),
            1 => {
                let _ = stranger.write_all(&[round as u8; 200]);
                held.push(stranger);
            }
            _ => held.push(stranger),
        }
        if round % 50 == 0 {
            idle(&mut all[0], Duration::from_millis(1));
        }
    }
    in_threads(all, |mesh| {
        exchange(mesh, |own, _| own == 1);
        assert!(mesh.half_open <= HALF_OPEN_MAX);
    });
}

#[test]
fn the_oldest_half_open_connection_makes_room() {
    let mut mesh = meshes(2).remove(0);
    let target = mesh.listener.as_ref().unwrap().addresses().unwrap()[0];
    let strangers: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(target).unwrap()).collect();
    let events = idle(&mut mesh, Duration::from_millis(200));
    assert_eq!(events, []);
    assert_eq!(mesh.half_open, HALF_OPEN_MAX);
    assert!(mesh.may_come_up(1), "one of them might be rank 1");
    drop(strangers);
    idle(&mut mesh, Duration::from_millis(200));
    assert_eq!(mesh.half_open, 0);
    assert!(!mesh.may_come_up(1));
}

#[test]
fn a_silent_stranger_goes_in_time() {
    let mut mesh = meshes(2).remove(0);
    let target = mesh.listener.as_ref().unwrap().addresses().unwrap()[0];
    let _stranger = TcpStream::connect(target).unwrap();
    let mut events = Vec::new();
    while mesh.half_open == 0 {
        mesh.poll(Some(Duration::from_millis(50)), &mut events).unwrap();
    }
    mesh.start = mesh.start.checked_sub(HALF_OPEN_LIMIT).unwrap();
    mesh.poll(Some(Duration::from_millis(50)), &mut events).unwrap();
    assert_eq!((mesh.half_open, events.len(), mesh.next_timer), (0, 0, u64::MAX));
}

fn down_of(mesh: &mut TcpMesh, peer: usize) -> Error {
    mesh.dial_limit = Duration::from_millis(300);
    mesh.dial(peer);
    let events = until(mesh, |event| matches!(event, Event::Down(..)));
    match &events[..] {
        [Event::Down(at, error)] if *at == peer => error.clone(),
        _ => panic!("{events:?}"),
    }
}

#[test]
fn a_peer_of_another_version_is_named_with_both_versions() {
    use crate::link::handshake::{BYTES_MAX, Handshake, Purpose};
    let newer = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut mesh = meshes(2).remove(0);
    mesh.peers[1].addresses = vec![newer.local_addr().unwrap()];
    let answering = thread::spawn(move || {
        let (mut stream, _) = newer.accept().unwrap();
        let mut hello =
            Handshake::dial(&identity(1, 2), Purpose::Link, 0).unwrap().output().to_vec();
        hello[4..6].copy_from_slice(&7_u16.to_le_bytes());
        stream.write_all(&hello).unwrap();
        let _ = io::Read::read(&mut stream, &mut [0; BYTES_MAX]);
    });
    let start = Instant::now();
    mesh.dial_limit = PATIENCE;
    mesh.dial(1);
    let events = until(&mut mesh, |_| true);
    let [Event::Down(1, Error::Mismatch(text))] = &events[..] else { panic!("{events:?}") };
    assert!(text.contains("version 7") && text.contains("version 2"), "{text}");
    assert!(start.elapsed() < PATIENCE / 2, "it dialled on");
    answering.join().unwrap();
}

#[test]
fn a_link_that_breaks_with_bytes_under_way_gives_an_error_or_the_end() {
    in_threads(meshes(2), |mesh| {
        let peer = 1 - mesh.identity.rank;
        mesh.dial(peer);
        until_up(mesh, peer);
        if mesh.identity.rank == 0 {
            until(mesh, |event| *event == Event::Readable(peer));
            return; // Bytes are unread: the connection is reset.
        }
        send(mesh, peer, &[1; 1000]);
        let mut room = [0; 10];
        let end = Instant::now() + PATIENCE;
        loop {
            match mesh.read(peer, &mut [IoSliceMut::new(&mut room)]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(0) | Err(_) => break,
                Ok(count) => panic!("{count} bytes from nowhere"),
            }
            assert!(Instant::now() < end);
            mesh.poll(Some(Duration::from_millis(100)), &mut Vec::new()).unwrap();
        }
        mesh.close(peer);
    });
}

#[test]
fn a_wrong_key_or_a_second_bearer_of_a_rank_gets_no_link() {
    let wrong_key = Identity { key: Key::new(b"guess", &RUN), ..identity(0, 3) };
    for (intruder, target) in [(wrong_key, 1), (identity(1, 3), 1), (identity(0, 4), 1)] {
        let mut honest = meshes(3).remove(1);
        let addresses = vec![honest.listener.as_ref().unwrap().addresses().unwrap(); 3];
        let mut intruder = mesh(intruder, listener("127.0.0.1"), addresses);
        intruder.identity.size = intruder.identity.size.max(3);
        intruder.dial_limit = Duration::from_millis(200);
        intruder.dial(if intruder.identity.rank == target { 0 } else { target });
        let events = thread::scope(|scope| {
            let intruding = scope.spawn(|| until(&mut intruder, |_| true));
            let events = idle(&mut honest, Duration::from_millis(400));
            assert!(matches!(&intruding.join().unwrap()[..], [Event::Down(..)]));
            events
        });
        assert_eq!(events, []);
    }
}

#[test]
fn a_second_dialler_with_an_authentic_rank_gets_duplicate() {
    let mut all = meshes(2);
    let mut twin = mesh(identity(1, 2), listener("127.0.0.1"), {
        let addresses = all[0].listener.as_ref().unwrap().addresses().unwrap();
        vec![addresses.clone(), addresses]
    });
    let mut one = all.remove(1);
    let mut zero = all.remove(0);
    one.dial(0);
    thread::scope(|scope| {
        scope.spawn(|| until_up(&mut one, 0));
        until_up(&mut zero, 1);
    });
    twin.dial_limit = Duration::from_millis(200);
    twin.dial(0);
    thread::scope(|scope| {
        let twin = scope.spawn(|| until(&mut twin, |_| true));
        let events = idle(&mut zero, Duration::from_millis(300));
        assert!(!events.contains(&Event::Up(1)), "{events:?}");
        let events = twin.join().unwrap();
        let told = matches!(&events[..], [Event::Down(0, e)] if e.to_string().contains("another connection"));
        assert!(told, "{events:?}");
    });
}

#[test]
fn the_end_comes_after_all_bytes_and_a_dropped_peer_is_seen() {
    in_threads(meshes(2), |mesh| {
        let peer = 1 - mesh.identity.rank;
        mesh.dial(peer);
        until_up(mesh, peer);
        if mesh.identity.rank == 0 {
            send(mesh, peer, &[9; 100_000]);
            return; // The mesh is dropped.
        }
        assert_eq!(receive(mesh, peer, 200_000).len(), 100_000);
        assert_eq!(mesh.read(peer, &mut [IoSliceMut::new(&mut [0])]).unwrap(), 0);
        mesh.close(peer);
        let error = mesh.read(peer, &mut [IoSliceMut::new(&mut [0])]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
        assert_eq!(idle(mesh, Duration::from_millis(10)), []);
    });
}

#[test]
fn links_that_are_given_come_up_at_the_first_poll() {
    let front = listener("127.0.0.1");
    let there = TcpStream::connect(front.addresses().unwrap()[0]).unwrap();
    let (here, _) = front.accept().unwrap();
    let make = |rank, stream| {
        let links = vec![(1 - rank, Socket::new(stream).unwrap())];
        let (addresses, silence) = (Vec::new(), None);
        let identity = identity(rank, 2);
        TcpMesh::new(MeshOptions { identity, listener: None, addresses, links, silence }).unwrap()
    };
    in_threads(vec![make(0, here), make(1, there)], |mesh| exchange(mesh, |_, _| true));
}

#[test]
fn a_wake_ends_a_poll_and_is_not_lost_before_it() {
    let mut mesh = meshes(1).remove(0);
    let (waker, mut events) = (mesh.waker(), Vec::new());
    let start = Instant::now();
    for _ in 0..3 {
        waker.wake();
        waker.wake();
        mesh.poll(Some(PATIENCE), &mut events).unwrap();
    }
    for _ in 0..100 {
        thread::scope(|scope| {
            scope.spawn(|| waker.wake());
            mesh.poll(Some(PATIENCE), &mut events).unwrap();
        });
    }
    assert!(start.elapsed() < PATIENCE, "a wake was lost");
    waker.wake();
    mesh.poll(None, &mut events).unwrap();
    let start = mesh.now();
    mesh.poll(Some(Duration::from_millis(2)), &mut events).unwrap();
    assert!(mesh.now() - start >= 2_000_000, "a wake was heard twice");
    assert_eq!(events, []);
}
