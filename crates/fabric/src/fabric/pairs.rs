//! Two hosts, and a port of a switch, by name.

/// A host that sends, and the host that it sends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPair {
    /// The initiator.
    pub from: u32,
    /// The target.
    pub to: u32,
}

/// A port by its switch and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchPort {
    /// The switch.
    pub switch: u32,
    /// The port, counted at the switch.
    pub port: u32,
}
