//! Teachers on the disk: models in training on all data, kept at their waypoints with what the data looks like to them.
//!
//! ```text
//! FOLDER/teachers.toml                            what they were trained with
//! FOLDER/teacher-00/step-00000.safetensors        trained weights and statistics before the first step
//!                   step-00010.safetensors        after ten, ...
//!                   velocity-00010.safetensors    momentum at the newest of them, until the teacher is whole
//! ```
//! Teacher `k` is a function of the seed and of `k`. A training that is stopped goes on after the last waypoint.

use std::fs;
use std::path::PathBuf;

use burn::module::Module;
use serde::{Deserialize, Serialize};

use super::direction::Way;
use super::statistics::{Entries, Statistics};
use crate::branches::Branches;
use crate::config::{Config, WayMatchConfig};
use crate::engine::Seed;
use crate::experiment::Experiment;
use crate::files::WriteError;
use crate::methods::recipe::{self, ModelRecipe};
use crate::methods::trajectory::Point;
use crate::methods::trajectory::point::{model_at, named, point_in, trained_keys};
use crate::methods::{MethodError, RealBatches};
use crate::model::{Example, Model, ModelOptimizer, TrainRates, Trainer};
use crate::tensor_file::{TensorFile, TensorFileError};

/// What teachers were trained with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Recipe {
    #[serde(flatten)]
    model: ModelRecipe,
    waypoints: Vec<usize>,
    batch: usize,
    entries: usize,
    /// What is kept of the train split at a waypoint.
    statistics: String,
    rates: TrainRates,
}

impl Recipe {
    fn of(experiment: &Experiment) -> Self {
        let model = ModelRecipe::of(experiment);
        let WayMatchConfig { waypoints, batch, entries, rates, .. } = experiment.config.waymatch.clone();
        Self { model, waypoints, batch, entries, statistics: "features".to_owned(), rates }
    }
}

/// Why teachers cannot be trained or used.
#[derive(Debug, thiserror::Error)]
pub enum TeachersError {
    /// A teacher diverged.
    #[error("the loss of teacher {teacher} is not finite in step {step}: try smaller waymatch.rates")]
    NotFinite {
        /// The teacher.
        teacher: usize,
        /// The step.
        step: usize,
    },
}

/// A teacher at one of its waypoints.
#[derive(Clone, Debug)]
pub struct Waypoint {
    /// The teacher as it was, frozen.
    pub model: Model,
    /// What the data looks like to it.
    pub statistics: Statistics,
    /// How it goes on from there; none if no direction is asked.
    pub way: Option<Way>,
}

/// The teachers of an experiment.
pub struct Teachers {
    experiment: Experiment,
    /// A model like a teacher's: which weights are trained, and the values of the others.
    frame: Model,
}

impl Teachers {
    /// Those of `experiment`. Makes the folder if it is not there; an error if it holds others.
    pub fn open(experiment: Experiment) -> Result<Self, MethodError> {
        recipe::keep(&experiment.config.waymatch.folder, "teachers", "waymatch.folder", &Recipe::of(&experiment))?;
        let frame = experiment.model(experiment.config.seed(), 0);
        Ok(Self { experiment, frame })
    }

    fn config(&self) -> &WayMatchConfig {
        &self.experiment.config.waymatch
    }

    /// Trains the teachers that are not whole; `progress` hears of every step.
    pub fn train(&self, progress: &mut dyn FnMut(TeacherStep)) -> Result<(), MethodError> {
        let entries = Entries::draw(&self.experiment);
        (0..self.config().teachers).try_for_each(|teacher| self.train_one(teacher, &entries, progress))
    }

    /// Steps that the teachers still have to take.
    pub fn steps_left(&self) -> u64 {
        let waypoints = &self.config().waypoints;
        let last = waypoints.last().copied().unwrap_or(0);
        let done = |kept: usize| kept.checked_sub(1).map_or(0, |newest| waypoints[newest]);
        (0..self.config().teachers).map(|teacher| (last - done(self.kept(teacher))) as u64).sum()
    }

    /// All waypoints that steps are taken at: a teacher and the number of its waypoint.
    pub fn waypoints(&self) -> Vec<(usize, usize)> {
        let (teachers, first, all) = (self.config().teachers, self.config().first, self.config().waypoints.len());
        (0..teachers).flat_map(|teacher| (first..all).map(move |at| (teacher, at))).collect()
    }

    /// `teacher` at its waypoint number `at`.
    pub fn waypoint(&self, teacher: usize, at: usize) -> Result<Waypoint, MethodError> {
        let file = self.read(teacher, at)?;
        let point = point_in(&file, &self.frame)?;
        let model = model_at(&self.frame, &point).valid().no_grad();
        let statistics = Statistics::in_file(&file, &self.experiment.device)?;
        let way = (self.config().direction > 0.0).then(|| self.way(point, teacher, at)).transpose()?;
        Ok(Waypoint { model, statistics, way })
    }

    /// How `teacher` goes on to the next waypoint from its waypoint number `at`, which is `from`; nowhere from the last.
    fn way(&self, from: Point, teacher: usize, at: usize) -> Result<Way, MethodError> {
        let next = (at + 1).min(self.config().waypoints.len() - 1);
        let way = point_in(&self.read(teacher, next)?, &self.frame)?.minus(&from);
        let keys = trained_keys(&self.frame);
        let count = |side: &str| keys.iter().filter(|(key, _)| key.starts_with(side)).count();
        Ok(Way { from, way, of_encoder: Branches { image: count("visual."), text: count("text.") } })
    }

    /// A model like a teacher's.
    pub fn frame(&self) -> &Model {
        &self.frame
    }

    fn read(&self, teacher: usize, at: usize) -> Result<TensorFile, TensorFileError> {
        TensorFile::read(&self.file(teacher, self.config().waypoints[at]))
    }

    /// Seconds that all teachers took, and the bytes of all files.
    pub fn cost(&self) -> Result<(f64, u64), MethodError> {
        let (mut seconds, mut bytes) = (0.0, 0);
        for teacher in 0..self.config().teachers {
            for &step in &self.config().waypoints {
                let path = self.file(teacher, step);
                bytes += fs::metadata(&path).map_or(0, |about| about.len());
                seconds += TensorFile::read(&path)?.value::<f64>("seconds")?;
            }
        }
        Ok((seconds, bytes))
    }

    fn folder(&self, teacher: usize) -> PathBuf {
        self.config().folder.join(format!("teacher-{teacher:02}"))
    }

    fn file(&self, teacher: usize, step: usize) -> PathBuf {
        self.folder(teacher).join(format!("step-{step:05}.safetensors"))
    }

    fn velocity_file(&self, teacher: usize, step: usize) -> PathBuf {
        self.folder(teacher).join(format!("velocity-{step:05}.safetensors"))
    }

    /// The waypoints of `teacher` that are on the disk.
    fn kept(&self, teacher: usize) -> usize {
        self.config().waypoints.iter().take_while(|&&step| self.file(teacher, step).is_file()).count()
    }

    fn train_one(
        &self,
        teacher: usize,
        entries: &Entries,
        progress: &mut dyn FnMut(TeacherStep),
    ) -> Result<(), MethodError> {
        let (all, kept) = (self.config().waypoints.len(), self.kept(teacher));
        if kept == all {
            return Ok(());
        }
        fs::create_dir_all(self.folder(teacher)).map_err(|cause| WriteError::new(&self.folder(teacher), cause))?;
        let seed = Seed(self.experiment.config.seed().stream("teacher", teacher as u64).next_u64());
        let mut training = self.begun(teacher, kept, seed)?;
        for &waypoint in &self.config().waypoints[kept..] {
            training.go_to(waypoint, progress)?;
            self.keep(&mut training, entries, waypoint)?;
        }
        self.forget_velocities(teacher, None);
        Ok(())
    }

    /// The training of `teacher` after its first `kept` waypoints.
    fn begun(&self, teacher: usize, kept: usize, seed: Seed) -> Result<Training<'_>, MethodError> {
        let Self { experiment, frame } = self;
        let (tau, device) = (experiment.config.head.tau, &experiment.device);
        let (trainer, done) = match kept.checked_sub(1) {
            None => (Trainer::new(experiment.model(seed, 0), tau, device), 0),
            Some(last) => {
                let done = self.config().waypoints[last];
                let file = TensorFile::read(&self.file(teacher, done))?;
                let model = model_at(frame, &point_in(&file, frame)?).valid();
                let optimizer =
                    ModelOptimizer::of_velocities(&TensorFile::read(&self.velocity_file(teacher, done))?, device)?;
                (Trainer::resumed(model, optimizer, tau, device), done)
            }
        };
        let seeded = Experiment { config: Config { seed: seed.0, ..experiment.config.clone() }, ..experiment.clone() };
        let batches = RealBatches::new(&seeded, "teacher.order", self.config().batch, done as u64)?;
        let clock = std::time::Instant::now();
        Ok(Training { config: self.config(), teacher, seed, trainer: Some(trainer), batches, done, clock })
    }

    /// Keeps the teacher in training at its waypoint after `step` steps.
    fn keep(&self, training: &mut Training<'_>, entries: &Entries, step: usize) -> Result<(), MethodError> {
        let Some(trainer) = &training.trainer else { return Ok(()) };
        let model = trainer.model();
        let mut file = named(model);
        let features = entries.features(&self.experiment, model)?;
        Statistics::of(model, features)?.put_into(&mut file);
        file.put_value("seconds", &training.clock.elapsed().as_secs_f64());
        training.clock = std::time::Instant::now();
        // The momentum first: a waypoint that is on the disk has its own.
        trainer.optimizer().velocities().write(&self.velocity_file(training.teacher, step))?;
        file.write(&self.file(training.teacher, step))?;
        self.forget_velocities(training.teacher, Some(step));
        Ok(())
    }

    /// Removes the momentum of `teacher` at all waypoints but `but`. What cannot be removed is only in the way.
    fn forget_velocities(&self, teacher: usize, but: Option<usize>) {
        for &step in self.config().waypoints.iter().filter(|&&step| Some(step) != but) {
            let _ = fs::remove_file(self.velocity_file(teacher, step));
        }
    }
}

/// A step of a teacher is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TeacherStep {
    /// The teacher.
    pub teacher: usize,
    /// Steps that are done.
    pub done: usize,
    /// InfoNCE before the last of them.
    pub loss: f32,
}

/// A teacher in training.
struct Training<'a> {
    config: &'a WayMatchConfig,
    teacher: usize,
    seed: Seed,
    trainer: Option<Trainer>,
    batches: RealBatches,
    done: usize,
    /// Runs since the last waypoint was kept.
    clock: std::time::Instant,
}

impl Training<'_> {
    /// Takes steps until `waypoint` of them are done.
    fn go_to(&mut self, waypoint: usize, progress: &mut dyn FnMut(TeacherStep)) -> Result<(), MethodError> {
        while self.done < waypoint {
            let Some(trainer) = self.trainer.take() else { return Ok(()) };
            let mut dropout = self.seed.stream("teacher.dropout", self.done as u64);
            let example = Example::Batch(self.batches.next_batch()?);
            let (trainer, seen) = trainer.step(example, self.config.rates.into(), &mut dropout)?;
            if !seen.loss.is_finite() {
                return Err(TeachersError::NotFinite { teacher: self.teacher, step: self.done }.into());
            }
            self.trainer = Some(trainer);
            self.done += 1;
            progress(TeacherStep { teacher: self.teacher, done: self.done, loss: seen.loss });
        }
        Ok(())
    }
}
