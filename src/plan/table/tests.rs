//! The text form, overrides, and that the committed table is what the model makes.

use std::{env, fs};

use proptest::prelude::*;

use super::{RULES_MAX, Rule, TEXT_MAX, Table, modelled};
use crate::error::Error;
use crate::plan::{Algorithm, Choice, Collective, Facts, Model};
use crate::plan::{algorithms, choose, is_ordered};

/// What the committed table begins with.
fn head(model: &Model) -> String {
    format!(
        "# Which algorithm serves which call: the first rule that fits wins. Made by the cost model for\n\
         # {model};\n\
         # COLLECT_WRITE_TABLE=1 cargo test --lib plan::table writes it again.\n"
    )
}

#[test]
fn the_committed_table_is_what_the_model_makes() {
    let model = Model::default();
    let text = format!("{}{}", head(&model), modelled(&model).unwrap());
    if env::var_os("COLLECT_WRITE_TABLE").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/plan/default.table");
        fs::write(path, &text).unwrap();
        return;
    }
    assert_eq!(super::DEFAULT, text, "COLLECT_WRITE_TABLE=1 writes it");
    assert!(text.lines().count() < 200, "a person must be able to read it");
}

fn rules() -> impl Strategy<Value = Rule> {
    let pairs: Vec<_> = Collective::ALL
        .into_iter()
        .flat_map(|collective| algorithms(collective).iter().map(move |it| (collective, *it)))
        .collect();
    let limits = (0..u32::MAX, 0..u64::MAX, 0..u16::MAX, 0..4_u32);
    (proptest::sample::select(pairs), limits, any::<bool>()).prop_map(
        |((collective, algorithm), (size, bytes, buffers, shift), wanted)| Rule {
            is_ordered: wanted && is_ordered(collective, algorithm),
            size_max: if shift == 3 { u32::MAX } else { size },
            bytes_max: bytes << (10 * shift),
            buffers_max: if shift == 3 { u16::MAX } else { buffers },
            ..Rule::any(collective, Choice { algorithm, degree: 0 })
        },
    )
}

proptest! {
    #[test]
    fn a_printed_table_parses_back(rules in proptest::collection::vec(rules(), 0..50)) {
        let table = Table::new(rules).unwrap();
        prop_assert_eq!(Table::parse(&table.to_string()).unwrap(), table);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,200}", line in "[a-z <=:0-9KMG#,]{0,60}") {
        let _ = (Table::parse(&text), Table::parse(&format!("collect-table 1\n{line}")));
        let _ = (Table::default().overridden(&text), Table::default().overridden(&line));
    }
}

fn refused(result: Result<Table, Error>) -> String {
    match result {
        Err(Error::InvalidArgument(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn errors_name_the_line_and_the_word() {
    let head = "collect-table 1\n# a comment\n\n";
    for (line, said) in [
        ("allreduced ring", "line 4: unknown collective \"allreduced\"; known are allreduce,"),
        ("allreduce rings", "unknown algorithm \"rings\"; known are ring,"),
        ("allreduce ranks<8 ring", "unknown condition \"ranks<8\""),
        ("allreduce ranks<=x ring", "\"x\" is no number"),
        ("allreduce ranks<=8T ring", "\"8T\" is no number"),
        ("allreduce bytes<=99999999999G ring", "is no number"),
        ("allreduce bytes<=+8 ring", "\"+8\" is no number"),
        ("allreduce ranks<=4 ranks<=8 ring", "\"ranks\" is given twice"),
        ("allreduce", "\"allreduce\" without an algorithm"),
        ("allreduce ring:0", "the degree in \"ring:0\""),
        ("allreduce ring:x", "the degree in \"ring:x\""),
        ("allreduce ring:2", "line 4: ring takes no degree"),
        ("allreduce dissemination", "dissemination does not serve allreduce (what does: ring"),
        ("allreduce ordered ring", "does not combine the operands of allreduce in rank order"),
    ] {
        let text = refused(Table::parse(&format!("{head}{line}\n")));
        assert!(text.contains(said), "{line}: {text}");
    }
    let long = refused(Table::parse(&format!("{head}{}", "x".repeat(1_000))));
    assert!(long.len() < 400, "{long}");
}

#[test]
fn the_version_comes_first() {
    assert!(refused(Table::parse("")).contains("empty"));
    assert!(refused(Table::parse("# nothing\n")).contains("empty"));
    assert!(refused(Table::parse("allreduce ring\n")).contains("line 1: the first line must be"));
    assert!(refused(Table::parse("collect-table 2\n")).contains("not \"collect-table 2\""));
    assert_eq!(Table::parse("# x\n collect-table   1 # y\n").unwrap().rules(), []);
}

#[test]
fn tables_are_bounded() {
    let rules = |count| format!("collect-table 1\n{}", "allreduce ring\n".repeat(count));
    assert_eq!(Table::parse(&rules(RULES_MAX)).unwrap().rules().len(), RULES_MAX);
    assert!(refused(Table::parse(&rules(RULES_MAX + 1))).contains("more than 1000 rules"));
    let padded = format!("collect-table 1\n{}", "#".repeat(TEXT_MAX));
    assert!(refused(Table::parse(&padded)).contains("at most 65536"));
    let full = Table::parse(&rules(RULES_MAX)).unwrap();
    assert!(refused(full.overridden("barrier=dissemination")).contains("at most 1000"));
    assert!(refused(full.overridden(&" ".repeat(TEXT_MAX + 1))).contains("at most 65536"));
}

#[test]
fn a_table_whose_text_would_not_be_read_is_refused() {
    let choice = Choice { algorithm: Algorithm::Dissemination, degree: 0 };
    let rule = Rule {
        size_max: u32::MAX - 1,
        bytes_max: u64::MAX - 1,
        buffers_max: u16::MAX - 1,
        ..Rule::any(Collective::Barrier, choice)
    };
    assert!(refused(Table::new(vec![rule; RULES_MAX])).contains("bytes of text"));
}

fn chosen(table: &Table, size: u32, bytes: usize, buffers: u16, is_ordered: bool) -> Algorithm {
    let collective = Collective::Allreduce;
    choose(table, &Facts { collective, size, bytes, buffers, is_ordered }).algorithm
}

#[test]
fn the_first_rule_that_fits_wins() {
    let text = "collect-table 1
        allreduce ordered bytes<=1K direct
        allreduce ranks<=4 bytes<=4K direct
        allreduce buffers<=1 bytes<=64K circulant
        allreduce ranks<=8 doubling
        allreduce ring";
    let table = Table::parse(text).unwrap();
    assert_eq!(chosen(&table, 4, 4 << 10, 1, false), Algorithm::Direct);
    assert_eq!(chosen(&table, 4, (4 << 10) + 1, 1, false), Algorithm::Circulant);
    assert_eq!(chosen(&table, 5, 64 << 10, 1, false), Algorithm::Circulant);
    assert_eq!(chosen(&table, 5, 64 << 10, 2, false), Algorithm::Doubling);
    assert_eq!(chosen(&table, 9, 64 << 10, 2, false), Algorithm::Ring);
    // Rules that would break rank order are passed over, and the last resort keeps it.
    assert_eq!(chosen(&table, 64, 1 << 10, 1, true), Algorithm::Direct);
    assert_eq!(chosen(&table, 8, 64 << 10, 1, true), Algorithm::Doubling);
    let last = chosen(&table, 9, 64 << 10, 1, true);
    assert!(is_ordered(Collective::Allreduce, last), "{last}");
}

#[test]
fn overrides_come_first_but_keep_rank_order() {
    let table = Table::default().overridden("allreduce=ring, broadcast=binomial").unwrap();
    assert_eq!(chosen(&table, 2, 8, 1, false), Algorithm::Ring);
    assert_ne!(chosen(&table, 2, 8, 1, true), Algorithm::Ring);
    assert_eq!(Table::default().overridden("").unwrap(), Table::default());
    assert_eq!(Table::parse(&table.to_string()).unwrap(), table);
}

#[test]
fn errors_of_overrides_name_the_part() {
    for (text, said) in [
        ("allreduce", "override \"allreduce\": must be COLLECTIVE=ALGORITHM"),
        ("barrier=dissemination,sum=ring", "override \"sum=ring\": unknown collective \"sum\""),
        ("allreduce=", "unknown algorithm \"\""),
        ("allreduce=binomial", "binomial does not serve allreduce"),
        ("allreduce=ring:7", "ring takes no degree"),
        ("allreduce=ring,allreduce=direct", "override \"allreduce=direct\": allreduce was given"),
    ] {
        let found = refused(Table::default().overridden(text));
        assert!(found.contains(said), "{text}: {found}");
    }
}

#[test]
fn the_default_table_has_a_rule_for_every_call() {
    let table = Table::default();
    for collective in Collective::ALL {
        if algorithms(collective).is_empty() {
            continue;
        }
        let (size, bytes, buffers) = (u32::MAX, usize::MAX, u16::MAX);
        let facts = Facts { collective, size, bytes, buffers, is_ordered: false };
        assert!(table.find(&facts).is_some(), "{collective}");
    }
}
