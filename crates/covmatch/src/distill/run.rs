//! A distillation in a folder: begun, interrupted, resumed, finished.
//!
//! ```text
//! RUN/run.toml            the configuration, written first
//! RUN/checkpoints/        the two newest states
//! RUN/metrics.jsonl       a line a step       RUN/tensorboard/   the same for TensorBoard
//! ```
//! and, at the end, the distilled set (see [`crate::distilled`]). A run that is killed at any moment and resumed ends in
//! the same set: every step is a function of the state and of (seed, purpose, step).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use serde::Serialize;

use super::checkpoint;
use super::distillation::Distillation;
use super::error::DistillError;
use super::finish::{finish, phase_seconds};
use super::method::{Method, Report};
use super::observer::{Event, Observer};
use crate::config::{Config, MethodName, RUN_FILE, RunInfo};
use crate::experiment::Experiment;
use crate::metrics::{EventFile, JsonLines, unix_time};
use crate::trajectory::TrajectoryMatching;

/// The files of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir(PathBuf);

impl RunDir {
    /// The run in `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The configuration.
    pub fn config(&self) -> PathBuf {
        self.0.join(RUN_FILE)
    }

    /// The states.
    pub fn checkpoints(&self) -> PathBuf {
        self.0.join("checkpoints")
    }

    /// A line a step.
    pub fn metrics(&self) -> PathBuf {
        self.0.join("metrics.jsonl")
    }

    /// Event files.
    pub fn tensorboard(&self) -> PathBuf {
        self.0.join("tensorboard")
    }
}

/// What a finished run leaves.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its folder.
    pub folder: RunDir,
    /// Steps of the run.
    pub steps: u64,
    /// Those of them that this process took.
    pub taken: u64,
    /// Seconds of all its steps by phase, over all processes that took them.
    pub seconds: BTreeMap<String, f64>,
}

/// Distils what `config` says into the new folder `out`.
pub fn run(config: Config, out: &Path, device: &Device, observer: &mut dyn Observer) -> Result<Outcome, DistillError> {
    match config.distill.method {
        MethodName::CovMatch => run_method::<Distillation>(config, out, device, observer),
        MethodName::MttVl | MethodName::Lors => run_method::<TrajectoryMatching>(config, out, device, observer),
    }
}

/// Distils by the method `M`, whatever `distill.method` says, into the new folder `out`.
pub fn run_method<M: Method>(
    config: Config,
    out: &Path,
    device: &Device,
    observer: &mut dyn Observer,
) -> Result<Outcome, DistillError> {
    let experiment = Experiment::open_run(config, out, device)?;
    drive(M::begin(experiment)?, RunDir::new(out), observer)
}

/// Goes on with the run in `folder`, from its newest checkpoint.
pub fn resume(folder: &Path, device: &Device, observer: &mut dyn Observer) -> Result<Outcome, DistillError> {
    match config_of(&RunDir::new(folder))?.distill.method {
        MethodName::CovMatch => resume_method::<Distillation>(folder, device, observer),
        MethodName::MttVl | MethodName::Lors => resume_method::<TrajectoryMatching>(folder, device, observer),
    }
}

/// Goes on with the run of the method `M` in `folder`, from its newest checkpoint.
pub fn resume_method<M: Method>(
    folder: &Path,
    device: &Device,
    observer: &mut dyn Observer,
) -> Result<Outcome, DistillError> {
    let folder = RunDir::new(folder);
    let experiment = Experiment::open(config_of(&folder)?, device)?;
    if let Some(RunInfo { data_fingerprint: then, .. }) = &experiment.config.run {
        let RunInfo { data_fingerprint: now, .. } = RunInfo::of(&experiment.dataset);
        if *then != now {
            return Err(DistillError::OtherData { then: then.clone(), now });
        }
    }
    drive(newest::<M>(&folder, &experiment, observer)?, folder, observer)
}

/// The configuration of the run in `folder`.
fn config_of(folder: &RunDir) -> Result<Config, DistillError> {
    if !folder.config().is_file() {
        let cause = ": it has no run.toml".to_owned();
        return Err(DistillError::NothingToResume { path: folder.path().display().to_string(), cause });
    }
    Ok(Config::read(&folder.config(), &[])?)
}

/// The state of the newest checkpoint that can be read; the beginning, if there is none at all.
fn newest<M: Method>(folder: &RunDir, experiment: &Experiment, observer: &mut dyn Observer) -> Result<M, DistillError> {
    let found = checkpoint::list(&folder.checkpoints());
    for path in &found {
        match M::load(path, experiment) {
            Ok(method) => return Ok(method),
            Err(error) => observer.event(Event::Warning(format!("{} is left out: {error}", path.display()))),
        }
    }
    if found.is_empty() {
        return M::begin(experiment.clone());
    }
    let cause = ": none of its checkpoints can be read".to_owned();
    Err(DistillError::NothingToResume { path: folder.path().display().to_string(), cause })
}

/// Takes all steps that are left, then writes the set.
fn drive<M: Method>(mut method: M, folder: RunDir, observer: &mut dyn Observer) -> Result<Outcome, DistillError> {
    let config = method.experiment().config.distill;
    let (total, steps_per_round) = (config.steps(), config.steps_per_round as u64);
    let done = method.done();
    let mut metrics = Metrics::open(&folder, done)?;
    observer.event(Event::Started { done, total, steps_per_round, constants: method.constants() });
    let mut said = None;
    while method.done() < total {
        let report = method.step().or_else(|error| save_and_fail(&folder, &method, observer, error))?;
        metrics.write(&report)?;
        observer.event(Event::Step(&report));
        if let Some(text) = report.warning().filter(|text| said.as_ref() != Some(text)) {
            observer.event(Event::Warning(text.clone()));
            said = Some(text);
        }
        let stop = observer.stop();
        if stop || method.done().is_multiple_of(steps_per_round) {
            save(&folder, &method, observer)?;
        }
        if stop && method.done() < total {
            let path = folder.path().display().to_string();
            return Err(DistillError::Interrupted { step: method.done(), path });
        }
    }
    finish(&folder, &method)?;
    Ok(Outcome { steps: total, taken: total - done, seconds: phase_seconds(metrics.lines.path())?, folder })
}

fn save<M: Method>(folder: &RunDir, method: &M, observer: &mut dyn Observer) -> Result<(), DistillError> {
    let path = checkpoint::save(&folder.checkpoints(), method)?;
    observer.event(Event::Saved(&path));
    Ok(())
}

/// Saves the state before the step that failed with `error`, which is then returned.
fn save_and_fail<M: Method>(
    folder: &RunDir,
    method: &M,
    observer: &mut dyn Observer,
    error: DistillError,
) -> Result<M::Report, DistillError> {
    if let Err(also) = save(folder, method, observer) {
        observer.event(Event::Warning(format!("the state could not be saved either: {also}")));
    }
    Err(error)
}

/// Both records of a run's steps.
struct Metrics {
    lines: JsonLines,
    events: EventFile,
}

impl Metrics {
    /// The records of the run in `folder` before step `done`.
    fn open(folder: &RunDir, done: u64) -> Result<Self, DistillError> {
        let before = |line: &serde_json::Value| line["step"].as_u64().is_some_and(|step| step < done);
        let lines = JsonLines::resume(folder.metrics(), before)?;
        let mut events = EventFile::create(folder.tensorboard())?;
        if done > 0 {
            events.restart(done as i64, unix_time())?;
        }
        Ok(Self { lines, events })
    }

    fn write<R: Report + Serialize>(&mut self, report: &R) -> Result<(), DistillError> {
        self.lines.write(report)?;
        let now = unix_time();
        for (tag, value) in report.curves() {
            self.events.scalar(tag, report.step() as i64, value, now)?;
        }
        Ok(self.events.scalar("seconds/step", report.step() as i64, report.seconds() as f32, now)?)
    }
}
