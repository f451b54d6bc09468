//! Tables in which a document compares the systems of a family: what it prints for each, and the
//! corresponding values here, from the composition or from a run.

use serde_json::Value;

use crate::catalogue;
use crate::error::Error;
use crate::experiment::Beside;
use crate::plan::Plan;
use crate::reproduce::{family, matches};
use crate::source::Request;
use crate::spec::Tree;
use crate::study::{self, Options, Outcome};
use crate::table::{Cell, Table};

/// Shown where a document prints nothing, or a system has no value.
const NOTHING: &str = "-";

/// One row: what the document prints and what Weft has for each system, by its place in the family.
struct Row {
    table: String,
    row: String,
    cells: Vec<(String, String)>,
    notes: Vec<String>,
}

/// The rows of all tables of a family, in the order in which its experiments name them.
pub(crate) struct Rows {
    systems: Vec<String>,
    rows: Vec<Row>,
}

impl Rows {
    pub fn new(systems: &[&str]) -> Rows {
        Rows { systems: systems.iter().map(|name| (*name).to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds the rows of an experiment.
    pub fn add(&mut self, system: &str, outcome: &Outcome) {
        let Some(place) = self.systems.iter().position(|name| name == system) else { return };
        let own = outcome.plan.points.first().map(|point| point.spec.beside.as_slice());
        for beside in own.unwrap_or_default() {
            let is_same = |row: &&mut Row| row.table == beside.table && row.row == beside.row;
            let found = match self.rows.iter_mut().find(is_same) {
                Some(row) => row,
                None => {
                    let nothing = (NOTHING.to_owned(), NOTHING.to_owned());
                    self.rows.push(Row {
                        table: beside.table.clone(),
                        row: beside.row.clone(),
                        cells: vec![nothing; self.systems.len()],
                        notes: Vec::new(),
                    });
                    let last = self.rows.len() - 1;
                    &mut self.rows[last]
                }
            };
            found.cells[place] = (beside.printed.clone(), here(beside, outcome));
            if !beside.note.is_empty() && !found.notes.contains(&beside.note) {
                found.notes.push(beside.note.clone());
            }
        }
    }

    /// One row each, with two columns for each system, and the notes.
    pub fn into_table(mut self) -> Table {
        // Stable, so that the rows of one document table stay in order.
        let order: Vec<String> = self.rows.iter().map(|row| row.table.clone()).collect();
        self.rows.sort_by_key(|row| order.iter().position(|table| *table == row.table));
        let mut table = Table::new();
        for row in self.rows {
            let mut cells = vec![("table".to_owned(), row.table), ("row".to_owned(), row.row)];
            for (system, (printed, here)) in self.systems.iter().zip(row.cells) {
                cells.push((format!("printed_{system}"), printed));
                cells.push((format!("here_{system}"), here));
            }
            cells.push(("note".to_owned(), row.notes.join("; ")));
            table.push(cells.into_iter().map(|(name, text)| (name, Cell::Text(text))));
        }
        table
    }
}

/// The values for one row: parameters as they are written in the composition, or numbers of the
/// points, the least and the greatest if there are several.
fn here(beside: &Beside, outcome: &Outcome) -> String {
    let of_tree = |key: &String| parameter(&outcome.plan.first, key);
    let mut parts: Vec<String> = beside.parameters.iter().filter_map(of_tree).collect();
    if let Some(quantity) = &beside.quantity {
        let points = outcome.table("points");
        let rows = (0..points.rows()).filter(|row| matches(&points, *row, &beside.at));
        let mut values: Vec<f64> = rows.filter_map(|row| points.number(row, quantity)).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let unit = crate::describe::unit(quantity);
        let ends = [values.first(), values.last()].map(|end| end.map(|value| digits(*value)));
        match ends {
            [Some(least), Some(most)] if least != most => {
                parts.push(format!("{least} to {most} {unit}"));
            }
            [Some(least), _] => parts.push(format!("{least} {unit}")),
            _ => {}
        }
    }
    if parts.is_empty() { NOTHING.to_owned() } else { parts.join(", ") }
}

fn digits(value: f64) -> String {
    if value >= 1000.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// A parameter as it is written: a value, or the name of the part that was chosen.
fn parameter(tree: &Tree, key: &str) -> Option<String> {
    let node = tree.get(key)?;
    match node.entries() {
        Some(mut entries) => entries.next().map(|(name, _)| name.to_owned()),
        None => Some(node.text()),
    }
}

/// The side-by-side tables of a family; runs the experiments with rows in them.
///
/// # Errors
/// What keeps an experiment from being planned or run.
pub fn side_by_side(name: &str, options: &Options) -> Result<Table, Error> {
    let systems = family(name);
    if systems.is_empty() {
        return Err(Error::unknown_system(name));
    }
    let mut rows = Rows::new(&systems);
    for experiment in catalogue::experiments()? {
        if !systems.contains(&experiment.system.as_str()) {
            continue;
        }
        let request = options.apply(&Request::new(&experiment.name, None, &[]));
        let plan = Plan::new(&request)?;
        if plan.points.first().is_some_and(|point| !point.spec.beside.is_empty()) {
            let outcome = study::carry_out(plan, options, &mut |_, _| true)?;
            rows.add(&experiment.system, &outcome);
        }
    }
    Ok(rows.into_table())
}

/// The titles of the systems of a family, for the heads of a table.
pub(crate) fn titles(systems: &[&str]) -> Result<serde_json::Map<String, Value>, Error> {
    let title = |name: &&str| {
        let shown = catalogue::show(&Request::new(name, None, &[]))?;
        Ok(((*name).to_owned(), Value::String(shown.title)))
    };
    systems.iter().map(title).collect()
}
