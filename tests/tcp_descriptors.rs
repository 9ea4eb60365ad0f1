//! A world's sockets are gone with it. Alone in its file: it counts the descriptors of the process.

use std::io::{IoSlice, IoSliceMut};
use std::thread;
use std::time::{Duration, Instant};

use collect::link::tcp::listener::ListenOptions;
use collect::link::tcp::{MeshOptions, TcpMesh};
use collect::link::{Event, Mesh};
use collect::rendezvous::{JoinOptions, Joined, Rules, join_with};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn run(size: usize) {
    let (barrier, values) =
        (std::sync::Barrier::new(size), std::sync::Mutex::new(vec![vec![]; size]));
    thread::scope(|scope| {
        for rank in 0..size {
            let (barrier, values) = (&barrier, &values);
            scope.spawn(move || {
                let options = JoinOptions {
                    name: "count".into(),
                    rank,
                    size,
                    options_hash: [0; 32],
                    deadline: Instant::now() + Duration::from_secs(20),
                    listen: ListenOptions { address: "127.0.0.1".into(), port: 0 },
                    token: Vec::new(),
                    rules: Rules::default(),
                };
                let mut exchange = |bytes: &[u8]| {
                    values.lock().unwrap()[rank] = bytes.to_vec();
                    barrier.wait();
                    Ok(values.lock().unwrap().clone())
                };
                let joined = join_with(&mut exchange, &options).unwrap();
                talk(joined, size);
                barrier.wait(); // A rank that leaves early would break links that others still make.
            });
        }
    });
}

fn talk(joined: Joined, size: usize) {
    let Joined { identity, listener, addresses, links, .. } = joined;
    let own = identity.rank;
    let options = MeshOptions { identity, listener, addresses, links, silence: None };
    let mut mesh = TcpMesh::new(options).unwrap();
    let others: Vec<usize> = (0..size).filter(|&peer| peer != own).collect();
    others.iter().for_each(|&peer| mesh.dial(peer));
    let (mut events, mut up) = (Vec::new(), 0);
    while up < others.len() {
        events.clear();
        mesh.poll(Some(Duration::from_secs(10)), &mut events).unwrap();
        up += events.iter().filter(|event| matches!(event, Event::Up(_))).count();
    }
    for &peer in &others {
        mesh.write(peer, &[IoSlice::new(b"x")]).unwrap();
        mesh.shutdown(peer);
    }
    for &peer in &others {
        let mut bytes = [0; 8];
        loop {
            match mesh.read(peer, &mut [IoSliceMut::new(&mut bytes)]) {
                Ok(0) => break,
                Ok(_) => {}
                Err(_) => mesh.poll(Some(Duration::from_secs(10)), &mut events).unwrap(),
            }
        }
    }
}

#[test]
fn a_world_leaves_no_descriptor_behind() {
    run(2); // Opens what stays for the life of the process.
    let before = descriptors();
    for _ in 0..10 {
        run(4);
    }
    assert_eq!(descriptors(), before);
}
