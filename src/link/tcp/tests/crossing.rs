//! Dials of both ends of a pair, where the way of one or of both is blocked, in every combination.
//!
//! Both ends are polled in turn by one thread: who has met what, when the other begins, does not depend on the machine.

use super::refusal::refusing;
use super::silence::drop_everything;
use super::*;

/// What stands between one end and the door of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Open,
    /// The host says that nobody listens there.
    Refused,
    /// Nothing answers: the packets are lost.
    Lost,
    /// Somebody takes the connection, and never answers the handshake.
    Mute,
}

const WAYS: [Way; 4] = [Way::Open, Way::Refused, Way::Lost, Way::Mute];

/// Who wants the link first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    Lower,
    Higher,
    Both,
}

/// The door that one end finds for the other; what makes it lives as long.
struct Door {
    address: SocketAddr,
    _held: Option<socket2::Socket>,
}

fn door(way: Way, open: SocketAddr) -> Door {
    if way == Way::Open {
        return Door { address: open, _held: None };
    }
    let (socket, address) = refusing();
    match way {
        Way::Lost => {
            drop_everything(&socket);
            socket.listen(16).unwrap();
        }
        Way::Mute => socket.listen(16).unwrap(),
        Way::Open | Way::Refused => {}
    }
    Door { address, _held: Some(socket) }
}

/// The two ends, and all that has happened to each.
struct Pair {
    ends: [TcpMesh; 2],
    events: [Vec<Event>; 2],
}

impl Pair {
    /// Polls both in turn until something holds.
    fn until(&mut self, holds: impl Fn(&Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(Instant::now() < end, "{:?} in {:?}", self.events, self.ends);
            for (mesh, events) in self.ends.iter_mut().zip(&mut self.events) {
                mesh.poll(Some(Duration::from_micros(500)), events).unwrap();
            }
        }
    }

    /// Both dial, in this order; who is second begins when the first has met the way that it has.
    fn dial(&mut self, first: First, ways: [Way; 2]) {
        let [one, other] = if first == First::Higher { [1, 0] } else { [0, 1] };
        self.ends[one].dial(other);
        if first != First::Both {
            self.until(|pair| pair.has_met(one, other, ways[one]));
        }
        self.ends[other].dial(one);
    }

    /// Whether an end that dials has learnt all that it will soon.
    fn has_met(&self, own: usize, peer: usize, way: Way) -> bool {
        let remote = &self.ends[own].peers[peer];
        let Some(dial) = &remote.dial else { return true };
        match way {
            Way::Open => remote.link.is_some(),
            Way::Refused => dial.retry_at.is_some(),
            Way::Lost => true,
            Way::Mute => {
                self.ends[own].pending.iter().any(|(_, it)| it.half.awaits().contains("handshake"))
            }
        }
    }
}

fn pair(ways: [Way; 2], limit: Duration) -> (Pair, [Door; 2]) {
    let mut ends: [TcpMesh; 2] = meshes(2).try_into().unwrap();
    let doors = [0, 1].map(|own: usize| {
        let peer = 1 - own;
        let door = door(ways[own], ends[own].peers[peer].addresses[0]);
        ends[own].peers[peer].addresses = vec![door.address];
        // Who is refused need not wait for the limit.
        ends[own].dial_limit = if ways[own] == Way::Refused { Duration::MAX } else { limit };
        door
    });
    (Pair { ends, events: [Vec::new(), Vec::new()] }, doors)
}

/// One way is open: the link comes up, once, at both ends.
fn comes_up(ways: [Way; 2], first: First) {
    let (mut pair, _doors) = pair(ways, Duration::MAX);
    pair.dial(first, ways);
    pair.until(|pair| pair.events.iter().all(|events| !events.is_empty()));
    for (own, mesh) in pair.ends.iter_mut().enumerate() {
        send(mesh, 1 - own, &[own as u8]);
    }
    for (own, mesh) in pair.ends.iter_mut().enumerate() {
        assert_eq!(receive(mesh, 1 - own, 1), [1 - own as u8]);
    }
    let ups = |events: &Vec<Event>| events.iter().filter(|it| matches!(it, Event::Up(_))).count();
    let downs = |events: &Vec<Event>| events.iter().any(|it| matches!(it, Event::Down(..)));
    assert_eq!(pair.events.each_ref().map(ups), [1, 1], "{ways:?} {first:?}: {:?}", pair.events);
    assert!(!pair.events.iter().any(downs), "{ways:?} {first:?}: {:?}", pair.events);
    for mesh in &pair.ends {
        assert!(mesh.dialling.is_empty() && mesh.pending.iter().count() == 0, "{mesh:?}");
    }
}

/// No way is open: both ends say so by the limit, with the address and what they have met there.
fn fails(ways: [Way; 2], first: First) {
    let (mut pair, doors) = pair(ways, Duration::from_millis(250));
    pair.dial(first, ways);
    pair.until(|pair| pair.events.iter().all(|events| !events.is_empty()));
    for (own, events) in pair.events.iter().enumerate() {
        let [Event::Down(peer, Error::PeerLost { rank, text })] = &events[..] else {
            panic!("{ways:?} {first:?}: {events:?}")
        };
        assert!(*peer == 1 - own && *rank == 1 - own, "{events:?}");
        let met = match ways[own] {
            Way::Open => unreachable!("an open way"),
            Way::Refused => "3 times in a row",
            Way::Lost => "no answer to the connection",
            Way::Mute => "the handshake was not answered",
        };
        let address = doors[own].address.to_string();
        assert!(text.contains(&address) && text.contains(met), "{ways:?} {first:?}: {text}");
    }
    for mesh in &pair.ends {
        assert!(mesh.dialling.is_empty() && mesh.pending.iter().count() == 0, "{mesh:?}");
    }
}

#[test]
fn a_link_comes_up_wherever_one_way_is_open_and_fails_with_the_cause_elsewhere() {
    for lower in WAYS {
        for higher in WAYS {
            for first in [First::Lower, First::Higher, First::Both] {
                let ways = [lower, higher];
                if ways.contains(&Way::Open) { comes_up(ways, first) } else { fails(ways, first) }
            }
        }
    }
}

/// The kernel drops the first packet of connections for which the listener's queue has no room.
#[test]
fn a_door_with_a_full_queue_is_no_answer() {
    let (socket, address) = refusing();
    socket.listen(0).unwrap();
    let mut queued = Vec::new();
    let is_full = |queued: &mut Vec<TcpStream>| {
        let dialled = TcpStream::connect_timeout(&address, Duration::from_millis(100));
        dialled.map(|stream| queued.push(stream)).is_err()
    };
    while !is_full(&mut queued) {
        assert!(queued.len() < 100, "the queue has no end");
    }
    let mut mesh = meshes(2).remove(0);
    mesh.peers[1].addresses = vec![address];
    let error = down_of(&mut mesh, 1).to_string();
    assert!(error.contains(&format!("{address}: no answer to the connection")), "{error}");
}
