//! `[compare]`: which methods are compared, and for how many pairs.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::StrDeserializer;
use serde::{Deserialize, Serialize};

use super::error::{first, require};

/// The cell of models trained on the whole train split.
pub(crate) const FULL: &str = "full";

/// Which methods are compared, and for how many pairs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompareConfig {
    /// The methods.
    pub methods: Vec<Method>,
    /// Numbers of pairs, each of which every method makes a set of.
    pub pairs: Vec<usize>,
    /// Whether models trained on the whole train split, as `[train]` says, stand beside them.
    pub full: bool,
    /// What is set otherwise (`key=value`, as on the command line) for a method (`lors`), for a method with so many pairs
    /// (`lors-500`, after the former) or for all train pairs (`full`).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, Vec<String>>,
}

/// A way to have pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Real pairs, uniformly.
    Random,
    /// Real pairs, by herding.
    Herding,
    /// Real pairs, by the greedy K-Center algorithm.
    KCenter,
    /// Real pairs that a model forgets least.
    Forgetting,
    /// Synthetic pairs, by matching cross-covariance.
    Covmatch,
    /// Synthetic pairs, by matching trajectories.
    MttVl,
    /// Synthetic pairs and their similarities, by matching trajectories.
    Lors,
}

impl Method {
    /// The name in configurations and of folders.
    pub fn name(self) -> &'static str {
        match self {
            Method::Random => "random",
            Method::Herding => "herding",
            Method::KCenter => "k-center",
            Method::Forgetting => "forgetting",
            Method::Covmatch => "covmatch",
            Method::MttVl => "mtt-vl",
            Method::Lors => "lors",
        }
    }

    /// The method that a configuration calls so.
    fn of_name(name: &str) -> Option<Self> {
        Self::deserialize(StrDeserializer::<serde::de::value::Error>::new(name)).ok()
    }

    /// The name in tables.
    pub fn title(self) -> &'static str {
        match self {
            Method::Random => "Random",
            Method::Herding => "Herding",
            Method::KCenter => "K-Center",
            Method::Forgetting => "Forgetting",
            Method::Covmatch => "CovMatch",
            Method::MttVl => "MTT-VL",
            Method::Lors => "LoRS",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Default for CompareConfig {
    fn default() -> Self {
        let methods = vec![Method::Random, Method::Herding, Method::KCenter, Method::Covmatch];
        Self { methods, pairs: vec![100, 500], full: true, set: BTreeMap::new() }
    }
}

impl CompareConfig {
    /// What is set otherwise for the cell of `method` with `pairs` pairs; what comes later counts.
    pub(crate) fn settings(&self, method: Method, pairs: usize) -> Vec<String> {
        let names = [method.to_string(), format!("{method}-{pairs}")];
        names.iter().filter_map(|name| self.set.get(name)).flatten().cloned().collect()
    }

    /// What is set otherwise for training on everything.
    pub(crate) fn full_settings(&self) -> &[String] {
        self.set.get(FULL).map_or(&[], Vec::as_slice)
    }

    pub(super) fn problem(&self) -> Option<String> {
        let sets = !self.methods.is_empty() && !self.pairs.is_empty();
        let nothing = "compare.methods and compare.pairs name no set, and compare.full is false: name what to compare";
        let stranger = self.set.keys().find(|name| !names_cells(name));
        let small = self.pairs.iter().find(|&&pairs| pairs < 2);
        first([
            (!sets && !self.full).then(|| nothing.to_owned()),
            small.and_then(|small| require(false, "compare.pairs", "at least 2 each", small)),
            twice(&self.methods).map(|method| format!("compare.methods has {method} twice")),
            twice(&self.pairs).map(|pairs| format!("compare.pairs has {pairs} twice")),
            stranger.map(|name| {
                format!("compare.set has '{name}': name a method (lors), a method with its pairs (lors-500), or {FULL}")
            }),
        ])
    }
}

/// Whether `name` is that of a method, of a cell, or of training on everything.
fn names_cells(name: &str) -> bool {
    let method = match name.rsplit_once('-') {
        Some((method, pairs)) if pairs.parse::<usize>().is_ok() => method,
        _ => name,
    };
    name == FULL || Method::of_name(method).is_some()
}

/// The first of `values` that stands there before.
fn twice<T: PartialEq>(values: &[T]) -> Option<&T> {
    values.iter().enumerate().find(|(at, value)| values[..*at].contains(value)).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_method_has_one_name_everywhere() {
        let all = "random herding k-center forgetting covmatch mtt-vl lors";
        for name in all.split(' ') {
            let method: Method = serde_json::from_value(name.into()).unwrap();
            assert_eq!(method.name(), name);
            assert_eq!(Method::of_name(name), Some(method));
        }
    }
}
