//! An evaluation that goes on after it was stopped.
//!
//! Each model is written to a file as soon as it is tested, with the configuration that it belongs to. The same
//! evaluation begins behind the last of them, and the file goes when all of them are kept elsewhere.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::protocol::{Progress, Run};
use crate::config::Config;
use crate::files;

/// The models of an evaluation that are trained and tested.
#[derive(Clone, Debug, PartialEq)]
pub struct Unfinished {
    path: PathBuf,
    tested: Tested,
}

/// The file.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Tested {
    config: Config,
    runs: Vec<Run>,
}

impl Unfinished {
    /// What an evaluation with `config` left at `path`: nothing if there is no such file, or that of another experiment.
    pub fn open(path: PathBuf, config: &Config) -> Self {
        let same = |there: &Tested| there.config.decisive() == config.decisive();
        let none = || Tested { config: config.clone(), runs: Vec::new() };
        let tested = read(&path).filter(same).unwrap_or_else(none);
        Self { path, tested }
    }

    /// The configuration of the file `path`; none if it is not there or not whole.
    pub fn config(path: &Path) -> Option<Config> {
        read(path).map(|there| there.config)
    }

    /// The models, in their order.
    pub fn runs(&self) -> Vec<Run> {
        self.tested.runs.clone()
    }

    /// Writes down the model that `event` tells of, if it does.
    pub fn hear(&mut self, event: &Progress) {
        let Progress::Tested { outcome, .. } = event else { return };
        self.tested.runs.push(*outcome);
        // A folder that cannot be written to costs the file and not the evaluation.
        if let Ok(text) = serde_json::to_string_pretty(&self.tested) {
            let _ = files::write(&self.path, (text + "\n").as_bytes());
        }
    }

    /// Removes the file: its models are kept elsewhere.
    pub fn finish(self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn read(path: &Path) -> Option<Tested> {
    let mut file: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let config = Config::from_json(file["config"].take()).ok()?;
    Some(Tested { config, runs: serde_json::from_value(file["runs"].take()).ok()? })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::RunRecord;
    use crate::config::small::small;
    use crate::retrieval::Recalls;

    fn tested(level: f64) -> Progress {
        let last = Recalls { ir: [level; 3], tr: [level; 3] };
        let outcome = Run { last, chosen: None, chosen_epochs: None, validation: None, loss: 0.1, surge: None };
        Progress::Tested { run: 0, outcome }
    }

    fn of_version(version: &str, epochs: usize) -> Config {
        let config = small(&[&format!("evaluate.epochs={epochs}")]);
        let run = RunRecord { version: version.to_owned(), ..RunRecord::of_data("a".to_owned()) };
        Config { run: Some(run), ..config }
    }

    #[test]
    fn models_are_found_again_by_the_same_experiment_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.json");
        let open = |config: &Config| Unfinished::open(path.clone(), config);
        let config = of_version("0.0.1", 5);
        let mut unfinished = open(&config);
        assert_eq!((unfinished.runs(), Unfinished::config(&path)), (Vec::new(), None));
        unfinished.hear(&tested(1.0));
        unfinished.hear(&tested(2.0));
        assert_eq!(open(&config).runs(), unfinished.runs());
        assert_eq!(open(&of_version("0.0.2", 5)).runs().len(), 2, "another version may go on");
        assert_eq!(open(&of_version("0.0.1", 7)).runs().len(), 0);
        assert_eq!(Unfinished::config(&path), Some(config.clone()));
        open(&config).finish();
        assert!(!path.exists());
    }

    #[test]
    fn half_a_file_and_a_folder_that_is_not_there_are_no_reason_to_stop() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.json");
        fs::write(&path, "{\"config\":").unwrap();
        assert_eq!(Unfinished::open(path, &of_version("0.0.1", 5)).runs(), Vec::new());
        let mut unfinished = Unfinished::open(folder.path().join("none/runs.json"), &of_version("0.0.1", 5));
        unfinished.hear(&tested(1.0));
        assert_eq!(unfinished.runs().len(), 1);
        unfinished.finish();
    }
}
