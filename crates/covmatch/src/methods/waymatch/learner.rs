//! WayMatch between two steps, and its step.

use std::path::Path;
use std::time::Instant;

use burn::tensor::{Int, Tensor, TensorData};

use super::labels::soft_targets;
use super::objective::{Asked, Objective, ask};
use super::pool::{Teachers, Waypoint};
use crate::branches::Branches;
use crate::config::Config;
use crate::distilled::Learned;
use crate::experiment::Experiment;
use crate::methods::{Adam, Learner, MethodError, StepReport, Synthetic, Value, rms};
use crate::model::Inputs;
use crate::tensor_file::TensorFile;

/// The learning rate of pixels and captions in absolute units.
const RATE: f32 = 0.01;

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
        file.put_value("rates", rates);
        file.put_value("step", done);
        Ok(file.write(&checkpoint.join("state.safetensors"))?)
    }

    fn step(&mut self) -> Result<StepReport, MethodError> {
        let start = Instant::now();
        let waypoint = self.waypoint()?;
        let arrived = start.elapsed().as_secs_f64();
        let rows = self.rows();
        let pairs = match &rows {
            Some(rows) => self.state.synthetic.inputs.select(rows),
            None => self.state.synthetic.inputs.clone(),
        };
        let asked = ask(&waypoint, pairs, self.objective(), self.experiment.config.distill.learn)?;
        self.here = self.here.take().map(|(stay, _)| (stay, waypoint));
        MethodError::unless_finite("the loss", asked.loss, self.state.done, &self.experiment.config.distill)?;
        let report = self.report(&asked);
        self.state = self.moved(asked, rows.as_ref());
        let pairs = start.elapsed().as_secs_f64() - arrived;
        Ok(StepReport { seconds: vec![("waypoint", arrived), ("pairs", pairs)], ..report })
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

    fn learned(&self) -> Result<Option<Learned>, MethodError> {
        let config = &self.experiment.config.waymatch;
        let Some(loss) = config.labels else { return Ok(None) };
        let similarity = soft_targets(&self.teachers, &self.state.average, loss, config.label_tau)?;
        Ok(Some(Learned { similarity: Some(similarity), rates: None, loss }))
    }
}

impl WayMatch {
    fn objective(&self) -> Objective {
        let Config { distill, waymatch, head, .. } = &self.experiment.config;
        Objective {
            rho: distill.rho,
            covariance: waymatch.covariance,
            feat: distill.lambda() / head.width as f32,
            canonical: waymatch.canonical,
            spread: waymatch.spread,
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

    /// The pairs of this step: the first of a fresh shuffle; `None` for all of them.
    fn rows(&self) -> Option<Tensor<1, Int>> {
        let config = &self.experiment.config.distill;
        let (all, some) = (config.pairs, config.synthetic_batch());
        if some == all {
            return None;
        }
        let shuffled = self.experiment.config.seed().stream("synthetic.rows", self.state.done).shuffle(all as u32);
        let rows: Vec<i64> = shuffled.into_iter().take(some).map(i64::from).collect();
        Some(Tensor::from_data(TensorData::new(rows, [some]), &self.experiment.device))
    }

    /// The state after a step along the gradients of `asked`, those of the pairs at `rows`.
    fn moved(&self, asked: Asked, rows: Option<&Tensor<1, Int>>) -> State {
        let Config { distill, waymatch, .. } = &self.experiment.config;
        let State { mut synthetic, mut pixels, mut text, rates, average, done } = self.state.clone();
        let inputs = &mut synthetic.inputs;
        if let Some(gradient) = asked.gradients.pixels {
            let gradient = at_rows(gradient, &inputs.pixels, rows);
            inputs.pixels = pixels.step(inputs.pixels.clone(), gradient, rates.image, distill.momentum);
        }
        if let Some(gradient) = asked.gradients.text {
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

    fn report(&self, asked: &Asked) -> StepReport {
        let &Asked { covariance, feat, canonical, spread, info_nce, loss, .. } = asked;
        let of_pixels = asked.gradients.pixels.clone().map_or(0.0, rms);
        let of_text = asked.gradients.text.clone().map_or(0.0, rms);
        let inputs = &self.state.synthetic.inputs;
        StepReport {
            step: self.state.done,
            loss,
            values: vec![
                Value::new("cov", "loss/cov", covariance),
                Value::new("feat_image", "loss/feat_image", feat[0]),
                Value::new("feat_text", "loss/feat_text", feat[1]),
                Value::new("canonical", "loss/canonical", canonical),
                Value::new("spread", "loss/spread", spread),
                Value::new("info_nce", "loss/info_nce", info_nce),
                Value::new("grad_image", "gradient/image", of_pixels),
                Value::new("grad_text", "gradient/text", of_text),
                Value::new("rms_image", "pairs/image_rms", rms(inputs.pixels.clone())),
                Value::new("rms_text", "pairs/text_rms", rms(inputs.text.clone())),
            ],
            seconds: Vec::new(),
            summary: format!("cov {covariance:.3}  nce {info_nce:.3}  feat {:.2}", feat[0] + feat[1]),
            warning: None,
        }
    }
}

/// `gradient`, of the pairs at `rows`, as one of all pairs `x`; others have none.
fn at_rows<const D: usize>(gradient: Tensor<D>, x: &Tensor<D>, rows: Option<&Tensor<1, Int>>) -> Tensor<D> {
    match rows {
        Some(rows) => x.zeros_like().select_assign(0, rows.clone(), gradient, burn::tensor::IndexingUpdateOp::Add),
        None => gradient,
    }
}
