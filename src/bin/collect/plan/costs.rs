//! What a collective costs by the model: a table for people, or JSON.

use collect::plan::{Choice, Cost, Model, Shape, algorithms, cost, default_degree};
use serde_json::json;

use super::{PlanArguments, chosen, shape};

/// One algorithm, with its cost or the reason why it has none.
struct Line {
    choice: Choice,
    is_chosen: bool,
    cost: Result<Cost, String>,
}

pub(super) fn text(arguments: &PlanArguments) -> Result<String, String> {
    let (shape, chosen, model) = (shape(arguments)?, chosen(arguments)?, arguments.model());
    let mut choices = match arguments.algorithm {
        Some(algorithm) => vec![Choice { algorithm, degree: shape.degree }],
        None => {
            let served = algorithms(arguments.collective).iter();
            let choice = |algorithm| Choice { algorithm, degree: default_degree(algorithm) };
            served.map(|algorithm| choice(*algorithm)).collect()
        }
    };
    if arguments.algorithm.is_none() && !choices.contains(&chosen) {
        choices.push(chosen);
    }
    let line = |choice: Choice| {
        let shape = Shape { algorithm: choice.algorithm, degree: choice.degree, ..shape };
        let cost = cost(&shape, arguments.bytes, &model).map_err(|error| error.to_string());
        Line { choice, is_chosen: choice == chosen, cost }
    };
    let lines: Vec<Line> = choices.into_iter().map(line).collect();
    if let [Line { cost: Err(error), .. }] = &lines[..] {
        return Err(error.clone());
    }
    if arguments.json {
        return Ok(lines.iter().map(|line| json_line(arguments, line)).collect());
    }
    Ok(heading(arguments, &model) + &lines.iter().map(columns).collect::<String>())
}

fn heading(arguments: &PlanArguments, model: &Model) -> String {
    let PlanArguments { collective, ranks, bytes, .. } = arguments;
    format!(
        "{collective} of {bytes} bytes on {ranks} ranks, modelled; * is what the library chooses\n\
         {model}\n\
         {:<18}{:>14}{:>9}{:>16}{:>18}{:>10}{:>14}\n",
        "algorithm", "time us", "rounds", "bytes a rank", "bytes in all", "messages", "in all"
    )
}

fn columns(line: &Line) -> String {
    let mark = if line.is_chosen { "*" } else { " " };
    let name = format!("{mark} {}", line.choice);
    match &line.cost {
        Err(error) => format!("{name:<18}{:>14} {error}\n", "-"),
        Ok(cost) => format!(
            "{name:<18}{:>14.1}{:>9}{:>16}{:>18}{:>10}{:>14}\n",
            cost.seconds * 1e6,
            cost.rounds,
            cost.bytes_max,
            cost.bytes_total,
            cost.messages_max,
            cost.messages_total
        ),
    }
}

fn json_line(arguments: &PlanArguments, line: &Line) -> String {
    let mut object = json!({
        "collective": arguments.collective.name(), "ranks": arguments.ranks,
        "bytes": arguments.bytes, "algorithm": line.choice.algorithm.name(),
        "degree": line.choice.degree, "chosen": line.is_chosen,
    });
    match &line.cost {
        Err(error) => object["error"] = json!(error),
        Ok(cost) => {
            object["us"] = json!(cost.seconds * 1e6);
            object["rounds"] = json!(cost.rounds);
            object["bytes_max"] = json!(cost.bytes_max);
            object["bytes_total"] = json!(cost.bytes_total);
            object["messages_max"] = json!(cost.messages_max);
            object["messages_total"] = json!(cost.messages_total);
        }
    }
    format!("{object}\n")
}
