//! Which ports wait for which where pauses hold packets back.

use weft_fabric::fabric::Wiring;

use crate::drive::engine::Engine;

impl Engine {
    /// What packets wait for at a port: that the far end lets their class go on, or has room for it.
    pub(in crate::drive::engine) fn paused_waits(
        &self,
        port: u32,
        name: &str,
        peer: &str,
    ) -> Vec<String> {
        let Some(own) = &self.at_port(port).classed else { return Vec::new() };
        let paused = own.ports.paused(port);
        let is_held = own.cables.as_ref().is_some_and(|own| own.holds(self.now, port));
        let mut lines = Vec::new();
        for class in (0..own.ports.classes()).filter(|class| paused >> class & 1 != 0) {
            let waiting = own.ports.waiting(port, class);
            if waiting > 0 && is_held {
                lines.push(format!(
                    "{waiting} packets of class {class} wait at {name} until its cable to {peer} is back"
                ));
            } else if waiting > 0 {
                lines.push(format!(
                    "{waiting} packets of class {class} wait at {name} until {peer} lets the class go on"
                ));
            }
        }
        for class in 0..own.ports.classes() {
            let oldest = own.ports.oldest(port, class).map(|id| own.headers[id as usize].size);
            if oldest.is_some_and(|size| own.ports.lacks_credit(port, class, size)) {
                let waiting = own.ports.waiting(port, class);
                lines.push(format!(
                    "{waiting} packets of class {class} wait at {name} for room in the buffer of {peer}"
                ));
            }
        }
        lines
    }

    /// The outputs of the switch behind a port that hold packets which came by its cable.
    pub(in crate::drive::engine) fn paused_behind(&self, port: u32) -> Vec<u32> {
        let is_of_switch = |input: &u32| *input < self.graph.switch_ports();
        let Some(input) = self.graph.peer(port).filter(is_of_switch) else { return Vec::new() };
        let far = self.at_port(input);
        let Some(own) = &far.classed else { return Vec::new() };
        let switch = self.graph.switch_of(input);
        let first = self.graph.first_port(switch);
        let is_of_switch =
            |port: &u32| *port < self.graph.switch_ports() && self.graph.switch_of(*port) == switch;
        let holds = |output: &u32| {
            let mut planned = own.ports.planned_inputs(self.now, *output);
            planned.any(|from| from == input)
                || (0..own.ports.classes()).any(|class| {
                    let behind = &far.packets.behind;
                    let mut left = own.ports.waiting(*output, class);
                    let mut next = own.ports.oldest(*output, class);
                    while let Some(id) = next.filter(|_| left > 0) {
                        if own.headers[id as usize].input == input {
                            return true;
                        }
                        left -= 1;
                        next = behind.get(id as usize).copied();
                    }
                    false
                })
        };
        (first..).take_while(is_of_switch).filter(holds).collect()
    }
}

/// The name of one end of a cable.
pub(super) fn end_name(wiring: &Wiring, place: u32) -> String {
    match place.checked_sub(wiring.ports()) {
        None => wiring.port_name(place),
        Some(end) => wiring.end_name(end),
    }
}
