//! What goes with what: every kind of switch with every flow control, route, control, adapter, link discipline and
//! fabric, and every pair of those. What the checker accepts is run, and holds its laws; what it refuses it refuses
//! with a reason. `docs/combinations.md` is written from this (`UPDATE_EXPECT=1`).

#![allow(clippy::expect_used, clippy::panic, reason = "the helpers of a test may fail the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, thread};

use weft_lab::{ChannelRun, Error, Halt, Plan, Request, schema, simulate};

/// A part, by the name of its kind in the schema, with the keys of the channel that it brings.
struct Part {
    /// Its name on the page.
    name: &'static str,
    /// The keys below the channel, and their values.
    keys: &'static [(&'static str, &'static str)],
}

/// Alternatives, one of which a channel has.
struct Axis {
    title: &'static str,
    /// The choice in the schema whose kinds must all be listed here, and the key of that choice.
    kinds: Option<(&'static str, &'static str)>,
    parts: &'static [Part],
}

const fn part(name: &'static str, keys: &'static [(&'static str, &'static str)]) -> Part {
    Part { name, keys }
}

const OUT_OF_BAND: (&str, &str) =
    ("control", "{ out_of_band = { delay = '200 ns', outstanding = 'unlimited' } }");
const TURNS: (&str, &str) =
    ("turns", "{ turn_around = '100 ns', fifo = '2048 B', phase = 'aligned' }");
const TRANSFER: (&str, &str) = ("transfer", "{ dma = { set_up = '100 ns', rate = '2 Gbit/s' } }");
const CELLS: (&str, &str) = ("packet", "'16 B'");

/// Kinds of switches in the forms that differ in what they need, each with what it cannot do without.
const SWITCHES: Axis = Axis {
    title: "Switch",
    kinds: Some(("SwitchSettings", "switch")),
    parts: &[
        part(
            "scheduled",
            &[(
                "switch",
                "{ scheduled = { latency = '90 ns', lead = '100 ns', scheduler = 'islip' } }",
            )],
        ),
        part(
            "crossbar, drops",
            &[("switch", "{ crossbar = { latency = '90 ns', contention = 'drop' } }"), OUT_OF_BAND],
        ),
        part(
            "crossbar, holds back",
            &[("switch", "{ crossbar = { latency = '90 ns', contention = 'back_pressure' } }")],
        ),
        part(
            "output_buffered",
            &[
                ("switch", "{ output_buffered = { latency = '90 ns', buffers = 4, writers = 2 } }"),
                OUT_OF_BAND,
            ],
        ),
        part("output_queued", &[("switch", "{ output_queued = { latency = '90 ns' } }")]),
        part(
            "output_queued, limited",
            &[("switch", "{ output_queued = { latency = '90 ns', buffers = 4 } }"), OUT_OF_BAND],
        ),
        part(
            "input_queued",
            &[(
                "switch",
                "{ input_queued = { latency = '90 ns', scheduler = 'islip', buffer = 8 } }",
            )],
        ),
        part(
            "input_queued, slots",
            &[("switch", "{ input_queued = { latency = '90 ns', scheduler = 'islip' } }")],
        ),
        part(
            "shared_memory",
            &[("switch", "{ shared_memory = { latency = '90 ns', buffer = 16 } }")],
        ),
        part(
            "shared_buffer",
            &[("switch", "{ shared_buffer = { latency = '90 ns', memory = '1 MB' } }")],
        ),
        part(
            "shared_buffer, pauses",
            &[(
                "switch",
                "{ shared_buffer = { latency = '90 ns', memory = '1 MB', classes = { '0' = { pfc = { threshold = \
             { static = { xoff = '1 kB', xon = '500 B' } } } } } } }",
            )],
        ),
        part(
            "fifo_bus",
            &[
                (
                    "switch",
                    "{ fifo_bus = { analysis = '1 us', set_up = '40 ns', rate = '2 Gbit/s', ports_per_interface = 2 } }",
                ),
                TURNS,
                TRANSFER,
                CELLS,
            ],
        ),
        part("ring", &[("switch", "{ ring = { acknowledgment = '8 B', bypass = '100 ns' } }")]),
        part(
            "ring, bridges",
            &[
                (
                    "switch",
                    "{ ring = { acknowledgment = '8 B', bypass = '100 ns', \
                     bridge = { buffer = 4, latency = '50 ns' } } }",
                ),
                ("fabric", "{ leaf_spine = { hosts_per_leaf = 4, leaves = 2, spines = 1 } }"),
            ],
        ),
        part(
            "hub",
            &[
                (
                    "switch",
                    "{ hub = { ports = 8, latency = '90 ns', transfer = { crossbar = { buffer = 16, arbiter = \
                 'request_sampling' } } } }",
                ),
                (
                    "window",
                    "{ mappings = 'all', page = '8 KiB', size = '1 MiB', write = '12 B', receive_buffers = 16 }",
                ),
            ],
        ),
        part(
            "hub, packets",
            &[(
                "switch",
                "{ hub = { ports = 16, latency = '90 ns', transfer = { bus = { buffer = 8 } } } }",
            )],
        ),
        part(
            "hub, packets, crossbar",
            &[(
                "switch",
                "{ hub = { ports = 16, latency = '90 ns', transfer = { crossbar = { buffer = 8, \
                 arbiter = 'request_sampling' } } } }",
            )],
        ),
    ],
};

/// The parts beside the switch.
const AXES: &[Axis] = &[
    Axis {
        title: "Flow control of links",
        kinds: Some(("FlowControlSettings", "flow_control")),
        parts: &[
            part("credits", &[("flow_control", "'credits'")]),
            part(
                "virtual_channel_credits",
                &[("flow_control", "{ virtual_channel_credits = { channels = 2 } }")],
            ),
            part(
                "stop_go",
                &[("flow_control", "{ stop_go = { stop = 4, go = 2, reaction = '70 ns' } }")],
            ),
            part(
                "source_quench",
                &[(
                    "flow_control",
                    "{ source_quench = { quench = 3, unquench = 1, indication = '25 B', link = { stop = 4, go = 2 } } }",
                )],
            ),
        ],
    },
    Axis {
        title: "Routes",
        kinds: Some(("RoutesSettings", "routes")),
        parts: &[
            part("per_connection, hashed", &[("routes", "{ per_connection = 'hashed' }")]),
            part("per_connection, random", &[("routes", "{ per_connection = 'random' }")]),
            part("per_connection, given", &[("routes", "{ per_connection = { given = [] } }")]),
            part("per_packet, random", &[("routes", "{ per_packet = 'random' }")]),
            part("per_packet, adaptive", &[("routes", "{ per_packet = 'adaptive' }")]),
            part("per_packet, valiant", &[("routes", "{ per_packet = 'valiant' }")]),
            part("per_packet, ugal", &[("routes", "{ per_packet = 'ugal' }")]),
            part("per_packet, ugal_global", &[("routes", "{ per_packet = 'ugal_global' }")]),
        ],
    },
    Axis {
        title: "Control of adapters",
        kinds: Some(("ControlSettings", "control")),
        parts: &[
            part("unacknowledged", &[("control", "'unacknowledged'")]),
            part(
                "request_acknowledge",
                &[(
                    "control",
                    "{ request_acknowledge = { timeout = '9 us', outstanding = 4, acknowledgment = '125 B' } }",
                )],
            ),
            part("out_of_band", &[OUT_OF_BAND]),
        ],
    },
    Axis {
        title: "Adapters",
        kinds: None,
        parts: &[
            part("adapter.feed", &[("adapter.feed", "{ per_target = { limit = 2 } }")]),
            part("adapter.release", &[("adapter.release", "'acknowledgment'")]),
            part("adapter.throttle", &[("adapter.throttle", "{ requests = 2, per = '5 us' }")]),
            part("adapter.acknowledgments", &[("adapter.acknowledgments", "'interleave'")]),
            part(
                "adapter.transport",
                &[("adapter.transport", "{ acknowledgment = '64 B', timeout = '1 ms' }")],
            ),
            part("receiver", &[("receiver", "{ buffers = 2, service = '500 ns' }")]),
            part("errors", &[("errors", "{ packet_error_rate = 0.02 }")]),
            part("recovery", &[("recovery", "{ attempts = 2, on_error = 'send_again' }")]),
            part("disabled", &[("disabled", "[{ host = 0 }]")]),
        ],
    },
    Axis {
        title: "Link discipline",
        kinds: None,
        parts: &[part("turns", &[TURNS, TRANSFER, CELLS])],
    },
    Axis {
        title: "Fabric",
        kinds: Some(("FabricSettings", "fabric")),
        parts: &[
            part("k_ary_tree", &[("fabric", "{ k_ary_tree = { arity = 2, levels = 3 } }")]),
            part("fat_tree", &[("fabric", "{ fat_tree = { radix = 4, tiers = 2 } }")]),
            part(
                "leaf_spine",
                &[("fabric", "{ leaf_spine = { hosts_per_leaf = 2, leaves = 4, spines = 2 } }")],
            ),
            part("folded_tree", &[("fabric", "'folded_tree'")]),
            part("torus", &[("fabric", "{ torus = { dimensions = [4, 2] } }")]),
            part("mesh", &[("fabric", "{ mesh = { dimensions = [4, 2] } }")]),
            part(
                "dragonfly",
                &[(
                    "fabric",
                    "{ dragonfly = { hosts_per_router = 1, routers_per_group = 2, groups = 4, global_links_per_router = 2 } }",
                )],
            ),
            part(
                "hyperx",
                &[("fabric", "{ hyperx = { dimensions = [2, 2], hosts_per_switch = 2 } }")],
            ),
            part(
                "table",
                &[(
                    "fabric",
                    "{ table = { switches = [{ name = 'a', ports = 5 }, { name = 'b', ports = 5 }], cables = [\
                 { from = 'host 0', to = 'a.0' }, { from = 'host 1', to = 'a.1' }, { from = 'host 2', to = 'a.2' }, \
                 { from = 'host 3', to = 'a.3' }, { from = 'host 4', to = 'b.0' }, { from = 'host 5', to = 'b.1' }, \
                 { from = 'host 6', to = 'b.2' }, { from = 'host 7', to = 'b.3' }, { from = 'a.4', to = 'b.4' }] } }",
                )],
            ),
            part("several planes", &[("planes", "2")]),
        ],
    },
];

/// A channel with a switch and some parts; keys of later parts replace those of the switch.
fn text(switch: &Part, parts: &[&Part]) -> String {
    let mut keys: BTreeMap<&str, &str> =
        [("packet", "'125 B'"), ("payload", "'12 B'"), ("adapter.send_buffers", "8")].into();
    keys.extend(
        std::iter::once(switch)
            .chain(parts.iter().copied())
            .flat_map(|own| own.keys.iter().copied()),
    );
    let has_flows = keys.contains_key("adapter.transport");
    if has_flows {
        keys.insert("adapter.send_buffers", "'unlimited'");
    }
    let channel: String = keys.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    let traffic = match has_flows {
        true => "[workload.c.source.flows]\nx = { load = 0.2, sizes.constant = '200 B' }",
        false => "[workload.c]\nload = 0.15",
    };
    format!(
        "[system]\ntitle = 'any'\nhosts = 8\n[channel.c]\n\
         link = {{ rate = '1 Gbit/s', length = '4 m', delay_per_metre = '5 ns' }}\n{channel}\
         {traffic}\n[run]\nlength = '200 us'\nregime = 'from_empty'\ntrace = {}\n",
        !has_flows
    )
}

/// What a composition comes to.
enum Outcome {
    Runs(Box<ChannelRun>),
    /// The key, and the whole of what is said.
    Refused(String),
}

fn outcome(text: &str) -> Outcome {
    let plan = match Plan::new(&Request::of_text("c.toml", text)) {
        Ok(plan) => plan,
        Err(error) => return Outcome::Refused(reason(error)),
    };
    match simulate(&plan.points[0].spec, 1, &Halt::new()) {
        Ok(mut runs) => Outcome::Runs(Box::new(runs.remove(0))),
        Err(error) => Outcome::Refused(reason(error)),
    }
}

/// Key and value, and what is accepted in its place and why.
fn reason(error: Error) -> String {
    let (key, value, accepted) = match error {
        Error::Spec(own) if own.accepted.is_empty() => return own.message.clone(),
        Error::Spec(own) => (own.key.clone(), own.value.clone(), own.accepted.join(", ")),
        Error::Assembly { key, value, accepted } => (key, value, accepted),
        other => return other.to_string(),
    };
    // A cycle is named switch by switch, which is as long as the fabric is large.
    let value = value.split(": those behind").next().unwrap_or(&value);
    let said = format!("`{key} = {value}`: accepted is {accepted}");
    said.replace("channel.c.", "").replace("workload.c.", "workload.")
}

/// Every kind that a choice of the schema has.
fn kinds(choice: &str) -> BTreeSet<String> {
    let schema = schema();
    let variants = schema.pointer(&format!("/$defs/{choice}/oneOf")).and_then(|own| own.as_array());
    let origins = ["stated", "derived", "calibrated", "predicts"];
    let mut names = BTreeSet::new();
    for variant in variants.expect(choice) {
        let properties = variant.get("properties").and_then(|own| own.as_object());
        let keys = properties.into_iter().flat_map(|own| own.keys().cloned());
        let texts = variant
            .get("const")
            .into_iter()
            .chain(variant.get("enum").and_then(|own| own.as_array()).into_iter().flatten());
        let texts = texts.filter_map(|own| own.as_str().map(str::to_owned));
        names.extend(keys.chain(texts).filter(|name| !origins.contains(&name.as_str())));
    }
    assert!(names.len() > 1, "{choice}: {names:?}");
    names
}

#[test]
fn every_kind_of_the_schema_stands_in_its_axis() {
    for axis in std::iter::once(&SWITCHES).chain(AXES) {
        let Some((choice, key)) = axis.kinds else { continue };
        for kind in kinds(choice) {
            let names = |own: &Part| {
                own.keys.iter().any(|(of, value)| {
                    *of == key
                        && (value.starts_with(&format!("{{ {kind} ="))
                            || *value == format!("'{kind}'"))
                })
            };
            let is_known =
                axis.parts.iter().any(names) || (choice == "FabricSettings" && kind == "star");
            assert!(is_known, "{kind} of {choice} is not combined with anything");
        }
    }
}

/// The laws of a run that was accepted. That every packet is accounted for the run itself has checked.
fn check(text: &str, run: &ChannelRun) -> Result<(), String> {
    if run.observations.generated == 0 || run.observations.delivered == 0 {
        return Err(format!("nothing came: {text}"));
    }
    // A cycle of buffers is refused before the run; who is disabled waits forever.
    let verdict = run.judgement.verdict;
    if verdict.is_stuck() && !text.contains("disabled") {
        return Err(format!("{verdict}: {:?}\n{text}", run.waiting));
    }
    let keeps_order = ![
        "per_packet",
        "drop'",
        "limited",
        "buffers = 4",
        "errors",
        "receiver",
        "turns",
        "transport",
        // A request that a bridge has refused comes again behind others.
        "bridge",
    ]
    .iter()
    .any(|own| text.contains(own));
    let is_one_way =
        text.contains("per_connection") || !text.contains("fabric") && !text.contains("planes");
    if !keeps_order || !is_one_way {
        return Ok(());
    }
    let mut last: BTreeMap<(Option<u32>, Option<u32>), (u64, u64)> = BTreeMap::new();
    let mut entries: Vec<_> = run.trace.iter().filter(|own| own.kind != "qack").collect();
    entries.sort_by_key(|own| (own.time, own.sequence));
    for entry in entries {
        let own = (entry.time.0, entry.until.0);
        if let Some(before) = last.insert((entry.initiator, entry.target), own)
            && before.1 > own.1
        {
            return Err(format!("{before:?} and {own:?} of {:?}: {text}", entry.initiator));
        }
    }
    Ok(())
}

/// The results for a switch: how many combinations run, and the refusals of each part and each pair of parts.
struct Found {
    runs: usize,
    refused: usize,
    /// By axis and part.
    alone: Vec<Vec<Option<String>>>,
    unreasoned: Vec<String>,
    /// Laws that do not hold.
    broken: Vec<String>,
}

/// Words by which a refusal gives its reason.
const REASONS: [&str; 6] = [":", "since ", "which ", "whose ", " where ", "because "];

/// The key of a refusal whose reason, a cycle of buffers, is its value.
const CYCLE: &str = "`deadlock =";

fn look(switch: &Part) -> Found {
    let mut found = Found {
        runs: 0,
        refused: 0,
        alone: Vec::new(),
        unreasoned: Vec::new(),
        broken: Vec::new(),
    };
    let own = text(switch, &[]);
    match outcome(&own) {
        Outcome::Runs(run) => found.broken.extend(check(&own, &run).err()),
        Outcome::Refused(said) => found.broken.push(format!("{}: {said}\n{own}", switch.name)),
    }
    let mut try_one = |parts: &[&Part]| {
        let text = text(switch, parts);
        match outcome(&text) {
            Outcome::Runs(run) => {
                found.broken.extend(check(&text, &run).err());
                found.runs += 1;
                None
            }
            Outcome::Refused(said) => {
                found.refused += 1;
                let reason = said;
                let accepted = reason.split("accepted is ").nth(1).unwrap_or_default();
                if !reason.starts_with(CYCLE) && !REASONS.iter().any(|word| accepted.contains(word))
                {
                    found.unreasoned.push(reason.clone());
                }
                Some(reason)
            }
        }
    };
    let alone =
        AXES.iter().map(|axis| axis.parts.iter().map(|part| try_one(&[part])).collect()).collect();
    for (place, axis) in AXES.iter().enumerate() {
        for other in &AXES[place + 1..] {
            for pair in
                axis.parts.iter().flat_map(|one| other.parts.iter().map(move |two| [one, two]))
            {
                try_one(&pair);
            }
        }
    }
    Found { alone, ..found }
}

#[test]
fn what_goes_together_holds_its_laws_and_what_does_not_says_why() {
    let found: Vec<Found> = thread::scope(|scope| {
        let all: Vec<_> = SWITCHES.parts.iter().map(|part| scope.spawn(|| look(part))).collect();
        all.into_iter().map(|own| own.join().expect("a switch")).collect()
    });
    let broken: Vec<&String> = found.iter().flat_map(|own| &own.broken).collect();
    let shown = broken.iter().take(12).fold(String::new(), |text, own| text + own + "\n\n");
    assert!(broken.is_empty(), "{} laws do not hold:\n{shown}", broken.len());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/combinations.md");
    let page = page(&found);
    if env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, &page).expect("the page can be written");
    }
    let unreasoned: BTreeSet<&String> = found.iter().flat_map(|own| &own.unreasoned).collect();
    assert!(unreasoned.is_empty(), "no reason is given in {unreasoned:#?}");
    let shown = fs::read_to_string(&path).expect("the page is there");
    let differs = shown.lines().zip(page.lines()).find(|(shown, found)| shown != found);
    assert!(
        shown == page,
        "docs/combinations.md differs: {differs:?}; UPDATE_EXPECT=1 writes it anew"
    );
}

const HEAD: &str = "\
# What goes with what

Every kind of switch against every flow control, route, control, adapter, link discipline and fabric: \"yes\" where a
channel of eight hosts is accepted, and a number where it is refused. The number refers to the reason in the list
[at the end](#why-not). The tables are written by a test, which also tries each pair of these parts on each switch, runs
what is accepted, and checks its invariants: every packet is accounted for, packets of a connection stay in order where
nothing lets them overtake, and nothing deadlocks, since a cycle of buffers is refused before the run.

Of the columns, a crossbar \"drops\" a packet whose output is busy, or \"holds back\" the adapter that sends it (back
pressure); a \"limited\" `output_queued` has output queues of limited length; `input_queued` either has a limited input
buffer or works in \"slots\"; and a `shared_buffer` that \"pauses\" has PFC.

";

fn page(found: &[Found]) -> String {
    let mut page = HEAD.to_owned();
    let (runs, refused) =
        found.iter().fold((0, 0), |sum, own| (sum.0 + own.runs, sum.1 + own.refused));
    let _ = writeln!(
        page,
        "Of {} combinations of a switch with one part or two, {runs} run and {refused} are refused. A switch brings what it \
         cannot do without: \"drops\", `output_buffered` and a limited `output_queued` a control that reports a loss, \
         `fifo_bus` links with turns, \
         `hub` a window, and bridges of rings leaves and a spine, which are rings; \
         a part of the same kind replaces it.\n",
        runs + refused
    );
    let mut reasons: Vec<&str> = Vec::new();
    for (place, axis) in AXES.iter().enumerate() {
        let names: Vec<&str> = SWITCHES.parts.iter().map(|own| own.name).collect();
        let _ = writeln!(
            page,
            "## {}\n\n\"yes\": accepted. A number: refused, for [this reason](#why-not).\n\n| | {} |\n|---{}|",
            axis.title,
            names.join(" | "),
            "|---".repeat(names.len())
        );
        for (number, part) in axis.parts.iter().enumerate() {
            let mut cells = Vec::new();
            for own in found {
                cells.push(match &own.alone[place][number] {
                    None => "yes".to_owned(),
                    Some(reason) => {
                        let known = reasons.iter().position(|other| *other == reason.as_str());
                        let at = known.unwrap_or_else(|| {
                            reasons.push(reason);
                            reasons.len() - 1
                        });
                        (at + 1).to_string()
                    }
                });
            }
            let _ = writeln!(page, "| {} | {} |", part.name, cells.join(" | "));
        }
        page.push('\n');
    }
    page.push_str("## Why not\n\n");
    for (number, reason) in (1..).zip(&reasons) {
        let _ = writeln!(page, "{number}. {reason}");
    }
    page
}
