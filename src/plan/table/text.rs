//! The text of a table: one rule a line, read by people and sent between ranks.
//!
//! ```text
//! collect-table 1                             # the version of this form
//! allreduce ordered ranks<=8 bytes<=4K doubling
//! alltoall ranks<=64 pairwise:16              # an algorithm and its degree
//! ```
//!
//! Every condition may be left out; numbers may end in K, M or G (of 1024).

use std::fmt;

use super::{RULES_MAX, Rule, TEXT_MAX, Table};
use crate::error::Error;
use crate::plan::{Algorithm, Choice, Collective};

/// The first line.
const VERSION: &str = "collect-table 1";

/// Characters of a caller's text that an error repeats.
const QUOTE_MAX: usize = 40;

impl Table {
    /// Reads a table's text.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] that names the first line at fault: an unknown word, an algorithm that does not serve
    /// its collective, or does not keep rank order where that is asked for; also for more than [`TEXT_MAX`] bytes or
    /// [`RULES_MAX`] rules.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.len() > TEXT_MAX {
            let text = format!("table: {} bytes; at most {TEXT_MAX} are read", text.len());
            return Err(Error::InvalidArgument(text));
        }
        let mut has_version = false;
        let mut rules = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let refuse = |text| Error::InvalidArgument(format!("table line {number}: {text}"));
            let words: Vec<&str> =
                line.split('#').next().unwrap_or("").split_whitespace().collect();
            if words.is_empty() {
                continue;
            }
            if !has_version {
                is_version(&words).map_err(refuse)?;
                has_version = true;
                continue;
            }
            if rules.len() == RULES_MAX {
                return Err(refuse(format!("more than {RULES_MAX} rules")));
            }
            rules.push(rule(&words).map_err(refuse)?);
        }
        if !has_version {
            let text = format!("table: empty; the first line must be {VERSION:?}");
            return Err(Error::InvalidArgument(text));
        }
        Self::new(rules)
    }

    /// This table with rules put in front, such as `allreduce=ring,alltoall=pairwise:16`: an algorithm, and its degree
    /// if it is not to be the default, for all calls of a collective. A call whose operands must combine in rank order
    /// passes over an algorithm that does not.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] that names the part at fault.
    pub fn overridden(&self, text: &str) -> Result<Self, Error> {
        if text.len() > TEXT_MAX {
            let text = format!("overrides: {} bytes; at most {TEXT_MAX} are read", text.len());
            return Err(Error::InvalidArgument(text));
        }
        let mut rules: Vec<Rule> = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let refuse = |text| Error::InvalidArgument(format!("override {}: {text}", quote(part)));
            let rule = overriding(part).map_err(refuse)?;
            if rules.iter().any(|earlier| earlier.collective == rule.collective) {
                return Err(refuse(format!("{} was given before", rule.collective)));
            }
            rules.push(rule);
        }
        rules.extend(self.rules());
        Self::new(rules)
    }
}

fn is_version(words: &[&str]) -> Result<(), String> {
    if words.join(" ") == VERSION {
        return Ok(());
    }
    Err(format!("the first line must be {VERSION:?}, not {}", quote(&words.join(" "))))
}

/// Reads the words of a line: a collective, conditions, an algorithm.
fn rule(words: &[&str]) -> Result<Rule, String> {
    let [name, conditions @ .., last] = words else {
        return Err(format!("{} without an algorithm", quote(words.first().unwrap_or(&""))));
    };
    let mut rule = Rule::any(collective(name)?, choice(last)?);
    let mut seen: Vec<&str> = Vec::new();
    for condition in conditions {
        let name = condition.split("<=").next().unwrap_or(condition);
        if seen.contains(&name) {
            return Err(format!("{} is given twice", quote(name)));
        }
        seen.push(name);
        add(&mut rule, condition)?;
    }
    checked(rule)
}

fn overriding(part: &str) -> Result<Rule, String> {
    let Some((name, chosen)) = part.split_once('=') else {
        return Err("must be COLLECTIVE=ALGORITHM or COLLECTIVE=ALGORITHM:DEGREE".into());
    };
    checked(Rule::any(collective(name.trim())?, choice(chosen.trim())?))
}

fn checked(rule: Rule) -> Result<Rule, String> {
    super::fault(&rule).map_or(Ok(rule), Err)
}

fn add(rule: &mut Rule, condition: &str) -> Result<(), String> {
    match condition.split_once("<=") {
        None if condition == "ordered" => rule.is_ordered = true,
        Some(("ranks", limit)) => rule.size_max = number(limit, u64::from(u32::MAX) - 1)? as u32,
        Some(("bytes", limit)) => rule.bytes_max = number(limit, u64::MAX - 1)?,
        Some(("buffers", limit)) => {
            rule.buffers_max = number(limit, u64::from(u16::MAX) - 1)? as u16;
        }
        _ => {
            let known = "ordered, ranks<=N, bytes<=N, buffers<=N";
            return Err(format!("unknown condition {}; known are {known}", quote(condition)));
        }
    }
    Ok(())
}

fn collective(name: &str) -> Result<Collective, String> {
    let known = || Collective::ALL.map(Collective::name).join(", ");
    Collective::from_name(name)
        .ok_or_else(|| format!("unknown collective {}; known are {}", quote(name), known()))
}

fn choice(text: &str) -> Result<Choice, String> {
    let (name, degree) = match text.split_once(':') {
        None => (text, 0),
        Some((name, degree)) => match degree.parse() {
            Ok(degree) if degree > 0 => (name, degree),
            _ => return Err(format!("the degree in {} is no number from 1 to 65535", quote(text))),
        },
    };
    let known = || Algorithm::ALL.map(Algorithm::name).join(", ");
    let algorithm = Algorithm::from_name(name)
        .ok_or_else(|| format!("unknown algorithm {}; known are {}", quote(name), known()))?;
    Ok(Choice { algorithm, degree })
}

/// A number up to `most`.
fn number(text: &str, most: u64) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    // Rust would also read a plus sign.
    let digits = digits.bytes().all(|digit| digit.is_ascii_digit()).then_some(digits);
    let parsed = digits.and_then(|digits| digits.parse::<u64>().ok());
    let number = parsed.and_then(|number| number.checked_mul(1 << shift));
    number
        .filter(|number| *number <= most)
        .ok_or_else(|| format!("{} is no number from 0 to {most}", quote(text)))
}

/// A caller's text in an error: escaped, and cut if it is long.
fn quote(text: &str) -> String {
    if text.chars().count() <= QUOTE_MAX {
        return format!("{text:?}");
    }
    let start: String = text.chars().take(QUOTE_MAX).collect();
    format!("{start:?}…")
}

impl fmt::Display for Table {
    /// What [`Table::parse`] reads back to an equal table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{VERSION}")?;
        self.rules().iter().try_for_each(|rule| writeln!(f, "{rule}"))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.collective)?;
        if self.is_ordered {
            f.write_str(" ordered")?;
        }
        if self.size_max != u32::MAX {
            write!(f, " ranks<={}", self.size_max)?;
        }
        if self.bytes_max != u64::MAX {
            write!(f, " bytes<={}", suffixed(self.bytes_max))?;
        }
        if self.buffers_max != u16::MAX {
            write!(f, " buffers<={}", self.buffers_max)?;
        }
        write!(f, " {}", self.choice)
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.degree {
            0 => write!(f, "{}", self.algorithm),
            degree => write!(f, "{}:{degree}", self.algorithm),
        }
    }
}

/// A number with the largest suffix that leaves it whole.
fn suffixed(number: u64) -> String {
    for (shift, suffix) in [(30, "G"), (20, "M"), (10, "K")] {
        if number > 0 && number.is_multiple_of(1 << shift) {
            return format!("{}{suffix}", number >> shift);
        }
    }
    number.to_string()
}
