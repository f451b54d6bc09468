//! What the ends of a flow respond.

use weft_protocol::transport::Answer;
use weft_units::{Bytes, Time};

use super::{Content, Outgoing, SeenOnPath, Segment, Transports};

impl Transports {
    /// The responses to the packet that arrived last, in the order in which they are sent. The caller gives the list
    /// [back](Self::return_answers) before the next packet arrives, so that its room is used again.
    #[inline]
    pub fn take_answers(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.answers)
    }

    /// Takes back the list of responses, which have been sent.
    #[inline]
    pub fn return_answers(&mut self, answers: Vec<Outgoing>) {
        self.answers = answers;
    }

    /// The response of a target that has received the whole flow.
    pub(super) fn has_all(&self, segment: &Segment, number: u32, path: SeenOnPath) -> Outgoing {
        let expected = self.packets(segment.flow);
        let answer = Answer { expected, number, before: 0, is_refusal: false };
        self.answer(segment, answer, path)
    }

    pub(super) fn answer(&self, segment: &Segment, answer: Answer, path: SeenOnPath) -> Outgoing {
        let SeenOnPath { is_marked, hops } = path;
        let content = Content::Acknowledgment { answer, is_marked, hops };
        self.control_packet(segment, content, segment.sent)
    }

    /// The response to a packet, which takes the same spraying value as the packet.
    pub(super) fn control_packet(&self, of: &Segment, content: Content, sent: Time) -> Outgoing {
        Outgoing {
            segment: Segment { content, sent, ..*of },
            to: self.flow(of.flow).from,
            size: self.settings.acknowledgment,
            payload: Bytes(0),
            class: self.settings.acknowledgment_class,
            is_first: false,
        }
    }
}
