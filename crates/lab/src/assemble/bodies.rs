//! The contents of listed messages, checked against the interface of their channel.

use std::collections::VecDeque;

use weft_fabric::message::{ActiveMessageSettings, Content};
use weft_fabric::workload::{Listed, WorkloadSettings};
use weft_protocol::packet::Message;
use weft_units::Bytes;

use super::{Site, refuse, refuse_in_workload};
use crate::composition::ChannelSettings;
use crate::drive::interface::{Bodies, InterfaceSettings, Text, UNNAMED};
use crate::error::Error;

/// The largest memory of an endpoint.
const MOST_MEMORY: Bytes = Bytes(1_000_000);
/// The most handlers that a table holds.
const MOST_HANDLERS: usize = 1000;

/// The contents of the messages of a workload; none if no message says more than its target.
pub(crate) fn bodies(
    settings: &ChannelSettings,
    workload: Option<&WorkloadSettings>,
    site: Site<'_>,
) -> Result<Option<Box<Bodies>>, Error> {
    let (Some(workload), Some(interface)) = (workload, &settings.interface) else {
        return Ok(None);
    };
    let Some(key) = workload.says() else { return Ok(None) };
    let name = site.name;
    if interface.message.0 < Message::SIZE as u64 {
        let accepted = format!("32 B or more, the size of a message that has {key}");
        refuse(name, "interface.message", &interface.message.to_string(), &accepted)?;
    }
    let text = |listed: &&Listed| text(listed, interface, name);
    let of_host =
        |listed: Vec<&Listed>| listed.iter().map(text).collect::<Result<VecDeque<_>, _>>();
    let all = workload.listed(site.hosts).into_iter().map(of_host);
    Ok(Some(Box::new(Bodies::new(interface.handlers.names(), all.collect::<Result<_, _>>()?))))
}

/// The content of a message, if everything that it names exists and fits.
fn text(listed: &Listed, interface: &InterfaceSettings, name: &str) -> Result<Text, Error> {
    let refuse = |key: &str, value: String, accepted: String| {
        refuse_in_workload(name, &format!("source.list.{key}"), &value, &accepted)
    };
    let handlers = &interface.handlers;
    let handler = match &listed.handler {
        None => ActiveMessageSettings::COUNT,
        Some(handler) => match handlers.index(handler) {
            Some(index) => index,
            None => return refuse("handler", handler.clone(), known(handlers, name)),
        },
    };
    let mut arguments = [0; Message::ARGUMENTS];
    match arguments.get_mut(..listed.arguments.len()) {
        Some(given) => given.copy_from_slice(&listed.arguments),
        None => {
            let value = format!("{} arguments", listed.arguments.len());
            return refuse("arguments", value, format!("up to {}", Message::ARGUMENTS));
        }
    }
    let room = interface.payload_words();
    if listed.payload.len() > room {
        let accepted = format!(
            "up to {room} words of 4 B: of channel.{name}.interface.message = {}, handler and \
             arguments take 32 B",
            interface.message
        );
        return refuse("payload", format!("{} words", listed.payload.len()), accepted);
    }
    let networks = interface.virtual_networks.len().max(1);
    if let Some(network) = listed.network.filter(|network| usize::from(*network) >= networks) {
        let accepted = format!(
            "a virtual network of channel.{name}.interface.virtual_networks, below {networks}"
        );
        return refuse("network", network.to_string(), accepted);
    }
    let content = Content { handler, arguments, payload: listed.payload.clone() };
    Ok(Text { network: listed.network, content })
}

/// The handlers of the channel.
fn known(handlers: &ActiveMessageSettings, name: &str) -> String {
    let table = format!("channel.{name}.interface.handlers.table");
    let names: Vec<&str> = handlers.table.keys().map(String::as_str).collect();
    match names[..] {
        [] => format!("none, since there is no {table}"),
        _ => format!("one of {table}: {}", names.join(", ")),
    }
}

/// Refuses contents of messages without an interface that reads them.
pub(crate) fn refuse_without_interface(
    settings: &ChannelSettings,
    workload: &WorkloadSettings,
    name: &str,
) -> Result<(), Error> {
    match workload.says() {
        Some(key) if settings.interface.is_none() => {
            let accepted =
                format!("it only with channel.{name}.interface, whose endpoints have handlers");
            refuse_in_workload(name, &format!("source.list.{key}"), "given", &accepted)
        }
        _ => Ok(()),
    }
}

/// The tables of handlers and their memory: every reply is in the table, and words are whole.
pub(crate) fn check_handlers(handlers: &ActiveMessageSettings, name: &str) -> Result<(), Error> {
    if handlers.table.len() > MOST_HANDLERS {
        let (value, accepted) = (handlers.table.len().to_string(), MOST_HANDLERS.to_string());
        refuse(name, "interface.handlers.table", &value, &format!("up to {accepted} handlers"))?;
    }
    if handlers.table.contains_key(UNNAMED) {
        let accepted = "another name: in tables it stands for messages that name no handler";
        refuse(name, &format!("interface.handlers.table.{UNNAMED}"), "given", accepted)?;
    }
    let memory = handlers.memory;
    if !memory.0.is_multiple_of(ActiveMessageSettings::WORD.0) || memory > MOST_MEMORY {
        let accepted = format!("a multiple of 4 B, up to {MOST_MEMORY}");
        refuse(name, "interface.handlers.memory", &memory.to_string(), &accepted)?;
    }
    let replies = handlers
        .table
        .iter()
        .filter_map(|(own, settings)| settings.reply().map(|(kind, reply)| (own, kind, reply)));
    for (own, kind, reply) in replies {
        if handlers.index(reply).is_none() {
            let key = format!("interface.handlers.table.{own}.{kind}.reply");
            refuse(name, &key, reply, &known(handlers, name))?;
        }
    }
    Ok(())
}
