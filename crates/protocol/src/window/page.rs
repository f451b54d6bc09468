//! Pages of the cluster-wide address space and the tables of their attributes (MEMORY CHANNEL
//! Address Space Mapping, Figure 2).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::Bytes;

use super::Node;

/// The granularity of the mapping: that of the operating system's pages. Generation 1 has 8 KB,
/// generation 2 both (Figure 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Bytes", into = "Bytes")]
#[schemars(with = "Bytes")]
pub enum PageSize {
    /// 4096 bytes.
    FourKb,
    /// 8192 bytes.
    EightKb,
}

/// A size that no page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pages of {0}: accepted are 4 KiB and 8 KiB")]
pub struct PageSizeError(pub Bytes);

/// A page of the address space that the whole cluster shares, by its number.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct NetworkPage(pub u32);

/// Where the stores to an outgoing page go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// To one node.
    Point(Node),
    /// To every node that is on line except the sender; see [`TransmitPage::local_copy`].
    Broadcast,
}

/// An entry of the transmit page control table: what happens to stores to an outgoing page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransmitPage {
    /// Broadcast or point-to-point.
    pub reach: Reach,
    /// Stores become packets. A store to a page that is not enabled is refused.
    #[serde(default = "enabled")]
    pub enabled: bool,
    /// An ordered copy of each packet comes back to the sender's own receive table.
    #[serde(default)]
    pub local_copy: bool,
    /// The target acknowledges each packet when all before it on the path have arrived: a sweep
    /// (listed as "acknowledge request").
    #[serde(default)]
    pub sweep: bool,
    /// The target acknowledges each packet separately (listed as "request acknowledge"; perhaps the
    /// same attribute in other words).
    #[serde(default)]
    pub acknowledge: bool,
    /// Stores become packets even while the network is in error: pages of recovery traffic.
    #[serde(default)]
    pub under_error: bool,
}

/// An entry of the receive page control table: what happens to packets for an incoming page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceivePage {
    /// Packets are accepted.
    #[serde(default = "enabled")]
    pub enabled: bool,
    /// Each packet interrupts the processor.
    #[serde(default)]
    pub interrupt: bool,
    /// Packets are accepted even while the path is in error: pages of recovery traffic.
    #[serde(default)]
    pub under_error: bool,
    /// Each packet is a request to read this page; the data return as a write to the same address.
    #[serde(default)]
    pub remote_read: bool,
    /// Each packet is a conditional write: it is accepted only without a pending error, and a
    /// single acknowledgment says whether it was.
    #[serde(default)]
    pub conditional_write: bool,
    /// The upper bits of the local address, for receive-side remapping: the number of a page of the
    /// 32-bit PCI address space. Without it the network address is the PCI address (generation 1).
    #[serde(default)]
    pub remap: Option<u32>,
}

/// The entries of one adapter for each page of the window, in one direction. Memory follows the
/// highest page that is mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlTable<E> {
    pages: u32,
    entries: Vec<Option<E>>,
}

fn enabled() -> bool {
    true
}

impl PageSize {
    /// The size in bytes.
    pub const fn bytes(self) -> Bytes {
        match self {
            PageSize::FourKb => Bytes(4096),
            PageSize::EightKb => Bytes(8192),
        }
    }

    /// The page that an offset into the window lies in, and the offset within the page.
    pub const fn locate(self, offset: u64) -> (NetworkPage, u64) {
        let size = self.bytes().0;
        (NetworkPage((offset / size) as u32), offset % size)
    }
}

impl TryFrom<Bytes> for PageSize {
    type Error = PageSizeError;

    fn try_from(size: Bytes) -> Result<PageSize, PageSizeError> {
        match size {
            Bytes(4096) => Ok(PageSize::FourKb),
            Bytes(8192) => Ok(PageSize::EightKb),
            other => Err(PageSizeError(other)),
        }
    }
}

impl From<PageSize> for Bytes {
    fn from(size: PageSize) -> Bytes {
        size.bytes()
    }
}

impl TransmitPage {
    /// An enabled page without further attributes.
    pub const fn to(reach: Reach) -> TransmitPage {
        TransmitPage {
            reach,
            enabled: true,
            local_copy: false,
            sweep: false,
            acknowledge: false,
            under_error: false,
        }
    }
}

impl Default for ReceivePage {
    /// An enabled page without further attributes.
    fn default() -> ReceivePage {
        ReceivePage {
            enabled: true,
            interrupt: false,
            under_error: false,
            remote_read: false,
            conditional_write: false,
            remap: None,
        }
    }
}

impl<E> ControlTable<E> {
    /// A table of a number of pages, none of which is mapped.
    pub fn new(pages: u32) -> ControlTable<E> {
        ControlTable { pages, entries: Vec::new() }
    }

    /// How many pages the window has.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// The entry of a page, if it is mapped.
    pub fn get(&self, page: NetworkPage) -> Option<&E> {
        self.entries.get(page.0 as usize)?.as_ref()
    }

    /// The place of an entry; `None` for a page past the end of the window.
    pub(super) fn slot(&mut self, page: NetworkPage) -> Option<&mut Option<E>> {
        let place = page.0 as usize;
        if page.0 < self.pages && place >= self.entries.len() {
            self.entries.resize_with(place + 1, || None);
        }
        self.entries.get_mut(place)
    }

    /// The pages that are mapped, with their entries, in order.
    pub fn mapped(&self) -> impl Iterator<Item = (NetworkPage, &E)> {
        let pages = (0..).map(NetworkPage).zip(&self.entries);
        pages.filter_map(|(page, entry)| Some((page, entry.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_lies_in_one_page_of_either_size() {
        assert_eq!(PageSize::FourKb.locate(8191), (NetworkPage(1), 4095));
        assert_eq!(PageSize::EightKb.locate(8191), (NetworkPage(0), 8191));
        assert_eq!(PageSize::EightKb.locate(8192), (NetworkPage(1), 0));
    }

    #[test]
    fn other_sizes_are_refused() {
        let refused = PageSize::try_from(Bytes(16384)).map_err(|error| error.to_string());
        assert_eq!(refused, Err("pages of 16 KiB: accepted are 4 KiB and 8 KiB".to_owned()));
    }
}
