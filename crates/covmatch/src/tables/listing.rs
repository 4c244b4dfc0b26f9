//! A table as it is shown: every cell is text already, such as steps, seconds and bytes.

use askama::Template;

use super::aligned::{aligned, width};
use super::escape::markdown_text;

/// What stands where nothing is known.
const MISSING: &str = "–";

/// Labelled rows of cells. A row that is too short has nothing in its last columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// A label and a cell for each column; `None` where nothing is known.
    pub rows: Vec<(String, Vec<Option<Shown>>)>,
}

/// A cell as it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The value.
    pub value: String,
    /// What stands behind it, aligned by itself; empty if there is nothing.
    pub spread: String,
    /// Whether it is the best of its column.
    pub best: bool,
}

impl From<String> for Shown {
    fn from(value: String) -> Self {
        Self { value, ..Self::default() }
    }
}

impl Listing {
    /// For a terminal: labels to the left, values and spreads to the right, one row a line.
    pub fn text(&self) -> String {
        let columns: Vec<Halves> = (0..self.columns.len()).map(|column| Halves::of(self, column)).collect();
        let mut lines = vec![line("", self.columns.iter().cloned())];
        for (label, cells) in &self.rows {
            lines.push(line(label, self.cells(cells).zip(&columns).map(|(cell, halves)| halves.text(cell))));
        }
        aligned(&lines, 1)
    }

    /// For Markdown as GitHub reads it; the best of a column is bold.
    pub fn markdown(&self) -> String {
        let names: String = self.columns.iter().map(|name| format!(" {} |", markdown_text(name))).collect();
        let mut text = format!("| |{names}\n|:--|{}\n", "--:|".repeat(self.columns.len()));
        for (label, cells) in &self.rows {
            let cells: String = self.cells(cells).map(|cell| format!(" {} |", markdown_cell(cell))).collect();
            text.push_str(&format!("| {} |{cells}\n", markdown_text(label)));
        }
        text
    }

    /// For a page: a `<table>` with headers for both directions; the best of a column is bold.
    pub fn html(&self) -> String {
        TableHtml { listing: self }.to_string()
    }

    /// The cells of a row, as many as there are columns.
    fn cells<'a>(&self, row: &'a [Option<Shown>]) -> impl Iterator<Item = Option<&'a Shown>> + use<'a> {
        (0..self.columns.len()).map(|column| row.get(column)?.as_ref())
    }
}

/// A listing in HTML.
#[derive(Template)]
#[template(path = "table.html")]
struct TableHtml<'a> {
    listing: &'a Listing,
}

fn line(label: &str, cells: impl Iterator<Item = String>) -> Vec<String> {
    std::iter::once(label.to_owned()).chain(cells).collect()
}

fn markdown_cell(cell: Option<&Shown>) -> String {
    let Some(Shown { value, spread, best }) = cell else { return MISSING.to_owned() };
    let text = markdown_text(&[value.as_str(), spread].join(" "));
    let text = text.trim_end();
    if *best { format!("**{text}**") } else { text.to_owned() }
}

/// How wide values and spreads of a column are in a terminal.
struct Halves {
    value: usize,
    spread: usize,
}

impl Halves {
    fn of(listing: &Listing, column: usize) -> Self {
        let cells = || listing.rows.iter().filter_map(move |(_, cells)| cells.get(column)?.as_ref());
        let value = cells().map(|cell| width(&cell.value)).max().unwrap_or(0).max(width(MISSING));
        let spread = cells().map(|cell| width(&cell.spread)).max().unwrap_or(0);
        Self { value, spread }
    }

    fn text(&self, cell: Option<&Shown>) -> String {
        let (value, spread) = cell.map_or((MISSING, ""), |cell| (&cell.value, &cell.spread));
        let gap = usize::from(self.spread > 0);
        format!("{value:>0$}{1:gap$}{spread:>2$}", self.value, "", self.spread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing() -> Listing {
        let row = |label: &str, values: [Option<&str>; 2]| {
            (label.to_owned(), values.map(|value| value.map(|value| value.to_owned().into())).to_vec())
        };
        Listing {
            columns: vec!["Steps".into(), "Seconds".into()],
            rows: vec![row("Random", [None, Some("0.2")]), row("<CovMatch>", [Some("10000"), Some("1234.5")])],
        }
    }

    #[test]
    fn values_stand_under_their_columns() {
        let expected =
            concat!("            Steps  Seconds\n", "Random          –      0.2\n", "<CovMatch>  10000   1234.5\n",);
        assert_eq!(listing().text(), expected);
    }

    #[test]
    fn markdown_and_html_have_the_same_cells_and_no_label_breaks_them() {
        assert!(listing().markdown().ends_with("| \\<CovMatch> | 10000 | 1234.5 |\n"), "{}", listing().markdown());
        let html = listing().html();
        assert!(html.contains("<th scope=\"row\">&lt;CovMatch&gt;</th><td>10000</td><td>1234.5</td>"), "{html}");
        assert_eq!(html.matches("<td><span class=\"missing\">–</span></td>").count(), 1);
    }
}
