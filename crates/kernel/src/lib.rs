//! Simulated time: an event queue, named random streams and an arena.
//!
//! Nothing here knows the word packet. A simulation is a value: it owns its [`Queue`], its
//! [`Stream`]s and its [`Arena`]s, so any number of simulations live in one process.
//!
//! * [`Queue`]: events by value at integer picoseconds; events of equal times leave in the order in
//!   which they were scheduled, so that a run has exactly one order.
//! * [`Calendar`]: events of sixteen bytes whose order at equal times follows from a place that
//!   each names, whoever scheduled them when.
//! * [`SlottedEvents`]: a bit in place of an event, where many owners have theirs at the beginnings of slots.
//! * [`Timers`] and [`DelayLine`]: cheaper places for what each of a few owners waits for once, and
//!   for what comes a constant span after something else.
//! * [`Streams`]: one [`Stream`] of random numbers for each purpose and owner, derived by name from
//!   the seed. An owner that draws more, or is added, does not change the numbers of others.
//! * [`Arena`]: what lives longer than one event. An event carries its four-byte [`Id`].
//! * [`Halt`]: how a run is ended from outside; [`Stopped`] says why it did.
//! * [`TimeWindows`]: parts of a model that several threads take through windows of time together.
//! * [`prefetch`]: asks for what an event that comes soon will need.
//!
//! What is deliberately absent: processes, event callbacks and a clock. An engine is a loop
//! that takes the next event, matches on it and schedules what follows:
//!
//! ```
//! use weft_kernel::{Halt, Queue, Streams};
//! use weft_units::{Span, Time};
//!
//! #[derive(Clone, Copy)]
//! enum Event { Arrival, Departure }
//!
//! // One server with memoryless arrivals at half of its capacity.
//! let mut arrivals = Streams::new(1).stream("arrivals", 0);
//! let (mut queue, halt) = (Queue::new(), Halt::new());
//! let (service, end) = (Span::from_ns(100), Time(100_000_000));
//! let (mut waiting, mut served, mut steps) = (0, 0, 0);
//! queue.push(Time::ZERO, Event::Arrival);
//! while let Some((now, event)) = queue.pop_until(end) {
//!     match event {
//!         Event::Arrival => {
//!             waiting += 1;
//!             if waiting == 1 {
//!                 queue.push(now + service, Event::Departure);
//!             }
//!             let gap = arrivals.exponential() * 2.0 * service.0 as f64;
//!             queue.push(now + Span(gap as u64), Event::Arrival);
//!         }
//!         Event::Departure => {
//!             served += 1;
//!             waiting -= 1;
//!             if waiting > 0 {
//!                 queue.push(now + service, Event::Departure);
//!             }
//!         }
//!     }
//!     steps += 1;
//!     if halt.check(steps).is_some() {
//!         break;
//!     }
//! }
//! assert!((470..530).contains(&served), "{served} served in 100 us at load 0.5");
//! ```

mod arena;
mod calendar;
mod delay_line;
mod halt;
mod pages;
mod prefetch;
mod queue;
mod slotted;
mod stream;
mod timers;
mod wheel;
mod windows;
mod ziggurat;

pub use arena::{Arena, Id};
pub use calendar::{Calendar, Event};
pub use delay_line::DelayLine;
pub use halt::{Halt, Stopped};
pub use pages::append;
pub use prefetch::{prefetch, prefetch_all, prefetch_first, prefetch_whole};
pub use queue::Queue;
pub use slotted::{SlottedEvents, SlottedNeeds};
pub use stream::{Geometric, Purpose, Stream, Streams};
pub use timers::Timers;
pub use windows::{Observed, Step, TimeWindows, WindowBounds};
