//! Which host this is, and how much of it the process may use.
#![forbid(unsafe_code)]

use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::thread;

/// Processors that this process may use at once: its affinity and its control group's quota counted. At least 1.
#[must_use]
pub fn usable_cpus() -> usize {
    // The standard library counts both, for control groups of version 1 and 2.
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// The kernel's random number of this boot, or an empty text where `/proc` is hidden.
#[must_use]
pub fn boot_id() -> String {
    first_line("/proc/sys/kernel/random/boot_id")
}

/// Text that two processes share exactly when they can share loopback and memory: boot, name, and the network and IPC
/// namespaces.
#[must_use]
pub fn host_identity() -> String {
    let name = first_line("/proc/sys/kernel/hostname");
    format!("{} {name} {} {}", boot_id(), namespace("net"), namespace("ipc"))
}

fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or_default().trim().to_owned()
}

fn namespace(kind: &str) -> String {
    let link = fs::read_link(Path::new("/proc/self/ns").join(kind));
    link.map(|target| target.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_is_stable_and_names_the_boot() {
        assert_eq!(host_identity(), host_identity());
        assert!(host_identity().starts_with(&boot_id()));
        assert!(!host_identity().contains('\n'));
        assert!(usable_cpus() >= 1);
    }
}
