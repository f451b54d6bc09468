//! Credits that the targets of flows grant: which flows request them, and when grants leave.

use weft_units::{Bytes, Span, Time};

use super::{Content, Outgoing, PACE, SeenOnPath, Segment, Transports, Wake};

/// How a target learns that its initiator requests credits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// By a packet of the flow.
    ByData,
    /// By a packet that a switch trimmed.
    ByHeader,
    /// By a request, which the initiator sends if its packets have brought no credits.
    InVain,
}

impl Transports {
    /// The initiator of a flow requests credits up to a number. Returns the grant that leaves
    /// immediately.
    #[inline]
    pub(super) fn ask(
        &mut self,
        now: Time,
        flow: u32,
        pull_target: u32,
        asked: Asked,
    ) -> Option<Outgoing> {
        match self.pacers.is_empty() {
            true => None,
            false => self.ask_pacer(now, flow, pull_target, asked),
        }
    }

    #[inline(never)]
    fn ask_pacer(
        &mut self,
        now: Time,
        flow: u32,
        pull_target: u32,
        asked: Asked,
    ) -> Option<Outgoing> {
        self.begin_target(flow);
        let target = self.targets[flow as usize].as_deref_mut()?;
        let joins = match asked {
            Asked::ByData => target.demand.ask(pull_target),
            Asked::ByHeader => {
                target.demand.ask_again(pull_target, Bytes(self.payload + self.overhead))
            }
            Asked::InVain => target.demand.ask_in_vain(pull_target),
        };
        if !joins {
            return None;
        }
        let host = self.flows[flow as usize].to;
        self.pacers[host as usize].join(flow);
        self.grant(now, host)
    }

    /// The pause of a host's pacer has ended.
    pub(super) fn pace(&mut self, now: Time, host: u32) -> Option<Outgoing> {
        self.pacers.get_mut(host as usize)?.wake();
        self.grant(now, host)
    }

    /// What the pacer of a host grants now, if it is not pausing and a flow asks for credits.
    fn grant(&mut self, now: Time, host: u32) -> Option<Outgoing> {
        let pacer = self.pacers.get_mut(host as usize)?;
        let (flow, target) = loop {
            let flow = pacer.turn()?;
            // All packets of a flow may have arrived before its turn.
            if let Some(target) = self.targets[flow as usize].as_deref_mut() {
                break (flow, target);
            }
        };
        // Grants use the routes of a flow in turn.
        let ways = self.settings.spraying.map_or(1, |own| u32::from(own.values));
        let spray = (target.demand.grants() % ways) as u16;
        let grant = pacer.grant(flow, &mut target.demand);
        self.wakes.push(Wake { time: now + grant.rest, host, item: host << 2 | PACE });
        let content = Content::Grant { up_to: grant.up_to };
        let segment = Segment { flow, content, sent: now, spray };
        Some(self.control_packet(&segment, content, now))
    }

    /// A grant has arrived.
    pub(super) fn hear_grant(&mut self, now: Time, flow: u32, up_to: u32) {
        let Some(own) = self.initiators[flow as usize].as_deref_mut() else { return };
        own.control.granted(up_to);
        own.progress = now;
        self.counts.grants += u64::from(now >= self.from);
        self.consider(now, flow, Span::ZERO);
    }

    /// What the initiator of a flow sends if it has received no credits.
    pub(super) fn request(&self, now: Time, flow: u32) -> Option<Outgoing> {
        let own = self.initiators[flow as usize].as_deref().filter(|own| own.lacks_credit())?;
        let pull_target = own.pull_target(self.payload + self.overhead, self.short(flow));
        let content = Content::Request { pull_target };
        let segment = Segment { flow, content, sent: now, spray: 0 };
        let to = self.flow(flow).to;
        Some(Outgoing { to, ..self.control_packet(&segment, content, now) })
    }

    /// An initiator has requested credits without success.
    pub(super) fn hear_request(&mut self, now: Time, of: &Segment, pull_target: u32) {
        self.begin_target(of.flow);
        let said = match self.targets[of.flow as usize] {
            Some(_) => self.ask(now, of.flow, pull_target, Asked::InVain),
            // The target has all of the flow, but its initiator does not know.
            None => Some(self.has_all(of, 0, SeenOnPath { is_marked: false, hops: 0 })),
        };
        self.answers.extend(said);
    }

    /// By how much the last packet of a flow is shorter than the others.
    pub(super) fn short(&self, flow: u32) -> u64 {
        (u64::from(self.packets(flow)) * self.payload).saturating_sub(self.flow(flow).size.0)
    }
}
