//! `covmatch bench step`: how long one step of distillation takes, phase by phase, and how much memory.
//!
//! Encoders have generated weights, every token is attended to. Batches are generated beforehand, so the wait for data is that
//! of handing them out; that of a real run is in its `metrics.jsonl`. The step is [`CovMatch`]'s own, as `covmatch distill`
//! takes it: real forward, synthetic forward and backward, update of the pairs, online InfoNCE step on a batch of its own
//! with dropout on.

use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use covmatch::config::Config;
use covmatch::data::Dataset;
use covmatch::data::library::Library;
use covmatch::data::loader::{Batch, DatasetPictures};
use covmatch::data::tokens::{TokenBatch, Tokenizer};
use covmatch::data::transform::Transform;
use covmatch::encoders::text::{AnyTextEncoder, Pooling};
use covmatch::encoders::weights::generated;
use covmatch::encoders::{image, text};
use covmatch::engine::{peak_memory, precision_name, threads};
use covmatch::experiment::Experiment;
use covmatch::methods::covmatch::{CovMatch, CovMatchScale};
use covmatch::methods::{Learner, RealBatches, StepReport, Synthetic};
use covmatch::model::{AnyVisualEncoder, Inputs, Pretrained, TextLevel};
use covmatch::tables::aligned;
use serde_json::{Value, json};

use crate::args::BenchStepArgs;
use crate::console::progress;
use crate::network::uniform;
use crate::timing::{self, Measured, median, median_seconds};

/// Measures what `args` ask for.
pub fn run(args: &BenchStepArgs) -> anyhow::Result<String> {
    let device = args.engine.open()?;
    progress(&format!("{} + {} ...", args.image_encoder, args.text_encoder));
    let mut learner = learner(args, &device)?;
    let flops = step_flops(args, &device)?;
    let measure = || {
        let (phases, peak) = (phases(&mut learner, args, &device)?, peak_memory());
        anyhow::Ok(StepTiming { args, phases, flops, sgemm: sgemm_flops_per_second(&device)?, peak })
    };
    timing::report(args.report, measure)
}

/// Seconds of the phases of a step.
#[derive(Clone, Copy, Debug, Default)]
struct Phases {
    /// Until the batches are at hand.
    data: f64,
    real: f64,
    /// With SGD on the pairs.
    synthetic: f64,
    /// With SGD on the model.
    online: f64,
}

impl Phases {
    fn of(report: &StepReport) -> Self {
        let of =
            |name: &str| report.seconds.iter().find(|(phase, _)| *phase == name).map_or(0.0, |(_, seconds)| *seconds);
        Self { data: of("data"), real: of("real"), synthetic: of("synthetic"), online: of("online") }
    }

    fn median_of(steps: &[Phases]) -> Self {
        let of = |phase: fn(&Phases) -> f64| median(steps.iter().map(phase).collect());
        Self { data: of(|p| p.data), real: of(|p| p.real), synthetic: of(|p| p.synthetic), online: of(|p| p.online) }
    }

    fn matching(&self) -> f64 {
        self.real + self.synthetic
    }

    fn step(&self) -> f64 {
        self.data + self.matching() + self.online
    }
}

/// CovMatch on generated weights, whose batches are at hand.
fn learner(args: &BenchStepArgs, device: &Device) -> anyhow::Result<CovMatch> {
    let experiment = experiment(args, device)?;
    let width = experiment.pretrained.text_width();
    let inputs = Inputs {
        pixels: uniform("synthetic.pixels", [args.synthetic, 3, 1, args.size, args.size], device),
        text: uniform("synthetic.text", [args.synthetic, args.tokens, width], device),
        mask: Tensor::ones([args.synthetic, args.tokens], device),
        level: TextLevel::Inputs,
    };
    let synthetic = Synthetic { inputs, captions: Vec::new(), velocity: None };
    let batches = ["real", "online"].map(|name| RealBatches::repeated(batch(name, args)));
    Ok(CovMatch::with_batches(experiment, SCALE, synthetic, batches))
}

/// The median seconds of the phases of `args.iterations` steps.
fn phases(learner: &mut CovMatch, args: &BenchStepArgs, device: &Device) -> anyhow::Result<Phases> {
    let mut steps = Vec::new();
    for iteration in 0..args.warmup + args.iterations {
        let report = learner.step()?;
        device.sync()?;
        if iteration >= args.warmup {
            steps.push(Phases::of(&report));
        }
    }
    Ok(Phases::median_of(&steps))
}

/// A batch of generated pixels, whose captions have all their tokens.
fn batch(name: &str, args: &BenchStepArgs) -> Batch {
    let (n, l, shape) = (args.real, args.tokens, [args.real, 3, 1, args.size, args.size]);
    let ids = (0..n * l).map(|at| (at % WORDS) as i64).collect();
    Batch {
        images: vec![0; n],
        captions: vec![0; n],
        shape,
        pixels: generated::uniform(&format!("{name}.pixels"), shape.iter().product()),
        tokens: TokenBatch { rows: n, length: l, ids, mask: vec![1.0; n * l] },
    }
}

/// An experiment with the encoders of `args`; its data is never read.
fn experiment(args: &BenchStepArgs, device: &Device) -> anyhow::Result<Experiment> {
    let toml =
        "[data.scenes]\n[image]\nencoder = ''\nweights = 'generated'\n[text]\nencoder = ''\nweights = 'generated'\n";
    let overrides = [
        format!("image.encoder={}", args.image_encoder),
        format!("text.encoder={}", args.text_encoder),
        format!("image.size={}", args.size),
        format!("head.width={}", args.width),
        format!("distill.pairs={}", args.synthetic),
        format!("distill.real_batch={}", args.real),
        format!("distill.share_real_batch={}", args.share_real_batch),
        format!("distill.steps_per_round={}", u32::MAX), // no step is the last of its round
        format!("online.rates.lr_encoder={RATE}"),
        format!("online.rates.lr_head={RATE}"),
    ];
    let config = Config::parse("bench step", toml, &overrides)?;
    let dataset = Arc::new(Dataset::default());
    let pretrained = Pretrained {
        visual: generated::fill(AnyVisualEncoder::new(&args.image_encoder, device)?),
        text: generated::fill(AnyTextEncoder::new(&args.text_encoder, Pooling::Cls, device)?),
        tokenizer: Arc::new(Tokenizer::from_vocabulary("no vocabulary", b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")?),
        device: device.clone(),
    };
    let transform = Transform::new(args.size, &config.image.normalization()?);
    let pictures = Arc::new(DatasetPictures::new(Arc::clone(&dataset), Library::default()));
    Ok(Experiment { config, dataset, pictures, pretrained, transform, device: device.clone() })
}

/// Words that captions are made of: fewer than any vocabulary has.
const WORDS: usize = 100;

/// A rate so small that nothing diverges.
const RATE: f32 = 1e-9;

/// Weights as in absolute units, and rates so small that nothing diverges.
const SCALE: CovMatchScale = CovMatchScale { cov: 1.0, feat: 0.1, lr_image: RATE, lr_text: RATE };

/// Floating-point operations of the encoders in a step, two for each multiply-add: a backward pass to the input costs as
/// much as the forward pass, one to input and weights twice as much. Heads and losses are left out.
fn step_flops(args: &BenchStepArgs, device: &Device) -> anyhow::Result<f64> {
    let pair = image::macs(&args.image_encoder, args.size, device)?
        + text::macs(&args.text_encoder, args.tokens, Pooling::Cls, device)?;
    let statistics = if args.share_real_batch { 0 } else { args.real };
    let passes = statistics + 2 * args.synthetic + 3 * args.real;
    Ok(2.0 * pair as f64 * passes as f64)
}

/// What this machine reaches on one large matrix product, the better of burn's and ours.
fn sgemm_flops_per_second(device: &Device) -> anyhow::Result<f64> {
    const SIDE: usize = 1536;
    let (a, b) = (uniform("a", [SIDE, SIDE], device), uniform("b", [SIDE, SIDE], device));
    let burn = median_seconds(1, 5, || {
        let product = a.clone().matmul(b.clone());
        device.sync()?;
        Ok(product)
    })?;
    let ours = median_seconds(1, 5, || {
        let product = covmatch_kernels::linear(a.clone(), b.clone(), None);
        device.sync()?;
        Ok(product)
    })?;
    Ok(2.0 * (SIDE as f64).powi(3) / burn.min(ours))
}

/// What was measured.
struct StepTiming<'a> {
    args: &'a BenchStepArgs,
    phases: Phases,
    flops: f64,
    sgemm: f64,
    peak: Option<u64>,
}

impl StepTiming<'_> {
    fn peak_mb(&self) -> Option<f64> {
        self.peak.map(|bytes| bytes as f64 / 1e6)
    }
}

impl Measured for StepTiming<'_> {
    fn json(&self) -> Value {
        let BenchStepArgs { image_encoder, text_encoder, real, synthetic, size, tokens, width, .. } = self.args;
        let rate = self.flops / self.phases.step();
        json!({
            "image_encoder": image_encoder, "text_encoder": text_encoder, "real": real, "synthetic": synthetic,
            "size": size, "tokens": tokens, "width": width, "threads": threads(), "precision": precision_name(),
            "share_real_batch": self.args.share_real_batch,
            "step_s": self.phases.step(), "match_s": self.phases.matching(), "online_s": self.phases.online,
            "real_s": self.phases.real, "synthetic_s": self.phases.synthetic, "data_s": self.phases.data,
            "gflops": rate / 1e9, "sgemm_gflops": self.sgemm / 1e9, "efficiency": rate / self.sgemm,
            "peak_mb": self.peak_mb(),
        })
    }

    fn text(&self) -> String {
        let BenchStepArgs { image_encoder, text_encoder, real, synthetic, size, tokens, .. } = self.args;
        let rate = self.flops / self.phases.step();
        let seconds = |s: f64| format!("{s:.3} s");
        let mut rows = vec![
            vec!["step".to_owned(), seconds(self.phases.step())],
            vec!["  waiting for data".to_owned(), seconds(self.phases.data)],
            vec!["  real batch, forward".to_owned(), seconds(self.phases.real)],
            vec!["  synthetic pairs, forward, backward and SGD".to_owned(), seconds(self.phases.synthetic)],
            vec!["  online step, forward, backward and SGD".to_owned(), seconds(self.phases.online)],
            vec!["encoders' arithmetic".to_owned(), format!("{:.0} GFLOP/s", rate / 1e9)],
            vec!["  of a large matrix product's".to_owned(), format!("{:.0} %", 100.0 * rate / self.sgemm)],
        ];
        rows.extend(self.peak_mb().map(|mb| vec!["peak memory of the process".to_owned(), format!("{mb:.0} MB")]));
        format!(
            "{image_encoder} + {text_encoder}, real {real}, synthetic {synthetic}, {size} px, {tokens} tokens, {} threads, {} \
             (generated weights)\n{}",
            threads(),
            precision_name(),
            aligned(&rows, 1)
        )
    }
}
