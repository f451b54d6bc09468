//! The pipeline of a globally scheduled channel, cycle by cycle (Clint 3.3, Figure 5): hosts request,
//! the arbiter grants, hosts transfer.
//!
//! One cycle, counted from the instant at which its requests are sampled:
//!
//! | instant | what happens |
//! |---|---|
//! | 0 | every adapter samples its send buffers and sends `cfg` |
//! | `cfg` + cable | the last byte is at the switch: arbitration begins |
//! | + arbitration | `gnt` enters the output stages of the switch, at all ports together |
//! | + switch + `gnt` + cable | the grants are at the adapters |
//! | lead | the granted packets are sent on the bulk channel |
//! | lead + transit | the last byte is at the target, which answers by `back` or stays silent |
//! | lead + 2 slots | an initiator without `back` knows that its transfer failed |
//!
//! With ideal signalling requests are known when they are sampled, and grants with them. All instants
//! are fixed, so that the adapters know when grants come. The part has no queue of events: the engine
//! calls it at these instants and sends the packets that it returns.

use weft_kernel::{Id, Stream};
use weft_units::{Span, Time};

use super::{
    Distances, GlobalSchedule, Heard, NodeConfiguration, PipelineTiming, ScheduledPacket,
    Signalling, Transfer,
};

/// A global schedule with the state of its nodes and its arbiter.
#[derive(Debug)]
pub struct Pipeline {
    timing: PipelineTiming,
    distances: Option<Distances>,
    schedule: GlobalSchedule,
    random: Stream,
    signalling: Option<Signalling>,
    /// The target to which each host may send, as far as the host knows.
    granted: Vec<Option<u16>>,
    /// The cycle whose transfers began last.
    cycle: u64,
}

impl Pipeline {
    /// The pipeline before its first cycle; its scheduler draws from `random`. Signalling is ideal
    /// without `signalling`; `distances` are given if the cables of hosts differ.
    pub fn new(
        timing: PipelineTiming,
        distances: Option<Distances>,
        (schedule, random): (GlobalSchedule, Stream),
        signalling: Option<Signalling>,
    ) -> Pipeline {
        let granted = vec![None; schedule.ports()];
        Pipeline { timing, distances, schedule, random, signalling, granted, cycle: 0 }
    }

    /// How many hosts there are.
    pub fn ports(&self) -> usize {
        self.schedule.ports()
    }

    /// When each step of a slot happens.
    pub fn timing(&self) -> &PipelineTiming {
        &self.timing
    }

    /// Whether configurations, grants and acknowledgments travel as packets.
    pub fn is_carried(&self) -> bool {
        self.signalling.is_some()
    }

    /// The packets between nodes and arbiter, unless signalling is ideal.
    pub fn signalling(&self) -> Option<&Signalling> {
        self.signalling.as_ref()
    }

    // Arbitration.

    /// The requests of a cycle are sampled.
    pub fn begin_cycle(&mut self, cycle: u64) {
        self.schedule.begin_cycle();
        if let Some(signalling) = &mut self.signalling {
            signalling.open(cycle);
        }
    }

    /// A host announces what it requests and accepts. Returns the packet that carries it, unless the
    /// arbiter knows it immediately.
    pub fn configure(&mut self, host: u16, said: NodeConfiguration) -> Option<ScheduledPacket> {
        match &mut self.signalling {
            Some(signalling) => Some(signalling.configure(host, said)),
            None => {
                self.schedule.configure(host.into(), said);
                None
            }
        }
    }

    /// Computes the grants. Hosts know theirs immediately unless packets carry them.
    pub fn arbitrate(&mut self) {
        if let Some(signalling) = &mut self.signalling {
            signalling.close();
        }
        self.schedule.arbitrate(&mut self.random);
        if self.signalling.is_none() {
            for (host, granted) in self.granted.iter_mut().enumerate() {
                *granted = self.schedule.grant(host).target.map(|target| target as u16);
            }
        }
    }

    /// The packet that carries a host's grant, if signalling travels as packets.
    pub fn grant(&mut self, host: u16) -> Option<ScheduledPacket> {
        let notice = self.schedule.grant(host.into());
        self.signalling.as_mut()?.grant(host, &notice)
    }

    /// The packet by which a target answers a transfer, if it does and packets do that.
    pub fn acknowledge(
        &mut self,
        id: Id<Transfer>,
        transfer: &Transfer,
    ) -> Option<ScheduledPacket> {
        self.signalling.as_mut()?.acknowledge(id, transfer)
    }

    /// A signalling packet has arrived, damaged or whole. Returns its effect.
    pub fn hear(&mut self, token: u32, damaged: bool) -> Option<Heard> {
        let heard = self.signalling.as_mut()?.hear(token, damaged)?;
        match heard {
            Heard::Configuration { host, configuration } => {
                self.schedule.configure(host.into(), configuration);
            }
            Heard::Grant { host, target } => self.granted[usize::from(host)] = target,
            _ => {}
        }
        Some(heard)
    }

    // Transfer.

    /// When the first transfers of a cycle may begin.
    pub fn first_transfer(&self, cycle: u64) -> Time {
        let transfer = self.timing.transfer(cycle);
        self.distances.as_ref().map_or(transfer, |distances| distances.first(transfer))
    }

    /// The first transfers of a cycle begin now, or the nodes are at the boundary before them.
    pub fn begin_slot(&mut self, cycle: u64) {
        self.schedule.begin_slot();
        if let Some(signalling) = &mut self.signalling {
            signalling.begin_slot();
        }
        self.cycle = cycle;
    }

    /// The cycle whose transfers began last.
    pub fn cycle(&self) -> u64 {
        self.cycle
    }

    /// When a host begins its transfer of that cycle, if that depends on its distance.
    pub fn start(&self, host: u16) -> Option<Time> {
        let transfer = self.timing.transfer(self.cycle);
        Some(self.distances.as_ref()?.start(transfer, host.into()))
    }

    /// The target to which a host may send; consumes the grant.
    pub fn take_grant(&mut self, host: u16) -> Option<u16> {
        self.granted[usize::from(host)].take()
    }

    /// A host starts its transfer now.
    pub fn note_start(&mut self, now: Time, host: u16) {
        let transfer = self.timing.transfer(self.cycle);
        if let Some(distances) = &mut self.distances {
            distances.note(now, transfer, host.into());
        }
    }

    /// The delay of the cables from one host's adapter to another's.
    pub fn wire(&self, from: u16, to: u16) -> Span {
        let of = |distances: &Distances| distances.wire(from.into(), to.into());
        self.distances.as_ref().map_or(self.timing.wire, of)
    }

    /// How far apart the packets of a slot arrived at the switch, if hosts are at different distances.
    pub fn misalignment(&self) -> Option<Span> {
        self.distances.as_ref().map(Distances::seen_misalignment)
    }
}

#[cfg(test)]
mod tests {
    use weft_kernel::Streams;
    use weft_protocol::packet::TransmissionReport;
    use weft_units::Bytes;

    use super::*;
    use crate::adapter::BulkPacket;
    use crate::control::{
        Alignment, CarriedSettings, CarriedTiming, GlobalScheduleSettings, RecoverySettings, Said,
        Speculation, Taken, Transfers,
    };
    use crate::scheduler::{Counts, LeastChoiceFirstSettings, SchedulerSettings, Ties};

    const TIMING: PipelineTiming = PipelineTiming {
        slot: Span(1000),
        lead: Span(300),
        packet: Span(800),
        wire: Span(20),
        switch: Span(5),
        carried: None,
    };

    fn schedule() -> (GlobalSchedule, Stream) {
        let scheduler = SchedulerSettings::LeastChoiceFirst(LeastChoiceFirstSettings {
            round_robin: false,
            counts: Counts::Remaining,
            ties: Ties::Lowest,
        });
        let settings = GlobalScheduleSettings { scheduler, speculation: Speculation::Off };
        let schedule = settings.build(3).expect("a number of ports that fits");
        (schedule, Streams::new(1).stream("scheduler", 0))
    }

    fn asks(requests: u64) -> NodeConfiguration {
        NodeConfiguration { requests, bulk_enable: u64::MAX, quick_enable: u64::MAX }
    }

    fn carried() -> Pipeline {
        let settings = CarriedSettings {
            by: "quick".to_owned(),
            configuration: Bytes(19),
            grant: Bytes(4),
            acknowledgment: Bytes(4),
            arbitration: Span(100),
            turn_around: Span::ZERO,
            shared_link: None,
        };
        let own = CarriedTiming {
            configuration: Span(38),
            grant: Span(8),
            acknowledgment: Span(8),
            arbitration: Span(100),
            turn_around: Span::ZERO,
            latency: Span(9),
            propagation: Span(10),
            obstruction: Span(110),
            shared: None,
        };
        let timing = PipelineTiming { carried: Some(own), ..TIMING };
        Pipeline::new(timing, None, schedule(), Some(Signalling::new(settings, own, 3)))
    }

    /// Hosts 0 and 1 ask for host 2; the one with the lower number is served first.
    #[test]
    fn ideal_signalling_grants_what_was_asked_at_once() {
        let mut pipeline = Pipeline::new(TIMING, None, schedule(), None);
        for (cycle, asked, granted) in [
            (0, [0b100, 0b100, 0], [Some(2), None, None]),
            (1, [0, 0b100, 0], [None, Some(2), None]),
        ] {
            pipeline.begin_cycle(cycle);
            for (host, requests) in (0..).zip(asked) {
                assert_eq!(pipeline.configure(host, asks(requests)), None);
            }
            pipeline.arbitrate();
            assert_eq!(pipeline.grant(0), None, "no packet tells it");
            pipeline.begin_slot(cycle);
            assert_eq!([0, 1, 2].map(|host| pipeline.take_grant(host)), granted);
            assert_eq!(pipeline.take_grant(0), None, "a grant is good for one slot");
        }
        assert_eq!((pipeline.cycle(), pipeline.start(1)), (1, None));
        assert_eq!((pipeline.first_transfer(1), pipeline.wire(0, 2)), (Time(1300), Span(20)));
    }

    /// The first cycle assigns identifiers, in the second host 0 asks for host 2, and is answered.
    #[test]
    fn carried_signalling_grants_by_packets() {
        let mut pipeline = carried();
        for (cycle, target) in [(0, None), (1, Some(2))] {
            pipeline.begin_cycle(cycle);
            for host in 0..3 {
                let requests = if host == 0 { 0b100 } else { 0 };
                let packet = pipeline.configure(host, asks(requests)).expect("a packet");
                pipeline.hear(packet.token, false).expect("it was on its way");
            }
            pipeline.arbitrate();
            for host in 0..3 {
                assert_eq!(pipeline.take_grant(host), None, "nobody has been told");
                let packet = pipeline.grant(host).expect("a packet");
                let target = target.filter(|_| host == 0);
                assert_eq!(pipeline.hear(packet.token, false), Some(Heard::Grant { host, target }));
            }
            pipeline.begin_slot(cycle);
        }
        assert_eq!(pipeline.take_grant(0), Some(2));
        let mut transfers = Transfers::new(RecoverySettings::default(), 3);
        let (start, first) = (Time(1300), Some(Time(1300)));
        let packet = BulkPacket {
            target: 2,
            sequence: 0,
            generated: Time(0),
            buffered: Time(0),
            first,
            attempts: 1,
        };
        let id = transfers.begin(start, pipeline.cycle(), 0, packet, false);
        assert_eq!(transfers.arrive(id, |_| true), Taken::New);
        let answer = pipeline.acknowledge(id, transfers.get(id)).expect("a packet");
        let said = pipeline.signalling().and_then(|own| own.said(answer.token));
        let accepted = TransmissionReport::Accepted;
        assert!(matches!(said, Some(Said::Acknowledgment { report, .. }) if *report == accepted));
        assert_eq!(pipeline.hear(answer.token, false), Some(Heard::Acknowledgment(id)));
    }

    /// Cables of 10, 4 and 10: by the gap, host 1 starts earlier by 6, and its packet is at the switch
    /// earlier by 12.
    #[test]
    fn hosts_start_as_their_distances_are() {
        let ways = vec![Span(10), Span(4), Span(10)];
        let distances = Distances::new(ways, Span(10), Alignment::Gap);
        let mut pipeline = Pipeline::new(TIMING, Some(distances), schedule(), None);
        assert_eq!(pipeline.first_transfer(0), Time(294));
        pipeline.begin_slot(0);
        assert_eq!([0, 1].map(|host| pipeline.start(host)), [Some(Time(300)), Some(Time(294))]);
        pipeline.note_start(Time(294), 1);
        pipeline.note_start(Time(300), 0);
        assert_eq!((pipeline.wire(0, 1), pipeline.misalignment()), (Span(14), Some(Span(12))));
    }
}
