//! Transfers of a globally scheduled channel from start to outcome: what targets accept, and how
//! initiators recover from failures (Clint 3.1 to 3.3).
//!
//! Packets of a pair arrive in order (Clint 3.2), although a failure becomes known only after later
//! packets of the pair may have been sent. The paper does not say how. Here a target accepts no
//! packet while an older one of the pair is missing, and an initiator that learns of a failure
//! retransmits everything of the pair from there on, which is at most one more packet. A transfer
//! names the oldest packet of its pair that the initiator has not settled, so that a target does not
//! wait for a packet that was given up.
//!
//! The caller reports arrivals and known outcomes, and the part returns what follows. It owns no
//! clock and no send buffers.

use weft_kernel::{Arena, Id};
use weft_protocol::adapter::TransmissionError;
use weft_units::Time;

use super::{Reception, Recovery, RecoverySettings};
use crate::adapter::BulkPacket;

/// One packet, from its start at the initiator until its outcome is known.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// The host that sends it.
    pub initiator: u16,
    /// The packet.
    pub packet: BulkPacket,
    /// When its first byte was sent.
    pub start: Time,
    /// The cycle whose grant it uses.
    pub cycle: u64,
    /// How its target received it; absent until it has arrived, and if the target stays silent
    /// because an older packet of the pair is missing.
    pub reception: Option<Reception>,
    /// The oldest packet of the pair that the initiator has not settled.
    base: u64,
    damaged: bool,
    /// The initiator knows its outcome, or retransmits it whatever the outcome.
    is_settled: bool,
}

/// What happens to a packet that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The target takes it.
    New,
    /// The target has taken it before, and confirms it once more.
    Duplicate,
    /// An older packet of the pair is missing. The target stays silent.
    OutOfOrder,
    /// The target has no receive buffer for it.
    Refused,
    /// Its check code is wrong. The target stays silent.
    Damaged,
}

/// What the initiator does once the outcome of a transfer is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The packet has arrived.
    Delivered(BulkPacket),
    /// The transfer failed.
    Failed(Failure),
}

/// The consequence of a failed transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why it failed.
    pub error: TransmissionError,
    /// Later packets of the pair that are in flight in vain, oldest first: they must be
    /// retransmitted.
    pub voided: Vec<BulkPacket>,
    /// The packet itself, for a retransmission.
    pub packet: BulkPacket,
    /// What happens to it.
    pub recovery: Recovery,
}

/// All transfers of a channel.
#[derive(Debug)]
pub struct Transfers {
    recovery: RecoverySettings,
    all: Arena<Transfer>,
    /// By initiator, oldest first: at most three.
    under_way: Vec<Vec<Id<Transfer>>>,
    /// The number that a target expects next, by target and initiator.
    expected: Vec<Vec<u64>>,
}

impl Transfers {
    /// No transfers between this many hosts.
    pub fn new(recovery: RecoverySettings, hosts: usize) -> Transfers {
        let expected = vec![vec![0; hosts]; hosts];
        Transfers { recovery, all: Arena::new(), under_way: vec![Vec::new(); hosts], expected }
    }

    /// A transfer that has not [ended](Self::end).
    pub fn get(&self, id: Id<Transfer>) -> &Transfer {
        &self.all[id]
    }

    /// An initiator starts to send a packet, which arrives `damaged` or whole.
    pub fn begin(
        &mut self,
        start: Time,
        cycle: u64,
        initiator: u16,
        packet: BulkPacket,
        damaged: bool,
    ) -> Id<Transfer> {
        let under_way = &mut self.under_way[usize::from(initiator)];
        let of_initiator = under_way.iter().map(|id| self.all[*id].packet);
        let of_pair = of_initiator.filter(|other| other.target == packet.target);
        let oldest = of_pair.map(|other| other.sequence).min();
        let base = oldest.map_or(packet.sequence, |oldest| oldest.min(packet.sequence));
        let id = self.all.insert(Transfer {
            initiator,
            packet,
            start,
            cycle,
            reception: None,
            base,
            damaged,
            is_settled: false,
        });
        under_way.push(id);
        id
    }

    /// The last byte of a packet has reached its target, which accepts it if it is the next one of
    /// its pair and `take` has a receive buffer for it.
    pub fn arrive(&mut self, id: Id<Transfer>, take: impl FnOnce(&Transfer) -> bool) -> Taken {
        let transfer = &mut self.all[id];
        let Transfer { initiator, packet, base, damaged, .. } = *transfer;
        let of_target = &mut self.expected[usize::from(packet.target)];
        let expected = &mut of_target[usize::from(initiator)];
        let taken = if damaged {
            Taken::Damaged
        } else {
            *expected = base.max(*expected);
            match packet.sequence.cmp(expected) {
                std::cmp::Ordering::Less => Taken::Duplicate,
                std::cmp::Ordering::Greater => Taken::OutOfOrder,
                std::cmp::Ordering::Equal if take(transfer) => Taken::New,
                std::cmp::Ordering::Equal => Taken::Refused,
            }
        };
        *expected += u64::from(taken == Taken::New);
        transfer.reception = match taken {
            Taken::New | Taken::Duplicate => Some(Reception::Accepted),
            Taken::Refused => Some(Reception::NoReceiveBuffer),
            Taken::Damaged => Some(Reception::Corrupted),
            Taken::OutOfOrder => None,
        };
        taken
    }

    /// The initiator learns the outcome of a transfer: from a response, which says how the target
    /// received it, or from silence. Returns what follows, unless the outcome no longer matters.
    pub fn settle(&mut self, id: Id<Transfer>, answer: Option<Reception>) -> Option<Settled> {
        let Transfer { initiator, packet, is_settled, .. } = self.all[id];
        if is_settled {
            return None;
        }
        self.all[id].is_settled = true;
        let error = match answer {
            Some(Reception::Accepted) => return Some(Settled::Delivered(packet)),
            Some(Reception::NoReceiveBuffer) => TransmissionError::NoReceiveBuffer,
            Some(Reception::Corrupted) | None => TransmissionError::NoAcknowledgment,
        };
        let recovery = self.recovery.after(packet.attempts);
        let attempts = if recovery == Recovery::Resubmit { 0 } else { packet.attempts };
        Some(Settled::Failed(Failure {
            error,
            voided: self.void(initiator, &packet),
            packet: BulkPacket { attempts, ..packet },
            recovery,
        }))
    }

    /// Settles the transfers of later packets of the pair, which the target refuses.
    fn void(&mut self, initiator: u16, packet: &BulkPacket) -> Vec<BulkPacket> {
        let Transfers { all, under_way, .. } = self;
        let mut voided = Vec::new();
        for id in &under_way[usize::from(initiator)] {
            let other = &mut all[*id];
            let is_later = other.packet.sequence > packet.sequence;
            if is_later && !other.is_settled && other.packet.target == packet.target {
                other.is_settled = true;
                // It had no chance to succeed, so the attempt does not count.
                let attempts = other.packet.attempts.saturating_sub(1);
                voided.push(BulkPacket { attempts, ..other.packet });
            }
        }
        voided
    }

    /// The acknowledgment stage of a transfer is over, and its outcome settled.
    pub fn end(&mut self, id: Id<Transfer>) {
        let initiator = usize::from(self.all[id].initiator);
        self.under_way[initiator].retain(|other| *other != id);
        self.all.remove(id);
    }

    /// Whether the target of a packet has not taken it.
    pub fn is_missing(&self, initiator: usize, packet: &BulkPacket) -> bool {
        packet.sequence >= self.expected[usize::from(packet.target)][initiator]
    }

    /// The packets of an initiator that are in flight: neither taken nor settled.
    pub fn missing(&self, initiator: usize) -> u64 {
        let transfers = self.under_way[initiator].iter().map(|id| &self.all[*id]);
        let unsettled = transfers.filter(|transfer| !transfer.is_settled);
        unsettled.filter(|transfer| self.is_missing(initiator, &transfer.packet)).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use weft_units::Limit;

    use super::*;
    use crate::control::OnError;

    fn packet(target: u16, sequence: u64, attempts: u32) -> BulkPacket {
        let first = Some(Time(2));
        BulkPacket { target, sequence, generated: Time(0), buffered: Time(1), first, attempts }
    }

    fn transfers(attempts: Option<u32>, on_error: OnError) -> Transfers {
        let limit = |count| Limit::at_most(count).expect("positive");
        let attempts = attempts.map_or(Limit::Unlimited, limit);
        Transfers::new(RecoverySettings { attempts, on_error }, 4)
    }

    /// Host 1 starts to send in a cycle.
    fn begin(transfers: &mut Transfers, packet: BulkPacket, damaged: bool) -> Id<Transfer> {
        transfers.begin(Time(2), 0, 1, packet, damaged)
    }

    fn failure(settled: Option<Settled>) -> Failure {
        match settled {
            Some(Settled::Failed(failure)) => failure,
            other => panic!("{other:?}"),
        }
    }

    /// Packets 0 and 1 for host 3 and one for host 2, of which the first is damaged: packet 1 goes
    /// again with it, and the one for host 2 does not.
    #[test]
    fn what_follows_a_failure_in_a_pair_goes_again() {
        let mut transfers = transfers(None, OnError::SendAgain);
        let first = begin(&mut transfers, packet(3, 0, 1), true);
        let other = begin(&mut transfers, packet(2, 0, 1), false);
        let second = begin(&mut transfers, packet(3, 1, 1), false);
        assert_eq!(transfers.arrive(first, |_| true), Taken::Damaged);
        assert_eq!(transfers.arrive(other, |_| true), Taken::New);
        assert_eq!(transfers.missing(1), 2);
        let failed = failure(transfers.settle(first, None));
        assert_eq!(
            (failed.error, failed.recovery),
            (TransmissionError::NoAcknowledgment, Recovery::Retry)
        );
        assert_eq!((failed.packet, failed.voided), (packet(3, 0, 1), vec![packet(3, 1, 0)]));
        assert_eq!(transfers.arrive(second, |_| true), Taken::OutOfOrder);
        assert_eq!(transfers.settle(second, None), None, "it goes again whatever became of it");
        let answer = transfers.get(other).reception;
        assert_eq!(transfers.settle(other, answer), Some(Settled::Delivered(packet(2, 0, 1))));
        [first, other, second].into_iter().for_each(|id| transfers.end(id));
        // Both again, now in order.
        for sequence in [0, 1] {
            let id = begin(&mut transfers, packet(3, sequence, 2), false);
            assert_eq!(transfers.arrive(id, |_| true), Taken::New);
        }
        assert_eq!(transfers.missing(1), 0);
    }

    /// Its acknowledgment was lost, so that the initiator sends it again: the target confirms it and
    /// does not ask for a receive buffer.
    #[test]
    fn what_the_target_has_is_confirmed_once_more() {
        let mut transfers = transfers(None, OnError::SendAgain);
        let first = begin(&mut transfers, packet(3, 0, 1), false);
        assert_eq!(transfers.arrive(first, |_| true), Taken::New);
        assert_eq!(failure(transfers.settle(first, None)).recovery, Recovery::Retry);
        transfers.end(first);
        let again = begin(&mut transfers, packet(3, 0, 2), false);
        assert_eq!(transfers.arrive(again, |_| unreachable!()), Taken::Duplicate);
        assert_eq!(transfers.get(again).reception, Some(Reception::Accepted));
    }

    /// Packet 0 is refused and given up after one attempt. Packet 1 is out of order, since it was sent
    /// before that was known; sent again it names itself as the oldest, and is taken.
    #[test]
    fn a_target_does_not_wait_for_what_was_given_up() {
        let mut transfers = transfers(Some(1), OnError::GiveUp);
        let first = begin(&mut transfers, packet(3, 0, 1), false);
        let second = begin(&mut transfers, packet(3, 1, 1), false);
        assert_eq!(transfers.arrive(first, |_| false), Taken::Refused);
        let answer = transfers.get(first).reception;
        assert_eq!(transfers.arrive(second, |_| true), Taken::OutOfOrder);
        let failed = failure(transfers.settle(first, answer));
        assert_eq!(failed.error, TransmissionError::NoReceiveBuffer);
        assert_eq!((failed.recovery, failed.voided), (Recovery::GiveUp, vec![packet(3, 1, 0)]));
        assert!(transfers.is_missing(1, &packet(3, 0, 1)));
        [first, second].into_iter().for_each(|id| transfers.end(id));
        let again = begin(&mut transfers, packet(3, 1, 1), false);
        assert_eq!(transfers.arrive(again, |_| true), Taken::New);
        assert!(!transfers.is_missing(1, &packet(3, 0, 1)), "nobody waits for it any more");
    }

    #[test]
    fn a_host_that_hands_a_packet_over_again_has_all_attempts_again() {
        let mut transfers = transfers(Some(2), OnError::SendAgain);
        let failed = |transfers: &mut Transfers, attempts| {
            let id = begin(transfers, packet(3, 0, attempts), true);
            let failed = failure(transfers.settle(id, None));
            transfers.end(id);
            (failed.recovery, failed.packet.attempts)
        };
        assert_eq!(failed(&mut transfers, 1), (Recovery::Retry, 1));
        assert_eq!(failed(&mut transfers, 2), (Recovery::Resubmit, 0));
    }
}
