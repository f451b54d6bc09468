//! The results of links with turns at the end of a run.

use weft_fabric::fabric::Wiring;
use weft_fabric::graph::{StationPlace, TurnCable};
use weft_fabric::measure::{Latency, Observations};
use weft_units::Time;

use super::Turns;
use super::host::{Answered, Host};
use super::message::{Carried, Use};
use crate::drive::trace::TraceEntry;

impl Turns {
    /// Messages of which no byte has been moved, one for each target.
    pub fn unsent(&self) -> u64 {
        let queued = self.hosts.iter().flat_map(|host| self.not_begun(host));
        queued.map(|message| u64::from(message.missing)).sum()
    }

    /// Messages in flight, one for each target that does not have it.
    pub fn under_way(&self) -> u64 {
        self.under_way
    }

    /// The legs of first packets, what the frames carried, and the payload of a message over the
    /// time until its response is there, which is how Maestro 4 counts throughput.
    pub fn columns(&self, seen: &Observations) -> Vec<(&'static str, f64)> {
        let [up_least, up_mean, up_most] = self.legs.uplink.us();
        let [switch_least, switch_mean, switch_most] = self.legs.switch.us();
        let [down_least, down_mean, down_most] = self.legs.downlink.us();
        let [_, turn_mean, turn_most] = self.legs.turn.us();
        let frames = self.frames.data as f64;
        let [analysis_least, analysis_mean, analysis_most] = self.legs.analysis.us();
        let [transfer_least, transfer_mean, transfer_most] = self.legs.transfer.us();
        let least = |latency| {
            let least = seen.recorder(latency).min();
            least.map_or(f64::NAN, |least| least.as_us())
        };
        let [remote_dma, worst] = self.remote_dma();
        let mut columns = vec![
            ("uplink_min_us", up_least),
            ("uplink_mean_us", up_mean),
            ("uplink_max_us", up_most),
            ("switch_min_us", switch_least),
            ("switch_mean_us", switch_mean),
            ("switch_max_us", switch_most),
            ("switch_analysis_min_us", analysis_least),
            ("switch_analysis_mean_us", analysis_mean),
            ("switch_analysis_max_us", analysis_most),
            ("switch_transfer_min_us", transfer_least),
            ("switch_transfer_mean_us", transfer_mean),
            ("switch_transfer_max_us", transfer_most),
            ("downlink_min_us", down_least),
            ("downlink_mean_us", down_mean),
            ("downlink_max_us", down_most),
            ("path_min_us", up_least + switch_least + down_least),
            ("path_max_us", up_most + switch_most + down_most),
            ("turn_wait_mean_us", turn_mean),
            ("turn_wait_max_us", turn_most),
            ("data_frames", frames),
            ("packets_per_frame", self.frames.packets as f64 / frames.max(1.0)),
            ("remote_dma_mb_per_s", remote_dma),
            ("remote_dma_worst_mb_per_s", worst),
            ("one_way_min_us", least(Latency::OneWay)),
            ("round_trip_min_us", least(Latency::RoundTrip)),
        ];
        if !self.parts.errors.is_empty() {
            columns.push(("damaged_packets", self.frames.damaged as f64));
        }
        columns
    }

    /// The throughput of remote DMA of all hosts whose messages were answered, and of the worst of
    /// them (Maestro 4.1: "out of two performance results measured at each NI respectively, we took
    /// the worse one").
    fn remote_dma(&self) -> [f64; 2] {
        let mut all = Answered::default();
        self.hosts.iter().for_each(|host| all.add(host.answered));
        let of_hosts = self.hosts.iter().filter_map(|host| host.answered.mb_per_s());
        [all.mb_per_s(), of_hosts.min_by(f64::total_cmp)].map(|rate| rate.unwrap_or(f64::NAN))
    }

    /// Notes every frame from now on, null frames included.
    pub fn note_frames(&mut self) {
        self.trace = Some(Vec::new());
        self.cables.iter_mut().for_each(|cable| cable.link.show_every_turn());
    }

    /// The frames recorded so far, in order of time.
    pub fn noted_frames(&mut self) -> Vec<TraceEntry> {
        let mut trace = self.trace.take().unwrap_or_default();
        trace.sort_by_key(|entry| (entry.time, entry.sequence));
        trace
    }

    /// A frame is over.
    pub fn note_frame(&mut self, until: Time, number: u32, side: usize) {
        let Some(trace) = &mut self.trace else { return };
        let TurnCable { first, packets, credits, stations, .. } = self.cables[number as usize];
        let host = |side: usize| match self.stations[stations[side] as usize].place {
            StationPlace::Host(host) => Some(host),
            StationPlace::Port { .. } => None,
        };
        trace.push(TraceEntry {
            time: first,
            until,
            kind: if packets == 0 { "null" } else { "frame" },
            sequence: u64::from(number),
            initiator: host(side),
            target: host(1 - side),
            slot: None,
            content: format!("{packets} packets, credits {} and {}", credits[0], credits[1]),
        });
    }

    /// Messages of a host of which no byte has been moved.
    fn not_begun<'a>(&'a self, host: &'a Host) -> impl Iterator<Item = &'a Carried> {
        let outgoing = host.movers.outgoing(0).chain(host.queue.iter().copied());
        let messages = outgoing.map(|id| &self.messages[id as usize]);
        messages.filter(|message| !message.has_begun)
    }

    /// What waits for what, one sentence per line.
    pub fn who_waits(&self, wiring: &Wiring) -> Vec<String> {
        let mut lines = Vec::new();
        for (switch, own) in (0..).zip(&self.switches) {
            if own.inner.held() > 0 {
                let name = wiring.switch_name(switch);
                lines.push(format!("{name} holds {} messages", own.inner.held()));
            }
        }
        for (number, host) in (0_u32..).zip(&self.hosts) {
            let Some(id) = host.movers.outgoing(0).next() else { continue };
            let message = &self.messages[id as usize];
            if message.purpose == Use::Data {
                let name = wiring.host_name(number);
                let to: Vec<String> = message.to.hosts().map(|to| wiring.host_name(to)).collect();
                lines.push(format!("{name} waits to send to {}", to.join(", ")));
            }
        }
        lines
    }
}
