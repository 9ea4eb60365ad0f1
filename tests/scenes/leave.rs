//! The last allreduce, destroy, and the end of the process at once.

use std::panic::{AssertUnwindSafe, catch_unwind};

use collect::config::Timeout;

use super::{are_sums_at, join, patient, sum, values};
use crate::ranks::{self, Ranks};

/// `rounds` times new processes, `sizes` by turns; no rank misses its data.
pub(crate) fn at_once(name: &str, rounds: usize, sizes: &[usize], count: usize) {
    if ranks::is_rank() {
        let size = std::fs::read_to_string(ranks::folder().join("size")).unwrap();
        let size = size.parse().unwrap();
        let right = catch_unwind(AssertUnwindSafe(|| last_words(size, count))).unwrap_or(false);
        // SAFETY: ends this process, and nothing is to run before.
        unsafe { libc::_exit(i32::from(!right)) };
    }
    for round in 0..rounds {
        let size = sizes[round % sizes.len()];
        let mut processes = Ranks::spawn_told(name, size, &[("size", &size.to_string())]);
        for (rank, status) in processes.wait_all().into_iter().enumerate() {
            assert!(status.success(), "round {round}, rank {rank} of {size}: {status}");
        }
    }
}

fn last_words(size: usize, count: usize) -> bool {
    let world = join(size, &patient()).unwrap();
    let mut numbers = values(world.rank(), count);
    let outcome = sum(&world, &mut numbers, Timeout::Default);
    drop(world);
    if let Err(error) = &outcome {
        eprintln!("rank {}: {error}", ranks::rank());
    }
    // A look that costs next to nothing: the end of the process is to follow at once.
    outcome.is_ok() && are_sums_at(&numbers, size, 4099)
}
