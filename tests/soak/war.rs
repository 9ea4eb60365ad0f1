//! A slot is killed in the midst of things. The others learn whom they have lost.

use std::thread;
use std::time::Duration;

use collect::config::Timeout;
use collect::store::Store;
use collect::{Call, CallOptions, Datatype, Error, ForkOptions, Op, Target, World, WorldOptions};

use crate::figures::Notes;
use crate::life::{Dice, named};
use crate::reference::calls::{Lent, barrier, receive_of, send_of, sum};

/// The world's end: the victim kills itself while all are busy.
pub(crate) fn wage(
    world: &World,
    dice: &mut Dice,
    store: &dyn Store,
    victim: usize,
    notes: &mut Notes,
) {
    let delay = Duration::from_micros(dice.below(80_000));
    // Nobody dies while another one is in acts that must not fail.
    let has_begun = barrier(world);
    if world.rank() == victim {
        thread::spawn(move || {
            thread::sleep(delay);
            // SAFETY: takes no pointer.
            unsafe { libc::raise(libc::SIGKILL) };
        });
    }
    while has_begun.is_ok() && skirmish(world, dice, store).is_ok() {}
    if world.rank() == victim {
        // Somebody else's error must not be this rank's last word.
        loop {
            thread::park();
        }
    }
    // What has failed may have been another world.
    let error = loop {
        if let Err(error) = barrier(world) {
            break error;
        }
    };
    let is_named = matches!(&error, Error::PeerLost { rank, .. } if *rank == victim);
    if !is_named {
        eprintln!("rank {victim} was killed, and rank {} says: {error}", world.rank());
    }
    notes.blame(is_named);
}

/// Something that can be cut off anywhere.
fn skirmish(world: &World, dice: &mut Dice, store: &dyn Store) -> Result<(), Error> {
    let count = dice.index(200_000);
    match dice.below(6) {
        0 => sum(world, &mut vec![1; count], &CallOptions::default()),
        1 => several_keyed(world, count / 4),
        2 => ring(world, count / 2),
        3 => {
            let fork = world.fork(&ForkOptions::default())?;
            sum(&fork, &mut vec![1; count / 8], &CallOptions::default())
        }
        4 => {
            let timeout = Timeout::After(Duration::from_secs(2));
            let name = format!("other.{}", dice.below(u64::MAX));
            let options = WorldOptions { timeout, ..named(&name) };
            barrier(&World::create(store, world.rank(), world.size(), &options)?)
        }
        _ => {
            let mut data = vec![1u64; count];
            let root = dice.index(world.size());
            let call =
                Call::Broadcast { buffer: Target::of(&mut data), datatype: Datatype::U64, root };
            world.run(&call, &CallOptions::default())
        }
    }
}

/// Four sums at once, each of which must end before its memory goes.
fn several_keyed(world: &World, count: usize) -> Result<(), Error> {
    let start = |key: u64| {
        let options = CallOptions { key: Some(key), ..CallOptions::default() };
        Lent::start(world, vec![1u64; count], &options, |data| {
            let target = Target::of(data);
            let (source, datatype, op) = (target.in_place(), Datatype::U64, Op::Sum);
            Call::Allreduce { source, target, datatype, op }
        })
    };
    let started: Vec<_> = (0..4).map(start).collect();
    let ends = started.into_iter().map(|lent| lent?.end().map(drop));
    // All of them, and not up to the first that fails.
    ends.collect::<Vec<_>>().into_iter().collect()
}

/// All send to the next rank.
fn ring(world: &World, count: usize) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let (sent, mut got) = (vec![7u64; count], vec![0u64; count]);
    let send = send_of(&sent, (rank + 1) % size, 0);
    let receive = receive_of(&mut got, Some((rank + size - 1) % size), 0);
    world.sendrecv(&send, &receive, &CallOptions::default())
}
