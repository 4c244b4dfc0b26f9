//! WayMatch between two steps, and its step.

use std::path::Path;
use std::time::Instant;

use burn::tensor::{Int, Tensor};

use super::direction::{Turned, turn};
use super::objective::{Asked, Objective, ask};
use super::pool::{Teachers, Waypoint};
use crate::branches::Branches;
use crate::config::Config;
use crate::experiment::Experiment;
use crate::losses::PairLoss;
use crate::methods::trajectory::student::{Pairs, Student};
use crate::methods::{Adam, Learner, MethodError, PairGradients, StepReport, Synthetic, Value, rms, rows_of_step};
use crate::model::Inputs;
use crate::tensor_file::TensorFile;

/// The learning rate of pixels and captions in absolute units.
const RATE: f32 = 0.03;

/// WayMatch between two steps.
pub struct WayMatch {
    experiment: Experiment,
    teachers: Teachers,
    /// Where the pairs are: the number of the stay, and the waypoint.
    here: Option<(u64, Waypoint)>,
    state: State,
}

/// What changes from step to step.
#[derive(Clone)]
struct State {
    synthetic: Synthetic,
    pixels: Adam<5>,
    text: Adam<3>,
    /// Learning rates of pixels and captions.
    rates: Branches<f32>,
    /// The running means of pixels and captions.
    average: Inputs,
    done: u64,
}

impl Learner for WayMatch {
    fn begin(experiment: Experiment) -> Result<Self, MethodError> {
        let teachers = Teachers::open(experiment.clone())?;
        let model = experiment.model(experiment.config.seed(), 0);
        let synthetic = Synthetic::init(&experiment, &model)?;
        let fractions = experiment.config.distill.rates(RATE);
        let inputs = synthetic.inputs.clone();
        let rates = Branches {
            image: fractions.image * rms(inputs.pixels.clone()),
            text: fractions.text * rms(inputs.text.clone()),
        };
        let (pixels, text) = (Adam::new(&inputs.pixels), Adam::new(&inputs.text));
        let state = State { synthetic, pixels, text, rates, average: inputs, done: 0 };
        Ok(Self { experiment, teachers, here: None, state })
    }

    fn resume(experiment: Experiment, checkpoint: &Path) -> Result<Self, MethodError> {
        let file = TensorFile::read(&checkpoint.join("state.safetensors"))?;
        if !file.contains("objective") {
            let cause = "is of an earlier form of WayMatch, with another loss: begin again in an empty folder";
            return Err(file.content(cause.to_owned()).into());
        }
        let device = &experiment.device;
        let synthetic = Synthetic::of(&file, device)?;
        let average = Inputs {
            pixels: file.get("average.pixels", device)?,
            text: file.get("average.text", device)?,
            ..synthetic.inputs.clone()
        };
        let state = State {
            synthetic,
            pixels: Adam::of(&file, "pixels", device)?,
            text: Adam::of(&file, "text", device)?,
            rates: file.value("rates")?,
            average,
            done: file.value("step")?,
        };
        let teachers = Teachers::open(experiment.clone())?;
        Ok(Self { experiment, teachers, here: None, state })
    }

    fn save(&self, checkpoint: &Path) -> Result<(), MethodError> {
        let State { synthetic, pixels, text, rates, average, done } = &self.state;
        let mut file = TensorFile::default();
        synthetic.put_into(&mut file);
        pixels.put_into(&mut file, "pixels");
        text.put_into(&mut file, "text");
        file.put("average.pixels", average.pixels.clone());
        file.put("average.text", average.text.clone());
        file.put_value("objective", &self.objective());
        file.put_value("rates", rates);
        file.put_value("step", done);
        Ok(file.write(&checkpoint.join("state.safetensors"))?)
    }

    fn step(&mut self) -> Result<StepReport, MethodError> {
        let start = Instant::now();
        let waypoint = self.waypoint()?;
        let arrived = start.elapsed().as_secs_f64();
        let rows = rows_of_step(&self.experiment, self.state.done);
        let pairs = match &rows {
            Some(rows) => self.state.synthetic.inputs.select(rows),
            None => self.state.synthetic.inputs.clone(),
        };
        let Config { waymatch, .. } = &self.experiment.config;
        let mut stream = self.experiment.config.seed().stream("waymatch.tested", self.state.done);
        let real = waypoint.statistics.some(waymatch.tested, &mut stream);
        let asked = ask(&waypoint, real, pairs.clone(), self.objective(), self.experiment.config.distill.learn)?;
        let matched = start.elapsed().as_secs_f64();
        let turned = self.turned(&waypoint, pairs)?;
        self.here = self.here.take().map(|(stay, _)| (stay, waypoint));
        let report = self.report(&asked, turned.as_ref());
        MethodError::unless_finite("the loss", report.loss, self.state.done, &self.experiment.config.distill)?;
        self.state = self.moved(with(asked.gradients, turned, waymatch.direction), rows.as_ref());
        let way = start.elapsed().as_secs_f64() - matched;
        Ok(StepReport { seconds: vec![("waypoint", arrived), ("pairs", matched - arrived), ("way", way)], ..report })
    }

    fn done(&self) -> u64 {
        self.state.done
    }

    fn constants(&self) -> String {
        let (Branches { image, text }, waypoints) = (self.state.rates, self.teachers.waypoints().len());
        format!("{waypoints} waypoints; rates: pixels {image:.3e}, captions {text:.3e}")
    }

    fn synthetic(&self) -> &Synthetic {
        &self.state.synthetic
    }

    fn pairs(&self) -> Inputs {
        self.state.average.clone()
    }
}

impl WayMatch {
    fn objective(&self) -> Objective {
        let Config { distill, waymatch, head, .. } = &self.experiment.config;
        Objective {
            fitted: waymatch.fitted,
            ridge: waymatch.ridge,
            rho: distill.rho,
            covariance: waymatch.covariance,
            feat: distill.lambda() / head.width as f32,
            info_nce: waymatch.info_nce,
            tau: head.tau,
        }
    }

    /// The waypoint of the next step: all of them take turns in a shuffled order, each for `waymatch.stay` steps.
    fn waypoint(&mut self) -> Result<Waypoint, MethodError> {
        let stay = self.state.done / self.experiment.config.waymatch.stay as u64;
        if let Some((_, waypoint)) = self.here.take().filter(|(here, _)| *here == stay) {
            self.here = Some((stay, waypoint.clone()));
            return Ok(waypoint);
        }
        let all = self.teachers.waypoints();
        let count = all.len() as u64;
        let order = self.experiment.config.seed().stream("waymatch.order", stay / count).shuffle(count as u32);
        let (teacher, at) = all[order[(stay % count) as usize] as usize];
        let waypoint = self.teachers.waypoint(teacher, at)?;
        self.here = Some((stay, waypoint.clone()));
        Ok(waypoint)
    }

    /// What the way on from `waypoint` says of `inputs`; none if no direction is asked.
    fn turned(&self, waypoint: &Waypoint, inputs: Inputs) -> Result<Option<Turned>, MethodError> {
        let Some(way) = &waypoint.way else { return Ok(None) };
        let (tau, loss) = (self.experiment.config.head.tau, PairLoss::InfoNce);
        let student = Student { model: self.teachers.frame(), tau, loss, alpha: 0.0 };
        let dropout = self.experiment.config.seed().stream("waymatch.dropout", self.state.done);
        Ok(Some(turn(&student, way, &Pairs { inputs, similarity: None }, Some(&dropout))?))
    }

    /// The state after a step along `gradients` of the pairs at `rows`.
    fn moved(&self, gradients: PairGradients, rows: Option<&Tensor<1, Int>>) -> State {
        let Config { distill, waymatch, .. } = &self.experiment.config;
        let State { mut synthetic, mut pixels, mut text, rates, average, done } = self.state.clone();
        let inputs = &mut synthetic.inputs;
        if let Some(gradient) = gradients.pixels {
            let gradient = at_rows(gradient, &inputs.pixels, rows);
            inputs.pixels = pixels.step(inputs.pixels.clone(), gradient, rates.image, distill.momentum);
        }
        if let Some(gradient) = gradients.text {
            let gradient = at_rows(gradient, &inputs.text, rows);
            inputs.text = text.step(inputs.text.clone(), gradient, rates.text, distill.momentum);
        }
        let decay = waymatch.average.min(done as f32 / (done as f32 + 10.0));
        let average = Inputs {
            pixels: average.pixels.mul_scalar(decay) + inputs.pixels.clone().mul_scalar(1.0 - decay),
            text: average.text.mul_scalar(decay) + inputs.text.clone().mul_scalar(1.0 - decay),
            mask: average.mask,
            level: average.level,
        };
        State { synthetic, pixels, text, rates, average, done: done + 1 }
    }

    fn report(&self, asked: &Asked, turned: Option<&Turned>) -> StepReport {
        let &Asked { fitted, covariance, feat, info_nce, loss, .. } = asked;
        let of_pixels = asked.gradients.pixels.clone().map_or(0.0, rms);
        let of_text = asked.gradients.text.clone().map_or(0.0, rms);
        let inputs = &self.state.synthetic.inputs;
        let cosines = turned.map_or_else(Branches::default, |turned| turned.cosines);
        let way = |name, tag, cosine: Option<f64>| Value { name, tag, value: cosine.map(|cosine| cosine as f32) };
        let direction = self.experiment.config.waymatch.direction * turned.map_or(0.0, Turned::loss);
        StepReport {
            step: self.state.done,
            loss: loss + direction,
            values: vec![
                Value::new("fitted", "loss/fitted", fitted),
                Value::new("cov", "loss/cov", covariance),
                Value::new("feat_image", "loss/feat_image", feat[0]),
                Value::new("feat_text", "loss/feat_text", feat[1]),
                Value::new("info_nce", "loss/info_nce", info_nce),
                way("way_image", "way/image_encoder", cosines.image[0]),
                way("way_image_head", "way/image_head", cosines.image[1]),
                way("way_text", "way/text_encoder", cosines.text[0]),
                way("way_text_head", "way/text_head", cosines.text[1]),
                Value::new("grad_image", "gradient/image", of_pixels),
                Value::new("grad_text", "gradient/text", of_text),
                Value::new("rms_image", "pairs/image_rms", rms(inputs.pixels.clone())),
                Value::new("rms_text", "pairs/text_rms", rms(inputs.text.clone())),
            ],
            seconds: Vec::new(),
            summary: format!("fit {fitted:.3}  cov {covariance:.3}  feat {:.2}", feat[0] + feat[1]),
            warning: None,
        }
    }
}

/// `gradients` and `weight` times those of `turned`, of the modalities that are learned.
fn with(gradients: PairGradients, turned: Option<Turned>, weight: f32) -> PairGradients {
    let Some(Turned { gradient, .. }) = turned else { return gradients };
    let PairGradients { pixels, text } = gradients;
    PairGradients {
        pixels: pixels.map(|sum| sum + gradient.pixels.mul_scalar(weight)),
        text: text.map(|sum| sum + gradient.text.mul_scalar(weight)),
    }
}

/// `gradient`, of the pairs at `rows`, as one of all pairs `x`; others have none.
fn at_rows<const D: usize>(gradient: Tensor<D>, x: &Tensor<D>, rows: Option<&Tensor<1, Int>>) -> Tensor<D> {
    match rows {
        Some(rows) => x.zeros_like().select_assign(0, rows.clone(), gradient, burn::tensor::IndexingUpdateOp::Add),
        None => gradient,
    }
}
