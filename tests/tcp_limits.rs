//! An endpoint without a descriptor to spare goes on. Alone in its file: it changes the limit of the process.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use collect::link::handshake::{Identity, Key};
use collect::link::tcp::listener::{ListenOptions, Listener};
use collect::link::tcp::{MeshOptions, TcpMesh};
use collect::link::{Event, Mesh};

fn set_limit(descriptors: u64) {
    let limit = libc::rlimit { rlim_cur: descriptors, rlim_max: 1024 };
    // SAFETY: `limit` is readable.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
}

fn listener() -> Listener {
    Listener::bind(&ListenOptions { address: "127.0.0.1".into(), port: 0 }).unwrap()
}

#[test]
fn an_endpoint_out_of_descriptors_goes_on_and_recovers() {
    set_limit(1024);
    let listeners = [listener(), listener()];
    let addresses: Vec<_> = listeners.iter().map(|one| one.addresses().unwrap()).collect();
    let (run, target) = ([1; 16], addresses[0][0]);
    let [mut zero, mut one] = {
        let mut rank = 0..2;
        listeners.map(|listener| {
            let rank = rank.next().unwrap();
            let identity = Identity { key: Key::new(b"x", &run), run, rank, size: 2 };
            let (addresses, listener) = (addresses.clone(), Some(listener));
            let (links, silence) = (Vec::new(), None);
            let options = MeshOptions { identity, listener, addresses, links, silence };
            TcpMesh::new(options).unwrap()
        })
    };
    let strangers: Vec<_> = (0..5).map(|_| TcpStream::connect(target).unwrap()).collect();
    set_limit(3); // Everything above is taken: accept and socket fail.
    let (end, mut events, mut polls) = (Instant::now() + Duration::from_millis(300), Vec::new(), 0);
    one.dial(0);
    while Instant::now() < end {
        zero.poll(Some(Duration::from_millis(50)), &mut events).unwrap();
        one.poll(Some(Duration::ZERO), &mut events).unwrap();
        polls += 1;
    }
    assert_eq!(events, []);
    assert!(polls < 100, "{polls} polls: it spins");
    set_limit(1024);
    let end = Instant::now() + Duration::from_secs(10);
    while events.len() < 2 {
        assert!(Instant::now() < end, "{events:?}");
        zero.poll(Some(Duration::from_millis(5)), &mut events).unwrap();
        one.poll(Some(Duration::from_millis(5)), &mut events).unwrap();
        events.retain(|event| matches!(event, Event::Up(_) | Event::Down(..)));
    }
    assert!(events.contains(&Event::Up(0)) && events.contains(&Event::Up(1)), "{events:?}");
    drop(strangers);
}
