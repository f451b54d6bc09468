//! The addresses of a connection's two ends, as the kernel says them.

use std::mem::size_of;

use libc::c_int;

use super::bare;

/// An address with port, IPv4 written as its mapped IPv6 form, so that both ends write it alike.
pub type Endpoint = [u8; 18];

/// Which of a connection's two addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Own,
    Peer,
}

/// One of the addresses of a connection; `None` if it has none, or one of another family.
pub fn endpoint(fd: c_int, which: Which) -> Option<Endpoint> {
    // SAFETY: all zeroes is a valid address, and a valid place for the result.
    let mut address: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
    let place = (&raw mut address).cast::<libc::sockaddr>();
    let number = match which {
        Which::Own => libc::SYS_getsockname,
        Which::Peer => libc::SYS_getpeername,
    };
    // SAFETY: `place` has `length` bytes.
    if unsafe { bare!(number, fd, place, &raw mut length) } < 0 {
        return None;
    }
    let mut endpoint = [0; 18];
    match c_int::from(address.sin6_family) {
        libc::AF_INET6 => endpoint[..16].copy_from_slice(&address.sin6_addr.s6_addr),
        libc::AF_INET => {
            // SAFETY: an address of this family is at least as small as the place.
            let short = unsafe { *place.cast::<libc::sockaddr_in>() };
            endpoint[10..12].copy_from_slice(&[0xff, 0xff]);
            endpoint[12..16].copy_from_slice(&short.sin_addr.s_addr.to_ne_bytes());
        }
        _ => return None,
    }
    endpoint[16..].copy_from_slice(&address.sin6_port.to_ne_bytes());
    Some(endpoint)
}

/// The port of an address.
pub const fn port_of(end: &Endpoint) -> u16 {
    u16::from_be_bytes([end[16], end[17]])
}

/// The two addresses of a connection, as they are written.
pub fn addresses(fd: c_int) -> Option<[std::net::SocketAddr; 2]> {
    let written = |end: Endpoint| {
        let mut bytes = [0u8; 16];
        bytes.copy_from_slice(&end[..16]);
        let ip = std::net::Ipv6Addr::from(bytes).to_canonical();
        std::net::SocketAddr::new(ip, port_of(&end))
    };
    Some([written(endpoint(fd, Which::Own)?), written(endpoint(fd, Which::Peer)?)])
}
