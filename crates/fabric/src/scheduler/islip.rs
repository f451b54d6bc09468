//! iSLIP: rounds of request, grant and accept with round-robin pointers that desynchronise.
//!
//! N. McKeown, "The iSLIP scheduling algorithm for input-queued switches", IEEE/ACM Transactions
//! on Networking 7(2), 1999, section III.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::Stream;

use super::ports::{PerPort, PortSet, after};
use super::{Algorithm, Iterations, Matching, Requests, Scheduler};

/// Settings of iSLIP.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IslipSettings {
    /// Rounds of request, grant and accept in a slot.
    pub iterations: Iterations,
}

impl Algorithm for IslipSettings {
    type Scheduler<const W: usize> = Islip<W>;

    fn build<const W: usize>(&self, ports: usize) -> Islip<W> {
        Islip {
            ports,
            iterations: self.iterations.get(),
            grant_pointers: PerPort::new(0),
            accept_pointers: PerPort::new(0),
            grants: PerPort::new(PortSet::EMPTY),
        }
    }

    fn is_maximal(&self) -> bool {
        self.iterations.always_converge()
    }

    /// McKeown 1999, section III: a target waits at most `ports` slots for each initiator that
    /// its pointer meets before the one that stands.
    fn serves_unchanged_within(&self, ports: usize) -> Option<u64> {
        Some((ports * ports) as u64)
    }

    fn variants() -> Vec<IslipSettings> {
        Iterations::worth_comparing().map(|iterations| IslipSettings { iterations }).to_vec()
    }
}

/// The iSLIP scheduler.
#[derive(Clone, Debug)]
pub struct Islip<const W: usize = 1> {
    ports: usize,
    iterations: u32,
    /// Per target, the initiator that it prefers.
    grant_pointers: PerPort<u16, W>,
    /// Per initiator, the target that it prefers.
    accept_pointers: PerPort<u16, W>,
    /// Per initiator, the targets that granted it in this round; all empty between rounds.
    grants: PerPort<PortSet<W>, W>,
}

impl<const W: usize> Islip<W> {
    /// Every unmatched target grants the unmatched requester at or next after its pointer.
    /// Returns the initiators with a grant; targets that no initiator can use leave `open`.
    #[inline]
    fn grant(
        &mut self,
        requests: &Requests<W>,
        unmatched: PortSet<W>,
        open: &mut PortSet<W>,
    ) -> PortSet<W> {
        let mut granted = PortSet::EMPTY;
        for target in *open {
            let candidates = requests.column(target) & unmatched;
            if candidates.is_empty() {
                open.remove(target);
                continue;
            }
            let initiator = candidates.first_from(self.grant_pointers[target].into());
            self.grants[initiator].insert(target);
            granted.insert(initiator);
        }
        granted
    }

    /// Every initiator with grants accepts the one at or next after its pointer. In the first
    /// round, and only for a grant that is accepted, both pointers move one beyond the partner.
    #[inline]
    fn accept(&mut self, granted: PortSet<W>, first_round: bool, matching: &mut Matching<W>) {
        for initiator in granted {
            let grants = std::mem::take(&mut self.grants[initiator]);
            let target = grants.first_from(self.accept_pointers[initiator].into());
            matching.pair(initiator, target);
            if first_round {
                self.grant_pointers[target] = after(initiator, self.ports) as u16;
                self.accept_pointers[initiator] = after(target, self.ports) as u16;
            }
        }
    }
}

impl<const W: usize> Scheduler<W> for Islip<W> {
    fn schedule(
        &mut self,
        requests: &Requests<W>,
        _random: &mut Stream,
        matching: &mut Matching<W>,
    ) {
        debug_assert_eq!(requests.ports(), self.ports);
        matching.clear();
        let mut open = requests.asked();
        for round in 0..self.iterations {
            let granted = self.grant(requests, matching.unmatched_initiators(), &mut open);
            if granted.is_empty() {
                break;
            }
            self.accept(granted, round == 0, matching);
            open &= matching.unmatched_targets();
        }
    }

    #[inline]
    fn schedule_lone(&mut self, initiator: usize, target: usize) -> bool {
        self.grant_pointers[target] = after(initiator, self.ports) as u16;
        self.accept_pointers[initiator] = after(target, self.ports) as u16;
        true
    }

    #[inline]
    fn prefetch(&self, _random: &Stream) {
        self.grants.prefetch(self.ports);
        self.grant_pointers.prefetch(self.ports);
        self.accept_pointers.prefetch(self.ports);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_kernel::Streams;

    fn islip(iterations: u32) -> Islip {
        Islip { iterations, ..IslipSettings::default().build(4) }
    }

    fn schedule(islip: &mut Islip, pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let mut requests = Requests::new(4);
        pairs.iter().for_each(|&(initiator, target)| requests.set(initiator, target));
        let mut matching = Matching::new(4);
        islip.schedule(&requests, &mut Streams::new(1).stream("test", 0), &mut matching);
        matching.iter().collect()
    }

    #[test]
    fn pointers_move_one_beyond_the_partner_not_by_one() {
        let mut islip = islip(1);
        assert_eq!(schedule(&mut islip, &[(2, 0)]), [(2, 0)]);
        assert_eq!((islip.grant_pointers[0], islip.accept_pointers[2]), (3, 1));
        assert_eq!(schedule(&mut islip, &[(3, 3)]), [(3, 3)]);
        assert_eq!((islip.grant_pointers[3], islip.accept_pointers[3]), (0, 0));
    }

    #[test]
    fn a_grant_that_is_not_accepted_moves_no_pointer() {
        let mut islip = islip(1);
        assert_eq!(schedule(&mut islip, &[(1, 2), (1, 3)]), [(1, 2)]);
        assert_eq!([0, 1, 2, 3].map(|port| islip.grant_pointers[port]), [0, 0, 2, 0]);
        assert_eq!([0, 1, 2, 3].map(|port| islip.accept_pointers[port]), [0, 3, 0, 0]);
    }

    /// Both targets grant initiator 0, who accepts target 0; target 1 connects to initiator 1 in
    /// the second round.
    #[test]
    fn rounds_after_the_first_move_no_pointer() {
        let mut islip = islip(2);
        assert_eq!(schedule(&mut islip, &[(0, 0), (0, 1), (1, 1)]), [(0, 0), (1, 1)]);
        assert_eq!([0, 1, 2, 3].map(|port| islip.grant_pointers[port]), [1, 0, 0, 0]);
        assert_eq!([0, 1, 2, 3].map(|port| islip.accept_pointers[port]), [1, 0, 0, 0]);
    }

    /// McKeown 1999, section III: under full load the pointers of one-round iSLIP drift apart
    /// until every slot is a full matching.
    #[test]
    fn pointers_desynchronise_under_full_load() {
        let full: Vec<_> = (0..4).flat_map(|i| (0..4).map(move |t| (i, t))).collect();
        let mut islip = islip(1);
        let sizes: Vec<_> = (0..8).map(|_| schedule(&mut islip, &full).len()).collect();
        assert_eq!(sizes, [1, 2, 3, 4, 4, 4, 4, 4]);
    }
}
