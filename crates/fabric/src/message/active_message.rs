//! Active messages of one node in simulated time: a message calls a handler at its target, and the
//! handler occupies the host (Clint 3.1).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_protocol::endpoint::{Endpoints, Refusal, VirtualNetworks};
use weft_protocol::packet::Message;
use weft_units::{Span, Time};

/// Settings of active messages. The costs default to zero: the paper gives none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ActiveMessageSettings {
    /// From the moment when the host knows of a message to the first instruction of its handler.
    pub dispatch: Span,
    /// How long a handler runs.
    pub handler: Span,
}

/// How many messages a node delivered and refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActiveMessageCounters {
    /// Handlers called.
    pub handled: u64,
    /// Messages refused because initiator and target are not of one virtual network.
    pub protected: u64,
    /// Messages refused because there is no such endpoint or handler.
    pub unclaimed: u64,
}

/// The endpoints of one node with what calling a handler takes. Handlers run one at a time.
#[derive(Clone, Debug)]
pub struct ActiveMessages<H> {
    settings: ActiveMessageSettings,
    /// The endpoints and their handlers.
    pub endpoints: Endpoints<H>,
    free: Time,
    counters: ActiveMessageCounters,
}

impl ActiveMessageSettings {
    /// A node without endpoints.
    pub fn build<H>(&self, node: u16) -> ActiveMessages<H> {
        ActiveMessages {
            settings: self.clone(),
            endpoints: Endpoints::new(node),
            free: Time::ZERO,
            counters: ActiveMessageCounters::default(),
        }
    }
}

impl<H> ActiveMessages<H> {
    /// The host knows of a message at `now`. Returns the handler to call and when it is done.
    ///
    /// # Errors
    /// [`Refusal`]; a refused message calls no handler and takes no time.
    pub fn deliver(
        &mut self,
        now: Time,
        networks: &VirtualNetworks,
        message: &Message,
    ) -> Result<(Time, &mut H), Refusal> {
        match self.endpoints.handler(networks, message) {
            Ok(handler) => {
                let ActiveMessageSettings { dispatch, handler: run } = self.settings;
                self.free = self.free.max(now) + dispatch + run;
                self.counters.handled += 1;
                Ok((self.free, handler))
            }
            Err(refusal) => {
                match refusal {
                    Refusal::Outsider { .. } | Refusal::OtherNetwork { .. } => {
                        self.counters.protected += 1;
                    }
                    Refusal::NotOpen { .. } | Refusal::NoHandler { .. } => {
                        self.counters.unclaimed += 1;
                    }
                }
                Err(refusal)
            }
        }
    }

    /// How many messages were delivered and refused.
    pub fn counters(&self) -> ActiveMessageCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use weft_protocol::endpoint::NetworkNumber;
    use weft_protocol::packet::{EndpointName, HandlerIndex};

    use super::*;

    #[test]
    fn handlers_run_one_after_the_other_and_strangers_take_no_time() {
        let settings =
            ActiveMessageSettings { dispatch: Span::from_ns(100), handler: Span::from_ns(900) };
        let mut node: ActiveMessages<u32> = settings.build(1);
        let (initiator, stranger) =
            (EndpointName { node: 0, endpoint: 0 }, EndpointName { node: 2, endpoint: 0 });
        let target = node.endpoints.open(0);
        node.endpoints.set_handler(target, HandlerIndex(3), 0).unwrap();
        let mut networks = VirtualNetworks::new();
        for (name, network) in [(initiator, 1), (target, 1), (stranger, 2)] {
            networks.join(name, NetworkNumber(network));
        }
        let message = Message { initiator, target, handler: HandlerIndex(3), ..Message::default() };
        let mut deliver = |message: &Message| {
            let (done, calls) = node.deliver(Time::ZERO, &networks, message).ok()?;
            *calls += 1;
            Some((done, *calls))
        };
        assert_eq!(deliver(&message), Some((Time(1_000_000), 1)));
        assert_eq!(deliver(&Message { initiator: stranger, ..message }), None);
        assert_eq!(deliver(&Message { handler: HandlerIndex(4), ..message }), None);
        assert_eq!(deliver(&message), Some((Time(2_000_000), 2)));
        let counters = ActiveMessageCounters { handled: 2, protected: 1, unclaimed: 1 };
        assert_eq!(node.counters(), counters);
    }
}
