//! The epoll instances of this process, and who waits in them.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use libc::c_int;

use super::links::Inner;
use super::nests::{self, NESTS, Nest};
use super::{CONTROL, passing, registrations};
use crate::memory::means;
use crate::sharing::process_lock::ProcessLock;
use crate::signals::inside::Inside;
use crate::spin::SpinPolicy;
use crate::sys;
use crate::table::own_number::{OwnNumber, let_another_number_be_seen};
use crate::table::{self, Entry, Registration};

const INSTANCES: usize = 256;

/// One epoll instance of this process.
pub struct Instance {
    /// Its descriptor plus one; zero is free.
    pub fd: AtomicU32,
    descriptors: AtomicU32,
    /// Threads in a wait on it, as far as there is more than one thread.
    inside: AtomicU32,
    /// A duplicate for threads that were waiting when the descriptor was closed.
    kept: OwnNumber,
    pub lock: ProcessLock,
    /// Threads that are about to sleep in it, or do.
    pub waiters: AtomicU32,
    /// Whether it was made before the last fork, so that the kernel's part of it is others' as well.
    pub inherited: AtomicBool,
    /// Whether another process may have it, too, and put into it what it likes.
    pub shared: AtomicBool,
    /// Whether it follows no connection, so that the kernel alone reports all that is in it.
    pub is_exposed: AtomicBool,
    /// Its relay and the `eventfd` in that, once something watches it: see [`super::relay`].
    pub relay: OwnNumber,
    pub shown: OwnNumber,
    /// Threads that sleep in the kernel in something that watches it, or are about to.
    pub watchers: AtomicU32,
    /// How many changes of its connections it has shown to those that watch it.
    pub edges: AtomicU32,
    /// How many inner instances it follows connections through.
    pub nests: AtomicU32,
    /// How many descriptors the kernel alone reports that are no connections, perhaps too many: one that was
    /// closed without a word has gone unseen.
    pub others: AtomicU32,
    /// How many connections are in it that are not accelerated, or not yet.
    pub unaccelerated: AtomicU32,
    /// How many connections it has followed from when they joined.
    pub taken_over: AtomicU32,
    pub inner: UnsafeCell<Inner>,
}

impl Instance {
    /// How many connections it has followed from when they joined.
    pub fn taken_over(&self) -> u32 {
        self.taken_over.load(Ordering::SeqCst)
    }

    /// Lets the next wait look aside: the program has put something in that may be ready.
    pub fn look_aside_next(&self) {
        // SAFETY: numbers are written that another thread may change; a look aside too many
        // does no harm.
        unsafe { ((*self.inner.get()).turn, (*self.inner.get()).looked_aside) = (0, 0) };
    }

    /// Its descriptor.
    pub fn descriptor(&self) -> c_int {
        self.fd.load(Ordering::Relaxed) as c_int - 1
    }

    /// Whether the kernel alone reports anything of it.
    pub fn has_others(&self) -> bool {
        let order = Ordering::SeqCst;
        self.others.load(order) > 0 || self.unaccelerated.load(order) > 0
    }

    /// Whether the kernel's instance has anything under a datum of the library's, so that a wait in it is not
    /// the kernel's alone.
    #[inline]
    pub fn has_tagged(&self) -> bool {
        // SAFETY: the number is atomic, and lies where it is for good.
        unsafe { &(*self.inner.get()).tagged }.are_any()
    }

    /// Lets the threads that are in a wait go on with the instance under a descriptor of the
    /// library's own, when `fd`, the last of the program's, is about to be closed. False if no
    /// thread is in a wait.
    fn is_kept(&self, index: usize, fd: c_int) -> bool {
        let order = Ordering::SeqCst;
        if self.inside.load(order) == 0 {
            return false;
        }
        let Some(own) = OwnNumber::make(fd) else { return false };
        self.fd.store(own as u32 + 1, order);
        self.kept.set(own);
        if self.inside.load(order) == 0 {
            self.end_kept(index);
        }
        self.let_another_number_be_seen();
        true
    }

    /// Lets those in a wait make the calls for which they have read the descriptor.
    fn let_another_number_be_seen(&self) {
        let_another_number_be_seen(|| self.inside.load(Ordering::SeqCst) != 0);
    }

    /// The end of this, once nobody is in a wait any more.
    fn end_kept(&self, index: usize) {
        if let Some(own) = self.kept.take() {
            end(self, index);
            table::close_own(own);
        }
    }
}

/// A thread's stay in a wait on an instance.
pub struct Stay {
    pub instance: &'static Instance,
    /// The number by which the table knows it.
    pub index: usize,
    counted: bool,
    _inside: Inside,
}

impl Stay {
    /// `None` if the descriptor stands for no instance.
    pub fn begin(epoll: c_int) -> Option<Self> {
        let Entry::Epoll(index) = table::entry(epoll) else { return None };
        let instance = instance(index)?;
        // A single thread closes nothing meanwhile, and its handlers create no other.
        let counted = !table::is_single_threaded();
        Inside::begin();
        if counted {
            instance.inside.fetch_add(1, Ordering::SeqCst);
        }
        let stay = Self { instance, index, counted, _inside: Inside::begun() };
        (table::entry(epoll) == Entry::Epoll(index)).then_some(stay)
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        if self.counted && self.instance.inside.fetch_sub(1, Ordering::SeqCst) == 1 {
            let _errno = sys::KeepErrno::new();
            self.instance.end_kept(self.index);
        }
    }
}

/// The instances for which there was memory so far come first: each takes 1 MB of the program's
/// address space.
static MADE: [AtomicPtr<Instance>; INSTANCES] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; INSTANCES];

/// The instance at an index, if there ever was one.
pub fn instance(index: usize) -> Option<&'static Instance> {
    let memory = MADE.get(index)?.load(Ordering::Acquire);
    // SAFETY: once stored, an instance is never unmapped; all zeroes are a valid one.
    unsafe { memory.as_ref() }
}

/// Replaces the library's duplicate by which threads in a wait go on. False if it is another
/// descriptor.
pub fn move_instance(number: c_int, other: c_int) -> bool {
    if nests::renumber_relay(number, other) {
        return true;
    }
    let mut kept = all().filter(|it| it.kept.replace(number, other));
    kept.next().is_some_and(|instance| {
        instance.fd.store(other as u32 + 1, Ordering::SeqCst);
        instance.let_another_number_be_seen();
        true
    })
}

/// All instances that the program has made.
pub fn all() -> impl Iterator<Item = &'static Instance> {
    (0..INSTANCES).map_while(instance).filter(|it| it.fd.load(Ordering::Relaxed) != 0)
}

/// The instance at an index, created if it does not exist and there is memory. All before it exist.
fn made(index: usize) -> Option<&'static Instance> {
    let there = instance(index);
    if there.is_some() || !means::is_address_space_ample() {
        return there;
    }
    let _errno = sys::KeepErrno::new();
    let memory = sys::map(None, size_of::<Instance>())?;
    let (none, order) = (std::ptr::null_mut(), Ordering::SeqCst);
    if MADE[index].compare_exchange(none, memory.cast(), order, order).is_err() {
        // SAFETY: another thread was faster, and nobody knows this memory.
        unsafe { sys::unmap(memory, size_of::<Instance>()) };
    }
    instance(index)
}

/// In the child of a fork, where all other threads are gone.
pub fn start_in_child() {
    CONTROL.reset();
    for index in 0..INSTANCES {
        let Some(instance) = instance(index) else { return };
        if instance.fd.load(Ordering::Relaxed) != 0 {
            instance.lock.reset();
            instance.inherited.store(true, Ordering::Relaxed);
            instance.waiters.store(0, Ordering::Relaxed);
            instance.watchers.store(0, Ordering::Relaxed);
            instance.inside.store(0, Ordering::Relaxed);
            // Those that were in a wait are the parent's.
            instance.end_kept(index);
        }
    }
}

/// Remembers an instance that the program has made.
pub fn track(fd: c_int) {
    if !table::is_owner() || !table::remembers() {
        return;
    }
    for index in 0..INSTANCES {
        let Some(instance) = made(index) else { return };
        let order = Ordering::SeqCst;
        if instance.fd.compare_exchange(0, fd as u32 + 1, order, order).is_ok() {
            instance.descriptors.store(1, order);
            instance.inherited.store(false, order);
            instance.shared.store(false, order);
            instance.is_exposed.store(false, order);
            instance.watchers.store(0, order);
            instance.nests.store(0, order);
            instance.others.store(0, order);
            instance.unaccelerated.store(0, order);
            // SAFETY: the place was free, so nobody else uses it.
            let inner = unsafe { &mut *instance.inner.get() };
            (inner.count, inner.warm, inner.left) = (0, 0, 0..0);
            inner.tagged.clear();
            inner.had_place = false;
            inner.nests = [Nest::default(); NESTS];
            inner.spin = SpinPolicy::new();
            (inner.turn, inner.looked_aside, inner.listened) = (0, 0, 0);
            (inner.swept, inner.has_pages) = (0, false);
            if !table::set_entry(fd, Entry::Epoll(index)) {
                instance.fd.store(0, order);
            }
            return;
        }
    }
}

/// Remembers a second descriptor for an instance.
pub fn duplicated(index: usize, copy: c_int) {
    if let Some(instance) = instance(index)
        && table::set_entry(copy, Entry::Epoll(index))
    {
        instance.descriptors.fetch_add(1, Ordering::SeqCst);
    }
}

/// Forgets a descriptor of an instance that stands for nothing any more and is not yet closed, and
/// with the last the instance.
pub fn forget(index: usize, fd: c_int) {
    let Some(instance) = instance(index) else { return };
    if instance.descriptors.fetch_sub(1, Ordering::SeqCst) > 1 {
        if instance.fd.load(Ordering::Relaxed) == fd as u32 + 1
            && let Some((other, _)) = table::known().find(|(_, it)| *it == Entry::Epoll(index))
        {
            instance.fd.store(other as u32 + 1, Ordering::SeqCst);
            instance.let_another_number_be_seen();
        }
        return;
    }
    let _errno = sys::KeepErrno::new();
    if !instance.is_kept(index, fd) {
        end(instance, index);
    }
}

/// The end of an instance that nobody can reach any more.
fn end(instance: &Instance, index: usize) {
    let _control = CONTROL.lock();
    passing::forget_instance(index);
    for place in table::used() {
        for registration in registrations(place) {
            // SAFETY: the instance has no descriptor any more, so nobody else looks at its
            // registrations.
            unsafe {
                if (*registration).instance == index as u32 + 1 {
                    *registration = Registration::default();
                }
            }
        }
    }
    nests::forget(index);
    instance.end_relay();
    // SAFETY: nobody else uses it any more.
    unsafe { &(*instance.inner.get()).tagged }.clear();
    instance.fd.store(0, Ordering::SeqCst);
}

/// Forgets all instances: waiting for one is the program's call again.
pub fn forget_all() {
    for (fd, entry) in table::known() {
        if let Entry::Epoll(index) = entry {
            table::set_entry(fd, Entry::Unknown);
            forget(index, fd);
        }
    }
}
