//! The parts of the adapters of a channel.

use weft_fabric::adapter::{AdapterSettings, Initiator};
use weft_fabric::link::Errors;
use weft_fabric::workload::{Feedback, Source};
use weft_kernel::Streams;
use weft_protocol::retransmit::ControlSettings;
use weft_units::Bytes;

use super::{Host, PipelineParts, QuickInterface, SlotParts};
use crate::drive::faults::Faults;
use crate::drive::interface::{Bodies, InterfaceSettings};
use crate::drive::receiver::Receiver;

/// The adapters of a channel, all alike.
#[derive(Debug)]
pub struct AdapterParts {
    /// The channel's name, from which the names of its random streams are formed.
    pub name: String,
    /// The random streams of the run.
    pub streams: Streams,
    /// The size of a request packet on the wire.
    pub packet: Bytes,
    /// Queues, buffers and priorities.
    pub settings: AdapterSettings,
    /// How an initiator learns what became of a packet.
    pub control: ControlSettings,
    /// The interface of each host, and how many send buffers its adapter has; without one, packets
    /// enter send buffers as soon as there is space.
    pub interface: Option<(InterfaceSettings, u16)>,
    /// The contents of messages, if they say more than their target.
    pub bodies: Option<Box<Bodies>>,
    /// The faults of the channel.
    pub faults: Faults,
    /// Whether a request continues after a packet that is inserted into it, on links and in the
    /// switch.
    pub interleaves: bool,
    /// The slots in which hosts send, in a star; without any they send when their links are free.
    pub slots: Option<SlotParts>,
    /// The schedule under which hosts send in a star, if it itself tells them what became of their
    /// packets; there is then no `control`, and there are no `slots`.
    pub pipeline: Option<PipelineParts>,
}

impl AdapterParts {
    /// The size of an acknowledgment; that of a request if there are none.
    pub fn acknowledgment(&self) -> Bytes {
        match &self.control {
            ControlSettings::RequestAcknowledge(control) => control.acknowledgment,
            ControlSettings::Unacknowledged | ControlSettings::OutOfBand(_) => self.packet,
        }
    }

    /// The errors of what a host sends, or of the switch as the entry after the last host; nothing
    /// on links without errors.
    pub(super) fn errors(&self, host: usize) -> Option<Errors> {
        let errors = &self.faults.errors;
        let build = || errors.build(&self.streams, &self.name, host as u16);
        (!errors.is_free_of_errors()).then(build)
    }

    /// The adapter of a host among `hosts`.
    pub(super) fn host(&self, host: usize, hosts: usize, source: Option<&Source>) -> Host {
        let random = self.streams.stream(&format!("{}.back_off", self.name), host);
        let mut initiator = Initiator::new(&self.settings, &self.control, hosts, random);
        if self.slots.is_some() {
            initiator.window = initiator.window.by_target();
        }
        let feedback = source.map_or(Feedback::None, Source::feedback);
        // Under a schedule the arbiter knows which initiators targets disable, and the outlets have the
        // interfaces.
        let by_itself = self.pipeline.is_none();
        let disabled = self.faults.disabled.iter().filter(|own| usize::from(own.host) == host);
        let disabled = disabled.filter(|_| by_itself);
        let interface = |(settings, buffers): &(InterfaceSettings, u16)| {
            Box::new(QuickInterface::new(settings.build(host as u16, hosts as u16, *buffers)))
        };
        let mut own = Host::new(initiator, feedback, hosts);
        own.receiver = Receiver::new(self.faults.receiver.as_ref());
        own.errors = self.errors(host);
        own.interface = self.interface.as_ref().filter(|_| by_itself).map(interface);
        own.disabled = disabled.cloned().collect();
        own
    }
}
