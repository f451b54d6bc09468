//! Layers: a shipped system, a preset, a user's file, options; the higher one wins.

use super::SpecError;
use super::parse::option_value;
use super::path::{join, split};
use super::place::{Place, Source};
use super::tree::{Content, Entry, Node, Tree};

const PRESET: &str = "preset";

impl Tree {
    /// This tree with `over` laid over it.
    ///
    /// Tables merge key by key; any other value, lists included, is replaced with its origin. Where
    /// a type will choose one of several variants, both may stand in the merged tree: the one of
    /// the higher layer is then read, whole, and the other is dropped.
    #[must_use]
    pub fn merge(mut self, over: Tree) -> Tree {
        let layers = over.layers;
        self.lay(over.root, layers);
        self
    }

    pub(super) fn overlay(&mut self, over: Node) {
        self.lay(over, 1);
    }

    fn lay(&mut self, mut over: Node, layers: u32) {
        let below = self.layers;
        over.for_each(&mut |node| {
            node.layer += below;
            node.origin_layer += below;
        });
        self.layers += layers;
        merge(&mut self.root, over);
    }

    /// The names of the presets, in file order.
    pub fn presets(&self) -> Vec<&str> {
        let entries = self.root.get(PRESET).and_then(Node::entries);
        entries.into_iter().flatten().map(|(name, _)| name).collect()
    }

    /// This tree with the preset `name` laid over it and all presets removed.
    ///
    /// The refusal of an unknown name has no place, since the name is not in the file. Give it one
    /// by [`SpecError::at`].
    pub fn preset(mut self, name: &str) -> Result<Tree, SpecError> {
        let names: Vec<_> = self.presets().into_iter().map(str::to_owned).collect();
        let presets = self.take(PRESET).map(|presets| presets.root.content);
        let Some(Content::Table(presets)) = presets else {
            return Err(SpecError::new(PRESET, format!("unknown preset `{name}`: there is none"))
                .value(name.to_owned()));
        };
        let Some(chosen) = presets.into_iter().find(|entry| entry.name == name) else {
            return Err(SpecError::new(PRESET, format!("unknown preset `{name}`"))
                .value(name.to_owned())
                .names(&names, name));
        };
        let mut over = chosen.node;
        // One layer above all others, however many layers the preset itself consists of.
        over.for_each(&mut |node| {
            node.layer = 0;
            node.origin_layer = 0;
        });
        self.overlay(over);
        Ok(self)
    }

    /// This tree without its presets: the composition as its file states it.
    #[must_use]
    pub fn without_presets(mut self) -> Tree {
        self.take(PRESET);
        self
    }

    /// Lays `path = text` over this tree, as `--set path=text` says it. The text is a TOML value
    /// if it parses as one (`16`, `true`, `[1, 2]`), else a string, so that `850 ns` needs no
    /// quotes. A path that no part reads is refused when the tree is read.
    pub fn set(&mut self, path: &str, text: &str) -> Result<(), SpecError> {
        let source = Source::without_lines(format!("--set {path}={text}"));
        let place = Place::new(&source, 0..0);
        let value = option_value(path, text, &place)?;
        self.insert(path, value)
    }

    /// Lays `name = value` over this tree, where `option` is the whole text `path=value`.
    pub fn set_option(&mut self, option: &str) -> Result<(), SpecError> {
        match option.split_once('=') {
            Some((path, text)) if split(path).is_some() => self.set(path.trim(), text.trim()),
            _ => {
                let source = Source::without_lines(format!("--set {option}"));
                Err(SpecError::new("", "this sets nothing".to_owned())
                    .value(option.to_owned())
                    .accepts("KEY=VALUE, such as channel.bulk.hosts=16")
                    .at(&Place::new(&source, 0..0)))
            }
        }
    }
}

/// A part that was chosen in one layer and replaced by another part in a higher one.
#[derive(Clone, Debug)]
pub struct Replaced {
    /// The dotted key of the choice.
    pub path: String,
    /// The part that was replaced, and where it was chosen.
    pub part: (String, Place),
    /// The layer that chose it.
    pub layer: u32,
    /// The part that is read, and where it was chosen.
    pub by: (String, Place),
}

impl Tree {
    /// How many layers were merged; the next gets this number.
    pub fn layers(&self) -> u32 {
        self.layers
    }

    /// Every part that a higher layer replaced; `resolved` is the result of [`Tree::resolve`] for
    /// this tree.
    pub fn replaced(&self, resolved: &Tree) -> Vec<Replaced> {
        let mut found = Vec::new();
        replaced(&self.root, &resolved.root, &self.prefix, &mut found);
        found
    }
}

fn replaced(all: &Node, read: &Node, path: &str, found: &mut Vec<Replaced>) {
    let (Content::Table(all), Content::Table(kept)) = (&all.content, &read.content) else { return };
    if let (true, [winner]) = (read.choice, &kept[..]) {
        let of = |entry: &Entry| (entry.name.clone(), entry.node.key.clone());
        let losers = all.iter().filter(|entry| entry.name != winner.name);
        found.extend(losers.map(|loser| Replaced {
            path: path.to_owned(),
            part: of(loser),
            layer: loser.node.layer,
            by: of(winner),
        }));
    }
    for entry in all {
        if let Some(below) = kept.iter().find(|below| below.name == entry.name) {
            replaced(&entry.node, &below.node, &join(path, &entry.name), found);
        }
    }
}

fn merge(base: &mut Node, over: Node) {
    let (Content::Table(entries), true) = (&mut base.content, over.entries().is_some()) else {
        *base = over;
        return;
    };
    let Content::Table(over_entries) = over.content else { return };
    for entry in over_entries {
        match entries.iter_mut().find(|below| below.name == entry.name) {
            Some(below) => merge(&mut below.node, entry.node),
            None => entries.push(entry),
        }
    }
    // The latest mention is the one to point at, but a choice keeps its origin until it changes.
    (base.key, base.place, base.layer) = (over.key, over.place, over.layer);
    if over.origin.is_some() {
        (base.origin, base.origin_layer) = (over.origin, over.origin_layer);
    }
}

/// The entry that a type reads as its choice: the only one of the highest layer.
///
/// The refusal of two entries in one layer names both places.
pub(super) fn chosen<'a>(entries: &'a [Entry], path: &str) -> Result<Option<&'a Entry>, SpecError> {
    let Some(highest) = entries.iter().map(|entry| entry.node.layer).max() else {
        return Ok(None);
    };
    let mut candidates = entries.iter().filter(|entry| entry.node.layer == highest);
    let first = candidates.next();
    if let (Some(first), Some(second)) = (first, candidates.next()) {
        let (here, there) = (&second.name, &first.name);
        let message =
            format!("two parts where one fits: `{here}` here, `{there}` at {}", first.node.key);
        return Err(SpecError::new(path, message)
            .accepts(format!("one choice for {path}"))
            .at(&second.node.key));
    }
    Ok(first)
}
