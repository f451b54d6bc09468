//! What does not fit links with turns is refused with its key, its value and what is accepted.

use super::laws::{in_tree, merge};
use super::{file, refusal, spec};

fn refused(keys: &str) -> String {
    refusal(&file(&format!("[workload.network]\nload = 0.1\n{keys}")))
}

#[test]
fn what_links_with_turns_do_not_read_is_refused() {
    let channel = "[channel.network.";
    let cases = [
        ("adapter]\nfeed.per_target.limit = 2", "adapter.feed", "fifo where links have turns"),
        ("adapter]\nacknowledgments = 'interleave'", "adapter.ack", "nothing is inserted"),
        ("adapter]\nrelease = 'acknowledgment'", "adapter.release", "transmission where messages"),
        ("transfer]\nmanager.page = '0 B'", "transfer.manager.page = 0 B", "at least 1 B"),
        (
            "transfer]\nreserved = '700 B'",
            "transfer.reserved = 700 B",
            "at least 1500 B, the payload",
        ),
        ("routes]\nper_packet = 'random'", "routes", "per_connection, since"),
        (
            "segmentation.aal5]\ntrailer = '8 B'\nenvelope = '4 B'\nlast = 'cut'",
            "segmentation",
            "switch.shared_memory",
        ),
        ("turns.burst.single]\npackets = 129", "turns.fifo = 2 KiB", "2064 B to 135264240 B"),
        (
            "switch.output_buffered]\nlatency = '1 ns'\nbuffers = 4\nwriters = 1",
            "switch",
            "fifo_bus",
        ),
    ];
    for (keys, key, accepted) in cases {
        let text = refused(&format!("{channel}{keys}\n"));
        assert!(text.contains(&format!("channel.network.{key}")), "{text}");
        assert!(text.contains(accepted), "{text}");
    }
}

/// A switch of its own is one that links with turns can fill, and one that there is.
#[test]
fn switches_of_their_own_are_those_of_links_with_turns() {
    let latency = "switches.nowhere]\noutput_queued.latency = '1 ns'";
    let limited = "switches.root]\noutput_queued = { latency = '1 ns', buffers = 4 }";
    let memory = "switches.root]\noutput_buffered = { latency = '1 ns', buffers = 4, writers = 1 }";
    let cases = [
        (latency, "switches.nowhere = given", "a switch of the fabric, such as root"),
        (limited, "switches.root.output_queued.buffers = 4", "a FIFO that is full stops its link"),
        (memory, "switches.root = output_buffered", "in the FIFO of its port"),
    ];
    for (keys, key, accepted) in cases {
        let more = format!("[workload.network]\nload = 0.1\n[channel.network.{keys}\n");
        let text = refusal(&merge(&file(&more), &in_tree(2_048)));
        assert!(text.contains(&format!("channel.network.{key}")), "{text}");
        assert!(text.contains(accepted), "{text}");
    }
}

#[test]
fn a_fifo_bus_needs_turns() {
    let text = "[system]\ntitle = 'x'\nhosts = 4\n[channel.c]\npacket = '16 B'\npayload = '16 B'\n\
                link.rate = '1 Gbit/s'\nadapter.send_buffers = 1\n\
                switch.fifo_bus = { analysis = '1 us', set_up = '1 ns', rate = '1 Gbit/s', \
                ports_per_interface = 1 }\n[workload.c]\nload = 0.1\n";
    let text = refusal(text);
    assert!(text.contains("channel.c.switch = fifo_bus"), "{text}");
    assert!(text.contains("only where links have turns"), "{text}");
}

#[test]
fn numbers_that_the_link_cannot_express_are_refused() {
    let cases = [
        ("turns.most = 16", "turns.most = 16", "1 to 15"),
        ("turns.phase.at = [PHASES]", "turns.phase.at = 17", "at most 16 times, one for each link"),
        ("turns.fifo = '8 B'", "turns.fifo = 8 B", "16 B to 1048560 B"),
        ("packet = '32 B'", "packet = 32 B", "16 B where links have turns"),
        ("payload = '1048554 B'", "payload = 1048554 B", "at most 1048553 B: 65535 packets"),
    ];
    let with = |keys: &str| {
        file("[workload.network]\nload = 0.1\n").replace("turns.phase = 'aligned'", keys)
    };
    for (keys, key, accepted) in cases {
        let text = refusal(&with(&keys.replace("PHASES", &["'1 ns'"; 17].join(", "))));
        assert!(text.contains(&format!("channel.network.{key}")), "{text}");
        assert!(text.contains(accepted), "{text}");
    }
    // The longest message that is counted is not refused.
    spec(&with("payload = '1048553 B'"));
}
