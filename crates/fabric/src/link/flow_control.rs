//! The flow control of a channel, in the form in which the engine uses it.

use weft_protocol::flow::{FlowControlSettings, Marks, QuenchSettings, StopGoSettings};
use weft_protocol::misfit::Misfit;
use weft_units::{Bytes, PositiveCount, Span};

/// The flow control of all ports of a channel.
#[derive(Clone, Debug)]
pub struct FlowControl {
    /// Virtual channels of each cable.
    pub channels: u8,
    /// Whether a sender to a buffer needs a credit.
    pub has_credits: bool,
    /// When an input stops its cable, if it does.
    pub stop_go: Option<StopGo>,
    /// When a switch quenches a source, if it does.
    pub quench: Option<Quench>,
}

/// When an input stops its cable.
#[derive(Clone, Copy, Debug)]
pub struct StopGo {
    /// The cells that it holds then, and those at which the cable may go on.
    pub marks: Marks,
    /// The delay of a stop besides that of the cable.
    pub reaction: Span,
}

/// When a switch quenches a source.
#[derive(Clone, Copy, Debug)]
pub struct Quench {
    /// The cells of a connection at which it does, and those at which it does no longer.
    pub marks: Marks,
    /// Cells for one port from which on it is crowded.
    pub port: u32,
    /// Cells in one switch from which on its memory is crowded.
    pub memory: u32,
    /// The size of an indication on the wire.
    pub indication: Bytes,
}

/// The most virtual channels of a cable.
pub const MOST_CHANNELS: u32 = 16;

impl FlowControl {
    /// How many virtual channels a packet uses one after another if its routes need `needed`: that
    /// many if the channels divide evenly, otherwise one.
    pub fn virtual_channels(&self, needed: u8) -> u8 {
        if self.channels.is_multiple_of(needed) { needed } else { 1 }
    }

    /// The flow control that `settings` describe, for inputs of `buffer`
    /// cells. An error names the key below `flow_control`, its value and what is accepted.
    pub fn new(settings: &FlowControlSettings, buffer: u32) -> Result<FlowControl, Misfit> {
        let none = FlowControl { channels: 1, has_credits: false, stop_go: None, quench: None };
        match settings {
            FlowControlSettings::Credits => Ok(FlowControl { has_credits: true, ..none }),
            FlowControlSettings::VirtualChannelCredits(own) => {
                let channels = own.channels.get();
                if channels > MOST_CHANNELS.min(buffer) {
                    let accepted = format!("at most {}", MOST_CHANNELS.min(buffer));
                    let key = "virtual_channel_credits.channels";
                    return Err(Misfit::new(key, channels, accepted));
                }
                Ok(FlowControl { channels: channels as u8, has_credits: true, ..none })
            }
            FlowControlSettings::StopGo(own) => {
                let stop_go = Some(stop_go(own, "stop_go.go")?);
                Ok(FlowControl { stop_go, ..none })
            }
            FlowControlSettings::SourceQuench(own) => {
                let stop_go = Some(stop_go(&own.link, "source_quench.link.go")?);
                Ok(FlowControl { stop_go, quench: Some(quench(own)?), ..none })
            }
        }
    }
}

fn stop_go(settings: &StopGoSettings, key: &'static str) -> Result<StopGo, Misfit> {
    let marks = settings.marks().ok_or_else(|| below(key, settings.go, settings.stop))?;
    Ok(StopGo { marks, reaction: settings.reaction })
}

fn quench(settings: &QuenchSettings) -> Result<Quench, Misfit> {
    let key = "source_quench.unquench";
    let marks = settings.marks().ok_or_else(|| below(key, settings.unquench, settings.quench))?;
    let limit = |limit: Option<PositiveCount>| limit.map_or(u32::MAX, PositiveCount::get);
    let (port, memory) = (limit(settings.port), limit(settings.memory));
    Ok(Quench { marks, port, memory, indication: settings.indication })
}

fn below(key: &'static str, low: u32, high: PositiveCount) -> Misfit {
    Misfit::new(key, low, format!("less than {high}, where it becomes high"))
}
