//! Files that are refused, with the exact message.

use expect_test::{Expect, expect};
use weft_lab::spec::{SpecError, Tree};

use crate::spec::settings::{BASE, System, base, over};

fn refused(result: Result<System, SpecError>, message: Expect) {
    message.assert_eq(&result.unwrap_err().to_string());
}

/// The base with one text replaced, read as one file.
fn with(old: &str, new: &str) -> Result<System, SpecError> {
    assert!(BASE.contains(old));
    Tree::parse("x.toml", &BASE.replacen(old, new, 1))?.without_presets().read()
}

fn set(path: &str, text: &str) -> Result<System, SpecError> {
    let mut tree = base();
    tree.set(path, text)?;
    tree.read()
}

#[test]
fn an_unknown_key_is_told_its_neighbours() {
    refused(
        with("hosts = {", "hots = {"),
        expect![[r#"
        x.toml:2:1: unknown key `hots`
            2 | hots = { value = 16, stated = "2" }
              | ^^^^
            accepted: `title`, `hosts`, `channel`, `published`; did you mean `hosts`?"#]],
    );
    refused(
        over("channel.bulk.speed = 3").read(),
        expect![[r#"
        m.toml:1:14: unknown key `speed` in channel.bulk
            1 | channel.bulk.speed = 3
              |              ^^^^^
            accepted: `packet`, `link`, `switch`, `load`"#]],
    );
}

#[test]
fn a_quantity_needs_its_unit() {
    refused(
        with("\"2 Gbit/s\"", "2"),
        expect![[r#"
        x.toml:7:8: channel.bulk.link.rate = 2: write the unit, for example "2 Gbit/s"
            7 | rate = 2
              |        ^"#]],
    );
    refused(
        with("\"25 ns\"", "\"25\""),
        expect![[r#"
        x.toml:8:19: channel.bulk.link.delay = "25": write the unit, for example "25 ns"
            8 | delay = { value = "25", derived = "5 m at 5 ns/m" }
              |                   ^^^^"#]],
    );
    refused(
        with("\"25 ns\"", "\"25 n\""),
        expect![[r#"
            x.toml:8:19: channel.bulk.link.delay = "25 n": unknown unit `n`; use ps, ns, us, ms or s
                8 | delay = { value = "25 n", derived = "5 m at 5 ns/m" }
                  |                   ^^^^^^"#]],
    );
    refused(
        with("\"2086 B\"", "\"0.5 B\""),
        expect![[r#"
            x.toml:5:10: channel.bulk.packet = "0.5 B": finer than 1 B, the finest size that is kept
                5 | packet = "0.5 B"
                  |          ^^^^^^^"#]],
    );
}

#[test]
fn a_value_out_of_range_is_told_the_range() {
    refused(
        with("value = 16", "value = 0"),
        expect![[r#"
        x.toml:2:19: hosts = 0: count must lie in 1..=1000000, got 0
            2 | hosts = { value = 0, stated = "2" }
              |                   ^"#]],
    );
    refused(
        over("channel.bulk.load = 2.5").read(),
        expect![[r#"
        m.toml:1:21: channel.bulk.load = 2.5: load must lie in 0..=2, got 2.5
            1 | channel.bulk.load = 2.5
              |                     ^^^"#]],
    );
    refused(
        over("channel.bulk.switch.scheduled.scheduler.islip.iterations = 300").read(),
        expect![[r#"
            m.toml:1:60: channel.bulk.switch.scheduled.scheduler.islip.iterations = 300 does not fit
                1 | channel.bulk.switch.scheduled.scheduler.islip.iterations = 300
                  |                                                            ^^^
                accepted: a whole number in 0..=255"#]],
    );
}

#[test]
fn a_value_of_the_wrong_kind_is_told_the_right_one() {
    refused(
        with("value = 16", "value = \"many\""),
        expect![[r#"
        x.toml:2:19: hosts = "many" does not fit
            2 | hosts = { value = "many", stated = "2" }
              |                   ^^^^^^
            accepted: a whole number from 1 to 1000000"#]],
    );
    refused(
        with("title = \"Clint\"", "title = [\"Clint\", \"X\"]"),
        expect![[r#"
        x.toml:1:9: title: a list does not fit
            1 | title = ["Clint", "X"]
              |         ^^^^^^^^^^^^^^
            accepted: a text in quotes"#]],
    );
    refused(
        over("channel = 3").read(),
        expect![[r#"
        m.toml:1:11: channel = 3 does not fit
            1 | channel = 3
              |           ^
            accepted: a table"#]],
    );
    refused(
        over("channel.bulk.packet.size = 3").read(),
        expect![[r#"
        m.toml:1:14: channel.bulk.packet: a table does not fit
            1 | channel.bulk.packet.size = 3
              |              ^^^^^^
            accepted: a size with its unit, for example "2086 B""#]],
    );
    refused(
        with("rotate = true", "rotate = \"yes\""),
        expect![[r#"
            x.toml:14:10: channel.bulk.switch.scheduled.scheduler.fewest.rotate = "yes" does not fit
                14 | rotate = "yes"
                   |          ^^^^^
                accepted: true or false"#]],
    );
}

#[test]
fn an_unknown_choice_is_told_the_choices() {
    refused(
        with("scheduler.fewest", "scheduler.fewests"),
        expect![[r#"
            x.toml:13:42: unknown choice `fewests` for channel.bulk.switch.scheduled.scheduler
                13 | [channel.bulk.switch.scheduled.scheduler.fewests]
                   |                                          ^^^^^^^
                accepted: `fewest`, `islip`; did you mean `fewest`?"#]],
    );
    refused(
        over("channel.bulk.switch = \"corssbar\"").read(),
        expect![[r#"
        m.toml:1:23: unknown choice `corssbar` for channel.bulk.switch
            1 | channel.bulk.switch = "corssbar"
              |                       ^^^^^^^^^^
            accepted: `scheduled`, `crossbar`, `output_queued`; did you mean `crossbar`?"#]],
    );
    refused(
        over("channel.bulk.switch = 3").read(),
        expect![[r#"
        m.toml:1:23: channel.bulk.switch = 3 does not fit
            1 | channel.bulk.switch = 3
              |                       ^
            accepted: `scheduled`, `crossbar`, `output_queued`"#]],
    );
    refused(
        with(
            "[channel.bulk.switch.scheduled.scheduler.fewest]\nrotate = true",
            "[channel.bulk.switch.scheduled.scheduler]",
        ),
        expect![[r#"
            x.toml:13:32: channel.bulk.switch.scheduled.scheduler: nothing is chosen
                13 | [channel.bulk.switch.scheduled.scheduler]
                   |                                ^^^^^^^^^
                accepted: `fewest`, `islip`"#]],
    );
}

#[test]
fn two_parts_where_one_fits_are_both_named() {
    refused(
        with(
            "[[published]]",
            "[channel.bulk.switch.crossbar]\nlatency = \"9 ns\"\n\n[[published]]",
        ),
        expect![[r#"
            x.toml:16:22: two parts where one fits: `crossbar` here, `scheduled` at x.toml:11:22
                16 | [channel.bulk.switch.crossbar]
                   |                      ^^^^^^^^
                accepted: one choice for channel.bulk.switch"#]],
    );
}

#[test]
fn a_missing_key_is_named_with_its_table() {
    refused(
        with("packet = \"2086 B\"\n", ""),
        expect![[r#"
        x.toml:4:10: missing key `packet` in channel.bulk
            4 | [channel.bulk]
              |          ^^^^"#]],
    );
    refused(
        with("title = \"Clint\"\n", ""),
        expect![[r#"
        x.toml:1:1: missing key `title`
            1 | hosts = { value = 16, stated = "2" }
              | ^"#]],
    );
    refused(
        over("channel.bulk.switch.crossbar.latency = \"90 ns\"").read(),
        expect![[r#"
        m.toml:1:21: missing key `contention` in channel.bulk.switch.crossbar
            1 | channel.bulk.switch.crossbar.latency = "90 ns"
              |                     ^^^^^^^^"#]],
    );
}

#[test]
fn settings_of_a_choice_that_has_none_are_refused() {
    refused(
        over("channel.bulk.switch.output_queued.depth = 4").read(),
        expect![[r#"
        m.toml:1:35: unknown key `depth` in channel.bulk.switch.output_queued, which has no settings
            1 | channel.bulk.switch.output_queued.depth = 4
              |                                   ^^^^^"#]],
    );
}

#[test]
fn a_value_that_no_part_reads_is_refused() {
    #[derive(Debug, serde::Deserialize)]
    struct Lenient {
        #[serde(rename = "title")]
        _title: String,
    }
    let tree = Tree::parse("x.toml", "title = \"x\"\n[link]\nrate = \"2 Gbit/s\"\n").unwrap();
    expect![[r#"
        x.toml:3:1: no part reads link.rate
            3 | rate = "2 Gbit/s"
              | ^^^^"#]]
    .assert_eq(&tree.read::<Lenient>().unwrap_err().to_string());
    let tree = Tree::parse("x.toml", "title = \"x\"\n[link]\n").unwrap();
    expect![[r#"
        x.toml:2:2: no part reads link
            2 | [link]
              |  ^^^^"#]]
    .assert_eq(&tree.read::<Lenient>().unwrap_err().to_string());
}

#[test]
fn an_origin_is_one_and_complete() {
    refused(
        with("stated = \"2\"", "stated = \"2\", derived = \"8 + 8\""),
        expect![[r#"
        x.toml:2:37: hosts has two origins, `stated` and `derived`
            2 | hosts = { value = 16, stated = "2", derived = "8 + 8" }
              |                                     ^^^^^^^
            accepted: one origin for one value"#]],
    );
    refused(
        with(", predicts = \"F8\"", ""),
        expect![[r#"
        x.toml:12:27: channel.bulk.switch.scheduled.gap is calibrated but predicts nothing
            12 | gap = { value = "640 ns", calibrated = "T2" }
               |                           ^^^^^^^^^^
            accepted: `predicts` beside it: a published number that it was not fitted to"#]],
    );
    refused(
        with("derived = \"5 m at 5 ns/m\"", "derived = \"x\", predicts = \"y\""),
        expect![[r#"
        x.toml:8:43: channel.bulk.link.delay is derived; only what is calibrated `predicts`
            8 | delay = { value = "25 ns", derived = "x", predicts = "y" }
              |                                           ^^^^^^^^"#]],
    );
    refused(
        with("stated = \"2\"", "predicts = \"y\""),
        expect![[r#"
        x.toml:2:23: `predicts` in hosts goes with `calibrated`, which is not there
            2 | hosts = { value = 16, predicts = "y" }
              |                       ^^^^^^^^"#]],
    );
    refused(
        with("stated = \"2\"", "stated = 2"),
        expect![[r#"
        x.toml:2:32: hosts.stated = 2 does not fit
            2 | hosts = { value = 16, stated = 2 }
              |                                ^
            accepted: a text in quotes: the section, the arithmetic or the number"#]],
    );
    refused(
        with("stated = \"2\"", "stated = \"2\", unit = \"ns\""),
        expect![[r#"
        x.toml:2:37: unknown key `unit` beside the value of hosts
            2 | hosts = { value = 16, stated = "2", unit = "ns" }
              |                                     ^^^^
            accepted: `value`, `stated`, `derived`, `calibrated`, `predicts`"#]],
    );
}

#[test]
fn what_is_no_toml_is_refused_at_its_place() {
    refused(
        with("hosts = {", "title = {"),
        expect![[r#"
        x.toml:2:1: this is no TOML: duplicate key
            2 | title = { value = 16, stated = "2" }
              | ^^^^^"#]],
    );
    refused(
        with("title = \"Clint\"", "title = \"Clint"),
        expect![[r#"
        x.toml:1:15: this is no TOML: invalid basic string, expected `"`
            1 | title = "Clint
              |               ^"#]],
    );
    refused(
        with("value = 16", "value = inf"),
        expect![[r#"
        x.toml:2:19: hosts.value = inf: this is no finite number
            2 | hosts = { value = inf, stated = "2" }
              |                   ^^^
            accepted: a finite number"#]],
    );
    refused(
        with("value = 16", "value = 2003-08-01"),
        expect![[r#"
        x.toml:2:19: hosts.value = 2003-08-01: no parameter is a date
            2 | hosts = { value = 2003-08-01, stated = "2" }
              |                   ^^^^^^^^^^
            accepted: a number, or a text in quotes"#]],
    );
    refused(
        with("value = 16", "value = 99999999999999999999"),
        expect![[r#"
        x.toml:2:19: hosts.value = 99999999999999999999: this is no whole number of 64 bits
            2 | hosts = { value = 99999999999999999999, stated = "2" }
              |                   ^^^^^^^^^^^^^^^^^^^^
            accepted: a whole number of 64 bits"#]],
    );
}

#[test]
fn an_option_is_refused_by_its_own_text() {
    refused(
        set("channel.bulk.hots", "3"),
        expect![[r#"
        --set channel.bulk.hots=3: unknown key `hots` in channel.bulk
            accepted: `packet`, `link`, `switch`, `load`"#]],
    );
    refused(
        set("hosts", "many"),
        expect![[r#"
        --set hosts=many: hosts = "many" does not fit
            accepted: a whole number from 1 to 1000000"#]],
    );
    refused(
        set("hosts.count", "3"),
        expect![[r#"
        --set hosts.count=3: hosts: a table does not fit
            accepted: a whole number from 1 to 1000000"#]],
    );
    refused(
        set("channel..bulk", "3"),
        expect![[r#"
        --set channel..bulk=3: `channel..bulk` is not a dotted key
            accepted: names joined by dots, such as channel.bulk.hosts"#]],
    );
    let mut tree = base();
    expect![[r#"
        --set hosts: this sets nothing
            accepted: KEY=VALUE, such as channel.bulk.hosts=16"#]]
    .assert_eq(&tree.set_option("hosts").unwrap_err().to_string());
}

#[test]
fn a_value_from_a_program_is_refused_by_its_key() {
    let value = serde_json::json!({ "title": "x", "hosts": null });
    expect![[r#"
        experiment: hosts has no value
            accepted: a value; leave the key out for its default"#]]
    .assert_eq(&Tree::from_json("experiment", &value).unwrap_err().to_string());
    let value = serde_json::json!({ "title": "x", "hosts": -1 });
    let tree = Tree::from_json("experiment", &value).unwrap();
    refused(tree.read(), expect!["experiment: hosts = -1: count must lie in 1..=1000000, got -1"]);
}

#[test]
fn a_rule_beyond_the_types_is_refused_in_the_same_form() {
    let tree = over("workload.bulkk = 1");
    let error = tree.refuse("workload.bulkk", "unknown channel `bulkk`").names(&["bulk"], "bulkk");
    expect![[r#"
        m.toml:1:10: unknown channel `bulkk`
            1 | workload.bulkk = 1
              |          ^^^^^
            accepted: `bulk`"#]]
    .assert_eq(&error.to_string());
    let absent = tree.refuse("channel.bulk.colour", "a channel needs a colour");
    assert_eq!((absent.key.as_str(), absent.line), ("channel.bulk.colour", Some(4)));
}

#[test]
fn a_program_gets_the_parts_of_a_refusal() {
    let error = with("hosts = {", "hots = {").unwrap_err();
    let json = serde_json::to_string_pretty(&*error).unwrap();
    expect![[r#"
        {
          "file": "x.toml",
          "line": 2,
          "column": 1,
          "key": "hots",
          "value": "",
          "message": "unknown key `hots`",
          "accepted": [
            "title",
            "hosts",
            "channel",
            "published"
          ],
          "nearest": "hosts"
        }"#]]
    .assert_eq(&json);
}
