//! The dataset card of a set: what it is, how to load it, how it was made.

use super::{About, DistilledSet, Learned};
use crate::config::Config;
use crate::model::TextLevel;

/// The README of `set`, with a table of results if it was evaluated.
pub fn card(set: &DistilledSet, config: &Config, results: Option<&str>) -> String {
    let DistilledSet { pairs, about, learned } = set;
    let [n, _, frames, height, width] = pairs.pixels.dims();
    let (text_shape, text) = captions(set);
    let learned = learned.as_ref().map_or(String::new(), beside);
    let (name, shape) = match frames {
        1 => ("image", format!("[{n}, 3, {height}, {width}]")),
        _ => ("video", format!("[{n}, 3, {frames}, {height}, {width}]")),
    };
    let About { method, image_encoder, text_encoder, channels, mean, std, step, version, .. } = about;
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
# {n} synthetic image-text pairs

Made by covmatch {version} with the method {method}, {step} steps, {image_encoder} and {text_encoder}. `run.toml` has every
setting, the seed and a fingerprint of the data: `covmatch distill run.toml --out ANOTHER_FOLDER` makes this set again.

## Load it in PyTorch

```python
from safetensors.torch import load_file
pairs = load_file("distilled.safetensors")   # {name} {shape}, {text_shape}
```

- `{name}`: normalised pixels, channels {channels}, `(colour - mean) / std` with mean {mean:?} and std {std:?}.
{text}{learned}- `images/` is a view of the pictures, clipped to colours a screen can show; train on the tensors.
- `metadata.jsonl`: for each pair the real caption it began with, and the train caption nearest to it now.

## Evaluation

{results}
Protocol: {epochs} epochs of SGD (momentum {momentum}, weight decay {decay}), batch {batch}, learning rate {lr_encoder} for
the encoders and {lr_head} for the heads, times {factor} at half of the epochs, InfoNCE with tau {tau}; heads of width {head}.
"#,
        epochs = config.evaluate.epochs,
        momentum = config.evaluate.rates.momentum,
        decay = config.evaluate.rates.weight_decay,
        batch = config.evaluate.batch,
        lr_encoder = config.evaluate.rates.lr_encoder,
        lr_head = config.evaluate.rates.lr_head,
        factor = config.evaluate.decay,
        tau = config.head.tau,
        head = config.head.width,
    )
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
    format!(
        "{similarity}- Learned rates, in the file's metadata: {} for the image side of a model, {} for the text side.\n",
        rates.image, rates.text
    )
}
