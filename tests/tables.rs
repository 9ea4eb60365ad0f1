//! The table by which algorithms are chosen: rank 0's counts everywhere, and another rank's must be the same.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ranks;

use std::process::Command;
use std::thread;

use collect::store::{FileStore, HashStore};
use collect::{
    Algorithm, Call, CallOptions, Datatype, Error, ForkOptions, Op, Target, World, WorldOptions,
};
use ranks::{Ranks, blocking, folder, is_rank, options, rank};

/// What 3 ranks would not choose for a few bytes by themselves.
const TABLE: &str = "collect-table 1\nallreduce circulant\n";

/// An allreduce that fits only if the table says `algorithm`: rank 1 asks for it, the others leave it to the table.
fn is_chosen(world: &World, algorithm: Algorithm) -> Result<(), Error> {
    let mut sum = [1i64];
    let target = Target::of(&mut sum);
    let source = target.in_place();
    let call = Call::Allreduce { source, target, datatype: Datatype::I64, op: Op::Sum };
    let algorithm = (world.rank() == 1).then_some(algorithm);
    world.run(&call, &CallOptions { algorithm, ..CallOptions::default() })?;
    assert_eq!(sum, [world.size() as i64]);
    Ok(())
}

/// Creates a world of threads, in which each rank names the table that it is given.
fn create(tables: [Option<&str>; 3], body: impl Fn(usize, Result<World, Error>) + Sync) {
    let store = HashStore::new();
    thread::scope(|scope| {
        let start = |(rank, table): (usize, Option<&str>)| {
            let options = WorldOptions { table: table.map(str::to_owned), ..options() };
            let (store, body) = (&store, &body);
            scope.spawn(move || body(rank, World::create(store, rank, 3, &options)))
        };
        ranks::join(tables.into_iter().enumerate().map(start).collect());
    });
}

#[test]
fn all_ranks_and_forks_choose_by_rank_0s_table() {
    for tables in [[Some(TABLE), None, None], [Some(TABLE), None, Some(TABLE)]] {
        create(tables, |_, world| {
            let world = world.unwrap();
            is_chosen(&world, Algorithm::Circulant).unwrap();
            let fork = world.fork(&ForkOptions::default()).unwrap();
            is_chosen(&fork, Algorithm::Circulant).unwrap();
            let other = is_chosen(&world, Algorithm::Direct);
            assert!(matches!(other, Err(Error::Mismatch(_))), "{other:?}");
        });
    }
}

#[test]
fn a_rank_that_names_another_table_is_refused_everywhere() {
    create([None, Some(TABLE), None], |rank, world| {
        let text = world.unwrap_err().to_string();
        let both = "rank 1 chooses algorithms by the option \"table\", rank 0 by the library's own";
        assert!(text.contains(both), "rank {rank}: {text}");
    });
}

#[test]
fn a_table_that_is_none_is_the_callers_mistake() {
    let store = HashStore::new();
    let options = WorldOptions { table: Some("allreduce".into()), ..options() };
    let error = World::create(&store, 0, 1, &options).unwrap_err();
    assert!(matches!(&error, Error::InvalidArgument(text) if text.contains("line 1")), "{error}");
}

/// Starts the processes of a test with what `variables` says for each rank.
fn spawn(name: &str, variables: [Option<&'static str>; 2]) -> Ranks {
    Ranks::spawn_by(name, 2, |program, rank, folder| {
        let mut command = Command::new(program);
        if let Some(overrides) = variables[rank] {
            command.env("LIBCOLLECT_ALGORITHM", overrides);
        }
        if rank == 0 {
            let file = folder.join("table");
            std::fs::write(&file, "collect-table 1\nallgather pat\n").unwrap();
            command.env("LIBCOLLECT_TABLE", file);
        }
        command
    })
}

fn join() -> Result<World, Error> {
    let store = FileStore::open(folder().join("store")).unwrap();
    World::create(&store, rank(), 2, &blocking())
}

#[test]
fn processes_choose_by_the_environment_of_rank_0() {
    if is_rank() {
        return is_chosen(&join().unwrap(), Algorithm::Circulant).unwrap();
    }
    let variables = [Some("allreduce=circulant"), None];
    let mut ranks = spawn("processes_choose_by_the_environment_of_rank_0", variables);
    assert!(ranks.wait_all().iter().all(|status| status.success()));
}

#[test]
fn processes_whose_environments_differ_hear_of_both() {
    if is_rank() {
        let text = join().unwrap_err().to_string();
        let one = "rank 1 chooses algorithms by LIBCOLLECT_ALGORITHM=allreduce=ring";
        assert!(text.contains(one) && text.contains("rank 0 by LIBCOLLECT_TABLE="), "{text}");
        return;
    }
    let variables = [None, Some("allreduce=ring")];
    let mut ranks = spawn("processes_whose_environments_differ_hear_of_both", variables);
    assert!(ranks.wait_all().iter().all(|status| status.success()));
}
