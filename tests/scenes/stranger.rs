//! Strangers at a rank's door.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use std::{fs, thread};

use collect::config::Timeout;
use collect::{ForkOptions, World, WorldOptions};

use super::{are_sums, barrier, eventually, join, patient, sum, values};
use crate::ranks::{self, Ranks};

/// Scanners and garbage come to every door during `rounds` of making and using worlds.
pub(crate) fn disturbs_nobody(name: &str, size: usize, rounds: usize) {
    if !ranks::is_rank() {
        let mut processes = Ranks::spawn(name, size);
        for (rank, status) in processes.wait_all().into_iter().enumerate() {
            assert!(status.success(), "rank {rank}: {status}");
        }
        return;
    }
    let (is_over, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| bother(&is_over, &calls));
        for round in 0..rounds {
            let options = WorldOptions { name: format!("round {round}"), ..patient() };
            let world = join(size, &options).unwrap();
            let before = calls.load(Ordering::Relaxed);
            eventually("strangers come", || calls.load(Ordering::Relaxed) > before + 10);
            use_it(&world);
            let fork = world.fork(&ForkOptions::default()).unwrap();
            drop(world);
            use_it(&fork);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

fn use_it(world: &World) {
    for count in [1, 1000, 300_000] {
        let mut numbers = values(world.rank(), count);
        sum(world, &mut numbers, Timeout::Default).unwrap();
        assert!(are_sums(&numbers, world.size()));
    }
    barrier(world).unwrap();
}

/// Calls at this process's doors until told to stop.
fn bother(is_over: &AtomicBool, calls: &AtomicU64) {
    let mut noise: Vec<u8> =
        (0..2000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut held = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        for port in doors() {
            let door = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            for kind in 0..5 {
                let Ok(mut stream) = TcpStream::connect(door) else { continue };
                calls.fetch_add(1, Ordering::Relaxed);
                match kind {
                    0 => continue,
                    1 => drop(stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")),
                    2 => drop(stream.write_all(&noise)),
                    3 => echo(&mut stream),
                    _ => drop(stream.write_all(&noise[..7])),
                }
                held.push(stream);
            }
            noise.rotate_left(1);
        }
        // Some stay and say nothing.
        held.drain(..held.len().saturating_sub(150));
        thread::sleep(Duration::from_millis(1));
    }
}

/// Says what it hears.
fn echo(stream: &mut TcpStream) {
    let _ = stream.set_read_timeout(Some(Duration::from_millis(5)));
    let mut bytes = [0; 256];
    if let Ok(count) = stream.read(&mut bytes) {
        let _ = stream.write_all(&bytes[..count]);
    }
}

/// The ports where this process listens.
pub(crate) fn doors() -> Vec<u16> {
    let links = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let inodes: Vec<String> = links
        .filter_map(|entry| fs::read_link(entry.path()).ok()?.to_str().map(str::to_owned))
        .filter_map(|link| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let table = fs::read_to_string("/proc/self/net/tcp").unwrap_or_default();
    let port = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_ours = *fields.get(3)? == "0A" && inodes.iter().any(|inode| inode == fields[9]);
        let (_, port) = fields[1].split_once(':')?;
        is_ours.then(|| u16::from_str_radix(port, 16).ok())?
    };
    table.lines().skip(1).filter_map(port).collect()
}
