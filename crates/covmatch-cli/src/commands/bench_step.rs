//! `covmatch bench step`: how long one step of distillation takes, phase by phase, and how much memory.
//!
//! Encoders have generated weights, every token is attended to. Batches are generated beforehand, so the wait for data is that
//! of handing them out; that of a real run is in its `metrics.jsonl`. The step is that of
//! `covmatch distill`: real forward, synthetic forward and backward, update of the pairs, online InfoNCE step on a batch
//! of its own with dropout on.

use std::time::Instant;

use anyhow::bail;
use burn::tensor::{Device, Tensor};
use covmatch::config::Target;
use covmatch::distill::{Objective, PairRates, RealStatistics, Synthetic, match_pairs};
use covmatch::encoders::projection::{Depth, Projection, ProjectionConfig};
use covmatch::encoders::text::{AnyTextEncoder, Pooling};
use covmatch::encoders::weights::generated;
use covmatch::encoders::{Mode, TextEncoder, image, text};
use covmatch::engine::{Seed, peak_memory, set_threads, threads};
use covmatch::losses::info_nce;
use covmatch::model::{AnyVisualEncoder, Forwarded, Inputs, Model, ModelOptimizer, TextLevel, TrainRates};
use serde_json::{Value, json};

use crate::args::BenchStepArgs;
use crate::console::{progress, table};
use crate::network::uniform;
use crate::timing::{self, Measured, median, median_seconds};

/// Measures what `args` ask for.
pub fn run(args: &BenchStepArgs) -> anyhow::Result<String> {
    set_threads(args.engine.threads)?;
    let device = args.engine.device.open()?;
    progress(&format!("{} + {} ...", args.image_encoder, args.text_encoder));
    let mut bench = Bench::new(args, &device)?;
    let flops = step_flops(args, &device)?;
    let measure = || {
        let (phases, peak) = (bench.phases(args)?, peak_memory());
        anyhow::Ok(Report { args, phases, flops, sgemm: sgemm_flops_per_second(&device)?, peak })
    };
    timing::report(args.report, measure)
}

/// Seconds of the phases of a step.
#[derive(Clone, Copy, Debug, Default)]
struct Phases {
    /// Until the batches are at hand.
    data: f64,
    real: f64,
    synthetic: f64,
    /// SGD on the pairs.
    update: f64,
    /// Forward and backward of the online step.
    online: f64,
    /// SGD on the model.
    descent: f64,
}

impl Phases {
    fn median_of(steps: &[Phases]) -> Self {
        let of = |phase: fn(&Phases) -> f64| median(steps.iter().map(phase).collect());
        Self {
            data: of(|p| p.data),
            real: of(|p| p.real),
            synthetic: of(|p| p.synthetic),
            update: of(|p| p.update),
            online: of(|p| p.online),
            descent: of(|p| p.descent),
        }
    }

    fn matching(&self) -> f64 {
        self.real + self.synthetic + self.update
    }

    fn online_step(&self) -> f64 {
        self.online + self.descent
    }

    fn step(&self) -> f64 {
        self.data + self.matching() + self.online_step()
    }
}

/// A model, its momentum, the pairs and the batches.
struct Bench {
    device: Device,
    /// None only after a step that failed.
    model: Option<Model>,
    optimizer: ModelOptimizer,
    synthetic: Synthetic,
    real: Inputs,
    online: Inputs,
}

impl Bench {
    fn new(args: &BenchStepArgs, device: &Device) -> anyhow::Result<Self> {
        let visual = generated::fill(AnyVisualEncoder::new(&args.image_encoder, device)?);
        let text = generated::fill(AnyTextEncoder::new(&args.text_encoder, Pooling::Cls, device)?);
        let head = |inputs: usize, purpose: &str| {
            let config = ProjectionConfig { inputs, width: args.width, depth: Depth::Two, dropout: 0.1 };
            Projection::new(config, &mut Seed(0).stream(purpose, 0), device)
        };
        let model = Model {
            image_head: Some(head(visual.feature_dim(), "head.image")),
            text_head: head(text.feature_dim(), "head.text"),
            visual,
            text,
        };
        let width = model.text.feature_dim();
        let inputs = |name: &str, n: usize| Inputs {
            pixels: uniform(&format!("{name}.pixels"), [n, 3, 1, args.size, args.size], device),
            text: uniform(&format!("{name}.text"), [n, args.tokens, width], device),
            mask: Tensor::ones([n, args.tokens], device),
            level: TextLevel::Inputs,
        };
        Ok(Self {
            device: device.clone(),
            synthetic: Synthetic { inputs: inputs("synthetic", args.synthetic), captions: Vec::new(), velocity: None },
            real: inputs("real", args.real),
            online: inputs("online", args.real),
            optimizer: ModelOptimizer::default(),
            model: Some(model),
        })
    }

    /// The median seconds of the phases of `args.iterations` steps.
    fn phases(&mut self, args: &BenchStepArgs) -> anyhow::Result<Phases> {
        let mut steps = Vec::new();
        for iteration in 0..args.warmup + args.iterations {
            let phases = match args.share_real_batch {
                true => self.shared_step(iteration as u64)?,
                false => self.step(iteration as u64)?,
            };
            if iteration >= args.warmup {
                steps.push(phases);
            }
        }
        Ok(Phases::median_of(&steps))
    }

    /// One step, as `covmatch distill` takes it.
    fn step(&mut self, number: u64) -> anyhow::Result<Phases> {
        let device = self.device.clone();
        let mut clock = Clock::start(&device);
        // Taken out, so that its weights are updated in place.
        let Some(model) = self.model.take() else { bail!("an earlier step failed") };
        let (real_batch, online_batch) = (self.real.clone(), self.online.clone());
        let data = clock.lap()?;
        let statistics = RealStatistics::new(&model, real_batch)?;
        let real = clock.lap()?;
        let (synthetic, update) = self.match_to(&model, &statistics, &mut clock)?;
        let mut dropout = Seed(0).stream("online.dropout", number);
        let forwarded = model.forward(online_batch, &mut Mode::Train(&mut dropout))?;
        let (online, descent) = self.descend(forwarded, &mut clock)?;
        Ok(Phases { data, real, synthetic, update, online, descent })
    }

    /// One step with `distill.share_real_batch`.
    fn shared_step(&mut self, number: u64) -> anyhow::Result<Phases> {
        let device = self.device.clone();
        let mut clock = Clock::start(&device);
        let Some(model) = self.model.take() else { bail!("an earlier step failed") };
        let batch = self.online.clone();
        let data = clock.lap()?;
        let mut dropout = Seed(0).stream("online.dropout", number);
        let forwarded = model.clone().forward(batch, &mut Mode::Train(&mut dropout))?;
        let statistics = RealStatistics::of(forwarded.features(), forwarded.projected());
        let real = clock.lap()?;
        let (synthetic, update) = self.match_to(&model, &statistics, &mut clock)?;
        drop(model);
        let (online, descent) = self.descend(forwarded, &mut clock)?;
        Ok(Phases { data, real, synthetic, update, online, descent })
    }

    /// Ends the online step. Returns the seconds since the last lap and those of SGD.
    fn descend(&mut self, forwarded: Forwarded, clock: &mut Clock<'_>) -> anyhow::Result<(f64, f64)> {
        let differentiated = forwarded.backward(|z| info_nce(z.image, z.text, TAU));
        let online = clock.lap()?;
        let (model, _) = differentiated.step(RATES.into(), &mut self.optimizer);
        self.model = Some(model);
        Ok((online, clock.lap()?))
    }

    /// Matches the pairs and moves them. Returns the seconds of both.
    fn match_to(
        &mut self,
        model: &Model,
        statistics: &RealStatistics,
        clock: &mut Clock<'_>,
    ) -> anyhow::Result<(f64, f64)> {
        let objective = Objective { rho: 2.0, cov: 1.0, feat: 0.1 };
        let pairs = self.synthetic.inputs.clone();
        let matched = match_pairs(model, statistics, pairs, objective, Target::Both)?;
        let synthetic = clock.lap()?;
        let rates = PairRates { lr_img: 1e-9, lr_txt: 1e-9, momentum: 0.5 };
        self.synthetic = self.synthetic.clone().step(matched.gradients, None, rates);
        Ok((synthetic, clock.lap()?))
    }
}

const TAU: f32 = 0.07;

/// Rates so small that nothing diverges.
const RATES: TrainRates = TrainRates { lr_encoder: 1e-9, lr_head: 1e-9, momentum: 0.9, weight_decay: 5e-4 };

/// Tells the time between laps, when everything asked for is computed.
struct Clock<'a> {
    device: &'a Device,
    last: Instant,
}

impl<'a> Clock<'a> {
    fn start(device: &'a Device) -> Self {
        Self { device, last: Instant::now() }
    }

    /// Seconds since the last lap.
    fn lap(&mut self) -> anyhow::Result<f64> {
        self.device.sync()?;
        let (now, last) = (Instant::now(), self.last);
        self.last = now;
        Ok((now - last).as_secs_f64())
    }
}

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
struct Report<'a> {
    args: &'a BenchStepArgs,
    phases: Phases,
    flops: f64,
    sgemm: f64,
    peak: Option<u64>,
}

impl Report<'_> {
    fn peak_mb(&self) -> Option<f64> {
        self.peak.map(|bytes| bytes as f64 / 1e6)
    }
}

impl Measured for Report<'_> {
    fn json(&self) -> Value {
        let BenchStepArgs { image_encoder, text_encoder, real, synthetic, size, tokens, width, .. } = self.args;
        let rate = self.flops / self.phases.step();
        json!({
            "image_encoder": image_encoder, "text_encoder": text_encoder, "real": real, "synthetic": synthetic,
            "size": size, "tokens": tokens, "width": width, "threads": threads(), "share_real_batch": self.args.share_real_batch,
            "step_s": self.phases.step(), "match_s": self.phases.matching(), "online_s": self.phases.online_step(),
            "real_s": self.phases.real, "synthetic_s": self.phases.synthetic, "update_s": self.phases.update,
            "descent_s": self.phases.descent, "data_s": self.phases.data,
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
            vec!["  synthetic pairs, forward and backward".to_owned(), seconds(self.phases.synthetic)],
            vec!["  SGD on the pairs".to_owned(), seconds(self.phases.update)],
            vec!["  online step, forward and backward".to_owned(), seconds(self.phases.online)],
            vec!["  SGD on the model".to_owned(), seconds(self.phases.descent)],
            vec!["encoders' arithmetic".to_owned(), format!("{:.0} GFLOP/s", rate / 1e9)],
            vec!["  of a large matrix product's".to_owned(), format!("{:.0} %", 100.0 * rate / self.sgemm)],
        ];
        rows.extend(self.peak_mb().map(|mb| vec!["peak memory of the process".to_owned(), format!("{mb:.0} MB")]));
        format!(
            "{image_encoder} + {text_encoder}, real {real}, synthetic {synthetic}, {size} px, {tokens} tokens, {} threads \
             (generated weights)\n{}",
            threads(),
            table(&rows, &[1])
        )
    }
}
