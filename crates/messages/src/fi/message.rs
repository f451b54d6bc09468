//! Sending and receiving: `fi_msg(3)`, `fi_tagged(3)`.

use libc::{c_void, iovec, size_t, ssize_t};

use super::abi::{
    FI_CLAIM, FI_COMPLETION, FI_DELIVERY_COMPLETE, FI_DISCARD, FI_EBADFLAGS, FI_ENOSYS,
    FI_EOPBADSTATE, FI_INJECT, FI_MATCH_COMPLETE, FI_PEEK, FI_REMOTE_CQ_DATA, fi_msg,
    fi_msg_tagged, fi_ops_msg, fi_ops_tagged, fid_ep,
};
use super::ep::Ep;
use super::info::{ANY_SOURCE, LONGEST, RECEIVE_FLAGS, SEND_FLAGS};
use super::record::Accepted;
use super::result;
use super::state::{Binding, Posted, Reporter, Short, Working};
use crate::channel::Envelope;
use crate::endpoint::{
    Endpoint, Event, Events, LONGEST_INJECTED, Message, Receive, Received, Unreceived, Wanted,
};
use crate::parts::{Parts, RawBytes};
use crate::peers::Peers;
use crate::sys::Errno;

pub static MSG: fi_ops_msg = fi_ops_msg {
    size: size_of::<fi_ops_msg>(),
    recv,
    recvv,
    recvmsg,
    send,
    sendv,
    sendmsg,
    inject,
    senddata,
    injectdata,
};
pub static TAGGED: fi_ops_tagged = fi_ops_tagged {
    size: size_of::<fi_ops_tagged>(),
    recv: trecv,
    recvv: trecvv,
    recvmsg: trecvmsg,
    send: tsend,
    sendv: tsendv,
    sendmsg: tsendmsg,
    inject: tinject,
    senddata: tsenddata,
    injectdata: tinjectdata,
};

/// The flags of an operation.
#[derive(Clone, Copy)]
pub enum Flags {
    /// The defaults of its endpoint.
    Default,
    /// Given with the operation.
    Only(u64),
    /// An injected message, which has no completion.
    Injected,
}

impl Flags {
    pub fn of(self, binding: &Binding) -> u64 {
        match self {
            Self::Default => binding.flags,
            Self::Only(flags) => flags,
            Self::Injected => FI_INJECT,
        }
    }

    /// Whether an operation with these flags is reported to the completion queue.
    pub fn is_reported(self, binding: &Binding) -> bool {
        let asks = self.of(binding) & FI_COMPLETION != 0;
        !matches!(self, Self::Injected) && (asks || !binding.is_selective)
    }
}

/// The tag and the ignored bits of a receive; `None` for untagged messages.
type Tag = Option<(u64, u64)>;

/// # Safety
///
/// The pointers must be valid as the manual pages require.
#[inline(never)]
unsafe fn post_send(
    endpoint: *mut fid_ep,
    parts: Option<Parts>,
    to: u64,
    tag: Option<u64>,
    data: Option<u64>,
    context: *mut c_void,
    flags: Flags,
) -> Result<(), Errno> {
    // SAFETY: the program passes an object of this provider.
    let endpoint = unsafe { &*endpoint.cast::<Ep>() };
    let mut state = endpoint.shared.lock();
    state.enter();
    let Working { bound, peers, vector, mut reporter } = state.working(endpoint.number)?;
    if !bound.is_enabled {
        return Err(FI_EOPBADSTATE);
    }
    if bound.is_connected_type && tag.is_some() {
        return Err(FI_ENOSYS);
    }
    let parts = parts.filter(|it| it.length() <= LONGEST).ok_or(libc::EMSGSIZE)?;
    let asked = flags.of(&reporter.bindings.sends);
    if asked & FI_INJECT != 0 && parts.length() > LONGEST_INJECTED {
        return Err(libc::EMSGSIZE);
    }
    let to = bound.destination(vector, to)?;
    let envelope = Envelope { is_tagged: tag.is_some(), tag: tag.unwrap_or(0), data };
    let message = Message {
        context: context.expose_provenance(),
        envelope,
        parts,
        is_reported: flags.is_reported(&reporter.bindings.sends),
        // The buffers of an injected message may be reused at once, so its delivery cannot be awaited.
        must_arrive: asked & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE) != 0
            && asked & FI_INJECT == 0,
    };
    if let Some(record) = &mut reporter.record {
        record.begin_send();
    }
    // SAFETY: the caller keeps the places readable until the completion.
    let sent = unsafe {
        if bound.is_connected_type {
            bound.endpoint.send_connected(peers, to, &message, &mut reporter)
        } else {
            bound.endpoint.send(peers, to, &message, &mut reporter)
        }
    };
    if let Some(record) = &mut reporter.record {
        let length = message.parts.length();
        let accepted = Accepted {
            tag: message.envelope.tag,
            length,
            context: message.context,
            is_held: message.must_arrive || length > LONGEST_INJECTED,
        };
        record.end_send(peers, to, sent.is_ok().then_some(accepted));
        record.leave();
    }
    sent
}

/// # Safety
///
/// The pointers must be valid as the manual pages require.
#[inline(never)]
unsafe fn post_receive(
    endpoint: *mut fid_ep,
    parts: Option<Parts>,
    from: u64,
    tag: Tag,
    context: *mut c_void,
    flags: Flags,
) -> Result<(), Errno> {
    // SAFETY: the program passes an object of this provider.
    let endpoint = unsafe { &*endpoint.cast::<Ep>() };
    let mut state = endpoint.shared.lock();
    state.enter();
    let Working { bound, peers, vector, mut reporter } = state.working(endpoint.number)?;
    if !bound.is_enabled {
        return Err(FI_EOPBADSTATE);
    }
    let is_tagged = tag.is_some();
    if bound.is_connected_type && is_tagged {
        return Err(FI_ENOSYS);
    }
    let (tag, ignore) = tag.unwrap_or((0, u64::MAX));
    let source = match from {
        _ if !bound.is_directed => None,
        ANY_SOURCE => None,
        from => Some(vector.ok_or(libc::EINVAL)?.peer(from)?),
    };
    let wanted = Wanted { source, tag, ignore };
    let to = parts.ok_or(libc::EMSGSIZE)?;
    let is_reported = flags.is_reported(&reporter.bindings.receives);
    let receive = Receive { context: context.expose_provenance(), to, is_reported };
    let asked = flags.of(&reporter.bindings.receives);
    if asked & (FI_PEEK | FI_DISCARD) != 0 {
        let search = Search { asked, is_tagged, wanted, context: receive.context };
        search.run(&mut bound.endpoint, peers, &mut reporter);
        return Ok(());
    }
    if let Some(record) = &mut reporter.record {
        record.post(receive.context);
    }
    let endpoint = &mut bound.endpoint;
    // SAFETY: the caller keeps the places writable until the completion.
    let posted = unsafe {
        if asked & FI_CLAIM != 0 {
            let is_there = endpoint.receive_claimed(is_tagged, &receive, &mut reporter);
            is_there.then_some(()).ok_or(libc::EINVAL)
        } else if bound.is_connected_type {
            endpoint.receive_connected(receive, &mut reporter)
        } else {
            endpoint.receive(is_tagged, wanted, receive, &mut reporter);
            Ok(())
        }
    };
    if let Some(record) = &mut reporter.record {
        record.leave();
    }
    posted
}

/// Sends a message in one buffer.
///
/// # Safety
///
/// The pointers must be valid as the manual pages require.
#[inline(always)]
unsafe fn send_one(endpoint: *mut fid_ep, message: Short) -> Result<(), Errno> {
    // SAFETY: the program passes an object of this provider.
    let it = unsafe { &*endpoint.cast::<Ep>() };
    if let Some(state) = it.shared.serial()
        // SAFETY: the caller's promise.
        && unsafe { state.send_short(it.number, &message) }
    {
        return Ok(());
    }
    let Short { to, envelope, bytes, context, flags } = message;
    let tag = envelope.is_tagged.then_some(envelope.tag);
    let parts = Some(Parts::one(bytes.first.cast_mut(), bytes.length));
    let context = std::ptr::with_exposed_provenance_mut(context);
    // SAFETY: the caller's promise.
    unsafe { post_send(endpoint, parts, to, tag, envelope.data, context, flags) }
}

/// Posts a receive with the default flags, into one buffer.
///
/// # Safety
///
/// The pointers must be valid as the manual pages require.
#[inline(always)]
unsafe fn receive_one(endpoint: *mut fid_ep, posted: Posted) -> Result<(), Errno> {
    // SAFETY: the program passes an object of this provider.
    let it = unsafe { &*endpoint.cast::<Ep>() };
    if let Some(state) = it.shared.serial()
        // SAFETY: the caller's promise.
        && unsafe { state.post_short(it.number, &posted) }
    {
        return Ok(());
    }
    let Posted { from, is_tagged, tag, ignore, base, length, context, flags } = posted;
    let tag = is_tagged.then_some((tag, ignore));
    let parts = Some(Parts::one(base, length));
    let context = std::ptr::with_exposed_provenance_mut(context);
    // SAFETY: the caller's promise.
    unsafe { post_receive(endpoint, parts, from, tag, context, flags) }
}

/// A receive that looks for a message that nobody has received, or gives one up, and takes no bytes.
struct Search {
    /// The flags: of [`FI_PEEK`] and [`FI_DISCARD`] one at least.
    asked: u64,
    is_tagged: bool,
    wanted: Wanted,
    context: usize,
}

impl Search {
    /// Runs it, and reports what was found.
    fn run(self, endpoint: &mut Endpoint, peers: &mut Peers, reporter: &mut Reporter<'_>) {
        let Self { asked, is_tagged, wanted, context } = self;
        let is_peek = asked & FI_PEEK != 0;
        if is_peek {
            endpoint.progress(peers, reporter);
        }
        let record = reporter.record.take();
        let found = if asked & FI_DISCARD != 0 {
            endpoint.discard(is_tagged, is_peek.then_some(&wanted), context, reporter)
        } else if asked & FI_CLAIM != 0 {
            endpoint.claim(is_tagged, &wanted, context)
        } else {
            endpoint.peek(is_tagged, &wanted)
        };
        let (base, cut, is_reported) = (std::ptr::null_mut(), 0, true);
        reporter.on_event(match found {
            Some(Unreceived { source, envelope, length }) => {
                let source = Some(source);
                Event::Received(Received {
                    context,
                    source,
                    envelope,
                    base,
                    length,
                    cut,
                    is_reported,
                })
            }
            None => {
                let envelope = Envelope { is_tagged, tag: wanted.tag, data: None };
                let (source, length) = (None, 0);
                let received =
                    Received { context, source, envelope, base, length, cut, is_reported };
                Event::ReceiveFailed { received, error: libc::ENOMSG }
            }
        });
        if let Some(record) = record {
            record.leave();
        }
    }
}

/// The buffers of an I/O vector; `None` if there are too many.
pub unsafe fn places(vector: *const iovec, count: size_t) -> Option<Parts> {
    if count == 0 {
        return Parts::new(&[]);
    }
    // SAFETY: the caller has that many places.
    Parts::new(unsafe { std::slice::from_raw_parts(vector, count) })
}

pub const fn one(buffer: *const c_void, length: size_t) -> Option<Parts> {
    Some(Parts::one(buffer.cast_mut().cast(), length))
}

pub fn no_more_than(flags: u64, offered: u64) -> Result<Flags, Errno> {
    if flags & !offered == 0 { Ok(Flags::Only(flags)) } else { Err(FI_EBADFLAGS) }
}

fn empty(done: Result<(), Errno>) -> ssize_t {
    result(done.map(|()| 0))
}

unsafe extern "C" fn recv(
    endpoint: *mut fid_ep,
    buffer: *mut c_void,
    length: size_t,
    _: *mut c_void,
    from: u64,
    context: *mut c_void,
) -> ssize_t {
    let (base, context) = (buffer.cast(), context.expose_provenance());
    let flags = Flags::Default;
    let posted =
        Posted { from, is_tagged: false, tag: 0, ignore: u64::MAX, base, length, context, flags };
    // SAFETY: the caller's promise, here and in the functions below.
    empty(unsafe { receive_one(endpoint, posted) })
}

unsafe extern "C" fn recvv(
    endpoint: *mut fid_ep,
    vector: *const iovec,
    _: *mut *mut c_void,
    count: size_t,
    from: u64,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: as above.
    empty(unsafe {
        post_receive(endpoint, places(vector, count), from, None, context, Flags::Default)
    })
}

unsafe extern "C" fn recvmsg(endpoint: *mut fid_ep, message: *const fi_msg, flags: u64) -> ssize_t {
    // SAFETY: as above.
    empty(unsafe {
        let it = &*message;
        no_more_than(flags, RECEIVE_FLAGS).and_then(|flags| {
            let parts = places(it.msg_iov, it.iov_count);
            post_receive(endpoint, parts, it.addr, None, it.context, flags)
        })
    })
}

unsafe extern "C" fn send(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: size_t,
    _: *mut c_void,
    to: u64,
    context: *mut c_void,
) -> ssize_t {
    let envelope = Envelope { is_tagged: false, tag: 0, data: None };
    let bytes = RawBytes { first: buffer.cast(), length };
    let message =
        Short { to, envelope, bytes, context: context.expose_provenance(), flags: Flags::Default };
    // SAFETY: as above.
    empty(unsafe { send_one(endpoint, message) })
}

unsafe extern "C" fn sendv(
    endpoint: *mut fid_ep,
    vector: *const iovec,
    _: *mut *mut c_void,
    count: size_t,
    to: u64,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: as above.
    empty(unsafe {
        post_send(endpoint, places(vector, count), to, None, None, context, Flags::Default)
    })
}

unsafe extern "C" fn sendmsg(endpoint: *mut fid_ep, message: *const fi_msg, flags: u64) -> ssize_t {
    // SAFETY: as above.
    empty(unsafe {
        let it = &*message;
        let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(it.data);
        no_more_than(flags, SEND_FLAGS | FI_REMOTE_CQ_DATA).and_then(|flags| {
            let parts = places(it.msg_iov, it.iov_count);
            post_send(endpoint, parts, it.addr, None, data, it.context, flags)
        })
    })
}

unsafe extern "C" fn inject(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: size_t,
    to: u64,
) -> ssize_t {
    let envelope = Envelope { is_tagged: false, tag: 0, data: None };
    let bytes = RawBytes { first: buffer.cast(), length };
    let message = Short { to, envelope, bytes, context: 0, flags: Flags::Injected };
    // SAFETY: as above.
    empty(unsafe { send_one(endpoint, message) })
}

unsafe extern "C" fn senddata(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: size_t,
    _: *mut c_void,
    data: u64,
    to: u64,
    context: *mut c_void,
) -> ssize_t {
    let envelope = Envelope { is_tagged: false, tag: 0, data: Some(data) };
    let bytes = RawBytes { first: buffer.cast(), length };
    let message =
        Short { to, envelope, bytes, context: context.expose_provenance(), flags: Flags::Default };
    // SAFETY: as above.
    empty(unsafe { send_one(endpoint, message) })
}

unsafe extern "C" fn injectdata(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: size_t,
    data: u64,
    to: u64,
) -> ssize_t {
    let envelope = Envelope { is_tagged: false, tag: 0, data: Some(data) };
    let bytes = RawBytes { first: buffer.cast(), length };
    let message = Short { to, envelope, bytes, context: 0, flags: Flags::Injected };
    // SAFETY: as above.
    empty(unsafe { send_one(endpoint, message) })
}

unsafe extern "C" fn trecv(
    endpoint: *mut fid_ep,
    buffer: *mut c_void,
    length: size_t,
    _: *mut c_void,
    from: u64,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> ssize_t {
    let (base, context) = (buffer.cast(), context.expose_provenance());
    let flags = Flags::Default;
    let posted = Posted { from, is_tagged: true, tag, ignore, base, length, context, flags };
    // SAFETY: the caller's promise, here and in the functions below.
    empty(unsafe { receive_one(endpoint, posted) })
}

unsafe extern "C" fn trecvv(
    endpoint: *mut fid_ep,
    vector: *const iovec,
    _: *mut *mut c_void,
    count: size_t,
    from: u64,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> ssize_t {
    let tag = Some((tag, ignore));
    // SAFETY: as above.
    empty(unsafe {
        post_receive(endpoint, places(vector, count), from, tag, context, Flags::Default)
    })
}

unsafe extern "C" fn trecvmsg(
    endpoint: *mut fid_ep,
    message: *const fi_msg_tagged,
    flags: u64,
) -> ssize_t {
    // SAFETY: as above.
    empty(unsafe {
        let it = &*message;
        let offered = RECEIVE_FLAGS | FI_PEEK | FI_CLAIM | FI_DISCARD;
        no_more_than(flags, offered).and_then(|flags| {
            let parts = places(it.msg_iov, it.iov_count);
            let tag = Some((it.tag, it.ignore));
            post_receive(endpoint, parts, it.addr, tag, it.context, flags)
        })
    })
}

unsafe extern "C" fn tsend(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: size_t,
    _: *mut c_void,
    to: u64,
    tag: u64,
    context: *mut c_void,
) -> ssize_t {
    let envelope = Envelope { is_tagged: true, tag, data: None };
    let bytes = RawBytes { first: buffer.cast(), length };
    let message =
        Short { to, envelope, bytes, context: context.expose_provenance(), flags: Flags::Default };
    // SAFETY: as above.
    empty(unsafe { send_one(endpoint, message) })
}

unsafe extern "C" fn tsendv(
    endpoint: *mut fid_ep,
    vector: *const iovec,
    _: *mut *mut c_void,
    count: size_t,
    to: u64,
    tag: u64,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: as above.
    empty(unsafe {
        post_send(endpoint, places(vector, count), to, Some(tag), None, context, Flags::Default)
    })
}

unsafe extern "C" fn tsendmsg(
    endpoint: *mut fid_ep,
    message: *const fi_msg_tagged,
    flags: u64,
) -> ssize_t {
    // SAFETY: as above.
    empty(unsafe {
        let it = &*message;
        let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(it.data);
        no_more_than(flags, SEND_FLAGS | FI_REMOTE_CQ_DATA).and_then(|flags| {
            let parts = places(it.msg_iov, it.iov_count);
            post_send(endpoint, parts, it.addr, Some(it.tag), data, it.context, flags)
        })
    })
}

unsafe extern "C" fn tinject(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: size_t,
    to: u64,
    tag: u64,
) -> ssize_t {
    let envelope = Envelope { is_tagged: true, tag, data: None };
    let bytes = RawBytes { first: buffer.cast(), length };
    let message = Short { to, envelope, bytes, context: 0, flags: Flags::Injected };
    // SAFETY: as above.
    empty(unsafe { send_one(endpoint, message) })
}

unsafe extern "C" fn tsenddata(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: size_t,
    _: *mut c_void,
    data: u64,
    to: u64,
    tag: u64,
    context: *mut c_void,
) -> ssize_t {
    let envelope = Envelope { is_tagged: true, tag, data: Some(data) };
    let bytes = RawBytes { first: buffer.cast(), length };
    let message =
        Short { to, envelope, bytes, context: context.expose_provenance(), flags: Flags::Default };
    // SAFETY: as above.
    empty(unsafe { send_one(endpoint, message) })
}

unsafe extern "C" fn tinjectdata(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: size_t,
    data: u64,
    to: u64,
    tag: u64,
) -> ssize_t {
    let envelope = Envelope { is_tagged: true, tag, data: Some(data) };
    let bytes = RawBytes { first: buffer.cast(), length };
    let message = Short { to, envelope, bytes, context: 0, flags: Flags::Injected };
    // SAFETY: as above.
    empty(unsafe { send_one(endpoint, message) })
}
