//! Programs whose remote reads are done by the adapters.

use std::cell::RefCell;
use std::rc::Rc;

use weft_kernel::{Halt, Streams};
use weft_lab::assemble::{Driver, Site};
use weft_lab::program::{Crew, Machine, Policy};
use weft_lab::{Plan, Request};
use weft_units::{Bytes, Time};

use super::pages::mapped;

/// What rank 0 reads in the memory of rank 1, which does nothing, and when it has it; or what the
/// program did wrong. If it `stores` 42 there before, the read follows on the same path.
fn read(
    name: &str,
    overrides: &[&str],
    stores: bool,
    size: Bytes,
) -> Result<Vec<(u64, u64)>, String> {
    let preset = name.starts_with("memory").then_some("virtual_hub");
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let plan = Plan::new(&Request::new(name, preset, &overrides));
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    let spec = &plan.points[0].spec;
    let streams = Streams::new(1);
    let (from, until) = (Time::ZERO, Time(1_000_000_000));
    let (channel, parts) = spec.channel.iter().next_back().expect("a channel");
    let hosts = spec.system.hosts;
    let site = Site { name: channel, hosts, streams: &streams, from, until, sample: None };
    let driver = Driver::new(parts, None, site).unwrap_or_else(|error| panic!("{error}"));
    let channels = vec![(channel.to_string(), driver)];
    let mut crew = Crew::new(Machine::new(hosts as u16, channels, Policy::first(), true));
    let seen = Rc::new(RefCell::new(Vec::new()));
    for me in crew.nodes() {
        let seen = Rc::clone(&seen);
        crew.start(me.clone(), async move {
            if me.rank() != 0 {
                return;
            }
            if stores {
                drop(me.store(1, 0, 42, Bytes(4)));
            }
            let read = me.read(1, 0, size).await;
            assert_eq!((read.size, read.from), (size, 1));
            seen.borrow_mut().push((read.value, me.now().0));
        });
    }
    let end = crew.run(&Halt::new());
    end.map_err(|error| error.to_string())?;
    Ok(seen.take())
}

/// As `a_sweep_and_a_read_by_hand`: no program, no message buffer and no poll at the target.
#[test]
fn a_program_reads_by_the_adapters_in_hand_worked_time() {
    let there = 330_000 + 121_212 + 750_000 + 120_000 + 50_000;
    let back = 750_000 + 330_000 + 50_000 + 333_333 + 580_000;
    let found = read("memory-channel-2", &[], false, Bytes(32));
    assert_eq!(found, Ok(vec![(0, there + 333_333 + back)]));
}

/// The read is behind the store on the path, and brings what was stored; the same program, where
/// adapters cannot read (generation 1, Clint, and more than a packet), by messages.
#[test]
fn the_same_program_reads_its_own_store_on_every_system() {
    let by_adapters = read("memory-channel-2", &[], true, Bytes(32)).expect("it ends");
    let messages = ["channel.memory.window.remote_read=false"];
    let by_messages = read("memory-channel-2", &messages, true, Bytes(32)).expect("it ends");
    assert_eq!((by_adapters[0].0, by_messages[0].0), (42, 42));
    assert!(by_adapters[0].1 < by_messages[0].1, "{by_adapters:?} {by_messages:?}");
    let large = [&[][..], &messages];
    let large = large.map(|how| read("memory-channel-2", how, true, Bytes(300)));
    assert_eq!(large[0], large[1], "what is more than a packet is not read by the adapters");
    for (name, size) in [("memory-channel-1", 32), ("clint", 32)] {
        let found = read(name, &[], true, Bytes(size)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found[0].0, 42, "{name}");
    }
}

#[test]
fn a_program_that_reads_a_page_without_the_attribute_is_told() {
    let page = |entry: &str| {
        // What is stored goes through the second page, which packets are written to.
        let out = "reach = { point = 1 }";
        let pages = mapped(&[(0, 0, out), (0, 1, out)], &[(1, 0, entry), (1, 1, ""), (0, 0, "")]);
        let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
        read("memory-channel-2", &pages, true, Bytes(8))
    };
    let text = "rank 0 reads rank 1: page 0 of node 1 has no attribute remote_read: it can be \
                written and not read";
    assert_eq!(page(""), Err(text.to_owned()));
    assert_eq!(page("remote_read = true").map(|seen| seen[0].0), Ok(42));
}
