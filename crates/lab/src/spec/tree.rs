//! A specification as a tree whose every node knows where it was written.

use std::fmt;

use super::SpecError;
use super::path::{join, split};
use super::place::Place;
use super::write::{inline, is_sections};

/// Where the number of a parameter comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OriginKind {
    /// The source document states it.
    Stated,
    /// It follows from what the source states.
    Derived,
    /// It was fitted to a published number.
    Calibrated,
}

impl OriginKind {
    /// Every kind, in the order of trust.
    pub const ALL: [OriginKind; 3] =
        [OriginKind::Stated, OriginKind::Derived, OriginKind::Calibrated];

    /// The key that declares it in a file.
    pub const fn name(self) -> &'static str {
        match self {
            OriginKind::Stated => "stated",
            OriginKind::Derived => "derived",
            OriginKind::Calibrated => "calibrated",
        }
    }
}

impl fmt::Display for OriginKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The origin of a parameter, or of a choice.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Origin {
    /// What kind of origin it is.
    pub kind: OriginKind,
    /// The section (stated), the arithmetic (derived), or the number it was fitted to (calibrated).
    pub text: String,
    /// A number that a calibrated parameter predicts without having been fitted to it.
    pub predicts: Option<String>,
}

/// The value at a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    Text(String),
    /// Within `i64::MIN..=u64::MAX`.
    Whole(i128),
    /// Finite.
    Number(f64),
    Flag(bool),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// One key of a table with its node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub name: String,
    pub node: Node,
}

/// A value, list or table of a specification, with the place where it was written.
///
/// Two nodes are equal if they hold the same, wherever they were written.
#[derive(Clone, Debug)]
pub struct Node {
    pub(super) content: Content,
    pub(super) origin: Option<Origin>,
    /// The place of the key; for an element of a list, that of the element.
    pub(super) key: Place,
    /// The place of the value.
    pub(super) place: Place,
    /// The highest layer that mentions this node.
    pub(super) layer: u32,
    /// The layer that gave the origin.
    pub(super) origin_layer: u32,
    /// A table in which a type chose one of several variants; known after resolution.
    pub(super) choice: bool,
}

impl PartialEq for Node {
    fn eq(&self, other: &Node) -> bool {
        self.content == other.content
    }
}

impl Node {
    pub(super) fn new(content: Content, key: Place, place: Place) -> Node {
        Node { content, origin: None, key, place, layer: 0, origin_layer: 0, choice: false }
    }

    /// Where the value was written.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Where the value, or the choice made by this table, comes from.
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// The elements of a list.
    pub fn elements(&self) -> Option<&[Node]> {
        match &self.content {
            Content::List(elements) => Some(elements),
            _ => None,
        }
    }

    /// The keys of a table with their nodes, in file order.
    pub fn entries(&self) -> Option<impl Iterator<Item = (&str, &Node)>> {
        let Content::Table(entries) = &self.content else { return None };
        Some(entries.iter().map(|entry| (entry.name.as_str(), &entry.node)))
    }

    /// The text, where the value is one.
    pub fn as_str(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value as a person reads it: a text without its quotes, anything else as TOML.
    pub fn text(&self) -> String {
        match &self.content {
            Content::Text(text) => text.clone(),
            _ => inline(self),
        }
    }

    /// The value as TOML on one line.
    pub fn inline(&self) -> String {
        inline(self)
    }

    pub(super) fn get(&self, name: &str) -> Option<&Node> {
        self.entries()?.find(|(key, _)| *key == name).map(|(_, node)| node)
    }

    /// Applies `change` to this node and all below it.
    pub(super) fn for_each(&mut self, change: &mut impl FnMut(&mut Node)) {
        change(self);
        match &mut self.content {
            Content::List(elements) => elements.iter_mut().for_each(|node| node.for_each(change)),
            Content::Table(entries) => {
                entries.iter_mut().for_each(|entry| entry.node.for_each(change));
            }
            _ => {}
        }
    }
}

/// A parameter with its origin, as [`Tree::leaves`] lists it.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// The dotted key.
    pub path: String,
    /// The value as a person reads it; for a choice, the name of what was chosen.
    pub value_text: String,
    /// Where the value comes from, if the file says so.
    pub origin: Option<Origin>,
    /// Where the value was written.
    pub place: Place,
    /// Whether this is a choice among parts rather than a value of its own.
    pub choice: bool,
}

/// A specification, or a part of one: layers merged into one tree.
///
/// Trees are equal if they hold the same, whatever the order, the origins and the places.
#[derive(Clone, Debug)]
pub struct Tree {
    pub(super) root: Node,
    /// How many layers were merged.
    pub(super) layers: u32,
    /// The dotted key of the root in the file it came from; empty for a whole file.
    pub(super) prefix: String,
}

impl PartialEq for Tree {
    fn eq(&self, other: &Tree) -> bool {
        self.canonical() == other.canonical()
    }
}

impl Tree {
    /// The node at a dotted path; keys that contain dots are in double quotes.
    pub fn get(&self, path: &str) -> Option<&Node> {
        split(path)?.iter().try_fold(&self.root, |node, name| node.get(name))
    }

    /// The root itself.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// A copy of the tree at a dotted path; its errors and leaves keep their full paths.
    pub fn sub(&self, path: &str) -> Option<Tree> {
        let prefix = split(path)?.iter().fold(self.prefix.clone(), |path, name| join(&path, name));
        Some(Tree { root: self.get(path)?.clone(), layers: self.layers, prefix })
    }

    /// Removes the entry `name` of the root and returns it as a tree of its own.
    pub fn take(&mut self, name: &str) -> Option<Tree> {
        let Content::Table(entries) = &mut self.root.content else { return None };
        let position = entries.iter().position(|entry| entry.name == name)?;
        let root = entries.remove(position).node;
        Some(Tree { root, layers: self.layers, prefix: join(&self.prefix, name) })
    }

    /// Removes the value or table at a dotted path.
    ///
    /// # Errors
    /// There is none; accepted are the keys of the innermost table on the path.
    pub fn remove(&mut self, path: &str) -> Result<(), SpecError> {
        let mut node = &mut self.root;
        let mut names = split(path).unwrap_or_default().into_iter().peekable();
        while let Some(name) = names.next() {
            let Content::Table(entries) = &mut node.content else { break };
            let Some(position) = entries.iter().position(|entry| entry.name == name) else {
                let known: Vec<_> = entries.iter().map(|entry| entry.name.clone()).collect();
                return Err(not_given(path).names(&known, &name));
            };
            if names.peek().is_none() {
                entries.remove(position);
                return Ok(());
            }
            node = &mut entries[position].node;
        }
        Err(not_given(path))
    }

    /// Keeps only the entries `names` of the table that the keys of `path` lead to.
    pub fn retain(&mut self, path: &[&str], names: &[&str]) {
        let found = path.iter().try_fold(&mut self.root, |node, name| match &mut node.content {
            Content::Table(entries) => {
                entries.iter_mut().find(|entry| entry.name == *name).map(|entry| &mut entry.node)
            }
            _ => None,
        });
        if let Some(Node { content: Content::Table(entries), .. }) = found {
            entries.retain(|entry| names.contains(&entry.name.as_str()));
        }
    }

    /// Puts a value, such as one element of a sweep, at a dotted path, as a layer of its own.
    pub fn insert(&mut self, path: &str, value: Node) -> Result<(), SpecError> {
        let Some(names) = split(path).filter(|names| !names.is_empty()) else {
            return Err(SpecError::new(path, format!("`{path}` is not a dotted key"))
                .accepts("names joined by dots, such as channel.bulk.hosts")
                .at(&value.place));
        };
        let place = value.place.clone();
        let root = names.into_iter().rev().fold(value, |node, name| {
            let content = Content::Table(vec![Entry { name, node }]);
            Node::new(content, place.clone(), place.clone())
        });
        self.overlay(root);
        Ok(())
    }

    /// Changes every text, and every text of a list, whose keys end in one of `endings`, anywhere in
    /// the tree, including presets, variants and sweeps.
    pub fn change_texts(&mut self, endings: &[&str], change: &impl Fn(&str) -> String) {
        change_texts(&mut self.root, "", endings, change);
    }

    /// A refusal of the value at a dotted path, for rules that no type can express, such as a name
    /// that must exist in another part of the specification. If there is no such value, the refusal
    /// points at the nearest table around it.
    pub fn refuse(&self, path: &str, message: impl Into<String>) -> SpecError {
        let (mut node, mut full) = (&self.root, self.prefix.clone());
        for name in split(path).unwrap_or_default() {
            node = node.get(&name).unwrap_or(node);
            full = join(&full, &name);
        }
        SpecError::new(&full, message.into()).at(&node.key)
    }

    /// Refuses an element of a list of tables because of one of its keys.
    pub fn refuse_in(
        &self,
        list: &str,
        index: usize,
        name: &str,
        message: impl Into<String>,
    ) -> SpecError {
        let element = self.get(list).and_then(Node::elements).and_then(|all| all.get(index));
        let blamed = element.map(|element| element.get(name).unwrap_or(element));
        let refusal = self.refuse(list, message);
        match blamed {
            Some(node) => refusal.at(&node.key),
            None => refusal,
        }
    }

    /// Every value of the tree in file order, and every choice that has an origin or, once the
    /// tree is resolved, was made by a type.
    pub fn leaves(&self) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        collect(&self.root, &self.prefix, &mut leaves);
        leaves
    }
}

fn not_given(path: &str) -> SpecError {
    SpecError::new(path, format!("there is no {path} to unset")).value(path.to_owned())
}

fn change_texts(node: &mut Node, path: &str, endings: &[&str], change: &impl Fn(&str) -> String) {
    match &mut node.content {
        Content::Text(text) if endings.iter().any(|ending| path.ends_with(ending)) => {
            *text = change(text);
        }
        Content::List(elements) => {
            elements.iter_mut().for_each(|node| change_texts(node, path, endings, change));
        }
        Content::Table(entries) => {
            for Entry { name, node } in entries {
                change_texts(node, &format!("{path}.{name}"), endings, change);
            }
        }
        _ => {}
    }
}

fn collect(node: &Node, path: &str, leaves: &mut Vec<Leaf>) {
    let leaf = |value_text| Leaf {
        path: path.to_owned(),
        value_text,
        origin: node.origin.clone(),
        place: node.key.clone(),
        choice: node.choice,
    };
    let entries = match &node.content {
        Content::Table(entries) => entries,
        Content::List(elements) if is_sections(node) => {
            let elements = elements.iter().enumerate();
            return elements.for_each(|(i, node)| collect(node, &format!("{path}[{i}]"), leaves));
        }
        _ => return leaves.push(leaf(node.text())),
    };
    if node.choice || node.origin.is_some() {
        let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
        leaves.push(leaf(names.join(", ")));
    }
    for entry in entries {
        collect(&entry.node, &join(path, &entry.name), leaves);
    }
}
