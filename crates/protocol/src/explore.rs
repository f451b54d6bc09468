//! Breadth-first search over every reachable state of a small state machine, for tests.

use std::collections::HashMap;
use std::hash::Hash;

/// The states that were found, and for each the places of its successors.
pub struct States<S> {
    states: Vec<S>,
    successors: Vec<Vec<usize>>,
}

/// Finds every state that `successors` leads to from `start`. `successors` is called once per
/// state, which is the place to assert what must hold in each.
pub fn explore<S, F>(start: S, mut successors: F) -> States<S>
where
    S: Clone + Eq + Hash,
    F: FnMut(&S) -> Vec<S>,
{
    let mut places = HashMap::from([(start.clone(), 0)]);
    let mut found = States { states: vec![start], successors: Vec::new() };
    while let Some(state) = found.states.get(found.successors.len()) {
        let next = successors(state);
        let mut targets = Vec::with_capacity(next.len());
        for successor in next {
            let place = *places.entry(successor.clone()).or_insert(found.states.len());
            if place == found.states.len() {
                found.states.push(successor);
            }
            targets.push(place);
        }
        found.successors.push(targets);
    }
    found
}

impl<S> States<S> {
    pub fn len(&self) -> usize {
        self.states.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &S> {
        self.states.iter()
    }

    /// Whether a state that `is_goal` accepts can be reached from every state: nothing is stuck.
    pub fn all_can_reach(&self, is_goal: impl Fn(&S) -> bool) -> bool {
        let mut predecessors = vec![Vec::new(); self.states.len()];
        for (place, targets) in self.successors.iter().enumerate() {
            for target in targets {
                predecessors[*target].push(place);
            }
        }
        let mut reaches: Vec<bool> = self.states.iter().map(is_goal).collect();
        let mut frontier: Vec<usize> = (0..reaches.len()).filter(|place| reaches[*place]).collect();
        while let Some(place) = frontier.pop() {
            for before in &predecessors[place] {
                if !reaches[*before] {
                    reaches[*before] = true;
                    frontier.push(*before);
                }
            }
        }
        reaches.into_iter().all(|reached| reached)
    }
}
