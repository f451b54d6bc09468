//! What is left in a bulk channel, and what it counted besides.

use weft_units::{Span, Time};

use super::{BulkChannel, Host};
use crate::drive::cluster::{BulkPacket, Distances};
use crate::drive::interface::InterfaceCounters;

impl BulkChannel {
    /// How far apart the packets of a slot came to the switch, where hosts are at different distances.
    pub(in crate::drive::cluster) fn misalignment(&self) -> Option<Span> {
        self.parts.distances.as_ref().map(Distances::seen_misalignment)
    }

    /// What the interfaces did, as columns of a run until `until`; none without interfaces.
    pub(in crate::drive::cluster) fn interface_columns(
        &self,
        until: Time,
    ) -> Vec<(&'static str, f64)> {
        if self.parts.interface.is_none() {
            return Vec::new();
        }
        let mut sum = InterfaceCounters::default();
        for interface in self.hosts.iter().filter_map(|host| host.sender.interface()) {
            interface.count(until, &mut sum);
        }
        sum.columns(self.hosts(), until)
    }

    /// Packets handed over whose first transmission has not started.
    pub fn backlog(&self) -> u64 {
        self.hosts.iter().map(|host| host.sender.backlog()).sum()
    }

    /// Packets sent at least once that their target has not taken: those that the initiators hold,
    /// by what the targets have seen.
    pub fn in_flight(&self) -> u64 {
        let of_host = |(index, host): (usize, &Host)| {
            let missing = |packet: &BulkPacket| {
                packet.sequence >= self.hosts[usize::from(packet.target)].expected[index]
            };
            let again = host.sender.to_send_again(missing);
            let under_way = host.transfers.iter().map(|id| &self.transfers[*id]);
            let under_way =
                under_way.filter(|transfer| !transfer.concluded && missing(&transfer.packet));
            again + under_way.count() as u64
        };
        self.hosts.iter().enumerate().map(of_host).sum()
    }
}
