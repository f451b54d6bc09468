//! Links: how long a packet occupies one, and how long a signal travels on it.

mod serial;

pub use serial::LinkSettings;
