//! The C library's second names for functions of the other files, which old programs and a few
//! libraries call.

use libc::{c_int, c_uint, c_void, nfds_t, pollfd, size_t, sockaddr, ssize_t, timeval};

use super::{descriptors, events, io};

/// Defines a second name.
macro_rules! also {
    (fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty = $function:path) => {
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
            // SAFETY: the same function, with the arguments of its caller.
            unsafe { $function($($argument),*) }
        }
    };
}

also!(fn __read(fd: c_int, to: *mut c_void, length: size_t) -> ssize_t = io::read);
also!(fn __write(fd: c_int, from: *const c_void, length: size_t) -> ssize_t = io::write);
also! {
    fn __send(fd: c_int, from: *const c_void, length: size_t, flags: c_int) -> ssize_t
    = io::named_send::send
}
also!(fn __poll(first: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int = events::poll);
also! {
    fn __select(
        count: c_int, read: *mut libc::fd_set, write: *mut libc::fd_set,
        except: *mut libc::fd_set, timeout: *mut timeval
    ) -> c_int = events::select
}
also! {
    fn __connect(fd: c_int, address: *const sockaddr, length: c_uint) -> c_int
    = descriptors::connect
}
also!(fn __close(fd: c_int) -> c_int = descriptors::close);
also!(fn __dup2(fd: c_int, copy: c_int) -> c_int = descriptors::dup2);
also!(fn __fcntl(fd: c_int, command: c_int, argument: usize) -> c_int = descriptors::fcntl);
