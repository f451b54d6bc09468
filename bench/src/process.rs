//! Measuring a run from outside: CPU time, memory, instructions.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// The largest resident set of this process so far, in bytes.
pub fn peak_rss_bytes() -> i64 {
    usage().ru_maxrss * 1024
}

/// CPU seconds that this process has used, of all its threads.
pub fn cpu_seconds() -> f64 {
    let usage = usage();
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Runs a workload in a process of its own and adds its instructions per packet, if `count` says
/// so, to what it prints.
pub fn measure(file: &Path, count: bool) -> Result<Value, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut line = output(Command::new(&own).arg("--one").arg(file))?.0;
    line["instructions_per_packet"] =
        if count { instructions(&own, file, &line)? } else { json!(null) };
    Ok(line)
}

/// The wall time of a workload on one thread and on two, the shortest of so many turns, each in a process of its
/// own; and the memory and the processor time that it takes.
pub fn compare_threads(file: &Path, turns: u32) -> Result<Value, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut best: [Option<Value>; 2] = [None, None];
    let wall = |line: &Value| line["wall_s"].as_f64().unwrap_or(f64::INFINITY);
    for _ in 0..turns.max(1) {
        for (threads, best) in ["1", "2"].into_iter().zip(&mut best) {
            let mut command = Command::new(&own);
            let line = output(command.arg("--one").arg(file).args(["--threads", threads]))?.0;
            if best.as_ref().is_none_or(|best| wall(&line) < wall(best)) {
                *best = Some(line);
            }
        }
    }
    let [Some(one), Some(two)] = best else { return Err("no turn".to_owned()) };
    Ok(json!({
        "name": one["name"],
        "packets": one["packets"],
        "one_thread_s": wall(&one),
        "two_threads_s": wall(&two),
        "times": wall(&one) / wall(&two),
        "cpu_times": cpu(&two) / cpu(&one),
        "peak_rss_bytes": [&one["peak_rss_bytes"], &two["peak_rss_bytes"]],
        "on_one_thread": two["on_one_thread"],
    }))
}

/// The processor time in a line of output.
fn cpu(line: &Value) -> f64 {
    let of = |name: &str| line[name].as_f64().unwrap_or_default();
    of("packets") / of("packets_per_cpu_s")
}

/// Instructions per packet: the difference between two runs, one twice as long as the other.
fn instructions(own: &Path, file: &Path, line: &Value) -> Result<Value, String> {
    // Valgrind is some fifty times slower: a hundredth of the length keeps it short. A run that is
    // short by itself must still be long beside the way of a packet through the fabric.
    let whole = line["length_us"].as_f64().unwrap_or_default();
    let least = f64::max(0.01 * whole, 4.0);
    let mut counted = Vec::new();
    for length in [least, 2.0 * least] {
        let mut command = under_valgrind(own);
        command.arg("--one").arg(file).arg(format!("{:.0} ns", length * 1e3));
        counted.push(count(&mut command, "packets")?);
    }
    Ok(each(&counted))
}

/// Reads a trace in a process of its own and adds its instructions per operation, if `count` says
/// so, to what it prints.
pub fn measure_reading(operations: u32, counted: bool) -> Result<Value, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut line = output(Command::new(&own).arg("--read").arg(operations.to_string()))?.0;
    line["instructions_per_operation_read"] = json!(null);
    if counted {
        // The text grows with what is read, and what made it counts: one rank's of sixteen.
        let pair = [operations / 50, operations / 25].map(|operations| {
            let mut command = under_valgrind(&own);
            count(command.arg("--read").arg(operations.to_string()), "operations")
        });
        let [few, many] = pair;
        line["instructions_per_operation_read"] = each(&[few?, many?]);
    }
    Ok(line)
}

fn under_valgrind(own: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(own);
    command
}

/// How many instructions a command takes, and how many of `what` it says that it did.
fn count(command: &mut Command, what: &str) -> Result<(f64, f64), String> {
    let (shown, log) = output(command)?;
    let total = log.lines().find_map(|text| text.split_once("Collected : "));
    let total = total.and_then(|(_, number)| number.trim().parse::<f64>().ok());
    let total = total.ok_or("valgrind printed no count of instructions")?;
    Ok((total, shown[what].as_f64().unwrap_or_default()))
}

/// The instructions of what one run did more than another one.
fn each(counted: &[(f64, f64)]) -> Value {
    let (total, done) = (counted[1].0 - counted[0].0, counted[1].1 - counted[0].1);
    json!((total / done).round())
}

/// What a command prints: its one line of JSON, and what it writes to standard error.
fn output(command: &mut Command) -> Result<(Value, String), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(log);
    }
    let line = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    Ok((line, log))
}

fn usage() -> libc::rusage {
    // SAFETY: an all-zero rusage is a valid value, and getrusage writes only into it.
    unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    }
}
