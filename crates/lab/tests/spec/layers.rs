//! Layers, choices, presets, options, origins, and the forms that a tree is written in.

use expect_test::expect;
use weft_lab::spec::{OriginKind, Tree, schema};
use weft_units::{PositiveCount, Span};

use crate::spec::settings::{BASE, Scheduler, Switch, System, base, over};

fn switch(tree: &Tree) -> Switch {
    tree.read::<System>().unwrap().channel.remove("bulk").unwrap().switch
}

fn gap(tree: &Tree) -> Span {
    match switch(tree) {
        Switch::Scheduled(scheduled) => scheduled.gap,
        other => panic!("not scheduled: {other:?}"),
    }
}

#[test]
fn a_file_becomes_the_types_that_run() {
    let system: System = base().read().unwrap();
    assert_eq!(system.hosts, PositiveCount::new(16).unwrap());
    assert_eq!(system.channel["bulk"].link.delay, Span::from_ns(25));
    assert_eq!(system.published[0].value, 9.5, "`value` without an origin is an ordinary key");
}

#[test]
fn a_higher_layer_replaces_values_and_keeps_the_rest() {
    let tree = over("channel.bulk.switch.scheduled.gap = \"1 us\"");
    assert_eq!(gap(&tree), Span::from_ns(1000));
    assert_eq!(tree.read::<System>().unwrap().hosts.get(), 16);
    let list = over("[[published]]\nvalue = 1.0\nat = {}\n");
    assert_eq!(list.read::<System>().unwrap().published.len(), 1, "lists are replaced whole");
}

#[test]
fn the_choice_of_the_highest_layer_is_read_whole() {
    let crossbar = "[channel.bulk.switch.crossbar]\nlatency = \"90 ns\"\n\
                    contention = \"drop\"\nbuffers = \"unlimited\"\n";
    assert!(matches!(switch(&over(crossbar)), Switch::Crossbar(_)));
    let back = over(crossbar)
        .merge(Tree::parse("third.toml", "channel.bulk.switch.scheduled.gap = \"2 ns\"").unwrap());
    assert_eq!(gap(&back), Span::from_ns(2), "the third layer returns to what the first began");
    let islip = over("channel.bulk.switch.scheduled.scheduler.islip.iterations = 4");
    let Switch::Scheduled(scheduled) = switch(&islip) else { panic!("the outer choice stays") };
    assert_eq!(scheduled.scheduler, Scheduler::Islip { iterations: 4 });
}

#[test]
fn a_choice_without_settings_is_written_as_its_name() {
    assert_eq!(switch(&over("channel.bulk.switch = \"output_queued\"")), Switch::OutputQueued);
    assert_eq!(switch(&over("[channel.bulk.switch.output_queued]")), Switch::OutputQueued);
    let scheduler = "channel.bulk.switch.scheduled.scheduler";
    let Switch::Scheduled(scheduled) = switch(&over(&format!("{scheduler} = \"fewest\""))) else {
        panic!("the outer choice stays")
    };
    let plain = Scheduler::Fewest { rotate: false };
    assert_eq!(scheduled.scheduler, plain, "settings that all have defaults may be left out");
}

#[test]
fn a_preset_is_a_layer_of_its_own() {
    let parsed = || Tree::parse("clint.toml", BASE).unwrap();
    assert_eq!(parsed().presets(), ["literal", "fitted"]);
    let literal = parsed().preset("literal").unwrap();
    assert_eq!(literal.read::<System>().unwrap().hosts.get(), 8);
    assert_eq!(gap(&parsed().preset("fitted").unwrap()), Span::from_ns(700));
    let error = parsed().preset("fited").unwrap_err().at(base().get("title").unwrap().place());
    expect![[r#"
        clint.toml:1:9: unknown preset `fited`
            1 | title = "Clint"
              |         ^^^^^^^
            accepted: `literal`, `fitted`; did you mean `fitted`?"#]]
    .assert_eq(&error.to_string());
    let error = base().preset("fitted").unwrap_err();
    expect!["unknown preset `fitted`: there is none"].assert_eq(&error.to_string());
}

#[test]
fn a_preset_may_choose_another_part() {
    let text = format!("{BASE}\n[preset.queued]\nchannel.bulk.switch = \"output_queued\"\n");
    let tree = Tree::parse("x.toml", &text).unwrap().preset("queued").unwrap();
    assert_eq!(switch(&tree), Switch::OutputQueued);
    let text = format!("{BASE}\n[preset.queued.channel.bulk.switch.output_queued]\n");
    let tree = Tree::parse("x.toml", &text).unwrap().preset("queued").unwrap();
    assert_eq!(switch(&tree), Switch::OutputQueued);
}

#[test]
fn an_option_sets_any_value() {
    let mut tree = base();
    tree.set("hosts", "4").unwrap();
    tree.set("channel.bulk.link.delay", "30 ns").unwrap();
    tree.set_option("channel.bulk.load = 0.5").unwrap();
    let system: System = tree.read().unwrap();
    assert_eq!(system.hosts.get(), 4);
    assert_eq!(system.channel["bulk"].link.delay, Span::from_ns(30), "a text needs no quotes");
    assert_eq!(system.channel["bulk"].load.get(), 0.5);
    tree.set("channel.bulk.switch", "output_queued").unwrap();
    assert_eq!(switch(&tree), Switch::OutputQueued);
    assert_eq!(tree.get("hosts").unwrap().place().to_string(), "--set hosts=4");
}

#[test]
fn a_point_of_a_sweep_is_put_into_the_tree() {
    let text = "[sweep]\n\"channel.bulk.load\" = [0.1, 0.2]\n";
    let mut tree = over(text);
    let sweep = tree.take("sweep").unwrap();
    let (path, values) = sweep.root().entries().unwrap().next().unwrap();
    assert_eq!(path, "channel.bulk.load");
    let loads = values.elements().unwrap().iter().map(|value| {
        let mut point = tree.clone();
        point.insert(path, value.clone()).unwrap();
        point.read::<System>().unwrap().channel["bulk"].load.get()
    });
    assert_eq!(loads.collect::<Vec<_>>(), [0.1, 0.2]);
}

#[test]
fn a_part_of_a_tree_keeps_its_full_path() {
    let link = base().sub("channel.bulk.link").unwrap();
    let paths: Vec<_> = link.leaves().into_iter().map(|leaf| leaf.path).collect();
    assert_eq!(paths, ["channel.bulk.link.rate", "channel.bulk.link.delay"]);
    assert!(base().sub("channel.bulk.lnk").is_none());
}

fn listing(tree: &Tree) -> String {
    let lines = tree.leaves().into_iter().map(|leaf| {
        let origin = leaf.origin.map_or_else(String::new, |origin| {
            let predicts = origin.predicts.map_or_else(String::new, |it| format!(" -> {it}"));
            format!(" [{}: {}{predicts}]", origin.kind, origin.text)
        });
        let mark = if leaf.choice { "* " } else { "" };
        format!("{mark}{} = {}{origin} ({})\n", leaf.path, leaf.value_text, leaf.place)
    });
    lines.collect()
}

#[test]
fn the_parameters_are_listed_in_file_order_with_their_origins() {
    let (_, tree) = base().resolve::<System>().unwrap();
    expect![[r#"
        title = Clint (clint.toml:1:1)
        hosts = 16 [stated: 2] (clint.toml:2:1)
        channel.bulk.packet = 2086 B (clint.toml:5:1)
        channel.bulk.link.rate = 2 Gbit/s (clint.toml:7:1)
        channel.bulk.link.delay = 25 ns [derived: 5 m at 5 ns/m] (clint.toml:8:1)
        * channel.bulk.switch = scheduled [stated: 3] (clint.toml:9:15)
        channel.bulk.switch.scheduled.gap = 640 ns [calibrated: T2 -> F8] (clint.toml:12:1)
        * channel.bulk.switch.scheduled.scheduler = fewest (clint.toml:13:32)
        channel.bulk.switch.scheduled.scheduler.fewest.rotate = true (clint.toml:14:1)
        published[0].value = 9.5 (clint.toml:17:1)
        published[0].at.load = 0.1 (clint.toml:18:8)
    "#]]
    .assert_eq(&listing(&tree));
}

#[test]
fn an_origin_goes_with_what_it_explained() {
    let mut tree = base();
    tree.set("hosts", "4").unwrap();
    tree.set("channel.bulk.switch.output_queued", "{}").unwrap();
    let (_, tree) = tree.resolve::<System>().unwrap();
    expect![[r#"
        title = Clint (clint.toml:1:1)
        hosts = 4 (--set hosts=4)
        channel.bulk.packet = 2086 B (clint.toml:5:1)
        channel.bulk.link.rate = 2 Gbit/s (clint.toml:7:1)
        channel.bulk.link.delay = 25 ns [derived: 5 m at 5 ns/m] (clint.toml:8:1)
        * channel.bulk.switch = output_queued (--set channel.bulk.switch.output_queued={})
        published[0].value = 9.5 (clint.toml:17:1)
        published[0].at.load = 0.1 (clint.toml:18:8)
    "#]]
    .assert_eq(&listing(&tree));
    let mut tree = base();
    tree.set("hosts", "{ value = 4, stated = \"5\" }").unwrap();
    assert_eq!(tree.get("hosts").unwrap().origin().unwrap().kind, OriginKind::Stated);
}

#[test]
fn a_resolved_tree_is_written_and_read_back() {
    let (system, tree) =
        over("channel.bulk.switch.scheduled.scheduler.islip.iterations = 4").resolve().unwrap();
    let text = tree.to_toml();
    expect![[r#"
        title = "Clint"
        hosts = 16

        [channel.bulk]
        packet = "2086 B"

        [channel.bulk.link]
        rate = "2 Gbit/s"
        delay = "25 ns"

        [channel.bulk.switch.scheduled]
        gap = "640 ns"

        [channel.bulk.switch.scheduled.scheduler.islip]
        iterations = 4

        [[published]]
        value = 9.5

        [published.at]
        load = 0.1
    "#]]
    .assert_eq(&text);
    let back = Tree::parse("resolved.toml", &text).unwrap();
    assert_eq!(back, tree);
    assert_eq!(back.read::<System>().unwrap(), system);
    assert_eq!(Tree::from_json("point", &tree.to_json()).unwrap(), tree);
    let typed = Tree::from_json("typed", &serde_json::to_value(&system).unwrap()).unwrap();
    assert_eq!(typed.read::<System>().unwrap(), system);
}

#[test]
fn the_canonical_form_forgets_order_origins_and_number_forms() {
    let canonical = |text: &str| Tree::parse("x.toml", text).unwrap().canonical();
    assert_eq!(
        canonical("b = 1.0\na = { value = 0.50, stated = \"2\" }"),
        canonical("a = 0.5\nb = 1")
    );
    assert_eq!(
        canonical("b = 1.0\n[a]\nd = \"x\"\nc = [true]"),
        r#"{"a":{"c":[true],"d":"x"},"b":1}"#
    );
    assert_ne!(canonical("a = \"1\""), canonical("a = 1"));
}

#[test]
fn the_schema_accepts_a_value_with_and_without_its_origin() {
    let schema = schema::<System>();
    let hosts = &schema["properties"]["hosts"];
    assert_eq!(hosts["description"], "How many hosts there are.");
    assert_eq!(hosts["x-unit"], "count");
    assert_eq!(hosts["anyOf"][0]["minimum"], 1);
    assert_eq!(hosts["anyOf"][1]["properties"]["value"], hosts["anyOf"][0]);
    let rate = &schema["$defs"]["Link"]["properties"]["rate"];
    assert_eq!(rate["description"], "Bits that pass in a time.");
    assert_eq!(rate["anyOf"][0]["type"], "string");
    let link = &schema["$defs"]["Channel"]["properties"]["link"];
    assert_eq!(link["$ref"], "#/$defs/Link", "a table carries its origin among its own keys");
    assert_eq!(schema["$defs"]["Link"]["properties"]["stated"]["type"], "string");
    let switch = &schema["$defs"]["Switch"]["oneOf"];
    assert!(switch.as_array().is_some_and(|variants| variants.len() == 3), "{switch:#}");
}
