//! Hosts with a port in each of several planes: by which of them packets leave.

use weft_fabric::fabric::HostPair;
use weft_units::Time;

use super::Engine;

/// By host, the plane that it considers first; empty if there is one plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlaneTurns(Vec<u32>);

impl PlaneTurns {
    /// Hosts begin with different planes.
    pub fn new(hosts: u32, planes: u32) -> PlaneTurns {
        let hosts = if planes > 1 { hosts } else { 0 };
        PlaneTurns((0..hosts).map(|host| host % planes).collect())
    }
}

impl Engine {
    /// The end by which a submitted packet leaves: the next one after the end of the previous
    /// packet, unless another one is less occupied or its connection must take another one.
    #[inline]
    pub(super) fn end_for(&mut self, now: Time, host: u32, to: u32) -> u32 {
        match self.graph.planes() {
            1 => host,
            planes => self.choose_end(now, host, to, planes),
        }
    }

    #[inline(never)]
    fn choose_end(&mut self, now: Time, host: u32, to: u32, planes: u32) -> u32 {
        let (graph, hosts) = (&self.graph, self.graph.hosts());
        let occupied = |plane: u32| {
            let port = graph.host_port(plane * hosts + host);
            match &self.classed {
                Some(own) => own.until_empty(now, port).0,
                None => graph.occupied(port).saturating_sub(now.0),
            }
        };
        let turn = self.plane_turns.0[host as usize];
        let pair = HostPair { from: host, to };
        let end = self.routes.plane(planes, pair, turn, occupied) * hosts + host;
        self.use_end(end);
        end
    }

    /// A packet leaves by an end: the next packet of the host tries the following plane first.
    #[inline]
    pub(super) fn use_end(&mut self, end: u32) {
        let (hosts, planes) = (self.graph.hosts(), self.graph.planes());
        if planes > 1 {
            self.plane_turns.0[(end % hosts) as usize] = (end / hosts + 1) % planes;
        }
    }

    /// The next end in turn.
    pub(super) fn next_end(&self, host: u32) -> u32 {
        let turn = self.plane_turns.0.get(host as usize).copied().unwrap_or_default();
        turn * self.graph.hosts() + host
    }

    /// An end of a host, or if its plane is known not to lead to a host any more, the next one whose plane does.
    #[inline]
    pub(super) fn end_towards(&self, end: u32, to: u32) -> u32 {
        let Some(left) = self.routes.planes_left() else { return end };
        let (hosts, planes) = (self.graph.hosts(), self.graph.planes());
        let (own, host) = (end / hosts, end % hosts);
        let plane = (own..planes).chain(0..own).find(|plane| left.leads(*plane, host, to));
        plane.unwrap_or(own) * hosts + host
    }

    /// Lets a host send by all of its ports, beginning with the next one in turn.
    #[inline]
    pub(super) fn send_from(&mut self, now: Time, host: u32) {
        match self.graph.planes() {
            1 => self.send_on(now, self.graph.host_port(host)),
            planes => self.send_from_planes(now, host, planes),
        }
    }

    // Hosts with several planes get an event at the end of each transmission, so that there is
    // nothing to settle.
    #[inline(never)]
    pub(super) fn send_from_planes(&mut self, now: Time, host: u32, planes: u32) {
        let (first, hosts) = (self.plane_turns.0[host as usize], self.graph.hosts());
        for plane in (first..planes).chain(0..first) {
            self.send_next(now, self.graph.host_port(plane * hosts + host));
        }
    }
}
