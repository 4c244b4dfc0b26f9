//! The synthetic pairs and the descent that learns them.
//!
//! ```text
//! pixels [N, 3, t, h, w]      text [N, l, d_l]      mask [N, l], fixed
//! ```
//! `text` is what the transformer layers take: the output of the frozen embedding module, so position and segment are
//! baked in. Neither pixels nor text are clamped.

use std::collections::HashMap;
use std::path::Path;

use burn::tensor::{Device, Int, Tensor, TensorData};
use covmatch_kernels::{SgdRates, sgd_step, side_by_side};

use super::MethodError;
use crate::config::{Init, Learn};
use crate::data::caption::{MAX_WORDS, clean};
use crate::distilled::{DistilledSet, PairInfo};
use crate::encoders::{EncoderError, Mode};
use crate::engine::Stream;
use crate::experiment::Experiment;
use crate::losses::cross_covariance::Features;
use crate::model::{Inputs, Model};
use crate::tensor_file::{TensorFile, TensorFileError};

/// The pairs that are learned.
#[derive(Clone, Debug)]
pub struct Synthetic {
    /// The values.
    pub inputs: Inputs,
    /// The captions of the train split that the pairs started from, indices into `Dataset::captions`.
    pub captions: Vec<u32>,
    /// Velocities of pixels and text; none before the first step.
    pub velocity: Option<Velocity>,
}

/// The momentum of the synthetic pairs.
#[derive(Clone, Debug)]
pub struct Velocity {
    /// `[N, 3, t, h, w]`
    pub pixels: Tensor<5>,
    /// `[N, l, d_l]`
    pub text: Tensor<3>,
}

/// Gradients of the pairs at `rows`; a modality that is not learned has none.
#[derive(Clone, Debug)]
pub struct PairGradients {
    /// `[n, 3, t, h, w]`
    pub pixels: Option<Tensor<5>>,
    /// `[n, l, d_l]`
    pub text: Option<Tensor<3>>,
}

/// Learning rates and momentum of the pairs, in absolute units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairRates {
    /// Of the pixels.
    pub lr_image: f32,
    /// Of the embedded captions.
    pub lr_text: f32,
    /// Of both.
    pub momentum: f32,
}

impl Synthetic {
    /// The pairs that the experiment starts from: as many entries of the train split, drawn at random, through the train
    /// transform; noise with their shapes; or those of a set that is there.
    pub fn init(experiment: &Experiment, model: &Model) -> Result<Self, MethodError> {
        let config = &experiment.config.distill;
        let (seed, augment) = (experiment.config.seed(), experiment.config.data.augmentation());
        let loader = experiment.train_loader(seed, "synthetic.init", config.pairs, augment)?;
        let batch = loader.batch(0, crate::engine::threads())?;
        let captions = batch.captions.clone();
        let real = model.inputs(batch, &mut Mode::Eval, &experiment.device)?;
        let inputs = match &config.init {
            Init::Set(folder) => return Self::of_set(experiment, folder, &real),
            Init::Real => real,
            Init::Noise => noise_like(&real, &mut experiment.config.seed().stream("synthetic.noise", 0)),
        };
        Ok(Self { inputs, captions, velocity: None })
    }

    /// The pairs of the set in `folder`, which must have the shapes of `real`.
    fn of_set(experiment: &Experiment, folder: &Path, real: &Inputs) -> Result<Self, MethodError> {
        let unfit = |cause: String| MethodError::Start { folder: folder.display().to_string(), cause };
        let inputs = DistilledSet::load(folder, &experiment.device)?.pairs;
        let shapes = |inputs: &Inputs| {
            let ([_, _, _, height, width], [_, _, d_l]) = (inputs.pixels.dims(), inputs.text.dims());
            format!("{} pairs of {height} x {width} pixels with captions of width {d_l}", inputs.len())
        };
        let (found, wanted) = (shapes(&inputs), shapes(real));
        if found != wanted || inputs.level != real.level {
            return Err(unfit(format!("has {found}, and this experiment has {wanted}")));
        }
        let dataset = &experiment.dataset;
        let began = |caption: &u32| {
            let caption = &dataset.captions[*caption as usize];
            (dataset.images[caption.image as usize].name.clone(), clean(&caption.text, MAX_WORDS))
        };
        let known: HashMap<(String, String), u32> =
            dataset.train_entries().iter().map(|caption| (began(caption), *caption)).collect();
        let infos = PairInfo::read_all(&folder.join("metadata.jsonl"))
            .map_err(|cause| unfit(format!("has a metadata.jsonl that cannot be read ({cause})")))?;
        let captions = infos.into_iter().map(|info| known.get(&(info.init_image, info.init_caption)).copied());
        let captions: Option<Vec<u32>> = captions.collect();
        let captions = captions.filter(|captions| captions.len() == inputs.len());
        let other_data = || unfit("began with pairs that are not in the train split of this experiment".to_owned());
        Ok(Self { inputs, captions: captions.ok_or_else(other_data)?, velocity: None })
    }

    /// Adds the pairs to `file`.
    pub fn put_into(&self, file: &mut TensorFile) {
        let Self { inputs, captions, velocity } = self;
        file.put("pixels", inputs.pixels.clone());
        file.put("text", inputs.text.clone());
        file.put("mask", inputs.mask.clone());
        file.put_value("text_level", &inputs.level);
        file.put_value("captions", captions);
        if let Some(Velocity { pixels, text }) = velocity {
            file.put("velocity.pixels", pixels.clone());
            file.put("velocity.text", text.clone());
        }
    }

    /// The pairs that [`put_into`](Self::put_into) added to `file`.
    pub fn of(file: &TensorFile, device: &Device) -> Result<Self, TensorFileError> {
        let inputs = Inputs {
            pixels: file.get("pixels", device)?,
            text: file.get("text", device)?,
            mask: file.get("mask", device)?,
            level: file.value("text_level")?,
        };
        let velocity = match file.contains("velocity.pixels") {
            true => Some(Velocity {
                pixels: file.get("velocity.pixels", device)?,
                text: file.get("velocity.text", device)?,
            }),
            false => None,
        };
        Ok(Self { inputs, captions: file.value("captions")?, velocity })
    }

    /// Number of pairs, `N`.
    pub fn len(&self) -> usize {
        self.inputs.len()
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pairs after those at `rows` (all of them if `None`) moved along `gradients`.
    ///
    /// A pair that is not among the rows has a gradient of zero: it moves on with its momentum, as in PyTorch.
    pub fn step(self, gradients: PairGradients, rows: Option<&Tensor<1, Int>>, rates: PairRates) -> Self {
        let Self { inputs: Inputs { pixels, text, mask, level }, captions, velocity } = self;
        let (pixels_velocity, text_velocity) = match velocity {
            Some(Velocity { pixels, text }) => (Some(pixels), Some(text)),
            None => (None, None),
        };
        let sgd = |lr| SgdRates { lr, momentum: rates.momentum, weight_decay: 0.0 };
        let (pixels, pixels_velocity) = moved(pixels, gradients.pixels, rows, pixels_velocity, sgd(rates.lr_image));
        let (text, text_velocity) = moved(text, gradients.text, rows, text_velocity, sgd(rates.lr_text));
        let velocity = Some(Velocity { pixels: pixels_velocity, text: text_velocity });
        Self { inputs: Inputs { pixels, text, mask, level }, captions, velocity }
    }
}

/// The pairs of step `step`: the first of a fresh shuffle; `None` for all of them.
pub fn rows_of_step(experiment: &Experiment, step: u64) -> Option<Tensor<1, Int>> {
    let config = &experiment.config.distill;
    let (all, some) = (config.pairs, config.synthetic_batch());
    if some == all {
        return None;
    }
    let shuffled = experiment.config.seed().stream("synthetic.rows", step).shuffle(all as u32);
    let rows: Vec<i64> = shuffled.into_iter().take(some).map(i64::from).collect();
    Some(Tensor::from_data(TensorData::new(rows, [some]), &experiment.device))
}

/// The loss of `pairs` and its gradients with respect to the modalities in `learn`.
pub fn pair_gradients(
    pairs: Inputs,
    learn: Learn,
    loss: impl FnOnce(Inputs) -> Result<Tensor<1>, EncoderError>,
) -> Result<(f32, PairGradients), EncoderError> {
    let Inputs { pixels, text, mask, level } = pairs.autodiff();
    let pixels = if learn.image() { pixels.require_grad() } else { pixels };
    let text = if learn.text() { text.require_grad() } else { text };
    let loss = loss(Inputs { pixels: pixels.clone(), text: text.clone(), mask, level })?;
    let value = loss.clone().into_scalar::<f32>();
    let gradients = &mut loss.backward();
    Ok((value, PairGradients { pixels: pixels.grad_remove(gradients), text: text.grad_remove(gradients) }))
}

/// The loss of the features `h` of `pairs` under `model`, and its gradients with respect to the modalities in `learn`.
///
/// The branches of the model meet in the loss alone: behind it each of them is traversed by itself, side by side.
/// `model` is tracked and its parameters are not (`no_grad().train()`).
pub fn gradients_through_features(
    model: &Model,
    pairs: Inputs,
    learn: Learn,
    loss: impl FnOnce(Features) -> Result<Tensor<1>, EncoderError>,
) -> Result<(f32, PairGradients), EncoderError> {
    let Inputs { pixels, text, mask, level } = pairs.autodiff();
    let pixels = if learn.image() { pixels.require_grad() } else { pixels };
    let text = if learn.text() { text.require_grad() } else { text };
    let h = model.features(Inputs { pixels: pixels.clone(), text: text.clone(), mask, level }, &mut Mode::Eval)?;
    let leaves = h.as_ref().map(|h| h.clone().detach().require_grad());
    let loss = loss(leaves.clone())?;
    let value = loss.clone().into_scalar::<f32>();
    let at_h = &mut loss.backward();
    let (at_image, at_text) = (leaves.image.grad_remove(at_h), leaves.text.grad_remove(at_h));
    let (pixels, text) = side_by_side(
        &pixels.device(),
        || pulled_back(&pixels, h.image, at_image.filter(|_| learn.image())),
        || pulled_back(&text, h.text, at_text.filter(|_| learn.text())),
    );
    Ok((value, PairGradients { pixels, text }))
}

/// The gradient at `x` that `gradient`, the gradient at `h`, has; `h` is a function of `x`.
fn pulled_back<const D: usize>(x: &Tensor<D>, h: Tensor<2>, gradient: Option<Tensor<2>>) -> Option<Tensor<D>> {
    x.grad_remove(&mut (h * gradient?.autodiff()).sum().backward())
}

/// `x` and its velocity after a step; without a gradient `x` stays and the velocity is zero.
fn moved<const D: usize>(
    x: Tensor<D>,
    gradient: Option<Tensor<D>>,
    rows: Option<&Tensor<1, Int>>,
    velocity: Option<Tensor<D>>,
    rates: SgdRates,
) -> (Tensor<D>, Tensor<D>) {
    let Some(gradient) = gradient else {
        let velocity = velocity.unwrap_or_else(|| x.zeros_like());
        return (x, velocity);
    };
    let gradient = match rows {
        Some(rows) => x.zeros_like().select_assign(0, rows.clone(), gradient, burn::tensor::IndexingUpdateOp::Add),
        None => gradient,
    };
    sgd_step(x, gradient, velocity, rates)
}

/// Gaussian noise in the shapes of `real`, with the statistics that the baselines publish for pixels under CLIP's
/// colours and, for captions, the mean and deviation of the real ones.
fn noise_like(real: &Inputs, stream: &mut Stream) -> Inputs {
    const MEAN: [f32; 3] = [-0.0626, -0.0221, 0.0680];
    const STD: [f32; 3] = [1.0451, 1.0752, 1.0539];
    let device = real.pixels.device();
    let [n, channels, frames, height, width] = real.pixels.dims();
    let plane = frames * height * width;
    let mut pixels = Vec::with_capacity(n * channels * plane);
    for _ in 0..n {
        for (mean, std) in MEAN.iter().zip(&STD).take(channels) {
            pixels.extend((0..plane).map(|_| mean + std * stream.normal()));
        }
    }
    let mean = real.text.clone().mean().into_scalar::<f32>();
    let std = real.text.clone().var(0).mean().sqrt().into_scalar::<f32>();
    let text = (0..real.text.shape().num_elements()).map(|_| mean + std * stream.normal()).collect::<Vec<_>>();
    Inputs {
        pixels: Tensor::from_data(TensorData::new(pixels, real.pixels.dims()), &device),
        text: Tensor::from_data(TensorData::new(text, real.text.dims()), &device),
        mask: real.mask.clone(),
        level: real.level,
    }
}
