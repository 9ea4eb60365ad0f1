//! What all ranks of a world do together, and that it comes out right.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use collect::store::Store;
use collect::{Call, CallOptions, Datatype, Error, ForkOptions, Op, Target, World};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::life::{Dice, named, within};
use crate::reference::calls::{barrier, sum};
use crate::{program, rank, ranks};

/// One act, which all ranks choose alike. `store`: where another world can be made.
pub(crate) fn any(world: &World, dice: &mut Dice, store: Option<&dyn Store>) {
    match (dice.below(10), store) {
        (0, _) => abort(world, dice),
        (1, _) => time_out(world, dice),
        (2 | 3, _) => free_early(world, dice),
        (4, Some(store)) => create(world, dice, store),
        (5, _) => fork_many(world, dice),
        _ => run_program(world, dice),
    }
}

/// Collectives of all kinds, messages, keys, batches and forks, as in `tests/programs.rs`.
fn run_program(world: &World, dice: &mut Dice) {
    let seed: Vec<u8> = (0..4).flat_map(|_| dice.below(u64::MAX).to_le_bytes()).collect();
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let config = Config { failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let mut program = program::program().new_tree(&mut runner).unwrap().current();
    program.size = world.size();
    rank::run(&program, world);
}

/// A world is aborted while all others are inside.
fn abort(world: &World, dice: &mut Dice) {
    let fork = world.fork(&ForkOptions::default()).unwrap();
    let aborts = dice.index(world.size());
    if world.rank() == aborts {
        fork.abort("enough").unwrap();
    }
    let error = barrier(&fork).unwrap_err();
    assert!(matches!(error, Error::Aborted(_)), "{error}");
}

/// A rank does not come to an operation, and its deadline passes for the others.
fn time_out(world: &World, dice: &mut Dice) {
    let fork = world.fork(&ForkOptions::default()).unwrap();
    if world.rank() == dice.index(world.size()) {
        let until = Instant::now() + ranks::DEADLINE;
        while fork.error().is_none() {
            assert!(Instant::now() < until, "the absent rank is not told of the failure");
            thread::sleep(Duration::from_millis(1));
        }
    }
    let limit = within(Duration::from_millis(20));
    let error = sum(&fork, &mut vec![1; dice.index(100_000)], &limit).unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
}

/// Operations whose requests are gone.
#[derive(Debug, Default)]
struct Open {
    running: AtomicUsize,
    wrong: AtomicUsize,
}

/// Requests are dropped while their operations go on; some lose their world as well.
fn free_early(world: &World, dice: &mut Dice) {
    let open = Arc::new(Open::default());
    for round in 0..dice.below(20) {
        let (count, key) = (dice.index(50_000), (dice.below(2) == 0).then_some(round));
        let leaves = dice.below(4) == 0;
        let fork = leaves.then(|| world.fork(&ForkOptions::default()).unwrap());
        start_and_drop(fork.as_ref().unwrap_or(world), vec![round; count], key, leaves, &open);
    }
    let until = Instant::now() + ranks::DEADLINE;
    while open.running.load(Ordering::Acquire) > 0 {
        assert!(Instant::now() < until, "an operation has not ended whose request was dropped");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(open.wrong.load(Ordering::Relaxed), 0, "sums of requests that were dropped");
}

/// Starts a sum of equal numbers, and drops the request. The memory goes with the callback at the operation's end.
fn start_and_drop(
    world: &World,
    mut data: Vec<u64>,
    key: Option<u64>,
    may_fail: bool,
    open: &Arc<Open>,
) {
    let expected = data.first().map(|number| number * world.size() as u64);
    // SAFETY: the callback, which owns the vector, runs at the end of the operation.
    let target = unsafe { Target::from_raw(data.as_mut_ptr().cast(), size_of_val(&*data)) };
    let (source, datatype, op) = (target.in_place(), Datatype::U64, Op::Sum);
    let call = Call::Allreduce { source, target, datatype, op };
    let request = match world.start(&call, &CallOptions { key, ..CallOptions::default() }) {
        // A peer has left it before this rank came.
        Err(_) if may_fail => return,
        started => started.unwrap(),
    };
    open.running.fetch_add(1, Ordering::Relaxed);
    let open = Arc::clone(open);
    let end = move |outcome: Result<(), Error>| {
        let is_right = outcome.is_ok() && data.iter().all(|sum| Some(*sum) == expected);
        if !(is_right || outcome.is_err() && may_fail) {
            open.wrong.fetch_add(1, Ordering::Relaxed);
        }
        drop(data);
        open.running.fetch_sub(1, Ordering::Release);
    };
    request.on_complete(end).unwrap();
}

/// Another world of the same ranks with links of its own, in use together with this one; some are aborted in the end.
fn create(world: &World, dice: &mut Dice, store: &dyn Store) {
    let name = format!("other.{}", dice.below(u64::MAX));
    let (mut here, mut there) =
        (Dice::new(dice.below(u64::MAX), 3), Dice::new(dice.below(u64::MAX), 4));
    thread::scope(|scope| {
        scope.spawn(move || {
            let other = World::create(store, world.rank(), world.size(), &named(&name)).unwrap();
            run_program(&other, &mut there);
            if there.below(2) == 0 {
                // Of those that are through, the first aborts it, perhaps before the last is.
                let outcome = barrier(&other);
                assert!(matches!(outcome, Ok(()) | Err(Error::Aborted(_))), "{outcome:?}");
                other.abort("enough").unwrap();
            }
        });
        run_program(world, &mut here);
    });
}

/// Forks that live at once, and go in another order.
fn fork_many(world: &World, dice: &mut Dice) {
    let forks = (0..1 + dice.below(30)).map(|_| world.fork(&ForkOptions::default()).unwrap());
    let mut forks: Vec<World> = forks.collect();
    while !forks.is_empty() {
        let fork = forks.swap_remove(dice.index(forks.len()));
        let mut numbers = vec![1; dice.index(100)];
        sum(&fork, &mut numbers, &CallOptions::default()).unwrap();
        assert!(numbers.iter().all(|number| *number == world.size() as u64));
    }
}
