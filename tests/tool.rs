//! `collect run` and `collect info`, as a user meets them: statuses, environment, output, and that nothing stays behind.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

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
