//! From one tree to the points of a study: every combination of sweeps and variants.

use std::ops::Range;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::composition::Spec;
use crate::error::Error;
use crate::fit;
use crate::keys;
use crate::source::{
    Override, Request, Source, anchor, lay_presets, split_presets, take_preset_names,
};
use crate::spec::{Node, SpecError, Tree};
use crate::table::Cell;

/// The points of a study, in file order: the last axis varies fastest.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The system at the bottom of the layers.
    pub system: String,
    /// The presets merged under all points.
    pub presets: Vec<String>,
    /// The names of the axes, in order.
    pub axes: Vec<String>,
    /// What is run.
    pub points: Vec<Point>,
    /// The tree without sweeps, variants and presets that nobody chose.
    pub tree: Tree,
    /// The tree of the first point.
    pub first: Tree,
    /// What each workload that the file itself does not mention is inherited from, by its channel.
    pub inherited: Vec<(String, String)>,
    /// The whole study as one file, with sweeps and variants as overrides narrowed them. Planned
    /// again, it gives the same points.
    pub written: Tree,
}

/// One combination of the values of all axes.
#[derive(Clone, Debug)]
pub struct Point {
    /// The value on each axis.
    pub at: Vec<(String, Cell)>,
    /// What is assembled and run.
    pub spec: Spec,
}

/// One dimension of a study: one key or name of variants, or several keys that advance together.
#[derive(Clone, Debug)]
struct Axis {
    names: Vec<String>,
    steps: Vec<Step>,
}

/// One value on each name of an axis: how it is shown, and what it changes.
#[derive(Clone, Debug)]
struct Step {
    shown: Vec<Cell>,
    change: Change,
}

#[derive(Clone, Debug)]
enum Change {
    /// Keys are given values, in the order of the names of the axis.
    Set(Vec<Node>),
    /// Presets are merged.
    Presets(Vec<String>),
    /// A partial tree is merged, with the presets that it names.
    Merge(Tree, Vec<String>),
}

/// The name under `[sweep]` of lists that advance together.
const PAIRED: &str = "paired";

/// More points than this is taken for a mistake in the file.
const MOST_POINTS: usize = 1_000_000;

/// A study whose sweeps and variants are known, and none of its points yet.
struct Study<'a> {
    tree: Tree,
    system: String,
    presets: Vec<String>,
    inherited: Vec<(String, String)>,
    axes: Vec<Axis>,
    /// The overrides that hold for all points.
    settings: Vec<Override<'a>>,
    /// How many points there are.
    count: usize,
    /// What of the file the points do not keep.
    kept: [(&'static str, Option<Node>); 2],
}

impl<'a> Study<'a> {
    fn new(request: &'a Request) -> Result<Study<'a>, Error> {
        let Source { mut tree, system, presets, inherited } = request.read()?;
        let kept = ["preset", "variant"].map(|name| (name, tree.get(name).cloned()));
        let mut settings = request.settings()?;
        // A sweep from outside is added to those of the file, and can be narrowed like them.
        for own in settings.extract_if(.., |own| own.key.starts_with("sweep.")) {
            tree.set(own.key, own.value)?;
        }
        let mut axes = variants(&mut tree)?;
        axes.extend(sweeps(&mut tree)?);
        let mut fixed = Vec::new();
        for own in settings {
            let Override { key, value } = own;
            if narrow(&mut axes, key, value)? {
                continue;
            }
            match several(&tree, key, value)? {
                Some(axis) => axes.push(axis),
                None => {
                    tree.set(key, value)?;
                    fixed.push(own);
                }
            }
        }
        anchor(&mut tree, Path::new(""));
        let count = axes.iter().try_fold(1_usize, |count, axis| {
            count.checked_mul(axis.steps.len()).filter(|count| *count <= MOST_POINTS)
        });
        let count = count.ok_or(Error::TooManyPoints { most: MOST_POINTS })?;
        Ok(Study { tree, system, presets, inherited, axes, settings: fixed, count, kept })
    }

    /// The point with a number: its digits, one per axis, pick the steps. Settings from outside have
    /// the last word.
    fn point(&self, index: usize) -> Result<(Tree, Point), Error> {
        let mut tree = self.tree.clone();
        let mut at = Vec::new();
        let mut rest = index;
        let mut chosen = Vec::new();
        let mut labels = Vec::new();
        for axis in self.axes.iter().rev() {
            chosen.push((axis, &axis.steps[rest % axis.steps.len()]));
            rest /= axis.steps.len();
        }
        for (axis, step) in chosen.into_iter().rev() {
            let first = tree.layers();
            match &step.change {
                Change::Set(values) => {
                    for (key, value) in axis.names.iter().zip(values) {
                        tree.insert(key, value.clone())?;
                    }
                }
                Change::Presets(presets) => tree = lay_presets(tree, presets)?,
                Change::Merge(over, presets) => {
                    tree = lay_presets(tree, presets)?.merge(over.clone());
                }
            }
            at.extend(axis.names.iter().cloned().zip(step.shown.iter().cloned()));
            labels.push(Label { layers: first..tree.layers(), axis, step });
        }
        for own in &self.settings {
            tree.set(own.key, own.value)?;
        }
        // Files named in an override are looked for from the current folder.
        anchor(&mut tree, Path::new(""));
        let tree = tree.without_presets();
        let (spec, resolved) = keys::resolve(&tree)?;
        refuse_other_parts(&tree, &resolved, &labels)?;
        fit::check(&tree, &spec)?;
        Ok((tree, Point { at, spec }))
    }
}

/// What is listed of a study.
#[derive(Clone, Debug)]
pub struct Outline {
    /// The system at the bottom of the layers.
    pub system: String,
    /// How many points it has.
    pub points: usize,
    /// The composition of its first point.
    pub first: Spec,
}

impl Outline {
    /// Reads no more of a study than is listed, while a plan checks every point.
    pub fn new(request: &Request) -> Result<Outline, Error> {
        let study = Study::new(request)?;
        let first = study.point(0)?.1.spec;
        Ok(Outline { system: study.system, points: study.count, first })
    }
}

impl Plan {
    /// Expands the sweeps and variants of a request.
    pub fn new(request: &Request) -> Result<Plan, Error> {
        let study = Study::new(request)?;
        let (first, begins) = study.point(0)?;
        let mut points = Vec::with_capacity(study.count);
        points.push(begins);
        for index in 1..study.count {
            points.push(study.point(index)?.1);
        }
        let Study { tree, system, presets, inherited, axes, kept, .. } = study;
        let tree = tree.without_presets();
        let written = write(&tree, kept, &axes)?;
        let axes = axes.into_iter().flat_map(|axis| axis.names).collect();
        Ok(Plan { system, presets, axes, points, tree, first, inherited, written })
    }

    /// The identity of the plan: the SHA-256 of the canonical form of its first point's tree and
    /// of its axes, in hexadecimal digits.
    pub fn hash(&self) -> String {
        let mut digest = Sha256::new();
        digest.update(self.tree.canonical());
        for point in &self.points {
            for (axis, value) in &point.at {
                digest.update(format!("{axis}={value};"));
            }
        }
        digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The tree of a study as it would be written into one file. Two variants of a choice from two
/// layers would be in one layer there, so the tree is resolved first, to the one that is read.
fn write(tree: &Tree, kept: [(&str, Option<Node>); 2], axes: &[Axis]) -> Result<Tree, Error> {
    // Without its sweep a file may lack what the sweep gives; it is then written as it stands.
    let mut written = tree.resolve::<Spec>().map_or_else(|_| tree.clone(), |(_, tree)| tree);
    for (name, node) in kept {
        if let Some(node) = node {
            written.insert(name, node)?;
        }
    }
    let mut paired = Vec::new();
    for axis in axes {
        let chosen: Vec<&str> = axis.steps.iter().filter_map(Step::variant).collect();
        match (&axis.names[..], axis.steps.first().map(|step| &step.change)) {
            (_, None) => {}
            ([name], Some(Change::Merge(..))) => written.retain(&["variant", name], &chosen),
            ([name], Some(_)) => {
                written.set(&format!("sweep.{}", quoted(name)), &axis.list(0))?;
            }
            (names, Some(_)) => {
                let list = |(place, name): (usize, &String)| {
                    format!("{} = {}", quoted(name), axis.list(place))
                };
                let lists: Vec<String> = names.iter().enumerate().map(list).collect();
                paired.push(format!("{{ {} }}", lists.join(", ")));
            }
        }
    }
    if !paired.is_empty() {
        written.set(&format!("sweep.{PAIRED}"), &format!("[{}]", paired.join(", ")))?;
    }
    Ok(written)
}

impl Axis {
    fn of_one(name: String, steps: Vec<Step>) -> Axis {
        Axis { names: vec![name], steps }
    }

    /// The values on one of its names, as a list in a file.
    fn list(&self, place: usize) -> String {
        let values: Vec<String> = self.steps.iter().map(|step| step.text(place)).collect();
        format!("[{}]", values.join(", "))
    }
}

impl Step {
    /// The name of the variant, where the step is one.
    fn variant(&self) -> Option<&str> {
        match (&self.change, &self.shown[..]) {
            (Change::Merge(..), [Cell::Text(name)]) => Some(name),
            _ => None,
        }
    }

    /// The value on one of the names as it stands in a list of a sweep.
    fn text(&self, place: usize) -> String {
        match &self.change {
            Change::Set(values) => values[place].inline(),
            Change::Presets(_) | Change::Merge(..) => quoted(&self.shown[place].to_string()),
        }
    }
}

/// A text as a key or a value of TOML.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The axes under `[variant.AXIS.NAME]`.
fn variants(tree: &mut Tree) -> Result<Vec<Axis>, Error> {
    let Some(mut table) = tree.take("variant") else { return Ok(Vec::new()) };
    refuse_no_table(&table, "variant.AXIS.NAME")?;
    let mut axes = Vec::new();
    for name in names(&table) {
        let mut steps = Vec::new();
        let Some(mut variants) = table.take(&name) else { continue };
        if names(&variants).is_empty() {
            let refusal = variants.refuse("", format!("the axis `{name}` has no variants"));
            return Err(refusal.accepts("one table [variant.AXIS.NAME] or more").into());
        }
        for variant in names(&variants) {
            let Some(mut change) = variants.take(&variant) else { continue };
            let presets = take_preset_names(&mut change)?;
            let change = Change::Merge(change, presets);
            steps.push(Step { shown: vec![variant.into()], change });
        }
        axes.push(Axis::of_one(name, steps));
    }
    Ok(axes)
}

/// The axes under `[sweep]`: a list of values for a key, of presets, or lists that advance together.
fn sweeps(tree: &mut Tree) -> Result<Vec<Axis>, Error> {
    let Some(table) = tree.take("sweep") else { return Ok(Vec::new()) };
    refuse_no_table(&table, "sweep")?;
    let mut axes = Vec::new();
    for (name, list) in table.root().entries().into_iter().flatten() {
        let values = list.elements().unwrap_or(std::slice::from_ref(list));
        if values.is_empty() {
            return Err(no_values(&table, &quoted(name), name).into());
        }
        if name == PAIRED {
            for group in values {
                axes.push(pair(&table, group)?);
            }
            continue;
        }
        let step = |value: &Node| {
            let shown = cell(value);
            let change = match (name, &shown) {
                ("preset", Cell::Text(text)) => Change::Presets(split_presets(text).collect()),
                _ => Change::Set(vec![value.clone()]),
            };
            Step { shown: vec![shown], change }
        };
        axes.push(Axis::of_one(name.to_owned(), values.iter().map(step).collect()));
    }
    Ok(axes)
}

/// Refuses a value where tables are read.
fn refuse_no_table(table: &Tree, header: &str) -> Result<(), SpecError> {
    match table.root().entries() {
        Some(_) => Ok(()),
        None => {
            let refusal = table.refuse("", format!("{} does not fit", table.root().inline()));
            Err(refusal.accepts(format!("tables under [{header}]")))
        }
    }
}

/// The refusal of an empty list, which would leave a study without a point.
fn no_values(tree: &Tree, path: &str, name: &str) -> SpecError {
    let refusal = tree.refuse(path, format!("{name} = [] gives it no value"));
    refusal.value("[]".to_owned()).accepts("a value, or a list of one value or more")
}

/// One axis of lists that advance together.
fn pair(table: &Tree, group: &Node) -> Result<Axis, Error> {
    let refuse = |message: &str| Error::from(table.refuse(PAIRED, message));
    let lists: Vec<(&str, &[Node])> = group
        .entries()
        .map(|lists| lists.map(|(name, list)| (name, list.elements().unwrap_or_default())))
        .ok_or_else(|| refuse("lists that advance together stand in a table, a key for each"))?
        .collect();
    let count = lists.first().map_or(0, |(_, list)| list.len());
    if count == 0 || lists.iter().any(|(_, list)| list.len() != count) {
        let counts = lists.iter().map(|(name, list)| format!("{name} has {}", list.len()));
        let counts = counts.collect::<Vec<_>>().join(", ");
        return Err(refuse(&format!("lists that advance together are equally long: {counts}")));
    }
    let step = |index: usize| {
        let values: Vec<Node> = lists.iter().map(|(_, list)| list[index].clone()).collect();
        Step { shown: values.iter().map(cell).collect(), change: Change::Set(values) }
    };
    let names = lists.iter().map(|(name, _)| (*name).to_owned()).collect();
    Ok(Axis { names, steps: (0..count).map(step).collect() })
}

/// An axis from an override that gives a list where the file has one value.
fn several(tree: &Tree, key: &str, value: &str) -> Result<Option<Axis>, Error> {
    let single = |node: &Node| node.elements().is_none() && node.entries().is_none();
    if !value.starts_with('[') || !tree.get(key).is_some_and(single) {
        return Ok(None);
    }
    let mut scratch = Tree::parse("", "")?;
    scratch.set(key, value)?;
    // A text that only looks like a list is a text, and is refused as one where it is read.
    let Some(values) = scratch.get(key).and_then(Node::elements) else { return Ok(None) };
    if values.is_empty() {
        return Err(no_values(&scratch, key, key).into());
    }
    let step =
        |value: &Node| Step { shown: vec![cell(value)], change: Change::Set(vec![value.clone()]) };
    Ok(Some(Axis::of_one(key.to_owned(), values.iter().map(step).collect())))
}

fn names(table: &Tree) -> Vec<String> {
    table.root().entries().into_iter().flatten().map(|(name, _)| name.to_owned()).collect()
}

/// A value as it stands in a column.
fn cell(value: &Node) -> Cell {
    let text = value.text();
    match (value.as_str(), text.parse::<f64>()) {
        (None, Ok(number)) => number.into(),
        _ => text.into(),
    }
}

/// An override of a swept key, or of the name of a variant axis, picks from the axis instead of
/// being overwritten by it. Returns whether there is such an axis.
fn narrow(axes: &mut [Axis], key: &str, value: &str) -> Result<bool, Error> {
    let place = |axis: &Axis| axis.names.iter().position(|name| name == key);
    let Some((axis, place)) =
        axes.iter_mut().find_map(|axis| place(axis).map(|place| (axis, place)))
    else {
        return Ok(false);
    };
    let mut scratch = Tree::parse("", "")?;
    scratch.set(key, value)?;
    let wanted = scratch
        .get(key)
        .map(|chosen| chosen.elements().map_or_else(|| vec![chosen.clone()], <[Node]>::to_vec));
    let free = axis.names.len() == 1
        && axis.steps.iter().all(|step| matches!(step.change, Change::Set(..)));
    let mut steps = Vec::new();
    for value in wanted.unwrap_or_default() {
        let shown = cell(&value);
        let found = axis.steps.iter().filter(|step| step.shown[place] == shown).cloned();
        let before = steps.len();
        steps.extend(found);
        if steps.len() == before && free {
            steps.push(Step { shown: vec![shown], change: Change::Set(vec![value]) });
        } else if steps.len() == before {
            let names = axis.steps.iter().map(|step| step.shown[place].to_string()).collect();
            let (axis, value) = (key.to_owned(), shown.to_string());
            return Err(Error::UnknownVariant { axis, value, names });
        }
    }
    if steps.is_empty() {
        return Err(no_values(&scratch, key, key).into());
    }
    axis.steps = steps;
    Ok(true)
}

/// What a point chose on an axis, and the layers of the tree that come from that.
struct Label<'a> {
    layers: Range<u32>,
    axis: &'a Axis,
    step: &'a Step,
}

/// Refuses a point whose label names a part that does not run: something laid over its step chose
/// another in its place.
fn refuse_other_parts(tree: &Tree, resolved: &Tree, labels: &[Label<'_>]) -> Result<(), SpecError> {
    for replaced in tree.replaced(resolved) {
        let label = labels.iter().find(|label| label.layers.contains(&replaced.layer));
        let Some(Label { axis, step, .. }) = label else { continue };
        let (part, by) = (&replaced.part.0, &replaced.by.0);
        let label =
            axis.names.iter().zip(&step.shown).map(|(name, cell)| format!("{name} = {cell}"));
        let label = label.collect::<Vec<_>>().join(", ");
        let message = format!(
            "`{by}` here takes the place of `{part}`, which {label} chose at {}: its rows would be \
             those of another part",
            replaced.part.1
        );
        let narrowed = axis.names.first().map_or("", String::as_str);
        return Err(tree
            .refuse(&replaced.path, message)
            .value(by.clone())
            .accepts(format!(
                "settings of `{part}`, or this with `{narrowed}` narrowed to where `{by}` runs"
            ))
            .at(&replaced.by.1));
    }
    Ok(())
}
