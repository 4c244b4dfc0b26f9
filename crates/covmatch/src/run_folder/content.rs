//! What a folder holds, told by its files.

use std::path::Path;

use super::RunFolder;
use crate::config::{Config, Machine, Maker};
use crate::distilled;
use crate::methods::Methods;
use crate::tensor_file::TensorFile;

/// What a folder holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Nothing that this program made.
    Nothing,
    /// Pairs, whole or in the making.
    Pairs(Box<Pairs>),
    /// A `run.toml` that cannot be read.
    Unreadable,
    /// Models that were trained on the whole train split.
    FullTraining,
    /// Experts.
    Experts,
    /// A comparison, with a folder for each of its cells.
    Comparison,
}

/// What is known of the pairs of a folder.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairs {
    /// What makes them.
    pub maker: Maker,
    /// Whether they are whole.
    pub made: bool,
}

impl Content {
    /// What `path` holds.
    pub fn of(path: &Path) -> Self {
        let (folder, has) = (RunFolder::new(path), |name: &str| path.join(name).is_file());
        if folder.config_file().is_file() {
            return match folder.config(&[]) {
                Ok(config) => {
                    let pairs = Pairs { maker: folder.maker(&config), made: folder.is_made() };
                    Content::Pairs(Box::new(pairs))
                }
                Err(_) => Content::Unreadable,
            };
        }
        match () {
            () if has("experts.toml") => Content::Experts,
            () if has("table.json") => Content::Comparison,
            () if has("evaluation.json") || has("results.json") => Content::FullTraining,
            () => Content::Nothing,
        }
    }
}

/// What made the pairs of a folder of version 0.1, which did not write it down: the set's own word, or the method that
/// the configuration names if its learner has begun.
pub(super) fn maker_before_it_was_written(folder: &RunFolder, config: &Config) -> Maker {
    let of_set = TensorFile::read(&folder.path().join(distilled::FILE)).ok();
    let of_set = of_set.and_then(|file| file.about("method").map(str::to_owned).ok());
    let name = of_set.unwrap_or_else(|| config.distill.method.clone());
    let methods = Methods::built_in();
    let method = methods.get(&name).ok();
    Maker {
        title: method.map_or_else(|| name.clone(), |method| method.title.to_owned()),
        learns: method.is_none_or(|method| method.learning().is_some()),
        method: name,
        machine: Machine {
            device: "unknown device".to_owned(),
            threads: 0,
            vector: "unknown vectors".to_owned(),
            precision: None,
        },
    }
}
