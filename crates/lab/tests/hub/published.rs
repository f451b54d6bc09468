//! Every judged number of both generations is within its band.

use weft_lab::{Options, reproduce};

#[test]
fn both_generations_are_reproduced() {
    let all = reproduce("memory-channel", &Options::default(), &mut |_, _, _| true)
        .unwrap_or_else(|error| panic!("{error}"));
    let checks =
        all.summary.tables.into_iter().find(|(name, _)| *name == "checks").expect("checks").1;
    let text = |row: usize, column: &str| {
        checks.get(row, column).map_or_else(String::new, |cell| cell.to_string())
    };
    let columns = ["verdict", "experiment", "quantity", "at", "published", "measured", "error"];
    let rows: Vec<String> =
        (0..checks.rows()).map(|row| columns.map(|column| text(row, column)).join(" | ")).collect();
    println!("{}", rows.join("\n"));
    assert!(rows.len() > 15, "{}", rows.len());
    assert!(rows.iter().all(|row| !row.starts_with("outside")), "{}", rows.join("\n"));
}
