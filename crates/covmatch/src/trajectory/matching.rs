//! MTT-VL and LoRS between two steps, and their step.
//!
//! | quantity                 | MTT-VL             | LoRS                                  |
//! |--------------------------|--------------------|---------------------------------------|
//! | student's loss           | InfoNCE            | weighted binary cross-entropy         |
//! | similarity               | own captions       | learned, rank 10                      |
//! | gradients                | full unroll        | each step alone (TESLA)               |
//! | pairs in a student's step| 100                | 20                                    |
//!
//! Everything else is the same code. In relative units the rates of pixels, captions and similarity are measured at the
//! beginning, as CovMatch does: a first step changes each by the fraction that the configuration says.

use std::path::Path;
use std::time::Instant;

use burn::tensor::{Tensor, TensorData};
use covmatch_kernels::SgdRates;
use serde::{Deserialize, Serialize};

use super::bound::{bounded, bounded_slope};
use super::experts::{Experts, frame};
use super::follow::{Denominator, Followed, StudentStep, follow};
use super::similarity::Factors;
use super::student::{Pairs, PairsGradient, Student};
use crate::config::{Config, MethodName, Units, Unroll};
use crate::data::loader::Order;
use crate::distill::finish::about;
use crate::distill::{DistillError, Method, PairGradients, PairRates, Report, Synthetic, rms};
use crate::distilled::{DistilledSet, Learned};
use crate::encoders::{Mode, TextEncoder};
use crate::experiment::Experiment;
use crate::losses::PairLoss;
use crate::model::{Branches, Inputs, Model, TextLevel};
use crate::tensor_file::TensorFile;

/// Students that are looked at to measure rates.
const CALIBRATION: u64 = 2;

/// A trajectory matching between two steps.
pub struct TrajectoryMatching {
    experiment: Experiment,
    settings: Settings,
    /// Which weights are trained, and the values of the others.
    model: Model,
    experts: Experts,
    /// Those of the experts that are whole.
    whole: Vec<usize>,
    state: State,
}

/// What changes from step to step.
#[derive(Clone)]
struct State {
    synthetic: Synthetic,
    similarity: Option<Factors>,
    similarity_velocity: Option<Factors>,
    /// Learning rates of the students and their velocities.
    eta: Branches<f32>,
    eta_velocity: Branches<f32>,
    scale: TrajectoryScale,
    done: u64,
}

/// The absolute learning rates of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrajectoryScale {
    /// Of the pixels.
    pub lr_img: f32,
    /// Of the captions.
    pub lr_txt: f32,
    /// Of the similarity.
    pub lr_similarity: f32,
}

/// The settings of a method, those that are left out filled in.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Settings {
    loss: PairLoss,
    unroll: Unroll,
    rank: usize,
    student_batch: usize,
    tau: f32,
    /// The most that a gradient changes in a step, relative to its size.
    max_change: f32,
}

impl Settings {
    fn of(config: &Config) -> Self {
        let (own, pairs) = (&config.trajectory, config.distill.pairs);
        let (loss, unroll, rank, batch) = match config.distill.method {
            MethodName::Lors => (PairLoss::WeightedBce, Unroll::Constant, 10, 20),
            MethodName::MttVl | MethodName::CovMatch => (PairLoss::InfoNce, Unroll::Full, 0, 100),
        };
        let unroll = own.unroll.unwrap_or(unroll);
        let max_change = match (unroll, config.distill.units) {
            (Unroll::Full, Units::Relative) => 0.1,
            _ => f32::INFINITY,
        };
        Self {
            loss: own.loss.unwrap_or(loss),
            unroll,
            rank: own.rank.unwrap_or(rank),
            student_batch: own.student_batch.unwrap_or(batch).min(pairs),
            tau: own.tau.unwrap_or(config.head.tau),
            max_change: own.max_change.unwrap_or(max_change),
        }
    }
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrajectoryReport {
    /// Number of the step, from 0.
    pub step: u64,
    /// The sum of both sides' losses.
    pub loss: f32,
    /// Distance of the image side to the expert, relative to the expert's way; 1 is where the student started.
    pub trajectory_v: f32,
    /// The same of the text side.
    pub trajectory_l: f32,
    /// Loss of the student at its last step.
    pub student: f32,
    /// Learned rate of the image side, after the step.
    pub eta_v: f32,
    /// Learned rate of the text side, after the step.
    pub eta_l: f32,
    /// Root mean square of the pixels' gradient.
    pub grad_img: f32,
    /// Root mean square of the captions' gradient.
    pub grad_txt: f32,
    /// Root mean square of the pixels after the step.
    pub rms_img: f32,
    /// Root mean square of the captions after the step.
    pub rms_txt: f32,
    /// Whether a learned rate is at its lower bound after the step.
    #[serde(skip)]
    pub at_bound: bool,
    /// Where the time went.
    pub seconds: TrajectorySeconds,
}

/// Seconds of a step's phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrajectorySeconds {
    /// Reading the expert.
    pub expert: f64,
    /// Students and derivatives.
    pub student: f64,
}

impl Report for TrajectoryReport {
    fn step(&self) -> u64 {
        self.step
    }

    fn loss(&self) -> f32 {
        self.loss
    }

    fn seconds(&self) -> f64 {
        self.seconds.expert + self.seconds.student
    }

    fn summary(&self) -> String {
        let Self { trajectory_v, trajectory_l, eta_v, eta_l, .. } = self;
        format!("image {trajectory_v:.4}  text {trajectory_l:.4}  rates {eta_v:.3} {eta_l:.3}")
    }

    fn curves(&self) -> Vec<(&'static str, f32)> {
        vec![
            ("loss/total", self.loss),
            ("loss/trajectory_image", self.trajectory_v),
            ("loss/trajectory_text", self.trajectory_l),
            ("loss/student", self.student),
            ("rate/image", self.eta_v),
            ("rate/text", self.eta_l),
            ("gradient/image", self.grad_img),
            ("gradient/text", self.grad_txt),
            ("pairs/image_rms", self.rms_img),
            ("pairs/text_rms", self.rms_txt),
        ]
    }

    fn warning(&self) -> Option<String> {
        let text = "a learned rate of the students is at its lower bound, trajectory.min_rate: students that do not move \
                    teach the pairs nothing. The pairs may have run away (rms_img, rms_txt in metrics.jsonl); try \
                    smaller distill.lr_img, distill.lr_txt or trajectory.lr_rates";
        self.at_bound.then(|| text.to_owned())
    }
}

impl Method for TrajectoryMatching {
    type Report = TrajectoryReport;

    fn begin(experiment: Experiment) -> Result<Self, DistillError> {
        let (config, device) = (&experiment.config, experiment.device.clone());
        let model = frame(&experiment, config.seed(), 0);
        let mut synthetic = Synthetic::init(&experiment, &model)?;
        if config.trajectory.text == TextLevel::Features {
            synthetic.inputs = with_features(synthetic.inputs, &model)?;
        }
        let rank = Settings::of(config).rank;
        let similarity = (rank > 0).then(|| {
            Factors::identity(config.distill.pairs, rank, &mut config.seed().stream("similarity", 0), &device)
        });
        let state = State {
            synthetic,
            similarity,
            similarity_velocity: None,
            eta: config.trajectory.student_rates(),
            eta_velocity: Branches::default(),
            scale: TrajectoryScale { lr_img: 0.0, lr_txt: 0.0, lr_similarity: 0.0 },
            done: 0,
        };
        let mut matching = Self::at(experiment, state)?;
        matching.state.scale = matching.measure_scale()?;
        Ok(matching)
    }

    fn load(checkpoint: &Path, experiment: &Experiment) -> Result<Self, DistillError> {
        let file = TensorFile::read(&checkpoint.join("state.safetensors"))?;
        let device = &experiment.device;
        let state = State {
            synthetic: Synthetic::of(&file, device)?,
            similarity: Factors::of(&file, "similarity", device)?,
            similarity_velocity: Factors::of(&file, "velocity.similarity", device)?,
            eta: file.value("eta")?,
            eta_velocity: file.value("eta_velocity")?,
            scale: file.value("scale")?,
            done: file.value("step")?,
        };
        Self::at(experiment.clone(), state)
    }

    fn save(&self, checkpoint: &Path) -> Result<(), DistillError> {
        let State { synthetic, similarity, similarity_velocity, eta, eta_velocity, scale, done } = &self.state;
        let mut file = TensorFile::default();
        synthetic.put_into(&mut file);
        for (factors, name) in [(similarity, "similarity"), (similarity_velocity, "velocity.similarity")] {
            if let Some(factors) = factors {
                factors.put_into(&mut file, name);
            }
        }
        file.put_value("eta", eta);
        file.put_value("eta_velocity", eta_velocity);
        file.put_value("scale", scale);
        file.put_value("step", done);
        Ok(file.write(&checkpoint.join("state.safetensors"))?)
    }

    fn step(&mut self) -> Result<TrajectoryReport, DistillError> {
        let start = Instant::now();
        let ends = self.expert("expert", self.state.done)?;
        let expert = start.elapsed().as_secs_f64();
        let followed = self.follow(&ends, "student", self.state.done)?;
        let report = self.report(&followed)?;
        self.state = self.moved(followed);
        let inputs = &self.state.synthetic.inputs;
        let (rms_img, rms_txt) = (rms(inputs.pixels.clone()), rms(inputs.text.clone()));
        let Branches { image: eta_v, text: eta_l } = self.state.eta;
        let seconds = TrajectorySeconds { expert, student: start.elapsed().as_secs_f64() - expert };
        let at_bound = eta_v.min(eta_l) <= self.experiment.config.trajectory.min_rate;
        Ok(TrajectoryReport { rms_img, rms_txt, eta_v, eta_l, at_bound, seconds, ..report })
    }

    fn done(&self) -> u64 {
        self.state.done
    }

    fn experiment(&self) -> &Experiment {
        &self.experiment
    }

    fn constants(&self) -> String {
        let TrajectoryScale { lr_img, lr_txt, lr_similarity } = self.state.scale;
        format!(
            "{} experts; rates: pixels {lr_img:.3e}, captions {lr_txt:.3e}, similarity {lr_similarity:.3e}",
            self.whole.len()
        )
    }

    fn set(&self) -> Result<DistilledSet, DistillError> {
        let config = &self.experiment.config;
        let about = about(&self.experiment, config.distill.method.name(), self.state.done)?;
        let similarity = self.state.similarity.as_ref().map(|factors| factors.matrix(config.trajectory.alpha));
        let learned = Learned { similarity, rates: self.state.eta, loss: self.settings.loss };
        Ok(DistilledSet { pairs: self.state.synthetic.inputs.clone(), about, learned: Some(learned) })
    }

    fn captions(&self) -> &[u32] {
        &self.state.synthetic.captions
    }
}

impl TrajectoryMatching {
    fn at(experiment: Experiment, state: State) -> Result<Self, DistillError> {
        let settings = Settings::of(&experiment.config);
        let model = frame(&experiment, experiment.config.seed(), 0);
        let experts = Experts::open(experiment.clone())?;
        let whole = experts.whole()?;
        Ok(Self { experiment, settings, model, experts, whole, state })
    }

    /// Where the student number `step` of `purpose` starts and what it is to reach: experts take turns in a shuffled
    /// order, and the epoch is drawn.
    fn expert(&self, purpose: &str, step: u64) -> Result<[super::Point; 2], DistillError> {
        let (seed, config) = (self.experiment.config.seed(), &self.experiment.config.trajectory);
        let count = self.whole.len() as u64;
        let order = seed.stream(&format!("{purpose}.order"), step / count).shuffle(count as u32);
        let expert = self.whole[order[(step % count) as usize] as usize];
        let start = seed.stream(&format!("{purpose}.epoch"), step).below(config.max_start_epoch as u64) as usize;
        Ok([self.experts.point(expert, start)?, self.experts.point(expert, start + config.expert_epochs)?])
    }

    /// A student between these ends, number `step` of `purpose`.
    fn follow(&self, [start, target]: &[super::Point; 2], purpose: &str, step: u64) -> Result<Followed, DistillError> {
        let config = &self.experiment.config.trajectory;
        let State { synthetic, similarity, eta, .. } = &self.state;
        let pairs = Pairs { inputs: synthetic.inputs.clone(), similarity: similarity.clone() };
        let Settings { loss, unroll, tau, .. } = self.settings;
        let student = Student { model: &self.model, tau, loss, alpha: config.alpha };
        let denominator = if config.merge_branches { Denominator::OfBoth } else { Denominator::OfEachSide };
        let plan = self.plan(purpose, step);
        Ok(follow(&student, [start, target], &pairs, &plan, *eta, unroll, denominator)?)
    }

    /// The steps of a student: the pairs in a shuffled order, so many at a time, shuffled again when too few are left.
    fn plan(&self, purpose: &str, step: u64) -> Vec<StudentStep> {
        let (seed, pairs) = (self.experiment.config.seed(), self.experiment.config.distill.pairs);
        let order = Order::new(pairs, self.settings.student_batch, seed, &format!("{purpose}.rows"));
        let steps = self.experiment.config.trajectory.student_steps as u64;
        let student_step = |at: u64| {
            let rows = order.as_ref().map(|order| order.entries(at)).unwrap_or_default();
            let rows: Vec<i64> = rows.into_iter().map(i64::from).collect();
            let count = rows.len();
            StudentStep {
                rows: Tensor::from_data(TensorData::new(rows, [count]), &self.experiment.device),
                dropout: Some(seed.stream(&format!("{purpose}.dropout"), at)),
            }
        };
        (step * steps..(step + 1) * steps).map(student_step).collect()
    }

    /// The state after a step along the gradients of `followed`.
    fn moved(&self, followed: Followed) -> State {
        let config = &self.experiment.config;
        let State { synthetic, similarity, similarity_velocity, eta, eta_velocity, scale, done } = self.state.clone();
        let PairsGradient { pixels, text, similarity: of_similarity } = followed.pairs;
        let (momentum, most) = (config.distill.momentum, self.settings.max_change);
        let (pixels, text) = (
            bounded(pixels, &synthetic.inputs.pixels, scale.lr_img, most),
            bounded(text, &synthetic.inputs.text, scale.lr_txt, most),
        );
        let gradients = PairGradients {
            pixels: config.distill.distil.image().then_some(pixels),
            text: config.distill.distil.text().then_some(text),
        };
        let rates = PairRates { lr_img: scale.lr_img, lr_txt: scale.lr_txt, momentum };
        let synthetic = synthetic.step(gradients, None, rates);
        let of_factors = SgdRates { lr: scale.lr_similarity, momentum, weight_decay: 0.0 };
        let (similarity, similarity_velocity) = match similarity.zip(of_similarity) {
            Some((factors, gradient)) => {
                let (factors, velocity) = factors.step(gradient, similarity_velocity, of_factors);
                (Some(factors), Some(velocity))
            }
            None => (None, None),
        };
        let (lr, least) = (config.trajectory.lr_rates, config.trajectory.min_rate);
        let slopes = followed.rates.zip(eta, |slope, eta| bounded_slope(slope as f32, eta, lr, most));
        let eta_velocity = eta_velocity.zip(slopes, |velocity, slope| momentum * velocity + slope);
        let eta = eta.zip(eta_velocity, |eta, velocity| (eta - lr * velocity).max(least));
        State { synthetic, similarity, similarity_velocity, eta, eta_velocity, scale, done: done + 1 }
    }

    /// The losses and gradients of a step, if they are finite.
    fn report(&self, followed: &Followed) -> Result<TrajectoryReport, DistillError> {
        let Branches { image, text } = followed.loss;
        let (grad_img, grad_txt) = (rms(followed.pairs.pixels.clone()), rms(followed.pairs.text.clone()));
        let slopes = (followed.rates.image + followed.rates.text) as f32;
        let loss = (image + text) as f32;
        let checked = [
            ("the loss", loss),
            ("the pixels' gradient", grad_img),
            ("the text's gradient", grad_txt),
            ("the gradient of the students' rates", slopes),
        ];
        for (what, value) in checked {
            if !value.is_finite() {
                return Err(DistillError::not_finite(what, self.state.done, &self.experiment.config.distill));
            }
        }
        Ok(TrajectoryReport {
            step: self.state.done,
            loss,
            trajectory_v: image as f32,
            trajectory_l: text as f32,
            student: followed.student_loss,
            eta_v: 0.0,
            eta_l: 0.0,
            grad_img,
            grad_txt,
            rms_img: 0.0,
            rms_txt: 0.0,
            at_bound: false,
            seconds: TrajectorySeconds::default(),
        })
    }

    /// The absolute rates of the run.
    fn measure_scale(&self) -> Result<TrajectoryScale, DistillError> {
        let Config { distill, trajectory, .. } = &self.experiment.config;
        let (lr_img, lr_txt, lr_similarity) = (distill.lr_img(), distill.lr_txt(), trajectory.lr_similarity(distill));
        if distill.units == Units::Absolute {
            return Ok(TrajectoryScale { lr_img, lr_txt, lr_similarity });
        }
        let (mut image, mut text, mut diagonal) = (0.0, 0.0, 0.0);
        for step in 0..CALIBRATION {
            let ends = self.expert("calibration.expert", step)?;
            let PairsGradient { pixels, text: captions, similarity } =
                self.follow(&ends, "calibration.student", step)?.pairs;
            image += rms(pixels) / CALIBRATION as f32;
            text += rms(captions) / CALIBRATION as f32;
            diagonal += similarity.map_or(0.0, |factors| rms(factors.diagonal)) / CALIBRATION as f32;
        }
        let inputs = &self.state.synthetic.inputs;
        let rate = |fraction: f32, values: f32, gradient: f32, what: &'static str| match gradient {
            gradient if gradient.is_finite() && gradient > 0.0 => Ok(fraction * values / gradient),
            rms => Err(DistillError::Calibration { what, rms }),
        };
        Ok(TrajectoryScale {
            lr_img: rate(lr_img, rms(inputs.pixels.clone()), image, "pixels")?,
            lr_txt: rate(lr_txt, rms(inputs.text.clone()), text, "captions")?,
            lr_similarity: match self.state.similarity {
                Some(_) => rate(lr_similarity, 1.0, diagonal, "similarity")?,
                None => 0.0,
            },
        })
    }
}

/// The same pairs with sentence features, `[N, 1, d_l]`, in place of embedded captions.
fn with_features(inputs: Inputs, model: &Model) -> Result<Inputs, DistillError> {
    let Inputs { pixels, text, mask, .. } = inputs;
    let [n, _] = mask.dims();
    let features = model.text.encode(text, mask.clone(), &mut Mode::Eval)?; // [N, d_l]
    let mask = mask.narrow(1, 0, 1).ones_like().reshape([n, 1]);
    Ok(Inputs { pixels, text: features.unsqueeze_dim(1), mask, level: TextLevel::Features })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn steps_are_bounded_where_gradients_go_through_all_steps_in_relative_units() {
        let most = |fields: &[&str]| {
            let text = "[data.scenes]\n[image]\nencoder = 'nfnet_scenes'\nweights = 'built-in'\n\
                        [text]\nencoder = 'bert_scenes'\nweights = 'built-in'\n";
            let fields: Vec<String> = fields.iter().map(|&field| field.to_owned()).collect();
            Settings::of(&Config::parse("small.toml", text, &fields).unwrap()).max_change
        };
        assert_eq!(most(&["distill.method=mtt-vl"]), 0.1);
        assert_eq!(most(&["distill.method=mtt-vl", "trajectory.max_change=0.3"]), 0.3);
        assert_eq!(most(&["distill.method=mtt-vl", "distill.units=absolute"]), f32::INFINITY);
        assert_eq!(most(&["distill.method=lors"]), f32::INFINITY);
        assert_eq!(most(&["distill.method=lors", "trajectory.unroll=full"]), 0.1);
    }
}
