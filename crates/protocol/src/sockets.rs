//! Setting up connections between the sockets of a cluster: listen, connect, accept, refusal, and
//! falling through to the ordinary stack (SCILAN 3.3 and 3.4).
//!
//! One [`Sockets`] stands for the library of a node. Its message to another node is a [`SetUp`],
//! which the caller delivers by [`Sockets::hear`]. An address that names no node, and a node that
//! refuses, leave a socket to the ordinary stack: the program uses the same calls either way.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use crate::sci_address::node_of;

/// A socket of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u32);

/// A message from one node to another to set up a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetUp {
    /// A socket requests a connection to the listener of a port.
    Request {
        /// The node and the socket that ask.
        from: (u16, SocketId),
        /// The port.
        port: u16,
    },
    /// Somebody has accepted a request of this socket.
    Accepted {
        /// The socket that asked.
        to: SocketId,
        /// The node and the new socket at the other end.
        from: (u16, SocketId),
    },
    /// No socket listens, or too many requests wait.
    Refused {
        /// The socket that asked.
        to: SocketId,
    },
}

/// The result of a call of `connect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connect {
    /// This request must be delivered to a node.
    Cluster {
        /// The node.
        node: u16,
        /// The request.
        request: SetUp,
    },
    /// The address is none of the cluster: the ordinary stack connects.
    Ordinary,
}

/// The state of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing has been asked of it.
    Fresh,
    /// It accepts requests on a port.
    Listening {
        /// The port.
        port: u16,
        /// How many requests may wait.
        backlog: usize,
        /// The waiting requests, the oldest first: node and socket.
        waiting: VecDeque<(u16, SocketId)>,
    },
    /// It has sent a request and has no response.
    Connecting,
    /// The other end: node and socket.
    Connected(u16, SocketId),
    /// The ordinary stack serves it.
    Ordinary,
}

/// A call that a socket does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SocketError {
    /// There is no such socket, or no longer.
    #[error("socket {0} is not open: expected one that `open` returned")]
    NotOpen(u32),
    /// The socket is not in the state that the call needs.
    #[error("socket {socket} cannot {call}: expected one that {expected}")]
    Standing {
        /// The socket.
        socket: u32,
        /// What the call was.
        call: &'static str,
        /// What state it needs.
        expected: &'static str,
    },
    /// Another socket listens on the port.
    #[error("port {0} is taken: expected one that no socket listens on")]
    PortTaken(u16),
}

/// A request that a listening socket has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The new socket, which is connected.
    pub socket: SocketId,
    /// The node that asked.
    pub node: u16,
    /// What that node is to hear.
    pub answer: SetUp,
}

/// The sockets of one node.
#[derive(Clone, Debug)]
pub struct Sockets {
    node: u16,
    opened: u32,
    sockets: BTreeMap<SocketId, Standing>,
}

impl Sockets {
    /// A node without sockets.
    pub fn new(node: u16) -> Sockets {
        Sockets { node, opened: 0, sockets: BTreeMap::new() }
    }

    /// A new socket.
    pub fn open(&mut self) -> SocketId {
        let socket = SocketId(self.opened);
        self.opened += 1;
        self.sockets.insert(socket, Standing::Fresh);
        socket
    }

    /// The state of a socket.
    pub fn standing(&self, socket: SocketId) -> Option<&Standing> {
        self.sockets.get(&socket)
    }

    /// A fresh socket takes requests on a port; `backlog` of them may wait.
    ///
    /// # Errors
    /// A socket that is not fresh, or a port that is taken.
    pub fn listen(
        &mut self,
        socket: SocketId,
        port: u16,
        backlog: usize,
    ) -> Result<(), SocketError> {
        if self.listener(port).is_some() {
            return Err(SocketError::PortTaken(port));
        }
        let standing = self.fresh(socket, "listen")?;
        *standing = Standing::Listening { port, backlog, waiting: VecDeque::new() };
        Ok(())
    }

    /// A fresh socket asks for a connection.
    ///
    /// # Errors
    /// A socket that is not fresh.
    pub fn connect(
        &mut self,
        socket: SocketId,
        address: Ipv4Addr,
        port: u16,
    ) -> Result<Connect, SocketError> {
        let from = (self.node, socket);
        let standing = self.fresh(socket, "connect")?;
        let Some(node) = node_of(address) else {
            *standing = Standing::Ordinary;
            return Ok(Connect::Ordinary);
        };
        *standing = Standing::Connecting;
        Ok(Connect::Cluster { node, request: SetUp::Request { from, port } })
    }

    /// Takes the oldest request of a socket that listens. `None` while none waits; a program blocks then.
    ///
    /// # Errors
    /// A socket that does not listen.
    pub fn accept(&mut self, socket: SocketId) -> Result<Option<Accepted>, SocketError> {
        let own = self.sockets.get_mut(&socket).ok_or(SocketError::NotOpen(socket.0))?;
        let Standing::Listening { waiting, .. } = own else {
            let (call, expected) = ("accept", "listens");
            return Err(SocketError::Standing { socket: socket.0, call, expected });
        };
        let Some((node, to)) = waiting.pop_front() else { return Ok(None) };
        let new = self.open();
        self.sockets.insert(new, Standing::Connected(node, to));
        let answer = SetUp::Accepted { to, from: (self.node, new) };
        Ok(Some(Accepted { socket: new, node, answer }))
    }

    /// A message of another node. Returns a response for that node, if there is one.
    pub fn hear(&mut self, said: SetUp) -> Option<SetUp> {
        match said {
            SetUp::Request { from, port } => {
                let refused = SetUp::Refused { to: from.1 };
                let Some(Standing::Listening { backlog, waiting, .. }) = self.listener(port) else {
                    return Some(refused);
                };
                if waiting.len() >= *backlog {
                    return Some(refused);
                }
                waiting.push_back(from);
                None
            }
            SetUp::Accepted { to, from: (node, peer) } => {
                self.answered(to, Standing::Connected(node, peer));
                None
            }
            SetUp::Refused { to } => {
                self.answered(to, Standing::Ordinary);
                None
            }
        }
    }

    /// Closes a socket. Returns messages and their nodes: waiting requests are refused.
    pub fn close(&mut self, socket: SocketId) -> Vec<(u16, SetUp)> {
        match self.sockets.remove(&socket) {
            Some(Standing::Listening { waiting, .. }) => {
                waiting.into_iter().map(|(node, to)| (node, SetUp::Refused { to })).collect()
            }
            _ => Vec::new(),
        }
    }

    /// A response counts for a socket that still waits for one.
    fn answered(&mut self, socket: SocketId, now: Standing) {
        if let Some(standing) = self.sockets.get_mut(&socket)
            && *standing == Standing::Connecting
        {
            *standing = now;
        }
    }

    fn fresh(
        &mut self,
        socket: SocketId,
        call: &'static str,
    ) -> Result<&mut Standing, SocketError> {
        let standing = self.sockets.get_mut(&socket).ok_or(SocketError::NotOpen(socket.0))?;
        if *standing != Standing::Fresh {
            let expected = "nothing was asked of before";
            return Err(SocketError::Standing { socket: socket.0, call, expected });
        }
        Ok(standing)
    }

    fn listener(&mut self, wanted: u16) -> Option<&mut Standing> {
        self.sockets
            .values_mut()
            .find(|own| matches!(own, Standing::Listening { port, .. } if *port == wanted))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const B: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 2);

    /// Nodes 1 and 2; node 2 listens on port 80 for up to `backlog` requests.
    fn pair(backlog: usize) -> (Sockets, Sockets, SocketId) {
        let (one, mut two) = (Sockets::new(1), Sockets::new(2));
        let listener = two.open();
        assert_eq!(two.listen(listener, 80, backlog), Ok(()));
        (one, two, listener)
    }

    fn ask(one: &mut Sockets, two: &mut Sockets, port: u16) -> (SocketId, Option<SetUp>) {
        let socket = one.open();
        let request = SetUp::Request { from: (1, socket), port };
        let asked = one.connect(socket, B, port);
        assert_eq!(asked, Ok(Connect::Cluster { node: 2, request }));
        (socket, two.hear(request))
    }

    /// The four steps of SCILAN 3.4.
    #[test]
    fn listen_accept_connect_and_a_new_socket() {
        let (mut one, mut two, s) = pair(5);
        assert_eq!(two.accept(s), Ok(None), "accept blocks");
        let (b, answer) = ask(&mut one, &mut two, 80);
        assert_eq!((one.standing(b), answer), (Some(&Standing::Connecting), None));
        let Accepted { socket: a, node, answer: accepted } = two.accept(s).unwrap().unwrap();
        assert_eq!((node, one.hear(accepted)), (1, None));
        assert_eq!(one.standing(b), Some(&Standing::Connected(2, a)));
        assert_eq!(two.standing(a), Some(&Standing::Connected(1, b)));
        assert!(matches!(two.standing(s), Some(Standing::Listening { .. })), "it goes on");
    }

    /// SCILAN 3.3: other addresses never name nodes.
    #[test]
    fn other_addresses_and_refusals_fall_through() {
        let (mut one, mut two, _) = pair(1);
        let outside = one.open();
        let elsewhere = Ipv4Addr::new(129, 240, 64, 1);
        assert_eq!(one.connect(outside, elsewhere, 80), Ok(Connect::Ordinary));
        assert_eq!(one.standing(outside), Some(&Standing::Ordinary));
        let (nobody, answer) = ask(&mut one, &mut two, 81);
        assert_eq!(one.hear(answer.unwrap()), None);
        assert_eq!(one.standing(nobody), Some(&Standing::Ordinary));
        let (_, first) = ask(&mut one, &mut two, 80);
        let (full, second) = ask(&mut one, &mut two, 80);
        assert_eq!((first, second), (None, Some(SetUp::Refused { to: full })));
    }

    #[test]
    fn requests_are_accepted_in_order_and_refused_when_nobody_listens_any_more() {
        let (mut one, mut two, s) = pair(9);
        let asked: Vec<SocketId> = (0..3).map(|_| ask(&mut one, &mut two, 80).0).collect();
        let accepted = two.accept(s).unwrap().unwrap().answer;
        assert!(matches!(accepted, SetUp::Accepted { to, .. } if to == asked[0]));
        let told = two.close(s);
        assert_eq!(told, [1, 2].map(|place| (1, SetUp::Refused { to: asked[place] })));
        assert_eq!(two.accept(s), Err(SocketError::NotOpen(0)));
        // A response that comes for a socket that is closed, or has one, changes nothing.
        assert!(one.close(asked[1]).is_empty());
        told.into_iter().for_each(|(_, said)| assert_eq!(one.hear(said), None));
        assert_eq!(one.standing(asked[1]), None);
        one.hear(accepted);
        one.hear(SetUp::Refused { to: asked[0] });
        assert!(matches!(one.standing(asked[0]), Some(Standing::Connected(2, _))));
    }

    #[test]
    fn calls_that_do_not_fit_are_named() {
        let (mut one, mut two, s) = pair(1);
        assert_eq!(
            two.listen(s, 81, 1).unwrap_err().to_string(),
            "socket 0 cannot listen: expected one that nothing was asked of before"
        );
        let other = two.open();
        assert_eq!(two.listen(other, 80, 1), Err(SocketError::PortTaken(80)));
        let fresh = one.open();
        assert_eq!(
            one.accept(fresh).unwrap_err().to_string(),
            "socket 0 cannot accept: expected one that listens"
        );
    }
}
