//! Flows of a channel whose parts run in parallel: each part has the ends of flows that are at its hosts.

use super::{FlowCounts, Outcome, Transports};

impl Transports {
    /// Whether the two ends of a flow share more than packets: queue pairs that are kept hand state of a target to
    /// the next flow when that begins at its initiator.
    pub fn keeps_queue_pairs(&self) -> bool {
        self.kept.is_some()
    }

    /// Whether flows begin when others end, each with the next number of all.
    pub fn has_loops(&self) -> bool {
        !self.loops.is_empty()
    }

    /// The flows of a part, before any of them begins. The caller keeps their first wake-ups.
    #[must_use]
    pub fn of_part(&self) -> Transports {
        let nothing = |_| None;
        Transports {
            settings: self.settings.clone(),
            payload: self.payload,
            overhead: self.overhead,
            lines: self.lines.clone(),
            full_span: self.full_span,
            planes: self.planes,
            classes: self.classes,
            flows: self.flows.clone(),
            loops: Vec::new(),
            following: self.following.clone(),
            initiators: (0..self.flows.len()).map(nothing).collect(),
            targets: self.flows.iter().map(|_| None).collect(),
            outcomes: self.outcomes.clone(),
            turns: self.turns.clone(),
            left: None,
            pacers: self.pacers.clone(),
            kept: None,
            wakes: Vec::new(),
            answers: Vec::new(),
            from: self.from,
            key: self.key,
            counts: FlowCounts::default(),
        }
    }

    /// Takes over what the parts know of flows so far; `part` gives that of a host.
    pub fn gather<'a>(
        &mut self,
        parts: impl Iterator<Item = &'a Transports>,
        part: impl Fn(u32) -> Option<&'a Transports>,
    ) {
        self.counts = parts.fold(FlowCounts::default(), |sum, own| sum.and(&own.counts));
        for (number, flow) in self.flows.iter().enumerate() {
            let at = |host| part(host).map_or_else(Outcome::default, |own| own.outcomes[number]);
            let (own, there) = (at(flow.from), at(flow.to));
            self.outcomes[number] = Outcome { end: there.end, delivered: there.delivered, ..own };
        }
    }
}

impl FlowCounts {
    fn and(self, more: &FlowCounts) -> FlowCounts {
        FlowCounts {
            sent: self.sent + more.sent,
            retransmitted: self.retransmitted + more.retransmitted,
            gaps: self.gaps + more.gaps,
            cut: self.cut + more.cut,
            timeouts: self.timeouts + more.timeouts,
            marked: self.marked + more.marked,
            notifications: self.notifications + more.notifications,
            grants: self.grants + more.grants,
            out_of_order: self.out_of_order + more.out_of_order,
            unneeded: self.unneeded + more.unneeded,
            payload: self.payload + more.payload,
        }
    }
}
