//! Peers whose hosts refuse connections: nobody listens there.

use super::*;

/// An address that refuses every connection, for as long as the socket is kept: nobody else gets it.
pub(super) fn refusing() -> (socket2::Socket, SocketAddr) {
    use socket2::{Domain, Protocol, Type};
    let socket = socket2::Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

#[test]
fn a_peer_that_refuses_several_times_has_gone() {
    let mut mesh = meshes(2).remove(0);
    let (_door, address) = refusing();
    let (_other_door, other) = refusing();
    mesh.peers[1].addresses = vec![address, other];
    mesh.dial_limit = Duration::MAX;
    mesh.dial(1);
    let events = until(&mut mesh, |event| matches!(event, Event::Down(..)));
    let [Event::Down(1, Error::PeerLost { rank: 1, text })] = &events[..] else {
        panic!("{events:?}")
    };
    let parts = [&*address.to_string(), &other.to_string(), "3 times in a row", "(os error 111)"];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    assert_eq!(idle(&mut mesh, Duration::from_millis(20)), []);
    assert_eq!((mesh.pending.iter().count(), mesh.next_timer), (0, u64::MAX));
    mesh.peers[1].addresses.clear();
    assert!(down_of(&mut mesh, 1).to_string().contains("no address"));
}

/// What is not refused at every address may come yet.
#[test]
fn a_peer_that_answers_at_one_address_is_not_given_up_for_another() {
    let mut mesh = meshes(2).remove(0);
    let (_door, refused) = refusing();
    let closing = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    mesh.peers[1].addresses = vec![refused, closing.local_addr().unwrap()];
    let closing = thread::spawn(move || (0..6).for_each(|_| drop(closing.accept().unwrap())));
    mesh.dial_limit = Duration::MAX;
    mesh.dial(1);
    let mut events = Vec::new();
    while !closing.is_finished() {
        mesh.poll(Some(Duration::from_millis(10)), &mut events).unwrap();
        assert_eq!(events, []);
    }
    closing.join().unwrap();
}

/// Late by less than what counts as gone: members listen before anybody learns where.
#[test]
fn a_peer_that_comes_late_is_reached() {
    let mut all = meshes(2);
    let mut late = all.remove(1);
    let address = late.listener.as_ref().unwrap().addresses().unwrap()[0];
    late.listener = None; // Nobody listens: refused.
    let mut early = all.remove(0);
    early.dial(1);
    while early.peers[1].dial.as_ref().is_some_and(|dial| dial.retry_at.is_none()) {
        let mut events = Vec::new();
        early.poll(Some(Duration::from_millis(1)), &mut events).unwrap();
        assert_eq!(events, []);
    }
    let text = address.to_string();
    let listener = Listener::bind(&ListenOptions { address: text, port: 0 }).unwrap();
    let addresses = late.peers.iter().map(|remote| remote.addresses.clone()).collect();
    let late = mesh(identity(1, 2), listener, addresses);
    in_threads(vec![early, late], |mesh| exchange(mesh, |_, _| false));
}
