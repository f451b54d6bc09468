//! The functions behind the interposed ones: the next definitions after this library's.

use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::c_void;

/// The address of a C function, looked up when it is first needed.
pub struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    pub const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The address. A C library that lacks the function cannot have had a caller for it, so the
    /// null address is never called.
    pub fn address(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the name is a C string; RTLD_NEXT is meant for exactly this.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

/// Defines an interposed function. `next(...)` inside the body is the function behind it.
macro_rules! interpose {
    ($(#[$note:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty
     = |$next:ident| $body:block) => {
        $(#[$note])*
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            static NEXT: $crate::real::Next = $crate::real::Next::new(
                match std::ffi::CStr::from_bytes_with_nul(
                    concat!(stringify!($name), "\0").as_bytes(),
                ) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
            );
            let $next = move |$($argument: $type),*| -> $result {
                type Function = unsafe extern "C" fn($($type),*) -> $result;
                // SAFETY: the address is that of the C function with this name, whose type this is.
                unsafe {
                    std::mem::transmute::<*mut libc::c_void, Function>(NEXT.address())(
                        $($argument),*
                    )
                }
            };
            $body
        }
    };
}
pub(crate) use interpose;
