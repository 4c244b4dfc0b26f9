//! The page of a run: one HTML file that loads nothing.
//!
//! No scripts, no fonts, no addresses: pictures and the style sheet are inside, and a content security policy makes the
//! browser refuse everything else. Light or dark is the reader's setting. All text from outside is escaped. The page is
//! `templates/page.html`.

use std::io::Write;
use std::path::Path;

use askama::Template;

use super::ReportError;
use super::grid::{PairView, Pairs};
use super::picture::Picture;
use super::plot::{Curve, Scale, plot_svg};
use super::strip::strip;
use crate::files::write_whole;
use crate::tables::{Listing, Table};

/// A chart of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figure {
    /// What stands over it.
    pub title: String,
    /// The picture as [`plot_svg`] makes it; it goes into the page as it is.
    pub svg: String,
}

impl Figure {
    /// A chart whose title stands in the page and not in the picture. Arguments as of [`plot_svg`].
    pub fn plot(title: &str, x_label: &str, y_label: &str, curves: &[Curve], scale: Scale) -> Self {
        Self { title: title.to_owned(), svg: plot_svg("", x_label, y_label, curves, scale) }
    }
}

/// A table with a heading of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// What stands over it.
    pub title: String,
    /// What was measured.
    pub table: Table,
}

/// What a run achieved. Parts that are empty are left out of the page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The heading of the page.
    pub title: String,
    /// A sentence below it.
    pub subtitle: String,
    /// What the run was: (name, value), such as ("Pairs", "100").
    pub facts: Vec<(String, String)>,
    /// What was measured.
    pub results: Option<Table>,
    /// More of it, in tables that are each compared within themselves.
    pub blocks: Vec<Block>,
    /// What a reader of the results must know, a sentence each.
    pub notes: Vec<String>,
    /// What it cost.
    pub costs: Listing,
    /// What a reader of the costs must know.
    pub costs_lead: &'static str,
    /// How training went.
    pub curves: Vec<Figure>,
    /// What was distilled.
    pub pairs: Vec<PairView>,
    /// All settings of the run, as text.
    pub config: String,
}

impl Report {
    /// The page.
    pub fn html(&self) -> String {
        let (strip, pairs, config) = (strip(&self.pairs), Pairs::of(&self.pairs), self.config.trim_end());
        Page { report: self, strip, pairs, config }.to_string()
    }

    /// Writes the page to `path`, whole or not at all.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ReportError> {
        let path = path.as_ref();
        let failed = |cause| ReportError::Write { path: path.display().to_string(), cause };
        write_whole(path, |out| out.write_all(self.html().as_bytes())).map_err(failed)
    }

    fn has_results(&self) -> bool {
        self.results.is_some() || !self.blocks.is_empty() || !self.notes.is_empty()
    }

    fn has_costs(&self) -> bool {
        !self.costs.rows.is_empty()
    }
}

/// A report with its pictures encoded.
#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    report: &'a Report,
    strip: Vec<Picture>,
    pairs: Pairs<'a>,
    config: &'a str,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::data::RgbImage;
    use crate::tables::{Row, Score};

    const EVIL: &str = "<script>alert('x')</script>";

    fn picture() -> RgbImage {
        RgbImage { width: 4, height: 4, pixels: vec![9; 48] }
    }

    /// A report with `text` in every place that takes text.
    fn report(text: &str) -> Report {
        let text = || text.to_owned();
        let score = Score { mean: 1.0, std: None };
        let pair = PairView { before: picture(), after: picture(), init_caption: text(), nearest_caption: text() };
        let curve = Curve { name: text(), points: vec![(0.0, 1.0), (1.0, 2.0)] };
        let table = Table { columns: vec![text()], rows: vec![Row { label: text(), scores: vec![Some(score)] }] };
        Report {
            title: text(),
            subtitle: text(),
            facts: vec![(text(), text())],
            results: Some(table.clone()),
            blocks: vec![Block { title: text(), table }],
            notes: vec![text()],
            costs: Listing { columns: vec![text()], rows: vec![(text(), vec![Some(text().into())])] },
            costs_lead: "Costs.",
            curves: vec![Figure::plot(&text(), &text(), &text(), &[curve], Scale::Linear)],
            pairs: vec![pair],
            config: text(),
        }
    }

    #[test]
    fn no_text_brings_in_a_script() {
        let html = report(EVIL).html();
        assert!(!html.contains("<script"), "{html}");
        assert!(html.matches("&lt;script&gt;").count() >= 19, "{}", html.matches("&lt;script&gt;").count());
    }

    #[test]
    fn the_page_refers_to_nothing_outside() {
        let html = report("plain").html().replace("http://www.w3.org/2000/svg", "");
        for outside in ["http:", "https:", "<link", "<script", "@import", "url(", "src=\"/"] {
            assert!(!html.contains(outside), "{outside}");
        }
        assert!(html.contains("default-src 'none'"));
    }

    #[test]
    fn the_page_has_a_section_and_a_link_for_each_part() {
        let html = report("plain").html();
        for id in ["results", "costs", "curves", "pairs", "config"] {
            assert!(html.contains(&format!("<section id=\"{id}\"")), "{id}");
            assert!(html.contains(&format!("href=\"#{id}\"")), "{id}");
        }
        assert_eq!(html.matches("<h1>").count(), 1);
    }

    #[test]
    fn empty_parts_are_left_out() {
        let html = Report { title: "Empty".to_owned(), ..Report::default() }.html();
        assert!(html.contains("<h1>Empty</h1>"));
        for absent in ["<section", "<dl", "<details", "<figure", "<p class=\"subtitle\""] {
            assert!(!html.contains(absent), "{absent}");
        }
    }

    #[test]
    fn notes_stand_without_results_too() {
        let html = Report { notes: vec!["a note".to_owned()], ..Report::default() }.html();
        assert!(html.contains("<section id=\"results\"") && html.contains("<li>a note</li>"));
    }

    #[test]
    fn every_opened_element_is_closed() {
        let html = report("plain").html();
        let tags = "div dl dt dd figure figcaption section table thead tbody tr td th ul ol li p svg g main nav";
        for tag in tags.split(' ') {
            let opened = html.matches(&format!("<{tag}>")).count() + html.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "{tag}");
            assert!(opened > 0, "{tag}");
        }
    }

    #[test]
    fn a_saved_page_is_whole_and_takes_the_place_of_an_older_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.html");
        std::fs::write(&path, "old").unwrap();
        report("plain").save(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), report("plain").html());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_error_names_the_file() {
        let path = Path::new("/no such folder/report.html");
        let error = Report::default().save(path).unwrap_err().to_string();
        assert!(error.contains("/no such folder/report.html"), "{error}");
    }
}
