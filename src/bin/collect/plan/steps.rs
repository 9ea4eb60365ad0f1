//! The steps of one rank, a line each.

use collect::plan::{Action, Buffer, Plan, Range, Step};

use super::{counted, heading};

pub(super) fn text(plan: &Plan) -> String {
    let scratch = match plan.scratch {
        0 => "no scratch".to_owned(),
        slots => format!("scratch of {}", counted(slots as usize, "block")),
    };
    let steps = counted(plan.steps.len(), "step");
    let mut text = format!("{}\nrank {}: {steps}, {scratch}\n", heading(plan), plan.shape.rank);
    let lines: Vec<_> = plan.steps.iter().map(|step| (what(plan, step), waits(step))).collect();
    let width = |cells: &mut dyn Iterator<Item = usize>| cells.max().unwrap_or(0);
    let first = width(&mut lines.iter().map(|(what, _)| what.len()));
    for (number, (what, waits)) in lines.iter().enumerate() {
        let line = format!("{number:>5}  {what:<first$}  {waits}");
        text += line.trim_end();
        text += "\n";
    }
    text
}

/// What a step does, in words.
pub(super) fn what(plan: &Plan, step: &Step) -> String {
    let name = |range: &Range| name(plan, *range);
    let ordinal = step.ordinal;
    match &step.action {
        Action::Send { peer, source } => {
            format!("send to {peer}, message {ordinal}: {}", name(source))
        }
        Action::RecvCopy { peer, target } => {
            format!("receive from {peer}, message {ordinal}: {}", name(target))
        }
        Action::RecvReduce { peer, target, local, incoming_first, .. } => {
            let (target, local) = (name(target), name(local));
            let sum = match incoming_first {
                true => format!("received + {local}"),
                false => format!("{local} + received"),
            };
            format!("receive from {peer}, message {ordinal}: {target} = {sum}")
        }
        Action::Copy { target, source } => format!("copy {} = {}", name(target), name(source)),
        Action::Reduce { target, sources, .. } => {
            let sources: Vec<_> = sources.iter().map(name).collect();
            format!("reduce {} = {}", name(target), sources.join(" + "))
        }
    }
}

/// A range by its slots, as in Rust: the end is not in it. The blocks follow where they are numbered otherwise.
pub(super) fn name(plan: &Plan, range: Range) -> String {
    let number = |i: u16| if plan.shape.buffers > 1 { i.to_string() } else { String::new() };
    let buffer = match range.buffer {
        Buffer::In(i) => format!("in{}", number(i)),
        Buffer::Out(i) => format!("out{}", number(i)),
        Buffer::Scratch => "scratch".into(),
    };
    let place = format!("{buffer}[{}]", span(range.slot, range.blocks));
    if range.slot == range.block || plan.blocks == 1 {
        return place;
    }
    let blocks = if range.blocks == 1 { "block" } else { "blocks" };
    format!("{place} ({blocks} {})", span(range.block, range.blocks))
}

/// `first`, or `first..end`.
pub(super) fn span(first: u32, count: u32) -> String {
    if count == 1 { first.to_string() } else { format!("{first}..{}", first + count) }
}

/// What a step waits for, and its marks.
fn waits(step: &Step) -> String {
    let mut words = Vec::new();
    if !step.after.is_empty() {
        words.push(format!("after {}", list(&step.after)));
    }
    if let Some(gate) = step.gate {
        words.push(format!("gate {gate}"));
    }
    if step.causal {
        words.push("causal".into());
    }
    let is_last = matches!(
        step.action,
        Action::RecvReduce { last: true, .. } | Action::Reduce { last: true, .. }
    );
    if is_last {
        words.push("last".into());
    }
    words.join(", ")
}

/// Numbers, those that follow each other as `3-7`.
fn list(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => parts.push((*number, *number)),
        }
    }
    let part = |(first, last): &(u32, u32)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    };
    parts.iter().map(part).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_follow_each_other_are_one_part() {
        assert_eq!(list(&[0, 1, 2, 5, 7, 8]), "0-2 5 7-8");
        assert_eq!(span(2, 1), "2");
        assert_eq!(span(2, 2), "2..4");
    }
}
