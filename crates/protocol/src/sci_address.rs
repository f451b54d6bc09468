//! Addresses of SCI: the node in the first 16 of 64 bits, and how a cluster's IP addresses name
//! nodes (SCILAN 3.3).

use core::net::Ipv4Addr;

/// An address in the memory of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SciAddress(u64);

/// An offset that does not fit into the 48 bits that a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("offset {offset:#x} is beyond a node's memory; accepted: below {:#x}", SciAddress::SPAN)]
pub struct OffsetBeyondNode {
    /// The refused offset in bytes.
    pub offset: u64,
}

impl SciAddress {
    /// The address space of one node, in bytes.
    pub const SPAN: u64 = 1 << 48;

    /// The byte at an offset of a node.
    ///
    /// # Errors
    ///
    /// If the offset takes more than 48 bits.
    pub const fn new(node: u16, offset: u64) -> Result<SciAddress, OffsetBeyondNode> {
        if offset >= SciAddress::SPAN {
            return Err(OffsetBeyondNode { offset });
        }
        Ok(SciAddress((node as u64) << 48 | offset))
    }

    /// The adapter that it leads to.
    pub const fn node(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// The place in that node's memory.
    pub const fn offset(self) -> u64 {
        self.0 & (SciAddress::SPAN - 1)
    }

    /// All 64 bits.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// The node that an IP address names. Only addresses of 192.168.0.0 to 192.168.255.255 name nodes;
/// others belong to the ordinary stack, and a socket falls through to it. The first and the last
/// address of a network name no node, as in any network.
pub const fn node_of(address: Ipv4Addr) -> Option<u16> {
    match address.octets() {
        [192, 168, network, host] if host != 0 && host != 255 => {
            Some((network as u16) << 8 | host as u16)
        }
        _ => None,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bits_of_node_and_forty_eight_of_offset() {
        let address = SciAddress::new(0xabcd, 0x1234_5678_9abc).expect("48 bits");
        assert_eq!(address.bits(), 0xabcd_1234_5678_9abc);
        assert_eq!((address.node(), address.offset()), (0xabcd, 0x1234_5678_9abc));
        let beyond = OffsetBeyondNode { offset: SciAddress::SPAN };
        assert_eq!(SciAddress::new(0, SciAddress::SPAN), Err(beyond));
    }

    #[test]
    fn only_the_addresses_of_the_cluster_name_nodes() {
        assert_eq!(node_of(Ipv4Addr::new(192, 168, 1, 2)), Some(0x0102));
        assert_eq!(node_of(Ipv4Addr::new(192, 168, 255, 254)), Some(0xfffe));
        for other in [[192, 168, 1, 0], [192, 168, 1, 255], [192, 169, 1, 2], [127, 0, 0, 1]] {
            assert_eq!(node_of(Ipv4Addr::from(other)), None, "{other:?}");
        }
        let all = (0..=u16::MAX).filter(|bits| {
            let [network, host] = bits.to_be_bytes();
            node_of(Ipv4Addr::new(192, 168, network, host)).is_some()
        });
        assert_eq!(all.count(), 256 * 254, "the document says 255 networks with 255 hosts");
    }
}
