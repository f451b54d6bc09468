//! The places of events between links with turns, which order the events of one instant.
//!
//! First packets leave the ports of switches, port by port; then controllers of switches send,
//! headers become known, and hosts move packets, begin messages and submit others; cables come
//! last, so that an end whose turn begins knows everything that has arrived at this instant.

use weft_fabric::graph::Graph;
use weft_fabric::interface::Move;

/// The first place of each kind. Before the controllers a packet has passed a switch from a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    /// A message of the controller of a switch has passed the switch.
    pub controllers: u32,
    /// The header of a message at a port is known.
    pub headers: u32,
    /// A mover of a host is ready, or has moved a packet.
    pub moves: u32,
    /// The throttle of a host lets it begin.
    pub throttles: u32,
    /// A host submits a message.
    pub generates: u32,
    /// Something is due on a cable.
    pub cables: u32,
}

/// One of the movers of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MoverId {
    pub host: u32,
    pub channel: usize,
    pub what: Move,
}

const MOVES: [Move; 4] = [Move::Load, Move::Fill, Move::Empty, Move::Store];

impl Places {
    pub fn new(graph: &Graph) -> Places {
        let (controllers, hosts) = (graph.switch_ports(), graph.hosts());
        let headers = controllers + graph.switches();
        let moves = headers + controllers;
        let throttles = moves + hosts;
        let generates = throttles + hosts;
        let cables = generates + hosts;
        Places { controllers, headers, moves, throttles, generates, cables }
    }
}

impl MoverId {
    /// The event at a host: which mover, and whether it has moved a packet or is ready to.
    pub fn item(self, has_moved: bool) -> u32 {
        (self.channel as u32) << 3 | (self.what as u32) << 1 | u32::from(has_moved)
    }

    /// The mover of an event, and whether it has moved a packet.
    pub fn of(host: u32, item: u32) -> (MoverId, bool) {
        let what = MOVES[(item >> 1) as usize % MOVES.len()];
        (MoverId { host, channel: (item >> 3) as usize, what }, item & 1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The start of a mover comes before the end of a move, and data before everything else.
    #[test]
    fn an_event_of_a_mover_comes_back_as_it_was() {
        let mut items = Vec::new();
        for channel in 0..2 {
            for what in MOVES {
                for has_moved in [false, true] {
                    let mover = MoverId { host: 7, channel, what };
                    let item = mover.item(has_moved);
                    assert_eq!(MoverId::of(7, item), (mover, has_moved));
                    items.push(item);
                }
            }
        }
        assert_eq!(items, (0..16).collect::<Vec<u32>>());
    }
}
