//! An experiment as a file: data, encoders, heads, distillation, evaluation.
//!
//! Every quantity of the paper is a field, and a field that is left out has the paper's value. Paths are relative to the
//! working directory. [`Config::read`] takes a TOML file and overrides of the form `distill.pairs=200`.

mod compare;
mod data;
mod differ;
mod distill;
mod document;
mod error;
mod record;
mod sections;
mod select;
mod trajectory;
mod waymatch;

pub use compare::CompareConfig;
pub(crate) use compare::FULL;
pub use data::DataConfig;
pub use differ::{Difference, differences};
pub use distill::{DistillConfig, Init, Learn, OnlineConfig, OnlineUpdate, Units};
pub use document::old_names;
pub use error::ConfigError;
pub use record::{Machine, Maker, RunRecord};
pub use sections::{Colours, HeadConfig, ImageConfig, PoolingName, TextConfig, TrainConfig};
pub use select::SelectConfig;
pub use trajectory::{ExpertsConfig, TrajectoryConfig, Unroll};
pub use waymatch::WayMatchConfig;

use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::engine::Seed;

/// A whole experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// The teachers of WayMatch, and what it asks of the pairs.
    #[serde(default)]
    pub waymatch: WayMatchConfig,
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
    pub run: Option<RunRecord>,
    /// Sections of methods that are not part of this library; a method reads its own by [`Config::section`].
    #[serde(flatten)]
    pub own: toml::Table,
}

impl Config {
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
        let mut table: toml::Table = text.parse().map_err(|cause| invalid(&cause))?;
        let outdated = document::rename(&mut table);
        for pair in overrides {
            document::set(&mut table, pair)?;
        }
        let config = match overrides.is_empty() && !outdated {
            // Parsed from the text, so that an error shows its line.
            true => toml::from_str::<Config>(text).map_err(|cause| invalid(&cause))?,
            false => table.try_into::<Config>().map_err(|cause| invalid(&cause))?,
        };
        config.checked(name)
    }

    /// The experiment that a file of JSON holds, under the field names of any version.
    pub fn from_json(mut value: serde_json::Value) -> Result<Self, serde_json::Error> {
        document::rename_in_json(&mut value);
        serde_json::from_value(value)
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

    /// What decides the results: all but the program, the machine and the comparison that an experiment belongs to.
    pub fn decisive(&self) -> Self {
        let run = self.run.as_ref().map(RunRecord::decisive);
        Self { run, compare: None, ..self.clone() }
    }

    /// The section `name` of a method that is not part of this library; its default if the file has none.
    pub fn section<T: DeserializeOwned + Default>(&self, name: &str) -> Result<T, ConfigError> {
        let Some(section) = self.own.get(name) else { return Ok(T::default()) };
        let wrong = |cause: toml::de::Error| ConfigError::Invalid {
            path: format!("[{name}]"),
            cause: cause.to_string().trim_end().to_owned(),
        };
        section.clone().try_into().map_err(wrong)
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

    /// A field outside of every section; what is left over must be sections of methods.
    fn stray_field(&self) -> Option<String> {
        let stray = self.own.iter().find(|(_, value)| !value.is_table());
        stray.map(|(name, _)| format!("unknown field `{name}`: the fields outside of sections are `seed` alone"))
    }

    /// The same experiment, if every value can be used; `name` is what errors call it.
    pub fn checked(self, name: &str) -> Result<Self, ConfigError> {
        let problems = [
            self.stray_field(),
            self.data.problem(),
            self.image.problem(),
            self.head.problem(&self.image.encoder),
            self.distill.problem(),
            self.online.problem(),
            self.shared_batch_problem(),
            self.experts.problem(),
            self.trajectory.problem(&self.experts),
            self.waymatch.problem(),
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

#[cfg(test)]
pub(crate) mod small;

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
        let cases: [(&[&str], &str); 16] = [
            (&["distill.pair=200"], "pair"),
            (&["distill.pairs"], "no '='"),
            (&["seed.x=1"], "'seed' is a value"),
            (&["sed=1"], "unknown field `sed`"),
            (&["distill.pairs=1"], "distill.pairs"),
            (&["distill.momentum=1.5"], "distill.momentum"),
            (&["online.batch=1"], "online.batch"),
            (&["online.batch=8", "distill.share_real_batch=true"], "leave online.batch out"),
            (&["head.depth=4"], "head.depth"),
            (&["evaluate.runs=0"], "evaluate.runs"),
            (&["distill.units=metres"], "metres"),
            (&["select.batch=1"], "select.batch"),
            (&["select.rates.momentum=2"], "select.rates.momentum"),
            (&["compare.pairs=[100, 1]"], "compare.pairs"),
            (&["compare.pairs=[100, 100]"], "100 twice"),
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
    fn a_name_of_an_earlier_version_is_read_as_that_of_this_one() {
        let old = parse(&["distill.lr_img=0.5", "distill.lr_txt=0.25", "distill.distil=text", "distill.augment=false"]);
        let new = parse(&["distill.lr_image=0.5", "distill.lr_text=0.25", "distill.learn=text", "data.augment=false"]);
        assert_eq!(old.unwrap(), new.unwrap());
        let file = SMALL.replace("[image]", "[distill]\nlr_img = 0.5\naugment = false\n[image]");
        let read = |overrides: &[String]| Config::parse("old.toml", &file, overrides).unwrap();
        assert_eq!((read(&[]).distill.lr_image, read(&[]).data.augment), (Some(0.5), false));
        let changed = read(&["distill.lr_image=0.125".to_owned(), "data.augment=true".to_owned()]);
        assert_eq!((changed.distill.lr_image, changed.data.augment), (Some(0.125), true));
        assert!(!changed.to_toml().unwrap().contains("lr_img"));
    }

    #[test]
    fn a_section_of_a_method_outside_of_this_library_is_kept_and_read_by_it() {
        #[derive(Debug, Default, PartialEq, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        struct Own {
            draws: usize,
        }
        let config = parse(&["own.draws=3", "distill.method=own"]).unwrap();
        assert_eq!(config.section::<Own>("own").unwrap(), Own { draws: 3 });
        assert_eq!(config.section::<Own>("none").unwrap(), Own::default());
        assert_eq!(Config::parse("again", &config.to_toml().unwrap(), &[]).unwrap(), config);
        let json = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<Config>(&json).unwrap(), config);
        let wrong = parse(&["own.drawz=3"]).unwrap().section::<Own>("own").unwrap_err().to_string();
        assert!(wrong.contains("[own]") && wrong.contains("drawz"), "{wrong}");
    }

    #[test]
    fn writing_and_reading_give_the_same_experiment() {
        let config = parse(&["distill.synthetic_batch=64", "distill.units=absolute", "data.cache=c"]).unwrap();
        assert_eq!(Config::parse("again", &config.to_toml().unwrap(), &[]).unwrap(), config);
    }
}
