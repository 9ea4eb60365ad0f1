//! `collect store`: a store server in a process of its own.
//!
//! Prints its URL once it serves, and ends when it is asked to.

use std::env;
use std::io::Write;
use std::process::ExitCode;

use collect::store::TcpServer;

use crate::args::StoreArguments;
use crate::run::{Signals, is_request};

pub(crate) fn store(arguments: &StoreArguments) -> Result<ExitCode, String> {
    let signals = Signals::block()?;
    let token = env::var("LIBCOLLECT_STORE_TOKEN").ok().map(String::into_bytes);
    let server = TcpServer::start(arguments.listen, token).map_err(|error| error.to_string())?;
    println!("tcp://{}", server.address());
    std::io::stdout().flush().map_err(|error| format!("printing the URL: {error}"))?;
    while !signals.wait(None).is_some_and(is_request) {}
    Ok(ExitCode::SUCCESS)
}
