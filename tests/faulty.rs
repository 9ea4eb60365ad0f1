//! Random faults in random programs: 100 seeded runs of the fault harness. The long form is in `faults`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "faults/mod.rs"]
mod harness;
mod ranks;
mod reference;
mod scenes;

#[test]
fn faults_harm_nobody_else_seeds_0_to_24() {
    harness::sweep("faults_harm_nobody_else_seeds_0_to_24", 0..25, 1);
}

#[test]
fn faults_harm_nobody_else_seeds_25_to_49() {
    harness::sweep("faults_harm_nobody_else_seeds_25_to_49", 25..50, 1);
}

#[test]
fn faults_harm_nobody_else_seeds_50_to_74() {
    harness::sweep("faults_harm_nobody_else_seeds_50_to_74", 50..75, 1);
}

#[test]
fn faults_harm_nobody_else_seeds_75_to_99() {
    harness::sweep("faults_harm_nobody_else_seeds_75_to_99", 75..100, 1);
}
