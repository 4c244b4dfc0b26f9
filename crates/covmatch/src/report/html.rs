//! The page of a run: one HTML file that loads nothing.
//!
//! No scripts, no fonts, no addresses: pictures and the style sheet are inside, and a content security policy makes the
//! browser refuse everything else. Light or dark is the reader's setting. All text from outside is escaped.

use std::io::Write;
use std::path::Path;

use super::ReportError;
use super::embed::escape;
use super::grid::{PairView, pairs_html, strip_html};
use super::listing::Listing;
use super::plot::{Curve, Scale, plot_svg};
use super::table::Table;
use crate::files::write_whole;

const STYLE: &str = include_str!("style.css");
const POLICY: &str = "default-src 'none'; img-src data:; style-src 'unsafe-inline'";

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

    fn html(&self) -> String {
        let (title, svg) = (escape(&self.title), &self.svg);
        format!("<figure class=\"chart\">\n<figcaption>{title}</figcaption>\n{svg}</figure>\n")
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

impl Block {
    fn html(&self) -> String {
        format!("<h3>{}</h3>\n{}", escape(&self.title), scrolling(&self.title, &self.table.html()))
    }
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
        let sections = [
            self.results_section(),
            self.costs_section(),
            self.curves_section(),
            self.pairs_section(),
            self.config_section(),
        ];
        let sections: Vec<Section> = sections.into_iter().flatten().collect();
        let links: String = sections.iter().map(Section::link).collect();
        let bodies: String = sections.iter().map(Section::html).collect();
        let (title, header, version) = (escape(&self.title), self.header(), env!("CARGO_PKG_VERSION"));
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <a class=\"skip\" href=\"#main\">Skip to the content</a>\n{header}\
             <nav aria-label=\"Sections\"><ul>{links}</ul></nav>\n<main id=\"main\">\n{bodies}</main>\n\
             <footer><p>Made with <b>covmatch</b> {version}. This page is one file: it loads nothing and runs no \
             scripts.</p></footer>\n</body>\n</html>\n"
        )
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

    fn header(&self) -> String {
        let fact = |(name, value): &(String, String)| {
            format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(value))
        };
        let facts: String = self.facts.iter().map(fact).collect();
        let facts = if facts.is_empty() { facts } else { format!("<dl class=\"facts\">\n{facts}</dl>\n") };
        let subtitle = escape(&self.subtitle);
        let subtitle = if subtitle.is_empty() { subtitle } else { format!("<p class=\"subtitle\">{subtitle}</p>\n") };
        let (title, strip) = (escape(&self.title), strip_html(&self.pairs));
        format!("<header>\n<p class=\"brand\">covmatch</p>\n<h1>{title}</h1>\n{subtitle}{strip}{facts}</header>\n")
    }

    fn results_section(&self) -> Option<Section> {
        let table = self.results.as_ref().map(|table| scrolling("Table of results", &table.html()));
        let blocks: String = self.blocks.iter().map(Block::html).collect();
        let notes: String = self.notes.iter().map(|note| format!("<li>{}</li>\n", escape(note))).collect();
        let notes = (!notes.is_empty()).then(|| format!("<ul class=\"notes\">\n{notes}</ul>\n"));
        let body: String = [table, Some(blocks), notes].into_iter().flatten().collect();
        Section::new("results", "Results", "", body)
    }

    fn costs_section(&self) -> Option<Section> {
        let empty = self.costs.rows.is_empty();
        let body = if empty { String::new() } else { scrolling("Table of costs", &self.costs.html()) };
        Section::new("costs", "Costs", self.costs_lead, body)
    }

    fn curves_section(&self) -> Option<Section> {
        let charts: String = self.curves.iter().map(Figure::html).collect();
        let body = if charts.is_empty() { charts } else { format!("<div class=\"charts\">\n{charts}</div>\n") };
        Section::new("curves", "Training curves", "", body)
    }

    fn pairs_section(&self) -> Option<Section> {
        let lead = "Each pair started from a real picture and its caption. The captions of distilled pairs are \
                    features, so the real caption nearest to each is shown.";
        let body = if self.pairs.is_empty() { String::new() } else { pairs_html(&self.pairs) };
        Section::new("pairs", "Distilled pairs", lead, body)
    }

    fn config_section(&self) -> Option<Section> {
        let config = escape(self.config.trim_end());
        let lines = config.lines().count();
        let body = format!(
            "<details>\n<summary>All settings of this run ({lines} lines)</summary>\n\
             <pre tabindex=\"0\"><code>{config}</code></pre>\n</details>\n"
        );
        Section::new("config", "Configuration", "", if config.is_empty() { config } else { body })
    }
}

/// `table` in a frame that scrolls where the page is narrower; `name` is what it is called when it is read out.
fn scrolling(name: &str, table: &str) -> String {
    let name = escape(name);
    format!("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{name}\">\n{table}</div>\n")
}

/// A part of the page that the navigation leads to.
struct Section {
    id: &'static str,
    title: &'static str,
    lead: &'static str,
    body: String,
}

impl Section {
    /// `None` without a body.
    fn new(id: &'static str, title: &'static str, lead: &'static str, body: String) -> Option<Self> {
        (!body.is_empty()).then_some(Self { id, title, lead, body })
    }

    fn link(&self) -> String {
        format!("<li><a href=\"#{}\">{}</a></li>", self.id, self.title)
    }

    fn html(&self) -> String {
        let Self { id, title, lead, body } = self;
        let lead = if lead.is_empty() { String::new() } else { format!("<p class=\"lead\">{lead}</p>\n") };
        format!(
            "<section id=\"{id}\" aria-labelledby=\"{id}-title\">\n<h2 id=\"{id}-title\">{title}</h2>\n\
             {lead}{body}</section>\n"
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::data::RgbImage;
    use crate::report::{Cell, Row};

    const EVIL: &str = "<script>alert('x')</script>";

    fn picture() -> RgbImage {
        RgbImage { width: 4, height: 4, pixels: vec![9; 48] }
    }

    /// A report with `text` in every place that takes text.
    fn report(text: &str) -> Report {
        let text = || text.to_owned();
        let cell = Cell { mean: 1.0, std: None };
        let pair = PairView { before: picture(), after: picture(), init_caption: text(), nearest_caption: text() };
        let curve = Curve { name: text(), points: vec![(0.0, 1.0), (1.0, 2.0)] };
        let table = Table { columns: vec![text()], rows: vec![Row { label: text(), cells: vec![Some(cell)] }] };
        Report {
            title: text(),
            subtitle: text(),
            facts: vec![(text(), text())],
            results: Some(table.clone()),
            blocks: vec![Block { title: text(), table }],
            notes: vec![text()],
            costs: Listing { columns: vec![text()], rows: vec![(text(), vec![Some(text())])] },
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
