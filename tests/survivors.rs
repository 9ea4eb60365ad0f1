//! A rank of eight is killed: all others return, name it, and have heard of it through at most log2(8) + 2 ranks.
//!
//! There is no deadline: what ends their operations is what somebody has seen of the victim, and passed on.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ranks;
mod reference;
mod scenes;

use std::fs;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use collect::{Algorithm, CallOptions, Error, World};
use ranks::Ranks;
use reference::calls::{Lent, broadcast_of, sum_of};
use scenes::{barrier, join, patient};

const SIZE: usize = 8;
/// log2(8) + 2.
const HOPS_MAX: u32 = 5;
/// How often each is tried.
const ATTEMPTS: usize = 3;
/// 32 MiB.
const COUNT: usize = 4 << 20;

#[test]
fn all_hear_of_a_killed_neighbour_in_a_ring() {
    let ring = Some(Algorithm::Ring);
    let allreduce = |world: &World| {
        let options = CallOptions { algorithm: ring, ..CallOptions::default() };
        Lent::start(world, vec![1_u64; COUNT], &options, |data| sum_of(data))
    };
    let name = "all_hear_of_a_killed_neighbour_in_a_ring";
    all_hear(name, 3, &|world| in_the_middle(world, 3, &allreduce));
}

#[test]
fn all_hear_of_the_killed_root_of_a_binomial_tree() {
    let name = "all_hear_of_the_killed_root_of_a_binomial_tree";
    all_hear(name, 2, &|world| in_the_middle(world, 2, &|world| broadcast(world, 2)));
}

/// From rank 0, rank 4 passes on what ranks 5, 6 and 7 get.
#[test]
fn all_hear_of_a_killed_inner_rank_of_a_binomial_tree() {
    let name = "all_hear_of_a_killed_inner_rank_of_a_binomial_tree";
    all_hear(name, 4, &|world| in_the_middle(world, 4, &|world| broadcast(world, 0)));
}

/// Nobody has a connection to it but rank 0, from the creation.
#[test]
fn all_hear_of_a_killed_rank_without_a_data_link() {
    all_hear("all_hear_of_a_killed_rank_without_a_data_link", 5, &|world| {
        ranks::mark(&format!("made.{}", world.rank()));
        (0..SIZE).for_each(|rank| ranks::await_mark(&ranks::folder(), &format!("made.{rank}")));
        if world.rank() == 5 {
            die();
        }
        barrier(world).unwrap_err()
    });
}

fn broadcast(world: &World, root: usize) -> Result<Lent<u64>, Error> {
    let algorithm = Some(Algorithm::Binomial);
    let options = CallOptions { algorithm, ..CallOptions::default() };
    Lent::start(world, vec![1; COUNT], &options, |data| broadcast_of(data, root))
}

/// Calls again and again until the world fails; the victim is killed in the middle of a call.
fn in_the_middle(
    world: &World,
    victim: usize,
    start: &dyn Fn(&World) -> Result<Lent<u64>, Error>,
) -> Error {
    loop {
        let call = barrier(world).and_then(|()| start(world));
        let outcome = call.and_then(|call| {
            let is_over = call.request.wait_for(Some(Duration::from_millis(3))).is_some();
            if world.rank() == victim && !is_over {
                die();
            }
            call.end()
        });
        if let Err(error) = outcome {
            return error;
        }
    }
}

fn die() -> ! {
    // SAFETY: takes no pointer.
    unsafe { libc::raise(libc::SIGKILL) };
    unreachable!("the process has been killed")
}

/// `play` returns what the survivors' world has failed with.
fn all_hear(name: &str, victim: usize, play: &dyn Fn(&World) -> Error) {
    if ranks::is_rank() {
        log::set_logger(&NEWS).unwrap();
        log::set_max_level(log::LevelFilter::Debug);
        let world = join(SIZE, &patient()).unwrap();
        let error = play(&world);
        assert!(matches!(&error, Error::PeerLost { rank, .. } if *rank == victim), "{error:?}");
        assert_eq!(barrier(&world), Err(error), "later calls say the same");
        let heard = NEWS.0.lock().unwrap().clone();
        fs::write(ranks::folder().join(format!("news.{}", world.rank())), heard.join("\n"))
            .unwrap();
        return;
    }
    // On a full machine the news that come first may have gone a longer way than others that are still under way.
    let longest: Vec<u32> = (0..ATTEMPTS).map(|_| longest_way(name, victim)).collect();
    assert!(longest.iter().any(|hops| *hops <= HOPS_MAX), "{longest:?} hops");
}

/// Kills once; how many ranks the news have gone through at most.
fn longest_way(name: &str, victim: usize) -> u32 {
    use std::os::unix::process::ExitStatusExt;
    let mut processes = Ranks::spawn(name, SIZE);
    let until = Instant::now() + ranks::DEADLINE;
    let mut longest = 0;
    for rank in (0..SIZE).filter(|rank| *rank != victim) {
        let status = processes.wait(rank, until);
        assert!(status.success(), "rank {rank}, when {victim} was killed: {status}");
        let news = fs::read_to_string(processes.folder.join(format!("news.{rank}"))).unwrap();
        let hops: Vec<u32> = news.lines().map(hops_of).collect();
        assert_eq!(hops.len(), 1, "rank {rank}: {news}");
        longest = longest.max(hops[0]);
    }
    assert_eq!(processes.wait(victim, until).signal(), Some(libc::SIGKILL));
    longest
}

/// Of "… rank 3 fails after 2 hops: …".
fn hops_of(news: &str) -> u32 {
    let number = news.split(" fails after ").nth(1).and_then(|rest| rest.split(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no hops in {news:?}"))
}

/// What the log says of worlds that fail.
struct News(Mutex<Vec<String>>);

static NEWS: News = News(Mutex::new(Vec::new()));

impl log::Log for News {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target() == "collect::world"
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            self.0.lock().unwrap().push(record.args().to_string());
        }
    }

    fn flush(&self) {}
}
