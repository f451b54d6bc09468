//! Studies that are stored, interrupted, resumed, extended, and run by others have the same results
//! as one uninterrupted study on one thread.

#![allow(clippy::expect_used, clippy::panic, reason = "the helpers of a test may fail the test")]
#![allow(missing_docs, reason = "a test's items speak for themselves")]

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use weft_kernel::Halt;
use weft_lab::{
    Campaign, Cell, Failure, Job, Options, Outcome, Progress, Request, SaturationOptions, decode,
    encode, run,
};

const STUDY: &str = r#"
[system]
title = "A cell switch"
hosts = 8

[channel.data]
packet = "64 B"
payload = "48 B"
link.rate = "1 Gbit/s"
adapter.send_buffers = "unlimited"
switch.input_queued.scheduler.pim.iterations = 1

[workload.data]
load = 0.5
arrivals = "bernoulli"

[run]
length = "2 ms"
seeds = 2

[sweep]
"workload.data.load" = [0.3, 0.5]
"channel.data.switch.input_queued.scheduler.pim.iterations" = [1, 2, 4]
"#;

fn request(overrides: &[&str]) -> Request {
    let overrides = overrides.iter().map(|text| (*text).to_owned()).collect();
    Request { overrides, ..Request::of_text("study.toml", STUDY) }
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("campaign").join(name);
    let _ = fs::remove_dir_all(&folder);
    folder
}

fn kept(folder: &Path) -> Options {
    Options { store: Some(folder.to_owned()), ..Options::default() }
}

fn carry_out(request: &Request, options: &Options) -> Outcome {
    run(request, options, &mut |_, _| true).unwrap_or_else(|error| panic!("{error}"))
}

fn stored(folder: &Path) -> Vec<PathBuf> {
    let inner = fs::read_dir(folder).expect("the store is there");
    let files = inner.flat_map(|entry| {
        let entry = entry.expect("the store can be read").path();
        fs::read_dir(entry).expect("a folder of the store").map(|file| file.expect("a run").path())
    });
    let mut files: Vec<PathBuf> = files.collect();
    files.sort();
    files
}

#[track_caller]
fn assert_same(one: &Outcome, other: &Outcome) {
    assert_eq!(format!("{:?}", one.tables), format!("{:?}", other.tables));
    assert_eq!(one.meta, other.meta);
}

#[test]
fn a_stored_study_gives_the_same_tables_and_is_not_run_again() {
    let folder = folder("again");
    let plain = carry_out(&request(&[]), &Options::default());
    assert_same(&carry_out(&request(&[]), &kept(&folder)), &plain);
    assert_eq!(stored(&folder).len(), 12);
    let mut campaign = Campaign::new(&request(&[]), &kept(&folder)).expect("a plan");
    assert_eq!(campaign.pending().expect("a plan"), []);
    assert_eq!(campaign.progress(), Progress { done: 12, total: 12 });
    assert_same(&campaign.outcome(false).expect("tables"), &plain);
}

#[test]
fn a_study_that_was_stopped_goes_on_where_it_was() {
    let folder = folder("stopped");
    let options = Options { workers: NonZeroUsize::new(1), ..kept(&folder) };
    let first = run(&request(&[]), &options, &mut |done, _| done < 5).expect("whole points");
    assert!(first.stopped);
    let whole = first.table("points").rows();
    let there = stored(&folder).len();
    assert!((5..12).contains(&there) && whole <= there / 2, "{whole} points of {there} runs");
    assert_same(
        &carry_out(&request(&[]), &options),
        &carry_out(&request(&[]), &Options::default()),
    );
}

#[test]
fn more_seeds_and_more_points_extend_a_study() {
    let folder = folder("extended");
    carry_out(&request(&[]), &kept(&folder));
    let before = stored(&folder);
    let more = ["run.seeds=3", "workload.data.load=[0.3, 0.4, 0.5]"];
    let extended = carry_out(&request(&more), &kept(&folder));
    assert_same(&extended, &carry_out(&request(&more), &Options::default()));
    let after = stored(&folder);
    assert_eq!((before.len(), after.len()), (12, 27));
    assert!(before.iter().all(|file| after.contains(file)));
}

#[test]
fn a_damaged_file_is_made_again() {
    let folder = folder("damaged");
    carry_out(&request(&[]), &kept(&folder));
    let files = stored(&folder);
    let whole = fs::read(&files[0]).expect("a run");
    fs::write(&files[0], &whole[..whole.len() / 2]).expect("it can be cut");
    let mut bytes = fs::read(&files[1]).expect("a run");
    *bytes.last_mut().expect("it is not empty") ^= 1;
    fs::write(&files[1], bytes).expect("it can be damaged");
    let again = carry_out(&request(&[]), &kept(&folder));
    assert_same(&again, &carry_out(&request(&[]), &Options::default()));
    assert_eq!(fs::read(&files[0]).expect("it is whole again"), whole);
}

#[test]
fn every_kind_of_packet_in_a_trace_comes_back() {
    let text = "base = \"clint\"\npreset = \"detailed\"\nrun.length = \"60 us\"\nrun.trace = true\n\
                workload.bulk.load = 0.5\nworkload.quick.load = 0.1\n";
    let request = Request::of_text("trace.toml", text);
    let folder = folder("trace");
    let outcome = carry_out(&request, &kept(&folder));
    assert_eq!(kinds_of(&outcome), ["back", "breq", "cfg", "gnt", "qack", "qreq"]);
    let file = fs::read(&stored(&folder)[0]).expect("a run");
    assert_eq!(encode(&decode(&file).expect("a run")).expect("a run"), file);
    assert_same(&carry_out(&request, &kept(&folder)), &outcome);
}

/// The kinds of packets in the trace of an outcome, each once.
fn kinds_of(outcome: &Outcome) -> Vec<String> {
    let trace = outcome.table("trace");
    let kind = |row| trace.get(row, "kind").expect("a kind").to_string();
    let mut kinds: Vec<String> = (0..trace.rows()).map(kind).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

#[test]
fn a_study_goes_on_to_the_same_tables_whatever_its_runs_noted() {
    let goal = Path::new(env!("CARGO_TARGET_TMPDIR")).join("campaign.goal");
    fs::write(&goal, "num_ranks 2\nrank 0 {\na: send 9b to 1\n}\nrank 1 {\nb: recv 9b from 0\n}\n")
        .expect("the folder of the tests can be written");
    let program = format!(
        "base = \"clint\"\npreset = \"fitted\"\nrun.seeds = 3\n[program]\nchannel = \"quick\"\n\
         placement = \"random\"\ntrace.goal.file = \"{}\"\n",
        goal.display()
    );
    let maestro = "base = \"maestro\"\nrun.length = \"40 us\"\nrun.trace = true\nrun.seeds = 3\n";
    let traced = format!("{}run.trace = true\n", program.split("[program]").next().unwrap_or(""));
    let traced = format!("{traced}[program]\nchannel = \"quick\"\nrun.barrier.rounds = 2\n");
    let cases = [
        (traced, vec!["qack", "qreq"]),
        // Full frames, and null frames of links that have nothing to send.
        (format!("{maestro}workload.network.load = 0.3\n"), vec!["frame", "null"]),
        // A channel on which nothing was sent, and a slotted one, which notes nothing.
        (
            "base = \"clint\"\nrun.length = \"40 us\"\nrun.trace = true\nrun.seeds = 3\n\
             workload.quick.load = 1e-9\n"
                .to_owned(),
            Vec::new(),
        ),
        (program.clone(), Vec::new()),
        (
            format!("{program}[workload.bulk]\nload = 0.1\n[workload.quick]\nload = 0.1\n"),
            Vec::new(),
        ),
    ];
    for (number, (text, kinds)) in cases.into_iter().enumerate() {
        let request = Request::of_text("noted.toml", &text);
        let plain = carry_out(&request, &Options::default());
        assert_eq!(kinds_of(&plain), kinds, "{text}");
        let folder = folder(&format!("noted-{number}"));
        assert_same(&carry_out(&request, &kept(&folder)), &plain);
        // One run is lost and one half written, as if the process had been killed.
        let files = stored(&folder);
        assert_eq!(files.len(), 3, "{text}");
        fs::remove_file(&files[0]).expect("a run");
        let whole = fs::read(&files[1]).expect("a run");
        assert_eq!(encode(&decode(&whole).expect("a run")).expect("a run"), whole);
        fs::write(&files[1], &whole[..whole.len() / 2]).expect("the store can be written");
        assert_same(&carry_out(&request, &kept(&folder)), &plain);
        assert_eq!(fs::read(&files[1]).expect("it is whole again"), whole);
    }
}

/// Runs a job as another machine would, from its text.
fn elsewhere(sent: &str) -> (String, Vec<u8>) {
    let job = Job::read_all(&format!("[{sent}]")).expect("a job").remove(0);
    let (key, run) = job.carry_out(&Halt::new()).expect("a job for this code");
    (key.to_string(), encode(&run.expect("a run")).expect("a run can be sent"))
}

#[test]
fn runs_of_other_processes_are_the_same_runs() {
    let folder = folder("elsewhere");
    let mut campaign = Campaign::new(&request(&[]), &kept(&folder)).expect("a plan");
    let tasks = campaign.pending().expect("tasks");
    assert_eq!(tasks.len(), 12);
    for task in tasks.iter().rev() {
        let job = campaign.job(task).expect("a job");
        let (key, bytes) = elsewhere(&serde_json::to_string(&job).expect("text"));
        assert_eq!(key, task.key.to_string());
        assert!(decode(&bytes[..bytes.len() - 1]).is_none());
        assert!(campaign.store().put_encoded(task.key, &bytes[1..]).is_err());
        campaign.store().put_encoded(task.key, &bytes).expect("a whole run");
    }
    assert_eq!(campaign.pending().expect("tasks"), []);
    let plain = carry_out(&request(&[]), &Options::default());
    assert_same(&campaign.outcome(false).expect("tables"), &plain);
}

#[test]
fn runs_are_added_until_the_interval_is_as_narrow_as_asked() {
    let precise = ["run.precision={ relative = 0.02, most = 40 }", "workload.data.load=0.5"];
    let folder = folder("precise");
    let outcome = carry_out(&request(&precise), &kept(&folder));
    let points = outcome.table("points");
    let number = |row, name| points.number(row, name).expect("a number");
    for row in 0..points.rows() {
        let runs = number(row, "replications");
        let width = number(row, "queueing_half_width_us") / number(row, "queueing_mean_us");
        assert!((5.0..=40.0).contains(&runs));
        assert!(width <= 0.02 || runs == 40.0, "{runs} runs, {width}");
    }
    let runs: Vec<f64> = (0..points.rows()).map(|row| number(row, "replications")).collect();
    assert!(runs.iter().any(|runs| *runs > 5.0), "{runs:?}");
    // Runs that are there already, more than the rule would have made at first, change nothing.
    carry_out(&request(&["run.seeds=9", "workload.data.load=0.5"]), &kept(&folder));
    assert_same(&carry_out(&request(&precise), &kept(&folder)), &outcome);
    assert_same(&carry_out(&request(&precise), &Options::default()), &outcome);
}

#[test]
fn a_saturated_point_gets_no_more_runs() {
    let precise = ["run.precision.relative=0.001", "workload.data.load=0.95"];
    let points = carry_out(&request(&precise), &Options::default()).table("points");
    assert_eq!(points.get(0, "verdict"), Some(Cell::from("saturated")));
    assert_eq!(points.number(0, "replications"), Some(5.0));
}

/// PIM in one iteration serves an output unless none of the n inputs that ask for it all chooses
/// it: 1 - (1 - 1/n)^n of the slots, 0.6564 for n = 8. Hosts do not send to themselves here, which
/// leaves 1 - (1 - 1/7)^7 = 0.6601.
#[test]
fn the_load_at_which_a_point_stops_settling_is_found() {
    let saturation = Some(SaturationOptions { between: [0.4, 0.9], ..Default::default() });
    let folder = folder("limit");
    let options = Options { saturation, ..kept(&folder) };
    let request = request(&[
        "workload.data.load=0.5",
        "channel.data.switch.input_queued.scheduler.pim.iterations=1",
        "run.length=20 ms",
        "run.seeds=3",
    ]);
    let outcome = carry_out(&request, &options);
    let points = outcome.table("points");
    let number = |name| points.number(0, name).unwrap_or_else(|| panic!("no {name}"));
    let limit = 0.6601;
    assert!(number("settles_up_to_load") < limit + 0.01, "{points:?}");
    assert!(number("saturated_from_load") > limit - 0.01, "{points:?}");
    assert!(number("saturated_from_load") - number("settles_up_to_load") < 0.08, "{points:?}");
    assert!((number("accepted_load") / limit - 1.0).abs() < 0.02, "{points:?}");
    let runs = number("runs");
    assert_eq!(outcome.table("replications").rows() as f64, runs);
    assert!(runs <= 3.0 * 14.0, "{runs} runs");
    assert_eq!(stored(&folder).len() as f64, runs);
    // From the store: the same again, and no run more.
    assert_same(&carry_out(&request, &options), &outcome);
    assert_eq!(stored(&folder).len() as f64, runs);
}

#[test]
fn lists_that_advance_together_are_one_axis() {
    let paired = r#"sweep.paired=[{ "workload.data.burst.length.uniform" = [[1, 2], [2, 4]], "run.length" = ["1 ms", "2 ms"] }]"#;
    let outcome = carry_out(&request(&[paired, "workload.data.load=0.3"]), &Options::default());
    let points = outcome.table("points");
    assert_eq!(points.rows(), 6);
    let lengths = (0..points.rows()).map(|row| points.get(row, "run.length").expect("a length"));
    let lengths: Vec<String> = lengths.map(|cell| cell.to_string()).collect();
    assert_eq!(lengths, ["1 ms", "2 ms"].repeat(3));
    // Written into one file and planned again, it is the same study.
    let written = outcome.meta["spec_toml"].as_str().expect("a file");
    let again = carry_out(&Request::of_text("again.toml", written), &Options::default());
    assert_eq!(format!("{:?}", again.tables), format!("{:?}", outcome.tables));
    let narrowed = request(&[paired, "workload.data.load=0.3", "run.length=2 ms"]);
    assert_eq!(carry_out(&narrowed, &Options::default()).table("points").rows(), 3);
    let refuse =
        |text| run(&request(&[text]), &Options::default(), &mut |_, _| true).expect_err("refused");
    let refusal = refuse(r#"sweep.paired={ "run.seeds" = [1, 2], "run.seed" = [1] }"#).to_string();
    let told = "lists that advance together are equally long: run.seeds has 2, run.seed has 1";
    assert!(refusal.contains(told), "{refusal}");
    let refusal = refuse("sweep.paired=[1]").to_string();
    assert!(refusal.contains("stand in a table"), "{refusal}");
}

#[test]
fn a_list_where_the_file_has_one_value_is_an_axis() {
    let outcome = carry_out(&request(&["system.hosts=[4, 8]"]), &Options::default());
    assert_eq!(outcome.table("points").rows(), 12);
    assert_eq!(outcome.plan.axes.last().map(String::as_str), Some("system.hosts"));
    let over = r#"sweep."channel.data.packet"=["64 B", "128 B"]"#;
    let outcome = carry_out(&request(&[over]), &Options::default());
    assert_eq!(outcome.table("points").rows(), 12);
}

#[test]
fn a_search_without_a_load_to_vary_is_refused() {
    let refuse = |asked: SaturationOptions| {
        let options = Options { saturation: Some(asked), ..Options::default() };
        run(&request(&[]), &options, &mut |_, _| true).expect_err("refused").to_string()
    };
    let base = SaturationOptions::default();
    let channel = Some("quick".to_owned());
    assert_eq!(
        refuse(SaturationOptions { channel, ..base.clone() }),
        "saturation.channel = quick: accepted is a channel whose workload has a load (data)"
    );
    let options = Options { saturation: Some(base.clone()), ..Options::default() };
    let greedy = Campaign::new(&overrun(&[]), &options).expect_err("no load");
    assert_eq!(
        greedy.to_string(),
        "saturation.channel = none: accepted is a channel whose workload has a load, and none has \
         one here"
    );
    assert_eq!(
        refuse(SaturationOptions { between: [0.5, 0.4], ..base.clone() }),
        "saturation.between = 0.5 to 0.4: accepted is two loads in ascending order, above 0 and \
         up to 2"
    );
    assert_eq!(
        refuse(SaturationOptions { width: 2.0, ..base }),
        "saturation.width = 2: accepted is a load above 0.000001 and below 0.95"
    );
}

/// With the first buffer size the stops take effect too late, and buffers overflow.
const OVERRUN: &str = r#"
[system]
title = "Switches that are heard late"
hosts = 4

[channel.data]
packet = "125 B"
payload = "100 B"
link.rate = "1 Gbit/s"
adapter.send_buffers = 4
switch.shared_memory = { latency = "90 ns", buffer = 64 }
flow_control.stop_go = { stop = 2, go = 0, reaction = "9 us" }

[workload.data]
source = "greedy"
pattern.flows = [{ from = 0, to = 2 }, { from = 1, to = 2 }]

[run]
length = "100 us"
seeds = 2
"#;

const BUFFER: &str = "channel.data.switch.shared_memory.buffer";

fn overrun(overrides: &[&str]) -> Request {
    Request { overrides: request(overrides).overrides, ..Request::of_text("late.toml", OVERRUN) }
}

fn text(outcome: &Outcome, table: &str, row: usize, column: &str) -> String {
    let cell = outcome.table(table).get(row, column);
    cell.unwrap_or_else(|| panic!("{table} has no {column}")).to_string()
}

#[test]
fn a_point_that_fails_is_a_row_and_costs_no_other_point() {
    let all = overrun(&[&format!("{BUFFER}=[4, 64, 128]")]);
    let outcome = carry_out(&all, &Options::default());
    assert!(!outcome.stopped);
    assert_eq!((outcome.failed, outcome.meta["failed"].as_u64()), (1, Some(1)));
    let verdicts = (0..3).map(|row| text(&outcome, "points", row, "verdict"));
    assert_eq!(verdicts.collect::<Vec<_>>(), ["failed", "settled", "settled"]);
    let reason = text(&outcome, "points", 0, "reason");
    assert!(reason.starts_with("2 of 2 runs failed; data, seed 1: at 8.09 us"), "{reason}");
    assert!(reason.contains("whose buffer of 4 cells was full"), "{reason}");
    let points = outcome.table("points");
    assert_eq!(points.number(0, "one_way_mean_us"), None);
    assert_eq!(points.number(0, "replications"), Some(0.0));
    assert_eq!(points.columns().last().map(|column| column.name.as_str()), Some("reason"));
    assert_eq!(text(&outcome, "replications", 0, "channel"), "data");
    assert!(text(&outcome, "replications", 1, "reason").starts_with("data, seed 2: at "));

    // The other points are what they are without it.
    let whole = carry_out(&overrun(&[&format!("{BUFFER}=[64, 128]")]), &Options::default());
    assert_eq!(whole.failed, 0);
    for column in whole.table("points").columns().iter().filter(|column| column.name != "point") {
        for row in 0..2 {
            let own = points.get(row + 1, &column.name);
            assert_eq!(own, whole.table("points").get(row, &column.name), "{}", column.name);
        }
    }
    assert_eq!(whole.table("points").get(0, "reason"), None);
}

#[test]
fn a_failure_is_tried_again_and_its_study_is_complete() {
    let folder = folder("failed");
    let all = overrun(&[&format!("{BUFFER}=[4, 64, 128]")]);
    let plain = carry_out(&all, &Options::default());
    for workers in [1, 2] {
        let options = Options { workers: NonZeroUsize::new(workers), ..kept(&folder) };
        let mut campaign = Campaign::new(&all, &options).expect("a plan");
        let left = campaign.pending().expect("tasks").len();
        assert_eq!(left, if workers == 1 { 6 } else { 2 });
        assert!(!campaign.run(&mut |_, _| true).expect("the store can be written"));
        assert_eq!(campaign.progress(), Progress { done: 6, total: 6 });
        assert_same(&campaign.outcome(false).expect("tables"), &plain);
        assert_eq!(stored(&folder).len(), 4);
    }
    // A study of nothing but failures is one of rows, too.
    let none = carry_out(&overrun(&[&format!("{BUFFER}=4")]), &Options::default());
    assert_eq!(none.failed, 1);
    assert_eq!(text(&none, "points", 0, "verdict"), "failed");
}

#[test]
fn a_point_of_which_one_seed_fails_has_the_rows_of_the_others_and_no_mean() {
    // At a load of a half two packets for one host do not always meet.
    let random = [
        "workload.data.source=open_loop",
        "workload.data.load=0.4",
        "run.length=100 us",
        "run.seeds=6",
        "channel.data.switch.shared_memory.buffer=4",
        "run.precision.relative=0.0001",
    ];
    let outcome = carry_out(&overrun(&random), &Options::default());
    let replications = outcome.table("replications");
    assert_eq!(replications.rows(), 6, "no run is added to a point without a mean");
    let failed = (0..6).filter(|row| text(&outcome, "replications", *row, "verdict") == "failed");
    let failed = failed.count();
    assert!((1..6).contains(&failed), "{failed} of 6 failed");
    let reason = text(&outcome, "points", 0, "reason");
    assert!(reason.starts_with(&format!("{failed} of 6 runs failed; data, seed ")), "{reason}");
    let points = outcome.table("points");
    assert_eq!(points.number(0, "replications"), Some(6.0 - failed as f64));
    assert_eq!(points.get(0, "one_way_mean_us"), None);
}

#[test]
fn a_search_over_a_load_that_fails_tells_why() {
    let saturation = Some(SaturationOptions { between: [0.1, 0.9], ..Default::default() });
    let options = Options { saturation, ..Options::default() };
    let random = ["workload.data.source=open_loop", "workload.data.load=0.5", "run.length=200 us"];
    let both = overrun(&[&random[..], &[&format!("{BUFFER}=[4, 4096]")]].concat());
    let outcome = carry_out(&both, &options);
    assert_eq!(outcome.failed, 1);
    assert!(text(&outcome, "points", 0, "reason").contains("whose buffer of 4 cells was full"));
    assert_eq!(text(&outcome, "points", 1, "reason"), "");
    assert!(outcome.table("points").number(1, "settles_up_to_load").is_some());
}

#[test]
fn a_failure_of_another_process_is_the_same_row() {
    let all = overrun(&[&format!("{BUFFER}=[4, 64]")]);
    let mut campaign = Campaign::new(&all, &Options::default()).expect("a plan");
    for task in campaign.pending().expect("tasks") {
        let sent = serde_json::to_string(&campaign.job(&task).expect("a job")).expect("text");
        let job = Job::read_all(&format!("[{sent}]")).expect("a job").remove(0);
        match job.carry_out(&Halt::new()).expect("this code") {
            (key, Ok(run)) => campaign.store().put(key, run).expect("memory"),
            (key, Err(failure)) => {
                let sent = serde_json::to_string(&failure).expect("text");
                let back: Failure = serde_json::from_str(&sent).expect("a failure");
                assert_eq!((back.channel.as_str(), key), ("data", task.key));
                campaign.fail(key, back);
            }
        }
    }
    assert_eq!(campaign.pending().expect("tasks"), []);
    let plain = carry_out(&all, &Options::default());
    assert_same(&campaign.outcome(false).expect("tables"), &plain);
}

#[test]
fn a_store_that_cannot_be_written_is_named_as_it_was_given() {
    let folder = folder("unwritable");
    fs::create_dir_all(folder.parent().expect("a folder")).expect("the folder of the tests");
    fs::write(&folder, "").expect("the folder of the tests can be written");
    let refused = run(&request(&[]), &kept(&folder), &mut |_, _| true).expect_err("a file");
    assert_eq!(
        refused.to_string(),
        format!(
            "the store {} cannot be written: Not a directory. Runs that it holds already are whole, \
             and the same command goes on from them",
            folder.display()
        )
    );
    fs::remove_file(&folder).expect("it is there");
}

#[test]
fn a_study_that_no_run_can_be_made_for_is_refused_as_what_is_wrong_with_it() {
    let lock = "program.run.ordered_lock={ rounds = 3, hold = '1 us', back_off = '3 us' }";
    let with = |ranks: &str| {
        let overrides = [
            lock.to_owned(),
            "system.memory={ latency = '100 ns', rate = '1 GB/s' }".to_owned(),
            "program.ranks_per_host=10".to_owned(),
            format!("sweep.\"program.ranks\"={ranks}"),
        ];
        run(
            &Request::new("memory-channel-1", None, &overrides),
            &Options::default(),
            &mut |_, _| true,
        )
    };
    let refused = with("[80]").expect_err("too many for a lock").to_string();
    assert!(refused.contains("ordered_lock needs 2 to 64 ranks"), "{refused}");
    // Beside a point that can be run it is a row.
    let outcome = with("[80, 12]").expect("a point of two");
    assert_eq!(outcome.failed, 1);
    assert!(text(&outcome, "points", 0, "reason").contains("ordered_lock needs 2 to 64 ranks"));
    assert_eq!(text(&outcome, "points", 1, "reason"), "");
}
