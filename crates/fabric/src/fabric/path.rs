//! The whole route of a connection, fixed when the connection is set up.

use super::pairs::SwitchPort;
use super::routes::Routes;
use super::wiring::{Peer, Wiring};

/// A switch on the route of a connection: the ports at which its cells enter and leave, as indices
/// among the ports of all switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathHop {
    /// The switch.
    pub switch: u32,
    /// The port by which cells arrive.
    pub input: u32,
    /// The port by which they leave.
    pub output: u32,
    /// The virtual channel by which they come: see [`Routes::virtual_channel`].
    pub came_by: u8,
    /// The virtual channel by which they leave.
    pub leaves_by: u8,
}

impl Routes {
    /// The route from one host to another, switch by switch. `None` if each packet takes its own.
    pub fn path(
        &mut self,
        wiring: &Wiring,
        from: impl Into<u32>,
        to: impl Into<u32>,
    ) -> Option<Vec<PathHop>> {
        let (from, to) = (from.into(), to.into());
        if !self.is_per_connection() {
            return None;
        }
        let mut route_state = self.depart(from, to);
        let mut input = wiring.host_port(self.listed_plane(from, to) * wiring.hosts() + from);
        let mut hops = Vec::new();
        loop {
            let switch = wiring.switch_of(input);
            let number = self.port(switch, hops.len() as u16, to, &mut route_state, |_| 0);
            let output = wiring.port(switch, number);
            let came_by = hops.last().map_or(0, |hop: &PathHop| hop.leaves_by);
            let port = SwitchPort { switch, port: number };
            let leaves_by = self.virtual_channel(port, to, route_state);
            hops.push(PathHop { switch, input, output, came_by, leaves_by });
            match wiring.peer(output) {
                Peer::Port(next) => input = next,
                Peer::Host(_) | Peer::Unused => return Some(hops),
            }
        }
    }
}
