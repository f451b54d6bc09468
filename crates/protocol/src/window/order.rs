//! The three ordering rules as a checker (MEMORY CHANNEL Ordering Rules).
//!
//! 1. Each target receives the packets of one sender in the order in which they were sent.
//! 2. Packets of several senders are received in the same order at all of their targets: there
//!    is one order of all packets with several targets that every target agrees with, the order in
//!    which they passed "the point of global ordering".
//! 3. Both hold under errors: a target that misses a packet takes none after it on that path, until
//!    the missing one has been sent again.
//!
//! What is accepted is exactly that. Rule 1 is checked at each arrival. For rule 2 a packet is
//! settled once it is the oldest unsettled one at every target of its own: an order of settling is
//! a global order, and if some packets can never settle there is none.

use std::collections::{BTreeMap, VecDeque};

use super::{Node, members};

/// A packet by its sender and its number among all packets of that sender, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketName {
    /// The node that sent it.
    pub sender: Node,
    /// Its place in the order of sending.
    pub number: u64,
}

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// Rule 1, or under errors rule 3.
    #[error(
        "node {target} received packet {} of node {} where {} was next on that path",
        got.number, got.sender, shown(*expected)
    )]
    Sender {
        /// The target.
        target: Node,
        /// The packet that was received.
        got: PacketName,
        /// The packet that should have been received, if any was in flight.
        expected: Option<u64>,
    },
    /// Rule 2.
    #[error("no one order of packets agrees with what all targets received: {}", names(cycle))]
    Several {
        /// Packets, each of which was received before the next one at some target, and the last
        /// before the first.
        cycle: Vec<PacketName>,
    },
}

/// Packets sent and received so far that are not settled everywhere.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct OrderChecker {
    nodes: usize,
    sent: Vec<u64>,
    /// By sender and target: numbers in flight, in order.
    paths: Vec<VecDeque<u64>>,
    /// By target: packets with several targets that have not settled.
    open: Vec<VecDeque<PacketName>>,
    /// Targets of those packets, by sender and number. The numbers of a sender are nearly
    /// consecutive, so one map per sender is enough.
    targets: Vec<VecDeque<(u64, u64)>>,
}

fn shown(number: Option<u64>) -> String {
    number.map_or_else(|| "none".to_owned(), |number| format!("packet {number}"))
}

fn names(packets: &[PacketName]) -> String {
    let name = |packet: &PacketName| format!("{}/{}", packet.sender, packet.number);
    packets.iter().map(name).collect::<Vec<_>>().join(" before ")
}

impl OrderChecker {
    /// A checker for a number of nodes, at most 64.
    pub fn new(nodes: u16) -> OrderChecker {
        let nodes = usize::from(nodes);
        OrderChecker {
            nodes,
            sent: vec![0; nodes],
            paths: vec![VecDeque::new(); nodes * nodes],
            open: vec![VecDeque::new(); nodes],
            targets: vec![VecDeque::new(); nodes],
        }
    }

    /// A sender sends its next packet, to a set of targets; the sender itself is one of them if the
    /// packet is copied back.
    pub fn send(&mut self, sender: Node, targets: u64) -> PacketName {
        let number = self.sent[sender.index()];
        self.sent[sender.index()] += 1;
        if targets.is_power_of_two() {
            let target = targets.trailing_zeros() as usize;
            self.paths[sender.index() * self.nodes + target].push_back(number);
        } else {
            for target in members(targets) {
                self.paths[sender.index() * self.nodes + target.index()].push_back(number);
            }
            self.targets[sender.index()].push_back((number, targets));
        }
        PacketName { sender, number }
    }

    /// A target takes a packet.
    ///
    /// # Errors
    /// [`OrderError::Sender`] if another packet of the sender was next.
    pub fn receive(&mut self, target: Node, packet: PacketName) -> Result<(), OrderError> {
        let path = packet.sender.index() * self.nodes + target.index();
        let expected = self.paths[path].front().copied();
        if expected != Some(packet.number) {
            return Err(OrderError::Sender { target, got: packet, expected });
        }
        self.paths[path].pop_front();
        if self.targets_of(packet).is_some() {
            self.open[target.index()].push_back(packet);
            self.settle(target);
        }
        Ok(())
    }

    /// A node leaves the cluster: nothing is on the way to it any more, and it agrees with all.
    pub fn remove(&mut self, node: Node) {
        self.open[node.index()].clear();
        for sender in 0..self.nodes {
            self.paths[sender * self.nodes + node.index()].clear();
            for (_, targets) in &mut self.targets[sender] {
                *targets &= !node.bit();
            }
        }
        (0..self.nodes).for_each(|target| self.settle(Node(target as u8)));
    }

    /// A packet will not reach one of its targets: its sender left the cluster with it, or the
    /// target did. Nobody waits for it there.
    pub fn abandon(&mut self, target: Node, packet: PacketName) {
        let path = packet.sender.index() * self.nodes + target.index();
        self.paths[path].retain(|number| *number != packet.number);
        let own = &mut self.targets[packet.sender.index()];
        let Ok(place) = own.binary_search_by_key(&packet.number, |(number, _)| *number) else {
            return;
        };
        own[place].1 &= !target.bit();
        let left = own[place].1;
        if left == 0 {
            own.remove(place);
        }
        members(left).for_each(|other| self.settle(other));
    }

    /// Looks for one order of all received packets that are not settled.
    ///
    /// # Errors
    /// [`OrderError::Several`] if there is none.
    pub fn finish(&self) -> Result<(), OrderError> {
        match self.cycle() {
            Some(cycle) => Err(OrderError::Several { cycle }),
            None => Ok(()),
        }
    }

    /// Packets that were sent and have not reached all their targets.
    pub fn on_the_way(&self) -> u64 {
        self.paths.iter().map(|path| path.len() as u64).sum()
    }

    fn targets_of(&self, packet: PacketName) -> Option<u64> {
        let own = &self.targets[packet.sender.index()];
        let place = own.binary_search_by_key(&packet.number, |(number, _)| *number).ok()?;
        Some(own[place].1)
    }

    /// Lets packets settle that are the oldest open ones at all their targets, beginning with the
    /// oldest one at `target`.
    fn settle(&mut self, target: Node) {
        let mut changed = target.bit();
        while changed != 0 {
            let target = changed.trailing_zeros() as usize;
            changed &= changed - 1;
            let Some(&packet) = self.open[target].front() else { continue };
            let targets = self.targets_of(packet).unwrap_or(0);
            if !members(targets).all(|other| self.open[other.index()].front() == Some(&packet)) {
                continue;
            }
            for other in members(targets) {
                self.open[other.index()].pop_front();
            }
            changed |= targets;
            self.forget(packet);
        }
    }

    fn forget(&mut self, packet: PacketName) {
        let own = &mut self.targets[packet.sender.index()];
        if let Ok(place) = own.binary_search_by_key(&packet.number, |(number, _)| *number) {
            own.remove(place);
        }
    }

    /// A cycle among the open packets, if there is one, by walking back from what cannot be first.
    fn cycle(&self) -> Option<Vec<PacketName>> {
        let mut before: BTreeMap<PacketName, Vec<PacketName>> = BTreeMap::new();
        for open in &self.open {
            let mut previous = None;
            for packet in open {
                before.entry(*packet).or_default().extend(previous);
                previous = Some(*packet);
            }
        }
        // Take away what has nothing before it, until only cycles and what follows them are left.
        loop {
            let free = before.iter().find(|(_, earlier)| earlier.is_empty());
            let Some((&packet, _)) = free else { break };
            before.remove(&packet);
            before.values_mut().for_each(|earlier| earlier.retain(|other| *other != packet));
        }
        let mut walk = vec![*before.keys().next()?];
        loop {
            let earlier = before[walk.last()?][0];
            if let Some(place) = walk.iter().position(|packet| *packet == earlier) {
                let mut cycle = walk.split_off(place);
                cycle.reverse();
                return Some(cycle);
            }
            walk.push(earlier);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// A node leaves with a broadcast that one of its targets has: the other may go on, also with
    /// what the node sends when it is back.
    #[test]
    fn what_is_given_up_holds_nobody_up() {
        let mut checker = OrderChecker::new(4);
        let lost = checker.send(M, 0b1100);
        checker.receive(X, lost).unwrap();
        let next = checker.send(M, 0b1100);
        assert!(checker.clone().receive(Y, next).is_err());
        checker.abandon(Y, lost);
        for target in [X, Y] {
            checker.receive(target, next).unwrap();
        }
        assert_eq!((checker.finish(), checker.on_the_way()), (Ok(()), 0));
        assert!(checker.open.iter().all(VecDeque::is_empty), "{:?}", checker.open);
    }

    /// X and Y see two broadcasts in different orders, and X leaves before anybody can know.
    #[test]
    fn what_a_node_has_seen_that_leaves_binds_nobody() {
        let mut checker = OrderChecker::new(4);
        let [one, two] = [M, N].map(|sender| checker.send(sender, 0b1100));
        for (target, packet) in [(X, one), (X, two), (Y, two)] {
            checker.receive(target, packet).unwrap();
        }
        let mut without = checker.clone();
        checker.receive(Y, one).unwrap();
        assert!(checker.finish().is_err());
        without.remove(X);
        without.receive(Y, one).unwrap();
        assert_eq!((without.finish(), without.on_the_way()), (Ok(()), 0));
        assert!(without.open.iter().all(VecDeque::is_empty), "{:?}", without.open);
    }

    /// What everybody has is forgotten, also what waited behind another packet at one of its targets:
    /// a run of any length takes no more memory than its network holds.
    #[test]
    fn what_waited_for_another_packet_settles_behind_it() {
        let mut checker = OrderChecker::new(4);
        let first = checker.send(M, 0b1100);
        let behind = checker.send(N, 0b0101);
        for (target, packet) in [(X, first), (X, behind), (M, behind), (Y, first)] {
            checker.receive(target, packet).unwrap();
        }
        assert!(checker.open.iter().all(VecDeque::is_empty), "{:?}", checker.open);
        assert!(checker.targets.iter().all(VecDeque::is_empty), "{:?}", checker.targets);
    }

    const M: Node = Node(0);
    const N: Node = Node(1);
    const X: Node = Node(2);
    const Y: Node = Node(3);

    /// A sender's packets in order: name and targets.
    type Sent<'a> = &'a [(&'a str, u64)];

    /// Whether the checker accepts what targets received, each list from first to last.
    fn check(
        senders: &[(Node, Sent<'_>)],
        received: &[(Node, &[(Node, &str)])],
    ) -> Result<(), OrderError> {
        let mut checker = OrderChecker::new(4);
        let mut names = BTreeMap::new();
        for (sender, sent) in senders {
            for (name, targets) in *sent {
                names.insert((*sender, *name), checker.send(*sender, *targets));
            }
        }
        for (target, packets) in received {
            for (sender, name) in *packets {
                checker.receive(*target, names[&(*sender, *name)])?;
            }
        }
        checker.finish()
    }

    const OF_M: Sent<'static> =
        &[("P1X", 1 << 2), ("B1", 0b1110), ("P1Y", 1 << 3), ("P2X", 1 << 2)];

    /// N's own sequence is lost in the copy; this one agrees with the order printed for X and Y.
    const OF_N: Sent<'static> = &[
        ("P1X", 1 << 2),
        ("P1Y", 1 << 3),
        ("B1", 0b1101),
        ("P2Y", 1 << 3),
        ("B2", 0b1101),
        ("P2X", 1 << 2),
        ("P3X", 1 << 2),
    ];

    /// The first worked example: X sees P1, B1, P2; Y sees B1, P1.
    #[test]
    fn one_sender_as_printed() {
        let at_x = [(M, "P1X"), (M, "B1"), (M, "P2X")];
        let at_y = [(M, "B1"), (M, "P1Y")];
        assert_eq!(check(&[(M, OF_M)], &[(X, &at_x), (Y, &at_y)]), Ok(()));
        let swapped = [(M, "P1Y"), (M, "B1")];
        let refused = check(&[(M, OF_M)], &[(X, &at_x), (Y, &swapped)]);
        let text = "node 3 received packet 2 of node 0 where packet 1 was next on that path";
        assert_eq!(refused.map_err(|error| error.to_string()), Err(text.to_owned()));
    }

    /// The second worked example, with the broadcasts swapped at one target as the counterexample.
    #[test]
    fn two_senders_as_printed() {
        let senders = [(M, OF_M), (N, OF_N)];
        let at_x = [
            (M, "P1X"),
            (N, "P1X"),
            (N, "B1"),
            (M, "B1"),
            (N, "B2"),
            (M, "P2X"),
            (N, "P2X"),
            (N, "P3X"),
        ];
        let at_y = [(N, "P1Y"), (N, "B1"), (M, "B1"), (M, "P1Y"), (N, "P2Y"), (N, "B2")];
        assert_eq!(check(&senders, &[(X, &at_x), (Y, &at_y)]), Ok(()));
        let other = [(N, "P1Y"), (M, "B1"), (N, "B1"), (M, "P1Y"), (N, "P2Y"), (N, "B2")];
        let refused = check(&senders, &[(X, &at_x), (Y, &other)]);
        let text = "no one order of packets agrees with what all targets received: 1/2 before 0/1";
        assert_eq!(refused.map_err(|error| error.to_string()), Err(text.to_owned()));
    }

    /// Three targets of which every two agree, and all three do not.
    #[test]
    fn an_order_in_a_cycle_is_refused() {
        let one: Sent<'_> = &[("B", 0b1100)];
        let two: Sent<'_> = &[("B", 0b1010)];
        let three: Sent<'_> = &[("B", 0b0110)];
        let senders = [(Node(0), one), (Node(1), two), (Node(3), three)];
        let received: [(Node, &[(Node, &str)]); 3] = [
            (Node(3), &[(Node(0), "B"), (Node(1), "B")]),
            (Node(1), &[(Node(1), "B"), (Node(3), "B")]),
            (Node(2), &[(Node(3), "B"), (Node(0), "B")]),
        ];
        let refused = check(&senders, &received);
        assert!(matches!(refused, Err(OrderError::Several { cycle }) if cycle.len() == 3));
    }

    #[test]
    fn what_follows_a_lost_packet_is_not_taken_before_it() {
        let refused = check(&[(M, OF_M)], &[(X, &[(M, "P1X"), (M, "P2X")])]);
        assert!(matches!(refused, Err(OrderError::Sender { expected: Some(1), .. })));
    }

    /// All orders of a few packets at two targets: accepted are those, and only those, that some
    /// interleaving of the two senders at one point of ordering produces.
    #[test]
    fn exactly_the_orders_of_one_point_are_accepted() {
        let of_m: Sent<'_> = &[("P", 1 << 2), ("B", 0b1100)];
        let of_n: Sent<'_> = &[("B", 0b1100), ("Q", 1 << 3), ("C", 0b1100)];
        let all: Vec<(Node, &str, u64)> = of_m
            .iter()
            .map(|(name, to)| (M, *name, *to))
            .chain(of_n.iter().map(|(name, to)| (N, *name, *to)))
            .collect();
        let at = |node: Node, order: &[usize]| -> Vec<(Node, &str)> {
            order
                .iter()
                .map(|packet| all[*packet])
                .filter(|(_, _, to)| to & node.bit() != 0)
                .map(|(sender, name, _)| (sender, name))
                .collect()
        };
        let orders = permutations(all.len());
        let in_order = |order: &[usize]| {
            let place = |packet: usize| order.iter().position(|other| *other == packet);
            place(0) < place(1) && place(2) < place(3) && place(3) < place(4)
        };
        let possible: BTreeSet<_> = orders
            .iter()
            .filter(|order| in_order(order))
            .map(|order| (at(X, order), at(Y, order)))
            .collect();
        let (all_x, all_y): (BTreeSet<_>, BTreeSet<_>) =
            orders.iter().map(|order| (at(X, order), at(Y, order))).unzip();
        let mut accepted = 0;
        for at_x in &all_x {
            for at_y in &all_y {
                let verdict = check(&[(M, of_m), (N, of_n)], &[(X, at_x), (Y, at_y)]);
                let expected = possible.contains(&(at_x.clone(), at_y.clone()));
                assert_eq!(verdict.is_ok(), expected, "{at_x:?} {at_y:?}");
                accepted += usize::from(expected);
            }
        }
        assert_eq!((accepted, all_x.len() * all_y.len()), (possible.len(), 24 * 24));
    }

    fn permutations(count: usize) -> Vec<Vec<usize>> {
        let mut all = vec![vec![]];
        for item in 0..count {
            all = all
                .into_iter()
                .flat_map(|order: Vec<usize>| {
                    (0..=order.len()).map(move |place| {
                        let mut order = order.clone();
                        order.insert(place, item);
                        order
                    })
                })
                .collect();
        }
        all
    }

    proptest! {
        /// Whatever passes one point of ordering is accepted, and leaves nothing open; two
        /// neighbouring broadcasts of different senders swapped at one target are refused.
        #[test]
        fn one_point_is_accepted_and_a_swap_is_not(
            packets in proptest::collection::vec((0_u8..4, prop::option::of(0_u8..4)), 1..60),
            swap in any::<prop::sample::Index>(),
        ) {
            let targets = |to: Option<u8>| to.map_or(0b1111, |node| 1 << node);
            let mut checker = OrderChecker::new(4);
            let named: Vec<_> = packets.iter()
                .map(|(from, to)| (checker.send(Node(*from), targets(*to)), targets(*to)))
                .collect();
            let mut swapped = checker.clone();
            for node in 0..4 {
                for (name, to) in &named {
                    if to >> node & 1 == 1 {
                        prop_assert_eq!(checker.receive(Node(node), *name), Ok(()));
                    }
                }
            }
            prop_assert_eq!((checker.finish(), checker.on_the_way()), (Ok(()), 0));
            prop_assert!(checker.open.iter().all(VecDeque::is_empty));

            let several: Vec<_> = named.iter().filter(|(_, to)| *to == 0b1111).collect();
            let pairs: Vec<_> = several.windows(2)
                .filter(|pair| pair[0].0.sender != pair[1].0.sender).collect();
            if pairs.is_empty() {
                return Ok(());
            }
            let pair = swap.get(&pairs);
            for node in 0..4 {
                let mut order: Vec<_> = several.iter().map(|(name, _)| *name).collect();
                if node == 2 {
                    let place = order.iter().position(|name| *name == pair[0].0).unwrap();
                    order.swap(place, place + 1);
                }
                for (name, to) in &named {
                    if *to == 1 << node {
                        // Only the order of those with several targets matters here.
                        swapped.paths[name.sender.index() * 4 + usize::from(node)]
                            .retain(|number| *number != name.number);
                    }
                }
                for name in order {
                    prop_assert_eq!(swapped.receive(Node(node), name), Ok(()));
                }
            }
            prop_assert!(swapped.finish().is_err());
        }
    }
}
