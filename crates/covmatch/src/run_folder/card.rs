//! The dataset card of a set: what it is, how to load it, how it was made.

use crate::branches::Branches;
use crate::config::{Config, Maker, TrainConfig};
use crate::distilled::{About, DistilledSet, Learned};
use crate::losses::PairLoss;
use crate::model::TextLevel;

/// How models are trained on a set when it is evaluated: as the configuration says, or as the set itself does.
#[derive(Clone, Debug, PartialEq)]
pub struct Training {
    config: TrainConfig,
    loss: PairLoss,
    /// Learned rates of both sides, in place of those of the configuration.
    rates: Option<Branches<f32>>,
    similarity: bool,
    tau: f32,
    width: usize,
}

impl Training {
    /// The training by `config` on a set with which that was `learned`.
    pub fn of(config: &Config, learned: Option<&Learned>) -> Self {
        let similar = learned.filter(|learned| learned.similarity.is_some());
        Self {
            config: config.evaluate,
            loss: similar.map_or(PairLoss::InfoNce, |learned| learned.loss),
            rates: learned.filter(|_| config.evaluate.learned_rates).and_then(|learned| learned.rates),
            similarity: similar.is_some(),
            tau: config.head.tau,
            width: config.head.width,
        }
    }

    /// Epochs, rates and loss in a sentence.
    fn sentence(&self) -> String {
        let TrainConfig { epochs, batch, rates, decay, train_text_encoder, .. } = self.config;
        let rates_used = match self.rates {
            Some(Branches { image, text }) => {
                format!("the learned rates, {image} for the image side and {text} for the text side")
            }
            None => format!("learning rate {} for the encoders and {} for the heads", rates.lr_encoder, rates.lr_head),
        };
        let loss = match self.loss {
            PairLoss::InfoNce => "InfoNCE",
            PairLoss::Bce => "binary cross-entropy",
            PairLoss::WeightedBce => "weighted binary cross-entropy",
        };
        let target = if self.similarity { " against the learned similarity" } else { "" };
        let frozen = if train_text_encoder { "" } else { "; the text encoder is not trained" };
        format!(
            "Protocol: {epochs} epochs of SGD (momentum {}, weight decay {}), batch {batch}, {rates_used}, times {decay} \
             at half of\nthe epochs; {loss} with tau {}{target}; heads of width {}{frozen}.\n",
            rates.momentum, rates.weight_decay, self.tau, self.width
        )
    }
}

/// The README of `set`, which `maker` made and on which models have that `training`, with a table of results if it was
/// evaluated.
pub fn card(set: &DistilledSet, maker: &Maker, training: &Training, results: Option<&str>) -> String {
    let DistilledSet { pairs, about, learned } = set;
    let [n, _, frames, height, width] = pairs.pixels.dims();
    let (text_shape, text) = captions(set);
    let learned = learned.as_ref().map_or(String::new(), beside);
    let (name, shape) = match frames {
        1 => ("image", format!("[{n}, 3, {height}, {width}]")),
        _ => ("video", format!("[{n}, 3, {frames}, {height}, {width}]")),
    };
    let About { channels, mean, std, .. } = about;
    let (kind, origin, views) = (kind(maker), origin(about, maker), views(maker));
    let results = results.map_or_else(
        || {
            "Not evaluated yet: `covmatch evaluate` on this folder trains fresh models on the pairs and tests them.\n"
                .to_owned()
        },
        |table| {
            format!(
                "Fresh models trained on these pairs alone, tested on the whole test split; percent, mean ± standard \
                 deviation.\n\n{table}"
            )
        },
    );
    format!(
        r#"---
license: other
task_categories: [image-to-text, text-to-image]
tags: [dataset-distillation, image-text-retrieval, covmatch]
---
# {n} {kind} image-text pairs

{origin}
## Load it in PyTorch

```python
from safetensors.torch import load_file
pairs = load_file("distilled.safetensors")   # {name} {shape}, {text_shape}
```

- `{name}`: normalised pixels, channels {channels}, `(colour - mean) / std` with mean {mean:?} and std {std:?}.
{text}{learned}- `images/` is a view of the pictures, clipped to colours a screen can show; train on the tensors.
{views}
## Evaluation

{results}
{protocol}"#,
        protocol = training.sentence(),
    )
}

/// What the pairs are, in a word.
fn kind(maker: &Maker) -> &'static str {
    if maker.learns { "synthetic" } else { "real" }
}

/// How the set came about, and the command that makes it again.
fn origin(about: &About, maker: &Maker) -> String {
    let (About { image_encoder, text_encoder, step, version, .. }, Maker { method, title, machine, .. }) =
        (about, maker);
    let (made, command) = match maker.learns {
        true => (
            format!("Learned by {title} in {step} steps with {image_encoder} and {text_encoder}"),
            "covmatch distill run.toml --out ANOTHER_FOLDER".to_owned(),
        ),
        false => (
            format!("Chosen by {title} from the train split; captions are embedded by {text_encoder}"),
            format!("covmatch select {method} run.toml --out ANOTHER_FOLDER"),
        ),
    };
    format!(
        "{made}, by covmatch {version} ({machine}). `run.toml` has every setting, the seed and a fingerprint of the data:\n\
         `{command}` makes this set again, to the same bytes where device, threads\nand vector instructions are the same.\n"
    )
}

/// What the captions' file says.
fn views(maker: &Maker) -> &'static str {
    match maker.learns {
        true => {
            "- `metadata.jsonl`: for each pair the real caption it began with, and the train caption nearest to it.\n"
        }
        false => "- `metadata.jsonl`: the caption of each pair, and the train caption nearest to it.\n",
    }
}

/// The shapes of the captions' tensors, and what they are.
fn captions(set: &DistilledSet) -> (String, String) {
    let [n, tokens, d_l] = set.pairs.text.dims();
    let About { text_encoder, pooling, .. } = &set.about;
    match set.pairs.level {
        TextLevel::Inputs => (
            format!("text [{n}, {tokens}, {d_l}], mask [{n}, {tokens}]"),
            format!(
                "- `text`: what the transformer layers of {text_encoder} take, the output of its embedding module; `mask` is 1 on \
                 tokens\n  and 0 on padding. The caption's feature is the `{pooling}` pooling of the last layer.\n"
            ),
        ),
        TextLevel::Features => (
            format!("text [{n}, {d_l}]"),
            format!(
                "- `text`: sentence features as {text_encoder} gives them (`{pooling}` pooling of its last layer); they go to the \
                 head.\n"
            ),
        ),
    }
}

/// What was learned beside the pairs.
fn beside(learned: &Learned) -> String {
    let Learned { similarity, rates, .. } = learned;
    let similarity = match similarity {
        Some(_) => "- `similarity` [N, N]: how similar each picture and caption are, the target of the loss.\n",
        None => "",
    };
    let rates = rates.map_or(String::new(), |Branches { image, text }| {
        format!(
            "- Learned rates, in the file's metadata: {image} for the image side of a model, {text} for the text side.\n"
        )
    });
    format!("{similarity}{rates}")
}
