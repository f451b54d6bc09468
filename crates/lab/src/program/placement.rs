//! Which host each rank runs on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::Streams;

use crate::drive::carrier::Destination;

/// Which host each rank runs on; a host has at most one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Rank `r` on host `r`.
    #[default]
    Linear,
    /// Each rank on a host of its own that is drawn: with another seed another one.
    Random,
    /// The hosts in order of the ranks.
    Hosts(Vec<u16>),
}

/// A list of hosts that no program can be placed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misplaced {
    /// What was given.
    pub value: String,
    /// What would be right.
    pub accepted: String,
}

impl Placement {
    /// Whether it is what is without any.
    pub fn is_linear(&self) -> bool {
        *self == Placement::Linear
    }

    /// How many ranks it names.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Placement::Hosts(hosts) => Some(hosts.len()),
            Placement::Linear | Placement::Random => None,
        }
    }

    /// The host of each of `ranks`, of which there are no more than `hosts`.
    pub(crate) fn places(
        &self,
        ranks: u16,
        hosts: u16,
        streams: &Streams,
    ) -> Result<Vec<u16>, Misplaced> {
        match self {
            Placement::Linear => Ok((0..ranks).collect()),
            Placement::Random => {
                let mut all: Vec<u16> = (0..hosts).collect();
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
                check(list, ranks, hosts)?;
                Ok(list.clone())
            }
        }
    }
}

/// The host of each rank, and the rank on each host; empty where they have one number.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    hosts: Vec<u16>,
    ranks: Vec<u16>,
}

impl Places {
    /// Each rank on the host that stands in its place.
    pub fn new(hosts: Vec<u16>) -> Places {
        if (0..).zip(&hosts).all(|(rank, host): (u16, &u16)| rank == *host) {
            return Places::default();
        }
        let last = hosts.iter().copied().max().unwrap_or(0);
        let mut ranks = vec![u16::MAX; usize::from(last) + 1];
        for (rank, host) in (0..).zip(&hosts) {
            ranks[usize::from(*host)] = rank;
        }
        Places { hosts, ranks }
    }

    /// The host of a rank.
    pub fn host(&self, rank: u16) -> u16 {
        self.hosts.get(usize::from(rank)).copied().unwrap_or(rank)
    }

    /// The rank on a host that has one.
    pub fn rank_on(&self, host: u16) -> u16 {
        self.ranks.get(usize::from(host)).copied().unwrap_or(host)
    }

    /// Whether so many ranks are on the hosts of the same numbers, in whatever order.
    pub fn are_below(&self, ranks: u16) -> bool {
        self.hosts.iter().all(|host| *host < ranks)
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

fn check(list: &[u16], ranks: u16, hosts: u16) -> Result<(), Misplaced> {
    let refuse = |value: String, accepted: String| Err(Misplaced { value, accepted });
    if list.len() != usize::from(ranks) {
        let value = format!("a list of {}", list.len());
        return refuse(value, format!("as many hosts as there are ranks, {ranks}"));
    }
    let mut seen = vec![false; hosts.into()];
    for host in list {
        match seen.get_mut(usize::from(*host)) {
            None => {
                return refuse(format!("host {host}"), format!("hosts from 0 to {}", hosts - 1));
            }
            Some(taken) if *taken => {
                return refuse(format!("host {host} twice"), "each host once".to_owned());
            }
            Some(taken) => *taken = true,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placement_gives_every_rank_a_host_of_its_own() {
        let places = |placement: &Placement, seed| {
            placement.places(5, 9, &Streams::new(seed)).unwrap_or_default()
        };
        assert_eq!(places(&Placement::Linear, 1), [0, 1, 2, 3, 4]);
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
    fn a_message_for_several_ranks_is_one_for_their_hosts() {
        let places = Places::new(vec![5, 0, 63]);
        assert_eq!(
            places.hosts_of(Destination::Hosts(0b110)),
            Some(Destination::Hosts(1 | 1 << 63))
        );
        assert_eq!(places.rank_on(63), 2);
        assert_eq!(Places::new(vec![70, 1]).hosts_of(Destination::Hosts(1)), None);
        assert!(places.are_below(64) && !places.are_below(63));
    }

    #[test]
    fn a_list_that_places_nobody_is_refused() {
        let refused = |list: &[u16]| {
            let placed = Placement::Hosts(list.to_vec()).places(2, 3, &Streams::new(1));
            placed.map_or_else(|error| error.value, |hosts| format!("{hosts:?}"))
        };
        assert_eq!(refused(&[0]), "a list of 1");
        assert_eq!(refused(&[0, 3]), "host 3");
        assert_eq!(refused(&[2, 2]), "host 2 twice");
    }
}
