//! A table of results: methods down, measures across, mean ± standard deviation in each cell.
//!
//! All values have one decimal. The best of a column is its highest mean after rounding, so that values which look the
//! same are marked the same; a column with a single value has no best.

use super::embed::escape;
use crate::evaluate::{Evaluation, Recalls, Spread};

pub(super) const MISSING: &str = "–";

/// A result over one or more repetitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The mean over the repetitions.
    pub mean: f64,
    /// Their standard deviation; `None` for a single one.
    pub std: Option<f64>,
}

impl Cell {
    fn mean_text(&self) -> String {
        format!("{:.1}", self.mean)
    }

    fn std_text(&self) -> String {
        self.std.map(|std| format!("± {std:.1}")).unwrap_or_default()
    }
}

/// The results of one method.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The name of the method.
    pub label: String,
    /// A cell for each column; `None` where nothing was measured.
    pub cells: Vec<Option<Cell>>,
}

impl Row {
    /// The recalls `spread` under `label`, in the order of [`Recalls::NAMES`]; without a spread nothing was measured.
    pub fn of(label: impl Into<String>, spread: Option<&Spread>) -> Self {
        let cell = |spread: &Spread, i: usize| Cell { mean: spread.mean[i], std: spread.std.map(|std| std[i]) };
        let cells = (0..Recalls::NAMES.len()).map(|i| spread.map(|spread| cell(spread, i))).collect();
        Self { label: label.into(), cells }
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

    /// The table of labelled evaluations: last epoch, and the epoch chosen on the validation split where there is one.
    pub fn of_evaluations(evaluations: &[(String, &Evaluation)]) -> Self {
        let mut rows = Vec::new();
        for (label, evaluation) in evaluations {
            rows.push(Row::of(label, Some(&evaluation.last)));
            if let Some(chosen) = &evaluation.chosen {
                rows.push(Row::of(format!("{label}, epoch chosen on val"), Some(chosen)));
            }
        }
        Self::of_recalls(rows)
    }

    /// For a terminal: aligned at the decimal points, one row a line.
    pub fn text(&self) -> String {
        let labels = self.rows.iter().map(|row| width(&row.label)).max().unwrap_or(0);
        let columns: Vec<TextColumn> = (0..self.columns.len()).map(|c| TextColumn::new(self, c)).collect();
        let heads: String = columns.iter().zip(&self.columns).map(|(column, name)| column.head(name)).collect();
        let mut text = format!("{:labels$}{heads}\n", "");
        for row in &self.rows {
            let cells: String = columns.iter().enumerate().map(|(c, column)| column.cell(cell(row, c))).collect();
            let line = format!("{:labels$}{cells}", row.label);
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// For Markdown as GitHub reads it; the best of a column is bold.
    pub fn markdown(&self) -> String {
        let heads: String = self.columns.iter().map(|name| format!(" {} |", markdown_text(name))).collect();
        let mut text = format!("| |{heads}\n|:--|{}\n", "--:|".repeat(self.columns.len()));
        for row in &self.rows {
            let cells: String = self.row_cells(row).map(|(cell, best)| markdown_cell(cell, best)).collect();
            text.push_str(&format!("| {} |{cells}\n", markdown_text(&row.label)));
        }
        text
    }

    /// For programs (RFC 4180): a column of means per measure, and one of standard deviations if it has any.
    pub fn csv(&self) -> String {
        let spread: Vec<bool> = (0..self.columns.len()).map(|c| self.cells(c).any(|x| x.std.is_some())).collect();
        let head = |(name, &spread): (&String, &bool)| csv_pair(name.clone(), format!("{name} std"), spread);
        let mut text = csv_line("method".to_owned(), self.columns.iter().zip(&spread).flat_map(head));
        for row in &self.rows {
            let cells = spread.iter().enumerate().flat_map(|(c, &spread)| {
                let mean = cell(row, c).map(Cell::mean_text).unwrap_or_default();
                let std = cell(row, c).and_then(|cell| cell.std).map(|std| format!("{std:.1}")).unwrap_or_default();
                csv_pair(mean, std, spread)
            });
            text.push_str(&csv_line(row.label.clone(), cells));
        }
        text
    }

    /// For a page: a `<table>` with headers for both directions; the best of a column is bold.
    pub fn html(&self) -> String {
        let cells = |row: &Row| self.row_cells(row).map(|(cell, best)| html_cell(cell, best)).collect();
        html_table(&self.columns, self.rows.iter().map(|row| (row.label.as_str(), cells(row))))
    }

    /// The measured cells of a column.
    fn cells(&self, column: usize) -> impl Iterator<Item = &Cell> {
        self.rows.iter().filter_map(move |row| cell(row, column))
    }

    /// The cells of `row` and whether each is the best of its column.
    fn row_cells<'a>(&'a self, row: &'a Row) -> impl Iterator<Item = (Option<&'a Cell>, bool)> {
        (0..self.columns.len()).map(|column| {
            let found = cell(row, column);
            let best = self.best(column);
            (found, found.is_some_and(|cell| best == Some(tenths(cell.mean))))
        })
    }

    /// The best mean of a column in tenths; `None` with fewer than two values.
    fn best(&self, column: usize) -> Option<f64> {
        let means = self.cells(column).map(|cell| tenths(cell.mean)).filter(|mean| mean.is_finite());
        let means: Vec<f64> = means.collect();
        means.iter().copied().reduce(f64::max).filter(|_| means.len() > 1)
    }
}

/// The cell of `row` in `column`, if measured.
fn cell(row: &Row, column: usize) -> Option<&Cell> {
    row.cells.get(column)?.as_ref()
}

/// `mean` as it is shown, times ten.
fn tenths(mean: f64) -> f64 {
    (mean * 10.0).round()
}

/// Characters, which is what a terminal's columns are for the text used here.
pub(super) fn width(text: &str) -> usize {
    text.chars().count()
}

/// How wide the two halves of a column are in a terminal.
struct TextColumn {
    mean: usize,
    std: usize,
}

impl TextColumn {
    fn new(table: &Table, column: usize) -> Self {
        let widest = |part: fn(&Cell) -> String| table.cells(column).map(|cell| width(&part(cell))).max().unwrap_or(0);
        let std = widest(Cell::std_text);
        let head = width(&table.columns[column]);
        let mean = widest(Cell::mean_text).max(1).max(head.saturating_sub(if std > 0 { std + 1 } else { 0 }));
        Self { mean, std }
    }

    fn head(&self, name: &str) -> String {
        let width = self.mean + if self.std > 0 { self.std + 1 } else { 0 };
        format!("  {name:>width$}")
    }

    fn cell(&self, cell: Option<&Cell>) -> String {
        let mean = cell.map_or_else(|| MISSING.to_owned(), Cell::mean_text);
        let std = cell.map(Cell::std_text).unwrap_or_default();
        let gap = usize::from(self.std > 0);
        format!("  {mean:>0$}{1:gap$}{std:>2$}", self.mean, "", self.std)
    }
}

fn markdown_cell(cell: Option<&Cell>, best: bool) -> String {
    let Some(cell) = cell else { return format!(" {MISSING} |") };
    let text = [cell.mean_text(), cell.std_text()].join(" ");
    if best { format!(" **{}** |", text.trim_end()) } else { format!(" {} |", text.trim_end()) }
}

/// `text` without meaning in Markdown, on one line.
pub(super) fn markdown_text(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '|' | '*' | '_' | '`' | '<' | '[' | ']' => plain.extend(['\\', c]),
            c if c.is_control() => plain.push(' '),
            c => plain.push(c),
        }
    }
    plain
}

/// A `<table>` with headers for both directions; a row is its label and its `<td>` elements.
pub(super) fn html_table<'a>(columns: &[String], rows: impl Iterator<Item = (&'a str, String)>) -> String {
    let head = |name: &str| format!("<th scope=\"col\">{}</th>", escape(name));
    let heads: String = columns.iter().map(|name| head(name)).collect();
    let heads = format!("<thead><tr>{}{heads}</tr></thead>", head("Method"));
    let row = |(label, cells)| format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", escape(label));
    let rows: String = rows.map(row).collect();
    format!("<table class=\"results\">\n{heads}\n<tbody>\n{rows}</tbody>\n</table>\n")
}

fn html_cell(cell: Option<&Cell>, best: bool) -> String {
    let Some(cell) = cell else { return format!("<td><span class=\"missing\">{MISSING}</span></td>") };
    let mean = cell.mean_text();
    let mean = if best { format!("<strong>{mean}</strong>") } else { mean };
    let std = cell.std.map(|_| format!("<span class=\"std\"> {}</span>", cell.std_text())).unwrap_or_default();
    format!("<td{}>{mean}{std}</td>", if best { " class=\"best\"" } else { "" })
}

/// A mean, and its deviation if the column has any.
fn csv_pair(mean: String, std: String, spread: bool) -> impl Iterator<Item = String> {
    [Some(mean), spread.then_some(std)].into_iter().flatten()
}

/// One line of a file that programs read (RFC 4180).
pub(crate) fn csv_line(first: String, rest: impl Iterator<Item = String>) -> String {
    let fields: Vec<String> = std::iter::once(first).chain(rest).map(|field| csv_field(&field)).collect();
    fields.join(",") + "\r\n"
}

fn csv_field(field: &str) -> String {
    let quoted = field.contains([',', '"', '\n', '\r']);
    if quoted { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(label: &str, cells: &[Option<(f64, Option<f64>)>]) -> Row {
        let cells = cells.iter().map(|cell| cell.map(|(mean, std)| Cell { mean, std })).collect();
        Row { label: label.to_owned(), cells }
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
        assert_eq!(table().csv(), expected);
    }

    #[test]
    fn csv_quotes_what_would_end_a_field() {
        let table = Table { columns: vec!["a,b".into()], rows: vec![row("say \"x\"", &[])] };
        assert_eq!(table.csv(), "method,\"a,b\"\r\n\"say \"\"x\"\"\",\r\n");
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
        assert_eq!(Table::default().csv(), "method\r\n");
    }
}
