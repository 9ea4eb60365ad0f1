//! Peers whose hosts, or processes, say nothing any more.

use socket2::{SockFilter, SockRef};

use super::*;
use crate::link::handshake::Purpose;

/// From now on the kernel loses all that comes for this socket, as if the host were gone.
pub(super) fn drop_everything(socket: &impl AsFd) {
    const RETURN_NOTHING: SockFilter = SockFilter::new(6, 0, 0, 0);
    SockRef::from(socket).attach_filter(&[RETURN_NOTHING]).unwrap();
}

/// Two meshes with a link, whose ends bear silence for so long.
fn linked(silence: Option<Duration>) -> [TcpMesh; 2] {
    let mut ends: [TcpMesh; 2] = meshes(2).try_into().unwrap();
    ends.iter_mut().for_each(|mesh| mesh.silence = silence);
    ends[0].dial(1);
    let mut events = [Vec::new(), Vec::new()];
    let end = Instant::now() + PATIENCE;
    while events.iter().any(Vec::is_empty) {
        assert!(Instant::now() < end, "{ends:?}");
        for (mesh, events) in ends.iter_mut().zip(&mut events) {
            mesh.poll(Some(Duration::from_millis(1)), events).unwrap();
        }
    }
    ends
}

fn socket_of(mesh: &TcpMesh, peer: usize) -> &Socket {
    mesh.peers[peer].link.as_ref().unwrap()
}

/// The link to `peer` breaks, with ETIMEDOUT.
fn breaks(mesh: &mut TcpMesh, peer: usize) {
    until(mesh, |event| *event == Event::Readable(peer));
    let error = mesh.read(peer, &mut [IoSliceMut::new(&mut [0; 8])]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(110), "{error}");
}

#[test]
fn a_host_that_acknowledges_nothing_ends_the_link_and_its_address_stays_known() {
    for dialler in [0, 1] {
        let mut ends = linked(Some(Duration::from_millis(200)));
        let listens = ends[1 - dialler].listener.as_ref().unwrap().addresses().unwrap()[0];
        drop_everything(socket_of(&ends[1 - dialler], dialler));
        send(&mut ends[dialler], 1 - dialler, b"is anybody there");
        breaks(&mut ends[dialler], 1 - dialler);
        assert_eq!(ends[dialler].address(1 - dialler), listens.to_string());
    }
}

/// A process that is stopped reads nothing; its host says so for ever.
#[test]
fn a_process_that_takes_nothing_ends_the_link_too() {
    let mut ends = linked(Some(Duration::from_millis(200)));
    let data = vec![7; 1 << 20];
    while let Ok(count) = ends[0].write(1, &[IoSlice::new(&data)]) {
        assert!(count > 0);
    }
    breaks(&mut ends[0], 1);
}

#[test]
fn silence_is_limited_as_the_options_say() {
    let limit = Duration::from_millis(1234);
    for (silence, is_set) in [(Some(limit), true), (None, false)] {
        for (own, mesh) in linked(silence).iter().enumerate() {
            let set = SockRef::from(socket_of(mesh, 1 - own)).tcp_user_timeout().unwrap();
            assert_eq!(set.filter(|set| !set.is_zero()), is_set.then_some(limit));
        }
    }
    let given = listener("127.0.0.1");
    let there = TcpStream::connect(given.addresses().unwrap()[0]).unwrap();
    let options = MeshOptions {
        identity: identity(0, 2),
        listener: None,
        addresses: Vec::new(),
        links: vec![(1, Socket::new(there).unwrap())],
        // More than the kernel takes.
        silence: Some(Duration::from_secs(1 << 40)),
    };
    let mesh = TcpMesh::new(options).unwrap();
    let set = SockRef::from(socket_of(&mesh, 1)).tcp_user_timeout().unwrap();
    assert_eq!(set, Some(Duration::from_millis(i32::MAX as u64)));
}

/// Makes `half` go on, with the mesh at its other end, until it is authenticated.
fn shake_hands(mesh: &mut TcpMesh, half: &mut HalfOpen) {
    let end = Instant::now() + PATIENCE;
    let mut events = Vec::new();
    while half.advance().unwrap().is_none() {
        assert!(Instant::now() < end, "{mesh:?}");
        mesh.poll(Some(Duration::from_millis(1)), &mut events).unwrap();
        assert_eq!(events, []);
    }
}

/// A lower rank that has proved who it is and does not say whether this connection is the link.
#[test]
fn an_authenticated_peer_without_a_word_goes_in_time() {
    let mut mesh = meshes(2).remove(1);
    let target = mesh.listener.as_ref().unwrap().addresses().unwrap()[0];
    let mut half = HalfOpen::dial(target, &identity(0, 2), Purpose::Link, 1).unwrap();
    shake_hands(&mut mesh, &mut half);
    let mut events = Vec::new();
    while mesh.pending.find(|pending| pending.peer == Some(0)).is_none() {
        mesh.poll(Some(Duration::from_millis(10)), &mut events).unwrap();
    }
    mesh.start = mesh.start.checked_sub(mesh.dial_limit + HALF_OPEN_LIMIT).unwrap();
    mesh.poll(Some(Duration::from_millis(10)), &mut events).unwrap();
    assert_eq!((mesh.pending.iter().count(), mesh.half_open, events.len()), (0, 0, 0));
    assert_eq!(mesh.next_timer, u64::MAX);
}

#[test]
fn a_dialled_peer_without_a_word_is_named_with_what_it_did() {
    let door = listener("127.0.0.1");
    let address = door.addresses().unwrap()[0];
    let mut mesh = meshes(2).remove(1);
    mesh.peers[0].addresses = vec![address];
    mesh.dial_limit = Duration::from_millis(300);
    mesh.dial(0);
    let (stream, from) = loop {
        match door.accept() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            accepted => break accepted.unwrap(),
        }
    };
    let socket = Socket::new(stream).unwrap();
    let mut half = HalfOpen::accept(socket, from, &identity(0, 2), Purpose::Link).unwrap();
    shake_hands(&mut mesh, &mut half);
    let events = until(&mut mesh, |event| matches!(event, Event::Down(..)));
    let [Event::Down(0, Error::PeerLost { rank: 0, text })] = &events[..] else {
        panic!("{events:?}")
    };
    let said = format!("{address}: authenticated, but not told");
    assert!(text.contains(&said) && text.contains("within 300ms"), "{text}");
}
