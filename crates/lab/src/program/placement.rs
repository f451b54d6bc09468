//! Which host each rank runs on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::Streams;
use weft_units::PositiveCount;

use crate::drive::carrier::Destination;

/// Which host each rank runs on. With up to `k` ranks per host, `n` ranks occupy the first hosts,
/// as few as possible; "random" draws from all hosts, and a list names them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// The first `k` ranks on host 0, the next ones on host 1: rank `r` on host `r` with one per
    /// host. "linear" is the same.
    #[default]
    #[serde(alias = "linear")]
    Block,
    /// Round robin: rank 0 on host 0, rank 1 on host 1, and on host 0 again after the last one.
    Cyclic,
    /// Each rank in a random place, with `k` places per host; the seed determines the places.
    Random,
    /// The hosts in order of the ranks.
    Hosts(Vec<u16>),
}

/// A list of hosts that no program can be placed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misplaced {
    /// The value given.
    pub value: String,
    /// What would be right.
    pub accepted: String,
}

impl Placement {
    /// Whether it equals the default.
    pub fn is_block(&self) -> bool {
        *self == Placement::Block
    }

    /// How many ranks it names.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Placement::Hosts(hosts) => Some(hosts.len()),
            Placement::Block | Placement::Cyclic | Placement::Random => None,
        }
    }

    /// The host of each of `ranks`, of which there are no more than `hosts` have places for: as
    /// many each as `on_each` says; one, or any number in a list, if it says nothing.
    pub(crate) fn places(
        &self,
        ranks: u16,
        hosts: u16,
        on_each: Option<PositiveCount>,
        streams: &Streams,
    ) -> Result<Vec<u16>, Misplaced> {
        let most = on_each.map_or(1, PositiveCount::get);
        match self {
            Placement::Block => {
                Ok((0..ranks).map(|rank| (u32::from(rank) / most) as u16).collect())
            }
            Placement::Cyclic => {
                let used = u32::from(ranks).div_ceil(most).max(1);
                Ok((0..ranks).map(|rank| (u32::from(rank) % used) as u16).collect())
            }
            Placement::Random => {
                let several = |host| std::iter::repeat_n(host, most.min(ranks.into()) as usize);
                let mut all: Vec<u16> = (0..hosts).flat_map(several).collect();
                let mut random = streams.stream("program.placement", 0);
                // The first places of a shuffle (Fisher and Yates; Knuth, TAOCP 2, 3.4.2).
                for place in 0..usize::from(ranks) {
                    let left = all.len() - place;
                    all.swap(place, place + random.below(left as u64) as usize);
                }
                all.truncate(ranks.into());
                Ok(all)
            }
            Placement::Hosts(list) => {
                check(list, ranks, hosts, on_each)?;
                Ok(list.clone())
            }
        }
    }
}

/// Two ranks on one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shared {
    pub ranks: [u16; 2],
    pub host: u16,
}

/// The first two ranks of a placement that share a host.
pub(super) fn first_shared(places: &[u16]) -> Option<Shared> {
    let last = places.iter().copied().max()?;
    let mut first = vec![None; usize::from(last) + 1];
    places.iter().zip(0..).find_map(|(host, rank)| {
        let before: Option<u16> = first[usize::from(*host)].replace(rank);
        before.map(|before| Shared { ranks: [before, rank], host: *host })
    })
}

/// The host of each rank, and the ranks on each host; empty if ranks and hosts have the same
/// numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    hosts: Vec<u16>,
    /// The ranks on each host, in ascending order.
    ranks: Vec<Vec<u16>>,
    are_shared: bool,
}

impl Places {
    /// Each rank on the host at its position.
    pub fn new(hosts: Vec<u16>) -> Places {
        if hosts.iter().zip(0..).all(|(host, rank): (&u16, u16)| rank == *host) {
            return Places::default();
        }
        let last = hosts.iter().copied().max().unwrap_or(0);
        let mut ranks = vec![Vec::new(); usize::from(last) + 1];
        for (host, rank) in hosts.iter().zip(0..) {
            ranks[usize::from(*host)].push(rank);
        }
        let are_shared = ranks.iter().any(|own| own.len() > 1);
        Places { hosts, ranks, are_shared }
    }

    /// Whether several ranks are on one host.
    #[inline]
    pub fn are_shared(&self) -> bool {
        self.are_shared
    }

    /// The host of a rank.
    #[inline]
    pub fn host(&self, rank: u16) -> u16 {
        self.hosts.get(usize::from(rank)).copied().unwrap_or(rank)
    }

    /// Whether two different ranks are on one host.
    #[inline]
    pub fn share(&self, rank: u16, other: u16) -> bool {
        self.are_shared && rank != other && self.host(rank) == self.host(other)
    }

    /// The first rank on a host; no rank's number if it has none.
    pub fn rank_on(&self, host: u16) -> u16 {
        if self.hosts.is_empty() {
            return host;
        }
        let own = self.ranks.get(usize::from(host)).and_then(|own| own.first());
        own.copied().unwrap_or(u16::MAX)
    }

    /// The ranks on a host, in ascending order.
    pub fn ranks_on(&self, host: u16) -> impl Iterator<Item = u16> {
        let same = self.hosts.is_empty().then_some(host);
        let others = self.ranks.get(usize::from(host)).map_or(&[][..], Vec::as_slice);
        same.into_iter().chain(others.iter().copied())
    }

    /// How many hosts have ranks, if these are the first hosts; there are this many ranks.
    pub fn first_hosts(&self, ranks: u16) -> Option<u16> {
        if self.hosts.is_empty() {
            return Some(ranks);
        }
        let all_have = self.ranks.iter().all(|own| !own.is_empty());
        all_have.then_some(self.ranks.len() as u16)
    }

    /// How many hosts have ranks; there are this many ranks.
    pub fn hosts_in_use(&self, ranks: u16) -> u16 {
        match self.hosts.is_empty() {
            true => ranks,
            false => self.ranks.iter().filter(|own| !own.is_empty()).count() as u16,
        }
    }

    /// The ranks of a set that are on a host, a bit each.
    pub fn among(&self, ranks: u64, host: u16) -> u64 {
        let there = Destination::Hosts(ranks).hosts().filter(|rank| self.host(*rank) == host);
        there.fold(0, |set, rank| set | 1 << rank)
    }

    /// The hosts of the ranks that a message is for; `None` if a set of hosts cannot hold them.
    pub fn hosts_of(&self, ranks: Destination) -> Option<Destination> {
        match ranks {
            Destination::Host(rank) => Some(Destination::Host(self.host(rank))),
            several if self.hosts.is_empty() => Some(several),
            several => several
                .hosts()
                .try_fold(0, |set, rank| Some(set | 1_u64.checked_shl(self.host(rank).into())?))
                .map(Destination::Hosts),
        }
    }
}

fn check(
    list: &[u16],
    ranks: u16,
    hosts: u16,
    on_each: Option<PositiveCount>,
) -> Result<(), Misplaced> {
    let refuse = |value: String, accepted: String| Err(Misplaced { value, accepted });
    if list.len() != usize::from(ranks) {
        let value = format!("a list of {}", list.len());
        return refuse(value, format!("as many hosts as there are ranks, {ranks}"));
    }
    let mut on_it = vec![0; hosts.into()];
    for host in list {
        let Some(count) = on_it.get_mut(usize::from(*host)) else {
            return refuse(format!("host {host}"), format!("hosts from 0 to {}", hosts - 1));
        };
        *count += 1;
        if let Some(most) = on_each.filter(|most| *count > most.get()) {
            let accepted = format!("each host at most as often as program.ranks_per_host, {most}");
            return refuse(format!("{count} times host {host}"), accepted);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(placement: &Placement, ranks: u16, on_each: u32, seed: u64) -> Vec<u16> {
        let on_each = PositiveCount::new(on_each);
        placement.places(ranks, 9, on_each, &Streams::new(seed)).unwrap_or_default()
    }

    #[test]
    fn a_placement_gives_every_rank_a_host_of_its_own() {
        let places = |placement: &Placement, seed| places(placement, 5, 0, seed);
        assert_eq!(places(&Placement::Block, 1), [0, 1, 2, 3, 4]);
        assert_eq!(places(&Placement::Cyclic, 1), [0, 1, 2, 3, 4]);
        let listed = Placement::Hosts(vec![8, 0, 4, 2, 1]);
        assert_eq!(places(&listed, 1), [8, 0, 4, 2, 1]);
        let drawn: Vec<Vec<u16>> = (0..40).map(|seed| places(&Placement::Random, seed)).collect();
        for own in &drawn {
            let mut sorted = own.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert!(sorted.len() == 5 && sorted.iter().all(|host| *host < 9), "{own:?}");
        }
        assert!((0..9).all(|host| drawn.iter().any(|own| own.contains(&host))));
        assert_ne!(drawn[0], drawn[1]);
        assert_eq!(drawn[0], places(&Placement::Random, 0));
    }

    #[test]
    fn blocks_and_rounds_fill_as_few_hosts_as_it_takes() {
        assert_eq!(places(&Placement::Block, 7, 3, 1), [0, 0, 0, 1, 1, 1, 2]);
        assert_eq!(places(&Placement::Cyclic, 7, 3, 1), [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(places(&Placement::Cyclic, 3, 8, 1), [0, 0, 0]);
        let listed = Placement::Hosts(vec![4, 4, 1, 4]);
        assert_eq!(places(&listed, 4, 0, 1), [4, 4, 1, 4], "any number if nothing is said");
        for seed in 0..40 {
            let own = places(&Placement::Random, 7, 3, seed);
            let most = (0..9).map(|host| own.iter().filter(|other| **other == host).count()).max();
            assert!(most <= Some(3), "{own:?}");
            let mut full = places(&Placement::Random, 27, 3, seed);
            full.sort_unstable();
            assert_eq!(full, places(&Placement::Block, 27, 3, 1), "every place is taken");
        }
        let shared = Shared { ranks: [1, 3], host: 1 };
        assert_eq!(first_shared(&[3, 1, 0, 1, 3]), Some(shared));
        assert_eq!(first_shared(&[3, 1, 0]), None);
    }

    #[test]
    fn a_message_for_several_ranks_is_one_for_their_hosts() {
        let places = Places::new(vec![5, 0, 63]);
        assert_eq!(
            places.hosts_of(Destination::Hosts(0b110)),
            Some(Destination::Hosts(1 | 1 << 63))
        );
        assert_eq!((places.rank_on(63), places.first_hosts(3)), (2, None));
        assert_eq!(Places::new(vec![70, 1]).hosts_of(Destination::Hosts(1)), None);
        let places = Places::new(vec![1, 0, 1, 0]);
        assert_eq!(places.hosts_of(Destination::Hosts(0b101)), Some(Destination::Hosts(0b10)));
        assert_eq!(places.ranks_on(1).collect::<Vec<_>>(), [0, 2]);
        assert_eq!((places.among(0b111, 1), places.among(0b111, 0)), (0b101, 0b10));
        assert_eq!((places.first_hosts(4), places.hosts_in_use(4)), (Some(2), 2));
        assert!(places.share(1, 3) && !places.share(1, 1) && !places.share(1, 2));
        let own = Places::new(vec![0, 1, 2]);
        assert_eq!((own.first_hosts(3), own.ranks_on(2).collect::<Vec<_>>()), (Some(3), vec![2]));
        assert!(!own.are_shared() && !own.share(0, 0));
    }

    #[test]
    fn a_list_that_places_nobody_is_refused() {
        let refused = |list: &[u16], on_each| {
            let placement = Placement::Hosts(list.to_vec());
            let placed = placement.places(2, 3, PositiveCount::new(on_each), &Streams::new(1));
            placed.map_or_else(|error| error.value, |hosts| format!("{hosts:?}"))
        };
        assert_eq!(refused(&[0], 0), "a list of 1");
        assert_eq!(refused(&[0, 3], 0), "host 3");
        assert_eq!(refused(&[2, 2], 1), "2 times host 2");
        assert_eq!(refused(&[2, 2], 2), "[2, 2]");
    }
}
