//! `collect plan`: a collective's plans for people. Prints them, proves them, tells what they cost, draws them.

mod arguments;
mod check;
mod costs;
mod draw;
mod steps;
mod summary;

use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

use collect::plan::{Choice, Facts, Plan, Shape, Table, build, choose, default_degree};

pub(crate) use arguments::PlanArguments;

/// Steps of all ranks together that are made at most where all plans are needed.
const STEPS_MAX: usize = 4 << 20;

pub(crate) fn plan(arguments: &PlanArguments) -> Result<ExitCode, String> {
    let (text, code) = if arguments.cost {
        (costs::text(arguments)?, ExitCode::SUCCESS)
    } else if arguments.check {
        check::text(arguments)?
    } else if let Some(path) = &arguments.svg {
        let drawing = draw::drawing(&all_plans(arguments, draw::STEPS_MAX)?)?;
        fs::write(path, drawing).map_err(|error| format!("writing {}: {error}", path.display()))?;
        (String::new(), ExitCode::SUCCESS)
    } else if let Some(rank) = arguments.rank {
        (steps::text(&plan_of(arguments, rank)?), ExitCode::SUCCESS)
    } else {
        (summary::text(arguments)?, ExitCode::SUCCESS)
    };
    // A reader that has seen enough is no failure.
    let _ = io::stdout().write_all(text.as_bytes());
    Ok(code)
}

/// What the library would choose.
fn chosen(arguments: &PlanArguments) -> Result<Choice, String> {
    let table = match &arguments.table {
        None => Table::default(),
        Some(path) => {
            let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
            let text = fs::read_to_string(path).map_err(|error| named(&error))?;
            Table::parse(&text).map_err(|error| named(&error))?
        }
    };
    let facts = Facts {
        collective: arguments.collective,
        size: arguments.ranks,
        bytes: if arguments.collective.has_own_lengths() { 0 } else { arguments.bytes },
        buffers: arguments.buffers,
        is_ordered: arguments.ordered,
    };
    Ok(choose(&table, &facts))
}

/// The shape that the arguments name, of rank 0.
fn shape(arguments: &PlanArguments) -> Result<Shape, String> {
    let Choice { algorithm, degree } = match arguments.algorithm {
        None => chosen(arguments)?,
        Some(algorithm) => {
            let degree = arguments.degree.unwrap_or_else(|| default_degree(algorithm));
            Choice { algorithm, degree }
        }
    };
    Ok(Shape {
        collective: arguments.collective,
        algorithm,
        size: arguments.ranks,
        rank: 0,
        root: arguments.root,
        // Several buffers are reduced in no other way.
        in_place: arguments.in_place || arguments.buffers > 1,
        buffers: arguments.buffers,
        degree,
    })
}

fn plan_of(arguments: &PlanArguments, rank: u32) -> Result<Plan, String> {
    build(&Shape { rank, ..shape(arguments)? }).map_err(|error| error.to_string())
}

/// All ranks' plans, one after the other.
fn each_plan(
    arguments: &PlanArguments,
) -> Result<impl Iterator<Item = Result<Plan, String>>, String> {
    let shape = shape(arguments)?;
    let plan = move |rank| build(&Shape { rank, ..shape }).map_err(|error| error.to_string());
    Ok((0..shape.size).map(plan))
}

/// All ranks' plans at once, of so many steps in all at most.
fn all_plans(arguments: &PlanArguments, steps_max: usize) -> Result<Vec<Plan>, String> {
    let mut plans: Vec<Plan> = Vec::new();
    let mut steps = 0;
    for plan in each_plan(arguments)? {
        let plan = plan?;
        steps += plan.steps.len();
        if steps > steps_max {
            return Err(too_many(&plan, steps_max));
        }
        plans.push(plan);
    }
    Ok(plans)
}

fn too_many(plan: &Plan, steps_max: usize) -> String {
    let Shape { collective, algorithm, size, .. } = plan.shape;
    format!(
        "{collective} by {algorithm} on {size} ranks has more than {steps_max} steps, too many for this; try fewer ranks, or --rank for the plan of one"
    )
}

/// A line about all of a collective's plans.
fn heading(plan: &Plan) -> String {
    let shape = &plan.shape;
    let degree = match shape.degree {
        0 => String::new(),
        degree => format!(" of degree {degree}"),
    };
    let mut facts = vec![counted(plan.blocks as usize, "block")];
    facts.push(if shape.is_sliced() { "run in slices" } else { "not sliced" }.into());
    if shape.collective.reduces() {
        let order = if shape.is_ordered() { "in rank order" } else { "not in rank order" };
        facts.push(order.into());
    }
    if shape.collective.has_root() {
        facts.push(format!("root {}", shape.root));
    }
    if shape.buffers > 1 {
        facts.push(format!("{} buffers a rank", shape.buffers));
    }
    if shape.in_place {
        facts.push("in place".into());
    }
    let (collective, algorithm) = (shape.collective, shape.algorithm);
    let ranks = counted(shape.size as usize, "rank");
    format!("{collective} by {algorithm}{degree}, {ranks}: {}", facts.join(", "))
}

/// A number of things, in words.
fn counted(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}
