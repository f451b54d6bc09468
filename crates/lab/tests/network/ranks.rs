//! Runs on several ranks are those in one process. Here ranks are threads that share nothing but channels of
//! bytes; `tests/mpi/ranks.py` has them run as processes under MPI.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use weft_kernel::{Halt, Stopped};
use weft_lab::{
    ChannelRun, Exchange, Options, Outcome, Plan, Request, Threads, dismiss, encode, follow,
    run_on_ranks, simulate, simulate_on,
};

use super::{MANY_PORTS, file, voq};

/// A channel of bytes from each rank to each.
#[derive(Debug)]
pub struct Pipes {
    rank: u32,
    to: Mutex<Vec<Sender<Vec<u8>>>>,
    from: Mutex<Vec<Receiver<Vec<u8>>>>,
}

impl Pipes {
    /// Runs a function at each of this many ranks; returns the result of each.
    pub fn run<T: Send>(ranks: u32, work: impl Fn(Arc<dyn Exchange>) -> T + Sync) -> Vec<T> {
        let mut ends: Vec<(Vec<_>, Vec<_>)> = (0..ranks).map(|_| Default::default()).collect();
        for from in 0..ranks as usize {
            for to in 0..ranks as usize {
                let (sender, receiver) = channel();
                ends[from].0.push(sender);
                ends[to].1.push(receiver);
            }
        }
        let pipes = (0..).zip(ends).map(|(rank, (to, from))| {
            let (to, from) = (Mutex::new(to), Mutex::new(from));
            Arc::new(Pipes { rank, to, from })
        });
        std::thread::scope(|scope| {
            let work = &work;
            let start = |pipe: Arc<Pipes>| scope.spawn(move || work(pipe));
            let members: Vec<_> = pipes.map(start).collect();
            members.into_iter().map(|member| member.join().expect("a rank")).collect()
        })
    }
}

impl Exchange for Pipes {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn ranks(&self) -> u32 {
        self.to.lock().expect("senders").len() as u32
    }

    fn exchange(&self, given: &mut [Vec<u8>], take: &mut dyn FnMut(u32, &[u8])) {
        for (to, bytes) in self.to.lock().expect("senders").iter().zip(given) {
            to.send(std::mem::take(bytes)).expect("a rank that is there");
        }
        for (rank, from) in (0..).zip(self.from.lock().expect("receivers").iter()) {
            take(rank, &from.recv().expect("a rank that is there"));
        }
    }
}

/// What runs show. Of input-queued switches the number of events is left out.
fn text(mut runs: Vec<ChannelRun>, are_clocked: bool) -> Vec<u8> {
    if are_clocked {
        runs.iter_mut().for_each(|run| run.steps = 0);
    }
    encode(&runs).expect("bytes")
}

/// The results of the first point of a request on this many ranks, even if they are slower, and why it used
/// one, if it did.
fn shown(request: &Request, ranks: u32) -> (Vec<u8>, Vec<String>) {
    let plan = Plan::new(request).expect("a plan");
    let (spec, seed) = (&plan.points[0].spec, plan.points[0].spec.run.seed);
    let are_clocked = format!("{:?}", spec.channel).contains("InputQueued");
    let mut all = Pipes::run(ranks, |exchange| {
        if exchange.rank() > 0 {
            follow(&exchange).expect("orders that can be carried out");
            return None;
        }
        let threads = Threads::on_ranks(Arc::clone(&exchange)).even_if_slower();
        let runs = simulate_on(&threads, spec, seed, &Halt::new()).expect("a run");
        dismiss(&exchange);
        Some((text(runs, are_clocked), threads.alone()))
    });
    all.swap_remove(0).expect("what rank 0 shows")
}

fn one(request: &Request) -> Vec<u8> {
    let plan = Plan::new(request).expect("a plan");
    let spec = &plan.points[0].spec;
    let are_clocked = format!("{:?}", spec.channel).contains("InputQueued");
    text(simulate(spec, spec.run.seed, &Halt::new()).expect("a run"), are_clocked)
}

/// Hosts that answer what comes from switches of other parts.
const PING_PONG: &str = "source.ping_pong.pairs = [{ from = 0, to = 8 }, { from = 4, to = 3 }]";

#[test]
fn fabrics_show_the_same_on_any_number_of_ranks() {
    let (tree, torus) = ("k_ary_tree = { arity = 3, levels = 2 }", "torus.dimensions = [3, 3]");
    let (random, adaptive) = ("routes.per_packet = 'random'", "routes.per_packet = 'adaptive'");
    let stop = "flow_control.stop_go = { stop = 9, go = 3 }";
    let groups = "dragonfly.hosts_per_router = 2";
    let ugal = "routes.per_packet = 'ugal'\nflow_control.virtual_channel_credits.channels = 3";
    let output = |hosts, fabric: &str, load: &str| {
        file(hosts, &format!("fabric.{fabric}"), load, "1 ms")
            .replace("send_buffers = 'unlimited'", "send_buffers = 2")
    };
    let input = |hosts, switch, fabric: &str, load: &str| {
        voq(hosts, switch, &format!("fabric.{fabric}"), load, "1 ms")
            .replace("send_buffers = 'unlimited'", "send_buffers = 2")
    };
    for text in [
        output(9, &format!("{tree}\n{random}"), "source = 'greedy'"),
        output(9, &format!("{tree}\n{adaptive}"), "source.paced.rate = '900 Mbit/s'"),
        output(9, &format!("{torus}\nswitch.output_queued.buffers = 2"), "source = 'greedy'"),
        output(72, &format!("{groups}\nroutes.per_packet = 'valiant'"), "source = 'greedy'"),
        output(9, &format!("{tree}\n{random}"), PING_PONG),
        input(9, "buffer = 1", tree, "source = 'greedy'"),
        input(9, "buffer = 40, cell = '25 B'", &format!("{tree}\n{stop}"), "source = 'greedy'"),
        input(72, "buffer = 16", &format!("{groups}\n{ugal}"), "source = 'greedy'"),
    ] {
        for looks in ["", "trace = true\n"] {
            let text = format!("{text}{looks}");
            let request = Request::of_text("network.toml", &text);
            let whole = one(&request);
            for ranks in [2, 3, 4] {
                let (runs, alone) = shown(&request, ranks);
                assert_eq!(alone, Vec::<String>::new(), "{text}");
                assert!(runs == whole, "{text} on {ranks} ranks");
            }
        }
    }
}

/// Switches of 140 ports, whose sets of ports have several words.
#[test]
fn switches_of_many_ports_show_the_same_on_any_number_of_ranks() {
    let request = Request::of_text(
        "network.toml",
        &voq(128, "buffer = 4", MANY_PORTS, "load = 0.7", "30 us"),
    );
    let whole = one(&request);
    for ranks in [2, 3] {
        let (runs, alone) = shown(&request, ranks);
        assert_eq!(alone, Vec::<String>::new());
        assert!(runs == whole, "on {ranks} ranks");
    }
}

/// Channels that ranks do not divide say why, and rank 0 simulates them alone.
#[test]
fn what_has_one_rank_says_why() {
    let tree = "fabric.k_ary_tree = { arity = 3, levels = 2 }\nroutes.per_packet = 'random'";
    let load = "load = 0.5";
    let weighed = "fabric.dragonfly.hosts_per_router = 2\nroutes.per_packet = 'ugal_global'";
    let adapters = "control.request_acknowledge = { timeout = '90 us', outstanding = 4, \
                    acknowledgment = '10 B' }";
    let classes = file(9, tree, load, "300 us").replace(
        "switch.output_queued.latency = '90 ns'",
        "switch.shared_buffer = { latency = '90 ns', memory = '1 MB', forwarding = 'cut_through' }",
    );
    for (text, why) in [
        (file(9, "", load, "300 us"), "cannot be divided into parts"),
        (classes, "packets have traffic classes"),
        (file(72, weighed, load, "300 us"), "weigh the queues of other switches"),
        (file(9, &format!("{tree}\n{adapters}"), load, "300 us"), "hosts without adapters"),
        (format!("{}step_limit = 9\n", file(9, tree, load, "300 us")), "counted event by event"),
    ] {
        let request = Request::of_text("network.toml", &text);
        let (runs, alone) = shown(&request, 2);
        assert!(runs == one(&request), "{text}");
        let is_said = |said: &String| {
            said.starts_with("channel c was simulated on rank 0 alone: ") && said.contains(why)
        };
        assert!(alone.len() == 1 && alone.iter().all(is_said), "{text}: {alone:?}");
    }
}

/// Six switches make at most six parts.
#[test]
fn ranks_without_a_part_are_told_of() {
    let tree = "fabric.k_ary_tree = { arity = 3, levels = 2 }\nroutes.per_packet = 'random'";
    let request = Request::of_text("network.toml", &file(9, tree, "load = 0.5", "300 us"));
    let (runs, told) = shown(&request, 8);
    assert!(runs == one(&request));
    let expected = "channel c was divided among 6 of 8 ranks, and 2 had nothing to do: its network has no more \
                    parts with cables between them that take as long";
    assert_eq!(told, [expected]);
}

/// A whole study: two points with two seeds, of which each run is divided, and one error of a file.
#[test]
fn a_study_on_ranks_has_the_same_tables() {
    let tree = "fabric.k_ary_tree = { arity = 3, levels = 2 }\nroutes.per_packet = 'random'";
    // So long that a few thousand events happen while a packet is on a cable.
    let far =
        file(9, tree, "load = [0.2, 0.5]", "3 ms").replace("length = '4 m'", "length = '400 km'");
    let text = format!("{far}seeds = 2\n").replace("load = [0.2, 0.5]", "load = 0.2")
        + "[sweep]\n'workload.c.load' = [0.2, 0.5]\n";
    let request = Request::of_text("network.toml", &text);
    let options = Options::default();
    let whole = weft_lab::run(&request, &options, &mut |_, _| true).expect("a study");
    let outcomes: Vec<Option<Outcome>> = Pipes::run(3, |exchange| {
        if exchange.rank() > 0 {
            follow(&exchange).expect("orders that can be carried out");
            return None;
        }
        let outcome = run_on_ranks(&exchange, &request, &options, &mut |_, _| true);
        dismiss(&exchange);
        Some(outcome.expect("a study"))
    });
    let divided = outcomes[0].as_ref().expect("what rank 0 shows");
    assert_eq!(divided.meta["notes"], whole.meta["notes"], "each run was divided");
    assert_eq!(format!("{:?}", divided.tables), format!("{:?}", whole.tables));
}

#[test]
fn a_run_on_ranks_stops_when_rank_0_is_asked_to() {
    let tree = "fabric.k_ary_tree = { arity = 3, levels = 2 }";
    let text = file(9, tree, "load = 0.5", "10 s");
    let plan = Plan::new(&Request::of_text("network.toml", &text)).expect("a plan");
    let halt = Halt::new();
    let all = Pipes::run(2, |exchange| {
        if exchange.rank() > 0 {
            follow(&exchange).expect("orders that can be carried out");
            return None;
        }
        let threads = Threads::on_ranks(Arc::clone(&exchange)).even_if_slower();
        let runs = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(50));
                halt.ask();
            });
            simulate_on(&threads, &plan.points[0].spec, 1, &halt).expect("a run")
        });
        dismiss(&exchange);
        runs[0].stopped
    });
    assert_eq!(all, [Some(Stopped::Asked), None]);
}
