//! Completion queues: `fi_cq(3)`.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_char, c_int, c_void, size_t, ssize_t};

use super::abi::{
    FI_CLASS_CQ, FI_CQ_COND_NONE, FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_DATA, FI_CQ_FORMAT_MSG,
    FI_CQ_FORMAT_TAGGED, FI_CQ_FORMAT_UNSPEC, FI_EAVAIL, FI_ENOSYS, FI_GETWAIT, FI_GETWAITOBJ,
    FI_WAIT_FD, FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_YIELD, fi_cq_attr, fi_cq_err_entry,
    fi_cq_tagged_entry, fi_ops, fi_ops_cq, fid, fid_cq,
};
use super::domain::Domain;
use super::state::{Queue, Shared, State, Waitable, Waiter};
use super::waiting::{limit, wait};
use super::{hand_out, no_bind, no_ops, outcome, result};
use crate::sys::{self, Errno};

/// A completion queue as programs hold it.
#[repr(C)]
pub struct Cq {
    fid: fid_cq,
    pub shared: Arc<Shared>,
    pub number: usize,
    entry_size: usize,
    event: Arc<OwnedFd>,
    crowd: Crowd,
}

static FID: fi_ops =
    fi_ops { size: size_of::<fi_ops>(), close, bind: no_bind, control, ops_open: no_ops };
static OPS: fi_ops_cq = fi_ops_cq {
    size: size_of::<fi_ops_cq>(),
    read,
    readfrom,
    readerr,
    sread,
    sreadfrom,
    signal,
    strerror,
};

/// Validates the requested kind of wait object.
pub fn wait_object(asked: u32) -> Result<u32, Errno> {
    match asked {
        FI_WAIT_NONE | FI_WAIT_FD | FI_WAIT_YIELD => Ok(asked),
        FI_WAIT_UNSPEC => Ok(FI_WAIT_FD),
        _ => Err(FI_ENOSYS),
    }
}

/// `fi_cq_open`.
pub unsafe fn open(
    domain: &Domain,
    attr: Option<&fi_cq_attr>,
    place: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    let format = attr.map_or(FI_CQ_FORMAT_UNSPEC, |attr| attr.format);
    let entry_size = match format {
        FI_CQ_FORMAT_UNSPEC | FI_CQ_FORMAT_CONTEXT => 8,
        FI_CQ_FORMAT_MSG => 24,
        FI_CQ_FORMAT_DATA => 40,
        FI_CQ_FORMAT_TAGGED => size_of::<fi_cq_tagged_entry>(),
        _ => return -FI_ENOSYS,
    };
    if attr.is_some_and(|attr| attr.wait_cond != FI_CQ_COND_NONE) {
        return -FI_ENOSYS;
    }
    let object = wait_object(attr.map_or(FI_WAIT_NONE, |attr| attr.wait_obj));
    let waiter = match object.and_then(Waiter::new) {
        Ok(waiter) => waiter,
        Err(error) => return -error,
    };
    let event = Arc::clone(&waiter.event);
    let number = domain.shared.lock().queues.add(Queue::new(waiter));
    let fid = fid_cq {
        fid: fid { fclass: FI_CLASS_CQ, context, ops: &raw const FID },
        ops: &raw const OPS,
    };
    let (shared, crowd) = (Arc::clone(&domain.shared), Crowd::of_launcher());
    let queue = Cq { fid, shared, number, entry_size, event, crowd };
    // SAFETY: the caller's promise; the object begins with its identifier.
    unsafe { hand_out(place, Box::new(queue)) }
}

unsafe extern "C" fn close(object: *mut fid) -> c_int {
    let queue = object.cast::<Cq>();
    // SAFETY: the program passes an object of this provider, for the last time.
    let queue = unsafe { Box::from_raw(queue) };
    let mut state = queue.shared.lock();
    if state.is_used(Waitable::Queue(queue.number)) {
        drop(state);
        let _ = Box::into_raw(queue);
        return -libc::EBUSY;
    }
    state.queues.remove(queue.number);
    0
}

unsafe extern "C" fn control(object: *mut fid, command: c_int, place: *mut c_void) -> c_int {
    // SAFETY: the program passes an object of this provider.
    let queue = unsafe { &*object.cast::<Cq>() };
    let mut state = queue.shared.lock();
    let waiter = state.queues.get(queue.number).map(|it| &it.waiter);
    // SAFETY: the command says what the place has room for.
    outcome(waiter.and_then(|waiter| unsafe { control_waiter(waiter, command, place) }))
}

/// `fi_control` of a wait object.
pub unsafe fn control_waiter(
    waiter: &Waiter,
    command: c_int,
    place: *mut c_void,
) -> Result<(), Errno> {
    use std::os::fd::AsRawFd;
    match command {
        FI_GETWAIT if waiter.object == FI_WAIT_FD => {
            // SAFETY: the caller's promise.
            unsafe { place.cast::<c_int>().write(waiter.watch.fd().as_raw_fd()) };
            Ok(())
        }
        FI_GETWAITOBJ => {
            // SAFETY: as above.
            unsafe { place.cast::<u32>().write(waiter.object) };
            Ok(())
        }
        _ => Err(FI_ENOSYS),
    }
}

/// Reads up to `count` entries.
///
/// # Safety
///
/// The buffers must have room for them.
#[inline(always)]
unsafe fn take(
    state: &mut State,
    queue: &Cq,
    buffer: *mut c_void,
    count: usize,
    sources: *mut u64,
) -> Result<usize, Errno> {
    let entries = &mut state.queues.get(queue.number)?.entries;
    if entries.is_empty() {
        return Err(libc::EAGAIN);
    }
    let mut taken = 0;
    while taken < count {
        let Some(completion) = entries.front() else { break };
        if completion.error.is_some() {
            break;
        }
        let (entry, source) = (completion.entry(), completion.source);
        // SAFETY: the caller has room for `count` entries of this queue's format, which are the
        // beginning of the longest.
        unsafe {
            let to = buffer.cast::<u8>().add(taken * queue.entry_size);
            if queue.entry_size == size_of_val(&entry) {
                to.cast::<fi_cq_tagged_entry>().write_unaligned(entry);
            } else {
                std::ptr::copy_nonoverlapping((&raw const entry).cast(), to, queue.entry_size);
            }
            if !sources.is_null() {
                sources.add(taken).write(source);
            }
        }
        entries.pop_front();
        taken += 1;
    }
    match entries.front() {
        _ if taken > 0 => Ok(taken),
        Some(it) if it.error.is_some() => Err(FI_EAVAIL),
        // Entries are waiting, but `count` is zero.
        Some(_) => Ok(0),
        None => Err(libc::EAGAIN),
    }
}

unsafe extern "C" fn read(queue: *mut fid_cq, buffer: *mut c_void, count: size_t) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { read_any(queue, buffer, count, std::ptr::null_mut()) }
}

unsafe extern "C" fn readfrom(
    queue: *mut fid_cq,
    buffer: *mut c_void,
    count: size_t,
    sources: *mut u64,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { read_any(queue, buffer, count, sources) }
}

/// # Safety
///
/// As the manual page says of its pointers.
#[inline(always)]
unsafe fn read_any(
    queue: *mut fid_cq,
    buffer: *mut c_void,
    count: size_t,
    sources: *mut u64,
) -> ssize_t {
    // SAFETY: the program passes an object of this provider.
    let queue = unsafe { &*queue.cast::<Cq>() };
    let Some(state) = queue.shared.serial() else {
        // SAFETY: the caller's promise.
        return unsafe { read_locked(queue, buffer, count, sources) };
    };
    // Most polls end here, without what the others need: room for a completion.
    if state.is_quiet(queue.number) {
        return -(libc::EAGAIN as ssize_t);
    }
    // SAFETY: the caller's promise.
    let result = unsafe { look_and_take(state, queue, buffer, count, sources) };
    queue.crowd.after(result)
}

/// After so many reads in a row that find nothing, the processor is given away where others need it. Open MPI gives
/// it away after each such read itself, but not in a send that waits to be taken: its target would not run before
/// the scheduler's next turn.
const READS_IN_VAIN: u32 = 64;

/// When reads that find nothing give the processor away.
struct Crowd {
    /// Whether this host has fewer processors than the program has processes here.
    is_crowded: bool,
    /// How many reads in a row have found nothing, if so.
    in_vain: AtomicU32,
}

impl Crowd {
    /// As far as Open MPI's launcher says how many processes there are; others say nothing, and the host is taken to
    /// have processors for all.
    fn of_launcher() -> Self {
        let here = std::env::var("OMPI_COMM_WORLD_LOCAL_SIZE").ok();
        let here = here.and_then(|value| value.parse::<i64>().ok());
        // SAFETY: it only tells a number.
        let processors = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        Self::new(here.is_some_and(|here| here > processors))
    }

    const fn new(is_crowded: bool) -> Self {
        Self { is_crowded, in_vain: AtomicU32::new(0) }
    }

    /// Gives the processor away if a read with this result was one too many in vain.
    #[inline(always)]
    fn after(&self, result: ssize_t) -> ssize_t {
        if self.is_crowded && self.is_over(result == -(libc::EAGAIN as ssize_t)) {
            std::thread::yield_now();
        }
        result
    }

    /// Counts a read. Returns whether it was the last of those in vain, after which they are counted anew.
    #[cold]
    fn is_over(&self, found_nothing: bool) -> bool {
        let in_vain = if found_nothing { self.in_vain.load(Ordering::Relaxed) + 1 } else { 0 };
        let is_over = in_vain >= READS_IN_VAIN;
        self.in_vain.store(if is_over { 0 } else { in_vain }, Ordering::Relaxed);
        is_over
    }
}

/// Reads up to `count` entries where threads share the domain.
///
/// # Safety
///
/// The requirements of [`read_any`].
#[inline(never)]
unsafe fn read_locked(queue: &Cq, buffer: *mut c_void, count: usize, sources: *mut u64) -> ssize_t {
    let mut state = queue.shared.lock();
    if state.is_quiet(queue.number) {
        return -(libc::EAGAIN as ssize_t);
    }
    // SAFETY: the caller's promise.
    let result = unsafe { look_and_take(&mut state, queue, buffer, count, sources) };
    drop(state);
    queue.crowd.after(result)
}

/// Reads up to `count` entries, if a cheap look at the endpoints says that there may be some.
///
/// # Safety
///
/// The requirements of [`read_any`].
#[inline(never)]
unsafe fn look_and_take(
    state: &mut State,
    queue: &Cq,
    buffer: *mut c_void,
    count: usize,
    sources: *mut u64,
) -> ssize_t {
    if state.finds_nothing(queue.number) {
        return -(libc::EAGAIN as ssize_t);
    }
    // SAFETY: the caller's promise.
    unsafe { poll_and_take(state, queue, buffer, count, sources) }
}

/// Reads up to `count` entries after a look at all that may bring some.
///
/// # Safety
///
/// The requirements of [`read_any`].
#[inline(never)]
unsafe fn poll_and_take(
    state: &mut State,
    queue: &Cq,
    buffer: *mut c_void,
    count: usize,
    sources: *mut u64,
) -> ssize_t {
    state.enter();
    state.poll(queue.number);
    // SAFETY: the caller's promise.
    let taken = unsafe { take(state, queue, buffer, count, sources) };
    state.leave();
    result(taken)
}

unsafe extern "C" fn readerr(
    queue: *mut fid_cq,
    place: *mut fi_cq_err_entry,
    _flags: u64,
) -> ssize_t {
    // SAFETY: the program passes an object of this provider.
    let queue = unsafe { &*queue.cast::<Cq>() };
    let mut state = queue.shared.lock();
    let Ok(entries) = state.queues.get(queue.number).map(|it| &mut it.entries) else {
        return -(libc::EINVAL as ssize_t);
    };
    let Some((err, olen)) = entries.front().and_then(|it| it.error) else {
        return -(libc::EAGAIN as ssize_t);
    };
    let Some(entry) = entries.pop_front().map(|it| it.entry()) else { return 0 };
    let error = fi_cq_err_entry {
        op_context: entry.op_context,
        flags: entry.flags,
        len: entry.len,
        buf: entry.buf,
        data: entry.data,
        tag: entry.tag,
        olen,
        err,
        prov_errno: err,
        // This provider has no error data.
        err_data: std::ptr::null_mut(),
        err_data_size: 0,
    };
    // SAFETY: the caller's promise.
    unsafe { place.write(error) };
    1
}

unsafe extern "C" fn sread(
    queue: *mut fid_cq,
    buffer: *mut c_void,
    count: size_t,
    condition: *const c_void,
    timeout: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { sreadfrom(queue, buffer, count, std::ptr::null_mut(), condition, timeout) }
}

unsafe extern "C" fn sreadfrom(
    queue: *mut fid_cq,
    buffer: *mut c_void,
    count: size_t,
    sources: *mut u64,
    _condition: *const c_void,
    timeout: c_int,
) -> ssize_t {
    // SAFETY: the program passes an object of this provider.
    let queue = unsafe { &*queue.cast::<Cq>() };
    let found = wait(&queue.shared, Waitable::Queue(queue.number), limit(timeout), |state| {
        // SAFETY: the caller's promise.
        match unsafe { take(state, queue, buffer, count, sources) } {
            Err(libc::EAGAIN) => {
                let waiter = state.queues.get(queue.number).map(|it| &it.waiter);
                let is_signalled = waiter.is_ok_and(|waiter| sys::clear_event(&waiter.event));
                is_signalled.then_some(Err(libc::EAGAIN))
            }
            taken => Some(taken),
        }
    });
    result(found.unwrap_or(Err(libc::EAGAIN)))
}

unsafe extern "C" fn signal(queue: *mut fid_cq) -> c_int {
    // SAFETY: the program passes an object of this provider.
    let queue = unsafe { &*queue.cast::<Cq>() };
    // Without the lock: the sleeping thread may hold it.
    sys::set_event(&queue.event);
    0
}

unsafe extern "C" fn strerror(
    _queue: *mut fid_cq,
    error: c_int,
    _data: *const c_void,
    buffer: *mut c_char,
    length: size_t,
) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { say(error, buffer, length) }
}

/// The text of an error number of this provider.
pub unsafe fn say(error: c_int, buffer: *mut c_char, length: size_t) -> *const c_char {
    let text = match error {
        libc::ECONNRESET => c"the peer process has ended, or closed its endpoint",
        libc::EPROTO => c"the peer process violated the protocol of the shared memory",
        libc::ECANCELED => c"the operation was cancelled",
        super::abi::FI_ETRUNC => c"the message is longer than the receive",
        libc::ENOMSG => c"there is no such message",
        _ => c"a system error",
    };
    if !buffer.is_null() && length > 0 {
        let bytes = text.to_bytes();
        let count = bytes.len().min(length - 1);
        // SAFETY: the caller has room for `length` bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), buffer, count);
            buffer.add(count).write(0);
        }
    }
    text.as_ptr()
}

/// `fi_trywait` of one queue: whether the program may block on its descriptor now.
pub fn try_wait(queue: &Cq) -> Result<(), Errno> {
    let of = Waitable::Queue(queue.number);
    let mut state = queue.shared.lock();
    state.progress(of);
    let is_empty =
        |state: &mut State| state.queues.get(queue.number).map(|it| it.entries.is_empty());
    if is_empty(&mut state)? && state.arm_for_sleep(of) && is_empty(&mut state)? {
        state.count(of, |counts| &counts.sleeps);
        return Ok(());
    }
    Err(libc::EAGAIN)
}

#[cfg(test)]
mod tests {
    use super::{Crowd, READS_IN_VAIN};

    #[test]
    fn the_processor_is_given_away_after_reads_in_vain_alone() {
        let crowd = Crowd::new(true);
        let most = READS_IN_VAIN - 1;
        assert!((0..most).all(|_| !crowd.is_over(true)));
        assert!(!crowd.is_over(false), "one that finds something begins anew");
        assert!((0..most).all(|_| !crowd.is_over(true)));
        assert!(crowd.is_over(true));
        assert!((0..most).all(|_| !crowd.is_over(true)));
        assert!(crowd.is_over(true), "and again after as many");
    }
}
