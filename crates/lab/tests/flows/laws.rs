//! The laws that congestion control obeys: fixed points, queues, fairness.

use weft_fabric::measure::Drop;
use weft_lab::ChannelRun;

use super::Channel;

/// The mean of what waits at the port of a switch to host 0 in the second half of a run, in bytes, and the
/// most.
fn queue(run: &ChannelRun) -> (f64, u64) {
    let samples = &run.network.as_ref().expect("a report").samples;
    let half = samples.last().expect("samples").time.0 / 2;
    // Ports of the star have the numbers of the hosts.
    let bytes: Vec<u64> = samples
        .iter()
        .filter(|own| own.link == 0 && own.time.0 > half)
        .map(|own| own.bytes)
        .collect();
    (
        bytes.iter().sum::<u64>() as f64 / bytes.len() as f64,
        bytes.iter().copied().max().unwrap_or(0),
    )
}

/// One flow from each of `senders` hosts to host 0, too long for the run.
fn long_flows(senders: u32) -> String {
    let one = |host| format!("{{ from = {host}, to = 0, size = '10 GB' }}");
    format!("x.list = [{}]", (1..=senders).map(one).collect::<Vec<_>>().join(", "))
}

/// How evenly hosts got through (Jain), and the share of the link that was used by payload, over all but
/// the beginning.
fn fairness_and_use(run: &ChannelRun) -> (f64, f64) {
    let hosts = f64::from(run.hosts);
    let flows = run.flows.as_ref().expect("flows");
    // The index counts all hosts; those that receive only have nothing.
    let jain = run.observations.fairness.jain().expect("deliveries") * hosts / (hosts - 1.0);
    (jain, flows.accepted as f64 * 8.0 / run.measured().as_secs())
}

/// The probability of a mark at which the fluid model of DCQCN stands still with `flows` flows (Zhu, Ghobadi,
/// Misra and Padhye, "ECN or Delay: Lessons Learnt from Analysis of DCQCN and TIMELY", CoNEXT 2016,
/// section 3.1), by bisection: `a^2 alpha = tau^2 R_AI R (b + d) (c + e)`, in packets and seconds. What
/// notifications take away is on the left; what bytes (b, c) and time (d, e) bring back, in all
/// rounds and in those after fast recovery, is on the right.
fn fixed_point(flows: f64, packets_per_second: f64) -> f64 {
    let rate = packets_per_second / flows;
    let (tau, alpha_interval, timer, bytes, rounds, increase) =
        (50e-6, 55e-6, 55e-6, 10_000.0, 5.0, 40e6 / 8_000.0);
    let surplus = |p: f64| {
        let unmarked = |packets: f64| (1.0 - p).powf(packets);
        let marked = 1.0 - unmarked(tau * rate);
        let alpha = 1.0 - unmarked(alpha_interval * rate);
        let of = |every: f64| p / (unmarked(-every) - 1.0);
        let (by_bytes, by_time) = (of(bytes), of(timer * rate));
        let after = unmarked(rounds * bytes) * by_bytes + unmarked(rounds * timer * rate) * by_time;
        marked * marked * alpha - tau * tau * increase * rate * (by_bytes + by_time) * after
    };
    let (mut low, mut high) = (1e-7, 0.05);
    for _ in 0..100 {
        let middle = f64::sqrt(low * high);
        match surplus(middle) < 0.0 {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

/// All flows have the same rate, and the queue is where RED marks with the probability of the fixed point. The
/// model knows neither whole packets nor the swing of the queue about its place, over which RED is not
/// linear, since no queue is below nothing; 35 % are allowed for that. Simulated queues of 25, 54 and 73
/// kB stand against 20, 42 and 94.
#[test]
fn dcqcn_settles_where_its_fluid_model_does() {
    for senders in [2, 4, 8] {
        let own = Channel {
            hosts: senders + 1,
            rate: "40 Gbit/s",
            switch: "memory = '20 MB', classes.0 = { limit.bytes = '10 MB', ecn = { at = 'enqueue', \
                     law.red = { kmin = '5 kB', kmax = '200 kB', pmax = 0.01 } } }",
            transport: "congestion_control.dcqcn = {}",
            workload: &long_flows(senders),
            run: "length = '200 ms'\nsample = '10 us'\nregime.skip = '50 ms'",
            ..Channel::default()
        };
        let run = own.run();
        let (jain, bits) = fairness_and_use(&run);
        assert!(jain > 0.99, "{senders}: {jain}");
        assert!(bits > 0.98 * 38e9, "{senders}: {bits}");
        let expected = 5_000.0 + fixed_point(f64::from(senders), 40e9 / 8_000.0) / 0.01 * 195_000.0;
        let (mean, _) = queue(&run);
        assert!((mean / expected - 1.0).abs() < 0.35, "{senders}: {mean} for {expected}");
    }
}

/// One packet more in a round trip, and half of alpha less: the queue swings about the mark (Alizadeh et
/// al., SIGCOMM 2010, section 3.3). It exceeds K by no more than what all flows send before they hear of
/// the mark, one packet more each, and the packet in which they stand when it is sampled. Two flows in
/// step need not share evenly: both are then marked twice in a window, however large it is.
#[test]
fn dctcp_keeps_its_queue_at_its_mark() {
    for (senders, mark) in [(4, 40_000.0), (4, 65_000.0), (10, 65_000.0)] {
        let switch = format!(
            "memory = '20 MB', classes.0 = {{ limit.bytes = '10 MB', ecn = {{ at = 'enqueue', \
             law.step.threshold = '{mark} B' }} }}"
        );
        let own = Channel {
            hosts: senders + 1,
            rate: "10 Gbit/s",
            switch: &switch,
            transport: "congestion_control.dctcp = {}",
            workload: &long_flows(senders),
            run: "length = '100 ms'\nsample = '10 us'\nregime.skip = '20 ms'",
            ..Channel::default()
        };
        let run = own.run();
        let (jain, bits) = fairness_and_use(&run);
        assert!(jain > 0.95, "{senders}: {jain}");
        assert!(bits > 0.999 * 9.5e9, "{senders}: {bits}");
        let (mean, most) = queue(&run);
        assert!((mean / mark - 1.0).abs() < 0.05, "{senders}: {mean} for {mark}");
        let bound = mark + 1_000.0 * (2.0 * f64::from(senders) + 1.0);
        assert!(most as f64 <= bound, "{senders}: {most} for {mark}");
    }
}

/// The queue is what the delay leaves of the target: 25 us less 80 and 5.12 ns for the packet and its
/// acknowledgment and 2 x 320 ns along the way are 24.3 us, at 12.5 bytes a nanosecond 303 kB.
#[test]
fn swift_keeps_the_delay_at_its_target() {
    for senders in [2, 8] {
        let own = Channel {
            hosts: senders + 1,
            transport: "congestion_control.swift = { base_target = '25 us' }",
            workload: &long_flows(senders),
            run: "length = '50 ms'\nsample = '5 us'\nregime.skip = '10 ms'",
            ..Channel::default()
        };
        let run = own.run();
        let (jain, bits) = fairness_and_use(&run);
        assert!(jain > 0.95, "{senders}: {jain}");
        assert!(bits > 0.999 * 95e9, "{senders}: {bits}");
        let (mean, _) = queue(&run);
        assert!((mean / 303_000.0 - 1.0).abs() < 0.03, "{senders}: {mean}");
    }
}

/// Links are used to the share that is aimed at, which leaves their queues empty: W_AI of 80 bytes for each
/// flow in a round trip of 1.3 us is all that is added to 95 %.
#[test]
fn hpcc_uses_links_as_far_as_it_aims_and_leaves_them_no_queue() {
    for senders in [2, 8] {
        let own = Channel {
            hosts: senders + 1,
            transport: "congestion_control.hpcc = { base_round_trip = '1.3 us' }",
            workload: &long_flows(senders),
            run: "length = '20 ms'\nsample = '1 us'\nregime.skip = '10 ms'",
            ..Channel::default()
        };
        let run = own.run();
        let (jain, bits) = fairness_and_use(&run);
        let (mean, _) = queue(&run);
        assert!(jain > 0.99, "{senders}: {jain}");
        assert!((bits / 95e9 - 0.955).abs() < 0.01, "{senders}: {bits}");
        assert!(mean < 250.0 * f64::from(senders), "{senders}: {mean}");
    }
}

/// Windows shrink only when they are marked beyond the target, three quarters of 12.7 us or 119 kB of queue;
/// unmarked ones grow everywhere. Where everything is marked from there on the queue stands at the target. Where
/// marks become certain at 200 kB only, it stands where they balance the growth, a little above.
#[test]
fn nscc_keeps_its_queue_at_its_target() {
    let target = 0.75 * 12_700.0 * 12.5;
    for (senders, kmax, bounds) in [
        (2, "120 kB", (0.98, 1.02)),
        (8, "120 kB", (0.98, 1.02)),
        (2, "200 kB", (1.05, 1.25)),
        (8, "200 kB", (1.05, 1.25)),
    ] {
        let switch = format!(
            "memory = '20 MB', classes.0 = {{ limit.bytes = '250 kB', trim = {{ header = '64 B', class = 1 }}, \
             ecn = {{ at = 'enqueue', law.red = {{ kmin = '70 kB', kmax = '{kmax}', pmax = 1.0 }} }} }}, \
             classes.1.schedule = 'strict'"
        );
        let own = Channel {
            hosts: senders + 1,
            switch: &switch,
            transport: "reliability = 'selective_repeat'\nreordering = 1000\nacknowledgment_class = 1\n\
                        congestion_control.nscc = { base_round_trip = '12.7 us' }",
            workload: &long_flows(senders),
            run: "length = '20 ms'\nsample = '2 us'\nregime.skip = '5 ms'",
            ..Channel::default()
        };
        let run = super::run(&own.text().replace("length = '2 m'", "length = '600 m'"), 1);
        let (jain, bits) = fairness_and_use(&run);
        assert!(jain > 0.99, "{senders} {kmax}: {jain}");
        assert!(bits > 0.999 * 95e9, "{senders} {kmax}: {bits}");
        let share = queue(&run).0 / target;
        assert!((bounds.0..bounds.1).contains(&share), "{senders} {kmax}: {share}");
    }
}

/// Credits by targets behind cables of 600 m, with switches that cut packets.
fn by_credits(senders: u32, credits: &str) -> ChannelRun {
    let transport = format!(
        "reliability = 'selective_repeat'\nreordering = 1000\nacknowledgment_class = 1\n\
         congestion_control.rccc = {{ {credits} }}"
    );
    let own = Channel {
        hosts: senders + 1,
        switch: "memory = '20 MB', classes.0 = { limit.bytes = '250 kB', trim = { header = '64 B', class = 1 } }, \
                 classes.1.schedule = 'strict'",
        transport: &transport,
        workload: &long_flows(senders),
        run: "length = '20 ms'\nsample = '2 us'\nregime.skip = '5 ms'",
        ..Channel::default()
    };
    super::run(&own.text().replace("length = '2 m'", "length = '600 m'"), 1)
}

/// All flows get the same, together the share of the link that the target grants; what the first windows left in
/// the queue is gone, and the packets of a grant are all that waits.
#[test]
fn rccc_shares_what_a_target_grants_equally() {
    for (senders, pace) in [(2, 0.99), (8, 0.99), (8, 0.5)] {
        let run = by_credits(senders, &format!("base_round_trip = '12.7 us', pace = {pace}"));
        let (jain, bits) = fairness_and_use(&run);
        assert!(jain > 0.9999, "{senders} {pace}: {jain}");
        assert!((bits / (pace * 95e9) - 1.0).abs() < 2e-3, "{senders} {pace}: {bits}");
        let (mean, _) = queue(&run);
        assert!(mean < 4_000.0, "{senders} {pace}: {mean}");
    }
}

/// Throughput is credits over round trip, which is 12 690.24 ns: 80 for a packet, 5.12 for its acknowledgment and as
/// much for the grant behind it, 300 in the switch each way, and four cables. Any credit is enough for a packet,
/// and credits are rounded up to 256 B: a window of 300 B less than so many packets is worth that many.
#[test]
fn a_flow_gets_its_credits_once_in_a_round_trip() {
    for packets in [20.0, 40.0, 80.0] {
        let base = (packets * 1_000.0 - 300.0) / 12.5 / 1.5;
        let run = by_credits(1, &format!("base_round_trip = '{base:.3} ns'"));
        let (_, bits) = fairness_and_use(&run);
        let expected = packets * 950.0 * 8.0 / 12_690.24e-9;
        assert!((bits / expected - 1.0).abs() < 0.005, "{packets}: {bits} for {expected}");
    }
}

/// Packets, acknowledgments, grants and requests are lost where both ways are full: every flow comes to an end.
#[test]
fn flows_by_credits_end_whatever_is_lost() {
    let both_ways = |host| {
        format!(
            "{{ from = {host}, to = 0, size = '80 kB' }}, {{ from = 0, to = {host}, size = '80 kB' }}"
        )
    };
    let flows: Vec<String> = (1..=12).map(both_ways).collect();
    let full = "memory = '1 MB', classes.0.limit.bytes = '3 kB'";
    let cut = "memory = '1 MB', classes.0 = { limit.bytes = '3 kB', trim = { header = '64 B', class = 1 } }, \
               classes.1.limit.bytes = '128 B'";
    let cases =
        [("go_back_n", 0, full), ("selective_repeat", 0, full), ("selective_repeat", 1, cut)];
    for (reliability, class, switch) in cases {
        let transport = format!(
            "reliability = '{reliability}'\nacknowledgment_class = {class}\n\
             congestion_control.rccc = {{ base_round_trip = '2 us' }}"
        );
        let own = Channel {
            hosts: 13,
            switch,
            transport: &transport,
            workload: &format!("x.list = [{}]", flows.join(", ")),
            run: "length = '100 ms'\nregime = 'from_empty'",
            ..Channel::default()
        };
        let run = super::run(&own.text().replace("timeout = '1 ms'", "timeout = '50 us'"), 1);
        let lost = run.observations.dropped(Drop::Overflow);
        assert!(lost > 100, "{reliability} {class}: {lost}");
        assert_eq!(run.flows.expect("flows").unfinished, 0, "{reliability} {class}");
    }
}

/// An index stands where notifications raise it as often as the timer lowers it: each flow hears one in so many
/// expiries of the timer as a notification raises the index, however many flows there are. All of them have the same
/// rate, since one that is faster hears of more marks. That does not keep the link busy: a packet is marked until the
/// queue is short again, so that few flows, whose shares lie at low indices, are delayed more than they need.
#[test]
fn infiniband_stands_where_notifications_balance_the_timer() {
    let mut least = 0.0;
    for (senders, increase) in [(16, 2), (4, 1), (8, 1), (16, 1)] {
        let transport =
            format!("congestion_control.infiniband = {{ index_increase = {increase} }}");
        let own = Channel {
            hosts: senders + 1,
            switch: "memory = '20 MB', classes.0 = { limit.bytes = '10 MB', ecn = { at = 'enqueue', \
                     law.step.threshold = '50 kB' } }",
            transport: &transport,
            workload: &long_flows(senders),
            run: "length = '60 ms'\nsample = '5 us'\nregime.skip = '10 ms'",
            ..Channel::default()
        };
        let run = own.run();
        let (jain, bits) = fairness_and_use(&run);
        assert!(jain > 0.99, "{senders} {increase}: {jain}");
        let counts = &run.flows.as_ref().expect("flows").counts;
        let told =
            counts.iter().find(|own| own.0 == "congestion_notifications").expect("counted").1;
        let expected = f64::from(senders) * 50e-3 / 10.24e-6 / f64::from(increase);
        assert!(
            (told / expected - 1.0).abs() < 0.03,
            "{senders} {increase}: {told} for {expected}"
        );
        if increase == 1 {
            assert!(bits > least && bits < 95e9, "{senders}: {bits}");
            least = bits;
        }
    }
    assert!(least > 0.8 * 95e9, "sixteen flows nearly fill the link: {least}");
}
