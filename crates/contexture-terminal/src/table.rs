//! Tables without lines.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// Returns an empty table; `right` are the columns with numbers.
pub fn table(header: &[&str], right: &[usize]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header.iter().copied());
    for &i in right {
        if let Some(column) = table.column_mut(i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Returns a table without blanks at the ends of its lines.
pub fn plain(table: &Table) -> String {
    table
        .to_string()
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}
