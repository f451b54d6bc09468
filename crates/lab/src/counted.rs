//! Which rows of a table of checks count: a number that a document prints once counts once, however
//! many settings and readings it is compared with.

use std::collections::BTreeMap;

use crate::experiment::Kind;
use crate::table::{Data, Table};

/// Verdicts from the best to the worst. Among the rows of one printed number or statement the worst
/// counts: it is reproduced if it is reproduced wherever it was judged.
const BEST_TO_WORST: [&str; 5] = ["report", "within", "undecided", "missed", "outside"];

/// Adds the columns `counted` (1 in one row of each printed number or statement, else 0) and
/// `also` (other experiments in which the same one stands).
pub fn mark(checks: &mut Table) {
    let mut printed: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for row in 0..checks.rows() {
        printed.entry(identity(checks, row)).or_default().push(row);
    }
    let mut counted = vec![0.0; checks.rows()];
    let mut also = vec![String::new(); checks.rows()];
    for rows in printed.values() {
        let worst = rows.iter().rev().max_by_key(|row| {
            // A run says more than arithmetic on the same number.
            (badness(checks, **row), is_of_kind(checks, **row, Kind::Number))
        });
        if let Some(worst) = worst {
            counted[*worst] = 1.0;
        }
        for row in rows {
            also[*row] = others(checks, *row, rows);
        }
    }
    checks.add("counted", Data::Number(counted));
    checks.add("also", Data::Text(also));
}

/// What makes two rows one: the same number, or the same words, from the same section of a
/// document. A row that compares with nothing printed stands for itself.
fn identity(checks: &Table, row: usize) -> String {
    let is = |kind| is_of_kind(checks, row, kind);
    let columns: &[&str] = if [Kind::Number, Kind::Calibrated, Kind::ClosedForm].into_iter().any(is)
    {
        &["system", "section", "published"]
    } else if is(Kind::Statement) || is(Kind::Computed) {
        &["kind", "system", "section", "statement"]
    } else {
        &["kind", "experiment", "quantity", "at"]
    };
    columns.iter().map(|column| text(checks, row, column)).collect::<Vec<_>>().join("\n")
}

fn is_of_kind(checks: &Table, row: usize, kind: Kind) -> bool {
    text(checks, row, "kind") == kind.to_string()
}

fn badness(checks: &Table, row: usize) -> Option<usize> {
    let verdict = text(checks, row, "verdict");
    BEST_TO_WORST.iter().position(|known| *known == verdict)
}

/// The experiments of some rows, except one.
fn others(checks: &Table, row: usize, rows: &[usize]) -> String {
    let own = text(checks, row, "experiment");
    let mut names: Vec<String> = Vec::new();
    for name in rows.iter().map(|row| text(checks, *row, "experiment")) {
        if name != own && !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

fn text(checks: &Table, row: usize, column: &str) -> String {
    checks.get(row, column).map_or_else(String::new, |cell| cell.to_string())
}

#[cfg(test)]
mod tests {
    use super::mark;
    use crate::table::{Cell, Table};

    type Row = (&'static str, &'static str, &'static str, Option<f64>, &'static str, &'static str);

    /// Rows of (experiment, kind, section, number, statement, verdict) with what is added to them.
    fn marked(rows: &[Row]) -> Vec<(Option<f64>, String)> {
        let mut checks = Table::new();
        for (experiment, kind, section, published, statement, verdict) in rows {
            checks.push([
                ("system", Cell::from("clint")),
                ("experiment", (*experiment).into()),
                ("quantity", "queueing_mean_us".into()),
                ("at", "single".into()),
                ("kind", (*kind).into()),
                ("section", (*section).into()),
                ("published", (*published).into()),
                ("statement", (*statement).into()),
                ("verdict", (*verdict).into()),
            ]);
        }
        mark(&mut checks);
        let also = |row| checks.get(row, "also").map_or_else(String::new, |cell| cell.to_string());
        (0..checks.rows()).map(|row| (checks.number(row, "counted"), also(row))).collect()
    }

    fn counted(rows: &[Row]) -> Vec<bool> {
        marked(rows).iter().map(|(counted, _)| *counted == Some(1.0)).collect()
    }

    #[test]
    fn a_number_that_stands_in_two_experiments_counts_once_where_it_is_judged() {
        let all = marked(&[
            ("figure-8", "number", "Table 2", Some(7.4), "", "report"),
            ("table-2", "number", "Table 2", Some(7.4), "", "within"),
            ("table-2", "number", "Table 2", Some(10.5), "", "within"),
        ]);
        let expected = [(0.0, "table-2"), (1.0, "figure-8"), (1.0, "")];
        assert_eq!(all, expected.map(|(counted, also)| (Some(counted), also.to_owned())));
    }

    #[test]
    fn arithmetic_on_a_number_that_was_run_too_does_not_count() {
        let all = [
            ("x", "closed form", "4.2", Some(21.8), "", "within"),
            ("y", "number", "4.2", Some(21.8), "", "within"),
            ("x", "closed form", "4.3", Some(67.0), "", "within"),
        ];
        assert_eq!(counted(&all), [false, true, true]);
    }

    #[test]
    fn of_several_settings_the_worst_counts() {
        let judged = |verdict| ("x", "number", "4.2", Some(0.35), "", verdict);
        let rows = ["within", "undecided", "report", "outside", "missed"].map(judged);
        assert_eq!(counted(&rows), [false, false, false, true, false]);
        assert_eq!(counted(&rows[..3]), [false, true, false]);
    }

    #[test]
    fn the_same_number_elsewhere_in_the_document_is_another() {
        let at = |section| ("x", "number", section, Some(11.0), "", "within");
        assert_eq!(counted(&["Table 2", "4.2"].map(at)), [true, true]);
    }

    #[test]
    fn statements_are_told_apart_by_their_words() {
        let says = |words| ("x", "statement", "4.2", None, words, "within");
        assert_eq!(counted(&["B1 saturates", "B1 saturates", "B2"].map(says)), [true, false, true]);
    }

    #[test]
    fn what_is_not_printed_is_told_apart_by_where_it_stands() {
        let of = |experiment| (experiment, "unprinted", "", None, "", "report");
        assert_eq!(counted(&["x", "x", "y"].map(of)), [true, false, true]);
    }
}
