//! The compositions and experiments that come with Weft, as text.

include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// The text of a shipped composition.
pub fn system(name: &str) -> Option<&'static str> {
    find(SYSTEMS, name)
}

/// The text of a shipped experiment.
pub fn experiment(name: &str) -> Option<&'static str> {
    find(EXPERIMENTS, name)
}

/// The names of the shipped compositions, in alphabetical order.
pub fn systems() -> impl Iterator<Item = &'static str> {
    SYSTEMS.iter().map(|(name, _)| *name)
}

/// The names of the shipped experiments, in alphabetical order.
pub fn experiments() -> impl Iterator<Item = &'static str> {
    EXPERIMENTS.iter().map(|(name, _)| *name)
}

fn find(table: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    table.iter().find(|(shipped, _)| *shipped == name).map(|(_, text)| *text)
}
