//! All ranks' plans, a line for each run of ranks whose plans have the same figures.

use collect::plan::{Action, Plan, Step};

use super::{PlanArguments, STEPS_MAX, each_plan, heading, too_many};

/// What a line tells of a rank.
#[derive(Debug, PartialEq, Eq)]
struct Figures {
    sends: usize,
    receives: usize,
    local: usize,
    sent: u64,
    received: u64,
    scratch: u32,
}

impl Figures {
    fn of(plan: &Plan) -> Self {
        let is_send = |step: &&Step| matches!(step.action, Action::Send { .. });
        let blocks = |steps: &mut dyn Iterator<Item = &Step>| {
            steps.map(|step| u64::from(step.range().blocks)).sum()
        };
        let sends = plan.steps.iter().filter(is_send);
        let receives = plan.steps.iter().filter(|step| step.is_receive());
        Self {
            sends: sends.clone().count(),
            receives: receives.clone().count(),
            local: plan.steps.iter().filter(|step| step.peer().is_none()).count(),
            sent: blocks(&mut sends.into_iter()),
            received: blocks(&mut receives.into_iter()),
            scratch: plan.scratch,
        }
    }

    fn line(&self, ranks: &str) -> String {
        let Self { sends, receives, local, sent, received, scratch } = self;
        format!(
            "{ranks:>11}{sends:>10}{receives:>10}{local:>10}{sent:>13}{received:>17}{scratch:>16}\n"
        )
    }
}

pub(super) fn text(arguments: &PlanArguments) -> Result<String, String> {
    let mut lines: Vec<(u32, u32, Figures)> = Vec::new();
    let (mut heading_line, mut steps) = (String::new(), 0);
    for plan in each_plan(arguments)? {
        let plan = plan?;
        steps += plan.steps.len();
        if steps > STEPS_MAX {
            return Err(too_many(&plan, STEPS_MAX));
        }
        let (rank, figures) = (plan.shape.rank, Figures::of(&plan));
        if rank == 0 {
            heading_line = heading(&plan);
        }
        match lines.last_mut() {
            Some((_, last, same)) if *same == figures => *last = rank,
            _ => lines.push((rank, rank, figures)),
        }
    }
    let titles = ["ranks", "sends", "receives", "local", "blocks sent", "blocks received"];
    let [a, b, c, d, e, f] = titles;
    let mut text = format!(
        "{heading_line}\n{a:>11}{b:>10}{c:>10}{d:>10}{e:>13}{f:>17}{:>16}\n",
        "scratch blocks"
    );
    for (first, last, figures) in lines {
        let ranks = if first == last { first.to_string() } else { format!("{first}-{last}") };
        text += &figures.line(&ranks);
    }
    Ok(text)
}
