//! A distillation in a folder: begun, interrupted, resumed, finished.
//!
//! ```text
//! RUN/run.toml            the configuration, written first
//! RUN/checkpoints/        the two newest states
//! RUN/metrics.jsonl       a line a step       RUN/tensorboard/   the same for TensorBoard
//! ```
//! and, at the end, the distilled set (see [`crate::distilled`]). A run that is killed at any moment and resumed ends in
//! the same set: every step is a function of the state and of (seed, purpose, step).

use std::path::{Path, PathBuf};

use burn::tensor::Device;

use super::checkpoint;
use super::distillation::{Distillation, PhaseSeconds, StepReport};
use super::error::DistillError;
use super::finish::finish;
use super::observer::{Event, Observer};
use crate::config::{Config, RunInfo};
use crate::experiment::{Experiment, RUN_FILE};
use crate::metrics::{EventFile, JsonLines, unix_time};

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
    /// Seconds of all its steps, over all processes that took them.
    pub seconds: PhaseSeconds,
}

/// Distils what `config` says into the new folder `out`.
pub fn run(config: Config, out: &Path, device: &Device, observer: &mut dyn Observer) -> Result<Outcome, DistillError> {
    let experiment = Experiment::open_run(config, out, device)?;
    drive(Distillation::new(experiment)?, RunDir::new(out), observer)
}

/// Goes on with the run in `folder`, from its newest checkpoint.
pub fn resume(folder: &Path, device: &Device, observer: &mut dyn Observer) -> Result<Outcome, DistillError> {
    let folder = RunDir::new(folder);
    if !folder.config().is_file() {
        let cause = ": it has no run.toml".to_owned();
        return Err(DistillError::NothingToResume { path: folder.path().display().to_string(), cause });
    }
    let experiment = Experiment::open(Config::read(&folder.config(), &[])?, device)?;
    if let Some(RunInfo { data_fingerprint: then, .. }) = &experiment.config.run {
        let RunInfo { data_fingerprint: now, .. } = RunInfo::of(&experiment.dataset);
        if *then != now {
            return Err(DistillError::OtherData { then: then.clone(), now });
        }
    }
    let distillation = newest(&folder, &experiment, observer)?;
    drive(distillation, folder, observer)
}

/// The state of the newest checkpoint that can be read; the beginning, if there is none at all.
fn newest(folder: &RunDir, experiment: &Experiment, observer: &mut dyn Observer) -> Result<Distillation, DistillError> {
    let found = checkpoint::list(&folder.checkpoints());
    for path in &found {
        match checkpoint::load(path, experiment) {
            Ok(distillation) => return Ok(distillation),
            Err(error) => observer.event(Event::Warning(format!("{} is left out: {error}", path.display()))),
        }
    }
    if found.is_empty() {
        return Distillation::new(experiment.clone());
    }
    let cause = ": none of its checkpoints can be read".to_owned();
    Err(DistillError::NothingToResume { path: folder.path().display().to_string(), cause })
}

/// Takes all steps that are left, then writes the set.
fn drive(mut distillation: Distillation, folder: RunDir, observer: &mut dyn Observer) -> Result<Outcome, DistillError> {
    let config = distillation.experiment().config.distill;
    let (total, steps_per_round) = (config.steps(), config.steps_per_round as u64);
    let mut metrics = Metrics::open(&folder, distillation.done())?;
    let scale = distillation.scale();
    observer.event(Event::Started { done: distillation.done(), total, steps_per_round, scale });
    while !distillation.finished() {
        let report = distillation.step().or_else(|error| save_and_fail(&folder, &distillation, observer, error))?;
        metrics.write(&report)?;
        observer.event(Event::Step(&report));
        let stop = observer.stop();
        if stop || distillation.done().is_multiple_of(steps_per_round) {
            save(&folder, &distillation, observer)?;
        }
        if stop && !distillation.finished() {
            let path = folder.path().display().to_string();
            return Err(DistillError::Interrupted { step: distillation.done(), path });
        }
    }
    finish(&folder, &distillation)?;
    Ok(Outcome { steps: total, seconds: metrics.seconds()?, folder })
}

fn save(folder: &RunDir, distillation: &Distillation, observer: &mut dyn Observer) -> Result<(), DistillError> {
    let path = checkpoint::save(&folder.checkpoints(), distillation)?;
    observer.event(Event::Saved(&path));
    Ok(())
}

/// Saves the state before the step that failed with `error`, which is then returned.
fn save_and_fail(
    folder: &RunDir,
    distillation: &Distillation,
    observer: &mut dyn Observer,
    error: DistillError,
) -> Result<StepReport, DistillError> {
    if let Err(also) = save(folder, distillation, observer) {
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

    fn write(&mut self, report: &StepReport) -> Result<(), DistillError> {
        self.lines.write(report)?;
        let now = unix_time();
        let StepReport { cov, feat_v, feat_l, loss, grad_img, grad_txt, rms_img, rms_txt, .. } = *report;
        let curves = [
            ("loss/total", loss),
            ("loss/cov", cov),
            ("loss/feat_image", feat_v),
            ("loss/feat_text", feat_l),
            ("gradient/image", grad_img),
            ("gradient/text", grad_txt),
            ("pairs/image_rms", rms_img),
            ("pairs/text_rms", rms_txt),
            ("seconds/step", report.seconds.total() as f32),
        ];
        let online = report.info_nce.map(|loss| ("loss/info_nce", loss));
        for (tag, value) in curves.into_iter().chain(online) {
            self.events.scalar(tag, report.step as i64, value, now)?;
        }
        Ok(())
    }

    /// Seconds of all steps on record.
    fn seconds(&self) -> Result<PhaseSeconds, DistillError> {
        let reports = super::finish::read_metrics(self.lines.path())?;
        Ok(reports.iter().fold(PhaseSeconds::default(), |sum, report| sum.plus(&report.seconds)))
    }
}
