//! `collect info`: what a bug report should say, and what a user wants to know first.

use std::io::Write;
use std::process::ExitCode;
use std::{env, io, thread};

use serde_json::{Value, json};

use crate::args::InfoArguments;

/// Every variable that the library or this tool reads.
const VARIABLES: &[&str] = &[
    "LIBCOLLECT_RANK",
    "LIBCOLLECT_SIZE",
    "LIBCOLLECT_LOCAL_RANK",
    "LIBCOLLECT_LOCAL_SIZE",
    "LIBCOLLECT_STORE",
    "LIBCOLLECT_STORE_TOKEN",
    "LIBCOLLECT_LISTEN",
    "LIBCOLLECT_TABLE",
    "LIBCOLLECT_ALGORITHM",
];

/// Never printed.
const SECRET: &str = "LIBCOLLECT_STORE_TOKEN";

const TRANSPORTS: &[&str] = &["tcp"];

pub(crate) fn info(arguments: &InfoArguments) -> Result<ExitCode, String> {
    let facts = facts();
    let told = if arguments.json { format!("{facts}\n") } else { text(&facts) };
    // A reader that has seen enough is no failure.
    let _ = io::stdout().write_all(told.as_bytes());
    Ok(ExitCode::SUCCESS)
}

fn facts() -> Value {
    let variables = VARIABLES.iter().map(|name| (String::from(*name), value_of(name)));
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "processors": thread::available_parallelism().map_or(1, usize::from),
        "reductions": collect::reduce::path_name(),
        "transports": TRANSPORTS,
        "environment": variables.collect::<serde_json::Map<_, _>>(),
    })
}

fn value_of(name: &str) -> Value {
    match env::var_os(name) {
        None => Value::Null,
        Some(_) if name == SECRET => "(set; not shown)".into(),
        Some(value) => value.to_string_lossy().into(),
    }
}

fn text(facts: &Value) -> String {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut text = format!(
        "version      {}\nprocessors   {} (affinity and cgroup limits counted)\nreductions   {}\ntransports   {}\n",
        plain(&facts["version"]),
        facts["processors"],
        plain(&facts["reductions"]),
        TRANSPORTS.join(" "),
    );
    for name in VARIABLES {
        let value = &facts["environment"][*name];
        let shown = if value.is_null() { "(not set)".to_owned() } else { plain(value) };
        text += &format!("{name:<24} {shown}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_every_variable() {
        let text = text(&facts());
        assert!(VARIABLES.iter().all(|name| text.contains(name)), "{text}");
    }
}
