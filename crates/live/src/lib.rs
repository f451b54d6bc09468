//! The preload library of `weft live`: accelerates the TCP connections between programs of one host by
//! shared memory, without a change to either (SCILAN, Research Report 256, section 3).
//!
//! The kernel's connection stays open underneath. It keeps the descriptor's meaning, reports the
//! death of the other end, wakes threads that sleep in the kernel, and carries whatever the library
//! does not: when in doubt, the kernel. `docs/live.md` says what is accelerated.
//!
//! The modules form layers, which ARCHITECTURE.md lists: each uses only those beneath it. From
//! above: [`hooks`] are the C functions that a program calls; [`close`], [`poll`], [`epoll`] and
//! [`stream`] are what they do on an accelerated connection, [`waiting`] is how they sleep, and
//! [`handover`] what becomes of a descriptor that goes where the library cannot follow;
//! [`migration`] decides which way the bytes travel, and [`joining`] how two ends come to share a
//! [`segment`], whose state machines are the ring and the interrupt flag of `weft_protocol`;
//! [`registry`] is what this process remembers of `epoll` instances, and [`table`] of numbers and
//! connections; [`sharing`] is what processes have in common after a `fork`, and [`signals`] what
//! may interrupt all that. At the bottom lie [`memory`] and [`sys`].
//!
//! Every function here may run in a signal handler, between a `fork` and an `exec`, and before
//! `main`.

#![cfg(target_os = "linux")]
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![cfg_attr(
    test,
    allow(dead_code, reason = "unit tests must not stand in front of the C functions they use")
)]

mod close;
mod config;
mod descriptors;
mod ending;
mod epoll;
mod exchange;
mod fork;
mod handover;
mod hooks;
mod interpose;
mod joining;
mod memory;
mod migration;
mod options;
mod peer;
mod poll;
mod ready;
mod registry;
mod report;
#[cfg(test)]
mod sample;
mod segment;
mod sharing;
mod signals;
mod spin;
mod stream;
mod sys;
mod table;
mod tracking;
mod waiting;

/// What the table of connections asks of those above it.
const ABOVE: table::above::Above =
    table::above::Above { say_how: ending::say_how, depart_all: handover::departure::depart_known };

/// Runs when the program is loaded, before `main`.
extern "C" fn begin() {
    if !config::read() || !memory::means::is_address_space_ample() || !table::start(ABOVE) {
        return interpose::hand_all_on();
    }
    sys::find_clock();
    // SAFETY: the handlers are functions of this library, which is never unloaded.
    let watched = unsafe {
        libc::pthread_atfork(
            Some(fork::before_fork),
            Some(fork::after_fork_in_parent),
            Some(fork::after_fork_in_child),
        )
    };
    if watched != 0 {
        table::remember_no_more();
    }
}

/// Runs when the process exits normally.
extern "C" fn end() {
    let _called_back = signals::inside::CalledBack::begin();
    handover::departure::let_go(true);
}

#[cfg(not(test))]
#[used]
// SAFETY: the C library calls what stands in this section when the process ends.
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

#[cfg(not(test))]
#[used]
// SAFETY: the loader calls what stands in this section, with arguments that `begin` ignores.
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;
