//! A checked call: what runs on which buffers; and how it is planned.
#![forbid(unsafe_code)]

use super::draft::{Draft, Submission};
use super::elements::Elements;
use super::pieces::Starts;
use super::scaling::{Products, Scaling, SpareProducts};
use super::{CallOptions, Place, Programs};
use crate::engine::{Fingerprint, Matching, Operation, Region, Scratch, Target};
use crate::error::Error;
use crate::plan::{self, Algorithm, Choice, Collective, Shape, Table};

/// What runs on which buffers.
#[derive(Debug)]
pub struct Job<'a> {
    pub(super) collective: Collective,
    pub(super) elements: Elements,
    /// `None` where there is no root.
    pub(super) root: Option<usize>,
    /// Elements of all logical blocks together.
    pub(super) count: usize,
    /// The count on which all ranks must agree, as the caller tells it; 0 where each has its own.
    pub(super) told_count: usize,
    /// Elements of the larger one of a rank's input and output; 0 where ranks know only lengths of their own.
    pub(super) size_count: usize,
    pub(super) input: Region,
    pub(super) output: Region,
    /// Whether input i is output i, or the part of it that the collective says.
    pub(super) in_place: bool,
    /// The buffers of a multi-buffer call, which are input and output both; else none.
    pub(super) many: &'a [Target<'a>],
    /// Where blocks differ in length.
    pub(super) uneven: Option<Uneven<'a>>,
    /// A message's peer and tag, in the place of the order of the calls.
    pub(super) matching: Option<Matching>,
}

/// Blocks that differ in length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Uneven<'a> {
    pub(super) lengths: Lengths<'a>,
    pub(super) input: Starts<'a>,
    pub(super) output: Starts<'a>,
}

/// The elements of each block, as an operation takes them.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lengths<'a> {
    /// All of them.
    All(&'a [usize]),
    /// What goes to each rank, and what comes from each.
    Exchange(&'a [usize], &'a [usize]),
    /// Only this rank's is known.
    Own {
        /// Ranks.
        size: usize,
        /// This rank.
        rank: usize,
        /// Its elements.
        count: usize,
    },
}

impl<'a> Job<'a> {
    /// A job on equal blocks of `count` elements in all, in which no rank is special.
    pub(super) fn of(collective: Collective, elements: Elements, count: usize) -> Self {
        Self {
            collective,
            elements,
            root: None,
            count,
            told_count: count,
            size_count: count,
            input: Region::EMPTY,
            output: Region::EMPTY,
            in_place: false,
            many: &[],
            uneven: None,
            matching: None,
        }
    }

    /// The buffers that are read.
    pub(super) fn sources(&self) -> impl Iterator<Item = Region> + use<'_, 'a> {
        let one = self.many.is_empty().then_some(self.input);
        self.many.iter().map(Target::region).chain(one)
    }

    /// The buffers that are written.
    pub(super) fn targets(&self) -> impl Iterator<Item = Region> + use<'_, 'a> {
        let one = self.many.is_empty().then_some(self.output);
        self.many.iter().map(Target::region).chain(one)
    }

    /// Fills an operation's lists, which are empty and keep what memory they have.
    pub(super) fn fill_lists(
        &self,
        lengths: &mut Vec<usize>,
        input_starts: &mut Vec<usize>,
        output_starts: &mut Vec<usize>,
    ) {
        let Some(uneven) = &self.uneven else { return };
        match uneven.lengths {
            Lengths::All(counts) => lengths.extend_from_slice(counts),
            Lengths::Exchange(sent, received) => {
                lengths.extend_from_slice(sent);
                lengths.extend_from_slice(received);
            }
            Lengths::Own { size, rank, count } => {
                lengths.extend((0..size).map(|at| if at == rank { count } else { 0 }));
            }
        }
        uneven.input.fill(input_starts);
        uneven.output.fill(output_starts);
    }

    /// Chooses an algorithm, unless the caller has, and finds its program.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the algorithm does not serve this collective, or if a message has a key.
    pub(super) fn plan(
        mut self,
        place: &Place,
        options: &CallOptions,
        programs: &Programs,
    ) -> Result<Planned<'a>, Error> {
        let scaling = self.scaling(place);
        let matching = self.matching_of(options)?;
        let shape = self.shape(place, options, programs.table())?;
        // Of the algorithm, not of this rank's plan: all ranks must cut alike.
        let slice = (place.slice_bytes / self.elements.bytes).max(1);
        let draft = Draft {
            matching,
            program: programs.get(&shape)?,
            elements: self.elements,
            custom: options.custom.clone(),
            buffers: self.buffers(),
            count: self.count,
            slice_count: if shape.is_sliced() { slice } else { self.count.max(1) },
            fingerprint: self.fingerprint(&shape, place),
            scaling,
        };
        Ok(Planned { job: self, draft })
    }

    /// Buffers per rank.
    fn buffers(&self) -> u16 {
        u16::try_from(self.many.len().max(1)).unwrap_or(u16::MAX)
    }

    /// What is multiplied before the operation begins, which then works on the products.
    pub(super) fn scaling(&mut self, place: &Place) -> Option<Scaling> {
        let factor = self.elements.factor?;
        let is_written = match self.collective {
            Collective::Reduce => self.root == Some(place.rank),
            Collective::Exscan => place.rank > 0,
            _ => true,
        };
        let fits = is_written && self.input.bytes() == self.output.bytes();
        self.in_place = fits;
        let products = if fits { Products::InTargets } else { Products::InOwn };
        Some(Scaling { factor, datatype: self.elements.datatype, products })
    }

    pub(super) fn matching_of(&self, options: &CallOptions) -> Result<Matching, Error> {
        match (self.matching, options.key) {
            (None, None) => Ok(Matching::Ordered),
            (None, Some(key)) => Ok(Matching::Keyed(key)),
            (Some(message), None) => Ok(message),
            (Some(_), Some(key)) => Err(Error::InvalidArgument(format!(
                "a message with key {key}: messages match by their tags, leave the key out"
            ))),
        }
    }

    pub(super) fn shape(
        &self,
        place: &Place,
        options: &CallOptions,
        table: &Table,
    ) -> Result<Shape, Error> {
        let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        // A message's plan has two ranks, whoever they are in the world.
        let (size, rank) = match self.matching {
            Some(Matching::Send { .. }) => (2, 0),
            Some(_) => (2, 1),
            None => (small(place.size), small(place.rank)),
        };
        let Choice { algorithm, degree } = self.choice(size, options, table)?;
        Ok(Shape {
            collective: self.collective,
            algorithm,
            size,
            rank,
            root: self.root.map_or(0, small),
            in_place: self.in_place,
            buffers: self.buffers(),
            degree,
        })
    }

    /// The caller's choice, or the library's.
    fn choice(&self, size: u32, options: &CallOptions, table: &Table) -> Result<Choice, Error> {
        let is_scan = matches!(self.collective, Collective::Scan | Collective::Exscan);
        let is_ordered = is_scan || self.elements.is_ordered;
        let chosen = match (options.algorithm, options.degree) {
            (Some(algorithm), 0) => Choice { algorithm, degree: plan::default_degree(algorithm) },
            (Some(algorithm), degree) => Choice { algorithm, degree },
            (None, 0) => plan::choose(
                table,
                &plan::Facts {
                    collective: self.collective,
                    size,
                    bytes: self.size_count.saturating_mul(self.elements.bytes),
                    buffers: self.buffers(),
                    is_ordered,
                },
            ),
            (None, degree) => {
                return Err(Error::InvalidArgument(format!(
                    "degree {degree} without an algorithm that it is of: give both or none"
                )));
            }
        };
        if is_ordered {
            self.check_order(chosen.algorithm)?;
        }
        Ok(chosen)
    }

    /// Refuses an algorithm that does not combine operands in rank order.
    fn check_order(&self, algorithm: Algorithm) -> Result<(), Error> {
        let serving = plan::algorithms(self.collective);
        let is_ordered = |algorithm| plan::is_ordered(self.collective, algorithm);
        // What does not serve at all is refused with words of its own.
        if is_ordered(algorithm) || !serving.contains(&algorithm) {
            return Ok(());
        }
        let ordered = serving.iter().copied().filter(|algorithm| is_ordered(*algorithm));
        let names: Vec<&str> = ordered.map(Algorithm::name).collect();
        Err(Error::InvalidArgument(format!(
            "{algorithm} does not combine the operands of {} in rank order, as this reduction needs: use one of {}",
            self.collective,
            names.join(", ")
        )))
    }

    /// What the ranks must agree on.
    pub(super) fn fingerprint(&self, shape: &Shape, place: &Place) -> Fingerprint {
        let numbers = [
            u64::from(shape.buffers),
            place.slice_bytes as u64,
            place.eager_bytes as u64,
            u64::from(plan::REVISION),
            u64::from(shape.degree),
            self.elements.bytes as u64,
            u64::from(self.elements.is_ordered),
        ];
        let counts: &[usize] = match self.uneven {
            Some(Uneven { lengths: Lengths::All(counts), .. })
                if !self.collective.has_own_lengths() =>
            {
                counts
            }
            _ => &[],
        };
        let counts = counts.iter().map(|count| *count as u64);
        Fingerprint {
            collective: self.collective as u8,
            datatype: self.elements.datatype as u8,
            op: self.elements.op.map_or(0, |op| op as u8),
            algorithm: shape.algorithm as u8,
            root: shape.root,
            count: self.told_count as u64,
            hash: hash_of(numbers.into_iter().chain(counts)),
        }
    }
}

/// A job with its program.
#[derive(Debug)]
pub struct Planned<'a> {
    pub(super) job: Job<'a>,
    pub(super) draft: Draft,
}

impl Planned<'_> {
    /// Multiplies what is to be multiplied before [`Planned::fill`], which is given what this returns.
    #[must_use]
    pub fn scale(&self, spares: &SpareProducts) -> Scratch {
        let Some(scaling) = &self.draft.scaling else { return Scratch::default() };
        scaling.run(self.job.sources(), self.job.targets(), spares)
    }

    /// Makes the operation, from a used one if there is one. Allocates only if there is none.
    #[must_use]
    pub fn fill(
        &self,
        spare: Option<Box<Operation>>,
        submission: &Submission,
        own: &mut Scratch,
    ) -> Box<Operation> {
        let buffers = (self.job.sources(), self.job.targets());
        let mut operation = self.draft.fill(spare, submission, buffers, own);
        let Operation { lengths, input_starts, output_starts, .. } = &mut *operation;
        self.job.fill_lists(lengths, input_starts, output_starts);
        operation
    }
}

/// A hash of numbers and their order, by the mixing of SplitMix64 (Steele, Lea and Flood 2014): two multiplications a
/// number, since every call makes one.
pub(crate) fn hash(numbers: &[u64]) -> u64 {
    hash_of(numbers.iter().copied())
}

fn hash_of(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0x9e37_79b9_7f4a_7c15, |hash, number| {
        let mixed = (hash ^ number).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 32)
    })
}
