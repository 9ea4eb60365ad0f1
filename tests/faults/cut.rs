//! Network namespaces, and cuts of one direction of a connection in them.
//!
//! All ranks of a run are in one namespace with nothing but loopback. A rule of routing lets packets from one port to
//! another vanish: the sender notices only that nothing is acknowledged.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::Command;

/// What is not checked where namespaces cannot be made.
const NAME: &str = "one_way_cuts_between_ranks";

/// Puts this thread, and every process that it starts from now on, into a namespace of its own. Whether that is possible;
/// if not, it is noted as skipped.
pub(crate) fn enter_namespace() -> bool {
    // SAFETY: takes no pointer, and concerns this thread only.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return skip(&format!("unshare: {}", std::io::Error::last_os_error()));
    }
    // The table of local addresses is looked at first of all; a rule that comes before it needs room.
    let commands = ["link set lo up", "rule add pref 100 lookup local", "rule del pref 0"];
    match commands.iter().try_for_each(|arguments| ip(arguments)) {
        Ok(()) => true,
        Err(why) => skip(&why),
    }
}

fn skip(why: &str) -> bool {
    println!("skipped {NAME}: {why}");
    if let Some(skips) = std::env::var_os("COLLECT_SKIPS") {
        let mut skips = OpenOptions::new().create(true).append(true).open(skips).unwrap();
        writeln!(skips, "{NAME}: {why}").unwrap();
    }
    false
}

/// From now on, nothing that is sent from this port to the other one arrives.
pub(crate) fn cut(from_port: u16, to_port: u16) {
    let ports = format!("sport {from_port} dport {to_port}");
    ip(&format!("rule add pref 50 ipproto tcp {ports} blackhole")).unwrap();
}

fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.map_err(|error| format!("ip {arguments}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(format!("ip {arguments}: {said}")) }
}
