//! Proofs of every algorithm, planted faults, and mutants that are refused or give the right result.

mod fault;
mod interpret;
mod mutation;
mod proof;
mod random;

use super::{Algorithm, Collective, Plan, Shape, build};

/// All ranks' plans; `in_place` says which ranks are.
fn plans(
    collective: Collective,
    algorithm: Algorithm,
    size: u32,
    root: u32,
    buffers: u16,
    mut in_place: impl FnMut(u32) -> bool,
) -> Vec<Plan> {
    (0..size)
        .map(|rank| {
            let in_place = buffers > 1 || in_place(rank);
            build(&Shape { collective, algorithm, size, rank, root, in_place, buffers }).unwrap()
        })
        .collect()
}
