//! Every kind of channel that carries messages.

use weft_kernel::Streams;
use weft_lab::assemble::{Driver, Site};
use weft_lab::{Plan, Request};
use weft_units::{Span, Time};

/// A channel of four hosts whose packets of 125 B carry 100 B and occupy a link of 1 Gbit/s for
/// 1 us; cables take 20 ns.
#[derive(Clone, Debug)]
pub struct Channel {
    pub name: &'static str,
    text: String,
    pub packet: Span,
    /// The least that lies between the end of a transmission and that of the delivery.
    pub way: Span,
    /// Packets of a pair may take different ways, drawn in the order in which they leave.
    pub draws_ways: bool,
    /// Packets are as long as what they carry, and leave their sender when the adapter has them.
    pub is_window: bool,
}

const COMMON: &str = "
[system]
title = 'carrier'
hosts = 4
[channel.c]
packet = '125 B'
payload = '100 B'
link = { rate = '1 Gbit/s', length = '4 m', delay_per_metre = '5 ns' }
";

impl Channel {
    pub fn new(name: &'static str, text: &str) -> Channel {
        let buffers =
            if text.contains("send_buffers") { "" } else { "adapter.send_buffers = 'unlimited'\n" };
        Channel {
            name,
            text: format!("{COMMON}{buffers}{text}\n"),
            packet: Span(1_000_000),
            way: Span(40_000),
            draws_ways: text.contains("fat_tree"),
            is_window: text.contains("channel.c.window"),
        }
    }

    /// The least time that the packets of a message occupy a link.
    pub fn least(&self, size: u64) -> Span {
        let packets = size.div_ceil(100).max(1);
        // A word at the least, and 25 B around what each packet carries.
        let bytes = size.max(4) + 25 * packets;
        if self.is_window { Span(8_000) * bytes } else { self.packet * packets }
    }

    /// The least time from the offer of a message until its sender is done with it.
    pub fn least_to_send(&self, size: u64) -> Span {
        if self.is_window { Span::ZERO } else { self.least(size) }
    }

    /// The channel at time zero; without a workload it carries messages.
    pub fn build(&self, workload: &str) -> Driver {
        let text = format!("{}{workload}", self.text);
        let request = Request::of_text("carrier.toml", &text);
        let plan = Plan::new(&request).unwrap_or_else(|error| panic!("{text}: {error}"));
        let spec = &plan.points[0].spec;
        let streams = Streams::new(1);
        let site = Site {
            name: "c",
            hosts: 4,
            streams: &streams,
            from: Time::ZERO,
            until: Time(1_000_000_000),
            sample: None,
        };
        let driver = Driver::new(&spec.channel["c"], spec.workload.get("c"), site);
        driver.unwrap_or_else(|error| panic!("{text}: {error}"))
    }
}

/// Mapped windows around a hub of the kind `transfer`; a bus of the host takes no time.
fn window(name: &'static str, transfer: &str) -> Channel {
    let text = format!(
        "[channel.c.window]\nmappings = 'all'\npage = '8 KiB'\nsize = '1 MiB'\nwrite = '100 B'\n\
         receive_buffers = 4\ncontrol = '12 B'\ncheck_order = true\n\
         [channel.c.switch.hub]\nports = 4\nlatency = '10 ns'\n{transfer}"
    );
    Channel::new(name, &text)
}

/// One of each kind. A new driver, and a part that holds packets up in a new way, joins here.
pub fn channels() -> Vec<Channel> {
    let acknowledged = "control.request_acknowledge = { timeout = '4 us', \
                        outstanding = 4, acknowledgment = '4 B', back_off = '3 us' }";
    let interleaved = format!(
        "adapter = {{ send_buffers = 4, acknowledgments = 'interleave' }}\n{acknowledged}\n\
         [channel.c.switch.crossbar]\nlatency = '90 ns'\ncontention = 'drop'\n\
         acknowledgments = 'interleave'"
    );
    let retried = format!(
        "adapter.send_buffers = 4\n{acknowledged}\n\
         [channel.c.switch.crossbar]\nlatency = '90 ns'\ncontention = 'drop'"
    );
    let interface = format!(
        "adapter.send_buffers = 4\n{acknowledged}\n[channel.c.interface]\n\
         host_send_buffers = 4\nhost_receive_buffers = 8\nreceive_buffers = 8\n\
         message = '104 B'\nbus = {{ host_write = '50 ns', dma_setup = '20 ns' }}\n\
         [channel.c.switch.crossbar]\nlatency = '90 ns'\ncontention = 'drop'"
    );
    let scheduled = "adapter.send_buffers = 3\nadapter.feed.per_target.limit = 2\n\
                     [channel.c.switch.scheduled]\nlatency = '10 ns'\ngap = '100 ns'\n\
                     lead = '300 ns'\nscheduler = 'least_choice_first'";
    let output_buffered = "[channel.c.switch.output_buffered]\nlatency = '10 ns'\nbuffers = 2\n\
                           writers = 'unlimited'\n\
                           [channel.c.control.out_of_band]\noutstanding = 'unlimited'\n\
                           delay = '100 ns'\nback_off = '2 us'";
    let tree = "fabric.k_ary_tree = { arity = 2, levels = 2 }\nroutes.per_connection = 'hashed'\nswitch.output_queued.latency = '90 ns'";
    let buffered_tree = "fabric.k_ary_tree = { arity = 2, levels = 2 }\nroutes.per_connection = 'hashed'\n\
                         [channel.c.switch.input_queued]\nlatency = '90 ns'\nbuffer = 8\n\
                         cell = '25 B'\nscheduler = 'islip'";
    let shared_tree = "fabric.k_ary_tree = { arity = 2, levels = 2 }\n\
                       switch.shared_memory = { latency = '90 ns', buffer = 2 }";
    let quenched_tree = "fabric.k_ary_tree = { arity = 2, levels = 2 }\n\
                         flow_control.source_quench = { quench = 2, unquench = 0, \
                         indication = '25 B', link = { stop = 32, go = 8 } }\n\
                         switch.shared_memory = { latency = '90 ns', buffer = 64 }";
    let packets = "hub = { ports = 4, latency = '10 ns', \
                   transfer.bus = { arbitration = '100 ns', buffer = 2 } }";
    let fat_tree =
        "fabric.fat_tree = { radix = 4, tiers = 2 }\nswitch.output_queued.latency = '90 ns'";
    vec![
        Channel::new("scheduled", scheduled),
        Channel::new("output-queued star", "switch.output_queued.latency = '10 ns'"),
        Channel::new(
            "input-queued star",
            "[channel.c.switch.input_queued]\nlatency = '10 ns'\nscheduler = 'islip'",
        ),
        Channel::new("crossbar with retransmission", &retried),
        Channel::new("crossbar with interleaved acknowledgments", &interleaved),
        Channel::new("crossbar behind interfaces", &interface),
        Channel::new(
            "crossbar with back pressure",
            "[channel.c.switch.crossbar]\nlatency = '10 ns'\ncontention = 'back_pressure'",
        ),
        Channel::new("output-buffered", output_buffered),
        Channel::new("output-queued tree", tree),
        Channel::new("shared memories with credits", shared_tree),
        Channel::new("shared memories with source quench", quenched_tree),
        Channel::new("input-queued tree", buffered_tree),
        Channel::new("output-queued fat tree", fat_tree),
        Channel::new("hub of packets", &format!("switch.{packets}")),
        Channel::new(
            "tree with a hub",
            &format!("{tree}\nswitches.'0.1'.{packets}\nswitches.'1.0'.{packets}"),
        ),
        window("bus hub", "transfer.bus.arbitration = '100 ns'"),
        window("crossbar hub", "transfer.crossbar = { buffer = 2, arbiter = 'request_sampling' }"),
        window(
            "crossbar hub with a scheduler",
            "transfer.crossbar = { buffer = 2, arbiter.scheduler.islip = { iterations = 2 } }",
        ),
    ]
}
