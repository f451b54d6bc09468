//! Packets that go through a switch without a wait whose end is not known: nearly all.

use weft_units::Time;

use super::{Header, Ports};
use crate::switch::PortPair;

/// How a packet goes through a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// When it arrives at the far end of the cable.
    pub arrival: Time,
    /// Where.
    pub peer: u32,
}

impl Ports {
    /// Whether packets may [pass](Self::pass) anywhere: no cable gives credits, and a packet joins
    /// its queue as soon as it is in the memory.
    pub fn let_pass(&self) -> bool {
        self.are_alike() && !self.credits.are_given()
    }

    /// A packet enters the memory of a switch from an input for an output. If it is simply held,
    /// starts at once or may be [planned](Self::plan), and its departure needs no event, all of
    /// that happens in one step, with the same result as in several. Otherwise nothing happens to
    /// it.
    #[inline(always)]
    pub fn pass(
        &mut self,
        now: Time,
        output: u32,
        packet: u32,
        header: &mut Header,
    ) -> Option<Passage> {
        let window = self.window;
        let mut at = self.output(output);
        if at.own.has_left(now) {
            at.let_leave(now);
        }
        let (own, rule) = (&*at.own, &*at.rule);
        let is_held = (own.waiting | own.paused) != 0 || own.has_to_tell;
        let is_told = rule.tells_all || rule.pausing > 0 || rule.most < u32::MAX;
        let is_busy = own.is_busy;
        if is_held || is_told || (is_busy && !at.may_plan(header)) {
            return None;
        }
        let (own, rule) = (&mut *at.own, &mut *at.rule);
        let ports = PortPair { input: header.input, output }.counted_from(rule.first);
        if !rule.memory.as_mut()?.hold(ports, header.class, header.size.into()) {
            return None;
        }
        let mut marked = 0;
        let (start, span) = match is_busy {
            true => at.put_behind(packet, header, window, &mut marked),
            false => {
                let span = at.link.note_span(header.size);
                own.start(header);
                (own.until, own.is_noted) = (now + span, false);
                own.occupy(now, span, window);
                (now, span)
            }
        };
        let (arrival, peer) = (start + at.kind.delay(span), at.own.peer);
        if marked > 0 {
            self.count_marked(now, output, marked);
        }
        Some(Passage { arrival, peer })
    }
}
