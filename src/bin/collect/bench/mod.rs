//! `collect bench`: measures collectives, creation, forks and failure, and checks every result; makes tables of algorithms.
//!
//! Started by itself with `-n` it starts its own ranks (each is this program again, in a run of its own); inside a
//! launcher it joins. Rank 0 prints. Measurements begin with a barrier; a collective's time is the maximum over the
//! ranks of each iteration, and the median over the iterations. The exit status tells whether any result was wrong.

mod collectives;
mod create;
mod failure;
mod fork;
mod pattern;
mod report;
mod statistics;
mod tune;

use std::env;
use std::process::ExitCode;

use collect::config::{Timeout, Wait};
use collect::store::{CountingStore, Store};
use collect::{Algorithm, Call, CallOptions, Datatype, Error, Op, Source, Target, World};
use collect::{WorldOptions, open_from_env};

use crate::args::{BenchArguments, BenchKind, RunArguments, WaitMode};
use crate::run;

pub(crate) fn bench(arguments: &BenchArguments) -> Result<ExitCode, String> {
    if arguments.output.is_some() && arguments.kind != BenchKind::Tune {
        return Err("--output is where tune writes its table; other kinds print only".into());
    }
    if arguments.kind == BenchKind::Failure {
        return failure::measure(arguments);
    }
    if env::var_os("LIBCOLLECT_RANK").is_some() {
        return join(arguments).map_err(|error| error.to_string());
    }
    let Some(ranks) = arguments.ranks else {
        return Err("how many ranks? Give -n N, or start this inside `collect run`".into());
    };
    let program = env::current_exe().map_err(|error| format!("finding this program: {error}"))?;
    let mut line = vec![program.into_os_string()];
    line.extend(env::args_os().skip(1));
    run::run(&RunArguments { ranks, prefix: false, store: None, program: line })
}

/// What one rank of a benchmark has.
struct Bench<'a> {
    arguments: &'a BenchArguments,
    world: World,
    store: CountingStore,
}

fn join(arguments: &BenchArguments) -> Result<ExitCode, Error> {
    let options = options(arguments);
    let store = CountingStore::new(open_from_env(options.timeout.deadline())?);
    let (rank, size) = (number("LIBCOLLECT_RANK")?, number("LIBCOLLECT_SIZE")?);
    let world = World::create(&store, rank, size, &options)?;
    let bench = Bench { arguments, world, store };
    let wrong = match arguments.kind {
        BenchKind::Create => create::measure(&bench)?,
        BenchKind::Fork => fork::measure(&bench)?,
        BenchKind::Tune => tune::measure(&bench)?,
        _ => collectives::measure(&bench)?,
    };
    bench.barrier()?;
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn options(arguments: &BenchArguments) -> WorldOptions {
    let wait = match arguments.wait {
        WaitMode::Adaptive => Wait::Adaptive,
        WaitMode::Spin => Wait::Spin,
        WaitMode::Block => Wait::Block,
    };
    WorldOptions {
        name: "bench".into(),
        timeout: Timeout::Default,
        wait,
        ..WorldOptions::default()
    }
}

fn number(name: &str) -> Result<usize, Error> {
    let text = env::var(name).unwrap_or_default();
    text.parse().map_err(|_| Error::InvalidArgument(format!("{name}={text:?} is no number")))
}

impl Bench<'_> {
    fn is_first(&self) -> bool {
        self.world.rank() == 0
    }

    fn is_json(&self) -> bool {
        self.arguments.is_json()
    }

    fn call_options(&self) -> CallOptions {
        CallOptions { algorithm: self.algorithm(), ..CallOptions::default() }
    }

    fn algorithm(&self) -> Option<Algorithm> {
        self.arguments.algorithm
    }

    fn barrier(&self) -> Result<(), Error> {
        self.world.run(&Call::Barrier, &CallOptions::default())
    }

    /// The maximum over the ranks, number by number.
    fn maximum(&self, numbers: &mut [f64]) -> Result<(), Error> {
        let target = Target::of(numbers);
        let (source, datatype, op) = (target.in_place(), Datatype::F64, Op::Max);
        let call = Call::Allreduce { source, target, datatype, op };
        self.world.run(&call, &CallOptions::default())
    }

    /// The sum over the ranks.
    fn sum(&self, number: u64) -> Result<u64, Error> {
        let (mine, mut all) = ([number], [0u64]);
        let (source, target) = (Source::of(&mine), Target::of(&mut all));
        let call = Call::Allreduce { source, target, datatype: Datatype::U64, op: Op::Sum };
        self.world.run(&call, &CallOptions::default())?;
        Ok(all[0])
    }

    /// The store, for worlds that the benchmark makes.
    fn store(&self) -> &dyn Store {
        &self.store
    }
}
