//! Results as files and as tables.

use std::path::Path;

use covmatch::config::TrainConfig;
use covmatch::evaluate::Evaluation;
use covmatch::files;
use covmatch::report::{Row, Table};
use serde::{Deserialize, Serialize};

/// `results.json`: the evaluation of a set with the encoders that it was made with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ResultFile {
    /// What was measured.
    pub evaluation: Evaluation,
    /// How.
    pub config: TrainConfig,
}

impl ResultFile {
    /// The pairs of the folder.
    pub const NAME: &str = "results.json";
    /// The models of an evaluation that was stopped.
    pub const UNFINISHED: &str = "results.unfinished.json";
    /// As many real pairs, which the demo compares them with.
    pub const RANDOM: &str = "results-random.json";

    /// Writes the file into `folder`.
    pub fn save(&self, folder: &Path) -> anyhow::Result<()> {
        self.save_as(folder, Self::NAME)
    }

    /// Writes the file into `folder` under `name`.
    pub fn save_as(&self, folder: &Path, name: &str) -> anyhow::Result<()> {
        Ok(files::write(&folder.join(name), serde_json::to_string_pretty(self)?.as_bytes())?)
    }

    /// The file `name` of `folder`; none if that was not evaluated.
    pub fn load(folder: &Path, name: &str) -> anyhow::Result<Option<Self>> {
        let path = folder.join(name);
        match path.is_file() {
            true => Ok(Some(serde_json::from_slice(&std::fs::read(path)?)?)),
            false => Ok(None),
        }
    }
}

/// What a report compares.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// The pairs of the folder; none if they were not evaluated.
    pub pairs: Option<ResultFile>,
    /// As many real pairs; none if they were not.
    pub random: Option<ResultFile>,
}

impl Measured {
    /// What the files of `folder` hold.
    pub fn load(folder: &Path) -> anyhow::Result<Self> {
        let [pairs, random] = [ResultFile::NAME, ResultFile::RANDOM].map(|name| ResultFile::load(folder, name));
        Ok(Self { pairs: pairs?, random: random? })
    }
}

/// The table of labelled evaluations: last epoch, and the epoch chosen on the validation split where there is one.
pub fn results_table(evaluations: &[(String, &Evaluation)]) -> Table {
    let mut rows = Vec::new();
    for (label, evaluation) in evaluations {
        rows.push(Row::of(label, Some(&evaluation.last)));
        if let Some(chosen) = &evaluation.chosen {
            rows.push(Row::of(format!("{label}, epoch chosen on val"), Some(chosen)));
        }
    }
    Table::of_recalls(rows)
}
