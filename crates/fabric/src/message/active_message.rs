//! Active messages of one node in simulated time: a message calls a handler at its target, and the
//! handler occupies the host (Clint 3.1).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_protocol::endpoint::{Endpoints, Refusal, VirtualNetworks};
use weft_protocol::packet::{EndpointName, HandlerIndex, Message};
use weft_units::{Bytes, Span, Time};

use super::handler::{Called, Handler, HandlerSettings};

/// Settings of active messages. The costs default to zero: the paper gives none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ActiveMessageSettings {
    /// From when the host knows of a message to the first instruction of its handler.
    pub dispatch: Span,
    /// How long a handler runs.
    pub handler: Span,
    /// The handlers of each endpoint by name. Messages that name no handler call an additional one
    /// that does nothing. The paper says that there are handlers, but not which.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub table: BTreeMap<String, HandlerSettings>,
    /// The memory of each endpoint, which its handlers read and write: words of 4 B, initially
    /// zero.
    #[serde(skip_serializing_if = "is_none")]
    pub memory: Bytes,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_none(memory: &Bytes) -> bool {
    *memory == Bytes(0)
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
pub struct ActiveMessages {
    settings: ActiveMessageSettings,
    endpoints: Endpoints<Handler>,
    /// By number of the endpoint.
    states: BTreeMap<u16, EndpointState>,
    free: Time,
    counters: ActiveMessageCounters,
}

/// What the handlers of an endpoint did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointState {
    /// The words that they write and read.
    pub memory: Vec<u32>,
    /// How often each was called, by its index.
    pub calls: Vec<u64>,
    /// Calls that were to touch words outside of the memory, or to answer with more words than a
    /// message has room for.
    pub failed: u64,
}

impl ActiveMessageSettings {
    /// The handler that does nothing, of messages that name none.
    pub const COUNT: HandlerIndex = HandlerIndex(0);
    /// Size of a word of memory.
    pub const WORD: Bytes = Bytes(4);

    /// A node without endpoints. A reply that is not in the table calls the handler that does nothing.
    pub fn build(&self, node: u16) -> ActiveMessages {
        ActiveMessages {
            settings: self.clone(),
            endpoints: Endpoints::new(node),
            states: BTreeMap::new(),
            free: Time::ZERO,
            counters: ActiveMessageCounters::default(),
        }
    }

    /// The place of a handler in the table of each endpoint.
    pub fn index(&self, name: &str) -> Option<HandlerIndex> {
        let place = self.table.keys().position(|own| own == name)?;
        u16::try_from(place + 1).ok().map(HandlerIndex)
    }

    /// The names of the handlers by index; the handler that does nothing has an empty name.
    pub fn names(&self) -> Vec<String> {
        std::iter::once(String::new()).chain(self.table.keys().cloned()).collect()
    }

    /// The handlers by index.
    fn handlers(&self) -> Vec<Handler> {
        let named = self.table.values().map(|own| {
            let reply = own.reply().and_then(|(_, name)| self.index(name));
            own.build(reply.unwrap_or(ActiveMessageSettings::COUNT))
        });
        std::iter::once(Handler::Count).chain(named).collect()
    }
}

impl ActiveMessages {
    /// Opens an endpoint with the handlers of the table.
    pub fn open(&mut self, endpoint: u16) -> EndpointName {
        let name = self.endpoints.open(endpoint);
        let handlers = self.settings.handlers();
        let words = self.settings.memory.0 / ActiveMessageSettings::WORD.0;
        let (memory, calls) = (vec![0; words as usize], vec![0; handlers.len()]);
        self.states.insert(endpoint, EndpointState { memory, calls, failed: 0 });
        for (index, handler) in (0..).zip(handlers) {
            // The endpoint has just been opened.
            let known = self.endpoints.set_handler(name, HandlerIndex(index), handler);
            debug_assert!(known.is_ok());
        }
        name
    }

    /// A message from an endpoint of this node, checked and ready to be sent.
    ///
    /// # Errors
    /// [`Refusal`] unless the endpoint is open here and the target is of its virtual network.
    pub fn compose(
        &self,
        networks: &VirtualNetworks,
        message: Message,
    ) -> Result<Message, Refusal> {
        self.endpoints.compose(networks, message)
    }

    /// The host knows of a message at `now`. Returns when its handler will be done; it is then to be
    /// [called](Self::call).
    ///
    /// # Errors
    /// [`Refusal`]; a refused message calls no handler and takes no time.
    pub fn deliver(
        &mut self,
        now: Time,
        networks: &VirtualNetworks,
        message: &Message,
    ) -> Result<Time, Refusal> {
        match self.endpoints.handler(networks, message) {
            Ok(_) => {
                let ActiveMessageSettings { dispatch, handler: run, .. } = self.settings;
                self.free = self.free.max(now) + dispatch + run;
                self.counters.handled += 1;
                Ok(self.free)
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

    /// Runs the handler of a message that was [delivered](Self::deliver); a payload has room for
    /// this many words.
    ///
    /// # Errors
    /// [`Refusal`] as when it was delivered; no handler is called then.
    pub fn call(
        &mut self,
        networks: &VirtualNetworks,
        message: &Message,
        payload: &[u32],
        room: usize,
    ) -> Result<Called, Refusal> {
        let handler = *self.endpoints.handler(networks, message)?;
        let state = self.states.entry(message.target.endpoint).or_default();
        if let Some(calls) = state.calls.get_mut(usize::from(message.handler.0)) {
            *calls += 1;
        }
        let called = handler.call(message.arguments, payload, &mut state.memory, room);
        state.failed += u64::from(called == Called::Failed);
        Ok(called)
    }

    /// What the handlers of each endpoint did, by its number.
    pub fn states(&self) -> &BTreeMap<u16, EndpointState> {
        &self.states
    }

    /// How many messages were delivered and refused.
    pub fn counters(&self) -> ActiveMessageCounters {
        self.counters
    }

    /// From the moment when the host is free for a message to the end of its handler.
    pub fn occupation(&self) -> Span {
        self.settings.dispatch + self.settings.handler
    }
}

#[cfg(test)]
mod tests {
    use weft_protocol::endpoint::NetworkNumber;

    use super::super::handler::Content;
    use super::*;

    /// A node 1 with endpoint 0, whose handlers are `keep` (1) and `ticket` (2), and its network.
    fn node() -> (ActiveMessages, VirtualNetworks, Message) {
        let table = [
            ("keep".to_owned(), HandlerSettings::Put),
            ("ticket".to_owned(), HandlerSettings::FetchAdd { reply: "keep".to_owned() }),
        ];
        let settings = ActiveMessageSettings {
            dispatch: Span::from_ns(100),
            handler: Span::from_ns(900),
            table: table.into(),
            memory: Bytes(8),
        };
        assert_eq!(settings.index("ticket"), Some(HandlerIndex(2)));
        assert_eq!(settings.names(), ["", "keep", "ticket"]);
        assert_eq!(settings.index("other"), None);
        let mut node = settings.build(1);
        let (initiator, target) = (EndpointName { node: 0, endpoint: 0 }, node.open(0));
        let mut networks = VirtualNetworks::new();
        for name in [initiator, target] {
            networks.join(name, NetworkNumber(1));
        }
        let message = Message { initiator, target, handler: HandlerIndex(2), ..Message::default() };
        (node, networks, message)
    }

    #[test]
    fn handlers_run_one_after_the_other_and_strangers_take_no_time() {
        let (mut node, mut networks, message) = node();
        let stranger = EndpointName { node: 2, endpoint: 0 };
        networks.join(stranger, NetworkNumber(2));
        let mut deliver = |message: &Message| node.deliver(Time::ZERO, &networks, message).ok();
        assert_eq!(deliver(&message), Some(Time(1_000_000)));
        assert_eq!(deliver(&Message { initiator: stranger, ..message }), None);
        assert_eq!(deliver(&Message { handler: HandlerIndex(4), ..message }), None);
        assert_eq!(deliver(&message), Some(Time(2_000_000)));
        let counters = ActiveMessageCounters { handled: 2, protected: 1, unclaimed: 1 };
        assert_eq!(node.counters(), counters);
    }

    #[test]
    fn a_handler_acts_on_the_memory_of_its_endpoint_and_answers() {
        let (mut node, networks, message) = node();
        let mut call = |arguments: [u32; 3]| {
            let [first, second, third] = arguments;
            let message = Message { arguments: [first, second, third, 0, 0], ..message };
            node.call(&networks, &message, &[], 0).unwrap()
        };
        let keep = |value| {
            let (handler, arguments) = (HandlerIndex(1), [1, value, 0, 0, 0]);
            Called::Answers(Content { handler, arguments, payload: Vec::new() })
        };
        assert_eq!(call([0, 5, 1]), keep(0));
        assert_eq!(call([0, 2, 1]), keep(5));
        assert_eq!(call([2, 2, 1]), Called::Failed, "there are two words");
        let elsewhere = EndpointName { node: 1, endpoint: 9 };
        let message = Message { target: elsewhere, ..message };
        assert!(node.call(&networks, &message, &[], 0).is_err());
        let state = EndpointState { memory: vec![7, 0], calls: vec![0, 0, 3], failed: 1 };
        assert_eq!(node.states()[&0], state);
    }
}
