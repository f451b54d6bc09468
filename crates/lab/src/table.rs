//! Tables of named columns: the result of every run, sweep and comparison.

use std::fmt;

use serde::Serialize;

/// A table of named columns of equal length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    columns: Vec<Column>,
}

/// One column: a name that carries its unit, and the values.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// What it is, with the unit at the end of the name (`queueing_mean_us`).
    pub name: String,
    /// The values, one per row.
    pub data: Data,
}

/// The values of a column. A missing number is NaN, a missing text is empty.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Numbers.
    Number(Vec<f64>),
    /// Texts.
    Text(Vec<String>),
}

/// One value of a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// A number; `None` where there is none.
    Number(Option<f64>),
    /// A text.
    Text(String),
}

impl Table {
    /// A table without columns.
    pub fn new() -> Table {
        Table::default()
    }

    /// The columns in order.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.data.len())
    }

    /// Adds a column, truncated or padded to the number of rows.
    pub fn add(&mut self, name: &str, mut data: Data) {
        if !self.columns.is_empty() {
            data.pad(self.rows());
        }
        self.columns.push(Column { name: name.to_owned(), data });
    }

    /// Keeps the columns for which `keep` returns `true`.
    pub fn retain(&mut self, keep: impl FnMut(&Column) -> bool) {
        self.columns.retain(keep);
    }

    /// Moves a column to the end, if it exists.
    pub fn move_last(&mut self, name: &str) {
        if let Some(place) = self.columns.iter().position(|column| column.name == name) {
            let column = self.columns.remove(place);
            self.columns.push(column);
        }
    }

    /// Appends a row. A name that is new becomes a column, empty in the rows before; a column that
    /// the row does not name is empty in it.
    pub fn push<N: AsRef<str>>(&mut self, row: impl IntoIterator<Item = (N, Cell)>) {
        let rows = self.rows();
        for (name, cell) in row {
            let name = name.as_ref();
            let place = self.columns.iter().position(|column| column.name == name);
            let place = place.unwrap_or_else(|| {
                let data = match cell {
                    Cell::Number(_) => Data::Number(vec![f64::NAN; rows]),
                    Cell::Text(_) => Data::Text(vec![String::new(); rows]),
                };
                self.columns.push(Column { name: name.to_owned(), data });
                self.columns.len() - 1
            });
            self.columns[place].data.push(cell);
        }
        for column in &mut self.columns {
            column.data.pad(rows + 1);
        }
    }

    /// The value in a row of a named column; `None` if there is no such column or row.
    pub fn get(&self, row: usize, name: &str) -> Option<Cell> {
        let column = self.columns.iter().find(|column| column.name == name)?;
        match &column.data {
            Data::Number(values) => {
                values.get(row).map(|value| Cell::Number((!value.is_nan()).then_some(*value)))
            }
            Data::Text(values) => values.get(row).cloned().map(Cell::Text),
        }
    }

    /// The number in a row of a named column, if it is there and is one.
    pub fn number(&self, row: usize, name: &str) -> Option<f64> {
        match self.get(row, name)? {
            Cell::Number(value) => value,
            Cell::Text(_) => None,
        }
    }
}

impl Data {
    /// Whether any value is neither zero, missing nor an empty text.
    pub fn says_something(&self) -> bool {
        match self {
            Data::Number(values) => values.iter().any(|value| !value.is_nan() && *value != 0.0),
            Data::Text(values) => values.iter().any(|text| !text.is_empty()),
        }
    }

    fn len(&self) -> usize {
        match self {
            Data::Number(values) => values.len(),
            Data::Text(values) => values.len(),
        }
    }

    /// A column that began with texts writes later numbers as texts; a column of numbers that is
    /// given a text becomes a column of texts.
    fn push(&mut self, cell: Cell) {
        match (&mut *self, cell) {
            (Data::Number(values), Cell::Number(value)) => values.push(value.unwrap_or(f64::NAN)),
            (Data::Text(values), Cell::Text(text)) => values.push(text),
            (Data::Text(values), Cell::Number(value)) => {
                values.push(value.map_or_else(String::new, |value| value.to_string()));
            }
            (Data::Number(values), Cell::Text(text)) => {
                let mut texts: Vec<String> = values
                    .iter()
                    .map(|value| if value.is_nan() { String::new() } else { value.to_string() })
                    .collect();
                texts.push(text);
                *self = Data::Text(texts);
            }
        }
    }

    fn pad(&mut self, rows: usize) {
        match self {
            Data::Number(values) => values.resize(rows, f64::NAN),
            Data::Text(values) => values.resize(rows, String::new()),
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Number(Some(value)) => value.fmt(f),
            Cell::Number(None) => Ok(()),
            Cell::Text(text) => f.pad(text),
        }
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Cell {
        Cell::Number(Some(value))
    }
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Cell {
        Cell::Number(value)
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Cell {
        Cell::Number(Some(value as f64))
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::{Cell, Table};

    #[test]
    fn rows_may_name_different_columns() {
        let mut table = Table::new();
        table.push([("load", Cell::from(0.1)), ("name", "a".into())]);
        table.push([("load", Cell::from(0.2)), ("wait_us", 3.0.into())]);
        assert_eq!(table.rows(), 2);
        assert_eq!(table.number(0, "wait_us"), None);
        assert_eq!(table.number(1, "wait_us"), Some(3.0));
        assert_eq!(table.get(1, "name"), Some(Cell::Text(String::new())));
        assert_eq!(table.get(2, "load"), None);
    }

    #[test]
    fn a_column_of_mixed_values_becomes_text() {
        let mut table = Table::new();
        table.push([("at", Cell::from(0.5))]);
        table.push([("at", Cell::from("B1"))]);
        assert_eq!(table.get(0, "at"), Some(Cell::Text("0.5".into())));
        assert_eq!(table.get(1, "at"), Some(Cell::Text("B1".into())));
    }
}
