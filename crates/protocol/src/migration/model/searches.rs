//! What holds in every state of the model, and what the search finds where an end is flawed.

use std::collections::HashMap;

use super::leaving::Leaving;
use super::way::Way;
use super::{End, Flaw, Limits, Model};
use crate::explore::{States, explore};
use crate::migration::{Phase, Role};

/// A state in which an end waits and nothing is in flight that ends the wait: whatever both do
/// next, unless one gives up by itself or dies.
fn waits_for_ever(states: &States<Model>, limits: Limits) -> Option<&Model> {
    let places: HashMap<&Model, usize> = states.iter().zip(0..).collect();
    let alone = Limits { fails: false, ..limits };
    let mut predecessors = vec![Vec::new(); states.len()];
    for (state, place) in states.iter().zip(0..) {
        for next in state.successors(alone) {
            predecessors[places[&next]].push(place);
        }
    }
    let mut ends: Vec<bool> = states.iter().map(|it| !it.waits()).collect();
    let mut frontier: Vec<usize> = (0..ends.len()).filter(|place| ends[*place]).collect();
    while let Some(place) = frontier.pop() {
        for before in predecessors[place].drain(..) {
            if !std::mem::replace(&mut ends[before], true) {
                frontier.push(before);
            }
        }
    }
    states.iter().zip(ends).find(|(_, ends)| !ends).map(|(state, _)| state)
}

fn explored(limits: Limits) -> States<Model> {
    explored_from(Model::new(), limits)
}

fn explored_from(start: Model, limits: Limits) -> States<Model> {
    let states = explore(start, |it: &Model| it.successors(limits));
    assert!(!states.iter().any(Model::writes_to_nobody));
    assert_eq!(waits_for_ever(&states, limits), None);
    let server_first = |it: &Model| it.agreement != 2 || it.ends[1].phase >= Phase::READY;
    assert!(states.iter().all(server_first));
    assert!(states.all_can_reach(Model::is_read), "bytes are never read");
    states
}

#[test]
fn two_ends_that_look_for_each_other_are_accelerated() {
    let states = explored(Limits { bytes: [2, 2], returns: false, fails: false, leaves: None });
    assert!(states.all_can_reach(|it| it.is_accelerated() && it.is_read()));
    assert!(states.iter().any(|it| it.ways.iter().all(|way| way.read_of == [true, true, false])));
    assert!(states.len() > 1_000, "{} states", states.len());
}

#[test]
fn whatever_fails_no_byte_is_lost_doubled_or_overtaken() {
    let states = explored(Limits { bytes: [2, 2], returns: false, fails: true, leaves: None });
    assert!(states.len() > 10_000, "{} states", states.len());
    let phases = |client, server| {
        let both = [client, server];
        states.iter().any(|it| it.ends.each_ref().map(|end| end.phase) == both)
    };
    assert!(phases(Phase::PLAIN, Phase::JOINED), "the client gives up after the server is ready");
    assert!(phases(Phase::READY, Phase::JOINED) && phases(Phase::OFFERED, Phase::PLAIN));
    let dies = |at| {
        let died = |end: &End| !end.lives && end.phase == at;
        states.iter().any(|it| it.ends.iter().any(died) && it.is_read())
    };
    assert!([Phase::OFFERED, Phase::JOINING, Phase::READY, Phase::JOINED].into_iter().all(dies));
}

#[test]
fn either_end_comes_back_at_any_moment() {
    for bytes in [[3, 0], [0, 3], [1, 1]] {
        let states = explored(Limits { bytes, returns: true, fails: false, leaves: None });
        assert!(states.len() > 10_000, "{} states", states.len());
        let both_plain = |it: &Model| it.ends.iter().all(|end| end.phase == Phase::PLAIN);
        assert!(states.all_can_reach(|it| both_plain(it) && it.is_read()));
        let whole_way = |way: &Way| way.read_of == [true; 3];
        let is_whole = states.iter().any(|it| both_plain(it) && it.ways.iter().any(whole_way));
        assert_eq!(is_whole, bytes.contains(&3), "a byte each way by each part");
    }
}

#[test]
fn an_end_that_dies_on_the_way_back_leaves_all_that_it_has_written() {
    for bytes in [[2, 0], [0, 2]] {
        let states = explored(Limits { bytes, returns: true, fails: true, leaves: None });
        assert!(states.len() > 10_000, "{} states", states.len());
        let alone = |it: &Model| it.ends.iter().any(|end| !end.lives && end.ended == 1);
        assert!(states.iter().any(|it| alone(it) && it.is_read()));
    }
}

/// Without bytes there are few states, and each flaw shows.
#[test]
fn the_search_finds_an_end_that_waits_for_ever() {
    let limits = Limits { bytes: [0, 0], returns: false, fails: true, leaves: None };
    let found = |flaw| {
        let states = explore(Model::with(flaw), |it: &Model| it.successors(limits));
        waits_for_ever(&states, limits).is_some()
    };
    let flaws = [Flaw::None, Flaw::KeepsAgreement, Flaw::HearsNoRefusal, Flaw::DeclinesSilently];
    assert_eq!(flaws.map(found), [false, true, true, true]);
}

/// The process that has the descriptor then reads only the kernel's stream, and gets everything
/// that was not read before.
#[test]
fn a_descriptor_leaves_at_any_moment_and_all_that_was_unread_follows_it() {
    use Leaving::{Done, Hearing, Stands, Stays};
    for (bytes, leaves) in [([2, 0], Role::Server), ([1, 1], Role::Client)] {
        let limits = Limits { bytes, returns: true, fails: false, leaves: Some(leaves) };
        let states = explored_from(Model::joined(Flaw::None), limits);
        assert!(states.len() > 1_000, "{} states", states.len());
        let is_reached =
            |leaving| states.iter().any(|it| it.ends[leaves as usize].leaving == leaving);
        assert!([Hearing, Stands, Done, Stays].into_iter().all(is_reached));
        let both_plain = |it: &Model| it.ends.iter().all(|end| end.phase == Phase::PLAIN);
        assert!(states.all_can_reach(|it| both_plain(it) && it.is_read()));
    }
}

#[test]
fn the_search_finds_what_an_end_loses_that_leaves_wrongly() {
    let limits = Limits { bytes: [1, 0], returns: true, fails: false, leaves: Some(Role::Server) };
    let loses = |flaw| {
        let states = explore(Model::joined(flaw), |it: &Model| it.successors(limits));
        !states.all_can_reach(Model::is_read)
    };
    let flaws = [Flaw::None, Flaw::RefusesNothing, Flaw::ReturnsUnheard];
    assert_eq!(flaws.map(loses), [false, true, true]);
}
