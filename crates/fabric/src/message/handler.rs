//! What the handlers of active messages do in a run (Clint 3.1). The paper gives no example of a
//! handler. These read, write and count in a memory of words at each endpoint, and send answers
//! from it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_protocol::packet::{HandlerIndex, Message};

/// What a handler does with a message. It works on the memory of the endpoint to which the message
/// is sent: words of 32 bits, numbered from zero. Arguments that a message does not give are zero.
/// If a call would access words outside the memory, or answer with more words than fit a message,
/// the handler does nothing and the call counts as failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum HandlerSettings {
    /// Nothing. Its calls are counted, like those of all handlers.
    Count,
    /// Writes the payload to memory, starting at the word that the first argument names; without a
    /// payload it writes the second argument there.
    Put,
    /// Adds the second argument to the word that the first one names, modulo 2^32.
    Add,
    /// Reads as many words as the second argument says, starting at the word that the first
    /// argument names. It answers with the third argument and the word, or with the third argument,
    /// the number of words and a payload of the words. A reply handler of kind `put` thus writes
    /// them where the third argument says.
    Get {
        /// The handler that the answer calls at the initiator, by name.
        reply: String,
    },
    /// Like `add`, and answers with the third argument and the previous value of the word.
    FetchAdd {
        /// The handler that the answer calls at the initiator, by name.
        reply: String,
    },
    /// Answers with the same arguments and payload.
    Echo {
        /// The handler that the answer calls at the initiator, by name.
        reply: String,
    },
}

/// A handler in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handler {
    Count,
    Put,
    Add,
    Get(HandlerIndex),
    FetchAdd(HandlerIndex),
    Echo(HandlerIndex),
}

/// The content of a message for its target: all of Figure 1 but the names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The handler to call.
    pub handler: HandlerIndex,
    /// Its arguments.
    pub arguments: [u32; Message::ARGUMENTS],
    /// Words of 32 bits; none in a quick message.
    pub payload: Vec<u32>,
}

/// The result of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Called {
    /// It has done its work.
    Done,
    /// It has done its work, and its answer is to be sent to the initiator.
    Answers(Content),
    /// It did nothing: it would have accessed words outside the memory, or answered with more words
    /// than fit a message.
    Failed,
}

impl HandlerSettings {
    /// Its kind as a file names it, and the handler that its answer calls, if it answers.
    pub fn reply(&self) -> Option<(&'static str, &str)> {
        match self {
            HandlerSettings::Count | HandlerSettings::Put | HandlerSettings::Add => None,
            HandlerSettings::Get { reply } => Some(("get", reply)),
            HandlerSettings::FetchAdd { reply } => Some(("fetch_add", reply)),
            HandlerSettings::Echo { reply } => Some(("echo", reply)),
        }
    }

    pub(super) fn build(&self, reply: HandlerIndex) -> Handler {
        match self {
            HandlerSettings::Count => Handler::Count,
            HandlerSettings::Put => Handler::Put,
            HandlerSettings::Add => Handler::Add,
            HandlerSettings::Get { .. } => Handler::Get(reply),
            HandlerSettings::FetchAdd { .. } => Handler::FetchAdd(reply),
            HandlerSettings::Echo { .. } => Handler::Echo(reply),
        }
    }
}

impl Handler {
    /// Runs it, with at most this many words in a payload.
    pub fn call(
        self,
        arguments: [u32; Message::ARGUMENTS],
        payload: &[u32],
        memory: &mut [u32],
        room: usize,
    ) -> Called {
        let [address, value, back, ..] = arguments;
        let done = match self {
            Handler::Count => Some(Called::Done),
            Handler::Put => {
                let words = if payload.is_empty() { &[value][..] } else { payload };
                let place = words_of(memory, address, words.len());
                place.map(|place| place.copy_from_slice(words)).map(|()| Called::Done)
            }
            Handler::Add => add(memory, address, value).map(|_| Called::Done),
            Handler::Get(reply) => match words_of(memory, address, value as usize) {
                Some([word]) => Some(answer(reply, [back, *word], &[])),
                Some(words) if !words.is_empty() && words.len() <= room => {
                    Some(answer(reply, [back, value], words))
                }
                Some(_) | None => None,
            },
            Handler::FetchAdd(reply) => {
                add(memory, address, value).map(|before| answer(reply, [back, before], &[]))
            }
            Handler::Echo(reply) => {
                let payload = payload.to_vec();
                Some(Called::Answers(Content { handler: reply, arguments, payload }))
            }
        };
        done.unwrap_or(Called::Failed)
    }
}

fn answer(handler: HandlerIndex, [back, value]: [u32; 2], payload: &[u32]) -> Called {
    let mut arguments = [0; Message::ARGUMENTS];
    arguments[..2].copy_from_slice(&[back, value]);
    Called::Answers(Content { handler, arguments, payload: payload.to_vec() })
}

/// This many words of memory, if they exist.
fn words_of(memory: &mut [u32], address: u32, count: usize) -> Option<&mut [u32]> {
    let from = address as usize;
    memory.get_mut(from..from.saturating_add(count))
}

/// Returns the previous value, if the word exists.
fn add(memory: &mut [u32], address: u32, value: u32) -> Option<u32> {
    let word = memory.get_mut(address as usize)?;
    Some(std::mem::replace(word, word.wrapping_add(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLY: HandlerIndex = HandlerIndex(3);

    fn call(handler: Handler, first: [u32; 3], payload: &[u32], memory: &mut [u32]) -> Called {
        let [address, value, back] = first;
        handler.call([address, value, back, 0, 0], payload, memory, 2)
    }

    #[test]
    fn put_writes_its_payload_or_its_second_argument() {
        let mut memory = [0; 4];
        assert_eq!(call(Handler::Put, [3, 7, 0], &[], &mut memory), Called::Done);
        assert_eq!(call(Handler::Put, [1, 7, 0], &[5, 6], &mut memory), Called::Done);
        assert_eq!(memory, [0, 5, 6, 7]);
        assert_eq!(call(Handler::Put, [3, 0, 0], &[8, 9], &mut memory), Called::Failed);
        assert_eq!(memory, [0, 5, 6, 7], "all of it or nothing");
    }

    #[test]
    fn fetch_add_answers_with_what_was_there_and_wraps() {
        let mut memory = [0, u32::MAX];
        let answered = call(Handler::FetchAdd(REPLY), [1, 2, 9], &[], &mut memory);
        assert_eq!((answered, memory[1]), (answer(REPLY, [9, u32::MAX], &[]), 1));
        assert_eq!(call(Handler::Add, [1, 4, 0], &[], &mut memory), Called::Done);
        assert_eq!(memory, [0, 5]);
        assert_eq!(call(Handler::Add, [2, 4, 0], &[], &mut memory), Called::Failed);
    }

    #[test]
    fn get_answers_with_a_word_or_with_a_payload_that_fits() {
        let mut memory = [4, 5, 6, 7];
        let mut get =
            |address, count| call(Handler::Get(REPLY), [address, count, 8], &[], &mut memory);
        assert_eq!(get(3, 1), answer(REPLY, [8, 7], &[]));
        assert_eq!(get(1, 2), answer(REPLY, [8, 2], &[5, 6]));
        assert_eq!(get(1, 3), Called::Failed, "three words do not fit");
        assert_eq!(get(0, 0), Called::Failed, "nothing to answer with");
        assert_eq!(get(3, 2), Called::Failed);
        assert_eq!(get(u32::MAX, u32::MAX), Called::Failed);
    }

    #[test]
    fn echo_answers_with_all_that_it_got() {
        let content = Content { handler: REPLY, arguments: [1, 2, 3, 0, 0], payload: vec![9] };
        let echo = call(Handler::Echo(REPLY), [1, 2, 3], &[9], &mut []);
        assert_eq!(echo, Called::Answers(content));
        assert_eq!(call(Handler::Count, [1, 2, 3], &[9], &mut []), Called::Done);
    }
}
