//! CovMatch between two steps, and its step.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use burn::tensor::{Int, Tensor, TensorData};
use serde::{Deserialize, Serialize};

use super::DistillError;
use super::calibration::{Scale, rms};
use super::finish::about;
use super::matching::{Matched, RealStatistics, match_pairs};
use super::method::{Method, Report};
use super::state;
use super::synthetic::Synthetic;
use crate::config::OnlineUpdate;
use crate::data::loader::{Ahead, Batch, Prefetch};
use crate::distilled::DistilledSet;
use crate::encoders::Mode;
use crate::experiment::Experiment;
use crate::losses::info_nce;
use crate::model::{Model, ModelOptimizer};

/// A distillation between two steps.
pub struct Distillation {
    experiment: Experiment,
    scale: Scale,
    synthetic: Synthetic,
    /// Steps that are done.
    done: u64,
    /// The model of the round that has begun; none between rounds.
    online: Option<Online>,
    matching_batches: Batches,
    online_batches: Batches,
}

/// The model that the pairs are matched on, and its momentum.
#[derive(Clone, Debug)]
pub struct Online {
    /// The model.
    pub model: Model,
    /// Its momentum.
    pub optimizer: ModelOptimizer,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// Number of the step, from 0.
    pub step: u64,
    /// Its round, from 0.
    pub round: u64,
    /// `L_cov`, in the paper's units.
    pub cov: f32,
    /// `L_feat` of the images.
    pub feat_v: f32,
    /// `L_feat` of the captions.
    pub feat_l: f32,
    /// The weighted sum that is minimised.
    pub loss: f32,
    /// InfoNCE of the online step; none where it is left out.
    pub info_nce: Option<f32>,
    /// Root mean square of the pixels' gradient.
    pub grad_img: f32,
    /// Root mean square of the captions' gradient.
    pub grad_txt: f32,
    /// Root mean square of the pixels after the step.
    pub rms_img: f32,
    /// Root mean square of the embedded captions after the step.
    pub rms_txt: f32,
    /// Where the time went.
    pub seconds: PhaseSeconds,
}

/// Seconds of a step's phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseSeconds {
    /// Waiting for batches.
    pub data: f64,
    /// Forward pass of the real batch.
    pub real: f64,
    /// Forward and backward pass of the synthetic pairs, and their update.
    pub synthetic: f64,
    /// Online step.
    pub online: f64,
}

impl PhaseSeconds {
    /// The whole step.
    pub fn total(&self) -> f64 {
        self.data + self.real + self.synthetic + self.online
    }
}

impl Report for StepReport {
    fn step(&self) -> u64 {
        self.step
    }

    fn loss(&self) -> f32 {
        self.loss
    }

    fn seconds(&self) -> f64 {
        self.seconds.total()
    }

    fn summary(&self) -> String {
        let online = self.info_nce.map_or(String::new(), |loss| format!("  nce {loss:.2}"));
        format!("round {}  cov {:.3e}  feat {:.2}{online}", self.round, self.cov, self.feat_v + self.feat_l)
    }

    fn curves(&self) -> Vec<(&'static str, f32)> {
        let mut curves = vec![
            ("loss/total", self.loss),
            ("loss/cov", self.cov),
            ("loss/feat_image", self.feat_v),
            ("loss/feat_text", self.feat_l),
            ("gradient/image", self.grad_img),
            ("gradient/text", self.grad_txt),
            ("pairs/image_rms", self.rms_img),
            ("pairs/text_rms", self.rms_txt),
        ];
        curves.extend(self.info_nce.map(|loss| ("loss/info_nce", loss)));
        curves
    }
}

impl Online {
    /// A model for `round`: pretrained encoders, new heads.
    pub(super) fn of_round(experiment: &Experiment, round: u64) -> Self {
        let model = experiment.model(experiment.config.seed(), round);
        let trains_text = experiment.config.online.train_text_encoder;
        let model = if trains_text { model } else { model.with_frozen_text() };
        Self { model, optimizer: ModelOptimizer::default() }
    }
}

impl Method for Distillation {
    type Report = StepReport;

    fn begin(experiment: Experiment) -> Result<Self, DistillError> {
        let model = experiment.model(experiment.config.seed(), 0);
        let synthetic = Synthetic::init(&experiment, &model)?;
        let scale = Scale::new(&experiment, &model, &synthetic)?;
        Self::at(experiment, scale, synthetic, 0, None)
    }

    fn load(checkpoint: &Path, experiment: &Experiment) -> Result<Self, DistillError> {
        state::load(checkpoint, experiment)
    }

    fn save(&self, checkpoint: &Path) -> Result<(), DistillError> {
        state::save(self, checkpoint)
    }

    fn step(&mut self) -> Result<StepReport, DistillError> {
        let before = self.synthetic.clone();
        let report = self.try_step();
        match report {
            Ok(_) => self.done += 1,
            Err(_) => self.synthetic = before,
        }
        report
    }

    fn done(&self) -> u64 {
        self.done
    }

    fn experiment(&self) -> &Experiment {
        &self.experiment
    }

    fn constants(&self) -> String {
        let Scale { cov, feat, lr_img, lr_txt } = self.scale;
        format!("rates: pixels {lr_img:.3e}, captions {lr_txt:.3e}; weights: L_cov {cov:.3e}, L_feat {feat:.3e}")
    }

    fn set(&self) -> Result<DistilledSet, DistillError> {
        let about = about(&self.experiment, "covmatch", self.done)?;
        Ok(DistilledSet { pairs: self.synthetic.inputs.clone(), about, learned: None })
    }

    fn captions(&self) -> &[u32] {
        &self.synthetic.captions
    }
}

impl Distillation {
    /// The distillation of `experiment` after `done` steps.
    pub(super) fn at(
        experiment: Experiment,
        scale: Scale,
        synthetic: Synthetic,
        done: u64,
        online: Option<Online>,
    ) -> Result<Self, DistillError> {
        let per_round = experiment.config.distill.steps_per_round as u64;
        let online_done = done / per_round * (per_round - 1) + done % per_round;
        let (matching, online_batch) = (experiment.config.distill.real_batch, experiment.config.online_batch());
        let matching_batches = Batches::new(&experiment, "matching", matching, done)?;
        let online_batches = Batches::new(&experiment, "online", online_batch, online_done)?;
        Ok(Self { experiment, scale, synthetic, done, online, matching_batches, online_batches })
    }

    /// The constants of the run.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// The pairs as they are now.
    pub fn synthetic(&self) -> &Synthetic {
        &self.synthetic
    }

    /// The model of the round that has begun; none between rounds.
    pub(super) fn online(&self) -> Option<&Online> {
        self.online.as_ref()
    }

    fn try_step(&mut self) -> Result<StepReport, DistillError> {
        let per_round = self.experiment.config.distill.steps_per_round as u64;
        let (round, position) = (self.done / per_round, self.done % per_round);
        let mut clock = Clock::start();
        let online = self.online.take().unwrap_or_else(|| Online::of_round(&self.experiment, round));
        let model = self.online.insert(online).model.clone();
        let last = position + 1 == per_round;
        if self.experiment.config.shares_real_batch() && !last {
            return self.shared_step(model, clock);
        }
        let report = self.match_step(&model, &mut clock)?;
        drop(model); // so that the online step updates its weights in place
        let info_nce = if last {
            self.online = None; // the model is thrown away: nothing to train it for
            None
        } else {
            self.online_step(&mut clock)?
        };
        Ok(StepReport { info_nce, seconds: clock.seconds, ..report })
    }

    /// Matches the pairs to a real batch and trains `model`, that of the round, on the same forward pass.
    fn shared_step(&mut self, model: Model, mut clock: Clock) -> Result<StepReport, DistillError> {
        let mut dropout = self.experiment.config.seed().stream("online.dropout", self.done);
        let mode = &mut Mode::Train(&mut dropout);
        let batch = self.matching_batches.next()?;
        clock.lap(|seconds| &mut seconds.data);
        let inputs = model.inputs(batch, mode, &self.experiment.device)?;
        let forwarded = model.clone().forward(inputs, mode)?;
        let real = RealStatistics::of(forwarded.features(), forwarded.projected());
        clock.lap(|seconds| &mut seconds.real);
        let report = self.match_to(&model, &real, &mut clock)?;
        drop((model, real)); // so that the step updates the weights in place
        let Some(Online { mut optimizer, .. }) = self.online.take() else { return Ok(report) };
        let (tau, rates) = (self.experiment.config.head.tau, self.experiment.config.online.rates);
        let (model, loss) = forwarded.descend(rates.into(), &mut optimizer, |z| info_nce(z.image, z.text, tau));
        self.online = Some(Online { model, optimizer });
        clock.lap(|seconds| &mut seconds.online);
        self.finite("the InfoNCE of the online step", loss)?;
        Ok(StepReport { info_nce: Some(loss), seconds: clock.seconds, ..report })
    }

    /// Moves the pairs one step closer to the real ones.
    fn match_step(&mut self, model: &Model, clock: &mut Clock) -> Result<StepReport, DistillError> {
        let batch = self.matching_batches.next()?;
        clock.lap(|seconds| &mut seconds.data);
        let real = model.inputs(batch, &mut Mode::Eval, &self.experiment.device)?;
        let real = RealStatistics::new(model, real)?;
        clock.lap(|seconds| &mut seconds.real);
        self.match_to(model, &real, clock)
    }

    /// Moves the pairs one step closer to `real`.
    fn match_to(
        &mut self,
        model: &Model,
        real: &RealStatistics,
        clock: &mut Clock,
    ) -> Result<StepReport, DistillError> {
        let config = self.experiment.config.distill;
        let rows = self.rows();
        let inputs = match &rows {
            Some(rows) => self.synthetic.inputs.select(rows),
            None => self.synthetic.inputs.clone(),
        };
        let objective = self.scale.objective(&config);
        let matched = match_pairs(model, real, inputs, objective, config.distil)?;
        let report = self.report(&matched)?;
        let synthetic = self.synthetic.clone();
        self.synthetic = synthetic.step(matched.gradients, rows.as_ref(), self.scale.rates(&config));
        let (rms_img, rms_txt) = (rms(self.synthetic.inputs.pixels.clone()), rms(self.synthetic.inputs.text.clone()));
        clock.lap(|seconds| &mut seconds.synthetic);
        Ok(StepReport { rms_img, rms_txt, ..report })
    }

    /// The losses and gradients of a step, if they are finite.
    fn report(&self, matched: &Matched) -> Result<StepReport, DistillError> {
        let config = &self.experiment.config.distill;
        let Matched { cov, feat_v, feat_l, ref gradients } = *matched;
        let loss = self.scale.cov * cov + self.scale.feat * (feat_v + feat_l);
        let grad_img = gradients.pixels.clone().map_or(0.0, rms);
        let grad_txt = gradients.text.clone().map_or(0.0, rms);
        for (what, value) in [("the loss", loss), ("the pixels' gradient", grad_img), ("the text's gradient", grad_txt)]
        {
            self.finite(what, value)?;
        }
        Ok(StepReport {
            step: self.done,
            round: self.done / config.steps_per_round as u64,
            cov,
            feat_v,
            feat_l,
            loss,
            info_nce: None,
            grad_img,
            grad_txt,
            rms_img: 0.0,
            rms_txt: 0.0,
            seconds: PhaseSeconds::default(),
        })
    }

    fn finite(&self, what: &'static str, value: f32) -> Result<(), DistillError> {
        match value.is_finite() {
            true => Ok(()),
            false => Err(DistillError::not_finite(what, self.done, &self.experiment.config.distill)),
        }
    }

    /// The synthetic pairs of this step: the first of a fresh shuffle; `None` for all of them.
    fn rows(&self) -> Option<Tensor<1, Int>> {
        let config = &self.experiment.config.distill;
        let (all, some) = (config.pairs, config.synthetic_batch());
        if some == all {
            return None;
        }
        let shuffled = self.experiment.config.seed().stream("synthetic.rows", self.done).shuffle(all as u32);
        let rows: Vec<i64> = shuffled.into_iter().take(some).map(i64::from).collect();
        Some(Tensor::from_data(TensorData::new(rows, [some]), &self.experiment.device))
    }

    /// Trains the model of the round one step. Returns the loss before it.
    fn online_step(&mut self, clock: &mut Clock) -> Result<Option<f32>, DistillError> {
        let config = self.experiment.config.online;
        let mut dropout = self.experiment.config.seed().stream("online.dropout", self.done);
        let mode = &mut Mode::Train(&mut dropout);
        let batch = match config.update {
            OnlineUpdate::Real => Some(self.online_batches.next()?),
            OnlineUpdate::Synthetic => None,
            OnlineUpdate::None => return Ok(None),
        };
        clock.lap(|seconds| &mut seconds.data);
        let Some(Online { model, mut optimizer }) = self.online.take() else { return Ok(None) };
        let inputs = match batch {
            Some(batch) => model.inputs(batch, mode, &self.experiment.device)?,
            None => self.synthetic.inputs.clone(),
        };
        let tau = self.experiment.config.head.tau;
        let (model, loss) = model.train_step(inputs, tau, config.rates, &mut optimizer, mode)?;
        self.online = Some(Online { model, optimizer });
        clock.lap(|seconds| &mut seconds.online);
        self.finite("the InfoNCE of the online step", loss)?;
        Ok(Some(loss))
    }
}

/// Real batches of one purpose, made ahead.
struct Batches {
    queue: Prefetch<Batch>,
}

impl Batches {
    /// Batches of `pairs`, from number `first` on.
    fn new(experiment: &Experiment, purpose: &str, pairs: usize, first: u64) -> Result<Self, DistillError> {
        let (seed, augment) = (experiment.config.seed(), experiment.config.distill.augmentation());
        let loader = experiment.train_loader(seed, purpose, pairs, augment)?;
        Ok(Self { queue: Prefetch::new(Arc::new(loader), first, Ahead::default()) })
    }

    fn next(&mut self) -> Result<Batch, DistillError> {
        // Training batches have no end: the queue is empty only after an error that was already reported.
        let ended = || crate::data::DataError::Transform {
            picture: "a training batch".to_owned(),
            cause: "no more batches are made after an error".to_owned(),
        };
        Ok(self.queue.next().unwrap_or_else(|| Err(ended()))?)
    }
}

/// Divides the time of a step between its phases.
struct Clock {
    last: Instant,
    seconds: PhaseSeconds,
}

impl Clock {
    fn start() -> Self {
        Self { last: Instant::now(), seconds: PhaseSeconds::default() }
    }

    /// Adds the time since the last lap to a phase.
    fn lap(&mut self, phase: impl FnOnce(&mut PhaseSeconds) -> &mut f64) {
        let now = Instant::now();
        *phase(&mut self.seconds) += (now - self.last).as_secs_f64();
        self.last = now;
    }
}
