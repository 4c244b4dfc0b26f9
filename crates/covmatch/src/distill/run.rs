//! A learner in a folder: begun, interrupted, resumed, finished.
//!
//! A run that is killed at any moment and resumed ends in the same pairs: every step is a function of the state and of
//! (seed, purpose, step).

use std::collections::BTreeMap;

use super::checkpoint;
use super::error::DistillError;
use super::metrics::{Metrics, phase_seconds};
use super::observer::{Event, Observer};
use crate::config::{DistillConfig, Machine, Maker, RunRecord};
use crate::engine::peak_memory;
use crate::experiment::Experiment;
use crate::methods::{Learner, Learns, MethodError, Methods, PreparationCost, Prepare};
use crate::run_folder::{Cost, Made, RunFolder, new_peak, write_set};

/// What a finished run leaves.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its folder.
    pub folder: RunFolder,
    /// Steps of the run.
    pub steps: u64,
    /// Seconds of all its steps by phase, over all processes that took them.
    pub seconds: BTreeMap<String, f64>,
}

/// Learns the pairs of `experiment` by its method, `distill.method`, in `folder`, which holds no run yet.
pub fn run(
    methods: &Methods,
    experiment: Experiment,
    folder: &RunFolder,
    observer: &mut dyn Observer,
) -> Result<Outcome, DistillError> {
    let (method, learns) = methods.learning(&experiment.config.distill.method)?;
    methods.check("the experiment", &experiment.config)?;
    let maker = Maker::of(method.name, method.title, true, &experiment.device);
    let experiment = folder.begin(experiment, maker.clone())?;
    prepare(learns, &experiment, observer)?;
    let before = peak_memory();
    let learner = (learns.begin)(experiment.clone())?;
    Run { experiment, maker, learns, folder, before }.drive(learner, observer)
}

/// Goes on with the run in `folder`, on which `experiment` was opened, from its newest checkpoint.
pub fn resume(
    methods: &Methods,
    experiment: Experiment,
    folder: &RunFolder,
    observer: &mut dyn Observer,
) -> Result<Outcome, DistillError> {
    let (_, maker) = folder.require_learner()?;
    let (_, learns) = methods.learning(&maker.method)?;
    if let Some(RunRecord { data_fingerprint: then, .. }) = &experiment.config.run {
        let now = experiment.fingerprint();
        if *then != now {
            return Err(DistillError::OtherData { then: then.clone(), now });
        }
    }
    warn_of_another_machine(&experiment, observer);
    prepare(learns, &experiment, observer)?;
    let before = peak_memory();
    let learner = newest(learns, folder, &experiment, observer)?;
    Run { experiment, maker, learns, folder, before }.drive(learner, observer)
}

/// Makes what the method needs first, where it is missing.
fn prepare(learns: &Learns, experiment: &Experiment, observer: &mut dyn Observer) -> Result<(), MethodError> {
    let Some(Prepare { what, make, .. }) = learns.prepare else { return Ok(()) };
    make(experiment.clone(), &mut |prepared| observer.event(Event::Preparing { what, prepared: &prepared }))
}

/// Sums depend on threads and vector instructions: says so where they are not those of the run's beginning.
fn warn_of_another_machine(experiment: &Experiment, observer: &mut dyn Observer) {
    let maker = experiment.config.run.as_ref().and_then(|run| run.maker.as_ref());
    let here = Machine::here(&experiment.device);
    if let Some(Maker { machine, .. }) = maker.filter(|maker| maker.machine != here) {
        let text = format!("the run began with {machine} and goes on with {here}: its last digits will be others");
        observer.event(Event::Warning(text));
    }
}

/// The learner at the newest checkpoint that can be read; at its beginning, if there is none at all.
fn newest(
    learns: &Learns,
    folder: &RunFolder,
    experiment: &Experiment,
    observer: &mut dyn Observer,
) -> Result<Box<dyn Learner>, DistillError> {
    let found = checkpoint::list(&folder.checkpoints());
    for path in &found {
        match (learns.resume)(experiment.clone(), path) {
            Ok(learner) => return Ok(learner),
            Err(error) => observer.event(Event::Warning(format!("{} is left out: {error}", path.display()))),
        }
    }
    match found.is_empty() {
        true => Ok((learns.begin)(experiment.clone())?),
        false => Err(DistillError::NothingToResume { path: folder.path().display().to_string() }),
    }
}

/// A run that has begun.
struct Run<'a> {
    experiment: Experiment,
    maker: Maker,
    learns: &'a Learns,
    folder: &'a RunFolder,
    /// The most memory that the process held before it.
    before: Option<u64>,
}

impl Run<'_> {
    /// Takes all steps that are left, then writes the set.
    fn drive(&self, mut learner: Box<dyn Learner>, observer: &mut dyn Observer) -> Result<Outcome, DistillError> {
        let config = &self.experiment.config.distill;
        let (done, total) = (learner.done(), config.steps());
        let mut metrics = Metrics::open(self.folder, done)?;
        let (constants, steps_per_round) = (learner.constants(), config.steps_per_round as u64);
        observer.event(Event::Started { done, total, steps_per_round, constants });
        self.steps(&mut *learner, config, &mut metrics, observer)?;
        self.finish(&*learner, learner.done() > done)
    }

    fn steps(
        &self,
        learner: &mut dyn Learner,
        config: &DistillConfig,
        metrics: &mut Metrics,
        observer: &mut dyn Observer,
    ) -> Result<(), DistillError> {
        let mut said = None;
        while learner.done() < config.steps() {
            let report = learner.step().or_else(|error| self.save_and_fail(learner, observer, error))?;
            metrics.write(&report)?;
            observer.event(Event::Step(&report));
            if let Some(text) = report.warning.filter(|text| said.as_ref() != Some(text)) {
                observer.event(Event::Warning(text.clone()));
                said = Some(text);
            }
            let stop = observer.stop();
            if stop || learner.done().is_multiple_of(config.steps_per_round as u64) {
                self.save(learner, observer)?;
            }
            if stop && learner.done() < config.steps() {
                let path = self.folder.path().display().to_string();
                return Err(DistillError::Interrupted { step: learner.done(), path });
            }
        }
        Ok(())
    }

    /// Writes the set and what it took; `took_steps` tells whether this process took any.
    fn finish(&self, learner: &dyn Learner, took_steps: bool) -> Result<Outcome, DistillError> {
        let synthetic = learner.synthetic();
        let (pairs, learned) = (learner.pairs(), learner.learned()?);
        let made = Made { pairs, captions: &synthetic.captions, learned };
        write_set(self.folder, &self.experiment, &self.maker, learner.done(), made)?;
        let peak_memory = if took_steps { new_peak(self.before) } else { None };
        let (steps, seconds) = (learner.done(), phase_seconds(&self.folder.metrics())?);
        let cost = Cost { peak_memory, ..Cost::new(steps, seconds.values().sum()) };
        self.with_preparation(cost)?.write(self.folder)?;
        Ok(Outcome { steps, seconds, folder: self.folder.clone() })
    }

    /// `cost` with that of what the method needs first.
    fn with_preparation(&self, cost: Cost) -> Result<Cost, DistillError> {
        let Some(Prepare { cost: of_preparation, .. }) = self.learns.prepare else { return Ok(cost) };
        let PreparationCost { seconds, bytes } = of_preparation(self.experiment.clone())?;
        Ok(Cost { expert_seconds: Some(seconds), expert_bytes: Some(bytes), ..cost })
    }

    fn save(&self, learner: &dyn Learner, observer: &mut dyn Observer) -> Result<(), DistillError> {
        let path = checkpoint::save(&self.folder.checkpoints(), learner)?;
        observer.event(Event::Saved(&path));
        Ok(())
    }

    /// Saves the state before the step that failed with `error`, which is then returned.
    fn save_and_fail<T>(
        &self,
        learner: &dyn Learner,
        observer: &mut dyn Observer,
        error: MethodError,
    ) -> Result<T, DistillError> {
        if let Err(also) = self.save(learner, observer) {
            observer.event(Event::Warning(format!("the state could not be saved either: {also}")));
        }
        Err(error.into())
    }
}
