//! The entry of a method in the registry: all that the rest of the program asks of it.

use std::path::Path;

use super::{Learner, MethodError};
use crate::config::{Config, ConfigError};
use crate::data::{Dataset, Split};
use crate::experiment::Experiment;

/// A way to make pairs.
///
/// ```
/// # use covmatch::methods::{Learner, Method};
/// # fn entry<L: Learner + 'static>() -> Method {
/// Method::learns::<L>("own", "Own method").with_sections(&["own"])
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Method {
    /// The name in configurations, commands and folders.
    pub name: &'static str,
    /// The name in tables.
    pub title: &'static str,
    /// Sections of the configuration that it reads beside `[distill]`.
    pub sections: &'static [&'static str],
    /// What is wrong with a configuration that it shall work with.
    pub problem: fn(&Config) -> Result<(), ConfigError>,
    /// Settings that its report shows: a name and a value each.
    pub facts: fn(&Config) -> Vec<(&'static str, String)>,
    /// How the pairs come about.
    pub work: Work,
}

/// How the pairs of a method come about.
#[derive(Clone, Debug)]
pub enum Work {
    /// Real pairs are chosen.
    Selects(Selects),
    /// Pairs are learned.
    Learns(Learns),
}

/// The captions of the chosen pairs, indices into `Dataset::captions`; hears of the epochs of a training, if it needs one.
pub type Choose = fn(&Experiment, &mut dyn FnMut(EpochDone)) -> Result<Vec<u32>, MethodError>;

/// How real pairs are chosen.
#[derive(Clone, Debug)]
pub struct Selects {
    /// Chooses them.
    pub choose: Choose,
    /// Epochs of the training that it looks at; 0 if there is none.
    pub epochs: fn(&Config) -> usize,
    /// Whether an image is taken once, with one of its captions.
    pub once_an_image: bool,
}

/// An epoch of a training that a method needs is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpochDone {
    /// The epoch, from 0.
    pub epoch: usize,
    /// Epochs of the training.
    pub epochs: usize,
    /// Mean loss of its steps.
    pub loss: f32,
}

/// A learner that can take its next step.
pub type Begun = Result<Box<dyn Learner>, MethodError>;

/// How pairs are learned.
#[derive(Clone, Debug)]
pub struct Learns {
    /// The learner before its first step.
    pub begin: fn(Experiment) -> Begun,
    /// The learner as it saved itself in a folder.
    pub resume: fn(Experiment, &Path) -> Begun,
    /// What is made before the first step; none if there is nothing.
    pub prepare: Option<Prepare>,
    /// What a report plots of its steps.
    pub charts: &'static [Chart],
    /// The phases of a step, by their names in `metrics.jsonl`.
    pub phases: &'static [Phase],
}

/// Makes what is missing of a preparation, and tells of each part that is done.
pub type PrepareFn = fn(Experiment, &mut dyn FnMut(Prepared)) -> Result<(), MethodError>;

/// What a method needs before its first step, such as experts: models that many runs share.
#[derive(Clone, Copy, Debug)]
pub struct Prepare {
    /// What it is, in a word.
    pub what: &'static str,
    /// Makes what is missing of it.
    pub make: PrepareFn,
    /// What all of it took.
    pub cost: fn(Experiment) -> Result<PreparationCost, MethodError>,
}

/// How far a preparation is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Parts that are done.
    pub done: u64,
    /// All parts.
    pub total: u64,
    /// The newest part in a few words.
    pub summary: String,
}

/// What a preparation took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PreparationCost {
    /// Seconds of making it, over all processes.
    pub seconds: f64,
    /// Its bytes on the disk.
    pub bytes: u64,
}

/// A plot of values that each step measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chart {
    /// What stands over it.
    pub title: &'static str,
    /// What stands beside its axis.
    pub axis: &'static str,
    /// Whether the axis is logarithmic.
    pub logarithmic: bool,
    /// The name of each curve, and that of its value in `metrics.jsonl`.
    pub curves: &'static [(&'static str, &'static str)],
}

/// A part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// The name in `metrics.jsonl`.
    pub name: &'static str,
    /// The name for people.
    pub title: &'static str,
}

impl Method {
    /// A method that learns pairs as `L` does.
    pub fn learns<L: Learner + 'static>(name: &'static str, title: &'static str) -> Self {
        let work = Work::Learns(Learns {
            begin: |experiment| Ok(Box::new(L::begin(experiment)?)),
            resume: |experiment, checkpoint| Ok(Box::new(L::resume(experiment, checkpoint)?)),
            prepare: None,
            charts: &[],
            phases: &[],
        });
        Self { name, title, sections: &[], problem: |_| Ok(()), facts: |_| Vec::new(), work }
    }

    /// A method that chooses real pairs by `choose`, any caption of any image.
    pub fn selects(name: &'static str, title: &'static str, choose: Choose) -> Self {
        let work = Work::Selects(Selects { choose, epochs: |_| 0, once_an_image: false });
        Self { name, title, sections: &[], problem: |_| Ok(()), facts: |_| Vec::new(), work }
    }

    /// The same, which reads these sections of the configuration too.
    pub fn with_sections(self, sections: &'static [&'static str]) -> Self {
        Self { sections, ..self }
    }

    /// The same, which refuses configurations for which `problem` has an error.
    pub fn with_problem(self, problem: fn(&Config) -> Result<(), ConfigError>) -> Self {
        Self { problem, ..self }
    }

    /// The same, whose report shows `facts`.
    pub fn with_facts(self, facts: fn(&Config) -> Vec<(&'static str, String)>) -> Self {
        Self { facts, ..self }
    }

    /// The same, whose report plots `charts`, and whose steps have `phases`; for methods that learn.
    pub fn with_steps(self, charts: &'static [Chart], phases: &'static [Phase]) -> Self {
        match self.work {
            Work::Learns(learns) => Self { work: Work::Learns(Learns { charts, phases, ..learns }), ..self },
            Work::Selects(_) => self,
        }
    }

    /// The same, which needs what `prepare` makes; for methods that learn.
    pub fn with_preparation(self, prepare: Prepare) -> Self {
        match self.work {
            Work::Learns(learns) => Self { work: Work::Learns(Learns { prepare: Some(prepare), ..learns }), ..self },
            Work::Selects(_) => self,
        }
    }

    /// How pairs are learned; none if they are chosen.
    pub fn learning(&self) -> Option<&Learns> {
        match &self.work {
            Work::Learns(learns) => Some(learns),
            Work::Selects(_) => None,
        }
    }

    /// How real pairs are chosen; none if they are learned.
    pub fn selecting(&self) -> Option<&Selects> {
        match &self.work {
            Work::Selects(selects) => Some(selects),
            Work::Learns(_) => None,
        }
    }

    /// The most pairs that it can make of `dataset`.
    pub fn most_pairs(&self, dataset: &Dataset) -> usize {
        let train = dataset.counts(Split::Train);
        if self.selecting().is_some_and(|selects| selects.once_an_image) { train.images } else { train.captions }
    }
}
