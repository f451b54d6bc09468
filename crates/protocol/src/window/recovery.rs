//! What software retransmits after an error, and in which order.
//!
//! The cluster software asks all nodes over the marked pages what they have received, and then has
//! lost packets sent again one after another. The order matters: a target that missed two
//! broadcasts of different senders must see them in the order in which the others saw them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Node, OrderError, PacketName, members};

/// What the nodes answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// By sender: the number of its first packet below; 0 where none is given.
    pub first: Vec<u64>,
    /// By sender: the targets of each packet, in the order of sending.
    pub sent: Vec<Vec<u64>>,
    /// By target: the packets that it took, in the order in which it took them.
    pub received: Vec<Vec<PacketName>>,
}

/// A packet to be retransmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retransmission {
    /// Which.
    pub packet: PacketName,
    /// The targets that miss it.
    pub targets: u64,
}

/// The packets to send again, one after another. Nodes outside `on_line` are not considered.
///
/// # Errors
/// [`OrderError::Several`] if what was received agrees with no order: the rules were broken before.
pub fn plan(survey: &Survey, on_line: u64) -> Result<Vec<Retransmission>, OrderError> {
    let mut after: BTreeMap<PacketName, BTreeSet<PacketName>> = BTreeMap::new();
    let mut missing: BTreeMap<PacketName, u64> = BTreeMap::new();
    for (sender, sent) in survey.sent.iter().enumerate() {
        let mut previous = None;
        let first = survey.first.get(sender).copied().unwrap_or(0);
        for (number, targets) in (first..).zip(sent) {
            let packet = PacketName { sender: Node(sender as u8), number };
            after.entry(packet).or_default().extend(previous);
            missing.insert(packet, targets & on_line);
            previous = Some(packet);
        }
    }
    let live = |node: &usize| on_line >> node & 1 == 1;
    for target in (0..survey.received.len()).filter(live) {
        let received = &survey.received[target];
        for pair in received.windows(2) {
            after.entry(pair[0]).or_default();
            after.entry(pair[1]).or_default().insert(pair[0]);
        }
        for packet in received {
            missing.entry(*packet).and_modify(|targets| *targets &= !(1 << target));
        }
        // What a target misses comes after all that it took.
        let Some(last) = received.last() else { continue };
        after.entry(*last).or_default();
        for (packet, _) in missing.iter().filter(|(_, targets)| *targets >> target & 1 == 1) {
            after.entry(*packet).or_default().insert(*last);
        }
    }
    in_order(after, &missing)
}

fn in_order(
    after: BTreeMap<PacketName, BTreeSet<PacketName>>,
    missing: &BTreeMap<PacketName, u64>,
) -> Result<Vec<Retransmission>, OrderError> {
    let mut before: BTreeMap<PacketName, Vec<PacketName>> = BTreeMap::new();
    let mut earlier: BTreeMap<PacketName, usize> = BTreeMap::new();
    for (packet, own) in &after {
        earlier.insert(*packet, own.len());
        own.iter().for_each(|first| before.entry(*first).or_default().push(*packet));
    }
    let free = earlier.iter().filter(|(_, count)| **count == 0);
    let mut free: BTreeSet<PacketName> = free.map(|(packet, _)| *packet).collect();
    let mut again = Vec::new();
    while let Some(packet) = free.pop_first() {
        earlier.remove(&packet);
        for later in before.get(&packet).into_iter().flatten() {
            if let Some(count) = earlier.get_mut(later) {
                *count -= 1;
                if *count == 0 {
                    free.insert(*later);
                }
            }
        }
        let targets = missing.get(&packet).copied().unwrap_or(0);
        if members(targets).next().is_some() {
            again.push(Retransmission { packet, targets });
        }
    }
    if earlier.is_empty() {
        return Ok(again);
    }
    Err(OrderError::Several { cycle: earlier.into_keys().collect() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Admission, OrderChecker, Path};
    use super::*;

    const NODES: u16 = 4;

    /// Sends packets through one point of ordering; the packet with number `damaged` on the way to
    /// each target is damaged, and its path discards what follows.
    fn run(packets: &[(u8, Option<u8>)], damaged: &[Option<usize>; 4]) -> (Survey, OrderChecker) {
        let mut checker = OrderChecker::new(NODES);
        let mut survey =
            Survey { sent: vec![vec![]; 4], received: vec![vec![]; 4], ..Survey::default() };
        let mut paths = [Path::new(1); 4];
        let mut came = [0; 4];
        for (from, to) in packets {
            let targets = to.map_or(0b1111, |node| 1 << node);
            let name = checker.send(Node(*from), targets);
            survey.sent[usize::from(*from)].push(targets);
            for target in members(targets) {
                let at = target.index();
                let whole = damaged[at] != Some(came[at]);
                came[at] += 1;
                if paths[at].arrive(whole, false) == Admission::Accept {
                    checker.receive(target, name).unwrap();
                    survey.received[at].push(name);
                }
            }
        }
        (survey, checker)
    }

    #[test]
    fn two_lost_broadcasts_come_again_in_the_order_of_the_others() {
        // Node 1 broadcasts before node 0; node 3 misses both.
        let (survey, checker) = run(&[(1, None), (0, None)], &[None, None, None, Some(0)]);
        let again = plan(&survey, 0b1111).unwrap();
        let packet = |sender| PacketName { sender: Node(sender), number: 0 };
        let expected = [1, 0].map(|sender| Retransmission { packet: packet(sender), targets: 8 });
        assert_eq!(again, expected);
        // The order of the senders' numbers would break rule 2.
        let mut naive = checker;
        for sender in [0, 1] {
            naive.receive(Node(3), packet(sender)).unwrap();
        }
        assert!(naive.finish().is_err());
    }

    /// No node has both broadcasts, so that only a node that took the first and misses the second
    /// reveals their order, which is not that of the senders' numbers.
    #[test]
    fn what_a_target_misses_comes_behind_what_it_took() {
        let damaged = [Some(0), Some(1), Some(0), Some(1)];
        let (survey, mut checker) = run(&[(1, None), (0, None)], &damaged);
        let again = plan(&survey, 0b1111).unwrap();
        let order: Vec<u8> = again.iter().map(|one| one.packet.sender.0).collect();
        assert_eq!(order, [1, 0]);
        for Retransmission { packet, targets } in again {
            members(targets).for_each(|target| checker.receive(target, packet).unwrap());
        }
        assert_eq!((checker.finish(), checker.on_the_way()), (Ok(()), 0));
    }

    #[test]
    fn what_a_removed_node_misses_is_not_sent_again() {
        let (survey, _) = run(&[(1, None), (0, Some(3))], &[None, None, None, Some(0)]);
        assert_eq!(plan(&survey, 0b0111), Ok(vec![]));
    }

    #[test]
    fn a_survey_that_agrees_with_no_order_is_refused() {
        let packet = |sender| PacketName { sender: Node(sender), number: 0 };
        let survey = Survey {
            sent: vec![vec![0b1100], vec![0b1100]],
            received: vec![vec![], vec![], vec![packet(0), packet(1)], vec![packet(1), packet(0)]],
            ..Survey::default()
        };
        assert!(matches!(plan(&survey, 0b1111), Err(OrderError::Several { .. })));
    }

    proptest! {
        /// Errors on every path at once: after the retransmissions every target has every packet,
        /// and all three rules hold.
        #[test]
        fn recovery_restores_every_packet_in_a_valid_order(
            packets in proptest::collection::vec((0_u8..4, prop::option::of(0_u8..4)), 1..40),
            damaged in any::<[Option<u8>; 4]>(),
        ) {
            let damaged = damaged.map(|place| place.map(|place| usize::from(place) % 40));
            let (survey, mut checker) = run(&packets, &damaged);
            for Retransmission { packet, targets } in plan(&survey, 0b1111).unwrap() {
                for target in members(targets) {
                    prop_assert_eq!(checker.receive(target, packet), Ok(()));
                }
            }
            prop_assert_eq!((checker.finish(), checker.on_the_way()), (Ok(()), 0));
        }
    }
}
