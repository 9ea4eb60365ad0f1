//! Which algorithm serves which call: ordered rules, the first that fits wins.
//!
//! A table is agreed between ranks (rank 0's travels at creation), so it is a value with a text form, `text`. The
//! default one, `default.table`, is made by the cost model (`modelled`), and a test makes it again and compares.
//! `choose` alone asks it.

mod modelled;
mod text;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use once_cell::sync::OnceCell;

use super::property::degrees;
use super::{Algorithm, Choice, Collective, Facts, algorithms, is_ordered};
use crate::error::Error;

pub use modelled::modelled;

/// The default table's text.
const DEFAULT: &str = include_str!("../default.table");

/// Bytes of text that a table has at most.
pub(super) const TEXT_MAX: usize = 64 << 10;

/// Rules that a table has at most.
pub(super) const RULES_MAX: usize = 1_000;

/// Ordered rules; a clone shares them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    rules: Arc<[Rule]>,
}

/// Calls that the rule is for, and what serves them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// What is done.
    pub collective: Collective,
    /// Only for calls whose operands must combine in rank order. Another rule serves those too where its algorithm
    /// keeps that order.
    pub is_ordered: bool,
    /// Members, at most; `u32::MAX` for any number.
    pub size_max: u32,
    /// [`Facts::bytes`], at most; `u64::MAX` for any number.
    pub bytes_max: u64,
    /// Buffers per rank, at most; `u16::MAX` for any number.
    pub buffers_max: u16,
    /// What serves them; a degree of 0 is the algorithm's own default.
    pub choice: Choice,
}

impl Rule {
    /// A rule for every call of a collective.
    #[must_use]
    pub fn any(collective: Collective, choice: Choice) -> Self {
        Self {
            collective,
            is_ordered: false,
            size_max: u32::MAX,
            bytes_max: u64::MAX,
            buffers_max: u16::MAX,
            choice,
        }
    }

    /// Whether the call is one that the rule is for, and the algorithm may serve it.
    fn fits(&self, facts: &Facts) -> bool {
        self.collective == facts.collective
            && facts.size <= self.size_max
            && facts.bytes as u64 <= self.bytes_max
            && facts.buffers <= self.buffers_max
            && (facts.is_ordered || !self.is_ordered)
            && serves(facts, self.choice.algorithm)
    }
}

impl Table {
    /// A table of these rules.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a rule whose algorithm or degree its calls cannot have, or for too many rules.
    pub fn new(rules: Vec<Rule>) -> Result<Self, Error> {
        if rules.len() > RULES_MAX {
            let text = format!("{} rules; a table has at most {RULES_MAX}", rules.len());
            return Err(Error::InvalidArgument(text));
        }
        if let Some(text) = rules.iter().find_map(fault) {
            return Err(Error::InvalidArgument(text));
        }
        let table = Self { rules: rules.into() };
        let bytes = table.to_string().len();
        if bytes > TEXT_MAX {
            let text = format!("a table of {bytes} bytes of text; it has at most {TEXT_MAX}");
            return Err(Error::InvalidArgument(text));
        }
        Ok(table)
    }

    /// The rules, the first that fits first.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// What the first rule that fits says.
    pub(super) fn find(&self, facts: &Facts) -> Option<Choice> {
        self.rules.iter().find(|rule| rule.fits(facts)).map(|rule| rule.choice)
    }
}

impl Default for Table {
    /// The one that the cost model made. Allocates on the first call only.
    fn default() -> Self {
        static TABLE: OnceCell<Table> = OnceCell::new();
        let parse = || Table::parse(DEFAULT).expect("a test parses the committed table");
        TABLE.get_or_init(parse).clone()
    }
}

/// Whether an algorithm may serve a call.
pub(super) fn serves(facts: &Facts, algorithm: Algorithm) -> bool {
    let needs_order = facts.is_ordered && facts.collective.reduces();
    algorithms(facts.collective).contains(&algorithm)
        && (!needs_order || is_ordered(facts.collective, algorithm))
}

/// What is wrong with a rule, if anything is.
fn fault(rule: &Rule) -> Option<String> {
    let Rule { collective, choice: Choice { algorithm, degree }, .. } = *rule;
    if !algorithms(collective).contains(&algorithm) {
        let known = algorithms(collective).iter().map(|algorithm| algorithm.name());
        let known = known.collect::<Vec<_>>().join(", ");
        return Some(format!("{algorithm} does not serve {collective} (what does: {known})"));
    }
    if rule.is_ordered && !is_ordered(collective, algorithm) {
        return Some(format!(
            "{algorithm} does not combine the operands of {collective} in rank order"
        ));
    }
    let degrees = degrees(algorithm);
    let (least, most) = (degrees.start(), degrees.end());
    match degree {
        0 => None,
        degree if degrees.contains(&degree) => None,
        _ if *most == 0 => Some(format!("{algorithm} takes no degree, {degree} was given")),
        _ => Some(format!("{algorithm} takes a degree from {least} to {most}, {degree} was given")),
    }
}
