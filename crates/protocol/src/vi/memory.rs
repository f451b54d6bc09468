//! Registered memory: what adapters may read and write in the memory of a host.

use std::collections::BTreeMap;

use super::Fault;

/// The protection domain that an endpoint or a region belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProtectionTag(pub u32);

/// The name of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryHandle(pub u32);

/// Bytes that a program has registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    /// The tag of the endpoints that may refer to it.
    pub tag: ProtectionTag,
    /// The first byte.
    pub address: u64,
    /// How many bytes.
    pub length: u64,
    /// Whether RDMA writes may go there.
    pub is_writable: bool,
}

/// A place in the memory of another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RemoteAddress {
    /// The region there.
    pub handle: MemoryHandle,
    /// The first byte.
    pub address: u64,
}

/// The regions of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Registry {
    regions: BTreeMap<MemoryHandle, Region>,
    next: u32,
}

impl Registry {
    /// No regions.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Registers a region. Handles are not used again.
    pub fn register(&mut self, region: Region) -> MemoryHandle {
        let handle = MemoryHandle(self.next);
        self.next += 1;
        self.regions.insert(handle, region);
        handle
    }

    /// Ends the registration of a region, and returns the region.
    pub fn deregister(&mut self, handle: MemoryHandle) -> Option<Region> {
        self.regions.remove(&handle)
    }

    /// Whether an endpoint with `tag` on another host may write this many bytes to `to`.
    ///
    /// # Errors
    /// The [`Fault`] of the first check that fails: the memory is registered, the tags are equal,
    /// the region is writable, the bytes lie inside it.
    pub fn check_write(
        &self,
        tag: ProtectionTag,
        to: RemoteAddress,
        length: u64,
    ) -> Result<(), Fault> {
        let region = self.of_tag(tag, to.handle)?;
        if !region.is_writable {
            return Err(Fault::NotWritable(to.handle));
        }
        region.check(to, length)
    }

    /// Whether a descriptor of an endpoint with `tag` may refer to this many bytes of local memory.
    ///
    /// # Errors
    /// The [`Fault`] of the first check that fails: the memory is registered, the tags are equal,
    /// the bytes lie inside the region.
    pub fn check_local(
        &self,
        tag: ProtectionTag,
        at: RemoteAddress,
        length: u64,
    ) -> Result<(), Fault> {
        self.of_tag(tag, at.handle)?.check(at, length)
    }

    fn of_tag(&self, tag: ProtectionTag, handle: MemoryHandle) -> Result<&Region, Fault> {
        let region = self.regions.get(&handle).ok_or(Fault::NotRegistered(handle))?;
        if region.tag != tag {
            return Err(Fault::WrongTag { memory: region.tag, endpoint: tag });
        }
        Ok(region)
    }
}

impl Region {
    /// Whether this many bytes lie inside of it.
    fn check(&self, at: RemoteAddress, length: u64) -> Result<(), Fault> {
        let RemoteAddress { handle, address } = at;
        let begins = address >= self.address;
        let ends = address.checked_add(length).zip(self.address.checked_add(self.length));
        if !begins || ends.is_none_or(|(end, last)| end > last) {
            return Err(Fault::OutOfRegion { handle, address, length });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bytes_of_the_region_under_its_tag_may_be_written() {
        let mut memory = Registry::new();
        let tag = ProtectionTag(7);
        let region = Region { tag, address: 4096, length: 100, is_writable: true };
        let handle = memory.register(region);
        let closed = memory.register(Region { is_writable: false, ..region });
        let check = |tag: u32, handle, address, length| {
            let to = RemoteAddress { handle, address };
            memory.check_write(ProtectionTag(tag), to, length).map_err(|fault| fault.to_string())
        };
        assert_eq!(check(7, handle, 4096, 100), Ok(()));
        let own = |tag, length| {
            let at = RemoteAddress { handle: closed, address: 4096 };
            memory.check_local(ProtectionTag(tag), at, length).is_ok()
        };
        assert_eq!([own(7, 100), own(7, 101), own(8, 1)], [true, false, false]);
        assert_eq!(check(7, handle, 4196, 0), Ok(()));
        let refused = |tag, handle, address, length| check(tag, handle, address, length).err();
        let outside = "101 bytes at address 4096 lie outside of the region of handle 0";
        assert_eq!(refused(7, handle, 4096, 101).as_deref(), Some(outside));
        assert!(refused(7, handle, 4095, 1).is_some());
        assert!(refused(7, handle, u64::MAX, 2).is_some());
        let other = "memory with protection tag 7 was named by an endpoint with tag 8";
        assert_eq!(refused(8, handle, 4096, 1).as_deref(), Some(other));
        let not_open = "the region of handle 1 is not open to RDMA writes";
        assert_eq!(refused(7, closed, 4096, 1).as_deref(), Some(not_open));
        let unknown = "no memory is registered under handle 9";
        assert_eq!(refused(7, MemoryHandle(9), 4096, 1).as_deref(), Some(unknown));
    }

    #[test]
    fn a_handle_that_was_given_back_stands_for_nothing() {
        let mut memory = Registry::new();
        let region = Region { tag: ProtectionTag(1), address: 0, length: 8, is_writable: true };
        let first = memory.register(region);
        assert_eq!(memory.deregister(first), Some(region));
        let second = memory.register(region);
        assert_ne!(first, second);
        let to = |handle| RemoteAddress { handle, address: 0 };
        let check = |handle| memory.check_write(ProtectionTag(1), to(handle), 8);
        assert_eq!((check(first), check(second)), (Err(Fault::NotRegistered(first)), Ok(())));
    }
}
