//! `covmatch encoders`: the networks there are.

use burn::tensor::Device;
use covmatch::encoders::weights::keys;
use covmatch::encoders::{image, video};
use covmatch::tables::aligned;
use serde_json::json;

use crate::args::EncodersArgs;
use crate::console::grouped;
use crate::network::{Kind, Network, all_names};

/// One line of the list.
struct Row {
    name: &'static str,
    kind: Kind,
    feature_dim: usize,
    parameters: usize,
    size: Option<usize>,
}

/// Lists every encoder, as a table or as JSON.
pub fn run(args: &EncodersArgs) -> anyhow::Result<String> {
    let rows = all_names().map(|(kind, name)| row(kind, name)).collect::<anyhow::Result<Vec<_>>>()?;
    if args.json {
        let list: Vec<_> = rows.iter().map(as_json).collect();
        return Ok(format!("{}\n", serde_json::to_string_pretty(&list)?));
    }
    let header = ["name", "kind", "features", "parameters", "pixels"].map(str::to_owned).to_vec();
    let lines: Vec<Vec<String>> = std::iter::once(header).chain(rows.iter().map(as_cells)).collect();
    Ok(aligned(&lines, 2))
}

fn row(kind: Kind, name: &'static str) -> anyhow::Result<Row> {
    let network = Network::new(name, &Device::flex())?;
    let size = match kind {
        Kind::Image => Some(image::info(name)?.input_size),
        Kind::Video => Some(video::info(name)?.input_size),
        Kind::Text => None,
    };
    Ok(Row { name, kind, feature_dim: network.feature_dim(), parameters: parameters(&network), size })
}

/// The number of parameters as upstream counts them: without the running statistics of batch norms.
fn parameters(network: &Network) -> usize {
    let keys = match network {
        Network::Image(encoder) => keys(encoder),
        Network::Video(encoder) => keys(encoder),
        Network::Text(encoder) => keys(encoder),
    };
    let trained = keys.iter().filter(|k| !k.key.ends_with("running_mean") && !k.key.ends_with("running_var"));
    trained.map(|k| k.shape.iter().product::<usize>()).sum()
}

fn as_json(row: &Row) -> serde_json::Value {
    json!({
        "name": row.name,
        "kind": row.kind.word(),
        "feature_dim": row.feature_dim,
        "parameters": row.parameters,
        "size": row.size,
    })
}

fn as_cells(row: &Row) -> Vec<String> {
    vec![
        row.name.to_owned(),
        row.kind.word().to_owned(),
        row.feature_dim.to_string(),
        grouped(row.parameters),
        row.size.map_or_else(String::new, |size| size.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// `sum(p.numel() for p in model.parameters())` of timm 1.0.30 (`num_classes=0`), torchvision (without the
    /// classifier) and transformers (without the pooler); then our own small ones.
    const UPSTREAM: [(&str, usize); 19] = [
        ("nfnet_l0", 32_769_488),
        ("nf_resnet50", 23_508_032),
        ("nf_regnet_b1", 9_262_984),
        ("vit_base_patch16_224", 85_798_656),
        ("vit_tiny_patch16_224", 5_524_416),
        ("efficientnet_lite0", 3_371_008),
        ("efficientnet_lite1", 4_135_680),
        ("efficientnet_lite2", 4_811_072),
        ("mobilenetv2_100", 2_223_872),
        ("resnet18", 11_176_512),
        ("squeezenet1_1", 722_496),
        ("nfnet_scenes", 479_000),
        ("r3d_18", 33_166_272),
        ("bert-base-uncased", 108_891_648),
        ("distilbert-base-uncased", 66_362_880),
        ("distilbert-cased-grammar", 65_190_912),
        ("minilm-l6", 22_565_376),
        ("minilm-l3", 17_241_984),
        ("bert_scenes", 442_624),
    ];

    #[test]
    fn parameters_are_counted_as_upstream_counts_them() {
        let ours: Vec<_> = all_names().map(|(kind, name)| (name, row(kind, name).unwrap().parameters)).collect();
        assert_eq!(ours, UPSTREAM);
    }
}
