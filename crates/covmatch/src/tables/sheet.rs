//! A table as it is shown: every cell is text already, whatever it stands for.

use askama::Template;

use super::aligned::{aligned, width};
use super::escape::markdown_text;

/// What stands where nothing is known.
const MISSING: &str = "–";

/// A labelled row of cells for each thing, and a name for each column.
#[derive(Template)]
#[template(path = "table.html")]
pub(super) struct Sheet<'a> {
    /// The names of the columns.
    pub columns: &'a [String],
    /// A label and a cell for each column; `None` where nothing is known.
    pub rows: Vec<(&'a str, Vec<Option<Shown>>)>,
}

/// A cell as it is shown.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    /// The value.
    pub value: String,
    /// What stands behind it, aligned by itself; empty if there is none.
    pub spread: String,
    /// Whether it is the best of its column.
    pub best: bool,
}

impl Sheet<'_> {
    /// For a terminal: labels to the left, values and spreads to the right, one row a line.
    pub fn text(&self) -> String {
        let columns: Vec<Halves> = (0..self.columns.len()).map(|column| Halves::of(self, column)).collect();
        let mut lines = vec![line("", self.columns.iter().cloned())];
        for (label, cells) in &self.rows {
            lines.push(line(label, cells.iter().zip(&columns).map(|(cell, halves)| halves.cell(cell.as_ref()))));
        }
        aligned(&lines, 1)
    }

    /// For Markdown as GitHub reads it; the best of a column is bold.
    pub fn markdown(&self) -> String {
        let names = self.columns.iter().map(|name| format!(" {} |", markdown_text(name)));
        let mut text = format!("| |{}\n|:--|{}\n", names.collect::<String>(), "--:|".repeat(self.columns.len()));
        for (label, cells) in &self.rows {
            let cells: String = cells.iter().map(|cell| format!(" {} |", markdown_cell(cell.as_ref()))).collect();
            text.push_str(&format!("| {} |{cells}\n", markdown_text(label)));
        }
        text
    }

    /// For a page: a `<table>` with headers for both directions; the best of a column is bold.
    pub fn html(&self) -> String {
        self.to_string()
    }
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
    fn of(sheet: &Sheet<'_>, column: usize) -> Self {
        let cells = || sheet.rows.iter().filter_map(move |(_, cells)| cells.get(column)?.as_ref());
        let value = cells().map(|cell| width(&cell.value)).max().unwrap_or(0).max(width(MISSING));
        let spread = cells().map(|cell| width(&cell.spread)).max().unwrap_or(0);
        Self { value, spread }
    }

    fn cell(&self, cell: Option<&Shown>) -> String {
        let (value, spread) = cell.map_or((MISSING, ""), |cell| (&cell.value, &cell.spread));
        let gap = usize::from(self.spread > 0);
        format!("{value:>0$}{1:gap$}{spread:>2$}", self.value, "", self.spread)
    }
}
