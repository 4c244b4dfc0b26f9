//! MTT-VL and LoRS between two steps, and their step.
//!
//! Both are the same code with other [`settings`](super::settings). In relative units the rates of pixels, captions and similarity are measured at the
//! beginning, as CovMatch does: a first step changes each by the fraction that the configuration says.

use std::marker::PhantomData;
use std::path::Path;
use std::time::Instant;

use burn::tensor::{Tensor, TensorData};
use covmatch_kernels::SgdRates;
use serde::{Deserialize, Serialize};

use super::bound::{bounded, bounded_slope};
use super::experts::{Experts, frame};
use super::follow::{Denominator, Followed, StudentStep, follow};
use super::settings::{Published, Settings};
use super::similarity::Factors;
use super::student::{Pairs, PairsGradient, Student};
use crate::branches::Branches;
use crate::config::{Config, Units};
use crate::data::loader::Order;
use crate::distilled::Learned;
use crate::encoders::{Mode, TextEncoder};
use crate::experiment::Experiment;
use crate::methods::{
    Learner, MethodError, PairGradients, PairRates, StepReport, Synthetic, Value, relative_rate, rms,
};
use crate::model::{Inputs, Model, TextLevel};
use crate::tensor_file::TensorFile;

/// Students that are looked at to measure rates.
const CALIBRATION: u64 = 2;

/// A trajectory matching between two steps, with the settings that `P` publishes where the configuration has none.
pub struct TrajectoryMatching<P> {
    published: PhantomData<P>,
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
    #[serde(alias = "lr_img")]
    pub lr_image: f32,
    /// Of the captions.
    #[serde(alias = "lr_txt")]
    pub lr_text: f32,
    /// Of the similarity.
    pub lr_similarity: f32,
}

/// What a user is told whose students stand still.
const AT_BOUND: &str = "a learned rate of the students is at its lower bound, trajectory.min_rate: students that do not move \
                        teach the pairs nothing. The pairs may have run away (rms_image, rms_text in metrics.jsonl); \
                        try smaller distill.lr_image, distill.lr_text or trajectory.lr_rates";

impl<P: Published> Learner for TrajectoryMatching<P> {
    fn begin(experiment: Experiment) -> Result<Self, MethodError> {
        let (config, device) = (&experiment.config, experiment.device.clone());
        let model = frame(&experiment, config.seed(), 0);
        let mut synthetic = Synthetic::init(&experiment, &model)?;
        if config.trajectory.text == TextLevel::Features {
            synthetic.inputs = with_features(synthetic.inputs, &model)?;
        }
        let rank = Settings::of::<P>(config).rank;
        let similarity = (rank > 0).then(|| {
            Factors::identity(config.distill.pairs, rank, &mut config.seed().stream("similarity", 0), &device)
        });
        let state = State {
            synthetic,
            similarity,
            similarity_velocity: None,
            eta: config.trajectory.student_rates(),
            eta_velocity: Branches::default(),
            scale: TrajectoryScale { lr_image: 0.0, lr_text: 0.0, lr_similarity: 0.0 },
            done: 0,
        };
        let mut matching = Self::at(experiment, state)?;
        matching.state.scale = matching.measure_scale()?;
        Ok(matching)
    }

    fn resume(experiment: Experiment, checkpoint: &Path) -> Result<Self, MethodError> {
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
        Self::at(experiment, state)
    }

    fn save(&self, checkpoint: &Path) -> Result<(), MethodError> {
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

    fn step(&mut self) -> Result<StepReport, MethodError> {
        let start = Instant::now();
        let ends = self.expert("expert", self.state.done)?;
        let expert = start.elapsed().as_secs_f64();
        let followed = self.follow(&ends, "student", self.state.done)?;
        let measured = self.measured(&followed)?;
        self.state = self.moved(followed);
        let student = start.elapsed().as_secs_f64() - expert;
        Ok(StepReport { seconds: vec![("expert", expert), ("student", student)], ..self.report(measured) })
    }

    fn done(&self) -> u64 {
        self.state.done
    }

    fn constants(&self) -> String {
        let TrajectoryScale { lr_image, lr_text, lr_similarity } = self.state.scale;
        format!(
            "{} experts; rates: pixels {lr_image:.3e}, captions {lr_text:.3e}, similarity {lr_similarity:.3e}",
            self.whole.len()
        )
    }

    fn synthetic(&self) -> &Synthetic {
        &self.state.synthetic
    }

    fn learned(&self) -> Result<Option<Learned>, MethodError> {
        let alpha = self.experiment.config.trajectory.alpha;
        let similarity = self.state.similarity.as_ref().map(|factors| factors.matrix(alpha));
        Ok(Some(Learned { similarity, rates: Some(self.state.eta), loss: self.settings.loss }))
    }
}

/// What a step measures before it moves the pairs.
struct Measured {
    /// `L` of both sides.
    distance: Branches<f64>,
    /// Loss of the student at its last step.
    student: f32,
    /// Root mean squares of the gradients of pixels and of captions.
    gradients: [f32; 2],
}

impl<P: Published> TrajectoryMatching<P> {
    fn at(experiment: Experiment, state: State) -> Result<Self, MethodError> {
        let settings = Settings::of::<P>(&experiment.config);
        let model = frame(&experiment, experiment.config.seed(), 0);
        let experts = Experts::open(experiment.clone())?;
        let whole = experts.whole()?;
        Ok(Self { published: PhantomData, experiment, settings, model, experts, whole, state })
    }

    /// Where the student number `step` of `purpose` starts and what it is to reach: experts take turns in a shuffled
    /// order, and the epoch is drawn.
    fn expert(&self, purpose: &str, step: u64) -> Result<[super::Point; 2], MethodError> {
        let (seed, config) = (self.experiment.config.seed(), &self.experiment.config.trajectory);
        let count = self.whole.len() as u64;
        let order = seed.stream(&format!("{purpose}.order"), step / count).shuffle(count as u32);
        let expert = self.whole[order[(step % count) as usize] as usize];
        let start = seed.stream(&format!("{purpose}.epoch"), step).below(config.max_start_epoch as u64) as usize;
        Ok([self.experts.point(expert, start)?, self.experts.point(expert, start + config.expert_epochs)?])
    }

    /// A student between these ends, number `step` of `purpose`.
    fn follow(&self, [start, target]: &[super::Point; 2], purpose: &str, step: u64) -> Result<Followed, MethodError> {
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
            bounded(pixels, &synthetic.inputs.pixels, scale.lr_image, most),
            bounded(text, &synthetic.inputs.text, scale.lr_text, most),
        );
        let gradients = PairGradients {
            pixels: config.distill.learn.image().then_some(pixels),
            text: config.distill.learn.text().then_some(text),
        };
        let rates = PairRates { lr_image: scale.lr_image, lr_text: scale.lr_text, momentum };
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
    fn measured(&self, followed: &Followed) -> Result<Measured, MethodError> {
        let Branches { image, text } = followed.loss;
        let gradients = [rms(followed.pairs.pixels.clone()), rms(followed.pairs.text.clone())];
        let slopes = (followed.rates.image + followed.rates.text) as f32;
        for (what, value) in [
            ("the loss", (image + text) as f32),
            ("the pixels' gradient", gradients[0]),
            ("the text's gradient", gradients[1]),
            ("the gradient of the students' rates", slopes),
        ] {
            MethodError::unless_finite(what, value, self.state.done, &self.experiment.config.distill)?;
        }
        Ok(Measured { distance: followed.loss, student: followed.student_loss, gradients })
    }

    /// The report of the step that was just taken.
    fn report(&self, measured: Measured) -> StepReport {
        let Measured { distance, student, gradients } = measured;
        let Branches { image, text } = distance.map(|distance| distance as f32);
        let State { eta, synthetic, done, .. } = &self.state;
        let at_bound = eta.image.min(eta.text) <= self.experiment.config.trajectory.min_rate;
        StepReport {
            step: done - 1,
            loss: (distance.image + distance.text) as f32,
            values: vec![
                Value::new("trajectory_image", "loss/trajectory_image", image),
                Value::new("trajectory_text", "loss/trajectory_text", text),
                Value::new("student", "loss/student", student),
                Value::new("eta_image", "rate/image", eta.image),
                Value::new("eta_text", "rate/text", eta.text),
                Value::new("grad_image", "gradient/image", gradients[0]),
                Value::new("grad_text", "gradient/text", gradients[1]),
                Value::new("rms_image", "pairs/image_rms", rms(synthetic.inputs.pixels.clone())),
                Value::new("rms_text", "pairs/text_rms", rms(synthetic.inputs.text.clone())),
            ],
            seconds: Vec::new(),
            summary: format!("image {image:.4}  text {text:.4}  rates {:.3} {:.3}", eta.image, eta.text),
            warning: at_bound.then(|| AT_BOUND.to_owned()),
        }
    }

    /// The absolute rates of the run.
    fn measure_scale(&self) -> Result<TrajectoryScale, MethodError> {
        let Config { distill, trajectory, .. } = &self.experiment.config;
        let Branches { image: lr_image, text: lr_text } = distill.rates(P::DEFAULTS.rate);
        let lr_similarity = trajectory.lr_similarity(distill);
        if distill.units == Units::Absolute {
            return Ok(TrajectoryScale { lr_image, lr_text, lr_similarity });
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
        Ok(TrajectoryScale {
            lr_image: relative_rate(lr_image, rms(inputs.pixels.clone()), image, "pixels")?,
            lr_text: relative_rate(lr_text, rms(inputs.text.clone()), text, "captions")?,
            lr_similarity: match self.state.similarity {
                Some(_) => relative_rate(lr_similarity, 1.0, diagonal, "similarity")?,
                None => 0.0,
            },
        })
    }
}

/// The same pairs with sentence features, `[N, 1, d_l]`, in place of embedded captions.
fn with_features(inputs: Inputs, model: &Model) -> Result<Inputs, MethodError> {
    let Inputs { pixels, text, mask, .. } = inputs;
    let [n, _] = mask.dims();
    let features = model.text.encode(text, mask.clone(), &mut Mode::Eval)?; // [N, d_l]
    let mask = mask.narrow(1, 0, 1).ones_like().reshape([n, 1]);
    Ok(Inputs { pixels, text: features.unsqueeze_dim(1), mask, level: TextLevel::Features })
}
