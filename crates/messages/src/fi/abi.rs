//! The definitions of libfabric 1.17 that a provider needs, as its headers lay them out; the test
//! `layout` holds them to the headers. Names are the headers'.

#![allow(missing_docs, reason = "the manual pages of libfabric document them: fi_provider(7)")]

use libc::{c_char, c_int, c_void, iovec, size_t, ssize_t};

pub const FI_API: u32 = 1 << 16 | 17;

pub const FI_MSG: u64 = 1 << 1;
pub const FI_RMA: u64 = 1 << 2;
pub const FI_TAGGED: u64 = 1 << 3;
pub const FI_ATOMIC: u64 = 1 << 4;
pub const FI_MULTICAST: u64 = 1 << 5;
pub const FI_COLLECTIVE: u64 = 1 << 6;
pub const FI_READ: u64 = 1 << 8;
pub const FI_WRITE: u64 = 1 << 9;
pub const FI_RECV: u64 = 1 << 10;
pub const FI_SEND: u64 = 1 << 11;
pub const FI_REMOTE_READ: u64 = 1 << 12;
pub const FI_REMOTE_WRITE: u64 = 1 << 13;
pub const FI_REMOTE_CQ_DATA: u64 = 1 << 17;
pub const FI_MORE: u64 = 1 << 18;
pub const FI_PEEK: u64 = 1 << 19;
pub const FI_COMPLETION: u64 = 1 << 24;
pub const FI_INJECT: u64 = 1 << 25;
pub const FI_INJECT_COMPLETE: u64 = 1 << 26;
pub const FI_TRANSMIT_COMPLETE: u64 = 1 << 27;
pub const FI_DELIVERY_COMPLETE: u64 = 1 << 28;
pub const FI_MATCH_COMPLETE: u64 = 1 << 31;
pub const FI_LOCAL_COMM: u64 = 1 << 51;
pub const FI_REMOTE_COMM: u64 = 1 << 52;
pub const FI_SOURCE: u64 = 1 << 57;
pub const FI_DISCARD: u64 = 1 << 58;
pub const FI_DIRECTED_RECV: u64 = 1 << 59;
pub const FI_CLAIM: u64 = 1 << 59;
pub const FI_SELECTIVE_COMPLETION: u64 = 1 << 59;

pub const FI_FETCH_ATOMIC: u64 = 1 << 58;
pub const FI_COMPARE_ATOMIC: u64 = 1 << 59;

pub const FI_LOCAL_MR: u64 = 1 << 55;
pub const FI_CONTEXT: u64 = 1 << 59;
pub const FI_RX_CQ_DATA: u64 = 1 << 56;
pub const FI_MSG_PREFIX: u64 = 1 << 58;

pub const FI_ORDER_SAS: u64 = 1 << 8;
pub const FI_ADDR_UNSPEC: u64 = u64::MAX;
pub const FI_ADDR_NOTAVAIL: u64 = u64::MAX;
pub const FI_FORMAT_UNSPEC: u32 = 0;
pub const FI_PROV_SPECIFIC: u32 = 1 << 31;

pub const FI_AV_UNSPEC: u32 = 0;
pub const FI_AV_MAP: u32 = 1;
pub const FI_AV_TABLE: u32 = 2;

pub const FI_MR_BASIC: c_int = 1;
pub const FI_MR_SCALABLE: c_int = 2;
pub const FI_MR_VIRT_ADDR: c_int = 1 << 4;
pub const FI_MR_PROV_KEY: c_int = 1 << 6;

pub const FI_PROGRESS_UNSPEC: u32 = 0;
pub const FI_PROGRESS_MANUAL: u32 = 2;
pub const FI_THREAD_SAFE: u32 = 1;
pub const FI_THREAD_DOMAIN: u32 = 3;
pub const FI_RM_ENABLED: u32 = 2;

pub const FI_EP_UNSPEC: u32 = 0;
pub const FI_EP_MSG: u32 = 1;
pub const FI_EP_DGRAM: u32 = 2;
pub const FI_EP_RDM: u32 = 3;

pub const FI_CLASS_FABRIC: usize = 1;
pub const FI_CLASS_DOMAIN: usize = 2;
pub const FI_CLASS_EP: usize = 3;
pub const FI_CLASS_PEP: usize = 9;
pub const FI_CLASS_AV: usize = 11;
pub const FI_CLASS_MR: usize = 12;
pub const FI_CLASS_EQ: usize = 13;
pub const FI_CLASS_CQ: usize = 14;
pub const FI_CLASS_CNTR: usize = 15;
pub const FI_CLASS_CONNREQ: usize = 18;

pub const FI_CONNREQ: u32 = 1;
pub const FI_CONNECTED: u32 = 2;
pub const FI_SHUTDOWN: u32 = 3;

pub const FI_OPT_ENDPOINT: c_int = 0;
pub const FI_OPT_CM_DATA_SIZE: c_int = 1;

pub const FI_GETWAIT: c_int = 5;
pub const FI_ENABLE: c_int = 6;
pub const FI_GETOPSFLAG: c_int = 2;
pub const FI_SETOPSFLAG: c_int = 3;
pub const FI_GETWAITOBJ: c_int = 16;

pub const FI_WAIT_NONE: u32 = 0;
pub const FI_WAIT_UNSPEC: u32 = 1;
pub const FI_WAIT_FD: u32 = 3;
pub const FI_WAIT_YIELD: u32 = 5;

pub const FI_CQ_FORMAT_UNSPEC: u32 = 0;
pub const FI_CQ_FORMAT_CONTEXT: u32 = 1;
pub const FI_CQ_FORMAT_MSG: u32 = 2;
pub const FI_CQ_FORMAT_DATA: u32 = 3;
pub const FI_CQ_FORMAT_TAGGED: u32 = 4;
pub const FI_CQ_COND_NONE: u32 = 0;

pub const FI_ENODATA: c_int = libc::ENODATA;
pub const FI_ENOSYS: c_int = libc::ENOSYS;
pub const FI_ETOOSMALL: c_int = 257;
pub const FI_EAVAIL: c_int = 259;
pub const FI_EBADFLAGS: c_int = 260;
pub const FI_ENOCQ: c_int = 263;
pub const FI_ENOAV: c_int = 267;
pub const FI_EOPBADSTATE: c_int = 258;
pub const FI_ETRUNC: c_int = 265;
pub const FI_ENOKEY: c_int = 266;

/// How a structure lies in memory.
pub struct Layout {
    /// What the headers call it.
    pub name: &'static str,
    /// Its size, in bytes.
    pub size: usize,
    /// Its fields, in order.
    pub fields: Vec<Field>,
}

/// A field of a structure.
#[derive(Clone)]
pub struct Field {
    /// What the headers call it.
    pub name: &'static str,
    /// Where it begins, in bytes.
    pub offset: usize,
}

/// A structure of the headers.
macro_rules! layout {
    ($($(#[$about:meta])* struct $name:ident { $($field:ident: $type:ty,)* })*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy)]
        #[repr(C)]
        pub struct $name { $(pub $field: $type,)* }

        impl $name {
            /// How it lies in memory.
            pub fn layout() -> Layout {
                let fields = [$(Field {
                    name: stringify!($field),
                    offset: std::mem::offset_of!($name, $field),
                },)*];
                Layout { name: stringify!($name), size: size_of::<$name>(), fields: fields.to_vec() }
            }
        }
    )*

    /// How each structure lies in memory.
    pub fn layouts() -> Vec<Layout> {
        vec![$($name::layout(),)*]
    }};
}

/// A call that a provider does not offer: it returns an error that says so.
pub type Call = unsafe extern "C" fn() -> ssize_t;

layout! {
    struct fi_ops {
        size: size_t,
        close: unsafe extern "C" fn(*mut fid) -> c_int,
        bind: unsafe extern "C" fn(*mut fid, *mut fid, u64) -> c_int,
        control: unsafe extern "C" fn(*mut fid, c_int, *mut c_void) -> c_int,
        ops_open: unsafe extern "C" fn(*mut fid, *const c_char, u64, *mut *mut c_void, *mut c_void) -> c_int,
    }
    struct fid {
        fclass: size_t,
        context: *mut c_void,
        ops: *const fi_ops,
    }
    struct fi_tx_attr {
        caps: u64,
        mode: u64,
        op_flags: u64,
        msg_order: u64,
        comp_order: u64,
        inject_size: size_t,
        size: size_t,
        iov_limit: size_t,
        rma_iov_limit: size_t,
        tclass: u32,
    }
    struct fi_rx_attr {
        caps: u64,
        mode: u64,
        op_flags: u64,
        msg_order: u64,
        comp_order: u64,
        total_buffered_recv: size_t,
        size: size_t,
        iov_limit: size_t,
    }
    struct fi_ep_attr {
        r#type: u32,
        protocol: u32,
        protocol_version: u32,
        max_msg_size: size_t,
        msg_prefix_size: size_t,
        max_order_raw_size: size_t,
        max_order_war_size: size_t,
        max_order_waw_size: size_t,
        mem_tag_format: u64,
        tx_ctx_cnt: size_t,
        rx_ctx_cnt: size_t,
        auth_key_size: size_t,
        auth_key: *mut u8,
    }
    struct fi_domain_attr {
        domain: *mut fid_domain,
        name: *mut c_char,
        threading: u32,
        control_progress: u32,
        data_progress: u32,
        resource_mgmt: u32,
        av_type: u32,
        mr_mode: c_int,
        mr_key_size: size_t,
        cq_data_size: size_t,
        cq_cnt: size_t,
        ep_cnt: size_t,
        tx_ctx_cnt: size_t,
        rx_ctx_cnt: size_t,
        max_ep_tx_ctx: size_t,
        max_ep_rx_ctx: size_t,
        max_ep_stx_ctx: size_t,
        max_ep_srx_ctx: size_t,
        cntr_cnt: size_t,
        mr_iov_limit: size_t,
        caps: u64,
        mode: u64,
        auth_key: *mut u8,
        auth_key_size: size_t,
        max_err_data: size_t,
        mr_cnt: size_t,
        tclass: u32,
    }
    struct fi_fabric_attr {
        fabric: *mut fid_fabric,
        name: *mut c_char,
        prov_name: *mut c_char,
        prov_version: u32,
        api_version: u32,
    }
    struct fi_info {
        next: *mut fi_info,
        caps: u64,
        mode: u64,
        addr_format: u32,
        src_addrlen: size_t,
        dest_addrlen: size_t,
        src_addr: *mut c_void,
        dest_addr: *mut c_void,
        handle: *mut fid,
        tx_attr: *mut fi_tx_attr,
        rx_attr: *mut fi_rx_attr,
        ep_attr: *mut fi_ep_attr,
        domain_attr: *mut fi_domain_attr,
        fabric_attr: *mut fi_fabric_attr,
        nic: *mut c_void,
    }
    struct fi_ops_fabric {
        size: size_t,
        domain: unsafe extern "C" fn(*mut fid_fabric, *mut fi_info, *mut *mut fid_domain, *mut c_void) -> c_int,
        passive_ep: unsafe extern "C" fn(*mut fid_fabric, *mut fi_info, *mut *mut fid_pep, *mut c_void) -> c_int,
        eq_open: unsafe extern "C" fn(*mut fid_fabric, *mut fi_eq_attr, *mut *mut fid_eq, *mut c_void) -> c_int,
        wait_open: Call,
        trywait: unsafe extern "C" fn(*mut fid_fabric, *mut *mut fid, c_int) -> c_int,
    }
    struct fid_fabric {
        fid: fid,
        ops: *const fi_ops_fabric,
        api_version: u32,
    }
    struct fi_av_attr {
        r#type: u32,
        rx_ctx_bits: c_int,
        count: size_t,
        ep_per_node: size_t,
        name: *const c_char,
        map_addr: *mut c_void,
        flags: u64,
    }
    struct fi_ops_av {
        size: size_t,
        insert: unsafe extern "C" fn(*mut fid_av, *const c_void, size_t, *mut u64, u64, *mut c_void) -> c_int,
        insertsvc: Call,
        insertsym: Call,
        remove: unsafe extern "C" fn(*mut fid_av, *mut u64, size_t, u64) -> c_int,
        lookup: unsafe extern "C" fn(*mut fid_av, u64, *mut c_void, *mut size_t) -> c_int,
        straddr: unsafe extern "C" fn(*mut fid_av, *const c_void, *mut c_char, *mut size_t) -> *const c_char,
    }
    struct fid_av {
        fid: fid,
        ops: *const fi_ops_av,
    }
    struct fid_mr {
        fid: fid,
        mem_desc: *mut c_void,
        key: u64,
    }
    struct fi_mr_attr {
        mr_iov: *const iovec,
        iov_count: size_t,
        access: u64,
        offset: u64,
        requested_key: u64,
        context: *mut c_void,
    }
    struct fi_ops_domain {
        size: size_t,
        av_open: unsafe extern "C" fn(*mut fid_domain, *mut fi_av_attr, *mut *mut fid_av, *mut c_void) -> c_int,
        cq_open: unsafe extern "C" fn(*mut fid_domain, *mut fi_cq_attr, *mut *mut fid_cq, *mut c_void) -> c_int,
        endpoint: unsafe extern "C" fn(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void) -> c_int,
        scalable_ep: Call,
        cntr_open: unsafe extern "C" fn(*mut fid_domain, *mut fi_cntr_attr, *mut *mut fid_cntr, *mut c_void) -> c_int,
        poll_open: Call,
        stx_ctx: Call,
        srx_ctx: Call,
        query_atomic: unsafe extern "C" fn(*mut fid_domain, u32, u32, *mut fi_atomic_attr, u64) -> c_int,
        query_collective: Call,
    }
    struct fi_ops_mr {
        size: size_t,
        reg: unsafe extern "C" fn(*mut fid, *const c_void, size_t, u64, u64, u64, u64, *mut *mut fid_mr, *mut c_void) -> c_int,
        regv: unsafe extern "C" fn(*mut fid, *const iovec, size_t, u64, u64, u64, u64, *mut *mut fid_mr, *mut c_void) -> c_int,
        regattr: unsafe extern "C" fn(*mut fid, *const fi_mr_attr, u64, *mut *mut fid_mr) -> c_int,
    }
    struct fid_domain {
        fid: fid,
        ops: *const fi_ops_domain,
        mr: *const fi_ops_mr,
    }
    struct fi_eq_attr {
        size: size_t,
        flags: u64,
        wait_obj: u32,
        signaling_vector: c_int,
        wait_set: *mut c_void,
    }
    struct fi_ops_eq {
        size: size_t,
        read: unsafe extern "C" fn(*mut fid_eq, *mut u32, *mut c_void, size_t, u64) -> ssize_t,
        readerr: unsafe extern "C" fn(*mut fid_eq, *mut fi_eq_err_entry, u64) -> ssize_t,
        write: unsafe extern "C" fn(*mut fid_eq, u32, *const c_void, size_t, u64) -> ssize_t,
        sread: unsafe extern "C" fn(*mut fid_eq, *mut u32, *mut c_void, size_t, c_int, u64) -> ssize_t,
        strerror: unsafe extern "C" fn(*mut fid_eq, c_int, *const c_void, *mut c_char, size_t) -> *const c_char,
    }
    struct fi_eq_err_entry {
        fid: *mut fid,
        context: *mut c_void,
        data: u64,
        err: c_int,
        prov_errno: c_int,
        err_data: *mut c_void,
        err_data_size: size_t,
    }
    struct fi_eq_cm_entry {
        fid: *mut fid,
        info: *mut fi_info,
    }
    struct fid_eq {
        fid: fid,
        ops: *const fi_ops_eq,
    }
    struct fi_cq_tagged_entry {
        op_context: *mut c_void,
        flags: u64,
        len: size_t,
        buf: *mut c_void,
        data: u64,
        tag: u64,
    }
    struct fi_cq_err_entry {
        op_context: *mut c_void,
        flags: u64,
        len: size_t,
        buf: *mut c_void,
        data: u64,
        tag: u64,
        olen: size_t,
        err: c_int,
        prov_errno: c_int,
        err_data: *mut c_void,
        err_data_size: size_t,
    }
    struct fi_cq_attr {
        size: size_t,
        flags: u64,
        format: u32,
        wait_obj: u32,
        signaling_vector: c_int,
        wait_cond: u32,
        wait_set: *mut c_void,
    }
    struct fi_ops_cq {
        size: size_t,
        read: unsafe extern "C" fn(*mut fid_cq, *mut c_void, size_t) -> ssize_t,
        readfrom: unsafe extern "C" fn(*mut fid_cq, *mut c_void, size_t, *mut u64) -> ssize_t,
        readerr: unsafe extern "C" fn(*mut fid_cq, *mut fi_cq_err_entry, u64) -> ssize_t,
        sread: unsafe extern "C" fn(*mut fid_cq, *mut c_void, size_t, *const c_void, c_int) -> ssize_t,
        sreadfrom: unsafe extern "C" fn(*mut fid_cq, *mut c_void, size_t, *mut u64, *const c_void, c_int) -> ssize_t,
        signal: unsafe extern "C" fn(*mut fid_cq) -> c_int,
        strerror: unsafe extern "C" fn(*mut fid_cq, c_int, *const c_void, *mut c_char, size_t) -> *const c_char,
    }
    struct fid_cq {
        fid: fid,
        ops: *const fi_ops_cq,
    }
    struct fi_cntr_attr {
        events: u32,
        wait_obj: u32,
        wait_set: *mut c_void,
        flags: u64,
    }
    struct fi_ops_cntr {
        size: size_t,
        read: unsafe extern "C" fn(*mut fid_cntr) -> u64,
        readerr: unsafe extern "C" fn(*mut fid_cntr) -> u64,
        add: unsafe extern "C" fn(*mut fid_cntr, u64) -> c_int,
        set: unsafe extern "C" fn(*mut fid_cntr, u64) -> c_int,
        wait: unsafe extern "C" fn(*mut fid_cntr, u64, c_int) -> c_int,
        adderr: unsafe extern "C" fn(*mut fid_cntr, u64) -> c_int,
        seterr: unsafe extern "C" fn(*mut fid_cntr, u64) -> c_int,
    }
    struct fid_cntr {
        fid: fid,
        ops: *const fi_ops_cntr,
    }
    struct fi_msg {
        msg_iov: *const iovec,
        desc: *mut *mut c_void,
        iov_count: size_t,
        addr: u64,
        context: *mut c_void,
        data: u64,
    }
    struct fi_msg_tagged {
        msg_iov: *const iovec,
        desc: *mut *mut c_void,
        iov_count: size_t,
        addr: u64,
        tag: u64,
        ignore: u64,
        context: *mut c_void,
        data: u64,
    }
    struct fi_ops_ep {
        size: size_t,
        cancel: unsafe extern "C" fn(*mut fid, *mut c_void) -> ssize_t,
        getopt: unsafe extern "C" fn(*mut fid, c_int, c_int, *mut c_void, *mut size_t) -> c_int,
        setopt: unsafe extern "C" fn(*mut fid, c_int, c_int, *const c_void, size_t) -> c_int,
        tx_ctx: Call,
        rx_ctx: Call,
        rx_size_left: unsafe extern "C" fn(*mut fid_ep) -> ssize_t,
        tx_size_left: unsafe extern "C" fn(*mut fid_ep) -> ssize_t,
    }
    struct fi_ops_msg {
        size: size_t,
        recv: unsafe extern "C" fn(*mut fid_ep, *mut c_void, size_t, *mut c_void, u64, *mut c_void) -> ssize_t,
        recvv: unsafe extern "C" fn(*mut fid_ep, *const iovec, *mut *mut c_void, size_t, u64, *mut c_void) -> ssize_t,
        recvmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg, u64) -> ssize_t,
        send: unsafe extern "C" fn(*mut fid_ep, *const c_void, size_t, *mut c_void, u64, *mut c_void) -> ssize_t,
        sendv: unsafe extern "C" fn(*mut fid_ep, *const iovec, *mut *mut c_void, size_t, u64, *mut c_void) -> ssize_t,
        sendmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg, u64) -> ssize_t,
        inject: unsafe extern "C" fn(*mut fid_ep, *const c_void, size_t, u64) -> ssize_t,
        senddata: unsafe extern "C" fn(*mut fid_ep, *const c_void, size_t, *mut c_void, u64, u64, *mut c_void) -> ssize_t,
        injectdata: unsafe extern "C" fn(*mut fid_ep, *const c_void, size_t, u64, u64) -> ssize_t,
    }
    struct fi_ops_tagged {
        size: size_t,
        recv: unsafe extern "C" fn(*mut fid_ep, *mut c_void, size_t, *mut c_void, u64, u64, u64, *mut c_void) -> ssize_t,
        recvv: unsafe extern "C" fn(*mut fid_ep, *const iovec, *mut *mut c_void, size_t, u64, u64, u64, *mut c_void) -> ssize_t,
        recvmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_tagged, u64) -> ssize_t,
        send: unsafe extern "C" fn(*mut fid_ep, *const c_void, size_t, *mut c_void, u64, u64, *mut c_void) -> ssize_t,
        sendv: unsafe extern "C" fn(*mut fid_ep, *const iovec, *mut *mut c_void, size_t, u64, u64, *mut c_void) -> ssize_t,
        sendmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_tagged, u64) -> ssize_t,
        inject: unsafe extern "C" fn(*mut fid_ep, *const c_void, size_t, u64, u64) -> ssize_t,
        senddata: unsafe extern "C" fn(*mut fid_ep, *const c_void, size_t, *mut c_void, u64, u64, u64, *mut c_void) -> ssize_t,
        injectdata: unsafe extern "C" fn(*mut fid_ep, *const c_void, size_t, u64, u64, u64) -> ssize_t,
    }
    struct fi_rma_iov {
        addr: u64,
        len: size_t,
        key: u64,
    }
    struct fi_rma_ioc {
        addr: u64,
        count: size_t,
        key: u64,
    }
    struct fi_ioc {
        addr: *mut c_void,
        count: size_t,
    }
    struct fi_msg_rma {
        msg_iov: *const iovec,
        desc: *mut *mut c_void,
        iov_count: size_t,
        addr: u64,
        rma_iov: *const fi_rma_iov,
        rma_iov_count: size_t,
        context: *mut c_void,
        data: u64,
    }
    struct fi_ops_rma {
        size: size_t,
        read: unsafe extern "C" fn(*mut fid_ep, *mut c_void, size_t, *mut c_void, u64, u64, u64, *mut c_void) -> ssize_t,
        readv: unsafe extern "C" fn(*mut fid_ep, *const iovec, *mut *mut c_void, size_t, u64, u64, u64, *mut c_void) -> ssize_t,
        readmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_rma, u64) -> ssize_t,
        write: unsafe extern "C" fn(*mut fid_ep, *const c_void, size_t, *mut c_void, u64, u64, u64, *mut c_void) -> ssize_t,
        writev: unsafe extern "C" fn(*mut fid_ep, *const iovec, *mut *mut c_void, size_t, u64, u64, u64, *mut c_void) -> ssize_t,
        writemsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_rma, u64) -> ssize_t,
        inject: unsafe extern "C" fn(*mut fid_ep, *const c_void, size_t, u64, u64, u64) -> ssize_t,
        writedata: unsafe extern "C" fn(*mut fid_ep, *const c_void, size_t, *mut c_void, u64, u64, u64, u64, *mut c_void) -> ssize_t,
        injectdata: unsafe extern "C" fn(*mut fid_ep, *const c_void, size_t, u64, u64, u64, u64) -> ssize_t,
    }
    struct fi_atomic_attr {
        count: size_t,
        size: size_t,
    }
    struct fi_msg_atomic {
        msg_iov: *const fi_ioc,
        desc: *mut *mut c_void,
        iov_count: size_t,
        addr: u64,
        rma_iov: *const fi_rma_ioc,
        rma_iov_count: size_t,
        datatype: u32,
        op: u32,
        context: *mut c_void,
        data: u64,
    }
    struct fi_ops_atomic {
        size: size_t,
        write: unsafe extern "C" fn(*mut fid_ep, *const c_void, size_t, *mut c_void, u64, u64, u64, u32, u32, *mut c_void) -> ssize_t,
        writev: unsafe extern "C" fn(*mut fid_ep, *const fi_ioc, *mut *mut c_void, size_t, u64, u64, u64, u32, u32, *mut c_void) -> ssize_t,
        writemsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_atomic, u64) -> ssize_t,
        inject: unsafe extern "C" fn(*mut fid_ep, *const c_void, size_t, u64, u64, u64, u32, u32) -> ssize_t,
        readwrite: unsafe extern "C" fn(*mut fid_ep, *const c_void, size_t, *mut c_void, *mut c_void, *mut c_void, u64, u64, u64, u32, u32, *mut c_void) -> ssize_t,
        readwritev: unsafe extern "C" fn(*mut fid_ep, *const fi_ioc, *mut *mut c_void, size_t, *mut fi_ioc, *mut *mut c_void, size_t, u64, u64, u64, u32, u32, *mut c_void) -> ssize_t,
        readwritemsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_atomic, *mut fi_ioc, *mut *mut c_void, size_t, u64) -> ssize_t,
        compwrite: unsafe extern "C" fn(*mut fid_ep, *const c_void, size_t, *mut c_void, *const c_void, *mut c_void, *mut c_void, *mut c_void, u64, u64, u64, u32, u32, *mut c_void) -> ssize_t,
        compwritev: unsafe extern "C" fn(*mut fid_ep, *const fi_ioc, *mut *mut c_void, size_t, *const fi_ioc, *mut *mut c_void, size_t, *mut fi_ioc, *mut *mut c_void, size_t, u64, u64, u64, u32, u32, *mut c_void) -> ssize_t,
        compwritemsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_atomic, *const fi_ioc, *mut *mut c_void, size_t, *mut fi_ioc, *mut *mut c_void, size_t, u64) -> ssize_t,
        writevalid: unsafe extern "C" fn(*mut fid_ep, u32, u32, *mut size_t) -> c_int,
        readwritevalid: unsafe extern "C" fn(*mut fid_ep, u32, u32, *mut size_t) -> c_int,
        compwritevalid: unsafe extern "C" fn(*mut fid_ep, u32, u32, *mut size_t) -> c_int,
    }
    struct fi_ops_cm {
        size: size_t,
        setname: unsafe extern "C" fn(*mut fid, *mut c_void, size_t) -> c_int,
        getname: unsafe extern "C" fn(*mut fid, *mut c_void, *mut size_t) -> c_int,
        getpeer: unsafe extern "C" fn(*mut fid_ep, *mut c_void, *mut size_t) -> c_int,
        connect: unsafe extern "C" fn(*mut fid_ep, *const c_void, *const c_void, size_t) -> c_int,
        listen: unsafe extern "C" fn(*mut fid_pep) -> c_int,
        accept: unsafe extern "C" fn(*mut fid_ep, *const c_void, size_t) -> c_int,
        reject: unsafe extern "C" fn(*mut fid_pep, *mut fid, *const c_void, size_t) -> c_int,
        shutdown: unsafe extern "C" fn(*mut fid_ep, u64) -> c_int,
        join: Call,
    }
    struct fid_ep {
        fid: fid,
        ops: *const fi_ops_ep,
        cm: *const fi_ops_cm,
        msg: *const fi_ops_msg,
        rma: *const fi_ops_rma,
        tagged: *const fi_ops_tagged,
        atomic: *const fi_ops_atomic,
        collective: *const c_void,
    }
    struct fid_pep {
        fid: fid,
        ops: *const fi_ops_ep,
        cm: *const fi_ops_cm,
    }
    struct fi_context {
        internal: [*mut c_void; 4],
    }
    struct fi_provider {
        version: u32,
        fi_version: u32,
        context: fi_context,
        name: *const c_char,
        getinfo: unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const fi_info, *mut *mut fi_info) -> c_int,
        fabric: unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int,
        cleanup: unsafe extern "C" fn(),
    }
}
