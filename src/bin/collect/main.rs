//! The command-line tool `collect`: starts the ranks of a run, measures, and tells about this
//! library and host.
//!
//! One file per subcommand; `args` lists them. Nothing of this is in the library.

mod args;
mod bench;
mod info;
mod plan;
mod run;
mod store;

use std::process::ExitCode;

use clap::Parser;

use args::{Arguments, Command};

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Bench(arguments) => bench::bench(&arguments),
        Command::Plan(arguments) => plan::plan(&arguments),
        Command::Store(arguments) => store::store(&arguments),
        Command::Info(arguments) => info::info(&arguments),
        Command::Guard => run::guard(),
    };
    done.unwrap_or_else(|message| {
        eprintln!("collect: {message}");
        ExitCode::FAILURE
    })
}
