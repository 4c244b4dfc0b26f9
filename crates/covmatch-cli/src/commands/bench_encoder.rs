//! `covmatch bench encoder`: how long an encoder takes and how much memory.
//!
//! The network has generated weights and no dropout. A text encoder is its transformer layers: the input is embedded
//! already and every token is attended to. Every phase includes the forward pass; a backward pass starts from a fixed
//! cotangent, `loss = sum(features * cotangent)`.

use anyhow::{Context, ensure};
use burn::module::Module;
use burn::tensor::{Device, Gradients, Tensor};
use covmatch::encoders::{image, macs, video};
use covmatch::engine::{current_memory, peak_memory, precision_name, threads, vector_level};
use covmatch::tables::aligned;
use serde_json::{Map, Value};

use crate::args::{BenchEncoderArgs, Phase};
use crate::console::progress;
use crate::network::{Input, Kind, Network, parameters_with_gradient, uniform};
use crate::timing::{self, Measured, median_seconds};

/// Measures what `args` ask for.
pub fn run(args: &BenchEncoderArgs) -> anyhow::Result<String> {
    let case = Case::of(args)?;
    let device = args.engine.open()?;
    let base = current_memory();
    let network = Network::generated(&args.name, &device)?;
    let input = case.input(&network, &device);
    let bench = Bench { args, network, input, device };
    let flops = bench.forward_flops().with_context(|| format!("cannot run {}", args.name))?;
    let measure = || Ok(EncoderTiming { args, case, times: bench.times()?, flops, base, peak: peak_memory() });
    timing::report(args.report, measure)
}

/// The shape of the input.
#[derive(Clone, Copy)]
enum Case {
    Image { batch: usize, size: usize },
    Video { batch: usize, frames: usize, size: usize },
    Text { batch: usize, tokens: usize },
}

impl Case {
    /// The shape that `args` ask for, with defaults; an option of another kind of encoder is an error.
    fn of(args: &BenchEncoderArgs) -> anyhow::Result<Self> {
        let kind = Kind::of(&args.name)?;
        let reject = |given: Option<usize>, option: &str, of: &str| {
            ensure!(given.is_none(), "{option} is for {of}, and {} takes {}", args.name, kind.input());
            Ok(())
        };
        if kind != Kind::Text {
            reject(args.tokens, "--tokens", "text encoders")?;
        }
        if kind != Kind::Video {
            reject(args.frames, "--frames", "video encoders")?;
        }
        Ok(match kind {
            Kind::Image => {
                let size = args.size.unwrap_or(image::info(&args.name)?.input_size);
                Case::Image { batch: args.batch.unwrap_or(8), size }
            }
            Kind::Video => {
                let info = video::info(&args.name)?;
                let (frames, size) = (args.frames.unwrap_or(info.frames), args.size.unwrap_or(info.input_size));
                Case::Video { batch: args.batch.unwrap_or(2), frames, size }
            }
            Kind::Text => {
                reject(args.size, "--size", "image and video encoders")?;
                Case::Text { batch: args.batch.unwrap_or(16), tokens: args.tokens.unwrap_or(32) }
            }
        })
    }

    fn input(self, network: &Network, device: &Device) -> Input {
        match self {
            Case::Image { batch, size } => Input::pixels(batch, size, device),
            Case::Video { batch, frames, size } => Input::frames(batch, frames, size, device),
            Case::Text { batch, tokens } => Input::embedded(batch, tokens, network.feature_dim(), device),
        }
    }

    /// The shape as fields of the report.
    fn fields(self) -> Vec<(&'static str, usize)> {
        match self {
            Case::Image { batch, size } => vec![("batch", batch), ("size", size)],
            Case::Video { batch, frames, size } => vec![("batch", batch), ("frames", frames), ("size", size)],
            Case::Text { batch, tokens } => vec![("batch", batch), ("tokens", tokens)],
        }
    }
}

/// What is measured.
struct Bench<'a> {
    args: &'a BenchEncoderArgs,
    network: Network,
    input: Input,
    device: Device,
}

impl Bench<'_> {
    /// The median seconds of the phases that are asked for.
    fn times(&self) -> anyhow::Result<Vec<(Phase, f64)>> {
        let mut times = Vec::new();
        for phase in Phase::ALL {
            if self.args.only.is_none_or(|only| only == phase) {
                progress(&format!("{} {} ...", self.args.name, phase.key()));
                times.push((phase, self.seconds(phase)?));
            }
        }
        Ok(times)
    }

    /// The median seconds of `phase`.
    fn seconds(&self, phase: Phase) -> anyhow::Result<f64> {
        match phase {
            Phase::Forward => self.median(|| {
                let features = self.network.features(&self.input)?;
                self.device.sync()?;
                Ok(features)
            }),
            Phase::BackwardInput => {
                let (network, input) = (self.network.clone().train().no_grad(), self.input.clone().tracked());
                let cotangent = self.cotangent();
                self.median(|| {
                    let gradients = self.backward(&network, &input, &cotangent)?;
                    ensure!(input.has_gradient(&gradients), "the input of {} got no gradient", self.args.name);
                    Ok(gradients)
                })
            }
            Phase::BackwardWeights => {
                let (network, input) = (self.network.clone().train(), self.input.clone().autodiff());
                let cotangent = self.cotangent();
                let gradients = self.backward(&network, &input, &cotangent)?;
                let found = parameters_with_gradient(&network, &gradients);
                ensure!(found > 0, "the weights of {} got no gradient", self.args.name);
                drop(gradients);
                self.median(|| self.backward(&network, &input, &cotangent))
            }
        }
    }

    fn median<R>(&self, work: impl FnMut() -> anyhow::Result<R>) -> anyhow::Result<f64> {
        median_seconds(self.args.warmup, self.args.iterations, work)
    }

    /// The gradients of `sum(features * cotangent)`.
    fn backward(&self, network: &Network, input: &Input, cotangent: &Tensor<2>) -> anyhow::Result<Gradients> {
        let features = network.features(input)?; // [n, d]
        let gradients = (features * cotangent.clone()).sum().backward();
        self.device.sync()?;
        Ok(gradients)
    }

    /// Fixed numbers in the shape of the features, in the graph of autodiff but not tracked.
    fn cotangent(&self) -> Tensor<2> {
        uniform("cotangent", [self.input.batch(), self.network.feature_dim()], &self.device).autodiff()
    }

    /// The floating-point operations of a forward pass: two for each multiply-add.
    fn forward_flops(&self) -> anyhow::Result<u64> {
        let (features, multiply_adds) = macs::count(|| self.network.features(&self.input));
        features.map(|_| 2 * multiply_adds)
    }
}

/// What was measured.
struct EncoderTiming<'a> {
    args: &'a BenchEncoderArgs,
    case: Case,
    times: Vec<(Phase, f64)>,
    flops: u64,
    base: Option<u64>,
    peak: Option<u64>,
}

impl EncoderTiming<'_> {
    /// Arithmetic of the forward pass a second, in units of 10^9; `None` if the forward pass was not timed.
    fn gflops(&self) -> Option<f64> {
        let seconds = self.times.iter().find(|(phase, _)| *phase == Phase::Forward)?.1;
        Some(self.flops as f64 / seconds / 1e9)
    }
}

impl Measured for EncoderTiming<'_> {
    fn json(&self) -> Value {
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
        put("name", self.args.name.as_str().into());
        for (key, value) in self.case.fields() {
            put(key, value.into());
        }
        put("device", self.args.engine.device.resolve().to_string().into());
        put("threads", threads().into());
        put("simd", vector_level().into());
        put("precision", precision_name().into());
        for (phase, seconds) in &self.times {
            put(phase.key(), (*seconds).into());
        }
        if let Some(gflops) = self.gflops() {
            put("gflops", gflops.into());
        }
        put("peak_mb", self.peak.map(megabytes).into());
        put("base_mb", self.base.map(megabytes).into());
        Value::Object(object)
    }

    fn text(&self) -> String {
        let shape: Vec<String> = self.case.fields().iter().map(|(key, value)| format!("{key} {value}")).collect();
        let device = self.args.engine.device.resolve();
        let mut rows = Vec::new();
        for (phase, seconds) in &self.times {
            let label = match phase {
                Phase::Forward => "forward",
                Phase::BackwardInput => "forward + backward to the input",
                Phase::BackwardWeights => "forward + backward to the weights",
            };
            rows.push(vec![label.to_owned(), format!("{:.1} ms", seconds * 1e3)]);
        }
        if let Some(gflops) = self.gflops() {
            rows.push(vec!["forward arithmetic".to_owned(), format!("{gflops:.0} GFLOP/s")]);
        }
        if let Some(peak) = self.peak {
            rows.push(vec!["peak memory of the process".to_owned(), format!("{:.0} MB", megabytes(peak))]);
        }
        let place = format!("{device}, {} threads, {}", threads(), vector_level());
        format!("{}, {} ({place}; generated weights)\n{}", self.args.name, shape.join(", "), aligned(&rows, 1))
    }
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
