//! Cells in columns, for a terminal.

/// Rows of cells as lines: the first `left` columns are aligned to the left, the others to the right.
pub fn aligned(rows: &[Vec<String>], left: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cells = |column: usize| rows.iter().filter_map(move |row| row.get(column));
    let widths: Vec<usize> =
        (0..columns).map(|column| cells(column).map(|cell| width(cell)).max().unwrap_or(0)).collect();
    let padded = |(column, cell): (usize, &String)| {
        let width = widths[column];
        if column < left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
    };
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().enumerate().map(padded).collect();
        cells.join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// Characters, which is what a terminal's columns are for the text used here.
pub(super) fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [["name", "kind", "size"], ["a", "of b", "7"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(aligned(&rows, 2), "name  kind  size\na     of b     7\n");
    }

    #[test]
    fn a_short_row_ends_early() {
        let rows = [vec!["±".to_owned(), "12".to_owned()], vec!["title".to_owned()]];
        assert_eq!(aligned(&rows, 1), "±      12\ntitle\n");
    }
}
