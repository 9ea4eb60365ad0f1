//! What calls are refused, with which words, and what the others ask of the engine.

use std::sync::Arc;

use super::job::Job;
use super::scaling::Products;
use super::*;
use crate::datatype::Op;
use crate::engine::{Custom, Matching, Region, Source, Target};

/// Rank 1 of 3.
const PLACE: Place = Place { size: 3, rank: 1, slice_bytes: 256 << 10, eager_bytes: 32 << 10 };

const ELEMENTS: usize = 64;

/// Memory of 64 elements, whose parts are named by their first element and their length.
struct Memory(Box<[i32; ELEMENTS]>);

impl Memory {
    fn new() -> Self {
        Self(Box::new([0; ELEMENTS]))
    }

    fn whole(&mut self) -> Region {
        Target::of(&mut *self.0).region()
    }
}

fn at(memory: Region, first: usize, count: usize) -> Region {
    memory.part(4 * first, 4 * (first + count))
}

fn moved() -> Elements {
    Elements::moved(Datatype::I32, &CallOptions::default()).unwrap()
}

fn reduced(op: Op) -> Elements {
    Elements::reduced(Datatype::I32, op, &CallOptions::default()).unwrap()
}

/// Each of the jobs was refused with its text.
fn are_refused(jobs: Vec<(Result<Job<'_>, Error>, &str)>) {
    for (line, (job, expected)) in jobs.into_iter().enumerate() {
        match job {
            Err(Error::InvalidArgument(text)) => {
                assert!(text.contains(expected), "{line}: {text:?} lacks {expected:?}");
            }
            other => panic!("{line}: {other:?}, not a refusal with {expected:?}"),
        }
    }
}

#[test]
fn buffers_of_one_length_are_checked() {
    let mut memory = Memory::new();
    let m = memory.whole();
    let (one, odd) = (at(m, 0, 2), m.part(0, 7));
    let all = |count| at(m, 8, count);
    are_refused(vec![
        (allreduce::single(one, all(3), reduced(Op::Sum)), "the source has 8 bytes, the target 12"),
        (allreduce::single(one, at(m, 1, 2), reduced(Op::Sum)), "source and target overlap"),
        (allreduce::single(odd, odd, reduced(Op::Sum)), "no whole number of i32, of 4 bytes each"),
        (broadcast::check(one, moved(), 3, &PLACE), "root 3 is no rank of a world of 3"),
        (reduce::check(one, one, reduced(Op::Sum), 7, &PLACE), "root 7 is no rank"),
        (reduce::check(one, all(3), reduced(Op::Sum), 1, &PLACE), "the target 12"),
        (allgather::check(one, all(5), moved(), &PLACE), "the target 20: not 3 times as many"),
        (allgather::check(at(m, 8, 2), all(6), moved(), &PLACE), "is not this rank's part of it"),
        (gather::check(one, all(5), moved(), 1, &PLACE), "the target 20: not 3 times as many"),
        (gather::check(one, all(6), moved(), 3, &PLACE), "root 3"),
        (gather::check(at(m, 12, 2), all(6), moved(), 1, &PLACE), "the source overlaps the target"),
        (scatter::check(all(5), one, moved(), 1, &PLACE), "the source 20: not 3 times as many"),
        (scatter::check(all(6), one, moved(), 3, &PLACE), "root 3"),
        (scatter::check(all(6), at(m, 8, 2), moved(), 1, &PLACE), "the target overlaps the source"),
        (reduce_scatter::check(all(7), one, reduced(Op::Sum), &PLACE), "the source 28"),
        (reduce_scatter::check(all(6), at(m, 9, 2), reduced(Op::Sum), &PLACE), "overlaps"),
        (alltoall::check(all(4), all(4), moved(), &PLACE), "4 elements: not as many for each of 3"),
        (alltoall::check(all(6), at(m, 0, 3), moved(), &PLACE), "the target 12"),
        (alltoall::check(all(6), at(m, 9, 6), moved(), &PLACE), "overlap"),
        (scan::check(Collective::Scan, one, all(3), reduced(Op::Sum)), "the target 12"),
        (scan::check(Collective::Scan, one, one, reduced(Op::Avg)), "scan has no avg"),
        (scan::check(Collective::Exscan, one, one, reduced(Op::Avg)), "use sum"),
        (message::send(one, moved(), (3, 0), &PLACE), "receiver 3 is no rank"),
        (message::receive(one, moved(), (Some(3), 0), &PLACE), "sender 3 is no rank"),
        (message::receive(odd, moved(), (None, 0), &PLACE), "the target has 7 bytes"),
    ]);
}

#[test]
fn parts_of_different_lengths_are_checked() {
    let mut memory = Memory::new();
    let m = memory.whole();
    let (mine, all, place) = (at(m, 0, 2), at(m, 8, 10), &PLACE);
    let gatherv = |source, counts, displacements| {
        gatherv::check(source, all, (counts, displacements), (moved(), 1), place)
    };
    let huge = usize::MAX;
    are_refused(vec![
        (gatherv(mine, &[1, 2], None), "2 counts of the target in a world of 3"),
        (gatherv(mine, &[1, 2, 3], Some(&[0])), "1 displacements of the target"),
        (gatherv(mine, &[1, 2, 8], None), "rank 2's 8 from element 3 on are not in it"),
        (gatherv(mine, &[1, 2, 1], Some(&[0, 9, 4])), "rank 1's 2 from element 9 on"),
        (gatherv(mine, &[1, 2, huge], None), "are not in it"),
        (gatherv(mine, &[1, 2, 1], Some(&[0, huge, 4])), "are not in it"),
        (
            gatherv(mine, &[1, 2, 3], Some(&[4, 6, 7])),
            "parts of ranks 1 and 2 overlap in the target",
        ),
        (gatherv(mine, &[1, 2, 3], Some(&[1, 6, 0])), "parts of ranks 2 and 0 overlap"),
        (gatherv(mine, &[1, 1, 1], None), "the counts say 1 for this rank, 1"),
        (gatherv(at(m, 8, 2), &[1, 2, 1], None), "the source overlaps the target"),
        (
            scatterv::check(all, mine, (&[1, 3, 1], None), (moved(), 1), place),
            "the target has 2 elements, the counts say 3",
        ),
        (
            scatterv::check(all, at(m, 11, 2), (&[2, 2, 2], None), (moved(), 1), place),
            "the target overlaps the source",
        ),
        (
            scatterv::check(all, mine, (&[8, 2, 8], None), (moved(), 1), place),
            "the source has 10 elements; rank 2's 8",
        ),
        (
            allgatherv::check(mine, all, (&[4, 2, 4], Some(&[0, 2, 4])), moved(), place),
            "parts of ranks 0 and 1 overlap",
        ),
        (allgatherv::check(mine, all, (&[], None), moved(), place), "0 counts of the target"),
        (
            reduce_scatterv::check(all, mine, &[1, 2, 3], reduced(Op::Sum), place),
            "the source has 10 elements, the counts say 6 in all",
        ),
        (
            reduce_scatterv::check(all, at(m, 8, 2), &[4, 2, 4], reduced(Op::Sum), place),
            "is not this rank's part of it",
        ),
    ]);
}

#[test]
fn exchanges_are_checked() {
    let mut memory = Memory::new();
    let m = memory.whole();
    let both = at(m, 0, 12);
    let check = |sent, received| alltoallv::check(sent, received, moved(), &PLACE);
    are_refused(vec![
        (check((both, &[1; 2], None), (at(m, 20, 9), &[3; 3], None)), "2 counts of the source"),
        (check((both, &[4; 3], None), (at(m, 20, 9), &[4; 3], None)), "the target has 9 elements"),
        (check((both, &[4; 3], None), (both, &[3; 3], None)), "in place, what is sent"),
        (check((both, &[4; 3], None), (both, &[4; 3], Some(&[0, 4, 8]))), "equal counts"),
        (
            check((both, &[1; 3], Some(&[0, 2, 4])), (at(m, 3, 8), &[1; 3], None)),
            "parts of the source overlap parts of the target",
        ),
        (
            check((both, &[1; 3], Some(&[4, 0, 4])), (at(m, 20, 8), &[2; 3], Some(&[1, 2, 5]))),
            "parts of ranks 0 and 1 overlap in the target",
        ),
    ]);
    // Parts may lie between each other's, and be sent twice.
    let job =
        check((at(m, 0, 6), &[1; 3], Some(&[0, 2, 0])), (at(m, 1, 5), &[1; 3], Some(&[0, 2, 4])));
    assert_eq!(job.unwrap().count, 6);
}

#[test]
fn totals_beyond_the_address_space_are_refused() {
    let mut memory = Memory::new();
    let m = at(memory.whole(), 0, 3);
    let large = Place { size: usize::MAX / 4, ..PLACE };
    are_refused(vec![
        (gather::check(m, m, moved(), 0, &large), "exceed the address space"),
        (scatter::check(m, m, moved(), 0, &large), "exceed the address space"),
    ]);
    let empty = Region::EMPTY;
    assert_eq!(gather::check(empty, empty, moved(), 0, &large).unwrap().count, 0);
}

#[test]
fn what_has_no_meaning_on_a_rank_may_be_anything() {
    let mut memory = Memory::new();
    let m = memory.whole();
    let (mine, lists) = (at(m, 0, 2), (&[9, 9][..], Some(&[usize::MAX][..])));
    let jobs = [
        reduce::check(mine, mine.part(0, 1), reduced(Op::Sum), 0, &PLACE),
        gather::check(mine, mine.part(0, 1), moved(), 0, &PLACE),
        gatherv::check(mine, mine.part(0, 1), lists, (moved(), 0), &PLACE),
    ];
    for job in jobs {
        let job = job.unwrap();
        assert_eq!((job.input, job.output, job.in_place), (mine, Region::EMPTY, false));
    }
    for job in [
        scatter::check(mine.part(0, 1), mine, moved(), 0, &PLACE),
        scatterv::check(mine.part(0, 1), mine, lists, (moved(), 0), &PLACE),
    ] {
        let job = job.unwrap();
        assert_eq!((job.input, job.output, job.in_place), (Region::EMPTY, mine, false));
    }
}

#[test]
fn each_collective_knows_its_place() {
    let mut memory = Memory::new();
    let m = memory.whole();
    let (all, own) = (at(m, 0, 6), at(m, 2, 2));
    let sum = reduced(Op::Sum);
    let (packed, shifted) = (&[1, 2, 3][..], Some(&[5, 2, 0][..]));
    let in_place = [
        allreduce::single(own, own, sum),
        reduce::check(own, own, sum, 1, &PLACE),
        broadcast::check(own, moved(), 0, &PLACE),
        allgather::check(own, all, moved(), &PLACE),
        gather::check(own, all, moved(), 1, &PLACE),
        scatter::check(all, own, moved(), 1, &PLACE),
        reduce_scatter::check(all, own, sum, &PLACE),
        alltoall::check(all, all, moved(), &PLACE),
        scan::check(Collective::Scan, own, own, sum),
        allgatherv::check(own, at(m, 0, 6), (&[1, 2, 2], shifted), moved(), &PLACE),
        gatherv::check(own, at(m, 0, 6), (&[1, 2, 2], shifted), (moved(), 1), &PLACE),
        scatterv::check(at(m, 1, 6), own, (packed, None), (moved(), 1), &PLACE),
        reduce_scatterv::check(at(m, 1, 6), own, packed, sum, &PLACE),
        alltoallv::check((all, packed, None), (all, packed, None), moved(), &PLACE),
    ];
    for job in in_place {
        let job = job.unwrap();
        assert!(job.in_place, "{job:?}");
    }
}

#[test]
fn counts_are_of_all_blocks_and_of_what_was_told() {
    let mut memory = Memory::new();
    let m = memory.whole();
    let (all, own) = (at(m, 0, 6), at(m, 20, 2));
    let counts = |job: Result<Job<'_>, Error>| {
        let job = job.unwrap();
        (job.count, job.told_count, job.size_count)
    };
    assert_eq!(counts(gather::check(own, all, moved(), 0, &PLACE)), (6, 2, 6));
    assert_eq!(counts(allgather::check(own, all, moved(), &PLACE)), (6, 2, 6));
    assert_eq!(counts(reduce_scatter::check(all, own, reduced(Op::Avg), &PLACE)), (6, 2, 6));
    assert_eq!(counts(alltoall::check(all, at(m, 20, 6), moved(), &PLACE)), (18, 2, 6));
    assert_eq!(counts(allgatherv::check(own, all, (&[1, 2, 3], None), moved(), &PLACE)), (6, 6, 6));
    let (elements, lists) = ((moved(), 1), (&[1, 2, 3][..], None));
    assert_eq!(counts(gatherv::check(own, all, lists, elements, &PLACE)), (6, 0, 0));
    assert_eq!(counts(gatherv::check(own, all, lists, (moved(), 0), &PLACE)), (2, 0, 0));
    assert_eq!(counts(message::send(own, moved(), (0, 5), &PLACE)), (2, 0, 0));
}

/// What a job puts in an operation's lists.
fn lists(job: &Job<'_>) -> [Vec<usize>; 3] {
    let mut lists = [vec![], vec![], vec![]];
    let [lengths, input, output] = &mut lists;
    job.fill_lists(lengths, input, output);
    lists
}

#[test]
fn lists_say_what_a_rank_knows() {
    let mut memory = Memory::new();
    let m = memory.whole();
    let (all, own, huge) = (at(m, 0, 6), at(m, 20, 2), usize::MAX);
    let (counts, packed) = (&[1, 2, 3][..], (&[1, 2, 3][..], None));
    let job = gatherv::check(own, all, packed, (moved(), 1), &PLACE).unwrap();
    assert_eq!(lists(&job), [vec![1, 2, 3], vec![0], vec![0, 1, 3]]);
    let job = gatherv::check(own, all, packed, (moved(), 2), &PLACE).unwrap();
    assert_eq!(lists(&job), [vec![0, 2, 0], vec![0], vec![]]);
    let job = scatterv::check(all, own, packed, (moved(), 1), &PLACE).unwrap();
    assert_eq!(lists(&job), [vec![1, 2, 3], vec![0, 1, 3], vec![0]]);
    let job = scatterv::check(all, own, packed, (moved(), 0), &PLACE).unwrap();
    assert_eq!(lists(&job), [vec![0, 2, 0], vec![], vec![0]]);
    let job = reduce_scatterv::check(all, own, counts, reduced(Op::Sum), &PLACE).unwrap();
    assert_eq!(lists(&job), [vec![1, 2, 3], vec![0, 1, 3], vec![0]]);
    let apart = Some(&[4, 0, huge][..]);
    let job = allgatherv::check(own, all, (&[1, 2, 0], apart), moved(), &PLACE).unwrap();
    assert_eq!(lists(&job), [vec![1, 2, 0], vec![0], vec![4, 0, 0]]);
    let received = (at(m, 30, 9), &[3; 3][..], None);
    let job = alltoallv::check((all, counts, None), received, moved(), &PLACE).unwrap();
    assert_eq!(lists(&job), [vec![1, 2, 3, 3, 3, 3], vec![0, 1, 3], vec![0, 3, 6]]);
    let even = gather::check(own, all, moved(), 1, &PLACE).unwrap();
    assert_eq!(lists(&even), [const { Vec::new() }; 3]);
}

#[test]
fn fingerprints_differ_where_calls_do() {
    let mut memory = Memory::new();
    let m = memory.whole();
    let (all, own) = (at(m, 0, 6), at(m, 20, 2));
    let shape = |job: &Job<'_>| {
        let table = Table::default();
        job.shape(&PLACE, &CallOptions::default(), &table)
            .map(|shape| job.fingerprint(&shape, &PLACE))
    };
    let of = |counts| {
        let job = allgatherv::check(own, all, (counts, None), moved(), &PLACE).unwrap();
        shape(&job).unwrap()
    };
    assert_eq!(of(&[1, 2, 3]), of(&[1, 2, 3]));
    assert_ne!(of(&[1, 2, 3]), of(&[3, 2, 1]), "all ranks know all counts");
    let of = |source, counts| {
        let job = gatherv::check(source, all, (counts, None), (moved(), 1), &PLACE).unwrap();
        shape(&job).unwrap()
    };
    assert_eq!(of(own, &[1, 2, 3]), of(at(m, 20, 3), &[0, 3, 3]), "only the root knows them");
}

#[test]
fn keys_and_tags_say_what_matches() {
    let mut memory = Memory::new();
    let own = at(memory.whole(), 0, 2);
    let keyed = CallOptions { key: Some(0), ..CallOptions::default() };
    let plain = CallOptions::default();
    let barrier = barrier::job(moved());
    assert_eq!(barrier.matching_of(&plain), Ok(Matching::Ordered));
    assert_eq!(barrier.matching_of(&keyed), Ok(Matching::Keyed(0)));
    let send = message::send(own, moved(), (2, 7), &PLACE).unwrap();
    assert_eq!(send.matching_of(&plain), Ok(Matching::Send { to: 2, tag: 7 }));
    let text = send.matching_of(&keyed).unwrap_err().to_string();
    assert!(text.contains("messages match by their tags"), "{text}");
    let receive = message::receive(own, moved(), (None, 7), &PLACE).unwrap();
    assert_eq!(receive.matching_of(&plain), Ok(Matching::Receive { from: None, tag: 7 }));
}

#[test]
fn a_degree_needs_its_algorithm() {
    let options = CallOptions { degree: 4, ..CallOptions::default() };
    let error =
        barrier::job(moved()).shape(&PLACE, &options, &Table::default()).unwrap_err().to_string();
    assert!(error.contains("degree 4 without an algorithm"), "{error}");
}

/// Bytes that are reduced by a caller's own function.
fn custom(element_bytes: usize, is_commutative: bool) -> Option<Arc<Custom>> {
    Custom::new(element_bytes, is_commutative, |_, _, _| {}).ok().map(Arc::new)
}

#[test]
fn options_of_reductions_are_checked() {
    let plain = CallOptions::default();
    let scaled = CallOptions { factor: 0.5, ..CallOptions::default() };
    let own = CallOptions { custom: custom(12, true), ..CallOptions::default() };
    let reduced = Elements::reduced;
    for (elements, expected) in [
        (reduced(Datatype::F32, Op::Band, &plain), "band is not for elements of type f32"),
        (reduced(Datatype::F32, Op::Sum, &scaled), "factor 0.5 with sum: only premul_sum has one"),
        (reduced(Datatype::I32, Op::PremulSum, &scaled), "need a whole number"),
        (reduced(Datatype::U8, Op::PremulSum, &own), "only op custom has one"),
        (reduced(Datatype::U8, Op::Custom, &plain), "op custom without a reduction"),
        (reduced(Datatype::F32, Op::Custom, &own), "have 4 bytes, those of the reduction 12"),
        (Elements::moved(Datatype::U8, &own), "a call that reduces nothing"),
        (Elements::moved(Datatype::U8, &scaled), "factor 0.5 with a call that reduces nothing"),
    ] {
        let text = elements.unwrap_err().to_string();
        assert!(text.contains(expected), "{text:?} lacks {expected:?}");
    }
    let elements = reduced(Datatype::U8, Op::Custom, &own).unwrap();
    assert_eq!((elements.bytes, elements.is_ordered), (12, false));
    assert_eq!(elements.count_of(36, "source"), Ok(3));
    assert!(elements.count_of(40, "source").is_err());
    let own = CallOptions { custom: custom(4, false), ..CallOptions::default() };
    assert!(reduced(Datatype::F32, Op::Custom, &own).unwrap().is_ordered);
}

#[test]
fn reductions_that_do_not_commute_need_rank_order() {
    let mut memory = Memory::new();
    let own = at(memory.whole(), 0, 2);
    let reduction = |is_commutative, algorithm| {
        let custom = custom(4, is_commutative);
        let options = CallOptions { custom, algorithm, ..CallOptions::default() };
        let elements = Elements::reduced(Datatype::I32, Op::Custom, &options).unwrap();
        let job = allreduce::single(own, own, elements).unwrap();
        job.shape(&PLACE, &options, &Table::default()).map(|shape| shape.algorithm)
    };
    let text = reduction(false, Some(Algorithm::Ring)).unwrap_err().to_string();
    assert!(text.starts_with("ring does not combine the operands of allreduce in rank"), "{text}");
    assert!(text.contains("direct, doubling"), "{text}");
    for algorithm in [None, Some(Algorithm::Doubling)] {
        let chosen = reduction(false, algorithm).unwrap();
        assert!(matches!(chosen, Algorithm::Direct | Algorithm::Doubling), "{chosen}");
    }
    assert_eq!(reduction(true, Some(Algorithm::Ring)), Ok(Algorithm::Ring));
}

/// Runs `call` of rank `rank` of 3 with factor 3 as far as to the engine: what it reads then, and what is written.
fn premultiplied(call: &Call<'_>, rank: usize) -> (Vec<i32>, Vec<Region>) {
    let place = Place { rank, ..PLACE };
    let options = CallOptions { factor: 3.0, ..CallOptions::default() };
    let mut job = check(call, elements_of(call, &options).unwrap(), &place).unwrap();
    let scaling = job.scaling(&place).unwrap();
    let mut own = scaling.run(job.sources(), job.targets(), &SpareProducts::default());
    let read = match scaling.products {
        Products::InTargets => job.output,
        Products::InOwn => own.lend(job.input.bytes()),
    };
    assert_eq!(job.in_place, scaling.products == Products::InTargets);
    let words = |bytes: &[u8]| {
        let words = bytes.chunks_exact(4).map(|word| i32::from_le_bytes(word.try_into().unwrap()));
        words.collect()
    };
    (read.with(words), job.targets().collect())
}

#[test]
fn products_go_to_the_target_where_that_is_as_long_and_written() {
    let (datatype, op) = (Datatype::I32, Op::PremulSum);
    let (from, mut to) = ([1, 2, 3], [0; 3]);
    let (source, target) = (Source::of(&from), Target::of(&mut to));
    premultiplied(&Call::Scan { source, target, datatype, op }, 1);
    assert_eq!(to, [3, 6, 9]);
    let mut to = [0; 3];
    let (source, target) = (Source::of(&from), Target::of(&mut to));
    let (read, _) = premultiplied(&Call::Exscan { source, target, datatype, op }, 0);
    assert_eq!((read, to), (vec![3, 6, 9], [0; 3]), "the target of rank 0 is not touched");
    let mut to = [0; 3];
    let (source, target) = (Source::of(&from), Target::of(&mut to));
    let call = Call::Reduce { source, target, datatype, op, root: 2 };
    assert_eq!(premultiplied(&call, 1), (vec![3, 6, 9], vec![Region::EMPTY]));
    assert_eq!(to, [0; 3], "nor is that of another rank than the root");
    let mut to = [0; 1];
    let (source, target) = (Source::of(&from), Target::of(&mut to));
    let (read, _) = premultiplied(&Call::ReduceScatter { source, target, datatype, op }, 1);
    assert_eq!((read, from, to), (vec![3, 6, 9], [1, 2, 3], [0]));
}

#[test]
fn several_buffers_are_multiplied_where_they_are() {
    let (mut one, mut other) = ([1, 2], [3, 4]);
    let mut buffers = [Target::of(&mut one), Target::of(&mut other)];
    let (datatype, op) = (Datatype::I32, Op::PremulSum);
    let call = Call::AllreduceMulti { buffers: &mut buffers, datatype, op };
    let (_, targets) = premultiplied(&call, 0);
    assert_eq!(targets.len(), 2);
    assert_eq!((one, other), ([3, 6], [9, 12]));
}
