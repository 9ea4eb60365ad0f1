//! Proofs of every algorithm, planted faults, and mutants that are refused or give the right result.

mod fault;
mod geometry;
mod interpret;
mod mutation;
mod proof;
mod random;

use super::{Algorithm, Collective, Plan, Shape, algorithms, build, default_degree};

/// One collective, on all ranks.
#[derive(Debug, Clone, Copy)]
struct Case {
    collective: Collective,
    algorithm: Algorithm,
    degree: u16,
    size: u32,
    root: u32,
    buffers: u16,
}

impl Case {
    /// One buffer a rank, root 0, the default degree.
    fn new(collective: Collective, algorithm: Algorithm, size: u32) -> Self {
        let degree = default_degree(algorithm);
        Self { collective, algorithm, degree, size, root: 0, buffers: 1 }
    }

    fn shape(&self, rank: u32, in_place: bool) -> Shape {
        let Self { collective, algorithm, degree, size, root, buffers } = *self;
        Shape { collective, algorithm, size, rank, root, in_place, buffers, degree }
    }

    /// All ranks' plans; `in_place` says which ranks are.
    fn plans(&self, mut in_place: impl FnMut(u32) -> bool) -> Vec<Plan> {
        let shape = |rank| self.shape(rank, self.buffers > 1 || in_place(rank));
        (0..self.size).map(shape).map(|shape| build(&shape).unwrap()).collect()
    }
}

/// Every algorithm of every collective.
fn pairs() -> impl Iterator<Item = (Collective, Algorithm)> + Clone {
    Collective::ALL.into_iter().flat_map(|collective| {
        algorithms(collective).iter().map(move |algorithm| (collective, *algorithm))
    })
}

/// The pairs at some sizes, with a root, several buffers and another degree where they can have them.
fn worlds(sizes: impl IntoIterator<Item = u32> + Clone) -> impl Iterator<Item = Case> {
    pairs().flat_map(move |(collective, algorithm)| {
        sizes.clone().into_iter().flat_map(move |size| {
            let size = if collective == Collective::Message { 2 } else { size };
            let case = Case::new(collective, algorithm, size);
            let multi =
                (collective == Collective::Allreduce).then_some(Case { buffers: 3, ..case });
            let rooted = collective.has_root().then_some(Case { root: size / 2, ..case });
            let other = (case.degree > 0).then_some(Case { degree: 2, ..case });
            [Some(case), multi, rooted, other].into_iter().flatten()
        })
    })
}
