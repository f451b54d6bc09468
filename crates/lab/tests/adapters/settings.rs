//! The settings of the parts as they are written in a composition file.

use serde::Deserialize;
use weft_fabric::adapter::{AdapterSettings, Feed, Insertion, Release};
use weft_fabric::link::LinkSettings;
use weft_fabric::switch::{CrossbarSettings, OutputBufferedSettings, Simultaneous};
use weft_protocol::retransmit::{ControlSettings, Order, Retries};
use weft_units::{Bytes, Limit, Span};

use crate::settings;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Channel {
    link: LinkSettings,
    adapter: AdapterSettings,
    switch: Switch,
    control: ControlSettings,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Switch {
    Crossbar(CrossbarSettings),
    OutputBuffered(OutputBufferedSettings),
}

#[test]
fn a_quick_channel() {
    let channel: Channel = settings::read(
        r#"
        [link]
        rate = "528 Mbit/s"
        length = "5 m"
        delay_per_metre = "5 ns"
        reserved = 0.049
        [adapter]
        send_buffers = 4
        acknowledgments = "interleave"
        throttle = { requests = 2, per = "5 us" }
        [switch.crossbar]
        latency = "90 ns"
        contention = "drop"
        acknowledgments = "interleave"
        [control.request_acknowledge]
        timeout = "1083 ns"
        outstanding = 4
        acknowledgment = "4 B"
        "#,
    );
    assert_eq!(channel.link.span(Bytes(36)), Span(573_559));
    assert_eq!(channel.adapter.acknowledgments, Insertion::Interleave);
    assert_eq!((channel.adapter.feed, channel.adapter.release), (Feed::Fifo, None));
    let Switch::Crossbar(switch) = channel.switch else { panic!("another switch") };
    assert_eq!(switch.simultaneous, Simultaneous::RoundRobin);
    let ControlSettings::RequestAcknowledge(control) = channel.control else {
        panic!("another control")
    };
    assert_eq!((control.order, control.retries), (Order::Unordered, Retries::First));
    assert_eq!((control.turn_around, control.back_off), (Span::ZERO, Span::ZERO));
}

#[test]
fn a_bulk_channel() {
    let channel: Channel = settings::read(
        r#"
        control = "unacknowledged"
        [link]
        rate = "2 Gbit/s"
        [adapter]
        send_buffers = "unlimited"
        feed = { per_target = { limit = 4 } }
        release = "transmission"
        [switch.output_buffered]
        latency = "1.5 ns"
        buffers = 16
        writers = "unlimited"
        "#,
    );
    assert_eq!(channel.adapter.release, Some(Release::Transmission));
    assert_eq!(channel.control, ControlSettings::Unacknowledged);
    let Switch::OutputBuffered(switch) = channel.switch else { panic!("another switch") };
    assert_eq!(
        (switch.buffers, switch.writers),
        (Limit::at_most(16).expect("16"), Limit::Unlimited)
    );
}

#[test]
fn an_unknown_key_is_refused() {
    let text = "latency = \"90 ns\"\ncontention = \"drop\"\nacknowledgements = \"collide\"";
    let error = settings::try_to_read::<CrossbarSettings>(text).expect_err("misspelt");
    assert!(error.to_string().contains("unknown key `acknowledgements`"), "{error}");
}
