//! What those above the table do at its word.

use std::sync::OnceLock;

use crate::report::stats::Reason;
use crate::table::Guard;

/// Their functions, given to [`crate::table::start`].
#[derive(Clone, Copy)]
pub struct Above {
    /// Tells the other end how this one closes, once no thread of this process is in a call on the
    /// connection.
    pub say_how: fn(&Guard),
    /// Makes all connections of this process depart.
    pub depart_all: fn(Reason),
}

static ABOVE: OnceLock<Above> = OnceLock::new();

pub(super) fn set(above: Above) {
    // The process begins once, and a unit test with the same functions.
    let _ = ABOVE.set(above);
}

/// Tells the other end how this one closes, by [`Above::say_how`].
pub fn say_how(guard: &Guard) {
    if let Some(above) = ABOVE.get() {
        (above.say_how)(guard);
    }
}

/// Makes all connections of this process depart, by [`Above::depart_all`].
pub fn depart_all(reason: Reason) {
    if let Some(above) = ABOVE.get() {
        (above.depart_all)(reason);
    }
}
