//! What is offered: `fi_getinfo(3)`.

use std::ffi::CStr;

use libc::{c_char, c_int, c_void, size_t};

use super::NAME;
use super::abi::{
    FI_ADDR_NOTAVAIL, FI_API, FI_ATOMIC, FI_AV_MAP, FI_AV_TABLE, FI_AV_UNSPEC, FI_COMPLETION,
    FI_CONTEXT, FI_DELIVERY_COMPLETE, FI_DIRECTED_RECV, FI_ENODATA, FI_EP_DGRAM, FI_EP_MSG,
    FI_EP_RDM, FI_EP_UNSPEC, FI_FORMAT_UNSPEC, FI_INJECT, FI_INJECT_COMPLETE, FI_LOCAL_COMM,
    FI_LOCAL_MR, FI_MATCH_COMPLETE, FI_MORE, FI_MR_BASIC, FI_MR_SCALABLE, FI_MSG, FI_MSG_PREFIX,
    FI_ORDER_SAS, FI_PROGRESS_MANUAL, FI_PROGRESS_UNSPEC, FI_PROV_SPECIFIC, FI_READ, FI_RECV,
    FI_REMOTE_COMM, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_RM_ENABLED, FI_RMA, FI_RX_CQ_DATA, FI_SEND,
    FI_SOURCE, FI_TAGGED, FI_THREAD_DOMAIN, FI_THREAD_SAFE, FI_TRANSMIT_COMPLETE, FI_WRITE,
    fi_domain_attr, fi_ep_attr, fi_fabric_attr, fi_info, fi_rx_attr, fi_tx_attr,
};
use crate::channel::MOST_RANGES;
use crate::endpoint::{LONGEST_INJECTED, MOST_DESCRIPTORS, MOST_LONG};
use crate::parts;
use crate::rendezvous::Name;

/// The provider's own version.
pub const VERSION: u32 = 1;

/// The format of names.
pub const ADDRESS_FORMAT: u32 = FI_PROV_SPECIFIC | 0x7765_6674;
const PROTOCOL: u32 = FI_PROV_SPECIFIC | 0x7765_6674;

const MESSAGES: u64 = FI_MSG | FI_TAGGED;
const ACCESSES: u64 = FI_RMA | FI_ATOMIC;
const PRIMARY: u64 = MESSAGES | ACCESSES;
const DIRECTIONS: u64 = FI_SEND | FI_RECV;
/// What an endpoint does to the memory of others, and what others do to its own.
const OWN_ACCESSES: u64 = FI_READ | FI_WRITE;
const PEER_ACCESSES: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;
/// Secondary capabilities that are granted without being requested, since they cost nothing. `FI_DIRECTED_RECV`
/// changes what a receive means, so it must be requested.
const ALWAYS: u64 = FI_LOCAL_COMM | FI_SOURCE;
/// The flags that a send may have.
pub const SEND_FLAGS: u64 = FI_COMPLETION
    | FI_INJECT
    | FI_INJECT_COMPLETE
    | FI_TRANSMIT_COMPLETE
    | FI_DELIVERY_COMPLETE
    | FI_MATCH_COMPLETE
    | FI_MORE;
/// The flags that a receive may have by default.
pub const RECEIVE_FLAGS: u64 = FI_COMPLETION | FI_MORE;
/// The longest message: more than an address space has.
pub const LONGEST: usize = 1 << 47;
/// How many receives may be posted: the depth of a virtual interface's queue. Without a connection memory alone limits
/// them.
const RECEIVES: usize = MOST_DESCRIPTORS as usize;
/// How many objects of a kind a domain may have; memory alone limits them.
const OBJECTS: usize = 1 << 16;
const TAGS: u64 = 0xaaaa_aaaa_aaaa_aaaa;

/// The capabilities granted for a request; `None` if it asks for one that is not available.
fn granted(wanted: u64, available: u64) -> Option<u64> {
    if wanted & !available != 0 {
        return None;
    }
    if wanted & PRIMARY == 0 {
        return Some(available);
    }
    // All modifiers of a primary capability, unless the request names some.
    let all = |primary, modifiers| {
        let is_open = wanted & primary != 0 && wanted & modifiers == 0;
        if is_open { modifiers & available } else { 0 }
    };
    let modifiers = all(MESSAGES, DIRECTIONS) | all(ACCESSES, OWN_ACCESSES | PEER_ACCESSES);
    Some(wanted | modifiers | ALWAYS & available)
}

fn is_named(name: *const c_char, own: &CStr) -> bool {
    // SAFETY: names are C strings, or none.
    name.is_null() || unsafe { CStr::from_ptr(name) } == own
}

/// Whether each requested number is within its limit.
fn fits(asked: &[(usize, usize)]) -> bool {
    asked.iter().all(|(asked, most)| asked <= most)
}

/// The endpoint types with their capabilities.
const KINDS: [(u32, u64); 3] = [
    (FI_EP_RDM, PRIMARY | DIRECTIONS | OWN_ACCESSES | PEER_ACCESSES | ALWAYS | FI_DIRECTED_RECV),
    // Reliable datagrams satisfy the contract of unreliable ones.
    (FI_EP_DGRAM, FI_MSG | DIRECTIONS | ALWAYS | FI_DIRECTED_RECV),
    (FI_EP_MSG, CONNECTED),
];

/// What an endpoint with a connection can.
const CONNECTED: u64 =
    FI_MSG | ACCESSES | DIRECTIONS | OWN_ACCESSES | PEER_ACCESSES | FI_LOCAL_COMM;

/// The variable that is `on` if all processes of a program are on this host.
const ONE_HOST: &str = "WEFT_MESSAGES_ONE_HOST";

/// The communication scope. Other hosts cannot be reached; if the program has no processes there, `FI_REMOTE_COMM`
/// is satisfied, which Open MPI insists on.
fn reached() -> u64 {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u32>().ok());
    let (all, here) = (number("OMPI_COMM_WORLD_SIZE"), number("OMPI_COMM_WORLD_LOCAL_SIZE"));
    let is_alone = all.is_some() && all == here
        || std::env::var_os(ONE_HOST).is_some_and(|value| value == "on");
    if is_alone { FI_LOCAL_COMM | FI_REMOTE_COMM } else { FI_LOCAL_COMM }
}

/// The part of the hints that cannot be satisfied, if any.
fn refused(hints: &Hints<'_>, kind: u32, caps: u64) -> Option<&'static str> {
    let info = hints.info?;
    // `ofi_rxd` and `ofi_rxm` build reliable datagrams with tags on other endpoints, and libfabric would prefer them to
    // this provider's own. Their requests are recognised by exactly these modes.
    let is_layer = match kind {
        FI_EP_DGRAM => info.mode == FI_LOCAL_MR | FI_CONTEXT | FI_MSG_PREFIX,
        // The bit of local registrations is that of programs for older headers.
        FI_EP_MSG => info.mode & !FI_LOCAL_MR == FI_RX_CQ_DATA | FI_CONTEXT,
        _ => false,
    };
    let is_offered: [(&str, bool); 8] = [
        ("mode", !is_layer),
        ("caps", granted(info.caps, caps).is_some()),
        ("addr_format", [FI_FORMAT_UNSPEC, ADDRESS_FORMAT].contains(&info.addr_format)),
        ("addresses", hints.addresses_are_offered()),
        ("tx_attr", hints.tx.is_none_or(|it| sends_are_offered(it, caps))),
        ("rx_attr", hints.rx.is_none_or(|it| receives_are_offered(it, caps))),
        ("ep_attr", hints.ep.is_none_or(|it| endpoint_is_offered(it, kind))),
        ("domain_attr", hints.domain.is_none_or(|it| domain_is_offered(it, caps))),
    ];
    // libfabric itself filters by provider name, which may name several layers.
    let names = hints.fabric.is_none_or(|it| is_named(it.name, NAME));
    let missing = is_offered.iter().find(|(_, offered)| !offered).map(|(what, _)| *what);
    missing.or((!names).then_some("fabric_attr"))
}

fn sends_are_offered(asked: &fi_tx_attr, caps: u64) -> bool {
    asked.caps & !(caps | SEND_FLAGS) == 0
        && asked.op_flags & !SEND_FLAGS == 0
        && asked.msg_order & !FI_ORDER_SAS == 0
        && asked.comp_order == 0
        && fits(&[
            (asked.inject_size, LONGEST_INJECTED),
            (asked.size, MOST_LONG),
            (asked.iov_limit, parts::MOST),
            (asked.rma_iov_limit, rma_ranges(caps)),
        ])
}

/// How many ranges a remote access may name.
const fn rma_ranges(caps: u64) -> usize {
    if caps & ACCESSES == 0 { 0 } else { MOST_RANGES }
}

fn receives_are_offered(asked: &fi_rx_attr, caps: u64) -> bool {
    asked.caps & !caps == 0
        && asked.op_flags & !RECEIVE_FLAGS == 0
        && asked.msg_order & !FI_ORDER_SAS == 0
        && asked.comp_order == 0
        && fits(&[(asked.size, RECEIVES), (asked.iov_limit, parts::MOST)])
}

fn endpoint_is_offered(asked: &fi_ep_attr, kind: u32) -> bool {
    [FI_EP_UNSPEC, kind].contains(&asked.r#type)
        && [0, PROTOCOL].contains(&asked.protocol)
        && fits(&[
            (asked.max_msg_size, LONGEST),
            (asked.msg_prefix_size, 0),
            (asked.max_order_raw_size, 0),
            (asked.max_order_war_size, 0),
            (asked.max_order_waw_size, 0),
            (asked.tx_ctx_cnt, 1),
            (asked.rx_ctx_cnt, 1),
            (asked.auth_key_size, 0),
        ])
}

fn domain_is_offered(asked: &fi_domain_attr, caps: u64) -> bool {
    let progress = [FI_PROGRESS_UNSPEC, FI_PROGRESS_MANUAL];
    is_named(asked.name, NAME)
        && progress.contains(&asked.control_progress)
        && progress.contains(&asked.data_progress)
        && [FI_AV_UNSPEC, FI_AV_MAP, FI_AV_TABLE].contains(&asked.av_type)
        && asked.caps & !(caps & (FI_LOCAL_COMM | FI_REMOTE_COMM)) == 0
        && fits(&[
            (asked.mr_key_size, 8),
            (asked.cq_data_size, 8),
            (asked.cq_cnt, OBJECTS),
            (asked.ep_cnt, OBJECTS),
            (asked.cntr_cnt, OBJECTS),
            (asked.tx_ctx_cnt, OBJECTS),
            (asked.rx_ctx_cnt, OBJECTS),
            (asked.max_ep_tx_ctx, 1),
            (asked.max_ep_rx_ctx, 1),
            (asked.max_ep_stx_ctx, 0),
            (asked.max_ep_srx_ctx, 0),
            (asked.mr_iov_limit, 1),
            (asked.auth_key_size, 0),
            (asked.max_err_data, 0),
        ])
}

/// What a program asks for.
#[derive(Default)]
struct Hints<'a> {
    info: Option<&'a fi_info>,
    tx: Option<&'a fi_tx_attr>,
    rx: Option<&'a fi_rx_attr>,
    ep: Option<&'a fi_ep_attr>,
    domain: Option<&'a fi_domain_attr>,
    fabric: Option<&'a fi_fabric_attr>,
}

impl<'a> Hints<'a> {
    /// # Safety
    ///
    /// Pointers must be those of valid attributes, or null.
    unsafe fn of(info: Option<&'a fi_info>) -> Self {
        let Some(it) = info else { return Self::default() };
        // SAFETY: the caller's promise.
        unsafe {
            Self {
                info,
                tx: it.tx_attr.as_ref(),
                rx: it.rx_attr.as_ref(),
                ep: it.ep_attr.as_ref(),
                domain: it.domain_attr.as_ref(),
                fabric: it.fabric_attr.as_ref(),
            }
        }
    }

    /// A source address cannot be chosen, and a destination must be on this host.
    fn addresses_are_offered(&self) -> bool {
        let Some(info) = self.info else { return true };
        let (own, other) = (info.src_addr.is_null(), info.dest_addr.is_null());
        own && (other || self.other().is_some_and(|name| name.is_here()))
    }

    /// The destination address of the hints.
    fn other(&self) -> Option<Name> {
        self.info.and_then(destination)
    }
}

/// The destination address of an `fi_info`.
pub fn destination(info: &fi_info) -> Option<Name> {
    let is_name = !info.dest_addr.is_null() && info.dest_addrlen == Name::LENGTH;
    // SAFETY: the caller has `dest_addrlen` bytes there.
    let bytes =
        is_name.then(|| unsafe { info.dest_addr.cast::<[u8; Name::LENGTH]>().read_unaligned() });
    bytes.and_then(|bytes| Name::from_bytes(&bytes))
}

/// What an endpoint gets that accepts a request. The caller owns it, as `fi_freeinfo` frees it; null if there is no
/// memory.
pub fn of_connection(version: u32, caps: u64, mr_mode: c_int) -> *mut fi_info {
    // SAFETY: what is made is complete, and its strings are copies.
    unsafe {
        let info = make(version, &Hints::default(), FI_EP_MSG, CONNECTED | reached());
        if !info.is_null() {
            (*info).caps = caps;
            (*(*info).domain_attr).mr_mode = mr_mode;
            // libfabric names the provider only where it asked itself.
            (*(*info).fabric_attr).prov_name = libc::strdup(NAME.as_ptr());
        }
        info
    }
}

/// `fi_getinfo`.
///
/// # Safety
///
/// Strings and hints must be valid or null, and `place` writable.
pub unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    _flags: u64,
    hints: *const fi_info,
    place: *mut *mut fi_info,
) -> c_int {
    // Addresses are names that programs exchange, not hosts and ports.
    if !node.is_null() || !service.is_null() {
        return -FI_ENODATA;
    }
    // SAFETY: the caller has hints, or none.
    let hints = unsafe { Hints::of(hints.as_ref()) };
    let reached = reached();
    let kinds = KINDS.iter().map(|(kind, caps)| (*kind, caps | reached));
    let offered = kinds.filter(|(kind, caps)| refused(&hints, *kind, *caps).is_none());
    let mut list: *mut fi_info = std::ptr::null_mut();
    let mut end: *mut *mut fi_info = &raw mut list;
    for (kind, caps) in offered {
        // SAFETY: the entries are allocated as `fi_freeinfo` frees them.
        unsafe {
            let info = make(version, &hints, kind, caps);
            if info.is_null() {
                return -libc::ENOMEM;
            }
            end.write(info);
            end = &raw mut (*info).next;
        }
    }
    if list.is_null() {
        return -FI_ENODATA;
    }
    // SAFETY: the caller's promise.
    unsafe { place.write(list) };
    0
}

/// Zeroed memory for a structure, to be released by `free`. Later versions of the headers have longer structures,
/// which libfabric copies in full, hence the extra room.
unsafe fn new<T>() -> *mut T {
    const LATER: usize = 256;
    // SAFETY: no memory is passed.
    unsafe { libc::calloc(1, size_of::<T>() + LATER).cast() }
}

unsafe fn make(version: u32, hints: &Hints<'_>, kind: u32, available: u64) -> *mut fi_info {
    let asked = |of: fn(&fi_info) -> u64| hints.info.map_or(0, of);
    let caps = granted(asked(|it| it.caps), available).unwrap_or(available);
    // SAFETY: each structure is written right after it was made; the names are C strings.
    unsafe {
        let (info, tx, rx) = (new::<fi_info>(), new::<fi_tx_attr>(), new::<fi_rx_attr>());
        let (ep, domain, fabric) =
            (new::<fi_ep_attr>(), new::<fi_domain_attr>(), new::<fi_fabric_attr>());
        let made = [info.cast(), tx.cast(), rx.cast(), ep.cast(), domain.cast(), fabric.cast()];
        if made.iter().any(|it: &*mut c_void| it.is_null()) {
            return std::ptr::null_mut();
        }
        (*tx).caps = caps & (PRIMARY | FI_SEND | OWN_ACCESSES | FI_LOCAL_COMM);
        (*tx).op_flags = hints.tx.map_or(0, |it| it.op_flags);
        (*tx).msg_order = FI_ORDER_SAS;
        (*tx).inject_size = LONGEST_INJECTED;
        (*tx).size = MOST_LONG;
        (*tx).iov_limit = parts::MOST;
        (*tx).rma_iov_limit = rma_ranges(caps);
        (*rx).caps = caps & (PRIMARY | FI_RECV | PEER_ACCESSES | ALWAYS | FI_DIRECTED_RECV);
        (*rx).op_flags = hints.rx.map_or(0, |it| it.op_flags);
        (*rx).msg_order = FI_ORDER_SAS;
        (*rx).size = RECEIVES;
        (*rx).iov_limit = parts::MOST;
        (*ep).r#type = kind;
        (*ep).protocol = PROTOCOL;
        (*ep).protocol_version = 1;
        (*ep).max_msg_size = LONGEST;
        (*ep).mem_tag_format = hints.ep.map_or(0, |it| it.mem_tag_format);
        if (*ep).mem_tag_format == 0 {
            (*ep).mem_tag_format = TAGS;
        }
        ((*ep).tx_ctx_cnt, (*ep).rx_ctx_cnt) = (1, 1);
        fill_domain(&mut *domain, hints);
        (*domain).caps = caps & (FI_LOCAL_COMM | FI_REMOTE_COMM);
        (*fabric).name = libc::strdup(NAME.as_ptr());
        // libfabric names the provider itself.
        (*fabric).prov_version = VERSION;
        (*fabric).api_version = version.min(FI_API);
        (*info).caps = caps;
        (*info).addr_format = ADDRESS_FORMAT;
        ((*info).tx_attr, (*info).rx_attr, (*info).ep_attr) = (tx, rx, ep);
        ((*info).domain_attr, (*info).fabric_attr) = (domain, fabric);
        if let Some(name) = hints.other() {
            let bytes = libc::malloc(Name::LENGTH).cast::<[u8; Name::LENGTH]>();
            if !bytes.is_null() {
                bytes.write(name.to_bytes());
                (*info).dest_addr = bytes.cast();
                (*info).dest_addrlen = Name::LENGTH;
            }
        }
        info
    }
}

fn fill_domain(domain: &mut fi_domain_attr, hints: &Hints<'_>) {
    // SAFETY: the name is a C string; the copy is libfabric's to free.
    domain.name = unsafe { libc::strdup(NAME.as_ptr()) };
    // A program that serialises access itself does not pay for a lock.
    let is_serial = hints.domain.is_some_and(|it| it.threading == FI_THREAD_DOMAIN);
    domain.threading = if is_serial { FI_THREAD_DOMAIN } else { FI_THREAD_SAFE };
    domain.control_progress = FI_PROGRESS_MANUAL;
    domain.data_progress = FI_PROGRESS_MANUAL;
    domain.resource_mgmt = FI_RM_ENABLED;
    let av_type = hints.domain.map_or(FI_AV_UNSPEC, |it| it.av_type);
    domain.av_type = if av_type == FI_AV_UNSPEC { FI_AV_TABLE } else { av_type };
    // Nothing is required of a registration: the program chooses its key, and peers name offsets. Programs for older
    // headers expect their own mode back.
    let mode = hints.domain.map_or(0, |it| it.mr_mode);
    domain.mr_mode = if [FI_MR_BASIC, FI_MR_SCALABLE].contains(&mode) { mode } else { 0 };
    domain.mr_key_size = 8;
    domain.cq_data_size = 8;
    (domain.cq_cnt, domain.ep_cnt, domain.cntr_cnt) = (OBJECTS, OBJECTS, OBJECTS);
    (domain.tx_ctx_cnt, domain.rx_ctx_cnt) = (OBJECTS, OBJECTS);
    (domain.max_ep_tx_ctx, domain.max_ep_rx_ctx) = (1, 1);
    domain.mr_iov_limit = 1;
    domain.mr_cnt = OBJECTS as size_t;
}

/// The unspecified address, with which a receive matches any source.
pub const ANY_SOURCE: u64 = FI_ADDR_NOTAVAIL;

#[cfg(test)]
mod tests {
    use super::*;

    const RDM: u64 = KINDS[0].1;

    #[test]
    fn an_empty_request_is_granted_everything() {
        assert_eq!(granted(0, RDM), Some(RDM));
        assert_eq!(granted(FI_LOCAL_COMM, RDM), Some(RDM));
    }

    #[test]
    fn both_directions_are_granted_unless_one_is_requested() {
        assert_eq!(granted(FI_TAGGED, RDM), Some(FI_TAGGED | DIRECTIONS | ALWAYS));
        assert_eq!(granted(FI_MSG | FI_RECV, RDM), Some(FI_MSG | FI_RECV | ALWAYS));
        let both = OWN_ACCESSES | PEER_ACCESSES;
        assert_eq!(granted(FI_RMA, RDM), Some(FI_RMA | both | ALWAYS));
        assert_eq!(granted(FI_ATOMIC | FI_WRITE, RDM), Some(FI_ATOMIC | FI_WRITE | ALWAYS));
    }

    #[test]
    fn a_request_for_a_missing_capability_is_refused() {
        let (multi_recv, rma_event, remote_comm) = (1 << 16, 1 << 56, 1 << 52);
        for missing in [multi_recv, rma_event, remote_comm] {
            assert_eq!(granted(FI_TAGGED | missing, RDM), None);
        }
        for missing in [FI_TAGGED, FI_RMA, FI_ATOMIC] {
            assert_eq!(granted(missing, KINDS[1].1), None, "datagrams have messages alone");
        }
    }

    /// The modes by which Debian's programs ask, and `ofi_rxd` and `ofi_rxm`: the last alone are refused.
    #[test]
    fn datagrams_and_connections_are_for_programs_and_not_for_layers_on_them() {
        const FI_CONTEXT2: u64 = 1 << 52;
        let program = FI_CONTEXT | FI_CONTEXT2 | FI_MSG_PREFIX;
        let layers = [FI_LOCAL_MR | FI_CONTEXT | FI_MSG_PREFIX, FI_RX_CQ_DATA | FI_CONTEXT];
        for ((kind, caps), layer) in KINDS[1..].iter().zip(layers) {
            let refused = [0, u64::MAX, program, layer].map(|mode| {
                let mut asked = Asked::new();
                asked.info.mode = mode;
                // SAFETY: no attributes are pointed to.
                refused(&unsafe { Hints::of(Some(&asked.info)) }, *kind, *caps)
            });
            assert_eq!(refused, [None, None, None, Some("mode")]);
        }
    }

    type Ask = fn(&mut Asked);

    /// Hints with all attributes, all zero.
    struct Asked {
        info: fi_info,
        tx: fi_tx_attr,
        rx: fi_rx_attr,
        ep: fi_ep_attr,
        domain: fi_domain_attr,
    }

    impl Asked {
        fn new() -> Self {
            // SAFETY: all zeroes are valid hints.
            unsafe { std::mem::zeroed() }
        }

        fn refused(&mut self) -> Option<&'static str> {
            self.info.tx_attr = &raw mut self.tx;
            self.info.rx_attr = &raw mut self.rx;
            self.info.ep_attr = &raw mut self.ep;
            self.info.domain_attr = &raw mut self.domain;
            // SAFETY: the pointers are those of valid attributes.
            refused(&unsafe { Hints::of(Some(&self.info)) }, FI_EP_RDM, RDM)
        }
    }

    #[test]
    fn each_attribute_that_is_not_offered_is_refused() {
        assert_eq!(Asked::new().refused(), None);
        let cases: [(&str, Ask); 14] = [
            ("caps", |it| it.info.caps = super::super::abi::FI_MULTICAST),
            ("addr_format", |it| it.info.addr_format = 1),
            ("addresses", |it| it.info.src_addr = std::ptr::dangling_mut()),
            ("tx_attr", |it| it.tx.inject_size = LONGEST_INJECTED + 1),
            ("tx_attr", |it| it.tx.msg_order = 1),
            ("tx_attr", |it| it.tx.op_flags = 1 << 30),
            ("tx_attr", |it| it.tx.rma_iov_limit = MOST_RANGES + 1),
            ("domain_attr", |it| it.domain.mr_iov_limit = 2),
            ("rx_attr", |it| it.rx.comp_order = 1),
            ("ep_attr", |it| it.ep.r#type = FI_EP_MSG),
            ("ep_attr", |it| it.ep.tx_ctx_cnt = usize::MAX),
            ("domain_attr", |it| it.domain.data_progress = 1),
            ("domain_attr", |it| it.domain.cq_data_size = 9),
            ("domain_attr", |it| it.domain.auth_key_size = 1),
        ];
        for (part, ask) in cases {
            let mut asked = Asked::new();
            ask(&mut asked);
            assert_eq!(asked.refused(), Some(part));
        }
    }
}
