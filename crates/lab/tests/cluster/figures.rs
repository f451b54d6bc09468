//! The golden schedules of Figures 4 and 5.

use std::fmt::Write;

use expect_test::expect;
use weft_lab::drive::trace::TraceEntry;
use weft_lab::{Cell, Options, Request};

use super::{runs, trace};

fn host(host: Option<u32>) -> String {
    host.map_or_else(|| "s".to_owned(), |host| host.to_string())
}

/// One line a slot: its packets with what they say, as the figures write them.
fn by_slot(entries: &[&TraceEntry], slots: std::ops::Range<u64>, numbered: bool) -> String {
    let mut text = String::new();
    for slot in slots {
        write!(text, "s{slot}:").unwrap();
        for entry in entries.iter().filter(|entry| entry.slot == Some(slot)) {
            let (from, to) = (host(entry.initiator), host(entry.target));
            write!(text, " {}{from},{to}", entry.kind).unwrap();
            if numbered && matches!(entry.kind, "breq" | "back") {
                write!(text, "#{}", entry.sequence).unwrap();
            }
            if !entry.content.is_empty() && entry.kind != "back" {
                write!(text, "({})", entry.content).unwrap();
            }
        }
        text.push('\n');
    }
    text
}

/// Figure 4, with the figure's s0 as slot 1. The figure's packets 1 to 5 are (0,0)#0, (0,0)#1,
/// (0,1)#0, (1,0)#0 and (1,1)#0. The text has the last two requests "granted in slot s3"; the
/// figure, and this run, in s2, one slot before their transfer.
#[test]
fn figure_4_five_packets_through_the_bulk_pipeline() {
    let runs = runs("clint-figure-4", None, &[], 1);
    expect![[r#"
        s1: cfg0,s(0) cfg1,s(0) gnts,0(0) gnts,1
        s2: breq0,0#0 cfg0,s(0 1) cfg1,s(0 1) gnts,0(0) gnts,1(1)
        s3: back0,0#0 breq0,0#1 breq1,1#0 cfg0,s(1) cfg1,s(0) gnts,0(1) gnts,1(0)
        s4: back0,0#1 back1,1#0 breq0,1#0 breq1,0#0 cfg0,s cfg1,s gnts,0 gnts,1
        s5: back1,0#0 back0,1#0 cfg0,s cfg1,s gnts,0 gnts,1
    "#]]
    .assert_eq(&by_slot(&trace(&runs), 1..6, true));
}

/// The table that a person gets: a row for each transmission of every channel.
#[test]
fn a_study_returns_the_trace_as_a_table() {
    let request = Request::new("clint-figure-4", None, &[]);
    let outcome = weft_lab::run(&request, &Options::default(), &mut |_, _| true).unwrap();
    let table = outcome.table("trace");
    let rows = |kind: &str| {
        let kind = Cell::Text(kind.to_owned());
        (0..table.rows()).filter(|row| table.get(*row, "kind").as_ref() == Some(&kind)).count()
    };
    // 60 us are 6.7 slots: seven cycles have begun, and the last of them has its grants, too.
    assert_eq!(["cfg", "gnt", "breq", "back"].map(rows), [14, 14, 5, 5]);
    assert_eq!(table.number(0, "time_us"), Some(10.821_053), "the first transfer");
    let without = Request::new("clint-figure-4", None, &["run.trace=false".to_owned()]);
    let outcome = weft_lab::run(&without, &Options::default(), &mut |_, _| true).unwrap();
    assert_eq!(outcome.table("trace").rows(), 0);
}

/// Figure 5, with n = 3.
#[test]
fn figure_5_the_timing_of_both_channels() {
    let runs = runs("clint-figure-5", None, &[], 1);
    let trace = trace(&runs);
    expect![[r#"
        s1: cfg0,s(1) cfg1,s(0) gnts,0(1) gnts,1(0)
        s2: breq0,1 breq1,0 cfg0,s(1) cfg1,s(0) gnts,0(1) gnts,1(0)
        s3: back1,0 back0,1 breq0,1 breq1,0 cfg0,s(1) cfg1,s(0) gnts,0(1) gnts,1(0)
        s4: back1,0 back0,1 breq0,1 breq1,0 cfg0,s cfg1,s gnts,0 gnts,1
        s5: back1,0 back0,1 cfg0,s cfg1,s gnts,0 gnts,1
    "#]]
    .assert_eq(&by_slot(&trace, 1..6, false));
    let mut times = String::new();
    for entry in trace.iter().filter(|entry| {
        let stage = match entry.kind {
            "cfg" | "gnt" => 2,
            "breq" => 3,
            _ => 4,
        };
        entry.slot == Some(stage)
    }) {
        let (from, to) = (host(entry.initiator), host(entry.target));
        writeln!(times, "{}{from},{to} {} to {}", entry.kind, entry.time.0, entry.until.0).unwrap();
    }
    expect![[r#"
        cfg0,s 17966316 to 18279195
        cfg1,s 17966316 to 18279195
        gnts,0 19539195 to 19714801
        gnts,1 19539195 to 19714801
        breq0,1 19846316 to 28241816
        breq1,0 19846316 to 28241816
        back1,0 28241816 to 28442422
        back0,1 28241816 to 28442422
    "#]]
    .assert_eq(&times);
}
