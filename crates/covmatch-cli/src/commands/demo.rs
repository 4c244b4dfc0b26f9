//! `covmatch demo`: the parts that exist, end to end, without a download.
//!
//! Generated pictures and captions run through both encoders and their projection heads, and back to the pixels and
//! the embedded captions, which is the path that distillation takes:
//!
//! ```text
//! pixels            -> image encoder -> head -> z_v \
//!                                                    mean over pairs of z_v . z_l  ->  gradients
//! tokens -> embed   -> text encoder  -> head -> z_l /
//! ```
//! once on the CPU kernels and once on burn's own operations. The two must agree.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, ensure};
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use covmatch::encoders::image::AnyImageEncoder;
use covmatch::encoders::projection::{Projection, ProjectionConfig};
use covmatch::encoders::text::{AnyTextEncoder, Pooling};
use covmatch::encoders::weights::generated;
use covmatch::encoders::{ImageEncoder, Mode, TextEncoder};
use covmatch::engine::{Seed, set_threads, threads};
use covmatch_kernels::plain_ops;
use serde_json::json;

use crate::args::DemoArgs;
use crate::console::{progress, table};
use crate::network::uniform;

/// The largest difference between the kernels and burn's operations, relative to the largest value, that passes.
const FEATURES_AGREE: f32 = 1e-4;
const GRADIENTS_AGREE: f32 = 1e-3;

const TO_COME: &str = "\
Works today: image, video and text encoders and projection heads on fast CPU kernels, checked against PyTorch.
Still to come: distillation, evaluation and the report. This demo will grow with them.
";

/// Runs the demo; fails if the kernels and burn's operations disagree.
pub fn run(args: &DemoArgs) -> anyhow::Result<String> {
    set_threads(args.threads)?;
    let sizes = if args.smoke { SMOKE } else { FULL };
    progress(&format!("generating {} and {} ...", sizes.image_encoder, sizes.text_encoder));
    let pair = Pair::generated(sizes)?;
    let batch = Batch::generated(sizes);
    progress("running on the CPU kernels ...");
    let (ours, ours_seconds) = timed(|| pair.run(&batch))?;
    progress("running on burn's own operations ...");
    let (plain, plain_seconds) = timed(|| plain_ops(|| pair.run(&batch)))?;
    let comparison = Comparison { sizes, rows: compare(ours, plain)?, ours_seconds, plain_seconds };
    if let Some(dir) = &args.out {
        comparison.write(dir)?;
    }
    comparison.check()?;
    Ok(comparison.text())
}

/// How large the demo is.
#[derive(Clone, Copy)]
struct Sizes {
    image_encoder: &'static str,
    text_encoder: &'static str,
    pairs: usize,
    pixels: usize,
    tokens: usize,
    width: usize,
}

const SMOKE: Sizes = Sizes {
    image_encoder: "efficientnet_lite0",
    text_encoder: "minilm-l3",
    pairs: 4,
    pixels: 64,
    tokens: 12,
    width: 256,
};

/// The paper's encoders and width, on few and small pictures.
const FULL: Sizes = Sizes {
    image_encoder: "nfnet_l0",
    text_encoder: "bert-base-uncased",
    pairs: 8,
    pixels: 128,
    tokens: 24,
    width: 2304,
};

/// Generated pictures and captions.
struct Batch {
    pixels: Tensor<4>,      // [n, 3, h, w], tracked
    tokens: Tensor<2, Int>, // [n, l]
    mask: Tensor<2>,        // [n, l]
}

impl Batch {
    fn generated(sizes: Sizes) -> Self {
        let Sizes { pairs, pixels, tokens, .. } = sizes;
        let device = Device::flex().autodiff();
        let words = Seed(1).stream("demo captions", 0);
        // Any ids do: the text encoders' vocabulary has 30,522.
        let ids = words_below(30_000, pairs * tokens, words);
        Self {
            pixels: uniform("input", [pairs, 3, pixels, pixels], &device).require_grad(),
            tokens: Tensor::from_data(TensorData::new(ids, [pairs, tokens]), &device),
            mask: Tensor::ones([pairs, tokens], &device),
        }
    }
}

/// `count` numbers below `limit`.
fn words_below(limit: u64, count: usize, mut stream: covmatch::engine::Stream) -> Vec<i64> {
    (0..count).map(|_| (stream.next_u64() % limit) as i64).collect()
}

/// Both encoders with their heads, frozen.
struct Pair {
    image: AnyImageEncoder,
    text: AnyTextEncoder,
    image_head: Projection,
    text_head: Projection,
}

impl Pair {
    fn generated(sizes: Sizes) -> anyhow::Result<Self> {
        let device = Device::flex().autodiff();
        let image = AnyImageEncoder::new(sizes.image_encoder, &device)?;
        let text = AnyTextEncoder::new(sizes.text_encoder, Pooling::Cls, &device)?;
        let head = |inputs: usize, purpose: &str| {
            let config = ProjectionConfig { width: sizes.width, ..ProjectionConfig::paper(inputs) };
            Projection::new(config, &mut Seed(1).stream(purpose, 0), &device).no_grad()
        };
        let (image_head, text_head) = (head(image.feature_dim(), "image head"), head(text.feature_dim(), "text head"));
        let (image, text) = (generated::fill(image).no_grad(), generated::fill(text).no_grad());
        Ok(Self { image, text, image_head, text_head })
    }

    /// The whole path, forwards and back.
    fn run(&self, batch: &Batch) -> anyhow::Result<Outcome> {
        let eval = &mut Mode::Eval;
        let embedded = self.text.embed(batch.tokens.clone(), eval)?.detach().require_grad(); // [n, l, d_l]
        let image_features = self.image.encode(batch.pixels.clone(), eval)?; // [n, d_v]
        let text_features = self.text.encode(embedded.clone(), batch.mask.clone(), eval)?; // [n, d_l]
        let z_v = self.image_head.forward(image_features.clone(), eval)?; // [n, z]
        let z_l = self.text_head.forward(text_features.clone(), eval)?; // [n, z]
        let gradients = (z_v.clone() * z_l.clone()).sum_dim(1).mean().backward();
        let pixels = batch.pixels.grad(&gradients).context("the pixels got no gradient")?;
        let captions = embedded.grad(&gradients).context("the embedded captions got no gradient")?;
        Ok(Outcome {
            values: vec![
                value("image features", image_features)?,
                value("text features", text_features)?,
                value("projected image features", z_v)?,
                value("projected text features", z_l)?,
            ],
            gradients: vec![
                value("gradient to the pixels", pixels)?,
                value("gradient to the embedded captions", captions)?,
            ],
        })
    }
}

/// What a run computed.
struct Outcome {
    values: Vec<Value>,
    gradients: Vec<Value>,
}

struct Value {
    name: &'static str,
    shape: Vec<usize>,
    numbers: Vec<f32>,
}

fn value<const D: usize>(name: &'static str, tensor: Tensor<D>) -> anyhow::Result<Value> {
    let shape = tensor.dims().to_vec();
    let numbers =
        tensor.try_into_vec_as::<f32>().map_err(|error| anyhow::anyhow!("cannot read the {name}: {error}"))?;
    Ok(Value { name, shape, numbers })
}

fn timed<R>(work: impl Fn() -> anyhow::Result<R>) -> anyhow::Result<(R, f64)> {
    work()?; // the first run pays for starting threads and for touching memory
    let start = Instant::now();
    let result = work()?;
    Ok((result, start.elapsed().as_secs_f64()))
}

/// One quantity, computed both ways.
struct Row {
    name: &'static str,
    shape: Vec<usize>,
    difference: f32,
    allowed: f32,
}

fn compare(ours: Outcome, plain: Outcome) -> anyhow::Result<Vec<Row>> {
    let values = ours.values.into_iter().zip(plain.values).map(|pair| (pair, FEATURES_AGREE));
    let gradients = ours.gradients.into_iter().zip(plain.gradients).map(|pair| (pair, GRADIENTS_AGREE));
    let row = |((ours, plain), allowed): ((Value, Value), f32)| {
        let difference = relative_difference(&ours.numbers, &plain.numbers);
        Row { name: ours.name, shape: ours.shape, difference, allowed }
    };
    Ok(values.chain(gradients).map(row).collect())
}

/// `max |a - b| / max |b|`; infinite if the values are not finite or not as many, or if `b` is all zero.
fn relative_difference(a: &[f32], b: &[f32]) -> f32 {
    let finite = a.iter().chain(b).all(|x| x.is_finite());
    let scale = b.iter().fold(0.0f32, |m, x| m.max(x.abs()));
    if !finite || a.len() != b.len() || scale == 0.0 {
        return f32::INFINITY;
    }
    a.iter().zip(b).fold(0.0f32, |m, (x, y)| m.max((x - y).abs())) / scale
}

/// Both runs side by side.
struct Comparison {
    sizes: Sizes,
    rows: Vec<Row>,
    ours_seconds: f64,
    plain_seconds: f64,
}

impl Comparison {
    fn check(&self) -> anyhow::Result<()> {
        for row in &self.rows {
            ensure!(
                row.difference <= row.allowed,
                "the CPU kernels and burn's operations disagree on the {}: relative difference {:.1e}, at most {:.0e} \
                 is rounding. This is a bug: please report it with the output of `covmatch bench encoder {} --json`",
                row.name,
                row.difference,
                row.allowed,
                self.sizes.image_encoder
            );
        }
        Ok(())
    }

    fn text(&self) -> String {
        let Sizes { image_encoder, text_encoder, pairs, pixels, tokens, width } = self.sizes;
        let header = ["", "shape", "difference"].map(str::to_owned).to_vec();
        let line = |row: &Row| vec![row.name.to_owned(), format!("{:?}", row.shape), format!("{:.1e}", row.difference)];
        let lines: Vec<_> = std::iter::once(header).chain(self.rows.iter().map(line)).collect();
        format!(
            "{pairs} generated pairs ({pixels} px, {tokens} tokens) through {image_encoder}, {text_encoder} and heads of \
             width {width}, and back\n\nCPU kernels against burn's own operations, largest difference relative to the \
             largest value:\n{}\nTime of the whole path on {} threads: CPU kernels {:.0} ms, burn's own operations \
             {:.0} ms\n\n{TO_COME}",
            table(&lines, &[2]),
            threads(),
            self.ours_seconds * 1e3,
            self.plain_seconds * 1e3,
        )
    }

    /// Writes the numbers to `demo.json` in `dir`.
    fn write(&self, dir: &Path) -> anyhow::Result<()> {
        let rows: Vec<_> = self
            .rows
            .iter()
            .map(|row| json!({ "name": row.name, "shape": row.shape, "relative_difference": row.difference }))
            .collect();
        let report = json!({
            "image_encoder": self.sizes.image_encoder,
            "text_encoder": self.sizes.text_encoder,
            "comparison": rows,
            "kernels_seconds": self.ours_seconds,
            "burn_seconds": self.plain_seconds,
            "threads": threads(),
        });
        let path = dir.join("demo.json");
        std::fs::create_dir_all(dir).with_context(|| format!("cannot create the folder {}", dir.display()))?;
        let partial = dir.join("demo.json.partial");
        std::fs::write(&partial, format!("{report:#}\n"))
            .and_then(|()| std::fs::rename(&partial, &path))
            .with_context(|| format!("cannot write {}", path.display()))?;
        progress(&format!("wrote {}", path.display()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_is_relative_to_the_largest_reference_value() {
        assert_eq!(relative_difference(&[1.0, -3.5], &[1.0, -4.0]), 0.125);
        assert_eq!(relative_difference(&[2.0], &[2.0]), 0.0);
    }

    #[test]
    fn values_that_cannot_agree_are_infinitely_apart() {
        for (a, b) in
            [(&[f32::NAN][..], &[1.0][..]), (&[1.0], &[f32::INFINITY]), (&[1.0], &[1.0, 2.0]), (&[0.0], &[0.0])]
        {
            assert_eq!(relative_difference(a, b), f32::INFINITY);
        }
    }
}
