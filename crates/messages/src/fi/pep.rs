//! Passive endpoints, and the connections of active ones: `fi_endpoint(3)`, `fi_cm(3)`.

use std::sync::{Arc, Mutex, PoisonError};

use libc::{c_int, c_void, size_t};

use super::abi::{
    FI_CLASS_CONNREQ, FI_CLASS_EQ, FI_CLASS_PEP, FI_ENOSYS, FI_EOPBADSTATE, FI_EP_MSG,
    FI_OPT_CM_DATA_SIZE, FI_OPT_ENDPOINT, fi_info, fi_ops, fi_ops_cm, fi_ops_ep, fid, fid_ep,
    fid_fabric, fid_pep,
};
use super::av::put_name;
use super::cm::{Active, Events, MOST_DATA};
use super::ep::Ep;
use super::eq::Eq;
use super::state::Working;
use super::{NOT_OFFERED, hand_out, info, no_control, no_ops, only_closed, outcome};
use crate::rendezvous::{Directory, Name};
use crate::sys::Errno;

/// A passive endpoint as programs hold it.
#[repr(C)]
struct Pep {
    fid: fid_pep,
    name: Name,
    directory: Directory,
    events: Mutex<Option<Arc<Events>>>,
    /// For the endpoints that accept: the capabilities, the version of the program's headers, the mode of
    /// registrations.
    caps: u64,
    version: u32,
    mr_mode: c_int,
}

/// A request as programs hold it: the handle in its `fi_info`.
#[repr(C)]
pub struct Request {
    fid: fid,
    pub events: Arc<Events>,
    /// By which the event queue knows it.
    pub number: usize,
}

static FID: fi_ops =
    fi_ops { size: size_of::<fi_ops>(), close, bind, control: no_control, ops_open: no_ops };
static REQUEST: fi_ops = only_closed(close_request);
static OPS: fi_ops_ep = fi_ops_ep {
    size: size_of::<fi_ops_ep>(),
    cancel: super::ep::no_cancel,
    getopt,
    setopt: super::ep::setopt,
    tx_ctx: NOT_OFFERED,
    rx_ctx: NOT_OFFERED,
    rx_size_left: super::ep::size_left,
    tx_size_left: super::ep::size_left,
};
static CM: fi_ops_cm = fi_ops_cm {
    size: size_of::<fi_ops_cm>(),
    setname: super::ep::setname,
    getname,
    getpeer: no_getpeer,
    connect: no_connect,
    listen,
    accept: no_accept,
    reject,
    shutdown: no_shutdown,
    join: NOT_OFFERED,
};
/// The connection management of an active endpoint.
pub static ACTIVE: fi_ops_cm = fi_ops_cm {
    size: size_of::<fi_ops_cm>(),
    setname: super::ep::setname,
    getname: super::ep::getname,
    getpeer,
    connect,
    listen: no_listen,
    accept,
    reject: no_reject,
    shutdown,
    join: NOT_OFFERED,
};

/// `fi_passive_ep`.
pub unsafe extern "C" fn open(
    _: *mut fid_fabric,
    info: *mut fi_info,
    place: *mut *mut fid_pep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller has valid attributes.
    let info = unsafe { &*info };
    // SAFETY: as above.
    let (kind, version, mr_mode) = unsafe {
        let kind = info.ep_attr.as_ref().map_or(0, |it| it.r#type);
        let version = info.fabric_attr.as_ref().map_or(super::abi::FI_API, |it| it.api_version);
        (kind, version, info.domain_attr.as_ref().map_or(0, |it| it.mr_mode))
    };
    if kind != FI_EP_MSG {
        return -libc::EINVAL;
    }
    let Ok(directory) = Directory::find() else { return -libc::EACCES };
    let fid = fid { fclass: FI_CLASS_PEP, context, ops: &raw const FID };
    let fid = fid_pep { fid, ops: &raw const OPS, cm: &raw const CM };
    let (name, events, caps) = (Name::new(), Mutex::new(None), info.caps);
    let passive = Pep { fid, name, directory, events, caps, version, mr_mode };
    // SAFETY: the caller's promise; the object begins with its identifier.
    unsafe { hand_out(place, Box::new(passive)) }
}

fn bound(events: &Mutex<Option<Arc<Events>>>) -> Result<Arc<Events>, Errno> {
    events.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or(FI_EOPBADSTATE)
}

unsafe extern "C" fn close(object: *mut fid) -> c_int {
    // SAFETY: the program passes an object of this provider, for the last time.
    let passive = unsafe { Box::from_raw(object.cast::<Pep>()) };
    if let Ok(events) = bound(&passive.events) {
        events.lock().end(object.expose_provenance());
    }
    0
}

unsafe extern "C" fn bind(object: *mut fid, other: *mut fid, _: u64) -> c_int {
    // SAFETY: the program passes objects of this provider, whose class identifies their type.
    unsafe {
        if (*other).fclass != FI_CLASS_EQ {
            return -libc::EINVAL;
        }
        let passive = &*object.cast::<Pep>();
        let events = Arc::clone(&(*other.cast::<Eq>()).events);
        *passive.events.lock().unwrap_or_else(PoisonError::into_inner) = Some(events);
    }
    0
}

unsafe extern "C" fn close_request(object: *mut fid) -> c_int {
    // SAFETY: the program passes an object of this provider, for the last time.
    drop(unsafe { Box::from_raw(object.cast::<Request>()) });
    0
}

/// The `fi_info` of a request that came to a passive endpoint.
///
/// # Safety
///
/// The number is that of an open passive endpoint's identifier.
pub unsafe fn info_of_request(passive: usize, number: usize) -> Result<*mut fi_info, Errno> {
    // SAFETY: the caller's promise.
    let passive = unsafe { &*std::ptr::with_exposed_provenance::<Pep>(passive) };
    let events = bound(&passive.events)?;
    let fid =
        fid { fclass: FI_CLASS_CONNREQ, context: std::ptr::null_mut(), ops: &raw const REQUEST };
    let info = info::of_connection(passive.version, passive.caps, passive.mr_mode);
    if info.is_null() {
        return Err(libc::ENOMEM);
    }
    let request = Box::into_raw(Box::new(Request { fid, events, number }));
    // SAFETY: the structure was just made.
    unsafe { (*info).handle = request.cast() };
    Ok(info)
}

unsafe extern "C" fn listen(passive: *mut fid_pep) -> c_int {
    let fid = passive.expose_provenance();
    // SAFETY: the program passes an object of this provider.
    let passive = unsafe { &*passive.cast::<Pep>() };
    let listening = bound(&passive.events)
        .and_then(|events| events.lock().listen(&passive.directory, passive.name, fid));
    outcome(listening.map(drop))
}

/// Data of a program, if it is not too long.
unsafe fn data<'a>(data: *const c_void, length: size_t) -> Result<&'a [u8], Errno> {
    match length {
        0 => Ok(&[]),
        // SAFETY: the caller has that many bytes.
        1..=MOST_DATA => Ok(unsafe { std::slice::from_raw_parts(data.cast(), length) }),
        _ => Err(libc::EINVAL),
    }
}

unsafe extern "C" fn reject(
    passive: *mut fid_pep,
    handle: *mut fid,
    bytes: *const c_void,
    length: size_t,
) -> c_int {
    // SAFETY: the program passes objects of this provider, and has that many bytes.
    unsafe {
        let passive = &*passive.cast::<Pep>();
        let bytes = match data(bytes, length) {
            Ok(bytes) if !handle.is_null() => bytes,
            _ => return -libc::EINVAL,
        };
        let request = Box::from_raw(handle.cast::<Request>());
        outcome(request.events.lock().reject(request.number, passive.name, bytes))
    }
}

unsafe extern "C" fn connect(
    endpoint: *mut fid_ep,
    address: *const c_void,
    bytes: *const c_void,
    length: size_t,
) -> c_int {
    // SAFETY: the program passes an object of this provider, an address of this format, and that
    // many bytes.
    let done = unsafe {
        let endpoint = &*endpoint.cast::<Ep>();
        let name = match address.is_null() {
            true => endpoint.destination,
            false => Name::from_bytes(&address.cast::<[u8; Name::LENGTH]>().read_unaligned()),
        };
        let name = name.filter(Name::is_here).ok_or(libc::EINVAL);
        name.and_then(|name| {
            let (events, bytes) = (bound(&endpoint.events)?, data(bytes, length)?);
            let directory = Directory::find().map_err(|_| libc::EACCES)?;
            let active = active(endpoint)?;
            events.lock().connect(&directory, name, active, bytes)
        })
    };
    outcome(done.map(drop))
}

/// The endpoint as the event queue knows it. Connecting enables it.
fn active(endpoint: &Ep) -> Result<Active, Errno> {
    let mut state = endpoint.shared.lock();
    let bound = &mut state.endpoints().get(endpoint.number)?.bound;
    bound.is_enabled = true;
    Ok(Active {
        fid: std::ptr::from_ref(endpoint).expose_provenance(),
        shared: Arc::clone(&endpoint.shared),
        number: endpoint.number,
        name: bound.endpoint.name(),
    })
}

unsafe extern "C" fn accept(endpoint: *mut fid_ep, bytes: *const c_void, length: size_t) -> c_int {
    // SAFETY: the program passes an object of this provider, and that many bytes.
    let (endpoint, bytes) = unsafe { (&*endpoint.cast::<Ep>(), data(bytes, length)) };
    let taken = endpoint.request.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some((request, events)) = taken else { return -FI_EOPBADSTATE };
    outcome(bytes.and_then(|bytes| {
        let own = bound(&endpoint.events)?;
        let active = active(endpoint)?;
        // The connection lives where its events go.
        let (request, events) = if Arc::ptr_eq(&own, &events) {
            (request, events)
        } else {
            let (peer, name) = events.lock().take_request(request)?;
            let request = own.lock().add_request(peer, name);
            (request, own)
        };
        events.lock().accept(request, &active, bytes)
    }))
}

unsafe extern "C" fn shutdown(endpoint: *mut fid_ep, _: u64) -> c_int {
    let number = endpoint.expose_provenance();
    // SAFETY: the program passes an object of this provider.
    let endpoint = unsafe { &*endpoint.cast::<Ep>() };
    if let Ok(events) = bound(&endpoint.events) {
        events.lock().end(number);
    }
    let mut state = endpoint.shared.lock();
    outcome(state.working(endpoint.number).map(|Working { bound, mut reporter, .. }| {
        if let Some(peer) = bound.peer.take() {
            bound.endpoint.disconnect(peer, &mut reporter);
        }
    }))
}

unsafe extern "C" fn getpeer(
    endpoint: *mut fid_ep,
    place: *mut c_void,
    length: *mut size_t,
) -> c_int {
    // SAFETY: the program passes an object of this provider.
    let endpoint = unsafe { &*endpoint.cast::<Ep>() };
    let mut state = endpoint.shared.lock();
    let peer = state.endpoints().get(endpoint.number).map(|it| it.bound.peer);
    let name =
        peer.and_then(|peer| peer.and_then(|peer| state.peers.name(peer)).ok_or(libc::ENOTCONN));
    // SAFETY: the caller has room for `length` bytes.
    outcome(name.and_then(|name| unsafe { put_name(name, place, length) }))
}

unsafe extern "C" fn getname(object: *mut fid, place: *mut c_void, length: *mut size_t) -> c_int {
    // SAFETY: the program passes an object of this provider.
    let passive = unsafe { &*object.cast::<Pep>() };
    // SAFETY: the caller has room for `length` bytes.
    outcome(unsafe { put_name(passive.name, place, length) })
}

/// `fi_getopt`: how much data goes with a request.
pub unsafe extern "C" fn getopt(
    _: *mut fid,
    level: c_int,
    option: c_int,
    place: *mut c_void,
    length: *mut size_t,
) -> c_int {
    if level != FI_OPT_ENDPOINT || option != FI_OPT_CM_DATA_SIZE {
        return -libc::ENOPROTOOPT;
    }
    // SAFETY: the caller has room for `length` bytes.
    unsafe {
        if length.read() < size_of::<size_t>() {
            return -super::abi::FI_ETOOSMALL;
        }
        place.cast::<size_t>().write(MOST_DATA);
        length.write(size_of::<size_t>());
    }
    0
}

unsafe extern "C" fn no_getpeer(_: *mut fid_ep, _: *mut c_void, _: *mut size_t) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn no_connect(
    _: *mut fid_ep,
    _: *const c_void,
    _: *const c_void,
    _: size_t,
) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn no_listen(_: *mut fid_pep) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn no_accept(_: *mut fid_ep, _: *const c_void, _: size_t) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn no_reject(_: *mut fid_pep, _: *mut fid, _: *const c_void, _: size_t) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn no_shutdown(_: *mut fid_ep, _: u64) -> c_int {
    -FI_ENOSYS
}

/// The connection management of an endpoint without connections.
pub static CONNECTIONLESS: fi_ops_cm = fi_ops_cm {
    size: size_of::<fi_ops_cm>(),
    setname: super::ep::setname,
    getname: super::ep::getname,
    getpeer: no_getpeer,
    connect: no_connect,
    listen: no_listen,
    accept: no_accept,
    reject: no_reject,
    shutdown: no_shutdown,
    join: NOT_OFFERED,
};
