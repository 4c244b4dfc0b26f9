//! The file of an evaluation: what was measured, with what, and where.
//!
//! ```text
//! { "config": the whole experiment, "differs": [{ field, first, second }], "machine": {..}, "evaluation": {..} }
//! ```
//! It is the same for sets, for cells of a comparison and for training on everything. A set's own protocol is that of its
//! `run.toml`: what was measured by it is `evaluation.json`; anything else lies in `evaluations/`, under a name that
//! says what differs.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::protocol::Evaluation;
use crate::config::{Config, Difference, Machine, TrainConfig, differences};
use crate::engine::fnv1a64;
use crate::files::{self, WriteError};

/// The file of an evaluation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EvaluationFile {
    /// The whole experiment.
    pub config: Config,
    /// Where it differs from the protocol of the folder: the field, its value there and here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differs: Vec<Difference>,
    /// Where it was measured; version 0.1 did not write it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// What was measured.
    pub evaluation: Evaluation,
}

/// The file that version 0.1 wrote for a set by itself.
#[derive(Deserialize)]
struct SetFile {
    config: TrainConfig,
    evaluation: Evaluation,
}

impl EvaluationFile {
    /// The file of a demo with what as many real pairs reach.
    pub const OF_RANDOM: &str = "evaluation-random.json";

    /// The evaluation of the folder `path` by its own protocol; none if it was not evaluated.
    pub fn read(path: &Path) -> Option<Self> {
        Self::read_either(path, "evaluation.json", "results.json")
    }

    /// What as many real pairs as the folder `path` has reach; none if they were not evaluated.
    pub fn read_of_random(path: &Path) -> Option<Self> {
        Self::read_either(path, Self::OF_RANDOM, "results-random.json")
    }

    /// The file `name` of the folder `path` or, in one of version 0.1, `old`.
    fn read_either(path: &Path, name: &str, old: &str) -> Option<Self> {
        let file = |name: &str| fs::read(path.join(name)).ok();
        if let Some(found) = file(name).and_then(|bytes| Self::parse(&bytes)) {
            return Some(found);
        }
        let old = file(old)?;
        Self::parse(&old).or_else(|| {
            let SetFile { config: evaluate, evaluation } = serde_json::from_slice(&old).ok()?;
            let config = Config::read(&path.join("run.toml"), &[]).ok()?;
            Some(Self { config: Config { evaluate, ..config }, differs: Vec::new(), machine: None, evaluation })
        })
    }

    /// All evaluations of the folder `path` by other protocols, with their names, in order.
    pub fn read_others(path: &Path) -> Vec<(String, Self)> {
        let files = fs::read_dir(path.join("evaluations")).into_iter().flatten().flatten().map(|entry| entry.path());
        let named = |file: PathBuf| {
            let name = file.file_name()?.to_string_lossy().strip_suffix(".json")?.to_owned();
            Some((name, Self::parse(&fs::read(file).ok()?)?))
        };
        let mut found: Vec<(String, Self)> = files.filter_map(named).collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut file: Value = serde_json::from_slice(bytes).ok()?;
        let config = Config::from_json(file.get_mut("config")?.take()).ok()?;
        let part = |file: &mut Value, name: &str| file.get_mut(name).map(Value::take).unwrap_or_default();
        Some(Self {
            config,
            differs: serde_json::from_value(part(&mut file, "differs")).unwrap_or_default(),
            machine: serde_json::from_value(part(&mut file, "machine")).ok(),
            evaluation: serde_json::from_value(part(&mut file, "evaluation")).ok()?,
        })
    }

    /// Writes the file to `path`.
    pub fn write(&self, path: &Path) -> Result<(), WriteError> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|cause| WriteError::new(folder, cause))?;
        }
        let text = serde_json::to_string_pretty(self).map_err(|cause| WriteError::new(path, cause.into()))?;
        files::write(path, (text + "\n").as_bytes())
    }
}

/// An evaluation as it is named in its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Where it differs from the folder's protocol.
    pub differs: Vec<Difference>,
    /// The file, without its ending.
    stem: PathBuf,
}

impl Named {
    /// That of `config` in the folder `path` whose own protocol is `own`.
    pub fn of(path: &Path, own: &Config, config: &Config) -> Self {
        let differs = differences(&placeless(own), &placeless(config));
        let stem = match differs.is_empty() {
            true => path.join("evaluation"),
            false => path.join("evaluations").join(name_of(&differs)),
        };
        Self { differs, stem }
    }

    /// The file with what was measured.
    pub fn file(&self) -> PathBuf {
        with_ending(&self.stem, ".json")
    }

    /// The file with the models that are tested, until all are.
    pub fn unfinished(&self) -> PathBuf {
        with_ending(&self.stem, ".unfinished.json")
    }

    /// Whether this is the folder's own protocol.
    pub fn is_own(&self) -> bool {
        self.differs.is_empty()
    }
}

fn with_ending(stem: &Path, ending: &str) -> PathBuf {
    let mut path = stem.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

/// What of `config` decides an evaluation: not where the data and its cache lie, and not how the pairs were made.
fn placeless(config: &Config) -> Config {
    let mut config = config.decisive();
    config.data.annotations.clear();
    config.data.images = None;
    config.data.cache = None;
    config.data.cache_gb = 0.0;
    config
}

/// A name for a file that says what differs: `epochs=5,size=96`.
fn name_of(differs: &[Difference]) -> String {
    let word = |difference: &Difference| {
        let field = difference.field.strip_prefix("evaluate.").unwrap_or(&difference.field);
        format!("{field}={}", difference.second.trim_matches('"'))
    };
    let words: Vec<String> = differs.iter().map(word).collect();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "=,.-_+".contains(c) { c } else { '-' };
    let name: String = words.join(",").chars().map(plain).collect();
    match name.len() <= LONGEST {
        true => name,
        false => format!("{}-{:016x}", &name[..LONGEST], fnv1a64(words.join(",").as_bytes())),
    }
}

/// Characters of a name; a longer one ends in a number instead.
const LONGEST: usize = 100;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::RunRecord;
    use crate::config::small::small;

    fn config(overrides: &[&str]) -> Config {
        Config { run: Some(RunRecord::of_data("a".to_owned())), ..small(overrides) }
    }

    #[test]
    fn what_differs_from_the_protocol_has_a_file_of_its_own() {
        let named = |overrides: &[&str]| Named::of(Path::new("run"), &config(&[]), &config(overrides));
        let own = named(&["data.cache=elsewhere"]);
        assert!(own.is_own());
        assert_eq!(own.file(), Path::new("run/evaluation.json"));
        assert_eq!(own.unfinished(), Path::new("run/evaluation.unfinished.json"));
        let other = named(&["evaluate.epochs=5", "image.weights='/a b/c'"]);
        assert_eq!(other.file(), Path::new("run/evaluations/epochs=5,image.weights=-a-b-c.json"));
        assert_eq!(other.differs.len(), 2);
        let long = named(&[&format!("image.weights={}", "x".repeat(300))]);
        assert!(long.file().file_name().unwrap().len() < 130);
        let mut other_data = config(&[]);
        other_data.run = Some(RunRecord::of_data("b".to_owned()));
        assert!(!Named::of(Path::new("run"), &config(&[]), &other_data).is_own());
    }
}
