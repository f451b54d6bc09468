//! Damaged packets on the way to a host: the adapter discards everything behind one, software recovers
//! the path, and what was lost comes again in the order of the hub, before anything newer.
//!
//! The bytes of each packet are really made, a damaged one with a wrong bit, and the Reed-Solomon code
//! is really asked. Lost packets keep their room in the adapter, so that the hub holds the rest back.

use std::collections::VecDeque;

use weft_fabric::link::Errors;
use weft_fabric::measure::Drop;
use weft_kernel::{Id, Streams};
use weft_protocol::window::{Admission, Command, DataPacket, Node, Path, Payload};
use weft_units::{Bytes, Time};

use super::host::Packet;
use super::{Event, HubChannel, HubParts};

/// A host knows of as many damaged recoveries in a row as it likes: the network never fails for good
/// in a run.
const TRIES: u8 = u8::MAX;

/// The way to one host.
#[derive(Debug)]
pub(super) struct Losses {
    errors: Errors,
    path: Path,
    /// Lost packets, in order.
    lost: VecDeque<Id<Packet>>,
}

impl Losses {
    pub fn new(parts: &HubParts, streams: &Streams, host: u16) -> Option<Box<Losses>> {
        if parts.errors.is_free_of_errors() {
            return None;
        }
        let errors = parts.errors.build(streams, &parts.name, host);
        Some(Box::new(Losses { errors, path: Path::new(TRIES), lost: VecDeque::new() }))
    }

    /// Whether the code of the next packet is right at the end of the way.
    fn is_whole(&mut self, packet: &Packet, target: u16) -> bool {
        // The codes of the smallest and of odd payloads are those of the next even ones.
        let payload = packet.size.0.clamp(4, 256).next_multiple_of(2);
        let Ok(payload) = Payload::new(vec![0x5a; payload as usize]) else { return true };
        let sent = DataPacket {
            destination: Node(target as u8),
            sender: Node(packet.from as u8),
            command: Command::WRITE,
            address: 0,
            payload,
        };
        let mut bytes = sent.encode();
        let size = Bytes(bytes.len() as u64);
        if self.errors.damages_next(None, size) {
            let bit = self.errors.wrong_bit(size);
            bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        DataPacket::decode(&bytes).is_ok()
    }
}

impl HubChannel {
    /// Whether the adapter of a target takes a packet that comes; otherwise it is lost for now.
    pub(super) fn admits(&mut self, now: Time, id: Id<Packet>, target: u16) -> bool {
        let Some(losses) = &mut self.hosts[usize::from(target)].losses else { return true };
        let whole = losses.is_whole(&self.packets[id], target);
        match losses.path.arrive(whole, false) {
            Admission::Accept => return true,
            Admission::Discard => self.observations.drop(Drop::OutOfOrder, now),
            Admission::Damaged => self.observations.drop(Drop::Corrupted, now),
        }
        // The first one calls the software.
        if losses.path.recover() {
            self.queue.push(now + self.parts.window.recovery, Event::Again(target));
        }
        losses.lost.push_back(id);
        false
    }

    /// The oldest lost packet of a host comes again; behind the last one the path is as before.
    pub(super) fn send_again(&mut self, now: Time, target: u16) {
        let host = &mut self.hosts[usize::from(target)];
        let Some(losses) = &mut host.losses else { return };
        let Some(&id) = losses.lost.front() else { return };
        let packet = &mut self.packets[id];
        if !losses.is_whole(packet, target) {
            self.observations.drop(Drop::Corrupted, now);
            self.queue.push(now + self.parts.window.recovery, Event::Again(target));
            return;
        }
        losses.lost.pop_front();
        match losses.lost.front() {
            Some(_) => {
                let span = packet.span;
                self.queue.push(now + span, Event::Again(target));
            }
            None => {
                losses.path.resume();
            }
        }
        host.incoming.push_back(id);
        self.serve_bus(now, target);
    }
}
