//! The C interface of active messages; the header is `python/weft/include/weft_messages.h`.

use libc::{c_char, c_int, c_longlong, c_void, size_t};
use weft_protocol::endpoint::NetworkNumber;
use weft_protocol::packet::{EndpointName, HandlerIndex, Message, Payload};

use super::{ActiveError, Answer, Node};
use crate::c::{Numbered, call, close, directory, give, limit, slice, why};
use crate::rendezvous::BadDirectory;

type Shared = crate::c::Shared<Node>;

/// An error of a call.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Directory(#[from] BadDirectory),
    #[error(transparent)]
    Active(#[from] ActiveError),
    #[error("a payload of {0} bytes: a bulk message has at most 2048")]
    TooLong(usize),
}

impl Numbered for Error {
    fn number(&self) -> c_int {
        match self {
            Self::Directory(_) => libc::EACCES,
            Self::TooLong(_) => libc::EMSGSIZE,
            Self::Active(error) => match error {
                ActiveError::Number(_) => libc::EINVAL,
                ActiveError::Taken(_) => libc::EADDRINUSE,
                ActiveError::Refused(_) => libc::EPERM,
                ActiveError::Busy => libc::EAGAIN,
                ActiveError::Gone(_) => libc::EHOSTUNREACH,
                ActiveError::Kernel(number) => *number,
            },
        }
    }
}

/// `struct weft_am_message`.
#[repr(C)]
pub struct CMessage {
    node: u16,
    endpoint: u16,
    arguments: [u32; Message::ARGUMENTS],
    payload: *const c_void,
    length: size_t,
}

/// `struct weft_am_answer`.
#[repr(C)]
pub struct CAnswer {
    handler: u16,
    arguments: [u32; Message::ARGUMENTS],
    payload: *const c_void,
    length: size_t,
}

/// `weft_am_handler`: one if it has filled the response in.
type CHandler = unsafe extern "C" fn(*mut c_void, *const CMessage, *mut CAnswer) -> c_int;

/// A payload of a program; none if it has no bytes and no address.
///
/// # Safety
/// That many bytes are readable.
unsafe fn payload(bytes: *const c_void, length: size_t) -> Result<Option<Payload>, Error> {
    if bytes.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { slice(bytes, length) };
    Payload::new(bytes.to_vec()).map(Some).map_err(|_| Error::TooLong(length))
}

/// # Safety
/// `path` is a C string or null; `number` is writable or null; `text` has room for `room` bytes or is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_am_open(
    path: *const c_char,
    node: u16,
    number: *mut c_int,
    text: *mut c_char,
    room: size_t,
) -> *mut Shared {
    // SAFETY: the caller's promise.
    unsafe {
        let made = directory(path).map_err(Error::from);
        give(made.and_then(|it| Ok(Node::new(it, node)?)), number, text, room)
    }
}

/// # Safety
/// The handle is open, and not used any more.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_am_close(handle: *mut Shared) {
    // SAFETY: the caller's promise.
    unsafe { close(handle) }
}

/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_am_why(handle: *const Shared) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { why(handle) }
}

/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_am_endpoint(handle: *const Shared, endpoint: u16) -> c_longlong {
    // SAFETY: the caller's promise.
    unsafe {
        call::<_, Error>(handle, |it| {
            it.open(endpoint);
            Ok(0)
        })
    }
}

/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_am_join(
    handle: *const Shared,
    node: u16,
    endpoint: u16,
    network: u32,
) -> c_longlong {
    // SAFETY: the caller's promise.
    unsafe {
        call::<_, Error>(handle, |it| {
            it.join(EndpointName { node, endpoint }, NetworkNumber(network));
            Ok(0)
        })
    }
}

/// # Safety
/// The handle is open; the handler may be called with this context as long as it is.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_am_handle(
    handle: *const Shared,
    endpoint: u16,
    index: u16,
    handler: CHandler,
    context: *mut c_void,
) -> c_longlong {
    let context = context.expose_provenance();
    // SAFETY: the caller's promise.
    unsafe {
        call(handle, |it| {
            let name = EndpointName { node: it.number, endpoint };
            let handler = Box::new(move |delivery: super::Delivery<'_>| {
                let bytes = delivery.payload.map(Payload::as_bytes);
                let message = CMessage {
                    node: delivery.message.initiator.node,
                    endpoint: delivery.message.initiator.endpoint,
                    arguments: delivery.message.arguments,
                    payload: bytes.map_or(std::ptr::null(), |it| it.as_ptr().cast()),
                    length: bytes.map_or(0, <[u8]>::len),
                };
                let none = std::ptr::null();
                let mut answer =
                    CAnswer { handler: 0, arguments: [0; 5], payload: none, length: 0 };
                let context = std::ptr::with_exposed_provenance_mut(context);
                let is_answered = handler(context, &raw const message, &raw mut answer) == 1;
                // A payload that is too long is no answer.
                let payload = payload(answer.payload, answer.length).ok()?;
                is_answered.then_some(Answer {
                    handler: HandlerIndex(answer.handler),
                    arguments: answer.arguments,
                    payload,
                })
            });
            it.set_handler(name, HandlerIndex(index), handler)?;
            Ok::<_, Error>(0)
        })
    }
}

/// # Safety
/// The handle is open; there are five arguments, and `length` bytes at the address, unless it is
/// null.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_am_send(
    handle: *const Shared,
    endpoint: u16,
    to_node: u16,
    to_endpoint: u16,
    index: u16,
    arguments: *const [u32; Message::ARGUMENTS],
    bytes: *const c_void,
    length: size_t,
) -> c_longlong {
    // SAFETY: the caller's promise.
    unsafe {
        call(handle, |it| {
            let message = Message {
                initiator: EndpointName { node: it.number, endpoint },
                target: EndpointName { node: to_node, endpoint: to_endpoint },
                handler: HandlerIndex(index),
                arguments: arguments.read(),
            };
            it.send(message, payload(bytes, length)?)?;
            Ok::<_, Error>(0)
        })
    }
}

/// One if a handler was called or a message was answered for, zero on timeout.
///
/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_am_wait(handle: *const Shared, seconds: f64) -> c_longlong {
    // SAFETY: the caller's promise.
    unsafe {
        call::<_, Error>(handle, |it| {
            let before = it.counts();
            Ok(it.wait(limit(seconds), |it| it.counts() != before).into())
        })
    }
}

/// The number of messages that are neither delivered nor failed.
///
/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_am_outstanding(handle: *const Shared) -> c_longlong {
    // SAFETY: the caller's promise.
    unsafe { call::<_, Error>(handle, |it| Ok(it.unfinished() as c_longlong)) }
}

/// Stores the counters: delivered, failed, handled, refused, damaged.
///
/// # Safety
/// The handle is open, and there is room for five counters.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_am_counts(handle: *const Shared, counts: *mut [u64; 5]) -> c_longlong {
    // SAFETY: the caller's promise.
    unsafe {
        call::<_, Error>(handle, |it| {
            let all = it.counts();
            counts.write([all.delivered, all.failed, all.handled, all.refused, all.damaged]);
            Ok(0)
        })
    }
}
