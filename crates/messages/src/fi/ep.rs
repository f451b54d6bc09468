//! Active endpoints: `fi_endpoint(3)`.

use std::sync::{Arc, Mutex, PoisonError};

use libc::{c_int, c_void, size_t, ssize_t};

use super::abi::{
    FI_CLASS_AV, FI_CLASS_CNTR, FI_CLASS_CQ, FI_CLASS_EP, FI_CLASS_EQ, FI_DIRECTED_RECV, FI_ENABLE,
    FI_ENOAV, FI_ENOCQ, FI_ENOSYS, FI_EP_MSG, FI_GETOPSFLAG, FI_READ, FI_RECV,
    FI_SELECTIVE_COMPLETION, FI_SEND, FI_SETOPSFLAG, FI_WRITE, fi_info, fi_ops, fi_ops_ep, fid,
    fid_ep,
};
use super::av::{Av, put_name};
use super::cm::Events;
use super::cntr::Cntr;
use super::cq::Cq;
use super::domain::Domain;
use super::eq::Eq;
use super::pep::{self, Request};
use super::record::{self, Record};
use super::state::{Binding, Bindings, Bound, Entry, Shared, State, Waiter, Working};
use super::{NOT_OFFERED, atomic, hand_out, info, message, no_ops, outcome, rma};
use crate::endpoint::{Endpoint, MOST_LONG};
use crate::rendezvous::{Directory, Name};
use crate::sys::Errno;

/// An endpoint as programs hold it.
#[repr(C)]
pub struct Ep {
    fid: fid_ep,
    pub shared: Arc<Shared>,
    pub number: usize,
    /// The event queue that it is bound to.
    pub events: Mutex<Option<Arc<Events>>>,
    /// The request that it is to accept, and the event queue that knows it.
    pub request: Mutex<Option<(usize, Arc<Events>)>>,
    /// Whom it is to connect to, if the program names nobody else.
    pub destination: Option<Name>,
}

static FID: fi_ops = fi_ops { size: size_of::<fi_ops>(), close, bind, control, ops_open: no_ops };
static OPS: fi_ops_ep = fi_ops_ep {
    size: size_of::<fi_ops_ep>(),
    cancel,
    getopt: pep::getopt,
    setopt,
    tx_ctx: NOT_OFFERED,
    rx_ctx: NOT_OFFERED,
    rx_size_left: size_left,
    tx_size_left: size_left,
};

/// `fi_endpoint`.
pub unsafe fn open(
    domain: &Domain,
    info: Option<&fi_info>,
    place: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    let endpoint = match make() {
        Ok(endpoint) => endpoint,
        Err(error) => return -error,
    };
    let mut state = domain.shared.lock();
    if let Some(folder) = std::env::var_os(record::DIRECTORY).filter(|_| state.record.is_none()) {
        match Record::new(folder.as_ref(), endpoint.name()) {
            Ok(record) => state.record = Some(Box::new(record)),
            Err(error) => return -error,
        }
    }
    drop(state);
    // SAFETY: the caller's promise.
    unsafe { open_with(endpoint, domain, info, place, context) }
}

/// `fi_endpoint` of an endpoint that was made.
///
/// # Safety
///
/// As the manual page says of its pointers.
pub unsafe fn open_with(
    mut endpoint: Endpoint,
    domain: &Domain,
    info: Option<&fi_info>,
    place: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller has valid attributes, or none.
    let (tx, rx) = unsafe {
        let tx = info.and_then(|info| info.tx_attr.as_ref());
        (tx, info.and_then(|info| info.rx_attr.as_ref()))
    };
    let sends = Binding { flags: tx.map_or(0, |it| it.op_flags), ..Binding::default() };
    let receives = Binding { flags: rx.map_or(0, |it| it.op_flags), ..Binding::default() };
    let is_directed = info.is_some_and(|info| info.caps & FI_DIRECTED_RECV != 0);
    let (vector, is_enabled, is_armed, peer) = (None, false, false, None);
    // SAFETY: as above.
    let is_connected_type = info
        .and_then(|info| unsafe { info.ep_attr.as_ref() })
        .is_some_and(|it| it.r#type == FI_EP_MSG);
    if is_connected_type {
        endpoint.admit_nobody();
    }
    let bindings = Bindings { sends, receives, ..Bindings::default() };
    let bound =
        Bound { is_connected_type, peer, endpoint, vector, is_directed, is_enabled, is_armed };
    let number = domain.shared.lock().endpoints().add(Entry { bound, bindings });
    let fid = fid_ep {
        fid: fid { fclass: FI_CLASS_EP, context, ops: &raw const FID },
        ops: &raw const OPS,
        cm: if is_connected_type { &raw const pep::ACTIVE } else { &raw const pep::CONNECTIONLESS },
        msg: &raw const message::MSG,
        rma: &raw const rma::OPS,
        tagged: &raw const message::TAGGED,
        atomic: &raw const atomic::OPS,
        collective: std::ptr::null(),
    };
    let handle = info.map_or(std::ptr::null_mut(), |info| info.handle);
    // SAFETY: a handle in `fi_info` is a request of this provider, which becomes the endpoint's.
    let request = (is_connected_type && !handle.is_null())
        .then(|| unsafe { Box::from_raw(handle.cast::<Request>()) });
    let request = Mutex::new(request.map(|it| (it.number, it.events)));
    let destination = info.and_then(info::destination);
    let (shared, events) = (Arc::clone(&domain.shared), Mutex::new(None));
    let endpoint = Ep { fid, shared, number, events, request, destination };
    // SAFETY: the caller's promise; the object begins with its identifier.
    unsafe { hand_out(place, Box::new(endpoint)) }
}

/// An endpoint as the environment wants it.
fn make() -> Result<Endpoint, Errno> {
    // `weft mpi` checks the directory first and explains what is wrong with it.
    let mut endpoint = Directory::find().map_err(|_| libc::EACCES).and_then(Endpoint::new)?;
    if std::env::var_os(FETCH).is_some_and(|value| value == "off") {
        endpoint.disable_fetch();
    }
    if let Some(path) = std::env::var_os(AS).filter(|path| !path.is_empty()) {
        // `weft mpi --as` writes the table.
        let costs = std::fs::read_to_string(path).ok().and_then(|text| text.parse().ok());
        let costs = costs.ok_or(libc::EINVAL)?;
        let own_ns = Directory::find().map_err(|_| libc::EACCES).and_then(Endpoint::own_ns)?;
        endpoint.emulate(costs, own_ns);
    }
    Ok(endpoint)
}

/// The variable that disables direct copies of long messages from their sender's memory, if it is `off`.
const FETCH: &str = "WEFT_MESSAGES_FETCH";
/// The variable that names a table of costs (`weft_protocol::emulation`): messages take as long as it says.
const AS: &str = "WEFT_MESSAGES_AS";

unsafe extern "C" fn close(object: *mut fid) -> c_int {
    // SAFETY: the program passes an object of this provider, for the last time.
    let endpoint = unsafe { Box::from_raw(object.cast::<Ep>()) };
    let events = endpoint.events.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(events) = events {
        events.lock().end(object.expose_provenance());
    }
    let mut state = endpoint.shared.lock();
    if let Some(mut record) = state.record.take() {
        record.end(&state.peers);
    }
    state.endpoints().remove(endpoint.number);
    0
}

unsafe extern "C" fn bind(object: *mut fid, other: *mut fid, flags: u64) -> c_int {
    // SAFETY: the program passes an object of this provider.
    let endpoint = unsafe { &*object.cast::<Ep>() };
    let mut state = endpoint.shared.lock();
    // SAFETY: an object of this provider, whose class identifies its type.
    outcome(match unsafe { (*other).fclass } {
        FI_CLASS_EQ => {
            // SAFETY: as above.
            let events = Arc::clone(unsafe { &(*other.cast::<Eq>()).events });
            *endpoint.events.lock().unwrap_or_else(PoisonError::into_inner) = Some(events);
            Ok(())
        }
        FI_CLASS_AV => {
            // SAFETY: as above.
            let vector = unsafe { &*other.cast::<Av>() };
            state.endpoints().get(endpoint.number).map(|it| it.bound.vector = Some(vector.number))
        }
        FI_CLASS_CQ => {
            // SAFETY: as above.
            let number = unsafe { &*other.cast::<Cq>() }.number;
            let is_selective = flags & FI_SELECTIVE_COMPLETION != 0;
            bind_to(&mut state, endpoint.number, flags, |binding| {
                binding.queue = Some(number);
                binding.is_selective = is_selective;
            })
            .and_then(|()| {
                watch(&mut state, endpoint.number, |state| {
                    state.queues.get(number).map(|it| &it.waiter)
                })
            })
        }
        FI_CLASS_CNTR => {
            // SAFETY: as above.
            let number = unsafe { &*other.cast::<Cntr>() }.number;
            bind_counter(&mut state, endpoint.number, flags, number).and_then(|()| {
                watch(&mut state, endpoint.number, |state| {
                    state.counters.get(number).map(|it| &it.waiter)
                })
            })
        }
        _ => Err(libc::EINVAL),
    })
}

fn bind_to(
    state: &mut State,
    endpoint: usize,
    flags: u64,
    bind: impl Fn(&mut Binding),
) -> Result<(), Errno> {
    let bindings = &mut state.endpoints().get(endpoint)?.bindings;
    if flags & (FI_SEND | FI_RECV) == 0 {
        return Err(libc::EINVAL);
    }
    if flags & FI_SEND != 0 {
        bind(&mut bindings.sends);
    }
    if flags & FI_RECV != 0 {
        bind(&mut bindings.receives);
    }
    Ok(())
}

/// Binds a counter of sends, receives, reads or writes. What peers do to registered memory is not counted.
fn bind_counter(
    state: &mut State,
    endpoint: usize,
    flags: u64,
    number: usize,
) -> Result<(), Errno> {
    let bindings = &mut state.endpoints().get(endpoint)?.bindings;
    if flags == 0 || flags & !(FI_SEND | FI_RECV | FI_READ | FI_WRITE) != 0 {
        return Err(libc::EINVAL);
    }
    let counters = [
        (FI_SEND, &mut bindings.sends.counter),
        (FI_RECV, &mut bindings.receives.counter),
        (FI_READ, &mut bindings.reads),
        (FI_WRITE, &mut bindings.writes),
    ];
    for (flag, counter) in counters {
        if flags & flag != 0 {
            *counter = Some(number);
        }
    }
    Ok(())
}

/// Adds an endpoint to the wait object of a queue or a counter.
fn watch(
    state: &mut State,
    endpoint: usize,
    waiter: impl FnOnce(&mut State) -> Result<&Waiter, Errno>,
) -> Result<(), Errno> {
    let watch = Arc::clone(&waiter(state)?.watch);
    let bound = &state.endpoints().get(endpoint)?.bound;
    match watch.add(bound.endpoint.watch().fd(), 1) {
        // It is bound for the other direction already.
        Err(libc::EEXIST) => Ok(()),
        added => added,
    }
}

unsafe extern "C" fn control(object: *mut fid, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: the program passes an object of this provider.
    let endpoint = unsafe { &*object.cast::<Ep>() };
    let mut state = endpoint.shared.lock();
    let Ok(Entry { bound, bindings }) = state.endpoints().get(endpoint.number) else {
        return -libc::EINVAL;
    };
    let flags = argument.cast::<u64>();
    match command {
        FI_ENABLE if bound.vector.is_none() && !bound.is_connected_type => -FI_ENOAV,
        FI_ENABLE
            if [bindings.sends, bindings.receives]
                .iter()
                .all(|it| it.queue.or(it.counter).is_none())
                && bindings.reads.or(bindings.writes).is_none() =>
        {
            -FI_ENOCQ
        }
        FI_ENABLE => {
            bound.is_enabled = true;
            0
        }
        FI_GETOPSFLAG | FI_SETOPSFLAG => {
            // SAFETY: the command says that the argument is such a word.
            let asked = unsafe { flags.read() };
            let (binding, offered) = match asked & (FI_SEND | FI_RECV) {
                FI_SEND => (&mut bindings.sends, info::SEND_FLAGS),
                FI_RECV => (&mut bindings.receives, info::RECEIVE_FLAGS),
                _ => return -libc::EINVAL,
            };
            if command == FI_GETOPSFLAG {
                // SAFETY: as above.
                unsafe { flags.write(binding.flags) };
            } else if asked & !(FI_SEND | FI_RECV | offered) != 0 {
                return -libc::EINVAL;
            } else {
                binding.flags = asked & !(FI_SEND | FI_RECV);
            }
            0
        }
        _ => -FI_ENOSYS,
    }
}

unsafe extern "C" fn cancel(object: *mut fid, context: *mut c_void) -> ssize_t {
    // SAFETY: the program passes an object of this provider.
    let endpoint = unsafe { &*object.cast::<Ep>() };
    let mut state = endpoint.shared.lock();
    let Ok(Working { bound, mut reporter, .. }) = state.working(endpoint.number) else {
        return -(libc::EINVAL as ssize_t);
    };
    let is_cancelled = bound.endpoint.cancel(context.expose_provenance(), &mut reporter);
    if is_cancelled { 0 } else { -(libc::ENOENT as ssize_t) }
}

/// A passive endpoint has nothing to cancel.
pub unsafe extern "C" fn no_cancel(_: *mut fid, _: *mut c_void) -> ssize_t {
    -(FI_ENOSYS as ssize_t)
}

pub unsafe extern "C" fn setopt(
    _: *mut fid,
    _: c_int,
    _: c_int,
    _: *const c_void,
    _: size_t,
) -> c_int {
    -libc::ENOPROTOOPT
}

pub unsafe extern "C" fn size_left(_: *mut fid_ep) -> ssize_t {
    MOST_LONG as ssize_t
}

pub unsafe extern "C" fn setname(_: *mut fid, _: *mut c_void, _: size_t) -> c_int {
    -FI_ENOSYS
}

pub unsafe extern "C" fn getname(
    object: *mut fid,
    place: *mut c_void,
    length: *mut size_t,
) -> c_int {
    // SAFETY: the program passes an object of this provider.
    let endpoint = unsafe { &*object.cast::<Ep>() };
    let mut state = endpoint.shared.lock();
    let name = state.endpoints().get(endpoint.number).map(|it| it.bound.endpoint.name());
    // SAFETY: the caller has room for `length` bytes.
    outcome(name.and_then(|name| unsafe { put_name(name, place, length) }))
}
