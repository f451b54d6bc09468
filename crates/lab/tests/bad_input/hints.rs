//! The hints of a refusal: the keys that a table takes, the table to which a key belongs, similar
//! names. And notes of a run that were not requested.

use std::fs;
use std::path::Path;

use expect_test::expect;
use weft_lab::{Options, Request, run};

use crate::bad_input::{clint, file, refusal};

#[test]
fn a_name_is_not_answered_with_all_names() {
    for (written, close) in [("figure-8", "`clint-figure-8`"), ("table-2", "`clint-table-2-bulk`")]
    {
        let message = refusal(&Request::new(written, None, &[])).to_string();
        assert!(message.contains(close), "{message}");
        assert!(message.matches('`').count() <= 14, "{message}");
    }
    assert!(!refusal(&Request::new("zzz", None, &[])).to_string().contains("did you mean"));
}

#[test]
fn a_folder_names_the_files_in_it_that_could_be_run() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("folder");
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("what an earlier run left can be removed");
    }
    fs::create_dir_all(&folder).expect("the folder of the tests can be written");
    let refused = |name: &str| {
        let message = refusal(&Request::new(&folder.join(name).to_string_lossy(), None, &[]));
        message.to_string().replace(&*folder.to_string_lossy(), "FOLDER").replace("/.", "")
    };
    fs::write(folder.join("lint.toml"), "[rules]\nlong = true\n").expect("a file can be written");
    expect![
        "FOLDER is a folder; no file in it describes a system; accepted: a file that ends in .toml"
    ]
    .assert_eq(&refused("."));
    for name in ["wire", "ring"] {
        let file = folder.join(format!("{name}.toml"));
        fs::write(file, "base = \"clint\"\n").expect("a file can be written");
    }
    expect![
        "FOLDER is a folder; accepted: one of the files in it: FOLDER/ring.toml, FOLDER/wire.toml"
    ]
    .assert_eq(&refused("."));
}

#[test]
fn a_list_of_no_values_is_refused_wherever_it_stands() {
    let key = "workload.bulk.load";
    clint(
        &["workload.bulk.load=0.5", "workload.bulk.load=[]"],
        expect![[r#"
            --set workload.bulk.load=[]: workload.bulk.load = [] gives it no value
                accepted: a value, or a list of one value or more"#]],
    );
    let study =
        format!("base = \"clint\"\n[workload.bulk]\nload = 0.5\n[sweep]\n\"{key}\" = [0.1]\n");
    let refused = |text: &str, overrides: &[&str]| {
        let overrides = overrides.iter().map(|text| (*text).to_owned()).collect();
        let request = Request { overrides, ..Request::of_text("study.toml", text) };
        refusal(&request).to_string()
    };
    expect![[r#"
        --set workload.bulk.load=[]: workload.bulk.load = [] gives it no value
            accepted: a value, or a list of one value or more"#]]
    .assert_eq(&refused(&study, &["workload.bulk.load=[]"]));
    let single = study.split("[sweep]").next().expect("a file begins");
    expect![[r#"
        --set workload.bulk.load=[]: workload.bulk.load = [] gives it no value
            accepted: a value, or a list of one value or more"#]]
    .assert_eq(&refused(single, &["workload.bulk.load=[]"]));
    expect![[r#"
        --set workload.bulk.load=[0.1: workload.bulk.load = "[0.1" does not fit
            accepted: a number in 0..=2, for example 0.5"#]]
    .assert_eq(&refused(single, &["workload.bulk.load=[0.1"]));
    expect![[r#"
        --set sweep."workload.bulk.load"=[]: workload.bulk.load = [] gives it no value
            accepted: a value, or a list of one value or more"#]]
    .assert_eq(&refused(single, &["sweep.\"workload.bulk.load\"=[]"]));
    expect![[r#"
        study.toml:5:1: workload.bulk.load = [] gives it no value
            5 | "workload.bulk.load" = []
              | ^^^^^^^^^^^^^^^^^^^^
            accepted: a value, or a list of one value or more"#]]
    .assert_eq(&refused(&study.replace("[0.1]", "[]"), &[]));
    expect![[r#"
        study.toml:4:10: the axis `queue` has no variants
            4 | [variant.queue]
              |          ^^^^^
            accepted: one table [variant.AXIS.NAME] or more"#]]
    .assert_eq(&refused(&format!("{single}[variant.queue]\n"), &[]));
    for section in ["sweep", "variant"] {
        let text = refused(&format!("{section} = 3\n{single}"), &[]);
        assert!(text.contains("3 does not fit") && text.contains(section), "{text}");
    }
}

#[test]
fn the_keys_of_a_table_that_lacks_one_are_listed() {
    let stop = "base = \"clan-c\"\n[channel.fabric]\nflow_control = \"stop_go\"\n";
    let stop = stop.replace("clan-c", "clan");
    file(
        "stop.toml",
        &stop,
        expect![[r#"
        stop.toml:3:1: missing key `stop` in channel.fabric.flow_control.stop_go
            3 | flow_control = "stop_go"
              | ^^^^^^^^^^^^
            accepted: `stop`, a whole number from 1; `go`, a whole number from 0; and if wanted `reaction`, a text with its unit (ps, ns, us, ms, s). For example: stop_go = { stop = 8, go = 4 }"#]],
    );
    clint(
        &["program.run=1"],
        expect![[r#"
        --set program.run=1: program.run = 1 does not fit
            accepted: `ping_pong`, `ping_ping`, `stream`, `all_to_all`, `barrier`, `broadcast`, `lock`, `ordered_lock`, `hot_spot`, `request_reply`"#]],
    );
}

#[test]
fn a_key_at_the_wrong_level_is_told_where_it_belongs() {
    let wire = "base = \"clint\"\n[workload.bulk]\nload = 0.1\n";
    let refused = |text: &str| refusal(&Request::of_text("wire.toml", text)).to_string();
    for (text, belongs) in [
        (
            wire.replace("[workload.bulk]", "[workload]"),
            "`load` belongs in workload.bulk or in workload.quick",
        ),
        (format!("{wire}[bulk]\nload = 0.3\n"), "`bulk` belongs in channel or in workload"),
        (format!("hosts = 4\n{wire}"), "`hosts` belongs in system"),
        (
            format!("{wire}[channel.bulk]\nrate = '3 Gbit/s'\n"),
            "`rate` belongs in channel.bulk.link",
        ),
        (
            format!("{wire}[channel.bulk.link]\npacket = '64 B'\n"),
            "`packet` belongs in channel.bulk",
        ),
    ] {
        let message = refused(&text);
        assert!(message.contains(belongs), "{message}");
    }
    let misspelt = refused(&format!("{wire}laod = 0.3\n"));
    assert!(!misspelt.contains("belongs"), "{misspelt}");
}

#[test]
fn a_table_without_rows_is_not_there() {
    let options = Options { length: Some("100 us".to_owned()), ..Options::default() };
    let request = Request::new("clint", None, &["workload.bulk.load=0.3".to_owned()]);
    let outcome = run(&request, &options, &mut |_, _| true).expect("a load is carried");
    let names: Vec<&str> = outcome.tables.iter().map(|(name, _)| *name).collect();
    assert!(names.starts_with(&["points", "replications", "derived"]), "{names:?}");
    assert!(names.contains(&"histograms") && !names.contains(&"messages"), "{names:?}");
}

#[test]
fn a_workload_that_a_base_brings_is_said() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let wire = "base = \"clint\"\n[workload.bulk]\nload = 0.1\n[workload.quick]\nload = 0.1\n";
    fs::write(folder.join("wire.toml"), wire).expect("the folder of the tests can be written");
    let note = |own: &str| {
        let base = folder.join("wire.toml");
        let text = format!("base = \"{}\"\n{own}", base.display());
        let plan = weft_lab::Plan::new(&Request::of_text("own.toml", &text)).expect("a plan");
        let notes = weft_lab::notes(&plan);
        notes.first().map(|note| note.replace(&*folder.to_string_lossy(), "FOLDER"))
    };
    expect![
        "the base adds traffic that this file does not mention: workload.quick of FOLDER/wire.toml"
    ]
    .assert_eq(&note("workload.bulk.load = 0.2\n").unwrap_or_default());
    let both = "workload.bulk.load = 0.2\nworkload.quick.load = 0.2\n";
    assert_eq!(note(both), None, "what a file mentions needs no note");
}
