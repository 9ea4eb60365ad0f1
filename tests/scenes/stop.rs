//! A peer that stops in the middle of a frame, and goes on after the other end has given up.

use std::thread;
use std::time::{Duration, Instant};

use collect::config::Timeout;
use collect::{Error, ForkOptions, World};

use super::{Running, barrier, eventually, join, patient, state_of, sum, values};
use crate::ranks::{self, Ranks};

/// 128 MiB.
const COUNT: usize = 16 << 20;
const POISON: u64 = 0xa5a5_a5a5_a5a5_a5a5;

/// Rank `size - 1` stops; the others time out, take their memory back, and use the parent with it afterwards.
pub(crate) fn times_out(name: &str, size: usize) {
    if ranks::is_rank() {
        let world = join(size, &patient()).unwrap();
        let fork = world.fork(&ForkOptions::default()).unwrap();
        barrier(&world).unwrap();
        return if world.rank() == size - 1 { stops(&world, &fork) } else { waits(&world, &fork) };
    }
    let mut processes = Ranks::spawn_told(name, size, &[("size", &size.to_string())]);
    let (folder, stopped) = (processes.folder.clone(), processes.children[size - 1].id());
    eventually("the peer stops", || state_of(stopped) == Some('T'));
    for rank in 0..size - 1 {
        ranks::await_mark(&folder, &format!("poisoned {rank}"));
    }
    processes.signal(size - 1, libc::SIGCONT);
    let until = Instant::now() + ranks::DEADLINE;
    for rank in 0..size {
        let status = processes.wait(rank, until);
        assert!(status.success(), "rank {rank} of {size}: {status}");
    }
}

fn waits(world: &World, fork: &World) {
    let mut buffer = values(fork.rank(), COUNT);
    let error = sum(fork, &mut buffer, Timeout::After(Duration::from_secs(1))).unwrap_err();
    assert!(matches!(&error, Error::TimedOut { .. }), "{error}");
    buffer.fill(POISON);
    ranks::mark(&format!("poisoned {}", fork.rank()));
    goes_on(world);
    // The peer has taken all that was under way before it came to the parent's barriers.
    assert!(buffer.iter().all(|value| *value == POISON), "memory changes after its operation");
    thread::sleep(Duration::from_millis(50));
    assert!(buffer.iter().all(|value| *value == POISON), "memory changes late");
    assert_eq!(barrier(fork), Err(error));
    goes_on(world);
}

fn stops(world: &World, fork: &World) {
    let running = Running::start(fork, COUNT).unwrap();
    assert!(running.is_in_the_middle());
    // SAFETY: takes no pointer; stops this process until the test lets it go on.
    assert_eq!(unsafe { libc::raise(libc::SIGSTOP) }, 0);
    // Whatever it says, a success has right numbers.
    if let Err(error) = running.end(fork.size()) {
        assert!(matches!(&error, Error::TimedOut { .. }), "{error}");
    }
    goes_on(world);
    assert!(matches!(barrier(fork), Err(Error::TimedOut { .. })));
    goes_on(world);
}

/// The sibling on the same links works, with small and with large messages.
fn goes_on(world: &World) {
    for count in [1, 100_000] {
        let mut numbers = values(world.rank(), count);
        sum(world, &mut numbers, Timeout::Default).unwrap();
        assert!(super::are_sums(&numbers, world.size()));
    }
    barrier(world).unwrap();
}
