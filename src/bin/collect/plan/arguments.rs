//! The options of `collect plan`.

use std::path::PathBuf;

use clap::Args;
use collect::Algorithm;
use collect::plan::{Collective, Model};

use crate::args::{algorithm, bytes};

/// Print the plan of a collective, prove it, tell what it costs, or draw it.
///
/// A plan is the list of the steps that one rank performs; all of a collective's plans together can be proved before
/// anything runs. Nothing is started: this works for worlds of up to 65536 ranks. Without --rank, --check, --cost or
/// --svg there is a line for each rank, ranks that look alike together.
#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    /// The collective, such as allreduce
    #[arg(value_parser = collective)]
    pub(crate) collective: Collective,

    /// How many ranks
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) ranks: u32,

    /// The algorithm; by default the one that the library chooses for so many ranks and bytes
    #[arg(long, value_parser = algorithm)]
    pub(crate) algorithm: Option<Algorithm>,

    /// The algorithm's parameter: the radix of a k-nomial tree, the messages at once of a pairwise exchange
    #[arg(long, value_name = "K", requires = "algorithm", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) degree: Option<u16>,

    /// The rank that has, or gets, the data
    #[arg(long, value_name = "RANK", default_value_t = 0)]
    pub(crate) root: u32,

    /// Bytes of the larger one of a rank's input and output (suffixes K, M, G)
    #[arg(long, value_name = "BYTES", default_value = "1M", value_parser = bytes)]
    pub(crate) bytes: usize,

    /// The input is the output
    #[arg(long)]
    pub(crate) in_place: bool,

    /// Buffers that each rank reduces (allreduce, in place)
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) buffers: u16,

    /// Choose for an operation that does not commute: operands combine in rank order
    #[arg(long)]
    pub(crate) ordered: bool,

    /// Choose by this table, which `collect bench tune` writes, instead of the library's own
    #[arg(long, value_name = "FILE")]
    pub(crate) table: Option<PathBuf>,

    /// Print the steps of this rank
    #[arg(long, value_name = "RANK", group = "what")]
    pub(crate) rank: Option<u32>,

    /// Prove the plans of all ranks; the status is 1 if something is wrong with them
    #[arg(long, group = "what")]
    pub(crate) check: bool,

    /// Tell what it costs by a model of links and processors; without --algorithm, by each algorithm
    #[arg(long, group = "what")]
    pub(crate) cost: bool,

    /// Draw it as SVG: time down, ranks across, an arrow for each message (at most 64 ranks)
    #[arg(long, value_name = "FILE", group = "what")]
    pub(crate) svg: Option<PathBuf>,

    /// With --cost: a message's latency, in µs
    #[arg(long, value_name = "US", requires = "cost", value_parser = positive)]
    alpha_us: Option<f64>,

    /// With --cost: the rate of a link, in GB/s
    #[arg(long, value_name = "GB/S", requires = "cost", value_parser = positive)]
    beta_gbs: Option<f64>,

    /// With --cost: the rate of a reduction, in GB/s
    #[arg(long, value_name = "GB/S", requires = "cost", value_parser = positive)]
    gamma_gbs: Option<f64>,

    /// With --cost: a process's time for each message that it sends or receives, in µs
    #[arg(long, value_name = "US", requires = "cost", value_parser = positive)]
    overhead_us: Option<f64>,

    /// With --cost: print one JSON object for each algorithm
    #[arg(long, requires = "cost")]
    pub(crate) json: bool,
}

impl PlanArguments {
    /// The model, with what was given.
    pub(crate) fn model(&self) -> Model {
        let default = Model::default();
        let second_of_gigabyte = |rate: f64| 1e-9 / rate;
        Model {
            alpha_s: self.alpha_us.map_or(default.alpha_s, |us| us * 1e-6),
            beta_s: self.beta_gbs.map_or(default.beta_s, second_of_gigabyte),
            gamma_s: self.gamma_gbs.map_or(default.gamma_s, second_of_gigabyte),
            overhead_s: self.overhead_us.map_or(default.overhead_s, |us| us * 1e-6),
            ..default
        }
    }
}

fn collective(text: &str) -> Result<Collective, String> {
    let known = || Collective::ALL.map(Collective::name).join(", ");
    Collective::from_name(text).ok_or_else(|| format!("{text:?} is none of {}", known()))
}

/// A number above 0.
fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| format!("{text:?} is no number above 0"))
}
