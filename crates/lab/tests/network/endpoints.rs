//! VI endpoints in exact picoseconds worked by hand, and what becomes of messages that cannot be
//! received, under each level of reliability.
//!
//! A message takes 1 us on a link, a cable 20 ns and a switch 90 ns; its first byte leaves 300 ns
//! after its doorbell, and its completion is there 400 ns after its last byte came. The bus of a host
//! takes 700 ns for a message.

use weft_fabric::measure::{Drop, Latency};
use weft_lab::ChannelRun;
use weft_units::Span;

use super::{file, refusal, run};

const LEVELS: [&str; 3] = ["unreliable_delivery", "reliable_delivery", "reliable_reception"];

/// Two hosts on one switch, with one stream of 100 bytes between them.
fn text(level: &str, endpoints: &str, channel: &str, stream: &str) -> String {
    let channel = format!(
        "endpoints = {{ send = '300 ns', receive = '400 ns', per_message = '700 ns', \
         receive_buffer = 64, receive_stop = 32, receive_go = 16, reliability = '{level}', \
         answer = '25 B', {endpoints} }}\n{channel}"
    );
    let stream = format!(
        "source.streams.one = {{ size = '100 B', flows.listed = [{{ from = 0, to = 1 }}], {stream} }}"
    );
    file(4, &channel, &stream, "1 ms")
        .replace(
            "output_queued.latency = '90 ns'",
            "shared_memory = { latency = '90 ns', buffer = 64 }",
        )
        .replace("send_buffers = 'unlimited'", "send_buffers = 1")
}

fn one(level: &str, endpoints: &str, channel: &str, stream: &str) -> ChannelRun {
    run(&text(level, endpoints, channel, stream), 1)
}

/// The mean time between arrivals, in nanoseconds.
fn interval(run: &ChannelRun) -> f64 {
    let stream = &run.network.as_ref().expect("a report").streams[0];
    stream.interval_mean_us.expect("two messages or more") * 1e3
}

/// Completed, failed and dropped messages of the stream, how many arrived, and its fault.
fn fates(run: &ChannelRun) -> (u64, u64, u64, u64, String) {
    let stream = &run.network.as_ref().expect("a report").streams[0];
    let delivered = run.observations.delivered;
    (stream.completed, stream.failed, stream.dropped, delivered, stream.fault.clone())
}

/// With one descriptor the next doorbell rings when the last message is complete. When it has left,
/// that is when its only cell starts: the next cell starts after 1 us on the cable, which is longer
/// than 300 ns, and than the bus. When the target has it, 300 + 1000 + 130 + 400 ns after its
/// doorbell, the answer of 200 ns takes 200 + 2 * 20 + 90 more.
#[test]
fn the_next_message_waits_for_what_the_level_calls_complete() {
    for (level, ns) in [(LEVELS[0], 1_000.0), (LEVELS[1], 1_000.0), (LEVELS[2], 2_160.0)] {
        let run = one(level, "", "", "");
        assert!((interval(&run) - ns).abs() < 1e-6, "{level}: {}", interval(&run));
        let seen = run.observations.recorder(Latency::OneWay);
        assert_eq!(seen.min(), Some(Span(1_830_000)), "{level}");
        let (completed, failed, dropped, delivered, fault) = fates(&run);
        assert_eq!((failed, dropped, fault.as_str()), (0, 0, ""), "{level}");
        // A message that is complete and has not arrived is in flight: with an answer there is
        // none.
        let on_its_way = completed.abs_diff(delivered);
        assert!(on_its_way <= if level == LEVELS[2] { 1 } else { 3 }, "{level}: {on_its_way}");
    }
}

/// A program that deals 5 us with each message gets one every 5 us of those that come each 1 us. With
/// two descriptors the others are dropped, or break the connection at the fourth message: one is
/// dealt with, and two wait.
#[test]
fn without_a_receive_descriptor_the_level_says_what_happens() {
    let slow = "program = '5 us', receive_descriptors = 2";
    let run = one(LEVELS[0], slow, "", "");
    let (completed, failed, dropped, delivered, fault) = fates(&run);
    assert_eq!((failed, fault.as_str()), (0, "dropped: no receive descriptor was posted"));
    assert!((195..=200).contains(&delivered), "{delivered}");
    assert!(completed > 900 && dropped > 700, "{completed} {dropped}");
    assert_eq!(run.observations.dropped(Drop::NoReceiveBuffer), dropped);
    let network = run.network.as_ref().expect("a report");
    assert_eq!((network.broken, network.dropped), (0, dropped));

    for level in [LEVELS[1], LEVELS[2]] {
        let run = one(level, slow, "", "");
        let (completed, failed, dropped, delivered, fault) = fates(&run);
        assert_eq!(fault, "broken: no receive descriptor was posted", "{level}");
        // Both descriptors are in use when the third message comes.
        assert_eq!((delivered, dropped, failed), (2, 1, 1), "{level}");
        assert!(completed >= 2, "{level}: {completed}");
        assert_eq!(run.network.as_ref().expect("a report").broken, 1, "{level}");
    }
}

/// Receive descriptors that are posted again in time: each message is dealt with once.
#[test]
fn a_program_that_keeps_up_needs_few_descriptors() {
    for level in LEVELS {
        let run = one(level, "program = '500 ns', receive_descriptors = 4", "", "");
        let (_, failed, dropped, delivered, _) = fates(&run);
        assert_eq!((failed, dropped), (0, 0), "{level}");
        assert!(delivered > 400, "{level}: {delivered}");
    }
}

#[test]
fn memory_of_another_tag_is_refused_with_the_reason() {
    let write = "operation = 'rdma_write', tag = 3";
    for level in LEVELS {
        let (_, failed, dropped, delivered, fault) = fates(&one(level, "", "", write));
        assert_eq!((failed, dropped, fault.as_str()), (0, 0, ""), "{level}");
        assert!(delivered > 400, "{level}: {delivered}");
        let run = one(level, "", "", &format!("{write}, memory_tag = 4"));
        let (_, _, dropped, delivered, fault) = fates(&run);
        let reason = "memory with protection tag 4 was named by an endpoint with tag 3";
        assert_eq!(delivered, 0, "{level}");
        assert_eq!(run.observations.dropped(Drop::Protected), dropped, "{level}");
        let (word, least) = if level == LEVELS[0] { ("dropped", 900) } else { ("broken", 1) };
        assert!(dropped >= least, "{level}: {dropped}");
        assert_eq!(fault, format!("{word}: {reason}"), "{level}");
    }
}

/// An RDMA write needs neither a descriptor of the target nor its bus, which here is the bottleneck:
/// four hosts' worth of messages to one.
#[test]
fn a_write_without_immediate_data_asks_nothing_of_the_target() {
    let none = "receive_descriptors = 1, program = '1 s'";
    let delivered =
        |operation: &str| fates(&one(LEVELS[0], none, "", &format!("operation = '{operation}'"))).3;
    assert!(delivered("rdma_write") > 900);
    assert_eq!((delivered("rdma_write_immediate"), delivered("send")), (1, 1));
}

/// Of 1000 messages the third is damaged: it is lost alone, or everything from it on.
#[test]
fn damage_is_found_by_the_check_code_of_the_message() {
    let third = "errors.packets = [{ host = 0, packet = 2 }]";
    let (_, failed, dropped, delivered, fault) = fates(&one(LEVELS[0], "", third, ""));
    assert_eq!((failed, dropped), (0, 1));
    assert_eq!(fault, "dropped: the check code of a message was wrong");
    assert!(delivered > 900, "{delivered}");
    for level in [LEVELS[1], LEVELS[2]] {
        let (_, _, dropped, delivered, fault) = fates(&one(level, "", third, ""));
        assert_eq!((dropped, delivered), (1, 2), "{level}");
        assert_eq!(fault, "broken: the check code of a message was wrong", "{level}");
    }
}

#[test]
fn a_full_completion_queue_breaks_the_connection() {
    for level in LEVELS {
        let run = one(level, "program = '1 s', completions = 2, receive_descriptors = 9", "", "");
        let (_, _, dropped, delivered, fault) = fates(&run);
        // One is dealt with, two wait in the queue, and the fourth finds no entry.
        assert_eq!((delivered, dropped), (1, 1), "{level}");
        assert_eq!(fault, "broken: the completion queue was full", "{level}");
        let network = run.network.as_ref().expect("a report");
        assert_eq!(network.most_completions, 2, "{level}");
    }
}

/// Bursts of four at a quarter of the link, with descriptors for all: four at once, sixteen apart.
#[test]
fn bursts_keep_the_load() {
    let run = |burst: &str| {
        let text = text(LEVELS[1], "", "", &format!("load = 0.25{burst}"));
        let text = text.replace("send_buffers = 1", "send_buffers = 8");
        super::run(&text.replace("per_message = '700 ns'", "per_message = '0 ns'"), 1)
    };
    let (smooth, bursty) = (run(""), run(", burst.fixed = 4"));
    assert!((interval(&smooth) - 4_000.0).abs() < 1e-6);
    assert!((interval(&bursty) - 4_000.0).abs() < 60.0, "{}", interval(&bursty));
    let deviation = |run: &ChannelRun| {
        let stream = &run.network.as_ref().expect("a report").streams[0];
        stream.interval_deviation_us.expect("two messages or more")
    };
    // Three intervals of 1 us and one of 13: the deviation is the root of 27.
    assert_eq!(deviation(&smooth), 0.0);
    assert!((deviation(&bursty) - 27.0_f64.sqrt()).abs() < 0.05, "{}", deviation(&bursty));
}

#[test]
fn what_endpoints_need_is_refused_without_them() {
    let bare = |stream: &str, channel: &str| {
        let text = text(LEVELS[1], "", channel, stream);
        let endpoints = text.find("endpoints = ").expect("a key");
        let end = text[endpoints..].find('\n').expect("a line") + endpoints;
        refusal(&format!("{}{}", &text[..endpoints], &text[end..]))
    };
    let text = bare("operation = 'rdma_write'", "");
    assert!(text.contains("workload.c.source.streams.one.operation = rdma_write"), "{text}");
    assert!(text.contains("it only with channel.c.endpoints"), "{text}");
    let text = bare("tag = 1", "");
    assert!(text.contains("workload.c.source.streams.one.tag = 1"), "{text}");
    let text = bare("", "errors.packet_error_rate = 0.1");
    assert!(text.contains("channel.c.errors = given"), "{text}");
    let text = refusal(&text_with("receive_descriptors = 65536"));
    assert!(text.contains("channel.c.endpoints.receive_descriptors = 65536"), "{text}");
    assert!(text.contains("at most 65535, or \"unlimited\""), "{text}");
    let listed = refusal(&text_with("reliability = 'perhaps'"));
    for level in LEVELS {
        assert!(listed.contains(level), "{listed}");
    }
}

fn text_with(endpoints: &str) -> String {
    text(LEVELS[1], "", "", "").replace("reliability = 'reliable_delivery'", endpoints)
}
