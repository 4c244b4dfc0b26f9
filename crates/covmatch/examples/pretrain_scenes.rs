//! Makes what is in `assets/scenes`: the vocabulary and the weights of the demo's two encoders.
//!
//! ```text
//! cargo run --release -p covmatch --example pretrain_scenes -- vocabulary
//! cargo run --release -p covmatch --example pretrain_scenes -- image
//! cargo run --release -p covmatch --example pretrain_scenes -- text
//! ```
//! Everything is a function of [`SEED`]. The scenes are those of another seed than the demo's, and each encoder sees its
//! own modality alone, never a picture with a caption:
//!
//! - `nfnet_scenes` learns to tell from a picture what was drawn (shapes, colours, sizes, fills, background, light,
//!   arrangement, count): a sigmoid for each label, `L = sum_k BCE(label_k)`.
//! - `bert_scenes` learns to fill in words that are masked in a caption: `L = CE` over the masked tokens.
//!
//! Both with Adam, a linear warm-up and a cosine to zero, in some minutes each on two cores. Weights are stored as f16.
//! `vocabulary` comes first, and the build after it: the size of the text encoder's table is that of the file.

#![allow(clippy::print_stderr, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Gradients, Int, Tensor, TensorData};
use covmatch::data::Split;
use covmatch::data::scenes::attributes::{Background, Colour, Fill, Light, Shape, Size};
use covmatch::data::scenes::description::{Arrangement, KINDS, Scene};
use covmatch::data::scenes::{Description, Form, SceneConfig, SceneId, captions, describe, render};
use covmatch::data::tokens::Tokenizer;
use covmatch::data::transform::{Augmentation, Normalization, RgbView, Scratch, Transform};
use covmatch::encoders::image::AnyImageEncoder;
use covmatch::encoders::text::{AnyTextEncoder, Pooling};
use covmatch::encoders::weights::{self, generated};
use covmatch::encoders::{ImageEncoder, Mode, TextEncoder};
use covmatch::engine::Seed;
use half::f16;
use rayon::prelude::*;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

/// Decides scenes, order, masks and dropout. The demo's scenes have seed 0.
const SEED: u64 = 20_251;
/// Side of a picture in pixels.
const SIZE: usize = 64;
/// Scenes to learn from.
const SCENES: u64 = 40_000;
/// Scenes whose captions make the vocabulary.
const VOCABULARY_SCENES: u64 = 30_000;

const IMAGE_STEPS: u64 = 3200;
const IMAGE_BATCH: usize = 32;
const TEXT_STEPS: u64 = 2500;
const TEXT_BATCH: usize = 48;
const LEARNING_RATE: f32 = 1.5e-3;
/// Part of the tokens that are masked.
const MASKED: f32 = 0.2;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("vocabulary") => vocabulary(),
        Some("image") => image(),
        Some("text") => text(),
        _ => eprintln!("say what to make: vocabulary, image or text"),
    }
}

fn config() -> SceneConfig {
    SceneConfig { seed: SEED, size: SIZE, ..SceneConfig::default() }
}

fn asset(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("assets/scenes").join(name)
}

fn scene_index(form: Form, number: u64) -> u64 {
    SceneId { form, split: Split::Train, number }.index()
}

// ---- vocabulary ----

/// Writes the special tokens and, sorted, every word and sign of the captions of many pictures and clips.
fn vocabulary() {
    let tokens: BTreeSet<String> = (0..VOCABULARY_SCENES)
        .flat_map(|number| [Form::Picture, Form::Clip].map(|form| scene_index(form, number)))
        .flat_map(|index| captions(&config(), index))
        .flat_map(|caption| {
            caption
                .replace(',', " ,")
                .replace('.', " .")
                .to_lowercase()
                .split(' ')
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map(str::to_owned);
    let lines: Vec<String> = special.into_iter().chain(tokens).collect();
    std::fs::write(asset("vocab.txt"), lines.join("\n") + "\n").unwrap();
    eprintln!("{} tokens; build again before pretraining the text encoder", lines.len());
}

// ---- the image encoder ----

/// One bit a label.
fn labels(scene: &Scene) -> Vec<f32> {
    let mut labels = Vec::with_capacity(256);
    let mut group = |size: usize, set: &mut dyn Iterator<Item = usize>| {
        let start = labels.len();
        labels.resize(start + size, 0.0);
        set.for_each(|at| labels[start + at] = 1.0);
    };
    let objects = &scene.objects;
    let (shapes, colours) = (Shape::ALL.len(), Colour::ALL.len());
    group(shapes, &mut objects.iter().map(|object| object.shape as usize));
    group(colours, &mut objects.iter().map(|object| object.colour as usize));
    group(shapes * colours, &mut objects.iter().map(|object| object.shape as usize * colours + object.colour as usize));
    group(Size::ALL.len(), &mut objects.iter().map(|object| object.size as usize));
    group(Fill::ALL.len(), &mut objects.iter().map(|object| object.fill as usize));
    group(colours * 4, &mut objects.iter().map(|object| object.colour as usize * 4 + object.fill as usize));
    group(Background::ALL.len(), &mut std::iter::once(scene.background as usize));
    group(Light::ALL.len(), &mut std::iter::once(scene.light as usize));
    group(4, &mut std::iter::once(objects.len() - 1));
    let (kind, detail) = arrangement(scene.arrangement);
    group(KINDS as usize, &mut std::iter::once(kind));
    group(KINDS as usize * 5, &mut std::iter::once(kind * 5 + detail));
    labels
}

/// The kind of an arrangement and which of its kind.
fn arrangement(arrangement: Arrangement) -> (usize, usize) {
    match arrangement {
        Arrangement::Single(spot) => (0, spot as usize),
        Arrangement::Group(formation) => (1, formation as usize),
        Arrangement::Side(axis) => (2, axis as usize),
        Arrangement::Inside => (3, 0),
        Arrangement::Front => (4, 0),
        Arrangement::Beside(direction) => (5, direction as usize),
        Arrangement::Line(axis) => (6, axis as usize),
    }
}

fn scene(number: u64) -> Scene {
    match describe(&config(), scene_index(Form::Picture, number)) {
        Description::Picture(scene) => scene,
        Description::Clip(_) => unreachable!("an index of a picture"),
    }
}

/// Pixels `[n, 3, h, w]` of the scenes.
fn pixels(numbers: &[u64], device: &Device) -> Tensor<4> {
    let transform = Transform::new(SIZE, &Normalization::CLIP);
    let plane = 3 * SIZE * SIZE;
    let mut values = vec![0.0; numbers.len() * plane];
    values.par_chunks_mut(plane).zip(numbers).for_each(|(out, &number)| {
        let picture = render(&config(), scene_index(Form::Picture, number));
        let plan = Augmentation::none(picture.width, picture.height);
        let (red, rest) = out.split_at_mut(SIZE * SIZE);
        let (green, blue) = rest.split_at_mut(SIZE * SIZE);
        let view = RgbView::try_from(&picture).unwrap();
        transform.apply(view, &plan, &mut Scratch::default(), [red, green, blue]).unwrap();
    });
    Tensor::from_data(TensorData::new(values, [numbers.len(), 3, SIZE, SIZE]), device)
}

fn label_tensor(numbers: &[u64], device: &Device) -> Tensor<2> {
    let values: Vec<Vec<f32>> = numbers.iter().map(|&number| labels(&scene(number))).collect();
    let count = values[0].len();
    Tensor::from_data(TensorData::new(values.concat(), [numbers.len(), count]), device)
}

/// An encoder and a linear layer that is thrown away.
#[derive(Module, Debug)]
struct Trained<E: Module> {
    encoder: E,
    head: Head,
}

/// `x W + b`.
#[derive(Module, Debug)]
struct Head {
    weight: Param<Tensor<2>>, // [in, out]
    bias: Param<Tensor<2>>,   // [1, out]
}

impl Head {
    fn new(inputs: usize, outputs: usize, device: &Device) -> Self {
        let values = generated::values("head.weight", &[outputs, inputs]);
        let weight = Tensor::<2>::from_data(TensorData::new(values, [outputs, inputs]), device).transpose();
        Self { weight: Param::from_tensor(weight), bias: Param::from_tensor(Tensor::zeros([1, outputs], device)) }
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        x.matmul(self.weight.val()) + self.bias.val()
    }
}

/// `sum_k BCE(label_k)`, mean over pictures.
fn label_loss(logits: Tensor<2>, labels: Tensor<2>) -> Tensor<1> {
    let [n, _] = logits.dims();
    // max(x, 0) - x y + ln(1 + exp(-|x|))
    let soft = logits.clone().abs().neg().exp().log1p();
    (logits.clone().clamp_min(0.0) - logits * labels + soft).sum().div_scalar(n as f32)
}

fn image() {
    let device = Device::flex();
    let encoder = generated::fill(AnyImageEncoder::new("nfnet_scenes", &device).unwrap());
    let head = Head::new(encoder.feature_dim(), labels(&scene(0)).len(), &device);
    let mut model = Trained { encoder, head };
    let mut adam = Adam::default();
    let mut log = Log::new(IMAGE_STEPS);
    for step in 0..IMAGE_STEPS {
        let numbers = batch(step, IMAGE_BATCH);
        let (pixels, labels) = (pixels(&numbers, &device).autodiff(), label_tensor(&numbers, &device).autodiff());
        let graph = model.train();
        let features = graph.encoder.encode(pixels).unwrap();
        let loss = label_loss(graph.head.forward(features), labels);
        log.step(step, &loss);
        let gradients = loss.backward();
        model = adam.step(graph, gradients, rate(step, IMAGE_STEPS)).valid();
    }
    check_image(&model, &device);
    save_f16(&model.encoder, "nfnet_scenes");
}

/// Tells how much of a few unseen scenes is recognised.
fn check_image(model: &Trained<AnyImageEncoder>, device: &Device) {
    let numbers: Vec<u64> = (SCENES..SCENES + 500).collect();
    let features = model.encoder.encode(pixels(&numbers, device)).unwrap();
    let labels = label_tensor(&numbers, device);
    let logits = model.head.forward(features);
    let loss = label_loss(logits.clone(), labels.clone()).into_scalar::<f32>();
    let hits = (logits.greater_elem(0.0).float() * labels.clone()).sum().into_scalar::<f32>();
    eprintln!(
        "unseen scenes: loss {loss:.3}, found {:.1} % of the labels",
        100.0 * hits / labels.sum().into_scalar::<f32>()
    );
}

/// The scenes of a step: all once, then all again in another order.
fn batch(step: u64, size: usize) -> Vec<u64> {
    let per_epoch = SCENES / size as u64;
    let order = Seed(SEED).stream("pretrain.order", step / per_epoch).shuffle(SCENES as u32);
    let start = (step % per_epoch) as usize * size;
    order[start..start + size].iter().map(|&number| u64::from(number)).collect()
}

// ---- the text encoder ----

/// Captions with holes: token ids, the places of the holes in the flat `[n l]`, and what was there.
struct Holes {
    ids: Tensor<2, Int>,
    mask: Tensor<2>,
    places: Tensor<1, Int>,
    words: Tensor<2, Int>,
}

/// A caption of each scene of a step, with tokens masked as BERT does: 80 % `[MASK]`, 10 % another word, 10 % as it was.
fn holes(step: u64, tokenizer: &Tokenizer, device: &Device) -> Holes {
    let mut stream = Seed(SEED).stream("pretrain.masks", step);
    let texts: Vec<String> = batch(step, TEXT_BATCH)
        .into_iter()
        .map(|number| {
            let form = if number % 4 == 0 { Form::Clip } else { Form::Picture };
            captions(&config(), scene_index(form, number))[stream.below(5) as usize].clone()
        })
        .collect();
    let mut tokens = tokenizer.encode(&texts).unwrap();
    let (specials, vocabulary, mask_token) = (5, tokenizer.vocabulary_size() as u64, 4);
    let (mut places, mut words) = (Vec::new(), Vec::new());
    for (at, id) in tokens.ids.iter_mut().enumerate() {
        if *id < specials || stream.uniform() >= MASKED {
            continue;
        }
        places.push(at as i64);
        words.push(*id);
        match stream.uniform() {
            x if x < 0.8 => *id = mask_token,
            x if x < 0.9 => *id = specials + stream.below(vocabulary - specials as u64) as i64,
            _ => {}
        }
    }
    let (shape, count) = ([tokens.rows, tokens.length], places.len());
    Holes {
        ids: Tensor::from_data(TensorData::new(tokens.ids, shape), device),
        mask: Tensor::from_data(TensorData::new(tokens.mask, shape), device),
        places: Tensor::from_data(TensorData::new(places, [count]), device),
        words: Tensor::from_data(TensorData::new(words, [count, 1]), device),
    }
}

fn text() {
    let device = Device::flex();
    let tokenizer = Tokenizer::open(&asset("vocab.txt")).unwrap();
    let encoder = AnyTextEncoder::new("bert_scenes", Pooling::Mean, &device).unwrap();
    let encoder = generated::fill(encoder).set_require_grad(true); // the embeddings too, which stay frozen elsewhere
    let head = Head::new(encoder.feature_dim(), tokenizer.vocabulary_size(), &device);
    let mut model = Trained { encoder, head };
    let mut adam = Adam::default();
    let mut log = Log::new(TEXT_STEPS);
    for step in 0..TEXT_STEPS {
        let mut dropout = Seed(SEED).stream("pretrain.dropout", step);
        let graph = model.train();
        let loss = word_loss(&graph, holes(step, &tokenizer, &device), &mut Mode::Train(&mut dropout));
        log.step(step, &loss);
        let gradients = loss.backward();
        model = adam.step(graph, gradients, rate(step, TEXT_STEPS)).valid();
    }
    save_f16(&model.encoder, "bert_scenes");
}

/// `CE` of the words in the holes.
fn word_loss(model: &Trained<AnyTextEncoder>, holes: Holes, mode: &mut Mode) -> Tensor<1> {
    let AnyTextEncoder::Bert(encoder) = &model.encoder else { unreachable!("bert_scenes is a BERT") };
    let embedded = encoder.embed(holes.ids.autodiff(), mode).unwrap();
    let hidden = encoder.positions(embedded, holes.mask.autodiff(), mode).unwrap(); // [n, l, d_l]
    let [n, l, width] = hidden.dims();
    let hidden = hidden.reshape([n * l, width]).select(0, holes.places.autodiff());
    log_softmax(model.head.forward(hidden), 1).gather(1, holes.words.autodiff()).mean().neg()
}

// ---- training ----

/// The learning rate of a step: up in the first twentieth, then down along a cosine.
fn rate(step: u64, steps: u64) -> f32 {
    let (done, warm) = (step as f32 / steps as f32, 0.05);
    let factor =
        if done < warm { done / warm } else { 0.5 + 0.5 * (std::f32::consts::PI * (done - warm) / (1.0 - warm)).cos() };
    LEARNING_RATE * factor
}

/// Adam (Kingma and Ba 2015, <https://arxiv.org/abs/1412.6980>) over the parameters in the order of a walk.
#[derive(Default)]
struct Adam {
    moments: Vec<(Tensor<1>, Tensor<1>)>,
    steps: i32,
}

impl Adam {
    const BETA: (f32, f32) = (0.9, 0.99);
    const EPS: f32 = 1e-8;

    fn step<M: Module>(&mut self, module: M, gradients: Gradients, lr: f32) -> M {
        self.steps += 1;
        module.map(&mut Walk { adam: self, gradients, lr, at: 0 })
    }

    /// What to take off a parameter with this gradient.
    fn change(&mut self, at: usize, gradient: Tensor<1>, lr: f32) -> Tensor<1> {
        if at == self.moments.len() {
            self.moments.push((gradient.zeros_like(), gradient.zeros_like()));
        }
        let (b1, b2) = Self::BETA;
        let (m, v) = self.moments[at].clone();
        let m = m.mul_scalar(b1) + gradient.clone().mul_scalar(1.0 - b1);
        let v = v.mul_scalar(b2) + gradient.powi_scalar(2).mul_scalar(1.0 - b2);
        self.moments[at] = (m.clone(), v.clone());
        let (m, v) = (m.div_scalar(1.0 - b1.powi(self.steps)), v.div_scalar(1.0 - b2.powi(self.steps)));
        (m / v.sqrt().add_scalar(Self::EPS)).mul_scalar(lr)
    }
}

struct Walk<'a> {
    adam: &'a mut Adam,
    gradients: Gradients,
    lr: f32,
    at: usize,
}

impl ModuleMapper for Walk<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(gradient) = param.base().grad_remove(&mut self.gradients) else { return param };
        let at = self.at;
        self.at += 1;
        param.map(|value| {
            let (shape, count) = (value.dims(), value.shape().num_elements());
            let change = self.adam.change(at, gradient.inner().reshape([count]), self.lr);
            (value.inner() - change.reshape(shape)).autodiff().require_grad()
        })
    }
}

/// Prints the loss now and then.
struct Log {
    start: Instant,
    steps: u64,
    sum: f32,
}

impl Log {
    const EVERY: u64 = 100;

    fn new(steps: u64) -> Self {
        Self { start: Instant::now(), steps, sum: 0.0 }
    }

    fn step(&mut self, step: u64, loss: &Tensor<1>) {
        self.sum += loss.clone().into_scalar::<f32>();
        if (step + 1).is_multiple_of(Self::EVERY) {
            let seconds = self.start.elapsed().as_secs_f32();
            eprintln!("{}/{}  loss {:.3}  {seconds:.0} s", step + 1, self.steps, self.sum / Self::EVERY as f32);
            self.sum = 0.0;
        }
    }
}

/// Writes `assets/scenes/NAME.safetensors` with f16 numbers.
fn save_f16<M: Module>(encoder: &M, name: &str) {
    let path = asset(&format!("{name}.safetensors"));
    weights::save(encoder, &path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let halves: Vec<(String, Vec<usize>, Vec<u8>)> = file
        .iter()
        .map(|(key, view)| {
            let floats = view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            (key.to_owned(), view.shape().to_vec(), floats.flat_map(|x| f16::from_f32(x).to_le_bytes()).collect())
        })
        .collect();
    let views = halves
        .iter()
        .map(|(key, shape, data)| (key.clone(), TensorView::new(Dtype::F16, shape.clone(), data).unwrap()));
    let about = [("format".to_owned(), "pt".to_owned())].into();
    std::fs::write(&path, safetensors::serialize(views, Some(about)).unwrap()).unwrap();
    eprintln!("wrote {}", path.display());
}
