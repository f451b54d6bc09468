//! A graph of hosts in a ring, without a switch.

use std::sync::Arc;

use weft_units::{Bytes, Span, Time};

use super::flow::Flow;
use super::{Graph, Link, Port};
use crate::link::LinkSettings;

impl Graph {
    /// A ring with one host per link, for packets of one size and acknowledgments of another. Link
    /// i leads from host i to the next host, the last link to the first host. What arrives at a
    /// host is the first byte of a packet, which it may pass on; links count as busy within
    /// `window`.
    pub fn ring(
        links: &[LinkSettings],
        (packet, acknowledgment): (Bytes, Bytes),
        window: (Time, Time),
    ) -> Graph {
        let link = |own: &LinkSettings| {
            let propagation = own.propagation();
            let (span, short) = (own.span(packet), own.span(acknowledgment));
            Link { span, short, arrival: propagation, propagation }
        };
        let hosts = links.len() as u32;
        let port = |host| Port::new(if host + 1 == hosts { 0 } else { host + 1 }, host);
        Graph {
            ports: (0..hosts).map(port).collect(),
            owners: [].into(),
            hosts,
            planes: 1,
            first_host: 0,
            switches: Vec::new(),
            kinds: Vec::new(),
            clocked: Vec::new(),
            deciding: Vec::new(),
            has_limits: false,
            flow: Flow::none(),
            gates: Arc::default(),
            links: links.iter().map(link).collect(),
            is_mixed: links.iter().any(|own| *own != links[0]),
            window,
        }
    }

    /// How long after its first byte a packet, or an acknowledgment, may leave a host of a ring: the
    /// difference if it takes longer to arrive than to leave, so that no link runs dry in the middle
    /// of it.
    pub fn lag_on_ring(&self, host: u32, is_short: bool) -> Span {
        let before = if host == 0 { self.hosts() - 1 } else { host - 1 };
        self.lag_of(before, host, is_short)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(rate: &str, length: &str) -> LinkSettings {
        let text = format!("rate = '{rate}'\nlength = '{length}'\ndelay_per_metre = '5 ns'");
        toml::from_str(&text).expect("a link")
    }

    /// 80 B take 400 ns at 200 MB/s and 800 ns at 100 MB/s, an acknowledgment of 8 B a tenth.
    #[test]
    fn each_host_has_the_link_to_the_next() {
        let links = [link("200 MB/s", "2 m"), link("100 MB/s", "4 m"), link("200 MB/s", "2 m")];
        let window = (Time::ZERO, Time(1_000_000));
        let graph = Graph::ring(&links, (Bytes(80), Bytes(8)), window);
        assert_eq!((graph.hosts(), graph.switches(), graph.is_mixed()), (3, 0, true));
        assert_eq!([0, 1, 2].map(|host| graph.peer(host)), [Some(1), Some(2), Some(0)]);
        assert_eq!([0, 1].map(|host| graph.propagation(host)), [10, 20].map(Span::from_ns));
        assert_eq!([0, 1].map(|host| graph.span_of(host, true)), [40, 80].map(Span::from_ns));
        // From the slow link to a fast one a packet comes slower than it could leave.
        let lags = [0, 1, 2].map(|host| graph.lag_on_ring(host, false));
        assert_eq!(lags, [0, 0, 400].map(Span::from_ns));
    }
}
