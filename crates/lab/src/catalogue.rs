//! The shipped systems and experiments, and the contents of a composition.

use serde::Serialize;
use serde_json::Value;

use crate::composition::Spec;
use crate::error::Error;
use crate::keys::{self, describe};
use crate::plan::{Outline, Plan};
use crate::shape::{Shape, shape};
use crate::shipped;
use crate::source::Request;
use crate::spec::{Origin, schema as schema_of};

/// A shipped interconnect.
#[derive(Clone, Debug, Serialize)]
pub struct SystemEntry {
    /// Its name in requests.
    pub name: String,
    /// Its title.
    pub title: String,
    /// The document that describes it.
    pub document: String,
    /// How many hosts it connects.
    pub hosts: u32,
    /// Its channels.
    pub channels: Vec<String>,
    /// Its named presets.
    pub presets: Vec<String>,
}

/// A shipped experiment.
#[derive(Clone, Debug, Serialize)]
pub struct ExperimentEntry {
    /// Its name in requests.
    pub name: String,
    /// One line.
    pub title: String,
    /// The system that it is run on.
    pub system: String,
    /// Where the document shows it.
    pub section: String,
    /// How many points it has.
    pub points: usize,
}

/// A composition with all its parameters.
#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    /// Its title.
    pub title: String,
    /// The document that `stated` origins refer to.
    pub document: String,
    /// The presets that were merged.
    pub presets: Vec<String>,
    /// The presets.
    pub offers: Vec<String>,
    /// Every value and every choice of a part, in file order.
    pub parameters: Vec<Parameter>,
    /// The shape, for a picture.
    pub composition: Shape,
}

/// One parameter, or one choice of a part.
#[derive(Clone, Debug, Serialize)]
pub struct Parameter {
    /// The dotted key.
    pub key: String,
    /// Its value; for a choice, the part that was chosen.
    pub value: String,
    /// Where the value comes from.
    pub origin: Option<Origin>,
    /// What it means: the documentation of the field in the part that reads it.
    pub description: String,
    /// Whether it is a choice among parts.
    pub choice: bool,
}

/// The shipped interconnects.
pub fn systems() -> Result<Vec<SystemEntry>, Error> {
    shipped::systems().map(system).collect()
}

/// The shipped experiments.
pub fn experiments() -> Result<Vec<ExperimentEntry>, Error> {
    shipped::experiments().map(experiment).collect()
}

/// A composition with every parameter, its origin and its meaning. For a study, the composition of
/// its first point; overrides choose another one on its axes (`architecture=B1`).
pub fn show(request: &Request) -> Result<Shown, Error> {
    let plan = Plan::new(request)?;
    let offers = request.read()?.tree.presets().into_iter().map(str::to_owned).collect();
    let (spec, tree) = plan.first.resolve::<Spec>()?;
    let schema = schema();
    let parameters = tree.leaves().into_iter().map(|leaf| Parameter {
        description: describe(&schema, &leaf.path).unwrap_or_default(),
        key: leaf.path,
        value: leaf.value_text,
        origin: leaf.origin,
        choice: leaf.choice,
    });
    Ok(Shown {
        parameters: parameters.collect(),
        composition: shape(&spec),
        title: spec.system.title,
        document: spec.system.document,
        presets: plan.presets,
        offers,
    })
}

/// The JSON schema of composition and experiment files.
pub fn schema() -> Value {
    schema_of::<Spec>()
}

fn system(name: &str) -> Result<SystemEntry, Error> {
    let source = Request::new(name, None, &[]).read()?;
    let presets = source.tree.presets().into_iter().map(str::to_owned).collect();
    let spec = keys::read(&source.tree.without_presets())?;
    Ok(SystemEntry {
        name: name.to_owned(),
        title: spec.system.title,
        document: spec.system.document,
        hosts: spec.system.hosts,
        channels: spec.channel.into_keys().collect(),
        presets,
    })
}

fn experiment(name: &str) -> Result<ExperimentEntry, Error> {
    let study = Outline::new(&Request::new(name, None, &[]))?;
    let settings = study.first.experiment;
    Ok(ExperimentEntry {
        name: name.to_owned(),
        title: settings.title,
        system: study.system,
        section: settings.section,
        points: study.points,
    })
}
