//! Which parts make an event-driven channel, and which of them do not go together.

use weft_fabric::adapter::{AdapterSettings, Insertion, Release};
use weft_fabric::link::LinkSettings;
use weft_fabric::switch::{
    AcknowledgmentRule, Contention, CrossbarSettings, OutputBufferedSettings,
};
use weft_protocol::retransmit::ControlSettings;
use weft_units::{Bytes, Span};

use super::faults::Faults;
use super::host::Host;
use super::interface::QuickInterface;
use crate::drive::interface::InterfaceSettings;

/// The parts of one channel: hosts with one adapter each around one switch.
#[derive(Clone, Debug)]
pub struct EventParts {
    /// The channel's name, of which the names of its random streams are made.
    pub name: String,
    /// Ports of the switch: one a host.
    pub ports: u16,
    /// Size of a request packet on the wire.
    pub packet: Bytes,
    /// What of it a program handed over.
    pub payload: Bytes,
    /// The links, all alike.
    pub link: LinkSettings,
    /// The switch.
    pub switch: EventSwitch,
    /// The adapters, all alike.
    pub adapter: AdapterSettings,
    /// How an initiator learns what became of a packet.
    pub control: ControlSettings,
    /// The interface of each host, and how many send buffers its adapter has; without one packets
    /// are in send buffers as soon as there is space.
    pub interface: Option<(InterfaceSettings, u16)>,
    /// What goes wrong.
    pub faults: Faults,
}

/// A switch that packets reach unannounced.
#[derive(Clone, Debug)]
pub enum EventSwitch {
    /// Without packet buffers.
    Crossbar(CrossbarSettings),
    /// With packet buffers at the outputs.
    OutputBuffered(OutputBufferedSettings),
}

/// Settings that an event-driven channel cannot honour.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: accepted is {accepted}")]
pub struct EventPartsError {
    /// The key, relative to the channel.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// What would be accepted.
    pub accepted: String,
}

impl EventParts {
    /// Refuses settings that no part would honour, or that two parts would honour differently.
    pub fn check(&self) -> Result<(), EventPartsError> {
        self.check_sizes()?;
        self.check_release()?;
        self.check_insertion()?;
        self.check_faults()?;
        self.check_back_pressure()
    }

    /// The time that a request packet occupies a link.
    pub fn packet_span(&self) -> Span {
        self.link.span(self.packet)
    }

    /// The time that an acknowledgment packet occupies a link; zero where there is none.
    pub fn acknowledgment_span(&self) -> Span {
        match &self.control {
            ControlSettings::RequestAcknowledge(control) => self.link.span(control.acknowledgment),
            ControlSettings::Unacknowledged | ControlSettings::OutOfBand(_) => Span::ZERO,
        }
    }

    /// From the start of a request to the end of its acknowledgment if nothing disturbs them
    /// (Clint 3.2). A timer that is shorter sends every packet twice.
    pub fn round_trip(&self) -> Option<Span> {
        let ControlSettings::RequestAcknowledge(control) = &self.control else { return None };
        let pass = self.link.propagation() * 2 + self.latency();
        Some(self.packet_span() + self.acknowledgment_span() + control.turn_around + pass * 2)
    }

    /// Whether the switch holds packets back on their links.
    pub(super) fn blocks(&self) -> bool {
        matches!(&self.switch, EventSwitch::Crossbar(switch)
            if switch.contention == Contention::BackPressure)
    }

    /// From a byte at an input of the switch to the same byte at an output.
    pub fn latency(&self) -> Span {
        match &self.switch {
            EventSwitch::Crossbar(switch) => switch.latency,
            EventSwitch::OutputBuffered(switch) => switch.latency,
        }
    }

    fn check_sizes(&self) -> Result<(), EventPartsError> {
        let reserved = self.link.reserved.get();
        if reserved >= 1.0 {
            return refuse("link.reserved", reserved, "a fraction less than 1");
        }
        if self.ports < 2 {
            return refuse("hosts", self.ports, "2 to 65535");
        }
        if self.packet_span() == Span::ZERO {
            return refuse("packet", self.packet, "a size that takes a picosecond or more");
        }
        if self.payload > self.packet {
            return refuse("payload", self.payload, format!("at most the packet, {}", self.packet));
        }
        match &self.control {
            ControlSettings::RequestAcknowledge(control)
                if self.acknowledgment_span() == Span::ZERO =>
            {
                let key = "control.request_acknowledge.acknowledgment";
                refuse(key, control.acknowledgment, "a size that takes a picosecond or more")
            }
            _ => Ok(()),
        }
    }

    fn check_release(&self) -> Result<(), EventPartsError> {
        let unacknowledged = self.control == ControlSettings::Unacknowledged;
        match self.adapter.release {
            Some(Release::Transmission) if !unacknowledged => refuse(
                "adapter.release",
                "transmission",
                "acknowledgment, since a packet that may be sent again keeps its send buffer",
            ),
            Some(Release::Acknowledgment) if unacknowledged => refuse(
                "adapter.release",
                "acknowledgment",
                "transmission, since with control = unacknowledged nothing tells of an arrival",
            ),
            _ => Ok(()),
        }
    }

    fn check_insertion(&self) -> Result<(), EventPartsError> {
        let acknowledged = matches!(self.control, ControlSettings::RequestAcknowledge(_));
        let adapter = self.adapter.acknowledgments == Insertion::Interleave;
        if let EventSwitch::Crossbar(switch) = &self.switch {
            let interleaves = switch.acknowledgments == AcknowledgmentRule::Interleave;
            if interleaves && !acknowledged {
                let key = "switch.crossbar.acknowledgments";
                return refuse(
                    key,
                    "interleave",
                    "collide, since only control.request_acknowledge sends acknowledgments",
                );
            }
        }
        if !adapter {
            return Ok(());
        }
        let key = "adapter.acknowledgments";
        if !acknowledged {
            let accepted = "wait, since only control.request_acknowledge sends acknowledgments";
            return refuse(key, "interleave", accepted);
        }
        match &self.switch {
            EventSwitch::Crossbar(switch) if switch.contention == Contention::Drop => Ok(()),
            _ => refuse(
                key,
                "interleave",
                "wait, since only a crossbar with contention = drop can follow an insertion",
            ),
        }
    }

    /// Whether requests go on behind what is inserted into them, on links and in the switch.
    pub(super) fn interleaves(&self) -> bool {
        let EventSwitch::Crossbar(switch) = &self.switch else { return false };
        let in_switch = switch.acknowledgments == AcknowledgmentRule::Interleave;
        in_switch && self.adapter.acknowledgments == Insertion::Interleave
    }

    pub(super) fn build_interfaces(&self, hosts: &mut [Host]) {
        let Some((settings, buffers)) = &self.interface else { return };
        for (index, host) in (0..).zip(hosts) {
            let interface = settings.build(index, self.ports, *buffers);
            host.interface = Some(Box::new(QuickInterface::new(interface)));
        }
    }

    /// What is lost or refused must be found out and sent again.
    fn check_faults(&self) -> Result<(), EventPartsError> {
        let acknowledged = matches!(self.control, ControlSettings::RequestAcknowledge(_));
        let interface = self.interface.as_ref().map(|_| "interface");
        match self.faults.first().or(interface) {
            Some(key) if !acknowledged => refuse(
                key,
                "given",
                "it only with control.request_acknowledge, which sends again what is lost",
            ),
            _ => Ok(()),
        }
    }

    /// A packet held back must still occupy its sender, or the next one would pass it on the wire.
    fn check_back_pressure(&self) -> Result<(), EventPartsError> {
        if !self.blocks() {
            return Ok(());
        }
        let acknowledged = matches!(self.control, ControlSettings::RequestAcknowledge(_));
        let shortest = if acknowledged {
            self.packet_span().min(self.acknowledgment_span())
        } else {
            self.packet_span()
        };
        let propagation = self.link.propagation();
        if propagation >= shortest {
            let accepted =
                format!("a delay below {shortest}, the shortest packet, with back_pressure");
            return refuse(
                "link.length",
                format!("{} ({propagation})", self.link.length),
                accepted,
            );
        }
        Ok(())
    }
}

fn refuse<T>(
    key: &'static str,
    value: impl ToString,
    accepted: impl Into<String>,
) -> Result<T, EventPartsError> {
    Err(EventPartsError { key, value: value.to_string(), accepted: accepted.into() })
}
