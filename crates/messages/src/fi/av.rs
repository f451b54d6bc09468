//! Address vectors: `fi_av(3)`.

use std::ffi::CString;
use std::sync::Arc;

use libc::{c_char, c_int, c_void, size_t};

use super::abi::{
    FI_ADDR_NOTAVAIL, FI_AV_MAP, FI_AV_TABLE, FI_AV_UNSPEC, FI_CLASS_AV, FI_ENOSYS, fi_av_attr,
    fi_ops, fi_ops_av, fid, fid_av,
};
use super::domain::Domain;
use super::state::{Shared, Vector};
use super::{NOT_OFFERED, hand_out, no_control, no_ops, outcome};
use crate::rendezvous::Name;

/// An address vector as programs hold it.
#[repr(C)]
pub struct Av {
    fid: fid_av,
    pub shared: Arc<Shared>,
    pub number: usize,
}

static FID: fi_ops =
    fi_ops { size: size_of::<fi_ops>(), close, bind, control: no_control, ops_open: no_ops };
static OPS: fi_ops_av = fi_ops_av {
    size: size_of::<fi_ops_av>(),
    insert,
    insertsvc: NOT_OFFERED,
    insertsym: NOT_OFFERED,
    remove,
    lookup,
    straddr,
};

/// `fi_av_open`.
pub unsafe fn open(
    domain: &Domain,
    attr: Option<&fi_av_attr>,
    place: *mut *mut fid_av,
    context: *mut c_void,
) -> c_int {
    let attr_is_offered = attr.is_none_or(|attr| {
        matches!(attr.r#type, FI_AV_UNSPEC | FI_AV_MAP | FI_AV_TABLE)
            && attr.rx_ctx_bits == 0
            && attr.name.is_null()
            && attr.flags == 0
    });
    if !attr_is_offered {
        return -FI_ENOSYS;
    }
    let number = domain.shared.lock().vectors.add(Vector::default());
    let ops = &raw const FID;
    let fid = fid_av { fid: fid { fclass: FI_CLASS_AV, context, ops }, ops: &raw const OPS };
    let vector = Av { fid, shared: Arc::clone(&domain.shared), number };
    // SAFETY: the caller's promise; the object begins with its identifier.
    unsafe { hand_out(place, Box::new(vector)) }
}

unsafe extern "C" fn close(object: *mut fid) -> c_int {
    // SAFETY: the program passes an object of this provider, for the last time.
    let vector = unsafe { Box::from_raw(object.cast::<Av>()) };
    let mut state = vector.shared.lock();
    if state.endpoints().iter_mut().any(|it| it.bound.vector == Some(vector.number)) {
        drop(state);
        let _ = Box::into_raw(vector);
        return -libc::EBUSY;
    }
    state.vectors.remove(vector.number);
    0
}

/// An event queue may be bound; insertion is synchronous, so no event is ever written to it.
unsafe extern "C" fn bind(_: *mut fid, _: *mut fid, _: u64) -> c_int {
    0
}

unsafe extern "C" fn insert(
    vector: *mut fid_av,
    names: *const c_void,
    count: size_t,
    places: *mut u64,
    _flags: u64,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: the program passes an object of this provider.
    let vector = unsafe { &*vector.cast::<Av>() };
    let mut state = vector.shared.lock();
    let mut inserted = 0;
    for index in 0..count {
        // SAFETY: the caller has that many names of this provider's format.
        let bytes = unsafe { names.cast::<[u8; Name::LENGTH]>().add(index).read_unaligned() };
        // Endpoints of other hosts cannot be reached.
        let name = Name::from_bytes(&bytes).filter(Name::is_here);
        let address = name.map_or(FI_ADDR_NOTAVAIL, |name| {
            let peer = state.peers.number(name);
            state.vectors.get(vector.number).map_or(FI_ADDR_NOTAVAIL, |it| it.insert(peer))
        });
        inserted += c_int::from(address != FI_ADDR_NOTAVAIL);
        if !places.is_null() {
            // SAFETY: the caller has room for that many addresses.
            unsafe { places.add(index).write(address) };
        }
    }
    inserted
}

unsafe extern "C" fn remove(
    vector: *mut fid_av,
    addresses: *mut u64,
    count: size_t,
    _flags: u64,
) -> c_int {
    // SAFETY: the program passes an object of this provider.
    let vector = unsafe { &*vector.cast::<Av>() };
    let mut state = vector.shared.lock();
    outcome(state.vectors.get(vector.number).and_then(|it| {
        (0..count).try_for_each(|index| {
            // SAFETY: the caller has that many addresses.
            let address = unsafe { addresses.add(index).read() };
            if it.remove(address) { Ok(()) } else { Err(libc::EINVAL) }
        })
    }))
}

unsafe extern "C" fn lookup(
    vector: *mut fid_av,
    address: u64,
    place: *mut c_void,
    length: *mut size_t,
) -> c_int {
    // SAFETY: the program passes an object of this provider.
    let vector = unsafe { &*vector.cast::<Av>() };
    let mut state = vector.shared.lock();
    let peer = state.vectors.get(vector.number).and_then(|it| it.peer(address));
    let name = peer.and_then(|peer| state.peers.name(peer).ok_or(libc::EINVAL));
    // SAFETY: the caller has room for `length` bytes.
    outcome(name.map(|name| unsafe { put_name(name, place, length) }.unwrap_or(())))
}

/// Copies as much of a name as fits into the program's buffer, and stores its full length.
pub unsafe fn put_name(name: Name, place: *mut c_void, length: *mut size_t) -> Result<(), c_int> {
    let bytes = name.to_bytes();
    // SAFETY: the caller's promise.
    unsafe {
        let room = length.read();
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.cast(), room.min(bytes.len()));
        length.write(bytes.len());
        if room < bytes.len() { Err(super::abi::FI_ETOOSMALL) } else { Ok(()) }
    }
}

unsafe extern "C" fn straddr(
    _vector: *mut fid_av,
    name: *const c_void,
    buffer: *mut c_char,
    length: *mut size_t,
) -> *const c_char {
    // SAFETY: the caller has a name of this provider's format.
    let bytes = unsafe { name.cast::<[u8; Name::LENGTH]>().read_unaligned() };
    let text = Name::from_bytes(&bytes).map_or_else(
        || "no name of weft".to_owned(),
        |name| format!("weft://{}/{:08x}-{:016x}", name.pid, name.serial, name.nonce),
    );
    let text = CString::new(text).unwrap_or_default();
    let bytes = text.as_bytes_with_nul();
    // SAFETY: the caller has room for `length` bytes.
    unsafe {
        let room = length.read();
        length.write(bytes.len());
        if room > 0 {
            let count = room.min(bytes.len());
            std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), buffer, count);
            buffer.add(count - 1).write(0);
        }
    }
    buffer
}
