//! An experiment as a file: data, encoders, heads, distillation, evaluation.
//!
//! Every quantity of the paper is a field, and a field that is left out has the paper's value. Paths are relative to the
//! working directory. [`Config::read`] takes a TOML file and overrides of the form `distill.pairs=200`.

mod compare;
mod data;
mod distill;
mod error;
mod sections;
mod select;
mod trajectory;

pub(crate) use compare::FULL;
pub use compare::{CompareConfig, Method};
pub use data::DataConfig;
pub use distill::{DistillConfig, Init, MethodName, OnlineConfig, OnlineUpdate, Target, Units};
pub use error::ConfigError;
pub use sections::{Colours, HeadConfig, ImageConfig, PoolingName, TextConfig, TrainConfig};
pub use select::SelectConfig;
pub use trajectory::{ExpertsConfig, TrajectoryConfig, Unroll};

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::engine::Seed;

/// The file of a run with its configuration, which is written first.
pub const RUN_FILE: &str = "run.toml";

/// A whole experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Decides everything that is random.
    #[serde(default)]
    pub seed: u64,
    /// What to distil.
    pub data: DataConfig,
    /// The image or video encoder.
    pub image: ImageConfig,
    /// The text encoder.
    pub text: TextConfig,
    /// The projection heads and the similarity.
    #[serde(default)]
    pub head: HeadConfig,
    /// How the synthetic pairs are learned.
    #[serde(default)]
    pub distill: DistillConfig,
    /// How the model that they are matched on is trained between steps.
    #[serde(default)]
    pub online: OnlineConfig,
    /// The trajectories that MTT-VL and LoRS follow.
    #[serde(default)]
    pub experts: ExpertsConfig,
    /// How MTT-VL and LoRS follow them.
    #[serde(default)]
    pub trajectory: TrajectoryConfig,
    /// How a model is trained on the pairs to evaluate them.
    #[serde(default = "TrainConfig::on_pairs")]
    pub evaluate: TrainConfig,
    /// How a model is trained on all data, as the upper bound.
    #[serde(default = "TrainConfig::on_everything")]
    pub train: TrainConfig,
    /// How real pairs are chosen.
    #[serde(default)]
    pub select: SelectConfig,
    /// What is compared; a run of one method has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compare: Option<CompareConfig>,
    /// What a run writes down about itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunInfo>,
}

/// What a run writes down about itself, in `run.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunInfo {
    /// Version of covmatch that began it.
    pub version: String,
    /// Fingerprint of the dataset.
    pub data_fingerprint: String,
}

impl Config {
    /// The experiment of the run in `folder`, with each of `overrides` set.
    pub fn of_run(folder: &Path, overrides: &[String]) -> Result<Self, ConfigError> {
        let path = folder.join(RUN_FILE);
        if !path.is_file() {
            return Err(ConfigError::NoRun { path: folder.display().to_string() });
        }
        Self::read(&path, overrides)
    }

    /// The experiment of the file at `path`, with each of `overrides` (`key=value`, dots between sections) set.
    pub fn read(path: &Path, overrides: &[String]) -> Result<Self, ConfigError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|cause| ConfigError::Read { path: name.clone(), cause })?;
        Self::parse(&name, &text, overrides)
    }

    /// The experiment of a TOML document; `name` is what errors call it.
    pub fn parse(name: &str, text: &str, overrides: &[String]) -> Result<Self, ConfigError> {
        let invalid = |cause: &dyn std::fmt::Display| ConfigError::Invalid {
            path: name.to_owned(),
            cause: cause.to_string().trim_end().to_owned(),
        };
        let config = if overrides.is_empty() {
            // Parsed from the text, so that an error shows its line.
            toml::from_str::<Config>(text).map_err(|cause| invalid(&cause))?
        } else {
            let mut table: toml::Table = text.parse().map_err(|cause| invalid(&cause))?;
            for pair in overrides {
                set(&mut table, pair)?;
            }
            table.try_into::<Config>().map_err(|cause| invalid(&cause))?
        };
        config.checked(name)
    }

    /// The same experiment with each of `overrides` set; `name` is what errors call it.
    pub fn with(&self, name: &str, overrides: &[String]) -> Result<Self, ConfigError> {
        match overrides {
            [] => Ok(self.clone()),
            overrides => Self::parse(name, &self.to_toml()?, overrides),
        }
    }

    /// The TOML document of this experiment, every field written out.
    pub fn to_toml(&self) -> Result<String, ConfigError> {
        toml::to_string(self).map_err(|cause| ConfigError::Write { cause: cause.to_string() })
    }

    /// The same without the version of the program that began the run: another version may go on with it.
    pub fn without_version(&self) -> Self {
        let run = self.run.clone().map(|run| RunInfo { version: String::new(), ..run });
        Self { run, ..self.clone() }
    }

    /// The seed of all random streams.
    pub fn seed(&self) -> Seed {
        Seed(self.seed)
    }

    /// Whether CovMatch takes its statistics from the batch that the model is trained on.
    pub(crate) fn shares_real_batch(&self) -> bool {
        self.distill.share_real_batch && self.online.update == OnlineUpdate::Real
    }

    /// Real pairs that the model is trained on in a step of CovMatch.
    pub(crate) fn online_batch(&self) -> usize {
        self.online.batch.unwrap_or(self.distill.real_batch)
    }

    fn shared_batch_problem(&self) -> Option<String> {
        let apart = self.shares_real_batch() && self.online.batch.is_some();
        apart.then(|| "distill.share_real_batch takes one batch for both: leave online.batch out".to_owned())
    }

    /// The same experiment, if every value can be used; `name` is what errors call it.
    pub fn checked(self, name: &str) -> Result<Self, ConfigError> {
        let problems = [
            self.data.problem(),
            self.image.problem(),
            self.head.problem(&self.image.encoder),
            self.distill.problem(),
            self.online.problem(),
            self.shared_batch_problem(),
            self.experts.problem(),
            self.trajectory.problem(&self.experts),
            self.evaluate.problem("evaluate"),
            self.train.problem("train"),
            self.select.problem(),
            self.compare.as_ref().and_then(CompareConfig::problem),
        ];
        match problems.into_iter().flatten().next() {
            Some(cause) => Err(ConfigError::Invalid { path: name.to_owned(), cause }),
            None => Ok(self),
        }
    }
}

/// Sets one `key=value` in `table`.
fn set(table: &mut toml::Table, pair: &str) -> Result<(), ConfigError> {
    let wrong = |cause: String| ConfigError::Override { pair: pair.to_owned(), cause };
    let (key, value) = pair.split_once('=').ok_or_else(|| wrong("it has no '='".to_owned()))?;
    let (key, value) = (key.trim(), value.trim());
    let mut names = key.split('.').collect::<Vec<_>>();
    let last = names.pop().filter(|last| !last.is_empty()).ok_or_else(|| wrong("it names no field".to_owned()))?;
    let mut section = table;
    for name in names {
        let entry = section.entry(name).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        section = entry.as_table_mut().ok_or_else(|| wrong(format!("'{name}' is a value, not a section")))?;
    }
    section.insert(last.to_owned(), value_of(value));
    Ok(())
}

/// A TOML value, or the text itself where quotes were left out.
fn value_of(text: &str) -> toml::Value {
    let document = format!("value = {text}").parse::<toml::Table>();
    let value = document.ok().and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| toml::Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    const SMALL: &str = r#"
        [data]
        annotations = "pairs.csv"
        [image]
        encoder = "nfnet_l0"
        weights = "nfnet.safetensors"
        [text]
        encoder = "bert-base-uncased"
        weights = "bert"
    "#;

    fn parse(overrides: &[&str]) -> Result<Config, ConfigError> {
        let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
        Config::parse("small.toml", SMALL, &overrides)
    }

    #[test]
    fn what_is_left_out_has_the_paper_s_value() {
        let config = parse(&[]).unwrap();
        let DistillConfig { real_batch, momentum, rounds, steps_per_round, .. } = config.distill;
        assert_eq!((real_batch, momentum, rounds, steps_per_round), (128, 0.5, 200, 50));
        assert_eq!((config.head.width, config.head.depth, config.head.tau), (2304, 2, 0.07));
        assert_eq!((config.evaluate.epochs, config.evaluate.batch, config.evaluate.runs), (100, 128, 5));
        assert_eq!((config.online.rates.lr_encoder, config.online.rates.lr_head), (0.01, 0.1));
    }

    #[test]
    fn every_preset_is_an_experiment() {
        let presets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../presets");
        let files: Vec<_> = std::fs::read_dir(presets).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.len() > 10);
        for file in files {
            Config::read(&file, &[]).unwrap_or_else(|error| panic!("{error}"));
        }
    }

    #[test]
    fn an_override_sets_a_field_and_leaves_the_others() {
        let config =
            parse(&["distill.pairs=200", "seed = 7", "text.pooling=mean", "online.rates.lr_head=0.5"]).unwrap();
        assert_eq!((config.distill.pairs, config.seed), (200, 7));
        assert_eq!(config.text.pooling, PoolingName::Mean);
        assert_eq!(config.online.rates.lr_head, 0.5);
        assert_eq!(config.distill.rounds, parse(&[]).unwrap().distill.rounds);
    }

    #[test]
    fn mistakes_are_named() {
        let cases: [(&[&str], &str); 17] = [
            (&["distill.pair=200"], "pair"),
            (&["distill.pairs"], "no '='"),
            (&["seed.x=1"], "'seed' is a value"),
            (&["distill.pairs=1"], "distill.pairs"),
            (&["distill.momentum=1.5"], "distill.momentum"),
            (&["online.batch=1"], "online.batch"),
            (&["online.batch=8", "distill.share_real_batch=true"], "leave online.batch out"),
            (&["head.depth=4"], "head.depth"),
            (&["evaluate.runs=0"], "evaluate.runs"),
            (&["distill.units=metres"], "metres"),
            (&["select.batch=1"], "select.batch"),
            (&["select.rates.momentum=2"], "select.rates.momentum"),
            (&["compare.methods=[\"randon\"]"], "k-center"),
            (&["compare.pairs=[100, 1]"], "compare.pairs"),
            (&["compare.pairs=[100, 100]"], "100 twice"),
            (&["compare.set.lorz-5=[]"], "'lorz-5'"),
            (&["compare.methods=[]", "compare.full=false"], "compare.methods"),
        ];
        for (overrides, word) in cases {
            let overrides = [&["seed=1"], overrides].concat();
            let error = parse(&overrides).unwrap_err().to_string();
            assert!(error.contains(word), "{overrides:?}: {error}");
        }
    }

    #[test]
    fn a_mistake_in_the_file_shows_its_line() {
        let error = Config::parse("bad.toml", &SMALL.replace("[text]", "wieghts = 3\n[text]"), &[]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("bad.toml") && text.contains("wieghts") && text.contains("line 7"), "{text}");
    }

    #[test]
    fn writing_and_reading_give_the_same_experiment() {
        let config = parse(&["distill.synthetic_batch=64", "distill.units=absolute", "data.cache=c"]).unwrap();
        assert_eq!(Config::parse("again", &config.to_toml().unwrap(), &[]).unwrap(), config);
    }
}
