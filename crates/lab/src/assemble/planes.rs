//! Hosts with a port in each of several planes: which channels may have them, and what they carry.

use weft_fabric::fabric::{FabricError, Wiring};
use weft_fabric::link::LinkSettings;
use weft_units::{Bytes, PositiveCount, Span};

use super::{adapter, engine, network, refuse, ring};
use crate::composition::ChannelSettings;
use crate::error::Error;

impl ChannelSettings {
    /// The switches and cables of all planes.
    pub(crate) fn wiring(&self, hosts: u32) -> Result<Wiring, FabricError> {
        self.fabric.planes(self.planes.get(), hosts, self.link.rate)
    }

    /// Whether hosts have several ports on the channel.
    pub(crate) fn has_planes(&self) -> bool {
        self.planes > PositiveCount::ONE
    }

    /// How long this many bytes take on all links of a host together: loads are fractions of this.
    pub(crate) fn span_at_host(&self, size: Bytes) -> Span {
        let rate = self.link.rate.times(self.planes.get());
        LinkSettings { rate, ..self.link.clone() }.span(size)
    }

    /// How long a request packet, or the packets of a message on links with turns, takes on all
    /// links of a host together.
    pub(crate) fn packet_at_host(&self) -> Span {
        if self.has_planes() { self.span_at_host(self.packet) } else { self.packet_span() }
    }
}

/// Refuses several planes where something belongs to the one port that a host has.
pub(crate) fn refuse_elsewhere(
    settings: &ChannelSettings,
    hosts: u32,
    name: &str,
) -> Result<(), Error> {
    let accepted = match settings {
        _ if !settings.has_planes() => return Ok(()),
        _ if !engine::runs(settings) => {
            "1 but for output_queued, shared_buffer, input_queued switches with a `buffer`, and hubs without \
             windows: others serve the one port of each host in turns or an order that is common to all"
        }
        _ if ring::has_any(settings, hosts) => "1 with a ring, of which a host is one station",
        _ if network::has_a_memory(settings) => {
            "1 where a switch is shared_memory: a connection is laid along one way, and the buffers of its \
             host belong to one port"
        }
        _ if adapter::is_needed(settings) => {
            "1 where adapters hear of their packets or hold them back (control, receiver, interface, errors, \
             throttle, feed, release, slots; crossbar and output_buffered switches): they keep account of one port"
        }
        _ => return Ok(()),
    };
    refuse(name, "planes", &settings.planes.to_string(), accepted)
}
