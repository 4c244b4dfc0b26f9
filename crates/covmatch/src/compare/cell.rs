//! One cell: its set is made, then evaluated, each once.

use std::path::Path;

use super::error::CompareError;
use super::plan::Cell;
use crate::config::{Config, Difference, RunRecord, differences};
use crate::distill::{self, DistillError, Observer};
use crate::evaluate::{Evaluation, EvaluationFile, Progress, Unfinished, evaluate_folder, train_folder};
use crate::experiment::Opener;
use crate::methods::{EpochDone, Methods, Work};
use crate::run_folder::{Cost, RunFolder};

/// The models that are tested of an evaluation that goes on: in this version, and in version 0.1.
const UNFINISHED: [&str; 2] = ["evaluation.unfinished.json", "runs.json"];

/// How far a cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing is there.
    Empty,
    /// The set is begun.
    Begun,
    /// The set is whole.
    Made,
    /// The set is evaluated.
    Done,
}

/// What is being done with a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nothing: it was filled before.
    Skipped,
    /// Its set is being made.
    Making,
    /// Its set goes on being made.
    Resuming,
    /// Its set is being evaluated.
    Evaluating,
}

/// Listens to a comparison and may ask it to stop.
pub trait Watcher {
    /// A stage of a cell begins.
    fn stage(&mut self, cell: &Cell, stage: Stage);

    /// Who listens to a distillation.
    fn steps(&mut self) -> &mut dyn Observer;

    /// An evaluation goes on.
    fn epoch(&mut self, event: Progress);

    /// An epoch of a training that a selection looks at is done.
    fn selecting(&mut self, event: EpochDone);
}

/// What all cells of a comparison share.
pub(super) struct Bench<'a> {
    /// The methods there are.
    pub methods: &'a Methods,
    /// The folder of the comparison.
    pub out: &'a Path,
    /// What identifies the data.
    pub record: RunRecord,
    /// Data and weights that are open.
    pub opener: Opener,
}

impl Cell {
    /// How far the cell in `out` is; an error if it was made with another configuration or from other data than those of
    /// `record`.
    pub(super) fn state(&self, out: &Path, record: &RunRecord) -> Result<State, CompareError> {
        let folder = self.folder(out);
        if let Some(file) = EvaluationFile::read(folder.path()) {
            self.require(folder.path(), &file.config, record)?;
            return Ok(State::Done);
        }
        for path in UNFINISHED.map(|name| folder.path().join(name)) {
            if let Some(config) = Unfinished::config(&path) {
                self.require(&path, &config, record)?;
            }
        }
        if !folder.config_file().is_file() {
            return Ok(State::Empty);
        }
        self.require(&folder.config_file(), &folder.config(&[])?, record)?;
        Ok(if Cost::read(&folder).is_some() { State::Made } else { State::Begun })
    }

    /// Does what is left to do.
    pub(super) fn fill(&self, bench: &mut Bench<'_>, watcher: &mut dyn Watcher) -> Result<(), CompareError> {
        let (folder, state) = (self.folder(bench.out), self.state(bench.out, &bench.record)?);
        if state == State::Done {
            watcher.stage(self, Stage::Skipped);
            return Ok(());
        }
        if state != State::Made {
            self.make(&folder, state, bench, watcher)?;
        }
        watcher.stage(self, Stage::Evaluating);
        let experiment = bench.opener.open(self.config.clone())?;
        let progress = &mut |event| watcher.epoch(event);
        match self.method {
            Some(_) => evaluate_folder(&folder, experiment, progress)?,
            None => train_folder(folder.path(), experiment, progress)?,
        };
        Ok(())
    }

    /// What was measured; none if the cell is not filled.
    pub(super) fn evaluation(&self, out: &Path) -> Option<Evaluation> {
        EvaluationFile::read(self.folder(out).path()).map(|file| file.evaluation)
    }

    /// What making the set took; none if it is not made, or there is none.
    pub(super) fn cost(&self, out: &Path) -> Option<Cost> {
        Cost::read(&self.folder(out))
    }

    /// The folder of the cell in that of the comparison.
    pub fn folder(&self, out: &Path) -> RunFolder {
        RunFolder::new(out.join(&self.name))
    }

    /// An error unless `config`, of the file `path`, is that of this cell on the data of `record`.
    fn require(&self, path: &Path, config: &Config, record: &RunRecord) -> Result<(), CompareError> {
        let wanted = Config { run: Some(record.clone()), ..self.config.clone() };
        let found = differences(&config.decisive(), &wanted.decisive()).into_iter().next();
        let Some(Difference { field, first, second }) = found else { return Ok(()) };
        Err(CompareError::OtherConfig { path: path.display().to_string(), field, there: first, wanted: second })
    }

    /// Makes the set, or goes on making it.
    fn make(
        &self,
        folder: &RunFolder,
        state: State,
        bench: &mut Bench<'_>,
        watcher: &mut dyn Watcher,
    ) -> Result<(), CompareError> {
        let Some(method) = &self.method else { return Ok(()) }; // there is no set
        let begun = state == State::Begun;
        watcher.stage(self, if begun { Stage::Resuming } else { Stage::Making });
        let made = match method.work {
            Work::Selects(_) => {
                let (name, experiment) = (method.name, bench.opener.open(self.config.clone())?);
                distill::select(bench.methods, name, experiment, folder, &mut |done| watcher.selecting(done)).map(drop)
            }
            Work::Learns(_) if begun => {
                let experiment = bench.opener.open(folder.config(&[])?)?;
                distill::resume(bench.methods, experiment, folder, watcher.steps()).map(drop)
            }
            Work::Learns(_) => {
                let experiment = bench.opener.open(self.config.clone())?;
                distill::run(bench.methods, experiment, folder, watcher.steps()).map(drop)
            }
        };
        made.map_err(|error| match error {
            DistillError::Interrupted { .. } => CompareError::Interrupted { cell: self.name.clone() },
            error => error.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::compare::plan::tests::plan;
    use crate::compare::table::tests::evaluation;
    use std::fs;
    use std::path::PathBuf;

    fn record(fingerprint: &str) -> RunRecord {
        RunRecord { version: "0.0.1".to_owned(), ..RunRecord::of_data(fingerprint.to_owned()) }
    }

    fn cell() -> Cell {
        plan(r#"["random"]"#, "[4]", false).unwrap().cells.remove(0)
    }

    /// A folder with `run.toml` of the cell.
    fn begun() -> (tempfile::TempDir, PathBuf) {
        let out = tempfile::tempdir().unwrap();
        let folder = out.path().join("random-4");
        fs::create_dir(&folder).unwrap();
        let config = Config { run: Some(record("a")), ..cell().config };
        fs::write(folder.join("run.toml"), config.to_toml().unwrap()).unwrap();
        (out, folder)
    }

    #[test]
    fn a_cell_is_empty_begun_made_and_done() {
        let state = |out: &Path| cell().state(out, &record("a")).unwrap();
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(state(empty.path()), State::Empty);
        let (out, folder) = begun();
        assert_eq!(state(out.path()), State::Begun);
        Cost::new(2, 3.0).write(&RunFolder::new(&folder)).unwrap();
        assert_eq!(state(out.path()), State::Made);
        let config = Config { run: Some(record("a")), ..cell().config };
        let file = EvaluationFile { config, differs: Vec::new(), machine: None, evaluation: evaluation(1.0) };
        file.write(&folder.join("evaluation.json")).unwrap();
        assert_eq!(state(out.path()), State::Done);
        assert_eq!(cell().evaluation(out.path()), Some(file.evaluation));
        assert_eq!(cell().cost(out.path()).unwrap().seconds_per_step, Some(1.5));
    }

    #[test]
    fn half_a_file_is_no_file() {
        let (out, folder) = begun();
        fs::write(folder.join("evaluation.json"), "{\"config\":").unwrap();
        assert_eq!(cell().state(out.path(), &record("a")).unwrap(), State::Begun);
    }

    #[test]
    fn another_configuration_or_other_data_are_errors_that_name_the_field() {
        let (out, _) = begun();
        let mut other = cell();
        other.config.evaluate.epochs = 7;
        let error = other.state(out.path(), &record("a")).unwrap_err().to_string();
        for part in ["random-4", "evaluate.epochs", "100", "7", "--out"] {
            assert!(error.contains(part), "{error}");
        }
        let error = cell().state(out.path(), &record("b")).unwrap_err().to_string();
        assert!(error.contains("run.data_fingerprint"), "{error}");
    }
}
