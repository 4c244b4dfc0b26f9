//! A table of results: methods down, measures across, mean ± standard deviation in each cell.
//!
//! All values have one decimal. The best of a column is its highest mean after rounding, so that values which look the
//! same are marked the same; a column with a single value has no best.

use super::csv_text;
use super::listing::{Listing, Shown};
use crate::retrieval::{Recalls, Spread};

/// A result over one or more repetitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// The mean over the repetitions.
    pub mean: f64,
    /// Their standard deviation; `None` for a single one.
    pub std: Option<f64>,
}

impl Score {
    fn shown(&self, best: bool) -> Shown {
        let spread = self.std.map(|std| format!("± {std:.1}")).unwrap_or_default();
        Shown { value: format!("{:.1}", self.mean), spread, best }
    }

    /// Mean and deviation.
    fn csv(&self) -> (String, String) {
        (format!("{:.1}", self.mean), self.std.map(|std| format!("{std:.1}")).unwrap_or_default())
    }
}

/// The results of one method.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The name of the method.
    pub label: String,
    /// A score for each column; `None` where nothing was measured.
    pub scores: Vec<Option<Score>>,
}

impl Row {
    /// The recalls `spread` under `label`, in the order of [`Recalls::NAMES`]; without a spread nothing was measured.
    pub fn of(label: impl Into<String>, spread: Option<&Spread>) -> Self {
        let score = |spread: &Spread, i: usize| Score { mean: spread.mean[i], std: spread.std.map(|std| std[i]) };
        let scores = (0..Recalls::NAMES.len()).map(|i| spread.map(|spread| score(spread, i))).collect();
        Self { label: label.into(), scores }
    }
}

/// Results of which higher ones are better. A row that is too short counts as not measured in its last columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The names of the measures.
    pub columns: Vec<String>,
    /// The methods.
    pub rows: Vec<Row>,
}

impl Table {
    /// The table of recalls.
    pub fn of_recalls(rows: Vec<Row>) -> Self {
        Self { columns: Recalls::NAMES.map(str::to_owned).to_vec(), rows }
    }

    /// For a terminal: aligned at the decimal points, one row a line.
    pub fn text(&self) -> String {
        self.listing().text()
    }

    /// For Markdown as GitHub reads it; the best of a column is bold.
    pub fn markdown(&self) -> String {
        self.listing().markdown()
    }

    /// For a page: a `<table>` with headers for both directions; the best of a column is bold.
    pub fn html(&self) -> String {
        self.listing().html()
    }

    /// For programs (RFC 4180): a column of means per measure, and one of standard deviations if it has any.
    pub fn csv(&self) -> Result<String, csv::Error> {
        let has_std = |column: usize| self.scores(column).any(|score| score.std.is_some());
        let spread: Vec<bool> = (0..self.columns.len()).map(has_std).collect();
        let heads = self.columns.iter().map(|name| (name.clone(), format!("{name} std")));
        let head = csv_record("method", heads.zip(&spread));
        let records = self.rows.iter().map(|row| {
            let fields =
                (0..self.columns.len()).map(|column| score(row, column).map_or_else(Default::default, Score::csv));
            csv_record(&row.label, fields.zip(&spread))
        });
        csv_text(std::iter::once(head).chain(records))
    }

    /// The table as it is shown.
    fn listing(&self) -> Listing {
        let best: Vec<Option<f64>> = (0..self.columns.len()).map(|column| self.best(column)).collect();
        let shown = |(score, &best): (&Option<Score>, &Option<f64>)| {
            score.map(|score| score.shown(best == Some(tenths(score.mean))))
        };
        let row = |row: &Row| (row.label.clone(), row.scores.iter().zip(&best).map(shown).collect());
        Listing { columns: self.columns.clone(), rows: self.rows.iter().map(row).collect() }
    }

    /// The measured scores of a column.
    fn scores(&self, column: usize) -> impl Iterator<Item = &Score> {
        self.rows.iter().filter_map(move |row| score(row, column))
    }

    /// The best mean of a column in tenths; `None` with fewer than two values.
    fn best(&self, column: usize) -> Option<f64> {
        let means = self.scores(column).map(|score| tenths(score.mean)).filter(|mean| mean.is_finite());
        let means: Vec<f64> = means.collect();
        means.iter().copied().reduce(f64::max).filter(|_| means.len() > 1)
    }
}

/// The score of `row` in `column`, if measured.
fn score(row: &Row, column: usize) -> Option<&Score> {
    row.scores.get(column)?.as_ref()
}

/// `mean` as it is shown, times ten.
fn tenths(mean: f64) -> f64 {
    (mean * 10.0).round()
}

/// `first`, then the means and, where their column has any, the deviations.
fn csv_record<'a>(first: &str, rest: impl Iterator<Item = ((String, String), &'a bool)>) -> Vec<String> {
    let mut record = vec![first.to_owned()];
    for ((mean, std), &spread) in rest {
        record.push(mean);
        record.extend(spread.then_some(std));
    }
    record
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn row(label: &str, scores: &[Option<(f64, Option<f64>)>]) -> Row {
        let scores = scores.iter().map(|score| score.map(|(mean, std)| Score { mean, std })).collect();
        Row { label: label.to_owned(), scores }
    }

    fn table() -> Table {
        Table {
            columns: vec!["IR@1".into(), "Avg".into(), "Hours".into()],
            rows: vec![
                row("Random", &[Some((1.04, Some(0.12))), Some((9.96, None)), Some((3.0, None))]),
                row("CovMatch", &[Some((12.34, Some(0.44))), Some((29.97, None))]),
            ],
        }
    }

    #[test]
    fn text_is_aligned_at_the_decimal_points() {
        let expected = concat!(
            "                IR@1   Avg  Hours\n",
            "Random     1.0 ± 0.1  10.0    3.0\n",
            "CovMatch  12.3 ± 0.4  30.0      –\n",
        );
        assert_eq!(table().text(), expected);
    }

    #[test]
    fn a_cell_without_deviation_leaves_its_place_empty() {
        let rows = vec![row("a", &[Some((1.0, Some(10.0)))]), row("b", &[Some((2.0, None))])];
        let table = Table { columns: vec!["x".into()], rows };
        assert_eq!(table.text(), "            x\na  1.0 ± 10.0\nb  2.0\n");
    }

    #[test]
    fn markdown_marks_the_best_of_each_column_that_has_two_values() {
        let expected = concat!(
            "| | IR@1 | Avg | Hours |\n",
            "|:--|--:|--:|--:|\n",
            "| Random | 1.0 ± 0.1 | 10.0 | 3.0 |\n",
            "| CovMatch | **12.3 ± 0.4** | **30.0** | – |\n",
        );
        assert_eq!(table().markdown(), expected);
    }

    #[test]
    fn markdown_labels_cannot_break_the_table() {
        let table = Table { columns: vec![], rows: vec![row("a|b\n*c* <i>", &[])] };
        assert!(table.markdown().ends_with("| a\\|b \\*c\\* \\<i> |\n"), "{}", table.markdown());
    }

    #[test]
    fn csv_has_deviations_only_where_there_are_some() {
        let expected = "method,IR@1,IR@1 std,Avg,Hours\r\nRandom,1.0,0.1,10.0,3.0\r\nCovMatch,12.3,0.4,30.0,\r\n";
        assert_eq!(table().csv().unwrap(), expected);
    }

    #[test]
    fn csv_quotes_what_would_end_a_field() {
        let table = Table { columns: vec!["a,b".into()], rows: vec![row("say \"x\"", &[])] };
        assert_eq!(table.csv().unwrap(), "method,\"a,b\"\r\n\"say \"\"x\"\"\",\r\n");
    }

    #[test]
    fn html_has_headers_for_both_directions_and_one_best_per_column() {
        let html = table().html();
        assert_eq!(html.matches("<th scope=\"col\">").count(), 4);
        assert_eq!(html.matches("<th scope=\"row\">").count(), 2);
        assert_eq!(html.matches("<strong>").count(), 2);
        assert!(html.contains("<td class=\"best\"><strong>12.3</strong><span class=\"std\"> ± 0.4</span></td>"));
    }

    #[test]
    fn html_labels_are_escaped() {
        let table = Table { columns: vec!["<b>".into()], rows: vec![row("<script>", &[])] };
        let html = table.html();
        assert!(html.contains("&lt;script&gt;") && html.contains("&lt;b&gt;"));
        assert!(!html.contains("<script>") && !html.contains("<b>"));
    }

    #[test]
    fn values_that_look_the_same_are_both_best_and_nan_is_not() {
        let rows = vec![
            row("a", &[Some((5.01, None))]),
            row("b", &[Some((4.99, None))]),
            row("c", &[Some((f64::NAN, None))]),
            row("d", &[Some((4.0, None))]),
        ];
        let markdown = Table { columns: vec!["x".into()], rows }.markdown();
        assert_eq!(markdown.matches("**5.0**").count(), 2);
        assert!(markdown.contains("| NaN |") && markdown.contains("| 4.0 |"));
        let rows = vec![row("a", &[Some((5.0, None))]), row("b", &[Some((f64::NAN, None))])];
        assert!(!Table { columns: vec!["x".into()], rows }.markdown().contains("**"));
    }

    #[test]
    fn an_empty_table_is_a_header_and_nothing_more() {
        assert_eq!(Table::default().text(), "\n");
        assert_eq!(Table::default().csv().unwrap(), "method\r\n");
    }
}
