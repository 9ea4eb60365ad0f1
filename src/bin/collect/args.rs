//! The subcommands and their options. A new subcommand is a variant of [`Command`], a struct of its options, and an
//! arm in `main`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use collect::{Algorithm, Datatype, Op};

use crate::plan::PlanArguments;

/// Collective communications between processes.
#[derive(Debug, Parser)]
#[command(name = "collect", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(RunArguments),
    Bench(BenchArguments),
    Plan(PlanArguments),
    Info(InfoArguments),
    Store(StoreArguments),
    /// Ends the groups of a launcher that was killed; `run` starts it.
    #[command(name = "guard-groups", hide = true)]
    Guard,
}

/// Start a program several times on this host, as the ranks 0, 1, … of one run.
///
/// Each rank finds its place in LIBCOLLECT_RANK, _SIZE, _LOCAL_RANK and _LOCAL_SIZE, and the store through which the
/// ranks meet in LIBCOLLECT_STORE and _STORE_TOKEN: collect_world_create_from_env reads them. When a rank fails, the
/// others are sent SIGTERM, and SIGKILL 5 seconds later; the status is that rank's (128 + N for signal N).
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// How many ranks
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) ranks: u32,

    /// Put the rank before each line of output: "[3] text"
    #[arg(long, visible_alias = "tag-output")]
    pub(crate) prefix: bool,

    /// Meet at this store (its token is taken from LIBCOLLECT_STORE_TOKEN) instead of one that ends with the run
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,

    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    pub(crate) program: Vec<OsString>,
}

/// Serve a store through which ranks meet, until a signal asks for the end. Prints its URL.
///
/// If LIBCOLLECT_STORE_TOKEN is set, only those who have the same are served.
#[derive(Debug, Args)]
pub(crate) struct StoreArguments {
    /// Where to listen: an IP address and a port, 0 for any free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
}

/// Tell the version, what this host offers, and which settings are in force.
#[derive(Debug, Args)]
pub(crate) struct InfoArguments {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Measure collectives, creation, forks or failure, and check every result.
///
/// Given -n it starts its own ranks on this host; inside `collect run` it joins. Rank 0 prints: the columns of
/// nccl-tests, or with --json one object a line. The status is not 0 if any result was wrong. The kind tune measures
/// what links and processors take, and prints the table of algorithms that the cost model makes of it. The kind failure
/// kills one of 8 ranks (or of N), and tells how long it is until the calls of all others have returned; it is wrong if
/// one of them names another rank.
#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    /// What is measured
    #[arg(value_enum)]
    pub(crate) kind: BenchKind,

    /// How many ranks to start
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) ranks: Option<u32>,

    /// The transport of the links
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) transport: Transport,

    /// What threads do while they wait
    #[arg(long, value_enum, default_value = "adaptive")]
    pub(crate) wait: WaitMode,

    /// The smallest buffer, in bytes (suffixes K, M, G)
    #[arg(long, value_name = "BYTES", default_value = "4", value_parser = bytes)]
    pub(crate) min: usize,

    /// The largest buffer
    #[arg(long, value_name = "BYTES", default_value = "16M", value_parser = bytes)]
    pub(crate) max: usize,

    /// From one buffer size to the next
    #[arg(long, default_value_t = 4)]
    pub(crate) factor: usize,

    /// The type of the elements
    #[arg(long = "type", value_name = "TYPE", default_value = "f32", value_parser = datatype)]
    pub(crate) datatype: Datatype,

    /// How they are reduced
    #[arg(long, default_value = "sum", value_parser = op)]
    pub(crate) op: Op,

    /// The algorithm; by default the library chooses
    #[arg(long, value_parser = algorithm)]
    pub(crate) algorithm: Option<Algorithm>,

    /// Measured calls of each size; of create, worlds; of failure, ranks killed in each scenario
    #[arg(long, default_value_t = 100)]
    pub(crate) iterations: usize,

    /// Calls of each size before they are measured
    #[arg(long, default_value_t = 10)]
    pub(crate) warmup: usize,

    /// Forks that are alive at once (kind fork)
    #[arg(long, default_value_t = 100)]
    pub(crate) forks: usize,

    /// What the ranks are doing when one is killed; by default one after the other (kind failure)
    #[arg(long, value_enum)]
    pub(crate) scenario: Option<Scenario>,

    /// The rank that is killed: kind failure tells it the ranks that it starts
    #[arg(long, hide = true)]
    pub(crate) victim: Option<usize>,

    /// Reduce in place
    #[arg(long)]
    pub(crate) in_place: bool,

    /// Do not check results
    #[arg(long)]
    no_check: bool,

    /// Where the table goes, in place of standard output (kind tune)
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// How results are printed
    #[arg(long, value_enum, default_value = "nccl")]
    pub(crate) format: Format,

    /// The same as --format json
    #[arg(long)]
    pub(crate) json: bool,
}

impl BenchArguments {
    pub(crate) fn check(&self) -> bool {
        !self.no_check
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json || self.format == Format::Json
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum BenchKind {
    Allreduce,
    Reduce,
    Broadcast,
    Barrier,
    Allgather,
    Allgatherv,
    Gather,
    Gatherv,
    Scatter,
    Scatterv,
    ReduceScatter,
    ReduceScatterv,
    Alltoall,
    Alltoallv,
    Scan,
    Exscan,
    Sendrecv,
    Create,
    Fork,
    Failure,
    Tune,
}

impl BenchKind {
    /// Whether elements are reduced.
    pub(crate) fn reduces(self) -> bool {
        matches!(
            self,
            Self::Allreduce
                | Self::Reduce
                | Self::ReduceScatter
                | Self::ReduceScatterv
                | Self::Scan
                | Self::Exscan
        )
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Allreduce => "allreduce",
            Self::Reduce => "reduce",
            Self::Broadcast => "broadcast",
            Self::Barrier => "barrier",
            Self::Allgather => "allgather",
            Self::Allgatherv => "allgatherv",
            Self::Gather => "gather",
            Self::Gatherv => "gatherv",
            Self::Scatter => "scatter",
            Self::Scatterv => "scatterv",
            Self::ReduceScatter => "reduce_scatter",
            Self::ReduceScatterv => "reduce_scatterv",
            Self::Alltoall => "alltoall",
            Self::Alltoallv => "alltoallv",
            Self::Scan => "scan",
            Self::Exscan => "exscan",
            Self::Sendrecv => "sendrecv",
            Self::Create => "create",
            Self::Fork => "fork",
            Self::Failure => "failure",
            Self::Tune => "tune",
        }
    }
}

/// What ranks are doing when one of them is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// Allreduce by rings: each rank in turn is killed
    Ring,
    /// Broadcast by binomial trees: the root and the largest inner rank are killed in turn
    Hub,
    /// All but one wait for messages that do not come; that one, which has a link to rank 0 only, is killed
    Idle,
}

impl Scenario {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Hub => "hub",
            Self::Idle => "idle",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    Auto,
    Tcp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitMode {
    Adaptive,
    Spin,
    Block,
}

impl WaitMode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::Spin => "spin",
            Self::Block => "block",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Nccl,
    Json,
}

/// A number of bytes, with a suffix K, M or G of 1024.
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: usize = digits.parse().map_err(|_| format!("{text:?} is no number of bytes"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("{text:?} is too large"))
}

/// Types that hold the sums of small numbers exactly, so that results can be checked: neither fp8 nor bool.
fn datatype(text: &str) -> Result<Datatype, String> {
    let known = || Datatype::ALL.into_iter().filter(|known| (*known as u8) <= Datatype::F64 as u8);
    let found = known().find(|datatype| datatype.name() == text);
    found.ok_or_else(|| none_of(text, known().map(Datatype::name)))
}

/// Operations that need nothing else from the caller.
fn op(text: &str) -> Result<Op, String> {
    let known = || Op::ALL.into_iter().filter(|op| !matches!(op, Op::PremulSum | Op::Custom));
    let found = known().find(|op| op.name() == text);
    found.ok_or_else(|| none_of(text, known().map(Op::name)))
}

fn none_of(text: &str, known: impl Iterator<Item = &'static str>) -> String {
    format!("{text:?} is none of {}", known.collect::<Vec<_>>().join(", "))
}

pub(crate) fn algorithm(text: &str) -> Result<Algorithm, String> {
    let known = || Algorithm::ALL.map(Algorithm::name).join(", ");
    Algorithm::from_name(text).ok_or_else(|| format!("{text:?} is none of {}", known()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn sizes_have_suffixes() {
        assert_eq!((bytes("4"), bytes("16M")), (Ok(4), Ok(16 << 20)));
        assert!(bytes("x").is_err() && bytes("99999999999G").is_err());
    }

    #[test]
    fn an_unknown_name_is_told_with_the_known_ones() {
        assert!(op("plus").unwrap_err().ends_with("band, bor, bxor"));
        assert!(datatype("f8e4m3").unwrap_err().ends_with("f32, f64"));
        assert_eq!(
            (datatype("bf16"), algorithm("ring")),
            (Ok(Datatype::Bf16), Ok(Algorithm::Ring))
        );
    }

    #[test]
    fn what_follows_the_program_is_its_own() {
        let line = ["collect", "run", "-n", "2", "program", "-n", "3", "--prefix"];
        let Command::Run(run) = Arguments::parse_from(line).command else { panic!("not run") };
        assert_eq!((run.ranks, run.prefix, run.program.len()), (2, false, 4));
    }
}
