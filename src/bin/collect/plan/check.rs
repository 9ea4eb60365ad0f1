//! The proof of all ranks' plans.

use std::process::ExitCode;

use collect::plan::{Fault, verify};

use super::{PlanArguments, all_plans, counted, heading};

/// Steps of all ranks together that are proved at most: the proof keeps what every one of them writes.
const STEPS_MAX: usize = 1 << 20;

/// Faults that are printed at most.
const FAULTS_MAX: usize = 20;

pub(super) fn text(arguments: &PlanArguments) -> Result<(String, ExitCode), String> {
    let plans = all_plans(arguments, STEPS_MAX)?;
    let steps = plans.iter().map(|plan| plan.steps.len()).sum();
    let heading = plans.first().map(heading).unwrap_or_default();
    let faults = verify(&plans);
    let code = if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok((format!("{heading}\n{}", verdict(&faults, steps)), code))
}

fn verdict(faults: &[Fault], steps: usize) -> String {
    if faults.is_empty() {
        return format!("proved: {}\n", counted(steps, "step"));
    }
    let mut text =
        format!("wrong: {} in {}\n", counted(faults.len(), "fault"), counted(steps, "step"));
    for fault in faults.iter().take(FAULTS_MAX) {
        text += &format!("{fault}\n");
    }
    if faults.len() > FAULTS_MAX {
        text += &format!("and {} more\n", faults.len() - FAULTS_MAX);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_listed_and_many_are_cut() {
        let fault = |rank| Fault { rank, step: Some(3), text: "reads nothing".into() };
        assert_eq!(verdict(&[], 1), "proved: 1 step\n");
        let two = verdict(&[fault(0), fault(1)], 8);
        assert!(
            two.contains("2 faults in 8 steps") && two.contains("rank 1 step 3: reads nothing")
        );
        let many: Vec<_> = (0..25).map(fault).collect();
        let text = verdict(&many, 8);
        assert!(
            text.contains("rank 19") && !text.contains("rank 20") && text.contains("and 5 more")
        );
    }
}
