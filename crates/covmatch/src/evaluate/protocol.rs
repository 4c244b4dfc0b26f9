//! The evaluation protocol: fresh pretrained encoders and random heads, trained on the pairs alone, tested by retrieval.
//!
//! SGD with momentum on InfoNCE; each epoch visits all pairs once in a new order, the last batch may be smaller; the
//! learning rates are multiplied by `decay` at half of the epochs. `run` number `r` has its own heads, orders and
//! dropout. Synthetic pictures are never augmented. A set that brings its own learning rates and similarity is trained on
//! with those.

use std::sync::Arc;

use burn::tensor::{Int, Tensor, TensorData};
use serde::{Deserialize, Serialize};

use super::gallery::EncodedGallery;
use super::retrieval::{Recalls, Spread};
use crate::config::TrainConfig;
use crate::data::loader::{Ahead, Prefetch};
use crate::data::{DataError, Split};
use crate::distilled::Learned;
use crate::encoders::{EncoderError, Mode};
use crate::engine::Seed;
use crate::experiment::Experiment;
use crate::losses::PairLoss;
use crate::model::{Branches, Inputs, Model, ModelOptimizer, PartRates, TextLevel};

/// Why an evaluation stops.
#[derive(Debug, thiserror::Error)]
pub enum EvaluateError {
    /// The data cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// An encoder refuses its input.
    #[error(transparent)]
    Encoder(#[from] EncoderError),
    /// The split cannot be encoded.
    #[error(transparent)]
    Experiment(#[from] crate::experiment::ExperimentError),
    /// There is nothing to retrieve.
    #[error("the dataset has no {split} split: add one to the annotations, or choose data that has it")]
    EmptySplit {
        /// The split.
        split: Split,
    },
    /// The loss is not a finite number.
    #[error(
        "the loss is not finite in epoch {epoch} of run {run}: the pairs or the rates are out of scale; try smaller \
         evaluate.rates"
    )]
    NotFinite {
        /// The run.
        run: usize,
        /// The epoch.
        epoch: usize,
    },
}

/// What happens during an evaluation.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Progress {
    /// An epoch is done.
    Epoch {
        /// The run, from 0.
        run: usize,
        /// The epoch, from 0.
        epoch: usize,
        /// Epochs of a run.
        epochs: usize,
        /// Mean loss of its steps.
        loss: f32,
    },
    /// The model was tried on the validation split.
    Validated {
        /// The run, from 0.
        run: usize,
        /// Epochs that are done.
        epochs: usize,
        /// The recalls.
        recalls: Recalls,
    },
    /// A run is done.
    Tested {
        /// The run, from 0.
        run: usize,
        /// What it measured.
        outcome: Run,
    },
}

/// One trained model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Test recalls after the last epoch.
    pub last: Recalls,
    /// Test recalls after the epoch with the best validation; none without validation.
    pub chosen: Option<Recalls>,
    /// Epochs that were done by then.
    pub chosen_epochs: Option<usize>,
    /// Validation recalls by then: what settings may be chosen by.
    pub validation: Option<Recalls>,
    /// Mean loss of the last epoch.
    pub loss: f32,
}

/// All repetitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The repetitions.
    pub runs: Vec<Run>,
    /// Last epoch, mean and standard deviation.
    pub last: Spread,
    /// Epoch chosen on the validation split; none without validation.
    pub chosen: Option<Spread>,
}

impl Evaluation {
    fn of(runs: Vec<Run>) -> Option<Self> {
        let last: Vec<Recalls> = runs.iter().map(|run| run.last).collect();
        let chosen: Vec<Recalls> = runs.iter().filter_map(|run| run.chosen).collect();
        let last = Spread::of(&last)?;
        Some(Self { runs, last, chosen: Spread::of(&chosen) })
    }
}

/// Trains `config.runs` models on `pairs`, with what was `learned` beside them, and tests them.
///
/// The first of them are `done`, from an evaluation that ended early: they are not trained again.
pub fn evaluate_pairs(
    experiment: &Experiment,
    pairs: &Inputs,
    learned: Option<&Learned>,
    config: &TrainConfig,
    done: Vec<Run>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Evaluation, EvaluateError> {
    let seed = experiment.config.seed();
    let mut steps = |run: usize, epoch: usize| {
        let n = pairs.len() as u32;
        let order = seed.stream(&format!("evaluate.{run}.order"), epoch as u64).shuffle(n);
        let batches: Vec<Vec<u32>> = order.chunks(config.batch).map(<[u32]>::to_vec).collect();
        let select = move |rows: Vec<u32>| {
            let rows: Vec<i64> = rows.into_iter().map(i64::from).collect();
            let count = rows.len();
            let rows = Tensor::<1, Int>::from_data(TensorData::new(rows, [count]), &experiment.device);
            let target = learned.and_then(|learned| target(learned, &rows));
            Source::Pairs(pairs.select(&rows), target)
        };
        let batches = batches.into_iter().filter(|rows| rows.len() > 1); // one pair has no negative
        Ok(Box::new(batches.map(move |rows| Ok(select(rows)))) as Batches<'_>)
    };
    // Sentence features leave the text encoder out: there is nothing that could train it.
    let train_text_encoder = config.train_text_encoder && pairs.level == TextLevel::Inputs;
    let config = TrainConfig { train_text_encoder, ..*config };
    let rates = learned.filter(|_| config.learned_rates).map(|learned| learned.rates);
    let recipe = Recipe { config: &config, rates, purpose: "evaluate" };
    repeat(experiment, recipe, done, &mut steps, progress)
}

/// The learned similarity of the pairs at `rows` with its loss.
fn target(learned: &Learned, rows: &Tensor<1, Int>) -> Option<(PairLoss, Tensor<2>)> {
    let similarity = learned.similarity.clone()?;
    Some((learned.loss, similarity.select(0, rows.clone()).select(1, rows.clone())))
}

/// Trains `config.runs` models on the whole train split and tests them; the first of them are `done`.
pub fn train_on_everything(
    experiment: &Experiment,
    config: &TrainConfig,
    done: Vec<Run>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Evaluation, EvaluateError> {
    let seed = experiment.config.seed();
    let augment = experiment.config.distill.augmentation();
    let mut steps = |run: usize, epoch: usize| {
        let loader = experiment.train_loader(seed, &format!("train.{run}"), config.batch, augment)?;
        let per_epoch = loader.batches_per_epoch();
        let batches = Prefetch::new(Arc::new(loader), epoch as u64 * per_epoch, Ahead::default());
        let batches = batches.take(per_epoch as usize).map(|batch| Ok(Source::Batch(batch?)));
        Ok(Box::new(batches) as Batches<'_>)
    };
    repeat(experiment, Recipe { config, rates: None, purpose: "train" }, done, &mut steps, progress)
}

/// What a step is trained on.
#[allow(clippy::large_enum_variant)] // one exists at a time
enum Source {
    /// Pairs that are embedded already, and a similarity that was learned with them.
    Pairs(Inputs, Option<(PairLoss, Tensor<2>)>),
    /// A batch of the data.
    Batch(crate::data::loader::Batch),
}

/// The steps of an epoch.
type Batches<'a> = Box<dyn Iterator<Item = Result<Source, EvaluateError>> + 'a>;

/// Makes the steps of an epoch of a run.
type Epochs<'a, 'b> = &'a mut dyn FnMut(usize, usize) -> Result<Batches<'b>, EvaluateError>;

/// How models are trained.
#[derive(Clone, Copy)]
struct Recipe<'a> {
    config: &'a TrainConfig,
    /// Learned rates of both sides, in place of those of the configuration.
    rates: Option<Branches<f32>>,
    purpose: &'a str,
}

impl Recipe<'_> {
    /// The rates of `epoch`, counted from 0.
    fn rates(&self, epoch: usize) -> PartRates {
        let (own, factor) = (self.config.rates, self.config.rate_factor(epoch));
        match self.rates {
            Some(rates) => PartRates::of_branches(rates.map(|lr| lr * factor), own.momentum, own.weight_decay),
            None => own.scaled(factor).into(),
        }
    }
}

fn repeat(
    experiment: &Experiment,
    recipe: Recipe<'_>,
    done: Vec<Run>,
    steps: Epochs<'_, '_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Evaluation, EvaluateError> {
    let mut runs = done;
    for run in runs.len()..recipe.config.runs {
        let outcome = Training { experiment, recipe, config: recipe.config, run }.run(steps, progress)?;
        progress(Progress::Tested { run, outcome });
        runs.push(outcome);
    }
    Evaluation::of(runs).ok_or(EvaluateError::EmptySplit { split: Split::Test })
}

/// One run.
struct Training<'a> {
    experiment: &'a Experiment,
    recipe: Recipe<'a>,
    config: &'a TrainConfig,
    run: usize,
}

/// The best model on the validation split so far.
struct Chosen {
    model: Model,
    epochs: usize,
    recalls: Recalls,
}

impl Training<'_> {
    fn run(&self, steps: Epochs<'_, '_>, progress: &mut dyn FnMut(Progress)) -> Result<Run, EvaluateError> {
        let mut model = self.experiment.model(self.run_seed(), 0);
        if !self.config.train_text_encoder {
            model = model.with_frozen_text();
        }
        let mut optimizer = ModelOptimizer::default();
        let (mut chosen, mut loss) = (None, f32::NAN);
        for epoch in 0..self.config.epochs {
            let batches = steps(self.run, epoch)?;
            (model, loss) = self.epoch(model, &mut optimizer, epoch, batches)?;
            progress(Progress::Epoch { run: self.run, epoch, epochs: self.config.epochs, loss });
            if self.validates(epoch + 1) {
                let recalls = EncodedGallery::new(self.experiment, &model, Split::Val)?.recalls();
                progress(Progress::Validated { run: self.run, epochs: epoch + 1, recalls });
                chosen = better(chosen, &model, epoch + 1, recalls);
            }
        }
        let last = EncodedGallery::new(self.experiment, &model, Split::Test)?.recalls();
        let chosen_recalls = match &chosen {
            Some(chosen) if chosen.epochs == self.config.epochs => Some(last),
            Some(chosen) => Some(EncodedGallery::new(self.experiment, &chosen.model, Split::Test)?.recalls()),
            None => None,
        };
        let (chosen_epochs, validation) = chosen.map(|chosen| (chosen.epochs, chosen.recalls)).unzip();
        Ok(Run { last, chosen: chosen_recalls, chosen_epochs, validation, loss })
    }

    /// A seed for this run alone.
    fn run_seed(&self) -> Seed {
        let seed = self.experiment.config.seed();
        Seed(seed.stream(&format!("{}.run", self.recipe.purpose), self.run as u64).next_u64())
    }

    fn validates(&self, epochs: usize) -> bool {
        let every = self.config.val_every;
        let due = every > 0 && (epochs.is_multiple_of(every) || epochs == self.config.epochs);
        due && self.experiment.dataset.counts(Split::Val).images > 0
    }

    /// The model after an epoch, and the mean loss of its steps.
    fn epoch(
        &self,
        mut model: Model,
        optimizer: &mut ModelOptimizer,
        epoch: usize,
        batches: Batches<'_>,
    ) -> Result<(Model, f32), EvaluateError> {
        let rates = self.recipe.rates(epoch);
        let mut dropout = self.run_seed().stream("dropout", epoch as u64);
        let (mut sum, mut count) = (0.0, 0);
        for source in batches {
            let mode = &mut Mode::Train(&mut dropout);
            let (inputs, target) = match source? {
                Source::Pairs(pairs, target) => (pairs, target),
                Source::Batch(batch) => (model.inputs(batch, mode, &self.experiment.device)?, None),
            };
            let tau = self.experiment.config.head.tau;
            let (next, loss) = match target {
                None => model.train_step(inputs, tau, rates, optimizer, mode)?,
                Some((loss, target)) => {
                    model.descend(inputs, rates, optimizer, mode, |z| loss.of(z, tau, target.autodiff()))?
                }
            };
            if !loss.is_finite() {
                return Err(EvaluateError::NotFinite { run: self.run, epoch });
            }
            (model, sum, count) = (next, sum + loss, count + 1);
        }
        Ok((model, sum / count.max(1) as f32))
    }
}

/// The better of what was chosen and `model`; among equals the earlier one.
fn better(chosen: Option<Chosen>, model: &Model, epochs: usize, recalls: Recalls) -> Option<Chosen> {
    match chosen {
        Some(chosen) if chosen.recalls.avg() >= recalls.avg() => Some(chosen),
        _ => Some(Chosen { model: model.clone(), epochs, recalls }),
    }
}
