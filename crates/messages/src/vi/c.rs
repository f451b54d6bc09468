//! The C interface of virtual interfaces; the header is `python/weft/include/weft_messages.h`.

use std::collections::VecDeque;
use std::ffi::CStr;

use libc::{c_char, c_int, c_longlong, c_void, size_t};
use weft_protocol::vi::{
    Completion, Fault, MemoryHandle, Operation, PostError, ProtectionTag, QueueDepths, Reliability,
    WorkQueueKind,
};

use super::{Adapter, Attributes, Done, Place, ViError, ViId, remote};
use crate::c::{Numbered, call, close, directory, give, limit, why};
use crate::link::Acceptor;
use crate::rendezvous::BadDirectory;

/// What the C handle points to.
struct Opened {
    adapter: Adapter,
    listeners: Vec<Option<Acceptor>>,
    /// Completions of connections that the program has ended.
    flushed: VecDeque<Done>,
}

type Shared = crate::c::Shared<Opened>;

/// An error of a call.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Directory(#[from] BadDirectory),
    #[error(transparent)]
    Vi(#[from] ViError),
    #[error(
        "reliability {0}: accepted are 0 (unreliable delivery), 1 (reliable delivery), 2 (reliable reception)"
    )]
    Level(c_int),
    #[error("there is no listener {0} at this adapter")]
    NoListener(c_int),
    #[error("no connection request is waiting")]
    NoRequest,
}

const fn fault_number(fault: Fault) -> c_int {
    match fault {
        Fault::NoDescriptor | Fault::CompletionQueueFull => libc::ENOBUFS,
        Fault::TooLong { .. } => libc::EMSGSIZE,
        Fault::WrongTag { .. } | Fault::NotWritable(_) => libc::EACCES,
        Fault::NotRegistered(_) | Fault::OutOfRegion { .. } => libc::EFAULT,
        Fault::Damaged | Fault::Lost { .. } => libc::EPROTO,
        Fault::Disconnected => libc::ECONNRESET,
    }
}

impl Numbered for Error {
    fn number(&self) -> c_int {
        match self {
            Self::Directory(_) => libc::EACCES,
            Self::Level(_) | Self::NoListener(_) => libc::EINVAL,
            Self::NoRequest => libc::EAGAIN,
            Self::Vi(error) => match error {
                ViError::NoVi(_) => libc::EINVAL,
                ViError::Post(PostError::Full { .. }) => libc::EAGAIN,
                ViError::Post(PostError::NotConnected) => libc::ENOTCONN,
                ViError::Post(PostError::Broken(fault)) | ViError::Memory(fault) => {
                    fault_number(*fault)
                }
                ViError::TooLong(_) => libc::EMSGSIZE,
                ViError::Reliability(_) | ViError::NoListener(_) => libc::ECONNREFUSED,
                ViError::NoAnswer(_) => libc::ETIMEDOUT,
                ViError::Kernel(number) => *number,
            },
        }
    }
}

/// `struct weft_vi_attributes`.
#[repr(C)]
pub struct CAttributes {
    reliability: c_int,
    tag: u32,
    sends: u16,
    receives: u16,
}

impl CAttributes {
    fn read(&self) -> Result<Attributes, Error> {
        let reliability = match self.reliability {
            0 => Reliability::UnreliableDelivery,
            1 => Reliability::ReliableDelivery,
            2 => Reliability::ReliableReception,
            level => return Err(Error::Level(level)),
        };
        let tag = ProtectionTag(self.tag);
        let depths = QueueDepths { sends: self.sends, receives: self.receives };
        Ok(Attributes { reliability, tag, depths })
    }
}

/// `struct weft_vi_done`.
#[repr(C)]
pub struct CDone {
    vi: c_int,
    is_receive: c_int,
    cookie: u64,
    length: u64,
    error: c_int,
}

/// # Safety
/// `path` is a C string or null; `number` is writable or null; `text` has room for `room` bytes or is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_vi_open(
    path: *const c_char,
    completions: u32,
    number: *mut c_int,
    text: *mut c_char,
    room: size_t,
) -> *mut Shared {
    // SAFETY: the caller's promise.
    unsafe {
        let made = directory(path).map_err(Error::from).and_then(|directory| {
            let adapter = Adapter::new(directory, completions as usize)?;
            Ok(Opened { adapter, listeners: Vec::new(), flushed: VecDeque::new() })
        });
        give(made, number, text, room)
    }
}

/// # Safety
/// The handle is open, and not used any more.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_vi_close(handle: *mut Shared) {
    // SAFETY: the caller's promise.
    unsafe { close(handle) }
}

/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_vi_why(handle: *const Shared) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { why(handle) }
}

/// # Safety
/// The handle is open; the memory stays valid until it is deregistered or the handle is closed.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_vi_register(
    handle: *const Shared,
    tag: u32,
    memory: *mut c_void,
    length: size_t,
    is_writable: c_int,
) -> c_longlong {
    // SAFETY: the caller's promise.
    unsafe {
        call::<_, Error>(handle, |it| {
            let memory = std::ptr::slice_from_raw_parts_mut(memory.cast(), length);
            let memory = it.adapter.register(ProtectionTag(tag), memory, is_writable != 0);
            Ok(memory.0.into())
        })
    }
}

/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_vi_deregister(handle: *const Shared, memory: u32) -> c_longlong {
    // SAFETY: the caller's promise.
    unsafe {
        call::<_, Error>(handle, |it| {
            it.adapter.deregister(MemoryHandle(memory));
            Ok(0)
        })
    }
}

/// # Safety
/// The handle is open; the name is a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_vi_listen(handle: *const Shared, name: *const c_char) -> c_longlong {
    // SAFETY: the caller's promise.
    unsafe {
        let name = CStr::from_ptr(name).to_string_lossy();
        call::<_, Error>(handle, |it| {
            let listener = it.adapter.listen(&name)?;
            it.listeners.push(Some(listener));
            Ok(it.listeners.len() as c_longlong - 1)
        })
    }
}

/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_vi_unlisten(handle: *const Shared, listener: c_int) -> c_longlong {
    // SAFETY: the caller's promise.
    unsafe {
        call(handle, |it| {
            let place = it.listeners.get_mut(listener as usize).and_then(Option::take);
            place.map(|_| 0).ok_or(Error::NoListener(listener))
        })
    }
}

/// # Safety
/// The handle is open; the name is a C string; the attributes are readable.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_vi_connect(
    handle: *const Shared,
    name: *const c_char,
    attributes: *const CAttributes,
    seconds: f64,
) -> c_longlong {
    // SAFETY: the caller's promise.
    unsafe {
        let name = CStr::from_ptr(name).to_string_lossy();
        let attributes = (*attributes).read();
        call(handle, |it| {
            Ok::<_, Error>(it.adapter.connect(&name, attributes?, limit(seconds))?.0.into())
        })
    }
}

/// # Safety
/// The handle is open; the attributes are readable.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_vi_accept(
    handle: *const Shared,
    listener: c_int,
    attributes: *const CAttributes,
) -> c_longlong {
    // SAFETY: the caller's promise.
    unsafe {
        let attributes = (*attributes).read();
        call(handle, |it| {
            let place = it.listeners.get_mut(listener as usize).and_then(Option::as_mut);
            let acceptor = place.ok_or(Error::NoListener(listener))?;
            let accepted = it.adapter.accept(acceptor, attributes?)?;
            accepted.map(|vi| vi.0.into()).ok_or(Error::NoRequest)
        })
    }
}

fn place(memory: u32, at: *const c_void, length: size_t) -> Place {
    Place { at: remote(MemoryHandle(memory), at.addr() as u64), length: length as u64 }
}

/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_vi_send(
    handle: *const Shared,
    vi: c_int,
    cookie: u64,
    memory: u32,
    at: *const c_void,
    length: size_t,
) -> c_longlong {
    let (vi, from) = (ViId(vi as u32), place(memory, at, length));
    // SAFETY: the caller's promise.
    unsafe {
        call(handle, |it| {
            it.adapter.post_send(vi, cookie, from, Operation::Send).map_err(Error::from)?;
            Ok::<_, Error>(0)
        })
    }
}

/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_vi_write(
    handle: *const Shared,
    vi: c_int,
    cookie: u64,
    memory: u32,
    at: *const c_void,
    length: size_t,
    remote_memory: u32,
    address: u64,
    is_told: c_int,
) -> c_longlong {
    let to = remote(MemoryHandle(remote_memory), address);
    let operation = Operation::RdmaWrite { to, immediate: is_told != 0 };
    let (vi, from) = (ViId(vi as u32), place(memory, at, length));
    // SAFETY: the caller's promise.
    unsafe {
        call(handle, |it| {
            it.adapter.post_send(vi, cookie, from, operation).map_err(Error::from)?;
            Ok::<_, Error>(0)
        })
    }
}

/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_vi_receive(
    handle: *const Shared,
    vi: c_int,
    cookie: u64,
    memory: u32,
    at: *mut c_void,
    length: size_t,
) -> c_longlong {
    let (vi, to) = (ViId(vi as u32), place(memory, at, length));
    // SAFETY: the caller's promise.
    unsafe {
        call(handle, |it| {
            it.adapter.post_receive(vi, cookie, to).map_err(Error::from)?;
            Ok::<_, Error>(0)
        })
    }
}

/// # Safety
/// The handle is open, and there is room for a completion.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_vi_wait(
    handle: *const Shared,
    seconds: f64,
    done: *mut CDone,
) -> c_longlong {
    // SAFETY: the caller's promise.
    unsafe {
        call::<_, Error>(handle, |it| {
            let next = it.flushed.pop_front().or_else(|| it.adapter.wait(limit(seconds)));
            let Some(Done { vi, completion, length }) = next else { return Ok(0) };
            let Completion { cookie, queue, result } = completion;
            done.write(CDone {
                vi: vi.0 as c_int,
                is_receive: (queue == WorkQueueKind::Receive).into(),
                cookie,
                length,
                error: result.err().map_or(0, fault_number),
            });
            Ok(1)
        })
    }
}

/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_vi_disconnect(handle: *const Shared, vi: c_int) -> c_longlong {
    let vi = ViId(vi as u32);
    // SAFETY: the caller's promise.
    unsafe {
        call(handle, |it| {
            let ended = it.adapter.disconnect(vi).map_err(Error::from)?;
            it.flushed.extend(ended.into_iter().map(|completion| Done {
                vi,
                completion,
                length: 0,
            }));
            Ok::<_, Error>(0)
        })
    }
}
