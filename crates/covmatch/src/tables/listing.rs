//! A table of facts that are not ranked: steps, seconds, bytes. Every value is text already.

use super::sheet::{Sheet, Shown};

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
        self.sheet().text()
    }

    /// For Markdown as GitHub reads it.
    pub fn markdown(&self) -> String {
        self.sheet().markdown()
    }

    /// For a page: a `<table>` with headers for both directions.
    pub fn html(&self) -> String {
        self.sheet().html()
    }

    fn sheet(&self) -> Sheet<'_> {
        let shown = |value: &String| Shown { value: value.clone(), ..Shown::default() };
        let cell = |values: &[Option<String>], column: usize| values.get(column)?.as_ref().map(shown);
        let cells = |values: &[_]| (0..self.columns.len()).map(|column| cell(values, column)).collect();
        let rows = self.rows.iter().map(|(label, values)| (label.as_str(), cells(values))).collect();
        Sheet { columns: &self.columns, rows }
    }
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
        assert_eq!(html.matches("<td><span class=\"missing\">–</span></td>").count(), 1);
    }
}
