//! Reports about networks in which one side cannot reach the other. All combinations of ways and of who dials first are
//! at the level of links (`link/tcp/tests/crossing.rs`); here are worlds.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use collect::config::Timeout;
use collect::{Error, World, WorldOptions};

use super::works;
use crate::ranks;
use crate::scenes::barrier;

/// Makes a world of two, in which each rank finds the other one where `doors` says, if that says anything. `body` runs on
/// both.
fn with_doors(
    doors: [Option<SocketAddr>; 2],
    options: &WorldOptions,
    body: impl Fn(&World) + Sync,
) {
    let (values, all_told) = (Mutex::new(vec![Vec::new(); 2]), Barrier::new(2));
    thread::scope(|scope| {
        let start = |rank: usize| {
            let (values, all_told, body) = (&values, &all_told, &body);
            scope.spawn(move || {
                let mut exchange = |bytes: &[u8]| {
                    values.lock().unwrap()[rank] = bytes.to_vec();
                    all_told.wait();
                    let mut all = values.lock().unwrap().clone();
                    if let Some(door) = doors[rank] {
                        redirect(&mut all[1 - rank], door);
                    }
                    Ok(all)
                };
                body(&World::create_with(&mut exchange, rank, 2, options).unwrap());
            })
        };
        ranks::join((0..2).map(start).collect());
    });
}

/// Changes the port of all loopback addresses in what a rank tells the others: version 4, four bytes, port.
fn redirect(told: &mut [u8], to: SocketAddr) {
    const LOOPBACK: [u8; 5] = [4, 127, 0, 0, 1];
    let mut found = 0;
    for at in 0..told.len() - 6 {
        if told[at..].starts_with(&LOOPBACK) {
            told[at + LOOPBACK.len()..][..2].copy_from_slice(&to.port().to_le_bytes());
            found += 1;
        }
    }
    // In what rank 0 would leave in a store, and in what a member tells.
    assert_eq!(found, 2, "an address has another form than this test thinks");
}

/// A door that takes connections, and never answers.
fn mute() -> (TcpListener, SocketAddr) {
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = door.local_addr().unwrap();
    (door, address)
}

/// open-mpi/ompi 13155: whether two hosts find each other depends on which of them connects. open-mpi/ompi 2168, 4963: an
/// address that cannot be reached makes the job hang. Here either side's connection serves both, whoever begins.
#[test]
fn a_network_that_is_open_in_one_direction_serves_both() {
    let (_door, blocked) = mute();
    for doors in [[Some(blocked), None], [None, Some(blocked)]] {
        for first in 0..2 {
            with_doors(doors, &ranks::blocking(), |world| {
                if world.rank() != first {
                    thread::sleep(Duration::from_millis(100));
                }
                works(world);
            });
        }
    }
}

/// Where no direction is open both ranks say so, in bounded time and without a deadline, with the address and what they
/// have met there.
#[test]
fn a_network_that_is_open_in_no_direction_is_named_with_the_addresses() {
    let doors = [mute(), mute()];
    let addresses = doors.each_ref().map(|(_, address)| *address);
    let heartbeat = Timeout::After(Duration::from_millis(200));
    let options = WorldOptions { heartbeat, timeout: Timeout::Never, ..ranks::blocking() };
    with_doors(addresses.map(Some), &options, |world| {
        let error = barrier(world).unwrap_err();
        let peer = 1 - world.rank();
        let Error::PeerLost { rank, text } = &error else { panic!("{error:?}") };
        let address = addresses[world.rank()].to_string();
        let met = "connected, but the handshake was not answered";
        assert!(*rank == peer && text.contains(&address) && text.contains(met), "{error:?}");
    });
}
