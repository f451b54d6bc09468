//! From a name or a path to one tree: the file, every layer beneath it, presets and overrides.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::Error;
use crate::shipped;
use crate::spec::{Node, Tree};

/// A request: a file or a shipped name, presets, and `key.path=value` overrides.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// A shipped experiment or system, or the path of a file.
    pub name: String,
    /// A text without a file; `name` is then its name in messages.
    pub given: Given,
    /// Presets, merged in this order over those that the file names.
    pub presets: Vec<String>,
    /// Overrides, each `key.path=value`.
    pub overrides: Vec<String>,
}

/// A request that is not read from a file. Files that it names are looked for from the current
/// folder.
#[derive(Clone, Debug, Default)]
pub enum Given {
    /// Nothing: there is a file, or a shipped one.
    #[default]
    Elsewhere,
    /// A text as it would be in a file.
    Text(String),
    /// The values of a program: tables, lists, texts, numbers and flags.
    Values(Value),
}

/// The merged tree of a request.
#[derive(Clone, Debug)]
pub struct Source {
    /// The tree, with the presets that were asked for merged in. Other presets, variants and
    /// sweeps are still in it.
    pub tree: Tree,
    /// The name of the system at the bottom of the layers: a shipped name, or a file stem.
    pub system: String,
    /// The presets that were merged, in order.
    pub presets: Vec<String>,
    /// The channels whose workload is only in a file beneath, each with that file.
    pub inherited: Vec<(String, String)>,
}

/// The largest depth of `base`, so that files that name each other are refused.
const DEEPEST: usize = 16;

impl Request {
    /// A request; `preset` may name several, joined by `+`.
    pub fn new(name: &str, preset: Option<&str>, overrides: &[String]) -> Request {
        Request {
            name: name.to_owned(),
            given: Given::Elsewhere,
            presets: preset.into_iter().flat_map(split_presets).collect(),
            overrides: overrides.to_vec(),
        }
    }

    /// A request for a text without a file.
    pub fn of_text(name: &str, text: &str) -> Request {
        let given = Given::Text(text.to_owned());
        Request { name: name.to_owned(), given, ..Request::default() }
    }

    /// A request for values of the caller.
    #[must_use]
    pub fn of_values(mut self, values: Value) -> Request {
        self.given = Given::Values(values);
        self
    }

    /// Reads and merges every layer and the presets, without the overrides.
    pub fn read(&self) -> Result<Source, Error> {
        let mut source = match &self.given {
            Given::Elsewhere => layers(&self.name, None, 0)?,
            Given::Text(text) => lay(Tree::parse(&self.name, text)?, &self.name, None, 0)?,
            Given::Values(values) => {
                let tree = Tree::from_json(&self.name, values)?;
                lay(tree, &self.name, Some(Path::new("")), 0)?
            }
        };
        source.presets.extend(self.presets.iter().cloned());
        source.tree = lay_presets(source.tree, &source.presets)?;
        Ok(source)
    }

    /// The overrides, each divided into key and value.
    pub fn settings(&self) -> Result<Vec<Override<'_>>, Error> {
        let settings = self.overrides.iter().map(|text| {
            let (key, value) =
                text.split_once('=').ok_or_else(|| Error::Override { text: text.clone() })?;
            Ok(Override { key: key.trim(), value: value.trim() })
        });
        settings.collect()
    }
}

/// A setting from outside: an override, divided.
#[derive(Clone, Copy, Debug)]
pub struct Override<'a> {
    /// The dotted key.
    pub key: &'a str,
    /// The value, as it was written.
    pub value: &'a str,
}

/// The tree with presets laid over it, one after the other; all presets stay in it.
pub fn lay_presets(mut tree: Tree, presets: &[String]) -> Result<Tree, Error> {
    for name in presets {
        let all = tree.get("preset").cloned();
        tree = tree.preset(name)?;
        if let Some(all) = all {
            tree.insert("preset", all)?;
        }
    }
    Ok(tree)
}

/// The presets that a text names.
pub fn split_presets(text: &str) -> impl Iterator<Item = String> + use<'_> {
    text.split('+').map(|preset| preset.trim().to_owned()).filter(|preset| !preset.is_empty())
}

/// The tree of a file and of everything beneath it.
fn layers(name: &str, beside: Option<&Path>, depth: usize) -> Result<Source, Error> {
    if depth > DEEPEST {
        return Err(Error::BaseLoop { name: name.to_owned() });
    }
    let NamedText { shown, text, folder } = text_of(name, beside)?;
    lay(Tree::parse(&shown, &text)?, &shown, folder.as_deref(), depth)
}

/// A tree over everything beneath it. `folder` is what names in it are relative to.
fn lay(mut tree: Tree, name: &str, folder: Option<&Path>, depth: usize) -> Result<Source, Error> {
    if let Some(folder) = folder {
        anchor(&mut tree, folder);
    }
    let base = tree.take("base").map(|base| base.read::<String>()).transpose()?;
    let presets = take_preset_names(&mut tree)?;
    let unset = tree.take("unset");
    let Some(base) = base else {
        if let Some(unset) = unset {
            let refusal = unset.refuse("", "unset names keys of a base, and there is none");
            return Err(refusal.accepts("unset beside base").into());
        }
        let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy();
        return Ok(Source { tree, system: stem.into_owned(), presets, inherited: Vec::new() });
    };
    let mut beneath = layers(&base, folder, depth + 1)?;
    if let Some(unset) = unset {
        remove_all(&mut beneath.tree, &unset)?;
    }
    let below = beneath.tree.get("workload").and_then(Node::entries).into_iter().flatten();
    let only_below = below.filter(|(name, _)| {
        tree.get("workload").and_then(Node::entries).is_none_or(|mut own| own.all(|o| o.0 != *name))
    });
    beneath.inherited = only_below
        .map(|(name, workload)| (name.to_owned(), workload.place().file().to_owned()))
        .collect();
    beneath.tree = beneath.tree.merge(tree);
    beneath.presets.extend(presets);
    Ok(beneath)
}

/// Removes what `unset = ["KEY", ...]` names from the tree of a base.
fn remove_all(tree: &mut Tree, unset: &Tree) -> Result<(), Error> {
    let keys = unset.read::<Vec<String>>()?;
    let places = unset.root().elements().into_iter().flatten().map(Node::place);
    for (key, place) in keys.iter().zip(places) {
        tree.remove(key).map_err(|error| error.at(place))?;
    }
    Ok(())
}

/// The places in a specification where the name of a file may be.
const FILES: [&str; 7] = [
    ".trace.goal.file",
    ".trace.time_independent.file",
    ".trace.connection_matrix.file",
    ".trace.flows.file",
    ".trace.flows.topology",
    ".trace.chakra.file",
    ".trace.chakra.groups",
];

/// Makes the names of files absolute, so that they mean the same in another folder: those in
/// results are read again from there.
pub fn anchor(tree: &mut Tree, folder: &Path) {
    tree.change_texts(&FILES, &|file| {
        let path = folder.join(file);
        std::path::absolute(&path).unwrap_or(path).display().to_string()
    });
}

/// Removes `preset = "NAME"` or `preset = ["NAME", ...]` from a tree. A table of that name holds
/// presets and stays.
pub fn take_preset_names(tree: &mut Tree) -> Result<Vec<String>, Error> {
    let is_table = tree.get("preset").is_none_or(|preset| preset.entries().is_some());
    let Some(names) = (!is_table).then(|| tree.take("preset")).flatten() else {
        return Ok(Vec::new());
    };
    if names.root().elements().is_some() {
        return Ok(names.read::<Vec<String>>()?);
    }
    Ok(split_presets(&names.read::<String>()?).collect())
}

/// A specification that a name refers to.
struct NamedText {
    /// The form of the name in messages.
    shown: String,
    text: String,
    /// What names in it are relative to; none of what is shipped.
    folder: Option<PathBuf>,
}

/// What a name refers to.
fn text_of(name: &str, beside: Option<&Path>) -> Result<NamedText, Error> {
    let shipped = |shown, text: &str| NamedText { shown, text: text.to_owned(), folder: None };
    let looks_like_a_path = name.ends_with(".toml") || name.contains(std::path::MAIN_SEPARATOR);
    if !looks_like_a_path {
        if let Some(text) = shipped::experiment(name) {
            return Ok(shipped(format!("experiments/{name}.toml"), text));
        }
        if let Some(text) = shipped::system(name) {
            return Ok(shipped(format!("systems/{name}.toml"), text));
        }
        let path = beside.map_or_else(|| PathBuf::from(name), |folder| folder.join(name));
        return Err(folder(&path).unwrap_or_else(|| Error::unknown_name(name)));
    }
    let path = beside.map_or_else(|| PathBuf::from(name), |folder| folder.join(name));
    if let Some(error) = folder(&path) {
        return Err(error);
    }
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Error::Unreadable { path: path.display().to_string(), error })?;
    let folder = path.parent().map(Path::to_owned);
    Ok(NamedText { shown: path.display().to_string(), text, folder })
}

/// More files than this are not listed.
const MOST_LISTED: usize = 8;

/// The refusal of a folder, with the files in it that could be run.
fn folder(path: &Path) -> Option<Error> {
    let entries = std::fs::read_dir(path).ok()?;
    let mut files: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|file| file.extension().is_some_and(|ending| ending == "toml"))
        .filter(|file| std::fs::read_to_string(file).is_ok_and(|text| could_be_run(&text)))
        .map(|file| file.display().to_string())
        .collect();
    files.sort();
    let more = files.len().saturating_sub(MOST_LISTED);
    files.truncate(MOST_LISTED);
    Some(Error::Folder { path: path.display().to_string(), files, more })
}

/// Whether a text is a composition rather than some other file in TOML.
fn could_be_run(text: &str) -> bool {
    let says = |tree: &Tree| ["base", "channel"].iter().any(|key| tree.get(key).is_some());
    Tree::parse("", text).is_ok_and(|tree| says(&tree))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Request {
        let values = serde_json::from_str(text).expect(text);
        Request::new("values", Some("slow"), &[]).of_values(values)
    }

    #[test]
    fn values_are_what_a_text_would_be() {
        let json =
            r#"{ "base": "clint", "preset": { "slow": { "a": { "b": 2 } } }, "a": { "b": 1 } }"#;
        let text = "base = 'clint'\npreset.slow.a.b = 2\na.b = 1";
        let mut other = Request::of_text("text", text);
        other.presets = vec!["slow".to_owned()];
        let (one, other) = (values(json).read().unwrap(), other.read().unwrap());
        assert_eq!(one.tree, other.tree);
        assert_eq!((&*one.system, &one.presets), ("clint", &other.presets));
    }

    const UNSET: &str = "base = 'slingshot'\nunset = ['channel.net.flow_control']";

    #[test]
    fn a_file_leaves_out_what_its_base_has() {
        let read = |text: &str| Request::of_text("a.toml", text).read().unwrap().tree;
        let (whole, mut without) = (read("base = 'slingshot'"), read(UNSET));
        assert!(without.get("channel.net.flow_control").is_none());
        let removed = whole.get("channel.net.flow_control").unwrap().clone();
        without.insert("channel.net.flow_control", removed).unwrap();
        assert_eq!(without, whole, "and nothing else");
        let again = read(&format!("{UNSET}\n[channel.net]\nflow_control = 'credits'"));
        let own = again.get("channel.net.flow_control").and_then(Node::as_str);
        assert_eq!(own, Some("credits"), "what the file says itself stays");
    }

    #[test]
    fn a_workload_that_is_left_out_is_not_inherited() {
        let inherited = |more: &str| {
            let text = format!("base = 'roce-incast'\n{more}");
            Request::of_text("a.toml", &text).read().unwrap().inherited.len()
        };
        assert_eq!((inherited(""), inherited("unset = ['workload.net']")), (1, 0));
    }

    #[test]
    fn what_is_not_there_cannot_be_left_out() {
        let refused = |text: &str| Request::of_text("a.toml", text).read().unwrap_err().to_string();
        let said = refused(&UNSET.replace("flow_control", "flow_contrl"));
        assert!(
            said.starts_with("a.toml:2:10: there is no channel.net.flow_contrl to unset"),
            "{said}"
        );
        assert!(said.ends_with("did you mean `flow_control`?"), "{said}");
        let said = refused(&UNSET.replace("flow_control", "packet.more"));
        assert!(said.contains("there is no channel.net.packet.more to unset"), "{said}");
        let said = refused("unset = ['run']\nrun.length = '1 us'");
        assert!(said.starts_with("a.toml:1:1: unset names keys of a base"), "{said}");
    }

    #[test]
    fn files_that_values_name_are_looked_for_from_the_current_folder() {
        let json = r#"{ "preset": { "slow": {} },
            "program": { "trace": { "goal": { "file": "a.goal" } } } }"#;
        let tree = values(json).read().unwrap().tree;
        let file = tree.get("program.trace.goal.file").map(|file| file.text());
        let whole = std::env::current_dir().unwrap().join("a.goal");
        assert_eq!(file, Some(whole.display().to_string()));
    }

    #[test]
    fn values_that_fit_nowhere_are_refused_by_key() {
        let error = values(r#"{ "preset": { "slow": {} }, "a": { "b": [1, null] } }"#).read();
        let said = error.unwrap_err().to_string();
        assert!(said.starts_with("values: a.b[1] has no value"), "{said}");
    }
}
