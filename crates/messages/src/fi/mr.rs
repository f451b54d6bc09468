//! Memory registrations: `fi_mr(3)`. Any memory of a process may be sent from and received into; a registration opens
//! memory to the remote accesses of peers.

use std::collections::HashMap;
use std::sync::Arc;

use libc::{c_int, c_void, iovec, size_t};

use super::abi::{
    FI_CLASS_MR, FI_ENOKEY, FI_MR_BASIC, FI_MR_PROV_KEY, FI_MR_VIRT_ADDR, FI_REMOTE_READ,
    FI_REMOTE_WRITE, fi_mr_attr, fi_ops, fi_ops_mr, fid, fid_mr,
};
use super::domain::Domain;
use super::state::Shared;
use super::{hand_out, only_closed};
use crate::channel::Range;
use crate::endpoint::Touch;
use crate::sys::Errno;

#[derive(Clone, Copy, Debug)]
struct Region {
    base: usize,
    length: usize,
    access: u64,
}

/// The registrations of a domain.
#[derive(Debug, Default)]
pub struct Regions {
    by_key: HashMap<u64, Region>,
    /// Whether peers name virtual addresses, rather than offsets in a region.
    is_virtual: bool,
    /// Whether keys are chosen here, rather than by the program.
    chooses_keys: bool,
    next: u64,
}

impl Regions {
    /// No registrations, in a mode of `fi_domain_attr`.
    pub fn of_mode(mode: c_int) -> Self {
        let is_basic = mode == FI_MR_BASIC;
        Self {
            is_virtual: is_basic || mode & FI_MR_VIRT_ADDR != 0,
            chooses_keys: is_basic || mode & FI_MR_PROV_KEY != 0,
            ..Self::default()
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Registers a region; its key.
    fn add(&mut self, region: Region, requested: u64) -> Result<u64, Errno> {
        let key = if self.chooses_keys { self.next } else { requested };
        self.next += u64::from(self.chooses_keys);
        if self.by_key.contains_key(&key) {
            return Err(FI_ENOKEY);
        }
        self.by_key.insert(key, region);
        Ok(key)
    }

    /// The address of a range that a peer names.
    ///
    /// # Errors
    ///
    /// `FI_ENOKEY`, `EACCES` if the registration does not permit the access, `EFAULT` if the range lies outside.
    pub fn resolve(&self, range: &Range, touch: Touch) -> Result<*mut u8, Errno> {
        let region = self.by_key.get(&range.key).ok_or(FI_ENOKEY)?;
        let permits = |flag| region.access & flag != 0;
        if touch.reads && !permits(FI_REMOTE_READ) || touch.writes && !permits(FI_REMOTE_WRITE) {
            return Err(libc::EACCES);
        }
        let origin = if self.is_virtual { region.base as u64 } else { 0 };
        let offset = range.address.checked_sub(origin);
        let end = offset.and_then(|offset| offset.checked_add(range.length));
        match offset.filter(|_| end.is_some_and(|end| end <= region.length as u64)) {
            Some(offset) => {
                Ok(std::ptr::with_exposed_provenance_mut(region.base + offset as usize))
            }
            None => Err(libc::EFAULT),
        }
    }
}

#[repr(C)]
struct Mr {
    fid: fid_mr,
    shared: Arc<Shared>,
}

static FID: fi_ops = only_closed(close);
pub static OPS: fi_ops_mr = fi_ops_mr { size: size_of::<fi_ops_mr>(), reg, regv, regattr };

unsafe fn register(
    domain: *mut fid,
    places: &[iovec],
    access: u64,
    requested: u64,
    place: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the program passes an object of this provider.
    let domain = unsafe { &*domain.cast::<Domain>() };
    let [memory] = places else { return -libc::EINVAL };
    let region =
        Region { base: memory.iov_base.expose_provenance(), length: memory.iov_len, access };
    let key = match domain.shared.lock().regions.add(region, requested) {
        Ok(key) => key,
        Err(error) => return -error,
    };
    let fid = fid { fclass: FI_CLASS_MR, context, ops: &raw const FID };
    let fid = fid_mr { fid, mem_desc: std::ptr::null_mut(), key };
    let region = Mr { fid, shared: Arc::clone(&domain.shared) };
    // SAFETY: the caller's promise; the object begins with its identifier.
    unsafe { hand_out(place, Box::new(region)) }
}

unsafe extern "C" fn reg(
    domain: *mut fid,
    memory: *const c_void,
    length: size_t,
    access: u64,
    _offset: u64,
    requested: u64,
    _flags: u64,
    place: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    let memory = iovec { iov_base: memory.cast_mut(), iov_len: length };
    // SAFETY: the caller's promise.
    unsafe { register(domain, &[memory], access, requested, place, context) }
}

unsafe extern "C" fn regv(
    domain: *mut fid,
    vector: *const iovec,
    count: size_t,
    access: u64,
    _offset: u64,
    requested: u64,
    _flags: u64,
    place: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    if count != 1 {
        return -libc::EINVAL;
    }
    // SAFETY: the caller's promise.
    unsafe { register(domain, std::slice::from_ref(&*vector), access, requested, place, context) }
}

unsafe extern "C" fn regattr(
    domain: *mut fid,
    attr: *const fi_mr_attr,
    flags: u64,
    place: *mut *mut fid_mr,
) -> c_int {
    // SAFETY: the caller has attributes.
    let it = unsafe { &*attr };
    let key = it.requested_key;
    // SAFETY: the caller's promise.
    unsafe { regv(domain, it.mr_iov, it.iov_count, it.access, 0, key, flags, place, it.context) }
}

/// Peers reach nothing of the region once this returns.
unsafe extern "C" fn close(object: *mut fid) -> c_int {
    // SAFETY: the program passes an object of this provider, for the last time.
    let region = unsafe { Box::from_raw(object.cast::<Mr>()) };
    region.shared.lock().regions.by_key.remove(&region.fid.key);
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    const READS: Touch = Touch { reads: true, writes: false };
    const WRITES: Touch = Touch { reads: false, writes: true };

    fn region(access: u64) -> Region {
        Region { base: 0x1000, length: 100, access }
    }

    #[test]
    fn a_range_is_resolved_within_its_region_only() {
        for (mode, origin) in [(0, 0), (FI_MR_BASIC, 0x1000), (FI_MR_VIRT_ADDR, 0x1000)] {
            let mut regions = Regions::of_mode(mode);
            let key = regions.add(region(FI_REMOTE_READ), 7).unwrap();
            let at = |address, length| {
                let range = Range { address, length, key };
                regions.resolve(&range, READS).map(|it| it.addr())
            };
            assert_eq!((at(origin, 100), at(origin + 99, 1)), (Ok(0x1000), Ok(0x1063)));
            for (address, length) in [
                (origin, 101),
                (origin + 100, 1),
                (origin.wrapping_sub(1), 1),
                (origin + 1, u64::MAX),
            ] {
                assert_eq!(at(address, length), Err(libc::EFAULT), "{length} at {address}");
            }
        }
    }

    #[test]
    fn keys_and_permissions_are_checked() {
        let mut regions = Regions::of_mode(0);
        assert_eq!(regions.add(region(FI_REMOTE_READ), 7), Ok(7));
        assert_eq!(regions.add(region(FI_REMOTE_READ), 7), Err(FI_ENOKEY), "the key is in use");
        let range = |key| Range { address: 0, length: 1, key };
        assert_eq!(regions.resolve(&range(8), READS), Err(FI_ENOKEY));
        assert_eq!(regions.resolve(&range(7), WRITES), Err(libc::EACCES));
        let mut regions = Regions::of_mode(FI_MR_PROV_KEY);
        let keys = [1, 1].map(|asked| regions.add(region(0), asked).unwrap());
        assert_ne!(keys[0], keys[1], "keys are chosen here");
        assert_eq!(regions.resolve(&range(keys[0]), READS), Err(libc::EACCES));
    }
}
