//! `weft-bench`: runs the reference workloads beside this file, each in a process of its own on
//! one core with statistics on, and prints one JSON object a line.
//!
//! `weft-bench [NAME ...]` measures CPU time; with `--instructions` it also counts instructions
//! with valgrind, as the difference between a run and one of twice its length, so that reading
//! files and building the system do not count. `weft-bench --trace [OPERATIONS]` reads a GOAL text
//! of about so many operations instead, a million if not given, and runs one. `weft-bench --sweep`
//! compares one thread with two on the same study, and `weft-bench --threads [TURNS]` on one run of each large
//! fabric; only two idle cores tell something.
//! `weft-bench --fast-forward` runs the same collective with whole periods left out and without, and
//! refuses runs that differ.

mod forward;
mod process;
mod trace;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use serde_json::{Value, json};
use weft_kernel::Halt;
use weft_lab::{Error, Options, Plan, Request, Threads, simulate_on};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["--trace", ref rest @ ..] => {
            let count = rest.contains(&"--instructions");
            let operations = rest.iter().find_map(|text| text.parse().ok());
            trace::read_and_run(operations.unwrap_or(1_000_000), count)
        }
        ["--read", operations] => trace::read(operations.parse().unwrap_or(1_000_000)),
        ["--sweep"] => sweep(),
        ["--fast-forward"] => forward::compare(),
        ["--threads"] => return on_threads(3),
        ["--threads", turns] => return on_threads(turns.parse().unwrap_or(3)),
        ["--one", file] => run_one(Path::new(file), None, 1),
        ["--one", file, length] => run_one(Path::new(file), Some(length), 1),
        ["--one", file, "--threads", count] => {
            run_one(Path::new(file), None, count.parse().unwrap_or(1))
        }
        _ => return run_all(&arguments),
    };
    match outcome {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs every workload, or those that are named, each in a process of its own.
fn run_all(arguments: &[&str]) -> ExitCode {
    let count = arguments.contains(&"--instructions");
    let names: Vec<&str> =
        arguments.iter().filter(|name| !name.starts_with("--")).copied().collect();
    let files: Vec<PathBuf> = workloads()
        .into_iter()
        .filter(|file| {
            names.is_empty() || names.iter().any(|name| file.ends_with(format!("{name}.toml")))
        })
        .collect();
    if files.is_empty() {
        eprintln!("no workload of that name; there are: {:?}", workloads());
        return ExitCode::FAILURE;
    }
    for file in files {
        match process::measure(&file, count) {
            Ok(line) => println!("{line}"),
            Err(problem) => {
                eprintln!("{}: {problem}", file.display());
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn workloads() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|file| file.extension().is_some_and(|ending| ending == "toml"))
        .filter(|file| file.file_name().is_some_and(|name| name != "Cargo.toml"))
        .collect();
    files.sort();
    files
}

/// The wall time of one study on one thread and on two.
fn sweep() -> Result<Value, Error> {
    let request = Request::new("clint-figure-8", None, &["run.seeds=4".to_owned()]);
    let time = |workers: usize| {
        let options = Options { workers: NonZeroUsize::new(workers), ..Options::default() };
        let before = Instant::now();
        let outcome = weft_lab::run(&request, &options, &mut |_, _| true)?;
        let points = outcome.table("points").rows();
        Ok::<_, Error>((before.elapsed().as_secs_f64(), points))
    };
    let ((one, points), (two, _)) = (time(1)?, time(2)?);
    Ok(json!({
        "name": "sweep-two-threads",
        "points": points,
        "one_thread_s": one,
        "two_threads_s": two,
        "times": one / two,
    }))
}

/// Runs of one fabric on one thread and on two in turn, the shortest of so many each.
fn on_threads(turns: u32) -> ExitCode {
    let is_one = |file: &PathBuf| {
        file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("threads-"))
    };
    for file in workloads().into_iter().filter(is_one) {
        match process::compare_threads(&file, turns) {
            Ok(line) => println!("{line}"),
            Err(problem) => {
                eprintln!("{}: {problem}", file.display());
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Runs one workload in this process on so many threads. `length` takes the place of the one in the file.
fn run_one(file: &Path, length: Option<&str>, threads: usize) -> Result<Value, Error> {
    let overrides: Vec<String> =
        length.map(|length| format!("run.length={length}")).into_iter().collect();
    let plan = Plan::new(&Request::new(&file.to_string_lossy(), None, &overrides))?;
    let (mut packets, mut steps) = (0, 0);
    let mut channels = Vec::new();
    let threads = Threads::at_most(NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN));
    let (before, begin) = (process::cpu_seconds(), Instant::now());
    for point in &plan.points {
        for run in simulate_on(&threads, &point.spec, point.spec.run.seed, &Halt::new())? {
            packets += run.observations.delivered;
            steps += run.steps;
            channels.push(json!({
                "channel": run.channel,
                "mean_wait_slots": run.mean_queueing().zip(run.slot)
                    .map(|(wait, slot)| wait.0 as f64 / slot.0 as f64),
                "accepted": run.accepted_load(),
            }));
        }
    }
    let (seconds, wall) = (process::cpu_seconds() - before, begin.elapsed().as_secs_f64());
    let first = channels.first().cloned().unwrap_or_default();
    Ok(json!({
        "name": file.file_stem().map(|name| name.to_string_lossy()),
        "length_us": plan.points.first().map(|point| point.spec.run.length.as_us()),
        "packets": packets,
        "packets_per_cpu_s": packets as f64 / seconds,
        "wall_s": wall,
        "on_one_thread": threads.alone(),
        "steps_per_packet": steps as f64 / packets as f64,
        "peak_rss_bytes": process::peak_rss_bytes(),
        "mean_wait_slots": first["mean_wait_slots"],
        "accepted": first["accepted"],
    }))
}
