//! `collect run`, `info`, `plan` and `bench tune`, as a user meets them: statuses, environment, output, and that nothing
//! stays behind.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use collect::plan::{Collective, Rule, Table, algorithms};
use serde_json::Value;

/// How long anything may take on a machine as busy as it gets. No test waits for it to pass.
const DEADLINE: Duration = Duration::from_secs(120);

fn collect() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_collect"));
    command.stdin(Stdio::null());
    command
}

/// Runs `script` as `ranks` ranks, with options before it.
fn run_script(ranks: u32, options: &[&str], script: &str) -> Output {
    let size = ranks.to_string();
    let mut command = collect();
    command.args(["run", "-n", &size]).args(options).args(["--", "sh", "-c", script]);
    command.output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Lines of ranks come in any order.
fn lines(text: &str) -> BTreeSet<&str> {
    text.lines().collect()
}

#[test]
fn ranks_that_succeed_make_a_run_that_succeeds() {
    let output = run_script(3, &[], "exit 0");
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
}

#[test]
fn each_rank_is_told_its_place() {
    let script =
        "echo $LIBCOLLECT_RANK/$LIBCOLLECT_SIZE $LIBCOLLECT_LOCAL_RANK/$LIBCOLLECT_LOCAL_SIZE";
    let output = run_script(3, &[], script);
    assert_eq!(lines(&stdout(&output)), BTreeSet::from(["0/3 0/3", "1/3 1/3", "2/3 2/3"]));
}

#[test]
fn the_ranks_share_one_store_and_a_token_of_128_bits() {
    let output = run_script(4, &[], "echo $LIBCOLLECT_STORE $LIBCOLLECT_STORE_TOKEN");
    let text = stdout(&output);
    let told = lines(&text);
    assert_eq!((text.lines().count(), told.len()), (4, 1), "{text}");
    let (store, token) = told.first().unwrap().split_once(' ').unwrap();
    assert!(store.strip_prefix("tcp://127.0.0.1:").is_some_and(|port| port.parse::<u16>().is_ok()));
    assert!(token.len() == 32 && token.chars().all(|c| c.is_ascii_hexdigit()), "{token}");
}

#[test]
fn a_store_of_the_callers_is_passed_on_with_its_token() {
    let script = "echo $LIBCOLLECT_STORE $LIBCOLLECT_STORE_TOKEN";
    let mut command = collect();
    command.env("LIBCOLLECT_STORE_TOKEN", "mine").args([
        "run",
        "-n",
        "1",
        "--store",
        "file:///tmp/x",
    ]);
    let output = command.args(["--", "sh", "-c", script]).output().unwrap();
    assert_eq!(stdout(&output), "file:///tmp/x mine\n");
}

#[test]
fn prefixed_lines_are_whole_also_the_last_one() {
    let script = "echo one; printf two; echo three >&2";
    let output = run_script(2, &["--prefix"], script);
    let expected = |lines: [&'static str; 4]| BTreeSet::from(lines);
    let text = stdout(&output);
    assert_eq!(lines(&text), expected(["[0] one", "[0] two", "[1] one", "[1] two"]));
    assert!(text.ends_with('\n'));
    assert_eq!(lines(&stderr(&output)), BTreeSet::from(["[0] three", "[1] three"]));
}

#[test]
fn without_a_prefix_output_passes_untouched() {
    assert_eq!(stdout(&run_script(1, &[], "printf two")), "two");
}

#[test]
fn the_first_failure_ends_the_others_and_is_the_status() {
    let script = "[ $LIBCOLLECT_RANK = 1 ] && exit 7; exec sleep 1000";
    let output = run_script(3, &[], script);
    assert_eq!(output.status.code(), Some(7));
    assert!(stderr(&output).contains("rank 1 exited with status 7"), "{}", stderr(&output));
}

#[test]
fn a_rank_that_a_signal_ends_gives_128_and_its_number() {
    let script = "[ $LIBCOLLECT_RANK = 2 ] && kill -KILL $$; exec sleep 1000";
    let output = run_script(3, &[], script);
    assert_eq!(output.status.code(), Some(128 + 9));
    assert!(stderr(&output).contains("rank 2 was ended by signal 9"), "{}", stderr(&output));
}

#[test]
fn ranks_that_ignore_sigterm_are_killed() {
    let folder = scratch("ignore");
    let ready = folder.join("ready");
    let ready = ready.display();
    let script = format!(
        "if [ $LIBCOLLECT_RANK = 0 ]; then until [ -e {ready} ]; do sleep 0.05; done; exit 3; fi
         trap '' TERM; touch {ready}; while :; do sleep 1; done"
    );
    assert_eq!(run_script(2, &[], &script).status.code(), Some(3));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let output = collect().args(["run", "-n", "2", "--", "/no/such/program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    assert!(stderr(&output).contains("/no/such/program"), "{}", stderr(&output));
}

#[test]
fn no_ranks_are_refused() {
    let output = collect().args(["run", "-n", "0", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_process_that_holds_the_output_open_does_not_hold_the_run() {
    let folder = scratch("holds");
    let note = folder.join("left");
    let script = format!("setsid sh -c 'echo $$ > {}; exec sleep 1000' &", note.display());
    let output = run_script(1, &["--prefix"], &script);
    assert_eq!(output.status.code(), Some(0));
    let left = wait_for(|| fs::read_to_string(&note).ok()?.trim().parse::<u32>().ok());
    assert!(is_alive(left), "a process in a session of its own is left alone");
    signal(left, "KILL");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_request_to_end_reaches_the_ranks() {
    let script = "trap 'echo told; exit 0' TERM; echo $$; while :; do sleep 0.1; done";
    let mut run = start(2, script);
    let mut output = BufReader::new(run.stdout.take().unwrap());
    let _ = processes_of(&mut output, 2);
    signal(run.id(), "TERM");
    assert_eq!(run.wait().unwrap().code(), Some(0));
    let rest: Vec<_> = output.lines().map(Result::unwrap).collect();
    assert_eq!(rest, ["told", "told"]);
}

#[test]
fn an_interrupted_run_has_the_status_of_an_interrupt() {
    let mut run = start(2, "trap - INT; echo $$; while :; do sleep 0.1; done");
    let mut output = BufReader::new(run.stdout.take().unwrap());
    let _ = processes_of(&mut output, 2);
    signal(run.id(), "INT");
    assert_eq!(run.wait().unwrap().code(), Some(128 + 2));
}

#[test]
fn a_killed_launcher_leaves_neither_ranks_nor_what_they_started() {
    let mut run = start(3, "sleep 1000 & echo $$; echo $!; wait");
    let mut output = BufReader::new(run.stdout.take().unwrap());
    let processes = processes_of(&mut output, 6);
    assert!(processes.iter().all(|process| is_alive(*process)));
    run.kill().unwrap();
    run.wait().unwrap();
    wait_for(|| processes.iter().all(|process| !is_alive(*process)).then_some(()));
}

#[test]
fn a_failed_run_leaves_nothing_of_its_ranks_groups() {
    // A rank fails once it has been told to, by then all have said what they started.
    let mut run = start(2, "trap 'exit 1' USR1; sleep 1000 & echo $!; echo $$; wait");
    let mut output = BufReader::new(run.stdout.take().unwrap());
    let processes = processes_of(&mut output, 4);
    assert!(processes.iter().all(|process| is_alive(*process)));
    signal(*processes.last().unwrap(), "USR1");
    assert_eq!(run.wait().unwrap().code(), Some(1));
    wait_for(|| processes.iter().all(|process| !is_alive(*process)).then_some(()));
}

#[test]
fn info_names_the_variables_and_hides_the_token() {
    let mut command = collect();
    command.env("LIBCOLLECT_STORE", "file:///tmp/x").env("LIBCOLLECT_STORE_TOKEN", "secret");
    let text = stdout(&command.arg("info").output().unwrap());
    for fact in [env!("CARGO_PKG_VERSION"), "tcp", "file:///tmp/x", "LIBCOLLECT_LISTEN"] {
        assert!(text.contains(fact), "{fact}: {text}");
    }
    assert!(!text.contains("secret"), "{text}");
}

/// Runs `collect plan` with these words.
fn plan(line: &str) -> Output {
    collect().arg("plan").args(line.split_whitespace()).output().unwrap()
}

/// What `collect plan` prints where it succeeds.
fn planned(line: &str) -> String {
    let output = plan(line);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()), "{line}");
    stdout(&output)
}

#[test]
fn a_plan_is_printed_step_by_step() {
    let text = planned("allreduce -n 4 --algorithm ring --rank 1");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 14, "{text}");
    assert_eq!(lines[0], "allreduce by ring, 4 ranks: 4 blocks, not sliced, not in rank order");
    assert_eq!(lines[1], "rank 1: 12 steps, no scratch");
    assert_eq!(lines[2], "    0  send to 2, message 0: in[0]");
    for (line, ends) in
        [(4, "out[3]                          after 1"), (7, "last"), (13, "causal")]
    {
        assert!(lines[line].ends_with(ends), "{}", lines[line]);
    }
    let exchange = planned("alltoall -n 16 --algorithm pairwise --degree 2 --rank 3 --in-place");
    assert!(exchange.contains("pairwise of degree 2") && exchange.contains("gate "), "{exchange}");
    assert!(exchange.contains("in place") && exchange.contains("scratch[1] (block "), "{exchange}");
    let several = planned("allreduce -n 2 --algorithm direct --buffers 2 --rank 0");
    assert!(several.contains("reduce out0[0] = out0[0] + out1[0]"), "{several}");
}

#[test]
fn all_ranks_plans_are_summed_up() {
    let text = planned("gather -n 6 --algorithm direct --root 2");
    let rows: Vec<Vec<_>> =
        text.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 3, "{text}");
    assert_eq!(rows[0], ["0-1", "1", "0", "0", "1", "0", "0"]);
    assert_eq!(rows[1], ["2", "0", "5", "1", "0", "5", "0"]);
    assert_eq!(rows[2][0], "3-5");
}

#[test]
fn every_collective_is_proved_by_the_chosen_algorithm() {
    for collective in Collective::ALL {
        let ranks = if collective == Collective::Message { 2 } else { 5 };
        let text = planned(&format!("{collective} -n {ranks} --check"));
        assert!(text.lines().nth(1).unwrap().starts_with("proved: "), "{text}");
    }
}

#[test]
fn costs_of_all_algorithms_are_compared() {
    let text = planned("allreduce -n 8 --cost --alpha-us 20 --beta-gbs 2.5 --gamma-gbs 8");
    assert!(text.contains("alpha 20 us, beta 2.5 GB/s, gamma 8 GB/s, overhead 3 us"), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("* ")).count(), 1, "{text}");
    let served = algorithms(Collective::Allreduce).len();
    assert_eq!(text.lines().count(), 3 + served, "{text}");

    let text = planned("allreduce -n 65536 --bytes 8 --cost --json");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), served);
    let chosen: Vec<_> = lines.iter().filter(|line| line["chosen"] == true).collect();
    assert_eq!(chosen.len(), 1);
    assert!(chosen[0]["rounds"].as_u64().unwrap() <= 17, "{text}");
    assert!(chosen[0]["us"].as_f64().unwrap() > 0.0 && chosen[0]["ranks"] == 65536);
    let one = planned("reduce -n 65536 --algorithm binomial --cost");
    assert!(one.contains("binomial") && one.lines().count() == 4, "{one}");
}

#[test]
fn a_plan_is_drawn_with_every_message() {
    let folder = scratch("drawing");
    let file = folder.join("plan.svg");
    for (algorithm, reduced, copied) in [("ring", 12, 12), ("direct", 0, 12), ("doubling", 0, 8)] {
        let printed =
            planned(&format!("allreduce -n 4 --algorithm {algorithm} --svg {}", file.display()));
        assert_eq!(printed, "");
        let svg = fs::read_to_string(&file).unwrap();
        assert!(svg.starts_with("<svg xmlns=") && svg.trim_end().ends_with("</svg>"));
        let arrows = |class: &str| svg.matches(&format!("marker-end=\"url(#{class})\"")).count();
        assert_eq!((arrows("reduce"), arrows("copy")), (reduced, copied), "{algorithm}");
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_plans_in_the_readme_are_those_that_are_printed() {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let console = readme.split("```console\n").nth(1).unwrap().split("```").next().unwrap();
    let commands: Vec<_> = console.split("$ collect plan ").skip(1).collect();
    assert_eq!(commands.len(), 2);
    for command in commands {
        let (line, printed) = command.split_once('\n').unwrap();
        assert_eq!(planned(line), printed);
    }
}

#[test]
fn what_cannot_be_planned_is_refused_with_a_reason() {
    for (line, status, said) in [
        ("allreduced -n 4", 2, "\"allreduced\" is none of allreduce, broadcast"),
        ("allreduce", 2, "--ranks <N>"),
        ("allreduce -n 0", 2, "0 is not in 1..=65536"),
        ("allreduce -n 4 --check --cost", 2, "cannot be used with"),
        ("allreduce -n 4 --alpha-us 3", 2, "--cost"),
        ("allreduce -n 4 --cost --beta-gbs 0", 2, "\"0\" is no number above 0"),
        ("allreduce -n 4 --rank 4", 1, "rank 4"),
        ("allreduce -n 4 --algorithm bruck --cost", 1, "bruck does not serve"),
        ("allreduce -n 65 --svg /dev/null", 1, "at most 64 can be drawn"),
        ("allreduce -n 65536 --algorithm ring", 1, "too many"),
        (
            "allreduce -n 4 --table Cargo.toml",
            1,
            "Cargo.toml: table line 1: the first line must be",
        ),
        ("allreduce -n 4 --table /no/such", 1, "/no/such: No such file"),
    ] {
        let output = plan(line);
        let text = stderr(&output);
        assert!(output.status.code() == Some(status) && text.contains(said), "{line}: {text}");
    }
}

#[test]
fn a_tuned_table_is_read_back_and_serves_every_collective() {
    let folder = scratch("tune");
    let file = folder.join("table");
    let tune = ["bench", "tune", "-n", "2", "--iterations", "3", "--warmup", "1", "--max", "256K"];
    let mut command = collect();
    command
        .env("LIBCOLLECT_LISTEN", "127.0.0.1")
        .args(tune)
        .arg("--json")
        .arg("--output")
        .arg(&file);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let told: Value = serde_json::from_str(&stdout(&output)).unwrap();
    for figure in ["alpha_us", "beta_gbs", "gamma_gbs", "overhead_us"] {
        assert!(told[figure].as_f64().unwrap() > 0.0, "{told}");
    }
    let table = Table::parse(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(told["rules"], table.rules().len());
    for collective in Collective::ALL {
        let is_any = |rule: &Rule| (rule.size_max, rule.bytes_max) == (u32::MAX, u64::MAX);
        let mut rules = table.rules().iter().filter(|rule| rule.collective == collective);
        assert!(rules.any(is_any), "{collective}");
    }
    let chosen = planned(&format!("allreduce -n 8 --table {}", file.display()));
    assert!(chosen.starts_with("allreduce by "), "{chosen}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn every_collective_is_measured_by_its_name_and_right() {
    let all = Collective::ALL.into_iter().filter(|it| *it != Collective::Message);
    for kind in all.map(Collective::name).chain(["sendrecv"]) {
        let mut command = collect();
        command.env("LIBCOLLECT_LISTEN", "127.0.0.1").args(["bench", kind, "-n", "3", "--json"]);
        command.args(["--max", "4K", "--factor", "32", "--iterations", "2", "--warmup", "1"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{kind}: {}", stderr(&output));
        let last: Value = serde_json::from_str(stdout(&output).lines().last().unwrap()).unwrap();
        assert_eq!((&last["collective"], &last["wrong"]), (&kind.into(), &0.into()), "{last}");
    }
}

#[test]
fn survivors_of_a_killed_rank_are_measured_and_all_name_it() {
    let mut command = collect();
    command.env("LIBCOLLECT_LISTEN", "127.0.0.1");
    let output =
        command.args(["bench", "failure", "--iterations", "3", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let scenarios: Vec<_> = lines.iter().map(|line| line["scenario"].as_str().unwrap()).collect();
    assert_eq!(scenarios, ["ring", "hub", "idle"]);
    for line in &lines {
        let keys: BTreeSet<_> = line.as_object().unwrap().keys().map(String::as_str).collect();
        let times = ["max_ms", "p50_ms", "p99_ms"];
        let others = ["hops_max", "ranks", "rounds", "scenario", "wrong"];
        assert_eq!(keys, times.into_iter().chain(others).collect());
        assert_eq!(
            (&line["ranks"], &line["rounds"], &line["wrong"]),
            (&8.into(), &3.into(), &0.into())
        );
        assert!(times.iter().all(|key| line[key].as_f64().unwrap() > 0.0), "{line}");
        // News goes through each of 7 survivors at most once.
        assert!(line["hops_max"].as_u64().is_some_and(|hops| hops <= 6), "{line}");
    }
}

#[test]
fn failure_is_measured_with_ranks_of_its_own_and_enough_of_them() {
    let failure = ["bench", "failure", "-n", "3"];
    let run = ["run", "-n", "1", "--", env!("CARGO_BIN_EXE_collect")];
    let inside: Vec<_> = run.iter().chain(&failure).collect();
    for (line, said) in
        [(inside, "outside of `collect run`"), (failure.iter().collect(), "4 ranks or more, not 3")]
    {
        let output = collect().args(line).output().unwrap();
        assert!(output.status.code() == Some(1) && stderr(&output).contains(said), "{output:?}");
    }
}

/// Starts a run whose output the test reads while it goes on.
fn start(ranks: u32, script: &str) -> Child {
    let mut command = collect();
    command.args(["run", "-n", &ranks.to_string(), "--", "sh", "-c", script]);
    command.stdout(Stdio::piped()).spawn().unwrap()
}

/// Reads `count` process numbers, one a line.
fn processes_of(output: &mut impl BufRead, count: usize) -> Vec<u32> {
    let lines = output.lines().take(count);
    lines.map(|line| line.unwrap().parse().unwrap()).collect()
}

fn signal(process: u32, name: &str) {
    let status = Command::new("kill").arg(format!("-{name}")).arg(process.to_string()).status();
    assert!(status.unwrap().success());
}

/// A zombie is gone: without an init that reaps, an orphan stays one for ever.
fn is_alive(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Looks until there is something.
fn wait_for<T>(look: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "did not come to pass");
        sleep(Duration::from_millis(10));
    }
}

fn scratch(name: &str) -> std::path::PathBuf {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn a_store_of_its_own_process_serves_until_it_is_asked_to_end() {
    let mut server = collect().arg("store").stdout(Stdio::piped()).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let store = collect::store::open(url.trim(), None, until).unwrap();
    store.set("key", b"value", until).unwrap();
    assert_eq!(store.get("key", until).unwrap(), b"value");
    // SAFETY: the child has not been waited for, so the number is still its own.
    unsafe { libc::kill(i32::try_from(server.id()).unwrap(), libc::SIGTERM) };
    assert!(server.wait().unwrap().success());
}
