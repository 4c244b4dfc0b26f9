//! One cell: its set is made, then evaluated, each once.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use burn::tensor::Device;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::differ::{Difference, difference};
use super::error::CompareError;
use super::plan::{Cell, Work};
use crate::config::{Config, MethodName, RUN_FILE, RunInfo};
use crate::distill::{self, DistillError, Observer};
use crate::distilled::{self, DistilledSet};
use crate::engine::peak_memory;
use crate::evaluate::{Evaluation, Progress, Run, Unfinished, evaluate_pairs, train_on_everything};
use crate::experiment::Experiment;
use crate::files::{self, WriteError};
use crate::report::{Row, Table};
use crate::select::{Selection, write_selection};
use crate::shard::Shard;
use crate::trajectory::experts::Experts;

const COST: &str = "cost.json";
const RUNS: &str = "runs.json";
const EVALUATION: &str = "evaluation.json";

/// What making a set took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Steps of distillation; 0 where nothing is learned.
    pub steps: u64,
    /// Seconds of a step, in the mean; none without steps.
    pub seconds_per_step: Option<f64>,
    /// Seconds of all steps, over all processes that took them; without steps, of choosing and writing the pairs.
    pub seconds: f64,
    /// The most memory that the process held while the set was made, in bytes; none where it had held as much before,
    /// for other cells, where another process made the set, or where the system does not say.
    pub peak_memory: Option<u64>,
    /// Seconds of training the experts that the method matches; none where it has none.
    pub expert_seconds: Option<f64>,
    /// Bytes of those experts on the disk.
    pub expert_bytes: Option<u64>,
}

/// `evaluation.json`: what was measured, and with what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct EvaluationFile {
    /// The whole experiment.
    pub config: Config,
    /// What was measured.
    pub evaluation: Evaluation,
}

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
    /// Its experts are being trained.
    Experts,
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

    /// An epoch of a training is done.
    fn epoch(&mut self, event: Progress);
}

impl Cell {
    /// How far the cell in `out` is; an error if it was made with another configuration or from other data than `info`.
    pub(super) fn state(&self, out: &Path, info: &RunInfo) -> Result<State, CompareError> {
        let folder = self.folder(out);
        let path = folder.join(EVALUATION);
        if let Some(EvaluationFile { config, .. }) = read_json(&path) {
            self.require(&path, &config, info)?;
            return Ok(State::Done);
        }
        let path = folder.join(RUNS);
        if let Some(config) = Unfinished::config(&path) {
            self.require(&path, &config, info)?;
        }
        let path = folder.join(RUN_FILE);
        if !path.is_file() {
            return Ok(State::Empty);
        }
        self.require(&path, &Config::read(&path, &[])?, info)?;
        Ok(if read_json::<Cost>(&folder.join(COST)).is_some() { State::Made } else { State::Begun })
    }

    /// Does what is left to do.
    pub(super) fn fill(
        &self,
        out: &Path,
        info: &RunInfo,
        device: &Device,
        watcher: &mut dyn Watcher,
    ) -> Result<(), CompareError> {
        let (folder, state) = (self.folder(out), self.state(out, info)?);
        if state == State::Done {
            watcher.stage(self, Stage::Skipped);
            return Ok(());
        }
        if state != State::Made {
            self.make(&folder, state, device, watcher)?;
        }
        watcher.stage(self, Stage::Evaluating);
        self.evaluate(&folder, info, device, watcher)
    }

    /// What was measured; none if the cell is not filled.
    pub(super) fn evaluation(&self, out: &Path) -> Option<Evaluation> {
        read_json(&self.folder(out).join(EVALUATION)).map(|file: EvaluationFile| file.evaluation)
    }

    /// What making the set took; none if it is not made, or there is none.
    pub(super) fn cost(&self, out: &Path) -> Option<Cost> {
        read_json(&self.folder(out).join(COST))
    }

    fn folder(&self, out: &Path) -> PathBuf {
        out.join(&self.name)
    }

    /// An error unless `config`, of the file `path`, is that of this cell on the data of `info`.
    fn require(&self, path: &Path, config: &Config, info: &RunInfo) -> Result<(), CompareError> {
        let there = Config { compare: None, ..config.without_version() };
        let wanted = Config { run: Some(info.clone()), ..self.config.clone() }.without_version();
        let Some(Difference { field, first, second }) = difference(&there, &wanted) else { return Ok(()) };
        Err(CompareError::OtherConfig { path: path.display().to_string(), field, there: first, wanted: second })
    }

    /// Makes the set, or goes on making it, and writes `cost.json`.
    fn make(
        &self,
        folder: &Path,
        state: State,
        device: &Device,
        watcher: &mut dyn Watcher,
    ) -> Result<(), CompareError> {
        let stage = if state == State::Begun { Stage::Resuming } else { Stage::Making };
        let cost = match self.work {
            Work::Select(selection) => self.select(selection, folder, stage, device, watcher)?,
            Work::Distill => self.distill(folder, stage, device, watcher)?,
            Work::Everything => return Ok(()), // there is no set
        };
        write_json(&folder.join(COST), &cost)
    }

    fn select(
        &self,
        selection: Selection,
        folder: &Path,
        stage: Stage,
        device: &Device,
        watcher: &mut dyn Watcher,
    ) -> Result<Cost, CompareError> {
        watcher.stage(self, stage);
        let (start, before) = (Instant::now(), peak_memory());
        let experiment = Experiment::open(self.config.clone(), device)?.begin_run(folder)?;
        write_selection(selection, &experiment, folder, &mut |event| watcher.epoch(event))?;
        Ok(Cost { peak_memory: new_peak(before), ..Cost::new(0, start.elapsed().as_secs_f64()) })
    }

    fn distill(
        &self,
        folder: &Path,
        stage: Stage,
        device: &Device,
        watcher: &mut dyn Watcher,
    ) -> Result<Cost, CompareError> {
        let experts = self.experts(device, watcher)?;
        watcher.stage(self, stage);
        let before = peak_memory();
        let outcome = match stage {
            Stage::Resuming => distill::resume(folder, device, watcher.steps()),
            _ => distill::run(self.config.clone(), folder, device, watcher.steps()),
        };
        let outcome = outcome.map_err(|error| match error {
            DistillError::Interrupted { .. } => CompareError::Interrupted { cell: self.name.clone() },
            error => error.into(),
        })?;
        let peak_memory = if outcome.taken > 0 { new_peak(before) } else { None };
        let cost = Cost { peak_memory, ..Cost::new(outcome.steps, outcome.seconds.values().sum()) };
        Ok(match experts {
            Some((seconds, bytes)) => Cost { expert_seconds: Some(seconds), expert_bytes: Some(bytes), ..cost },
            None => cost,
        })
    }

    /// Trains the experts that are missing, if the method follows any. Returns their seconds and bytes.
    fn experts(&self, device: &Device, watcher: &mut dyn Watcher) -> Result<Option<(f64, u64)>, CompareError> {
        if self.config.distill.method == MethodName::CovMatch {
            return Ok(None);
        }
        watcher.stage(self, Stage::Experts);
        let experiment = Experiment::open(self.config.clone(), device)?;
        let experts = Experts::open(experiment)?;
        experts.train(Shard::ALL, &mut |_| {})?;
        Ok(Some(experts.cost()?))
    }

    /// Evaluates the set, or training on everything, from the first run that is not in `runs.json`; writes
    /// `evaluation.json`.
    fn evaluate(
        &self,
        folder: &Path,
        info: &RunInfo,
        device: &Device,
        watcher: &mut dyn Watcher,
    ) -> Result<(), CompareError> {
        fs::create_dir_all(folder).map_err(|cause| WriteError::new(folder, cause))?;
        let config = Config { run: Some(info.clone()), ..self.config.clone() };
        let experiment = Experiment::open(config.clone(), device)?;
        let mut unfinished = Unfinished::open(folder.join(RUNS), &config);
        let evaluation = self.measure(folder, &experiment, unfinished.runs(), &mut |event| {
            unfinished.hear(&event);
            watcher.epoch(event);
        })?;
        write_json(&folder.join(EVALUATION), &EvaluationFile { config, evaluation })?;
        unfinished.finish();
        Ok(())
    }

    /// The evaluation whose first runs are `done`.
    fn measure(
        &self,
        folder: &Path,
        experiment: &Experiment,
        done: Vec<Run>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Evaluation, CompareError> {
        let config = &experiment.config;
        if self.work == Work::Everything {
            return Ok(train_on_everything(experiment, &config.train, done, progress)?);
        }
        let set = DistilledSet::load(folder, &experiment.device)?;
        let (pairs, learned) = (set.pairs_for(experiment)?, set.learned.as_ref());
        let evaluation = evaluate_pairs(experiment, &pairs, learned, &config.evaluate, done, progress)?;
        write_card(folder, &set, config, &evaluation)?;
        Ok(evaluation)
    }
}

impl Cost {
    /// That of `steps` steps in `seconds` seconds, without experts.
    fn new(steps: u64, seconds: f64) -> Self {
        let seconds_per_step = (steps > 0).then(|| seconds / steps as f64);
        Self { steps, seconds_per_step, seconds, peak_memory: None, expert_seconds: None, expert_bytes: None }
    }
}

/// The most memory that the process held, if that is more than `before`.
fn new_peak(before: Option<u64>) -> Option<u64> {
    peak_memory().filter(|&peak| before.is_none_or(|before| peak > before))
}

/// Puts the results into the card of `set`.
fn write_card(folder: &Path, set: &DistilledSet, config: &Config, evaluation: &Evaluation) -> Result<(), WriteError> {
    let table = Table::of_recalls(vec![Row::of("these pairs", Some(&evaluation.last))]).markdown();
    let card = distilled::card(set, config, Some(&table));
    files::write(&folder.join("README.md"), card.as_bytes())
}

/// The value of a file; none if it is not there or not whole.
fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), CompareError> {
    let text = serde_json::to_string_pretty(value).map_err(|cause| WriteError::new(path, cause.into()))?;
    Ok(files::write(path, (text + "\n").as_bytes())?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::compare::plan::tests::plan;
    use crate::compare::table::tests::evaluation;

    fn info(fingerprint: &str) -> RunInfo {
        RunInfo { version: "0.0.1".to_owned(), data_fingerprint: fingerprint.to_owned() }
    }

    fn cell() -> Cell {
        plan(r#"["random"]"#, "[4]", false).unwrap().cells.remove(0)
    }

    /// A folder with `run.toml` of the cell.
    fn begun() -> (tempfile::TempDir, PathBuf) {
        let out = tempfile::tempdir().unwrap();
        let folder = out.path().join("random-4");
        fs::create_dir(&folder).unwrap();
        let config = Config { run: Some(info("a")), ..cell().config };
        fs::write(folder.join(RUN_FILE), config.to_toml().unwrap()).unwrap();
        (out, folder)
    }

    #[test]
    fn a_cell_is_empty_begun_made_and_done() {
        let state = |out: &Path| cell().state(out, &info("a")).unwrap();
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(state(empty.path()), State::Empty);
        let (out, folder) = begun();
        assert_eq!(state(out.path()), State::Begun);
        write_json(&folder.join(COST), &Cost::new(2, 3.0)).unwrap();
        assert_eq!(state(out.path()), State::Made);
        let config = Config { run: Some(info("a")), ..cell().config };
        let file = EvaluationFile { config, evaluation: evaluation(1.0) };
        write_json(&folder.join(EVALUATION), &file).unwrap();
        assert_eq!(state(out.path()), State::Done);
        assert_eq!(cell().evaluation(out.path()), Some(file.evaluation));
        assert_eq!(cell().cost(out.path()).unwrap().seconds_per_step, Some(1.5));
    }

    #[test]
    fn half_a_file_is_no_file() {
        let (out, folder) = begun();
        fs::write(folder.join(EVALUATION), "{\"config\":").unwrap();
        assert_eq!(cell().state(out.path(), &info("a")).unwrap(), State::Begun);
    }

    #[test]
    fn another_configuration_or_other_data_are_errors_that_name_the_field() {
        let (out, _) = begun();
        let mut other = cell();
        other.config.evaluate.epochs = 7;
        let error = other.state(out.path(), &info("a")).unwrap_err().to_string();
        for part in ["random-4", "evaluate.epochs", "100", "7", "--out"] {
            assert!(error.contains(part), "{error}");
        }
        let error = cell().state(out.path(), &info("b")).unwrap_err().to_string();
        assert!(error.contains("run.data_fingerprint"), "{error}");
    }
}
