//! `[compare]`: which methods are compared, and for how many pairs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::error::{first, require};

/// The cell of models trained on the whole train split.
pub(crate) const FULL: &str = "full";

/// Which methods are compared, and for how many pairs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompareConfig {
    /// The methods, by their names.
    pub methods: Vec<String>,
    /// Numbers of pairs, each of which every method makes a set of.
    pub pairs: Vec<usize>,
    /// Whether models trained on the whole train split, as `[train]` says, stand beside them.
    pub full: bool,
    /// What is set otherwise (`key=value`, as on the command line) for a method (`lors`), for a method with so many pairs
    /// (`lors-500`, after the former) or for all train pairs (`full`).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, Vec<String>>,
}

impl Default for CompareConfig {
    fn default() -> Self {
        let methods = ["random", "herding", "k-center", "covmatch"].map(str::to_owned).to_vec();
        Self { methods, pairs: vec![100, 500], full: true, set: BTreeMap::new() }
    }
}

impl CompareConfig {
    /// What is set otherwise for the cell of `method` with `pairs` pairs; what comes later counts.
    pub(crate) fn settings(&self, method: &str, pairs: usize) -> Vec<String> {
        let names = [method.to_owned(), format!("{method}-{pairs}")];
        names.iter().filter_map(|name| self.set.get(name)).flatten().cloned().collect()
    }

    /// What is set otherwise for training on everything.
    pub(crate) fn full_settings(&self) -> &[String] {
        self.set.get(FULL).map_or(&[], Vec::as_slice)
    }

    /// The methods that `set` speaks of: of `lors` and of `lors-500` it is `lors`.
    pub(crate) fn methods_of_set(&self) -> impl Iterator<Item = &str> {
        self.set.keys().filter(|name| *name != FULL).map(|name| match name.rsplit_once('-') {
            Some((method, pairs)) if pairs.parse::<usize>().is_ok() => method,
            _ => name,
        })
    }

    pub(super) fn problem(&self) -> Option<String> {
        let sets = !self.methods.is_empty() && !self.pairs.is_empty();
        let nothing = "compare.methods and compare.pairs name no set, and compare.full is false: name what to compare";
        let small = self.pairs.iter().find(|&&pairs| pairs < 2);
        first([
            (!sets && !self.full).then(|| nothing.to_owned()),
            small.and_then(|small| require(false, "compare.pairs", "at least 2 each", small)),
            twice(&self.methods).map(|method| format!("compare.methods has {method} twice")),
            twice(&self.pairs).map(|pairs| format!("compare.pairs has {pairs} twice")),
        ])
    }
}

/// The first of `values` that stands there before.
fn twice<T: PartialEq>(values: &[T]) -> Option<&T> {
    values.iter().enumerate().find(|(at, value)| values[..*at].contains(value)).map(|(_, value)| value)
}
