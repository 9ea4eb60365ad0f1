//! Ends that connect and then say nothing: every creation ends by its deadline, and says who it was.

use std::net::TcpStream;

use socket2::SockRef;

use super::super::message::{JOIN, Outbox};
use super::super::reach::reach;
use super::*;
use crate::link::handshake::Purpose;
use crate::link::syscall::poll;
use crate::link::tcp::half_open::HalfOpen;

/// Between two looks.
const MOMENT: Duration = Duration::from_millis(1);

/// What rank 0 has left in the store, once it has.
fn record(store: &Memory) -> Record {
    let bytes = store.get("collect/train", Instant::now() + Duration::from_secs(20)).unwrap();
    Record::read(&bytes).unwrap()
}

/// A connection of `rank` to rank 0 that has passed the handshake.
fn call(store: &Memory, rank: usize, size: usize) -> HalfOpen {
    let (record, options) = (record(store), options(rank, size));
    let identity = options.identity(record.run, &record.secret);
    let until = Instant::now() + Duration::from_secs(20);
    reach(&record.entry.addresses, &identity, Purpose::Join, until).unwrap()
}

/// Runs rank 0 of two, which has 2 s, while somebody is connected to it; returns its error.
fn error_of_rank_0<T>(options: JoinOptions, connect: impl Fn(&Memory) -> T) -> (Error, T) {
    let store = Memory::default();
    thread::scope(|scope| {
        let rank_0 = scope.spawn(|| join(&store, &options));
        let connection = connect(&store);
        let error = rank_0.join().unwrap().unwrap_err();
        assert!(store.keys.lock().is_empty(), "a failed run leaves its record");
        (error, connection)
    })
}

fn assert_late(error: &Error, rank: usize, parts: &[&str]) {
    let Error::TimedOut { rank: Some(named), text } = error else { panic!("{error:?}") };
    assert!(*named == rank && parts.iter().all(|part| text.contains(part)), "{error:?}");
}

#[test]
fn a_connection_that_says_nothing_is_nobody() {
    let (error, _stream) = error_of_rank_0(within(options(0, 2), 2000), |store| {
        TcpStream::connect(record(store).entry.addresses[0]).unwrap()
    });
    assert_late(&error, 1, &["1 of 2 ranks have not come", ": 1;"]);
}

#[test]
fn a_member_that_falls_silent_after_the_handshake_is_named_with_its_address() {
    let (error, half) = error_of_rank_0(within(options(0, 2), 2000), |store| call(store, 1, 2));
    let from = SockRef::from(&half).local_addr().unwrap().as_socket().unwrap();
    assert_late(&error, 1, &[&format!(": 1 (called from {from}, then fell silent);")]);
}

/// The table is too large for the sockets' buffers, and the member, which is stopped, does not read it.
#[test]
fn a_member_that_does_not_take_the_table_is_named() {
    let mut all = within(options(0, 2), 3000);
    all.rules.text = "#".repeat(32 << 20);
    let (error, _socket) = error_of_rank_0(all, |store| {
        let options = options(1, 2);
        let entry = Entry { host: host_identity(), addresses: Vec::new() };
        let (socket, mut outbox) = (call(store, 1, 2).into_socket(), Outbox::default());
        outbox.put(JOIN, &options.member(entry).write());
        assert!(outbox.flush(&socket).unwrap());
        socket
    });
    assert_late(&error, 1, &["rank 1 does not take the table"]);
}

/// A member of two that finds this address in the store.
fn error_of_member(address: SocketAddr) -> Error {
    let store = Memory::default();
    store.keys.lock().insert("collect/train".into(), stale_record(address));
    join(&store, &within(options(1, 2), 2000)).unwrap_err()
}

#[test]
fn a_rank_0_that_never_answers_is_named_with_what_it_did() {
    let mute = Listener::bind(&options(0, 2).listen).unwrap(); // Accepts in the kernel only.
    let address = mute.addresses().unwrap()[0];
    let error = error_of_member(address);
    let met = format!("{address}: connected, but the handshake was not answered");
    assert_late(&error, 0, &["rank 0 was not reached in time", &met]);
}

#[test]
fn a_rank_0_that_lets_a_member_in_and_falls_silent_is_named() {
    let door = Listener::bind(&options(0, 2).listen).unwrap();
    let address = door.addresses().unwrap()[0];
    let identity = options(0, 2).identity([5; 16], &[6; 32]);
    thread::scope(|scope| {
        let member = scope.spawn(move || error_of_member(address));
        let mut half: Option<HalfOpen> = None;
        while !member.is_finished() {
            match &mut half {
                Some(half) => drop(half.advance()),
                None => {
                    half = door.accept().ok().map(|(stream, from)| {
                        let socket = Socket::new(stream).unwrap();
                        HalfOpen::accept(socket, from, &identity, Purpose::Join).unwrap()
                    })
                }
            }
            poll::pause(Instant::now() + MOMENT, MOMENT);
        }
        let address = address.to_string();
        assert_late(&member.join().unwrap(), 0, &[&address, "neither sent the table nor said"]);
    });
}

/// What rank 0 tells of who is missing comes to every member with the rank.
#[test]
fn members_hear_which_rank_is_missing() {
    let store = Memory::default();
    let all = [0, 1].map(|rank| within(options(rank, 3), 600)).to_vec();
    for outcome in join_all(&store, all) {
        assert_late(&outcome.unwrap_err(), 2, &[": 2;"]);
    }
}

/// A store that does not answer any more holds up neither a world that is made, nor the news that it is not.
#[test]
fn the_record_is_given_little_time_to_be_deleted() {
    let store = Memory::default();
    assert!(join_all(&store, vec![options(0, 2), options(1, 2)]).iter().all(Result::is_ok));
    assert!(join(&store, &within(options(0, 2), 100)).is_err());
    let allowed = store.deletions.lock();
    assert!(
        allowed[0] <= Duration::from_secs(2) && allowed[1] <= Duration::from_millis(200),
        "{allowed:?}"
    );
}
