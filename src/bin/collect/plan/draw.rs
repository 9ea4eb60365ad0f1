//! A drawing of a collective's plans as SVG: ranks across, time down, an arrow for each message.
//!
//! Time is counted in rounds: a message leaves when all that it waits for has come, and takes one. Colours are of a
//! middle brightness, so that the drawing is readable on white and on black.

use std::collections::HashMap;
use std::fmt::Write;

use collect::plan::{Action, Plan, Range, Step, depths};

use super::steps::{span, what};
use super::{counted, heading};

/// Ranks that are drawn at most.
const RANKS_MAX: usize = 64;

/// Steps that are drawn at most.
pub(super) const STEPS_MAX: usize = 1 << 16;

/// Between ranks, between rounds, and around the drawing, in pixels.
const COLUMN: usize = 90;
const ROW: usize = 60;
const MARGIN: usize = 50;

/// Between the marks of local steps of one rank in one round.
const MARK: usize = 9;

const STYLE: &str = "text{font:11px sans-serif;fill:#777}.line{stroke:#777;stroke-opacity:.4}\
.copy{stroke:#2a7fc8;fill:none}.reduce{stroke:#c2571a;fill:none}.label{font-size:9px}\
circle{stroke:none}circle.copy{fill:#2a7fc8}circle.reduce{fill:#c2571a}";

pub(super) fn drawing(plans: &[Plan]) -> Result<String, String> {
    if plans.len() > RANKS_MAX {
        let ranks = plans.len();
        return Err(format!("{ranks} ranks; at most {RANKS_MAX} can be drawn"));
    }
    let depths = depths(plans).map_err(|error| error.to_string())?;
    let rounds = depths.iter().flatten().max().copied().unwrap_or(0);
    let (width, height) =
        (2 * MARGIN + COLUMN * plans.len().max(4), 3 * MARGIN + ROW * (rounds as usize + 1));
    let title = plans.first().map(heading).unwrap_or_default();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
         <style>{STYLE}</style>\n<defs>{}{}</defs>\n\
         <text x=\"{MARGIN}\" y=\"20\">{}</text>\n",
        arrow_head("copy", "#2a7fc8"),
        arrow_head("reduce", "#c2571a"),
        escaped(&title),
    );
    let rounds_text = counted(rounds as usize, "round");
    let legend =
        format!("{rounds_text} down; blue is copied, orange is reduced, a dot is a local step");
    writeln!(svg, "<text x=\"{MARGIN}\" y=\"36\">{legend}</text>").ok();
    for rank in 0..plans.len() {
        let (x, top, bottom) = (across(rank), down(0), height - MARGIN);
        writeln!(svg, "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{rank}</text>", top - 10)
            .ok();
        writeln!(svg, "<path class=\"line\" d=\"M{x} {top}V{bottom}\"/>").ok();
    }
    let receives = receives(plans);
    for (plan, depths) in plans.iter().zip(&depths) {
        let mut marks = HashMap::new();
        for (step, depth) in plan.steps.iter().zip(depths) {
            if let Action::Send { peer, source } = step.action {
                let receive = receives.get(&(plan.shape.rank, peer, step.ordinal));
                svg += &message(plan, step, (peer, source, *depth), receive.copied());
            } else if step.peer().is_none() {
                let place = marks.entry(*depth).or_insert(0);
                svg += &mark(plan, step, *depth, *place);
                *place += 1;
            }
        }
    }
    Ok(svg + "</svg>\n")
}

/// Every receive, by sender, receiver and ordinal.
fn receives(plans: &[Plan]) -> HashMap<(u32, u32, u32), &Step> {
    let all = plans.iter().flat_map(|plan| plan.steps.iter().map(|step| (plan.shape.rank, step)));
    let receives = all.filter(|(_, step)| step.is_receive());
    receives
        .filter_map(|(rank, step)| step.peer().map(|peer| ((peer, rank, step.ordinal), step)))
        .collect()
}

fn message(
    plan: &Plan,
    step: &Step,
    (peer, source, depth): (u32, Range, u32),
    receive: Option<&Step>,
) -> String {
    let is_reduced = receive.is_some_and(|step| matches!(step.action, Action::RecvReduce { .. }));
    let class = if is_reduced { "reduce" } else { "copy" };
    let (from, to) = (across(plan.shape.rank as usize), across(peer as usize));
    let (top, bottom) = (down(depth.saturating_sub(1)), down(depth));
    // Near the sender, where arrows are apart; messages of one pair in one round one below the other.
    let lower = 10 * (step.ordinal as usize % 3);
    let (x, y) = ((2 * from + to) / 3, (2 * top + bottom) / 3 - 3 + lower);
    let said = escaped(&format!("rank {} {}", plan.shape.rank, what(plan, step)));
    let label = span(source.block, source.blocks);
    format!(
        "<g><title>{said}</title><path class=\"{class}\" marker-end=\"url(#{class})\" d=\"M{from} {top}L{to} {bottom}\"/>\
         <text class=\"label\" x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{label}</text></g>\n"
    )
}

/// A local step, beside its rank's line.
fn mark(plan: &Plan, step: &Step, depth: u32, place: usize) -> String {
    let class = if matches!(step.action, Action::Reduce { .. }) { "reduce" } else { "copy" };
    let (x, y) =
        (across(plan.shape.rank as usize), down(depth) + 6 + (MARK * place) % (ROW - MARK));
    let said = escaped(&format!("rank {} {}", plan.shape.rank, what(plan, step)));
    format!(
        "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"3\"><title>{said}</title></circle>\n"
    )
}

fn arrow_head(class: &str, colour: &str) -> String {
    format!(
        "<marker id=\"{class}\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"{colour}\"/></marker>"
    )
}

fn across(rank: usize) -> usize {
    MARGIN + COLUMN / 2 + COLUMN * rank
}

fn down(round: u32) -> usize {
    MARGIN + 25 + ROW * round as usize
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
