//! Links: line codes, attenuation, transmission errors.

mod budget;
mod coding;
mod errors;

pub use budget::{DecibelPerInch, LinkBudget, LinkBudgetSettings, trace_attenuation};
pub use coding::LineCode;
pub use errors::{DamagedPacket, DamagedSlot, ErrorSettings, Errors};
