//! Event queues: `fi_eq(3)`. Connections bring events; endpoints without connections have none.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libc::{c_char, c_int, c_void, size_t, ssize_t};

use super::abi::{
    FI_CLASS_EQ, FI_EAVAIL, FI_ENOSYS, FI_ETOOSMALL, FI_GETWAIT, FI_PEEK, FI_WAIT_FD, FI_WAIT_NONE,
    fi_eq_attr, fi_eq_cm_entry, fi_eq_err_entry, fi_ops, fi_ops_eq, fid, fid_eq, fid_fabric,
};
use super::cm::{Event, Events, Queue};
use super::cq::{self, wait_object};
use super::waiting::limit;
use super::{hand_out, no_bind, no_ops, pep, result};
use crate::sys::Errno;

/// An event queue as programs hold it.
#[repr(C)]
pub struct Eq {
    fid: fid_eq,
    pub events: Arc<Events>,
    object: u32,
}

static FID: fi_ops =
    fi_ops { size: size_of::<fi_ops>(), close, bind: no_bind, control, ops_open: no_ops };
static OPS: fi_ops_eq =
    fi_ops_eq { size: size_of::<fi_ops_eq>(), read, readerr, write, sread, strerror };

/// The longest sleep, after which a thread looks again.
const NAP: Duration = Duration::from_millis(100);

/// `fi_eq_open`.
pub unsafe extern "C" fn open(
    _: *mut fid_fabric,
    attr: *mut fi_eq_attr,
    place: *mut *mut fid_eq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller has attributes, or none.
    let asked = unsafe { attr.as_ref() }.map_or(FI_WAIT_NONE, |attr| attr.wait_obj);
    let (object, events) = match wait_object(asked).and_then(|it| Ok((it, Events::new()?))) {
        Ok(made) => made,
        Err(error) => return -error,
    };
    let fid = fid { fclass: FI_CLASS_EQ, context, ops: &raw const FID };
    let queue = Eq { fid: fid_eq { fid, ops: &raw const OPS }, events, object };
    // SAFETY: the caller's promise; the object begins with its identifier.
    unsafe { hand_out(place, Box::new(queue)) }
}

unsafe extern "C" fn close(object: *mut fid) -> c_int {
    // SAFETY: the program passes an object of this provider, for the last time.
    drop(unsafe { Box::from_raw(object.cast::<Eq>()) });
    0
}

unsafe extern "C" fn control(object: *mut fid, command: c_int, place: *mut c_void) -> c_int {
    // SAFETY: the program passes an object of this provider.
    let queue = unsafe { &*object.cast::<Eq>() };
    if command != FI_GETWAIT || queue.object != FI_WAIT_FD {
        return -FI_ENOSYS;
    }
    // SAFETY: the command says that the place has room for a descriptor.
    unsafe { place.cast::<c_int>().write(queue.events.lock().watch.fd().as_raw_fd()) };
    0
}

/// `fi_trywait`: whether the program may block on the descriptor now.
pub fn try_wait(queue: &Eq) -> Result<(), Errno> {
    let mut queue = queue.events.lock();
    queue.progress();
    if queue.events.is_empty() { Ok(()) } else { Err(libc::EAGAIN) }
}

/// Reads the next event into a buffer.
///
/// # Safety
///
/// As the manual page requires of its pointers.
unsafe fn take(
    queue: &mut Queue,
    event: *mut u32,
    buffer: *mut c_void,
    length: usize,
    flags: u64,
) -> Result<usize, Errno> {
    queue.progress();
    let next = queue.events.front().ok_or(libc::EAGAIN)?.clone();
    let (number, bytes) = match next {
        Event::Failed { .. } => return Err(FI_EAVAIL),
        Event::Written { event, bytes } => (event, bytes),
        Event::Connection { event, fid, request, data } => {
            if length < size_of::<fi_eq_cm_entry>() {
                return Err(FI_ETOOSMALL);
            }
            let is_taken = flags & FI_PEEK == 0;
            let info = match request.filter(|_| is_taken) {
                // SAFETY: the object that the request came to is open while it is bound.
                Some(request) => unsafe { pep::info_of_request(fid, request)? },
                None => std::ptr::null_mut(),
            };
            let entry = fi_eq_cm_entry { fid: std::ptr::with_exposed_provenance_mut(fid), info };
            // SAFETY: the entry is that long.
            let head = unsafe {
                std::slice::from_raw_parts((&raw const entry).cast::<u8>(), size_of_val(&entry))
            };
            (event, [head, &data].concat())
        }
    };
    let count = bytes.len().min(length);
    // SAFETY: the caller has room for `length` bytes, and for the number.
    unsafe {
        event.write(number);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast(), count);
    }
    if flags & FI_PEEK == 0 {
        queue.events.pop_front();
    }
    Ok(count)
}

unsafe extern "C" fn read(
    queue: *mut fid_eq,
    event: *mut u32,
    buffer: *mut c_void,
    length: size_t,
    flags: u64,
) -> ssize_t {
    // SAFETY: the program passes an object of this provider.
    let queue = unsafe { &*queue.cast::<Eq>() };
    // SAFETY: the caller's promise.
    result(unsafe { take(&mut queue.events.lock(), event, buffer, length, flags) })
}

unsafe extern "C" fn sread(
    queue: *mut fid_eq,
    event: *mut u32,
    buffer: *mut c_void,
    length: size_t,
    timeout: c_int,
    flags: u64,
) -> ssize_t {
    // SAFETY: the program passes an object of this provider.
    let queue = unsafe { &*queue.cast::<Eq>() };
    let deadline = limit(timeout).and_then(|limit| Instant::now().checked_add(limit));
    loop {
        let mut locked = queue.events.lock();
        // SAFETY: the caller's promise.
        match unsafe { take(&mut locked, event, buffer, length, flags) } {
            Err(libc::EAGAIN) => {}
            taken => return result(taken),
        }
        let watch = Arc::clone(&locked.watch);
        drop(locked);
        let left = deadline.map_or(NAP, |it| it.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return -(libc::EAGAIN as ssize_t);
        }
        watch.wait(Some(left.min(NAP)));
    }
}

unsafe extern "C" fn readerr(
    queue: *mut fid_eq,
    place: *mut fi_eq_err_entry,
    _flags: u64,
) -> ssize_t {
    // SAFETY: the program passes an object of this provider.
    let queue = unsafe { &*queue.cast::<Eq>() };
    let mut queue = queue.events.lock();
    let Some(Event::Failed { fid, error, data }) = queue.events.front().cloned() else {
        return -(libc::EAGAIN as ssize_t);
    };
    queue.events.pop_front();
    let fid: *mut fid = std::ptr::with_exposed_provenance_mut(fid);
    // SAFETY: the caller has an entry, with room for data if it says so; the object is open.
    unsafe {
        let (room, count) = ((*place).err_data_size, data.len());
        let err_data = if room > 0 && !(*place).err_data.is_null() {
            let count = count.min(room);
            std::ptr::copy_nonoverlapping(data.as_ptr(), (*place).err_data.cast::<u8>(), count);
            (*place).err_data
        } else {
            queue.error_data = data;
            queue.error_data.as_mut_ptr().cast()
        };
        let err_data_size = if room > 0 { count.min(room) } else { count };
        let (err, prov_errno) = (error, error);
        let context = (*fid).context;
        let entry =
            fi_eq_err_entry { fid, context, data: 0, err, prov_errno, err_data, err_data_size };
        place.write(entry);
    }
    size_of::<fi_eq_err_entry>() as ssize_t
}

unsafe extern "C" fn write(
    queue: *mut fid_eq,
    event: u32,
    buffer: *const c_void,
    length: size_t,
    _flags: u64,
) -> ssize_t {
    // SAFETY: the program passes an object of this provider.
    let queue = unsafe { &*queue.cast::<Eq>() };
    let mut bytes = vec![0; length];
    // SAFETY: the caller has that many bytes.
    unsafe { std::ptr::copy_nonoverlapping(buffer.cast(), bytes.as_mut_ptr(), length) };
    queue.events.lock().events.push_back(Event::Written { event, bytes });
    length as ssize_t
}

unsafe extern "C" fn strerror(
    _: *mut fid_eq,
    error: c_int,
    _: *const c_void,
    buffer: *mut c_char,
    length: size_t,
) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { cq::say(error, buffer, length) }
}
