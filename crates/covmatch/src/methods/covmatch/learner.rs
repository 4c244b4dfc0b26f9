//! CovMatch between two steps, and its step.

use std::path::Path;
use std::time::Instant;

use super::matching::{Matched, RealStatistics, match_pairs};
use super::scale::CovMatchScale;
use super::state;
use crate::config::OnlineUpdate;
use crate::encoders::Mode;
use crate::experiment::Experiment;
use crate::methods::{Learner, MethodError, RealBatches, StepReport, Synthetic, Value, rms, rows_of_step};
use crate::model::{Example, Model, Trainer};

/// CovMatch between two steps.
pub struct CovMatch {
    experiment: Experiment,
    scale: CovMatchScale,
    synthetic: Synthetic,
    /// Steps that are done.
    done: u64,
    /// The model that the pairs are matched on in the round that has begun; none between rounds.
    online: Option<Trainer>,
    matching_batches: RealBatches,
    online_batches: RealBatches,
}

/// What a step measures, and where its time goes.
struct Measured {
    /// `L_cov`, in the paper's units.
    cov: f32,
    /// `L_feat` of the images and of the captions.
    feat: [f32; 2],
    /// The weighted sum that is minimised.
    loss: f32,
    /// Root mean squares of the gradients of pixels and of captions.
    gradients: [f32; 2],
    /// Root mean squares of pixels and of captions after the step.
    sizes: [f32; 2],
}

/// Seconds of a step's phases: those of `metrics.jsonl`.
#[derive(Clone, Copy, Debug, Default)]
struct PhaseSeconds {
    data: f64,
    real: f64,
    synthetic: f64,
    online: f64,
}

/// The training of a model for `round`: pretrained encoders, new heads, no momentum.
pub(super) fn begin_round(experiment: &Experiment, round: u64) -> Trainer {
    let model = experiment.model(experiment.config.seed(), round);
    let trains_text = experiment.config.online.train_text_encoder;
    let model = if trains_text { model } else { model.with_frozen_text() };
    Trainer::new(model, experiment.config.head.tau, &experiment.device)
}

impl Learner for CovMatch {
    fn begin(experiment: Experiment) -> Result<Self, MethodError> {
        let model = experiment.model(experiment.config.seed(), 0);
        let synthetic = Synthetic::init(&experiment, &model)?;
        let scale = CovMatchScale::new(&experiment, &model, &synthetic)?;
        Self::at(experiment, scale, synthetic, 0, None)
    }

    fn resume(experiment: Experiment, checkpoint: &Path) -> Result<Self, MethodError> {
        state::load(checkpoint, experiment)
    }

    fn save(&self, checkpoint: &Path) -> Result<(), MethodError> {
        state::save(self, checkpoint)
    }

    fn step(&mut self) -> Result<StepReport, MethodError> {
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

    fn constants(&self) -> String {
        let CovMatchScale { cov, feat, lr_image, lr_text } = self.scale;
        format!("rates: pixels {lr_image:.3e}, captions {lr_text:.3e}; weights: L_cov {cov:.3e}, L_feat {feat:.3e}")
    }

    fn synthetic(&self) -> &Synthetic {
        &self.synthetic
    }
}

impl CovMatch {
    /// CovMatch on `experiment` after `done` steps.
    pub(super) fn at(
        experiment: Experiment,
        scale: CovMatchScale,
        synthetic: Synthetic,
        done: u64,
        online: Option<Trainer>,
    ) -> Result<Self, MethodError> {
        let per_round = experiment.config.distill.steps_per_round as u64;
        let online_done = done / per_round * (per_round - 1) + done % per_round;
        let (matching, online_batch) = (experiment.config.distill.real_batch, experiment.config.online_batch());
        let matching = RealBatches::new(&experiment, "matching", matching, done)?;
        let online_batches = RealBatches::new(&experiment, "online", online_batch, online_done)?;
        let begun = Self::with_batches(experiment, scale, synthetic, [matching, online_batches]);
        Ok(Self { done, online, ..begun })
    }

    /// CovMatch on `experiment` before its first step, with real batches to match and to train the model on.
    pub fn with_batches(
        experiment: Experiment,
        scale: CovMatchScale,
        synthetic: Synthetic,
        [matching_batches, online_batches]: [RealBatches; 2],
    ) -> Self {
        Self { experiment, scale, synthetic, done: 0, online: None, matching_batches, online_batches }
    }

    /// The constants of the run.
    pub fn scale(&self) -> CovMatchScale {
        self.scale
    }

    /// The training of the round that has begun; none between rounds.
    pub(super) fn online(&self) -> Option<&Trainer> {
        self.online.as_ref()
    }

    fn try_step(&mut self) -> Result<StepReport, MethodError> {
        let per_round = self.experiment.config.distill.steps_per_round as u64;
        let (round, position) = (self.done / per_round, self.done % per_round);
        let mut clock = Clock::start();
        let online = self.online.take().unwrap_or_else(|| begin_round(&self.experiment, round));
        let model = self.online.insert(online).model().clone();
        let last = position + 1 == per_round;
        if self.experiment.config.shares_real_batch() && !last {
            return self.shared_step(model, clock);
        }
        let measured = self.match_step(&model, &mut clock)?;
        drop(model); // so that the online step updates its weights in place
        let info_nce = if last {
            self.online = None; // the model is thrown away: nothing to train it for
            None
        } else {
            self.online_step(&mut clock)?
        };
        Ok(self.report(measured, info_nce, clock))
    }

    /// Matches the pairs to a real batch and trains `model`, that of the round, on the same forward pass.
    fn shared_step(&mut self, model: Model, mut clock: Clock) -> Result<StepReport, MethodError> {
        let mut dropout = self.experiment.config.seed().stream("online.dropout", self.done);
        let mode = &mut Mode::Train(&mut dropout);
        let batch = self.matching_batches.next_batch()?;
        clock.lap(|seconds| &mut seconds.data);
        let inputs = model.inputs(batch, mode, &self.experiment.device)?;
        let forwarded = model.clone().forward(inputs, mode)?;
        let real = RealStatistics::of(forwarded.features(), forwarded.projected());
        clock.lap(|seconds| &mut seconds.real);
        let measured = self.match_to(&model, &real, &mut clock)?;
        drop((model, real)); // so that the step updates the weights in place
        let Some(online) = self.online.take() else { return Ok(self.report(measured, None, clock)) };
        let (online, loss) = online.step_on(forwarded, self.experiment.config.online.rates.into());
        self.online = Some(online);
        clock.lap(|seconds| &mut seconds.online);
        self.finite("the InfoNCE of the online step", loss)?;
        Ok(self.report(measured, Some(loss), clock))
    }

    /// Moves the pairs one step closer to the real ones.
    fn match_step(&mut self, model: &Model, clock: &mut Clock) -> Result<Measured, MethodError> {
        let batch = self.matching_batches.next_batch()?;
        clock.lap(|seconds| &mut seconds.data);
        let real = model.inputs(batch, &mut Mode::Eval, &self.experiment.device)?;
        let real = RealStatistics::new(model, real)?;
        clock.lap(|seconds| &mut seconds.real);
        self.match_to(model, &real, clock)
    }

    /// Moves the pairs one step closer to `real`.
    fn match_to(&mut self, model: &Model, real: &RealStatistics, clock: &mut Clock) -> Result<Measured, MethodError> {
        let config = &self.experiment.config.distill;
        let rows = rows_of_step(&self.experiment, self.done);
        let inputs = match &rows {
            Some(rows) => self.synthetic.inputs.select(rows),
            None => self.synthetic.inputs.clone(),
        };
        let matched = match_pairs(model, real, inputs, self.scale.objective(config), config.learn)?;
        let measured = self.measured(&matched)?;
        let rates = self.scale.rates(config);
        self.synthetic = self.synthetic.clone().step(matched.gradients, rows.as_ref(), rates);
        let sizes = [rms(self.synthetic.inputs.pixels.clone()), rms(self.synthetic.inputs.text.clone())];
        clock.lap(|seconds| &mut seconds.synthetic);
        Ok(Measured { sizes, ..measured })
    }

    /// The losses and gradients of a step, if they are finite.
    fn measured(&self, matched: &Matched) -> Result<Measured, MethodError> {
        let Matched { cov, feat_image, feat_text, ref gradients } = *matched;
        let loss = self.scale.cov * cov + self.scale.feat * (feat_image + feat_text);
        let of_pixels = gradients.pixels.clone().map_or(0.0, rms);
        let of_text = gradients.text.clone().map_or(0.0, rms);
        self.finite("the loss", loss)?;
        self.finite("the pixels' gradient", of_pixels)?;
        self.finite("the text's gradient", of_text)?;
        Ok(Measured { cov, feat: [feat_image, feat_text], loss, gradients: [of_pixels, of_text], sizes: [0.0; 2] })
    }

    fn report(&self, measured: Measured, info_nce: Option<f32>, clock: Clock) -> StepReport {
        let Measured { cov, feat: [feat_image, feat_text], loss, gradients, sizes } = measured;
        let round = self.done / self.experiment.config.distill.steps_per_round as u64;
        let PhaseSeconds { data, real, synthetic, online } = clock.seconds;
        let said = info_nce.map_or(String::new(), |loss| format!("  nce {loss:.2}"));
        StepReport {
            step: self.done,
            loss,
            values: vec![
                Value::new("cov", "loss/cov", cov),
                Value::new("feat_image", "loss/feat_image", feat_image),
                Value::new("feat_text", "loss/feat_text", feat_text),
                Value { name: "info_nce", tag: "loss/info_nce", value: info_nce },
                Value::new("grad_image", "gradient/image", gradients[0]),
                Value::new("grad_text", "gradient/text", gradients[1]),
                Value::new("rms_image", "pairs/image_rms", sizes[0]),
                Value::new("rms_text", "pairs/text_rms", sizes[1]),
            ],
            seconds: vec![("data", data), ("real", real), ("synthetic", synthetic), ("online", online)],
            summary: format!("round {round}  cov {cov:.3e}  feat {:.2}{said}", feat_image + feat_text),
            warning: None,
        }
    }

    fn finite(&self, what: &'static str, value: f32) -> Result<(), MethodError> {
        MethodError::unless_finite(what, value, self.done, &self.experiment.config.distill)
    }

    /// Trains the model of the round one step. Returns the loss before it; none if it is not trained.
    fn online_step(&mut self, clock: &mut Clock) -> Result<Option<f32>, MethodError> {
        let config = &self.experiment.config.online;
        let example = match config.update {
            OnlineUpdate::Real => Example::Batch(self.online_batches.next_batch()?),
            OnlineUpdate::Synthetic => Example::Pairs(self.synthetic.inputs.clone()),
            OnlineUpdate::None => return Ok(None),
        };
        clock.lap(|seconds| &mut seconds.data);
        let Some(online) = self.online.take() else { return Ok(None) };
        let mut dropout = self.experiment.config.seed().stream("online.dropout", self.done);
        let (online, seen) = online.step(example, config.rates.into(), &mut dropout)?;
        self.online = Some(online);
        clock.lap(|seconds| &mut seconds.online);
        self.finite("the InfoNCE of the online step", seen.loss)?;
        Ok(Some(seen.loss))
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
