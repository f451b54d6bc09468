//! The messages of Figure 1 (Clint 3.1): 32 bytes that name initiator, target, handler and
//! arguments, and 2048 bytes of payload in a bulk message.

use std::fmt;

use super::{DecodeError, FieldError};

/// The name of an endpoint, the access point of a program to the network: node and number there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointName {
    /// The node, a switch port in Clint.
    pub node: u16,
    /// The number of the endpoint on that node.
    pub endpoint: u16,
}

/// The place of a handler in the handler table of the target's endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandlerIndex(pub u16);

/// An active message without payload: all of a quick message, the first 32 bytes of a bulk one.
///
/// Layout (a choice, the paper gives only the total): initiator node and endpoint, target node
/// and endpoint, handler, payload length (zero in a quick message), 16 bits each; then five
/// arguments of 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Message {
    /// The sender.
    pub initiator: EndpointName,
    /// The target.
    pub target: EndpointName,
    /// The handler to call at the target.
    pub handler: HandlerIndex,
    /// The arguments of the handler.
    pub arguments: [u32; Message::ARGUMENTS],
}

/// The payload of a bulk message: at most 2048 bytes. The packet is of the same size whatever the
/// length; the rest is sent as zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Payload(Vec<u8>);

impl Message {
    /// Size in bytes (Figure 1).
    pub const SIZE: usize = 32;
    /// How many arguments fit.
    pub const ARGUMENTS: usize = 5;

    pub(super) fn encode(&self, payload_length: u16) -> [u8; Message::SIZE] {
        let words = [
            self.initiator.node,
            self.initiator.endpoint,
            self.target.node,
            self.target.endpoint,
            self.handler.0,
            payload_length,
        ];
        let mut bytes = [0; Message::SIZE];
        let (head, tail) = bytes.split_at_mut(2 * words.len());
        for (place, word) in head.chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        for (place, argument) in tail.chunks_exact_mut(4).zip(self.arguments) {
            place.copy_from_slice(&argument.to_be_bytes());
        }
        bytes
    }

    /// The message and the payload length.
    pub(super) fn decode(bytes: &[u8; Message::SIZE]) -> (Message, u16) {
        let word = |place: usize| u16::from_be_bytes([bytes[2 * place], bytes[2 * place + 1]]);
        let mut arguments = [0; Message::ARGUMENTS];
        for (argument, place) in arguments.iter_mut().zip(bytes[12..].chunks_exact(4)) {
            *argument = place.iter().fold(0, |value, byte| value << 8 | u32::from(*byte));
        }
        let message = Message {
            initiator: EndpointName { node: word(0), endpoint: word(1) },
            target: EndpointName { node: word(2), endpoint: word(3) },
            handler: HandlerIndex(word(4)),
            arguments,
        };
        (message, word(5))
    }
}

impl Payload {
    /// The largest payload in bytes (Figure 1: 2 kBytes).
    pub const LIMIT: usize = 2048;

    /// A payload of these bytes.
    ///
    /// # Errors
    /// [`FieldError::Payload`] beyond 2048 bytes.
    pub fn new(bytes: Vec<u8>) -> Result<Payload, FieldError> {
        let length = bytes.len();
        if length <= Payload::LIMIT {
            Ok(Payload(bytes))
        } else {
            Err(FieldError::Payload { length })
        }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn length(&self) -> u16 {
        self.0.len() as u16
    }

    pub(super) fn decode(length: u16, field: &[u8]) -> Result<Payload, DecodeError> {
        match field.get(..usize::from(length)) {
            Some(bytes) => Ok(Payload(bytes.to_vec())),
            None => Err(DecodeError::PayloadLength { length }),
        }
    }
}

impl fmt::Display for EndpointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.node, self.endpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_lays_its_fields_out_in_the_order_of_figure_1() {
        let message = Message {
            initiator: EndpointName { node: 1, endpoint: 2 },
            target: EndpointName { node: 3, endpoint: 4 },
            handler: HandlerIndex(5),
            arguments: [6, 7, 8, 9, 0x0a0b_0c0d],
        };
        let bytes = message.encode(0x0102);
        assert_eq!(bytes[..12], [0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 1, 2]);
        assert_eq!(bytes[12..16], [0, 0, 0, 6]);
        assert_eq!(bytes[28..], [0x0a, 0x0b, 0x0c, 0x0d]);
        assert_eq!(Message::decode(&bytes), (message, 0x0102));
    }

    #[test]
    fn a_payload_beyond_two_kilobytes_is_refused() {
        assert!(Payload::new(vec![0; 2048]).is_ok());
        let refusal = Payload::new(vec![0; 2049]).unwrap_err();
        assert_eq!(refusal.to_string(), "payload of 2049 bytes: expected at most 2048");
    }
}
