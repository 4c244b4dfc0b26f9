//! A table of facts that are not ranked: steps, seconds, bytes. Every value is text already.

use super::embed::escape;
use super::table::{MISSING, html_table, markdown_text, width};

/// Labelled rows of values; `None` where nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// A label and a value for each column.
    pub rows: Vec<(String, Vec<Option<String>>)>,
}

impl Listing {
    /// For a terminal: labels to the left, values to the right of their columns.
    pub fn text(&self) -> String {
        let labels = self.rows.iter().map(|(label, _)| width(label)).max().unwrap_or(0);
        let widest = |c: usize| self.rows.iter().map(|(_, values)| width(shown(values, c))).max().unwrap_or(0);
        let widths: Vec<usize> = self.columns.iter().enumerate().map(|(c, name)| widest(c).max(width(name))).collect();
        let line = |label: &str, cell: &dyn Fn(usize) -> String| {
            let cells: String = widths.iter().enumerate().map(|(c, &w)| format!("  {:>w$}", cell(c))).collect();
            format!("{:1$}{cells}", label, labels).trim_end().to_owned() + "\n"
        };
        let head = line("", &|c| self.columns[c].clone());
        let rows: String =
            self.rows.iter().map(|(label, values)| line(label, &|c| shown(values, c).to_owned())).collect();
        head + &rows
    }

    /// For Markdown as GitHub reads it.
    pub fn markdown(&self) -> String {
        let heads: String = self.columns.iter().map(|name| format!(" {} |", markdown_text(name))).collect();
        let mut text = format!("| |{heads}\n|:--|{}\n", "--:|".repeat(self.columns.len()));
        for (label, values) in &self.rows {
            let cell = |c: usize| format!(" {} |", markdown_text(shown(values, c)));
            let cells: String = (0..self.columns.len()).map(cell).collect();
            text.push_str(&format!("| {} |{cells}\n", markdown_text(label)));
        }
        text
    }

    /// For a page: a `<table>` with headers for both directions.
    pub fn html(&self) -> String {
        let cell = |value: &str| format!("<td>{}</td>", escape(value));
        let cells = |values: &[_]| (0..self.columns.len()).map(|c| cell(shown(values, c))).collect();
        html_table(&self.columns, self.rows.iter().map(|(label, values)| (label.as_str(), cells(values))))
    }
}

/// The value of a column as it is shown.
fn shown(values: &[Option<String>], column: usize) -> &str {
    values.get(column).and_then(Option::as_deref).unwrap_or(MISSING)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing() -> Listing {
        let row = |label: &str, values: [Option<&str>; 2]| {
            (label.to_owned(), values.map(|value| value.map(str::to_owned)).to_vec())
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
        assert_eq!(html.matches("<td>–</td>").count(), 1);
    }
}
