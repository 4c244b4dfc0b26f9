//! The evaluation of a folder: its pairs are tested, and what was measured is kept in it.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::EvaluateError;
use super::file::{EvaluationFile, Named};
use super::protocol::{Evaluation, Progress, Run, evaluate_pairs, train_on_everything};
use super::table::results_table;
use super::unfinished::Unfinished;
use crate::config::{Config, Machine, RunRecord};
use crate::distilled::DistilledSet;
use crate::experiment::Experiment;
use crate::files::{self, WriteError};
use crate::run_folder::{RunFolder, Training, card};

/// What was measured of a folder, and the file with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The file's content.
    pub file: EvaluationFile,
    /// The file.
    pub path: PathBuf,
}

/// Tests the pairs of `folder` as `experiment` says, which is that of the folder with some fields set otherwise.
///
/// What is measured by the folder's own protocol is its `evaluation.json`; anything else is kept beside it. If it is
/// stopped, the same evaluation goes on after the last model that was tested.
pub fn evaluate_folder(
    folder: &RunFolder,
    experiment: Experiment,
    progress: &mut dyn FnMut(Progress),
) -> Result<Kept, EvaluateError> {
    let (own, maker) = folder.require_pairs(&[])?;
    let experiment = with_record(experiment);
    let set = DistilledSet::load(folder.path(), &experiment.device)?;
    let (pairs, learned) = (set.pairs_for(&experiment)?, set.learned.as_ref());
    let named = Named::of(folder.path(), &own, &experiment.config);
    let kept = measure(&experiment, &named, progress, |done, progress| {
        evaluate_pairs(&experiment, &pairs, learned, done, progress)
    })?;
    if named.is_own() {
        let table = results_table(&[("these pairs".to_owned(), &kept.file.evaluation)]).markdown();
        let training = Training::of(&experiment.config, learned);
        files::write(&folder.card(), card(&set, &maker, &training, Some(&table)).as_bytes())?;
    }
    Ok(kept)
}

/// Trains models on the whole train split and keeps what they reach in the folder `out`.
///
/// The folder's own protocol is that of its first training.
pub fn train_folder(
    out: &Path,
    experiment: Experiment,
    progress: &mut dyn FnMut(Progress),
) -> Result<Kept, EvaluateError> {
    RunFolder::new(out).require_training()?;
    fs::create_dir_all(out).map_err(|cause| WriteError::new(out, cause))?;
    let experiment = with_record(experiment);
    let own = EvaluationFile::read(out).map_or_else(|| experiment.config.clone(), |file| file.config);
    let named = Named::of(out, &own, &experiment.config);
    measure(&experiment, &named, progress, |done, progress| train_on_everything(&experiment, done, progress))
}

/// What `run` measures of the models that are not tested yet, kept under its name.
fn measure(
    experiment: &Experiment,
    named: &Named,
    progress: &mut dyn FnMut(Progress),
    run: impl FnOnce(Vec<Run>, &mut dyn FnMut(Progress)) -> Result<Evaluation, EvaluateError>,
) -> Result<Kept, EvaluateError> {
    let path = named.file();
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|cause| WriteError::new(folder, cause))?;
    }
    let mut unfinished = Unfinished::open(named.unfinished(), &experiment.config);
    let done = unfinished.runs();
    if !done.is_empty() {
        progress(Progress::Resumed { done: done.len() });
    }
    let evaluation = run(done, &mut |event| {
        unfinished.hear(&event);
        progress(event);
    })?;
    let (config, differs) = (experiment.config.clone(), named.differs.clone());
    let file = EvaluationFile { config, differs, machine: Some(Machine::here(&experiment.device)), evaluation };
    file.write(&path)?;
    unfinished.finish();
    Ok(Kept { file, path })
}

/// `experiment` with the record of an evaluation: the program and the data, not what made the pairs.
fn with_record(mut experiment: Experiment) -> Experiment {
    let run = Some(RunRecord::of_data(experiment.fingerprint()));
    experiment.config = Config { run, compare: None, ..experiment.config };
    experiment
}
