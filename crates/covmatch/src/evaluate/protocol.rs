//! The evaluation protocol: fresh pretrained encoders and random heads, trained on the pairs alone, tested by retrieval.
//!
//! SGD with momentum on InfoNCE; each epoch visits all pairs once in a new order, the last batch may be smaller; the
//! learning rates are multiplied by `decay` at half of the epochs; where the protocol says so they rise over the first
//! epochs and gradients have a bound. `run` number `r` has its own heads, orders and dropout. Synthetic pictures are never augmented. A set that brings its own learning rates and similarity is trained on
//! with those.

use burn::tensor::{Int, Tensor, TensorData};
use serde::{Deserialize, Serialize};

use super::error::EvaluateError;
use super::gallery::EncodedGallery;
use super::surge::{Losses, Surge};
use crate::branches::Branches;
use crate::config::TrainConfig;
use crate::data::Split;
use crate::distilled::Learned;
use crate::engine::Seed;
use crate::experiment::Experiment;
use crate::model::{Example, Inputs, Model, PartRates, TextLevel, Trainer};
use crate::retrieval::{Recalls, Spread};

/// What happens during an evaluation.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Progress {
    /// The evaluation goes on after this many models, which were tested before.
    Resumed {
        /// The models.
        done: usize,
    },
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
    /// Where the loss shot up; none if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surge: Option<Surge>,
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

/// Trains models on `pairs`, with what was `learned` beside them, as `[evaluate]` says, and tests them.
///
/// The first of them are `done`, from an evaluation that ended early: they are not trained again.
pub fn evaluate_pairs(
    experiment: &Experiment,
    pairs: &Inputs,
    learned: Option<&Learned>,
    done: Vec<Run>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Evaluation, EvaluateError> {
    let (config, seed) = (experiment.config.evaluate, experiment.config.seed());
    let mut examples = |run: usize, epoch: usize| {
        let order = seed.stream(&format!("evaluate.{run}.order"), epoch as u64).shuffle(pairs.len() as u32);
        let batches: Vec<Vec<u32>> = order.chunks(config.batch).map(<[u32]>::to_vec).collect();
        let batches = batches.into_iter().filter(|rows| rows.len() > 1); // one pair has no negative
        let examples = batches.map(move |rows| Ok(example(pairs, learned, rows)));
        Ok(Box::new(examples) as Examples<'_>)
    };
    // Sentence features leave the text encoder out: there is nothing that could train it.
    let train_text_encoder = config.train_text_encoder && pairs.level == TextLevel::Inputs;
    let config = TrainConfig { train_text_encoder, ..config };
    let rates = learned.filter(|_| config.learned_rates).and_then(|learned| learned.rates);
    repeat(experiment, Recipe { config: &config, rates, purpose: "evaluate" }, done, &mut examples, progress)
}

/// The pairs at `rows`, with their part of the learned similarity.
fn example(pairs: &Inputs, learned: Option<&Learned>, rows: Vec<u32>) -> Example {
    let rows: Vec<i64> = rows.into_iter().map(i64::from).collect();
    let count = rows.len();
    let rows = Tensor::<1, Int>::from_data(TensorData::new(rows, [count]), &pairs.pixels.device());
    let inputs = pairs.select(&rows);
    match learned.and_then(|learned| Some((learned.loss, learned.similarity.clone()?))) {
        Some((loss, similarity)) => Example::Similar(inputs, loss, similarity.select(0, rows.clone()).select(1, rows)),
        None => Example::Pairs(inputs),
    }
}

/// Trains models on the whole train split, as `[train]` says, and tests them; the first of them are `done`.
pub fn train_on_everything(
    experiment: &Experiment,
    done: Vec<Run>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Evaluation, EvaluateError> {
    let (config, seed) = (experiment.config.train, experiment.config.seed());
    let mut examples = |run: usize, epoch: usize| {
        let batches = experiment.epoch(seed, &format!("train.{run}"), config.batch, epoch)?;
        Ok(Box::new(batches.map(|batch| Ok(Example::Batch(batch?)))) as Examples<'_>)
    };
    repeat(experiment, Recipe { config: &config, rates: None, purpose: "train" }, done, &mut examples, progress)
}

/// What the steps of an epoch are trained on.
type Examples<'a> = Box<dyn Iterator<Item = Result<Example, EvaluateError>> + 'a>;

/// Makes the examples of an epoch of a run.
type Epochs<'a, 'b> = &'a mut dyn FnMut(usize, usize) -> Result<Examples<'b>, EvaluateError>;

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
        let rates = match self.rates {
            Some(rates) => PartRates::of_branches(rates.map(|lr| lr * factor), own.momentum, own.weight_decay),
            None => own.scaled(factor).into(),
        };
        rates.with_clip(self.config.clip)
    }
}

fn repeat(
    experiment: &Experiment,
    recipe: Recipe<'_>,
    done: Vec<Run>,
    examples: Epochs<'_, '_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Evaluation, EvaluateError> {
    let mut runs = done;
    for run in runs.len()..recipe.config.runs {
        let outcome = OneRun { experiment, recipe, config: recipe.config, run }.train(examples, progress)?;
        progress(Progress::Tested { run, outcome });
        runs.push(outcome);
    }
    Evaluation::of(runs).ok_or(EvaluateError::EmptySplit { split: Split::Test })
}

/// One run.
struct OneRun<'a> {
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

impl OneRun<'_> {
    fn train(&self, examples: Epochs<'_, '_>, progress: &mut dyn FnMut(Progress)) -> Result<Run, EvaluateError> {
        let (config, tau) = (self.config, self.experiment.config.head.tau);
        let model = self.experiment.model(self.run_seed(), 0);
        let model = if config.train_text_encoder { model } else { model.with_frozen_text() };
        let mut trainer = Trainer::new(model, tau, &self.experiment.device);
        let (mut chosen, mut losses) = (None, Losses::default());
        for epoch in 0..config.epochs {
            let mut dropout = self.run_seed().stream("dropout", epoch as u64);
            let rates = self.recipe.rates(epoch);
            let loss;
            (trainer, loss) = trainer.epoch(examples(self.run, epoch)?, rates, &mut dropout, &mut |_| {})?;
            if !loss.is_finite() {
                return Err(EvaluateError::NotFinite { run: self.run, epoch });
            }
            losses.see(loss);
            progress(Progress::Epoch { run: self.run, epoch, epochs: config.epochs, loss });
            if self.validates(epoch + 1) {
                let recalls = EncodedGallery::new(self.experiment, trainer.model(), Split::Val)?.recalls();
                progress(Progress::Validated { run: self.run, epochs: epoch + 1, recalls });
                chosen = better(chosen, trainer.model(), epoch + 1, recalls);
            }
        }
        self.tested(&trainer.into_model(), chosen, losses)
    }

    /// What the trained model, and the one that was chosen on the validation split, reach on the test split.
    fn tested(&self, model: &Model, chosen: Option<Chosen>, losses: Losses) -> Result<Run, EvaluateError> {
        let last = EncodedGallery::new(self.experiment, model, Split::Test)?.recalls();
        let chosen_recalls = match &chosen {
            Some(chosen) if chosen.epochs == self.config.epochs => Some(last),
            Some(chosen) => Some(EncodedGallery::new(self.experiment, &chosen.model, Split::Test)?.recalls()),
            None => None,
        };
        let (chosen_epochs, validation) = chosen.map(|chosen| (chosen.epochs, chosen.recalls)).unzip();
        let (loss, surge) = (losses.last(), losses.surge());
        Ok(Run { last, chosen: chosen_recalls, chosen_epochs, validation, loss, surge })
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
}

/// The better of what was chosen and `model`; among equals the earlier one.
fn better(chosen: Option<Chosen>, model: &Model, epochs: usize, recalls: Recalls) -> Option<Chosen> {
    match chosen {
        Some(chosen) if chosen.recalls.avg() >= recalls.avg() => Some(chosen),
        _ => Some(Chosen { model: model.clone(), epochs, recalls }),
    }
}
