//! A comparison as text, Markdown, CSV, JSON and as a page.

use std::path::Path;

use super::error::CompareError;
use super::table::{Comparison, Entry};
use crate::files::{self, WriteError};
use crate::report::Report;
use crate::retrieval::{Recalls, Spread};
use crate::run_folder::Cost;
use crate::tables::csv_text;

/// What a reader of the costs must know.
const COSTS: &str = "What making each set took, its evaluation apart. The peak is the most memory that the process held, \
                     and not known where it had held as much before, for another set.";

impl Comparison {
    /// For a terminal.
    pub fn text(&self) -> String {
        let tables = self.blocks().into_iter().map(|block| format!("{}\n{}\n", block.title, block.table.text()));
        let notes: String = self.notes().iter().map(|note| format!("{note}\n")).collect();
        format!("{}Costs\n{}\n{notes}", tables.collect::<String>(), self.costs().text())
    }

    /// For Markdown as GitHub reads it.
    pub fn markdown(&self) -> String {
        let tables =
            self.blocks().into_iter().map(|block| format!("## {}\n\n{}\n", block.title, block.table.markdown()));
        let notes: String = self.notes().iter().map(|note| format!("{note}\n\n")).collect();
        let tables: String = tables.collect();
        format!("# Methods compared\n\n{notes}{tables}## Costs\n\n{COSTS}\n\n{}", self.costs().markdown())
    }

    /// For programs (RFC 4180): a line for each cell and each way to choose the epoch; costs are the last five columns.
    pub fn csv(&self) -> Result<String, csv::Error> {
        let measures = Recalls::NAMES.iter().flat_map(|name| [(*name).to_owned(), format!("{name} std")]);
        let costs = ["steps", "seconds", "peak_bytes", "expert_seconds", "expert_bytes"].map(str::to_owned);
        let head = ["cell", "method", "pairs", "epoch"].map(str::to_owned).into_iter().chain(measures).chain(costs);
        let mut records = vec![head.collect()];
        for cell in &self.cells {
            records.push(csv_record(cell, "last", cell.last()));
            if let Some(chosen) = cell.chosen() {
                records.push(csv_record(cell, "chosen", Some(chosen)));
            }
        }
        csv_text(records)
    }

    /// For programs: everything, runs and configuration included.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// The page.
    pub fn report(&self) -> Result<Report, CompareError> {
        let config = &self.config;
        let fact = |name: &str, value: String| (name.to_owned(), value);
        let train = &config.train;
        Ok(Report {
            title: "Methods compared".to_owned(),
            subtitle: format!("with {} and {}", config.image.encoder, config.text.encoder),
            facts: vec![
                fact("Cells", format!("{} of {}", self.cells.len() - self.missing().len(), self.cells.len())),
                fact("Image size", format!("{0} × {0}", config.image.size)),
                fact("On pairs", format!("{} runs, {} epochs", config.evaluate.runs, config.evaluate.epochs)),
                fact("On everything", format!("{} runs, {} epochs", train.runs, train.epochs)),
                fact("Seed", config.seed.to_string()),
            ],
            blocks: self.blocks(),
            notes: self.notes(),
            costs: self.costs(),
            costs_lead: COSTS,
            config: config.to_toml()?,
            ..Report::default()
        })
    }

    /// Writes `table.md`, `table.csv`, `table.json` and `table.html` into `out`.
    pub fn save(&self, out: &Path) -> Result<(), CompareError> {
        std::fs::create_dir_all(out).map_err(|cause| WriteError::new(out, cause))?;
        let [json, csv] = ["table.json", "table.csv"].map(|name| out.join(name));
        let text = self.json().map_err(|cause| WriteError::new(&json, cause.into()))?;
        files::write(&json, text.as_bytes())?;
        let text = self.csv().map_err(|cause| WriteError::new(&csv, cause.into()))?;
        files::write(&csv, text.as_bytes())?;
        files::write(&out.join("table.md"), self.markdown().as_bytes())?;
        Ok(self.report()?.save(out.join("table.html"))?)
    }

    /// What a reader of the table must know, a sentence each.
    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "Fresh models with pretrained encoders and random heads, trained on the pairs alone and tested on the \
             whole test split: recall in percent, mean ± standard deviation over runs. The last epoch counts unless \
             the title says otherwise; no epoch was chosen on the test split."
                .to_owned(),
        ];
        let missing = self.missing();
        if !missing.is_empty() {
            notes.push(format!("Not filled yet: {}.", missing.join(", ")));
        }
        notes
    }
}

/// A record of the CSV file.
fn csv_record(cell: &Entry, epoch: &str, recalls: Option<&Spread>) -> Vec<String> {
    let number = |value: Option<f64>| value.map(|value| format!("{value:.3}")).unwrap_or_default();
    let measures = (0..Recalls::NAMES.len()).flat_map(|i| {
        let std = recalls.and_then(|recalls| recalls.std).map(|std| std[i]);
        [number(recalls.map(|recalls| recalls.mean[i])), number(std)]
    });
    let pairs = cell.pairs.map(|pairs| pairs.to_string()).unwrap_or_default();
    let method = cell.name.trim_end_matches(&format!("-{pairs}")).to_owned();
    let costs = cell.cost.as_ref().map_or([const { String::new() }; 5], csv_costs);
    [cell.name.clone(), method, pairs, epoch.to_owned()].into_iter().chain(measures).chain(costs).collect()
}

fn csv_costs(cost: &Cost) -> [String; 5] {
    let seconds = |seconds: Option<f64>| seconds.map(|seconds| format!("{seconds:.3}")).unwrap_or_default();
    let bytes = |bytes: Option<u64>| bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
    [
        cost.steps.to_string(),
        seconds(Some(cost.seconds)),
        bytes(cost.peak_memory),
        seconds(cost.expert_seconds),
        bytes(cost.expert_bytes),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::compare::table::tests::comparison;

    #[test]
    fn every_format_has_every_method_and_says_what_is_missing() {
        let comparison = comparison();
        let page = comparison.report().unwrap().html();
        for text in [comparison.text(), comparison.markdown(), page] {
            for part in ["Random", "CovMatch", "All train pairs", "8 pairs", "Not filled yet: covmatch-8", "0.250"] {
                assert!(text.contains(part), "no '{part}' in:\n{text}");
            }
        }
    }

    #[test]
    fn a_line_of_csv_is_a_cell() {
        let csv = comparison().csv().unwrap();
        let lines: Vec<Vec<&str>> = csv.trim_end().lines().map(|line| line.trim_end().split(',').collect()).collect();
        assert_eq!(lines.len(), 1 + 4 * 2 + 1);
        assert!(lines.iter().all(|line| line.len() == 4 + 14 + 5), "{csv}");
        assert_eq!(lines[3][..6], ["covmatch-4", "covmatch", "4", "last", "21.000", "1.414"]);
        assert_eq!(lines[3][18..20], ["200", "50.000"]);
        assert_eq!(lines[4][..6], ["covmatch-4", "covmatch", "4", "chosen", "22.000", "1.414"]);
        let missing = lines.iter().find(|line| line[0] == "covmatch-8").unwrap();
        assert!(missing[4..].iter().all(|field| field.is_empty()), "{missing:?}");
        assert_eq!(lines[8][..4], ["full", "full", "", "last"]);
    }

    #[test]
    fn all_files_are_written() {
        let folder = tempfile::tempdir().unwrap();
        comparison().save(&folder.path().join("new")).unwrap();
        for name in ["table.md", "table.csv", "table.json", "table.html"] {
            assert!(folder.path().join("new").join(name).is_file(), "{name}");
        }
    }
}
