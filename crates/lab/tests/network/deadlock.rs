//! Cycles of buffers: found before a run, and what a run does that has them or has none.

use weft_kernel::{Halt, Stream, Streams};
use weft_lab::statistics::Verdict;
use weft_lab::{ChannelRun, Plan, Request, simulate};

use super::{file, refusal, voq};

/// A table of switches that have a host each, and cables between them.
struct Table {
    switches: usize,
    cables: Vec<(usize, usize)>,
}

impl Table {
    /// A random tree of cables, and some more.
    fn random(random: &mut Stream) -> Table {
        let switches = 3 + random.below(5) as usize;
        let mut cables: Vec<(usize, usize)> =
            (1..switches).map(|own| (own, random.below(own as u64) as usize)).collect();
        for _ in 0..random.below(4) {
            let one = random.below(switches as u64) as usize;
            let other = random.below(switches as u64) as usize;
            let is_new = !cables.contains(&(one, other)) && !cables.contains(&(other, one));
            if one != other && is_new {
                cables.push((one, other));
            }
        }
        Table { switches, cables }
    }

    fn ring(switches: usize) -> Table {
        Table { switches, cables: (0..switches).map(|own| (own, (own + 1) % switches)).collect() }
    }

    fn neighbours(&self, own: usize) -> Vec<usize> {
        let far = |&(one, other): &(usize, usize)| match own {
            own if own == one => Some(other),
            own if own == other => Some(one),
            _ => None,
        };
        self.cables.iter().filter_map(far).collect()
    }

    /// A random way that visits no switch twice.
    fn way(&self, from: usize, to: usize, random: &mut Stream) -> Vec<usize> {
        let mut way = vec![from];
        while way.last() != Some(&to) {
            let last = *way.last().expect("a switch");
            let fresh: Vec<usize> =
                self.neighbours(last).into_iter().filter(|next| !way.contains(next)).collect();
            match fresh.len() {
                0 => way.truncate(1),
                count => way.push(fresh[random.below(count as u64) as usize]),
            }
        }
        way
    }

    fn text(&self) -> String {
        let mut used = vec![1; self.switches];
        let mut take = |own: usize| {
            used[own] += 1;
            format!("s{own}.{}", used[own] - 1)
        };
        let mut cables: Vec<String> = (0..self.switches)
            .map(|host| format!("{{ from = 'host {host}', to = 's{host}.0' }}"))
            .collect();
        for &(one, other) in &self.cables {
            cables.push(format!("{{ from = '{}', to = '{}' }}", take(one), take(other)));
        }
        let listed = used.iter().enumerate();
        let listed: Vec<String> =
            listed.map(|(own, ports)| format!("{{ name = 's{own}', ports = {ports} }}")).collect();
        format!(
            "fabric.table = {{ switches = [{}], cables = [{}] }}",
            listed.join(", "),
            cables.join(", ")
        )
    }
}

fn route(way: &[usize]) -> String {
    let switches: Vec<String> = way.iter().map(|own| format!("'s{own}'")).collect();
    let (from, to) = (way[0], way[way.len() - 1]);
    format!("{{ from = {from}, to = {to}, switches = [{}] }}", switches.join(", "))
}

/// A channel over routes that are all listed, each of which is given so many packets at once.
fn burst(table: &Table, ways: &[Vec<usize>], packets: u32, buffer: u32) -> String {
    let given: Vec<String> = ways.iter().map(|way| route(way)).collect();
    let one = |way: &Vec<usize>| {
        format!("{{ time = '1 ns', from = {}, to = {} }}", way[0], way[way.len() - 1])
    };
    let listed: Vec<String> = (0..packets).flat_map(|_| ways.iter().map(one)).collect();
    let channel = format!("{}\nroutes.per_connection.given = [{}]", table.text(), given.join(", "));
    let switch = format!("buffer = {buffer}");
    let list = format!("source.list = [{}]", listed.join(", "));
    voq(table.switches as u32, &switch, &channel, &list, "2 ms")
}

/// The one run of a file, or why it is refused.
fn tried(text: &str) -> Result<ChannelRun, String> {
    let plan = Plan::new(&Request::of_text("network.toml", text));
    let plan = plan.map_err(|error| error.to_string())?;
    let runs = simulate(&plan.points[0].spec, 1, &Halt::new()).expect(text);
    Ok(runs.into_iter().next().expect("the channel"))
}

fn allowed(text: &str) -> ChannelRun {
    let text = text.replace("adapter.send_buffers", "deadlock = 'allowed'\nadapter.send_buffers");
    tried(&text).expect(&text)
}

/// Random graphs and random routes between all hosts, each of which sends to all others at once.
/// Where no cycle is found every packet arrives; where one is, some runs do not end.
#[test]
fn what_has_no_cycle_never_stands_still() {
    let (mut free, mut stuck) = (0, 0);
    for seed in 0..120 {
        let mut random = Streams::new(seed).stream("graph", 0);
        let table = Table::random(&mut random);
        let hosts = || 0..table.switches;
        let pairs = hosts().flat_map(|from| hosts().map(move |to| (from, to)));
        let mut ways = Vec::new();
        for (from, to) in pairs.filter(|(from, to)| from != to) {
            ways.push(table.way(from, to, &mut random));
        }
        let text = burst(&table, &ways, 12, 1);
        match tried(&text) {
            Ok(run) => {
                assert_eq!(run.backlog + run.in_flight, 0, "{text}: {:?}", run.waiting);
                // A tree has no cycle to begin with.
                free += u32::from(table.cables.len() >= table.switches);
            }
            Err(error) => {
                assert!(error.contains("channel.c.deadlock"), "{error}");
                let run = allowed(&text);
                stuck += u32::from(run.backlog + run.in_flight > 0);
            }
        }
    }
    assert!(free >= 10 && stuck >= 10, "{free} free of cycles, {stuck} stuck");
}

/// Every host of a ring sends two switches or more further, the same way round: the cycle is there,
/// and the run stands in it.
#[test]
fn a_cycle_that_is_found_in_a_ring_is_no_false_alarm() {
    for switches in 3..=8 {
        for distance in 2..switches {
            // Host and neighbour take turns at a switch: over two cables packets come in and leave
            // equally fast, so that only the smallest buffer fills.
            for buffer in if distance == 2 { 1..=1 } else { 1..=3 } {
                let table = Table::ring(switches);
                let hops = |from| (0..=distance).map(move |hop| (from + hop) % switches).collect();
                let ways: Vec<Vec<usize>> = (0..switches).map(hops).collect();
                let text = burst(&table, &ways, 40, buffer);
                let error = tried(&text).map(drop).expect_err("a cycle");
                for own in 0..switches {
                    assert!(error.contains(&format!("of switch s{own}")), "{error}");
                }
                let run = allowed(&text);
                assert!(run.waiting[0].contains("a cycle of switches"), "{:?}", run.waiting);
                assert!(run.in_flight >= switches as u64, "{}", run.in_flight);
            }
        }
    }
}

#[test]
fn a_cycle_is_named_with_what_would_open_it() {
    let ring = "fabric.torus.dimensions = [5]";
    let text = refusal(&voq(5, "buffer = 8", ring, "load = 0.1", "1 ms"));
    for part in [
        "channel.c.deadlock = refused",
        "port 2 of switch 1, port 2 of switch 0, port 2 of switch 4, port 2 of switch 3, port 2 of",
        "accepted: a multiple of 2 virtual channels",
        "routes.per_connection.given",
        "output_queued",
        "deadlock = \"allowed\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // A table has no channels that would help.
    let text = refusal(&voq(4, "buffer = 8", &Table::ring(4).text(), "load = 0.1", "1 ms"));
    assert!(text.contains("accepted: other routes"), "{text}");
    let text = refusal(&file(5, &format!("{ring}\ndeadlock = 'allowed'"), "load = 0.1", "1 ms"));
    assert!(text.contains("channel.c.deadlock = allowed"), "{text}");
    let needed = "input_queued with a `buffer`, shared_memory, a hub without `window`, a ring";
    assert!(text.contains(needed), "{text}");
    // Under stop and go, too, and whatever the queues of a shared memory are.
    let stop = format!("{ring}\nflow_control.stop_go = {{ stop = 6, go = 2 }}");
    let text = refusal(&voq(5, "buffer = 8", &stop, "load = 0.1", "1 ms"));
    assert!(text.contains("channel.c.deadlock = refused"), "{text}");
}

/// The canonical dragonfly (Kim, Dally, Scott and Abts, ISCA 2008, Figure 5) as a table: 9 groups of
/// 4 switches with 2 hosts each and 2 cables to other groups. Shortest paths close cycles; traffic
/// to the next group fills them.
#[test]
fn a_dragonfly_of_cables_without_channels_is_refused_or_stands_still() {
    let (groups, routers, hosts) = (9, 4, 2);
    let name = |group: u32, router: u32| format!("g{group}r{router}");
    let (mut switches, mut cables) = (Vec::new(), Vec::new());
    for (group, router) in (0..groups).flat_map(|group| (0..routers).map(move |own| (group, own))) {
        let own = name(group, router);
        switches.push(format!("{{ name = '{own}', ports = 7 }}"));
        for port in 0..hosts {
            let host = (group * routers + router) * hosts + port;
            cables.push(format!("{{ from = 'host {host}', to = '{own}.{port}' }}"));
        }
        for other in router + 1..routers {
            let (near, far) = (hosts + other - 1, hosts + router);
            cables
                .push(format!("{{ from = '{own}.{near}', to = '{}.{far}' }}", name(group, other)));
        }
    }
    for (one, other) in (0..groups).flat_map(|one| (one + 1..groups).map(move |own| (one, own))) {
        let place = |link: u32, group: u32| {
            format!("{}.{}", name(group, link / 2), hosts + routers - 1 + link % 2)
        };
        let (near, far) = (place(other - one - 1, one), place(groups - 1 - (other - one), other));
        cables.push(format!("{{ from = '{near}', to = '{far}' }}"));
    }
    let table = format!(
        "fabric.table = {{ switches = [{}], cables = [{}] }}",
        switches.join(", "),
        cables.join(", ")
    );
    let text = voq(72, "buffer = 2", &table, "load = 0.9\npattern.shift = 8", "20 ms");
    let error = tried(&text).map(drop).expect_err("a cycle");
    assert!(error.contains("channel.c.deadlock = refused"), "{error}");
    let run = allowed(&text);
    let verdict = run.judgement.verdict;
    assert!(matches!(verdict, Verdict::PartlyStuck | Verdict::Stuck), "{verdict}");
    let is_named = run.waiting.iter().any(|line| line.contains("a cycle of switches"));
    assert!(is_named, "{:?}", run.waiting);
}
