//! Who waits for whom when nothing moves any more: outputs that wait for buffers, and the circle in
//! which they wait for each other.

use super::InputQueuedNetwork;
use super::host::Host;
use super::stage::Plug;

/// Switches of a circle that are named one by one.
const MOST_NAMED: usize = 16;

impl InputQueuedNetwork {
    /// Which outputs and hosts wait for buffers that nobody empties, one sentence a line. If outputs
    /// wait for each other in a circle, the first line names its switches.
    pub(super) fn who_waits(&self) -> Vec<String> {
        let mut coming = vec![false; self.flow.credits.len()];
        self.calendar.credits.iter().for_each(|place| coming[place as usize] = true);
        let mut lines = Vec::new();
        let mut is_blocked = vec![false; self.waiting.len()];
        for (port, &waiting) in (0..).zip(&self.waiting) {
            let Plug::Port(peer) = self.plugs[port as usize] else { continue };
            if waiting == 0 {
                continue;
            }
            let before = lines.len();
            let (name, peer) = (self.wiring.port_name(port), self.wiring.port_name(peer));
            let stage = &self.stages[self.owner[port as usize] as usize];
            if stage.stopped >> (port - stage.first) & 1 != 0 {
                lines.push(format!("{waiting} packets wait at {name} until {peer} lets it go on"));
            }
            for channel in self.empty_channels(port, &coming) {
                let buffer = self.buffer_name(channel, &peer);
                lines.push(format!("{waiting} packets wait at {name} for space in {buffer}"));
            }
            is_blocked[port as usize] = lines.len() > before;
        }
        lines.extend((0..).zip(&self.hosts).filter_map(|(host, own)| self.host_waits(host, own)));
        if let Some(circle) = self.circle(&is_blocked) {
            lines.insert(0, self.describe_circle(&circle));
        }
        lines
    }

    /// The virtual channels behind an output that packets wait for and that have no credit, nor one
    /// on its way.
    fn empty_channels(&self, port: u32, coming: &[bool]) -> impl Iterator<Item = u32> {
        let channels = u32::from(self.flow.channels);
        (0..channels).filter(move |channel| {
            let place = (port * channels + channel) as usize;
            self.is_wanted(port, *channel) && self.flow.credits[place] == 0 && !coming[place]
        })
    }

    /// Outputs of which each waits for a buffer whose packets wait for the next one, the last for
    /// the first; none if they wait for something else.
    fn circle(&self, is_blocked: &[bool]) -> Option<Vec<u32>> {
        let mut is_done = vec![false; is_blocked.len()];
        for start in 0..is_blocked.len() as u32 {
            // The outputs from the start to the one looked at, each with what is left to be tried.
            let mut path: Vec<(u32, Vec<u32>)> = Vec::new();
            let mut next = Some(start);
            loop {
                if let Some(port) = next.take().filter(|port| is_blocked[*port as usize]) {
                    if let Some(first) = path.iter().position(|(own, _)| *own == port) {
                        return Some(path[first..].iter().map(|(own, _)| *own).collect());
                    }
                    if !std::mem::replace(&mut is_done[port as usize], true) {
                        path.push((port, self.wanted_behind(port)));
                    }
                }
                let Some((_, rest)) = path.last_mut() else { break };
                next = rest.pop();
                if next.is_none() {
                    path.pop();
                }
            }
        }
        None
    }

    /// The outputs that packets in the buffer behind an output wait for.
    fn wanted_behind(&self, port: u32) -> Vec<u32> {
        let Plug::Port(peer) = self.plugs[port as usize] else { return Vec::new() };
        let stage = &self.stages[self.owner[peer as usize] as usize];
        let channels = usize::from(self.flow.channels);
        let own = peer as usize * channels;
        let wanted = self.wanted[own..own + channels].iter().fold(0, |all, wanted| all | wanted);
        (0..stage.ports)
            .filter(|output| wanted >> output & 1 != 0)
            .map(|output| stage.first + output)
            .collect()
    }

    fn describe_circle(&self, circle: &[u32]) -> String {
        let mut names: Vec<String> = circle
            .iter()
            .take(MOST_NAMED)
            .map(|port| self.wiring.switch_name(self.owner[*port as usize]))
            .collect();
        let more = circle.len() - names.len();
        if more > 0 {
            names.push(format!("{more} more"));
        }
        names.extend(names.first().cloned());
        format!(
            "the buffers of a circle of switches are full and each waits for the next: {}",
            names.join(", then ")
        )
    }

    /// Whether packets wait for a virtual channel behind an output.
    fn is_wanted(&self, port: u32, channel: u32) -> bool {
        let stage = &self.stages[self.owner[port as usize] as usize];
        let channels = u32::from(self.flow.channels);
        let inputs = stage.first..stage.first + stage.ports;
        let wanted = |input: u32| self.wanted[(input * channels + channel) as usize];
        inputs.into_iter().any(|input| wanted(input) >> (port - stage.first) & 1 != 0)
    }

    fn buffer_name(&self, channel: u32, port: &str) -> String {
        match self.flow.channels {
            1 => format!("the buffer of {port}"),
            _ => format!("the buffer of virtual channel {channel} of {port}"),
        }
    }

    fn host_waits(&self, number: u16, host: &Host) -> Option<String> {
        let packet = &self.ends.packets[host.oldest?];
        let (name, port) = (self.wiring.host_name(number), self.wiring.port_name(host.port));
        let waiting = host.waiting;
        if host.is_stopped {
            return Some(format!("{waiting} packets wait at {name} until {port} lets it go on"));
        }
        let channel = packet.note.channel;
        let sender = host.senders.get(usize::from(channel))?;
        let buffer = self.buffer_name(channel.into(), &port);
        let line = format!("{waiting} packets wait at {name} for space in {buffer}");
        sender.is_without_credit().then_some(line)
    }
}
