//! Several ranks on one host: copies in its memory, one adapter, as many processors as it has.

use std::rc::Rc;

use weft_fabric::host::MemorySettings;
use weft_lab::drive::carrier::Destination;
use weft_lab::program::{Crew, ProgramError, RankReport};
use weft_lab::{ChannelRun, Request};
use weft_units::{Bytes, PositiveCount, Rate, Span, Time};

use super::files::{file, measured, spec_of};
use super::{Log, PACKET, STAR, TREE, WAY, crew, run};

/// A byte a nanosecond, and 300 ns until it is seen.
const MEMORY: &str = "[system.memory]\nlatency = '300 ns'\nrate = '1 GB/s'\n";
const SEEN: u64 = 300_000;
const BYTE: u64 = 1_000;

fn text(hosts: u16, channel: &str, program: &str) -> String {
    file(hosts, &format!("{MEMORY}{channel}"), program)
}

fn shared(hosts: u16, channel: &str, program: &str) -> Vec<ChannelRun> {
    spec_of(&text(hosts, channel, program)).unwrap_or_else(|error| panic!("{program}: {error}"))
}

fn report(run: &ChannelRun) -> &RankReport {
    run.ranks.as_ref().expect("a program")
}

/// Ranks on the hosts of a list, around a crossbar.
fn placed(hosts: &[u16], processors: u32) -> Crew<weft_lab::assemble::Driver> {
    let rate = Rate::from_bits_per_second(8_000_000_000);
    let memory = MemorySettings { latency: Span(SEEN), rate };
    let count = hosts.len() as u16;
    let machine = crew(count, STAR).into_machine().placed(hosts.to_vec());
    Crew::new(machine.on_hosts(Some(memory), PositiveCount::new(processors)))
}

#[test]
fn a_message_to_and_fro_in_one_host_is_two_copies() {
    let program = "placement.hosts = [1, 1]\nrun.ping_pong = { size = '64 B', rounds = 3 }";
    let runs = shared(2, STAR, program);
    let one_way = 0.064 + 0.3;
    let near = |name: &str, expected: f64| {
        let found = measured(&runs, name);
        assert!((found - expected).abs() < 1e-9, "{name}: {found} instead of {expected}");
    };
    near("program_one_way_mean_us", one_way);
    near("program_time_us", 6.0 * one_way);
    near("program_messages", 6.0);
    near("program_memory_messages", 6.0);
    assert_eq!(runs[0].observations.generated, 0, "nothing is on the channel");
    let spent = report(&runs[0]).account.ranks();
    assert_eq!([spent[0].sending, spent[1].sending], [Span(3 * 64 * BYTE); 2]);
    assert_eq!(spent[0].waiting_for, [(Some(1), Span(3 * (64 * BYTE + 2 * SEEN)))]);
}

/// Copies of one rank follow each other, and those of two do not.
#[test]
fn what_two_ranks_copy_at_once_is_copied_at_once() {
    let arrived: Log<(u16, u16, u64)> = Log::default();
    let end = run(&mut placed(&[0, 0, 0], 0), |me| {
        let arrived = Rc::clone(&arrived);
        async move {
            if me.rank() < 2 {
                let sent = [me.send(2, 0, Bytes(100)), me.send(2, 1, Bytes(50))];
                for message in sent {
                    message.await;
                }
            } else {
                for _ in 0..4 {
                    let one = me.receive(None, None).await;
                    arrived.borrow_mut().push((one.from, one.tag as u16, me.now().0));
                }
            }
        }
    });
    let (first, second) = (100 * BYTE + SEEN, 150 * BYTE + SEEN);
    assert_eq!(*arrived.borrow(), [(0, 0, first), (1, 0, first), (0, 1, second), (1, 1, second)]);
    assert_eq!(end, Ok(Time(second)));
}

/// Both ranks of a host have one adapter: their messages leave one after the other, and a copy in
/// memory waits for neither.
#[test]
fn two_ranks_of_a_host_share_its_link() {
    let arrived: Log<(u16, u64)> = Log::default();
    let end = run(&mut placed(&[0, 0, 1, 1], 0), |me| {
        let arrived = Rc::clone(&arrived);
        async move {
            if me.rank() < 2 {
                let across = me.send(me.rank() + 2, 0, Bytes(100));
                let beside = me.send(1 - me.rank(), 0, Bytes(100));
                me.receive(1 - me.rank(), 0).await;
                arrived.borrow_mut().push((me.rank(), me.now().0));
                across.await;
                beside.await;
            } else {
                me.receive(me.rank() - 2, 0).await;
                arrived.borrow_mut().push((me.rank(), me.now().0));
            }
        }
    });
    let beside = 100 * BYTE + SEEN;
    assert_eq!(*arrived.borrow(), [(1, beside), (0, beside), (2, WAY), (3, PACKET + WAY)]);
    assert_eq!(end, Ok(Time(PACKET + WAY)));
}

/// A call takes the one processor of the host path for 3 us, whichever rank makes it.
#[test]
fn two_ranks_of_a_host_share_its_path() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("calls.goal");
    let goal = "num_ranks 4\nrank 0 {\na: send 100b to 2\n}\nrank 1 {\nb: send 100b to 3\n}\n\
                rank 2 {\nc: recv 100b from 0\n}\nrank 3 {\nd: recv 100b from 1\n}\n";
    std::fs::write(&path, goal).expect("the folder of the tests can be written");
    let host = "[channel.c.host]\nsend = ['call']\nreceive = []\n\
                [channel.c.host.resource.cpu]\n[channel.c.host.stage.call]\n\
                unit = 'message'\nfixed = '3 us'\nuses = { cpu = 0 }\n";
    let ends = |hosts: &str| {
        let program = format!("placement.hosts = {hosts}\ntrace.goal.file = '{}'", path.display());
        let runs = shared(4, &format!("{STAR}{host}"), &program);
        report(&runs[0]).ends[2..].iter().map(|end| end.0).collect::<Vec<u64>>()
    };
    let call = 3 * PACKET;
    assert_eq!(ends("[0, 1, 2, 3]"), [call + WAY, call + WAY]);
    assert_eq!(ends("[0, 0, 1, 1]"), [call + WAY, 2 * call + WAY]);
}

#[test]
fn every_message_goes_one_way_and_arrives() {
    for placement in ["'block'", "'cyclic'", "'random'", "{ hosts = [2, 0, 2, 1, 3, 2, 0, 2] }"] {
        for channel in [STAR, TREE] {
            let program = format!(
                "ranks = 8\nplacement = {placement}\nrun.all_to_all = {{ size = '250 B', rounds = 6 }}"
            );
            let on_each = if placement.starts_with('{') { "" } else { "ranks_per_host = 2\n" };
            let program = format!("{on_each}{program}\n[run]\ntrace = true");
            let runs = shared(4, channel, &program);
            let report = report(&runs[0]);
            let pairs = |here: bool| {
                let hosts = &report.hosts;
                let all = (0..8).flat_map(|one| (0..8).map(move |other| (one, other)));
                let own = all.filter(|(one, other)| {
                    one != other && (hosts[*one as usize] == hosts[*other as usize]) == here
                });
                own.count() as f64
            };
            assert_eq!(measured(&runs, "program_messages"), 6.0 * 56.0, "{placement}");
            let copied = measured(&runs, "program_memory_messages");
            assert_eq!(copied, 6.0 * pairs(true), "{placement}");
            // 250 B are three packets.
            let delivered = runs[0].observations.delivered as f64;
            assert_eq!(delivered, 3.0 * 6.0 * pairs(false), "{placement}");
            assert_eq!(runs[0].backlog + runs[0].in_flight, 0);
            let passages = report.account.passages();
            assert_eq!(passages.len(), 6 * 56, "{placement}");
            let sent = |rank| passages.iter().filter(|own| own.from == rank).count();
            let got = |rank| passages.iter().filter(|own| own.to == rank).count();
            assert!((0..8).all(|rank| sent(rank) == 42 && got(rank) == 42), "{placement}");
            let per_host = measured(&runs, "program_mb_per_s_per_host");
            assert!((per_host * 4.0 / measured(&runs, "program_mb_per_s") - 1.0).abs() < 1e-12);
        }
    }
}

/// Recursive doubling among eight ranks on four hosts: 24 messages, and the sum of all at each. In
/// blocks the first of three rounds is in memory. In the second both ranks of a host send at once,
/// and the later one of them is a packet behind from there on.
#[test]
fn a_sum_over_eight_ranks_on_four_hosts() {
    let sum = |hosts: &[u16]| {
        let mut crew = placed(hosts, 0);
        let sums: Log<u64> = Log::default();
        let end = run(&mut crew, |me| {
            let sums = Rc::clone(&sums);
            async move {
                let mut sum = u64::from(me.rank()) + 1;
                for round in 0..3 {
                    let other = me.rank() ^ (1 << round);
                    let sent = me.send_value(other, round, Bytes(100), sum);
                    sum += me.receive(other, round).await.value;
                    sent.await;
                }
                sums.borrow_mut().push(sum);
            }
        });
        assert_eq!(*sums.borrow(), [36; 8], "{hosts:?}");
        let machine = crew.into_machine();
        let (messages, copied) = (machine.messages(), machine.copied());
        let passages = machine.account().passages().len();
        (end.expect("an end").0, messages, copied, passages)
    };
    let copy = 100 * BYTE + SEEN;
    let last = copy + 3 * PACKET + WAY;
    assert_eq!(sum(&[0, 0, 1, 1, 2, 2, 3, 3]), (last, 24, Some(8), 24));
    // In turn, the last round is the one in memory.
    let last = 3 * PACKET + WAY + copy;
    assert_eq!(sum(&[0, 1, 2, 3, 0, 1, 2, 3]), (last, 24, Some(8), 24));
}

#[test]
fn generated_collectives_have_their_closed_forms_on_any_placement() {
    for (operation, messages) in [
        ("allreduce_ring", 2 * 8 * 7),
        ("allreduce_recursive_doubling", 8 * 3),
        ("allgather_bruck", 8 * 3),
        ("barrier", 8 * 3),
        ("broadcast", 7),
    ] {
        for (placement, neighbours) in [("block", 4), ("cyclic", 0)] {
            let program = format!(
                "ranks_per_host = 2\nplacement = '{placement}'\n\
                 trace.collective = {{ operation = '{operation}', size = '64 KB' }}"
            );
            let runs = shared(4, STAR, &program);
            assert_eq!(measured(&runs, "program_messages"), f64::from(messages), "{operation}");
            if operation == "allreduce_ring" {
                // Every second step of a ring of blocks stays in its host.
                let expected = f64::from(2 * 7 * neighbours);
                assert_eq!(measured(&runs, "program_memory_messages"), expected, "{placement}");
            }
            if operation == "allreduce_recursive_doubling" {
                // One of three rounds: the first in blocks, the last in turn.
                assert_eq!(measured(&runs, "program_memory_messages"), 8.0, "{placement}");
            }
        }
    }
}

/// Whatever is said of hosts that ranks could share: with one rank on each nothing is another.
#[test]
fn one_rank_a_host_is_what_it_was() {
    let tables = |text: &str| {
        let text = format!("{text}[run]\ntrace = true\n");
        let request = Request::of_text("program.toml", &text);
        let outcome = weft_lab::run(&request, &weft_lab::Options::default(), &mut |_, _| true);
        let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
        ["points", "ranks", "waits", "intervals", "messages"]
            .map(|name| format!("{:?}", outcome.table(name)))
    };
    let run = "run.all_to_all = { size = '250 B', rounds = 3 }";
    let before = tables(&file(8, STAR, run));
    for placement in ["block", "cyclic", "linear"] {
        let said = format!("ranks_per_host = 1\nplacement = '{placement}'\n{run}");
        assert!(tables(&text(8, STAR, &said)) == before, "{placement}");
    }
}

#[test]
fn computations_of_a_host_take_turns_at_its_processors() {
    let mut crew = placed(&[0, 0, 0, 1], 2);
    let ends: Log<(u16, u64)> = Log::default();
    let end = run(&mut crew, |me| {
        let ends = Rc::clone(&ends);
        async move {
            me.compute(Span(10_000 + u64::from(me.rank()))).await;
            ends.borrow_mut().push((me.rank(), me.now().0));
        }
    });
    assert_eq!(*ends.borrow(), [(0, 10_000), (1, 10_001), (3, 10_003), (2, 20_002)]);
    assert_eq!(end, Ok(Time(20_002)));
    let machine = crew.into_machine();
    let spent = machine.account().ranks();
    assert_eq!((spent[2].queued, spent[2].computing), (Span(10_000), Span(10_002)));
    assert_eq!(spent[1].queued, Span::ZERO);
    let rows = machine.report(vec![Time(20_002); 4]).rank_rows();
    assert_eq!(rows[2].last().map(|cell| cell.0), Some("queued_us"));
}

/// The two `cpu`s of rank 0 and the one of rank 1 on a host with one processor. What waits for the
/// beginning of a computation waits for its processor too.
#[test]
fn a_trace_waits_for_processors_of_its_host() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("processors.goal");
    let goal = "num_ranks 2\nrank 0 {\na: calc 10\nb: calc 20 cpu 1\nc: calc 5 cpu 2\n\
                c irequires b\n}\nrank 1 {\nd: calc 7\n}\n";
    std::fs::write(&path, goal).expect("the folder of the tests can be written");
    let ends = |processors: &str| {
        let program = format!("placement.hosts = [0, 0]\ntrace.goal.file = '{}'", path.display());
        let text = file(2, &format!("{processors}\n{MEMORY}{STAR}"), &program);
        let runs = spec_of(&text).expect("a run");
        let report = report(&runs[0]);
        let own: Vec<(u64, u64, u64)> = (report.ends.iter().zip(report.account.ranks()))
            .map(|(end, own)| (end.0 / 1000, own.computing.0 / 1000, own.queued.0 / 1000))
            .collect();
        own
    };
    assert_eq!(ends(""), [(20, 20, 0), (7, 7, 0)]);
    // a to 10, b to 30, d to 37, c, which could come once b had begun, to 42.
    let own = ends("processors = 1");
    assert_eq!(own, [(42, 35, 7), (37, 7, 30)]);
}

#[test]
fn a_store_to_several_is_a_copy_in_memory_and_one_message_for_each_other_host() {
    let mut crew = placed(&[0, 1, 0, 1, 0], 0);
    let seen: Log<(u16, u64)> = Log::default();
    let end = run(&mut crew, |me| {
        let seen = Rc::clone(&seen);
        async move {
            if me.rank() == 0 {
                let sent = me.store_to(Destination::Hosts(0b11111), 8, 1, Bytes(100));
                assert_eq!(me.load(8), 1, "the own copy is there at once");
                sent.await;
                assert_eq!(me.now().0, PACKET, "the later of both ways");
            }
            me.until(8, 1).await;
            seen.borrow_mut().push((me.rank(), me.now().0));
        }
    });
    let copy = 100 * BYTE + SEEN;
    assert_eq!(*seen.borrow(), [(2, copy), (4, copy), (0, PACKET), (1, WAY), (3, WAY)]);
    assert_eq!(end, Ok(Time(WAY)));
    let machine = crew.into_machine();
    assert_eq!((machine.messages(), machine.copied()), (4, Some(2)));
    assert_eq!(machine.account().passages().len(), 4);
}

#[test]
fn reads_and_conditional_writes_in_one_host_are_copies() {
    let end = run(&mut placed(&[1, 1], 0), |me| async move {
        if me.rank() == 0 {
            let written = me.conditional_write(1, 5, 42, Bytes(8)).await;
            assert_eq!((written.value, written.from, me.now().0), (1, 1, 8 * BYTE + SEEN));
            let read = me.read(1, 5, Bytes(100)).await;
            assert_eq!((read.value, read.size, read.from), (42, Bytes(100), 1));
        } else {
            me.until(5, 42).await;
            assert_eq!(me.now().0, 8 * BYTE + SEEN);
        }
    });
    assert_eq!(end, Ok(Time(108 * BYTE + 2 * SEEN)));
}

#[test]
fn a_message_in_a_host_without_a_memory_is_a_failed_run() {
    let machine = crew(2, STAR).into_machine().placed(vec![0, 0]);
    let end = run(&mut Crew::new(machine), |me| async move {
        me.send(1 - me.rank(), 0, Bytes(1)).await;
    });
    assert_eq!(end, Err(ProgramError::NoMemory { host: 0 }));
}

#[test]
fn every_program_of_the_library_runs_with_several_ranks_a_host() {
    let programs = [
        "run.ping_pong = { size = '64 B', pair = [1, 6] }",
        "run.ping_ping = { size = '250 B' }",
        "run.stream = { size = '250 B', window = 8 }",
        "run.all_to_all = { size = '250 B' }",
        "run.barrier = { rounds = 20 }",
        "run.barrier = { rounds = 20, by = 'channel' }",
        "run.broadcast = { size = '250 B' }",
        "run.lock = { rounds = 5, hold = '1 us', server = 2 }",
        "run.hot_spot = { size = '250 B', target = 1 }",
        "run.request_reply = { size = '16 B', reply = '500 B', service = '100 ns' }",
    ];
    for program in programs {
        for placement in ["block", "cyclic", "random"] {
            let program = format!("ranks_per_host = 3\nplacement = '{placement}'\n{program}");
            let [star, tree] = [STAR, TREE].map(|channel| {
                let runs = shared(4, channel, &program);
                assert!(runs[0].backlog + runs[0].in_flight <= 1, "{program}");
                measured(&runs, "program_messages")
            });
            assert_eq!(star, tree, "{program}: the messages are those of the program");
        }
    }
}

/// A program of 64 ranks on the 16 hosts of Clint, as a user with a recorded trace has it.
#[test]
fn tables_name_hosts_beside_ranks() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("sixty-four.goal");
    let schedule = weft_lab::trace::collectives::Collective::AllreduceRecursiveDoubling;
    let goal = weft_lab::trace::goal::write(&schedule.schedule(64, Bytes(1024), 1));
    std::fs::write(&path, goal).expect("the folder of the tests can be written");
    let text = format!(
        "base = 'clint'\npreset = 'fitted'\n{MEMORY}\n[program]\nchannel = 'bulk'\n\
         ranks_per_host = 4\ntrace.goal.file = '{}'\n[run]\ntrace = true\n",
        path.display()
    );
    let request = Request::of_text("program.toml", &text);
    let outcome = weft_lab::run(&request, &weft_lab::Options::default(), &mut |_, _| true);
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let (ranks, messages) = (outcome.table("ranks"), outcome.table("messages"));
    assert_eq!((ranks.rows(), messages.rows()), (64, 64 * 6));
    assert!((0..64).all(|row| ranks.number(row, "host") == Some((row / 4) as f64)));
    for row in 0..messages.rows() {
        for end in ["initiator", "target"] {
            let rank = messages.number(row, end).expect("a rank");
            let host = messages.number(row, &format!("{end}_host"));
            assert_eq!(host, Some((rank / 4.0).floor()), "row {row}");
        }
    }
    let (waits, intervals) = (outcome.table("waits"), outcome.table("intervals"));
    assert!(waits.number(0, "waited_for_host").is_some());
    assert!(intervals.number(0, "host").is_some() && intervals.number(0, "other_host").is_some());
}
