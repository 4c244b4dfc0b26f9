//! The registry of methods.

use std::path::Path;

use super::{Learns, Method, Selects, covmatch, forgetting, herding, k_center, random, trajectory, waymatch};
use crate::config::{Config, ConfigError};

/// All methods that a program knows, in the order of its tables.
#[derive(Clone, Debug)]
pub struct Methods(Vec<Method>);

impl Default for Methods {
    fn default() -> Self {
        Self::built_in()
    }
}

impl Methods {
    /// Those of this library.
    pub fn built_in() -> Self {
        Self(vec![
            random::method(),
            herding::method(),
            k_center::method(),
            forgetting::method(),
            trajectory::mtt_vl(),
            trajectory::lors(),
            covmatch::method(),
            waymatch::method(),
        ])
    }

    /// These and `method`, which takes the place of one with the same name.
    pub fn with(mut self, method: Method) -> Self {
        self.0.retain(|known| known.name != method.name);
        self.0.push(method);
        self
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Method> {
        self.0.iter()
    }

    /// The method `name`.
    pub fn get(&self, name: &str) -> Result<&Method, UnknownMethod> {
        self.find("", name, Some)
    }

    /// The method `name`, which learns pairs.
    pub fn learning(&self, name: &str) -> Result<(&Method, &Learns), UnknownMethod> {
        self.find(" that learns pairs", name, |method| Some((method, method.learning()?)))
    }

    /// The method `name`, which selects pairs.
    pub fn selecting(&self, name: &str) -> Result<(&Method, &Selects), UnknownMethod> {
        self.find(" that selects real pairs", name, |method| Some((method, method.selecting()?)))
    }

    /// The configuration of the file at `path` with each of `overrides` set, if these methods can work with it.
    pub fn read(&self, path: &Path, overrides: &[String]) -> Result<Config, ConfigError> {
        let config = Config::read(path, overrides)?;
        self.check(&path.display().to_string(), &config)?;
        Ok(config)
    }

    /// An error unless `config` names methods and sections that exist, and values that its method can work with; `name`
    /// is what errors call it.
    pub fn check(&self, name: &str, config: &Config) -> Result<(), ConfigError> {
        let invalid = |cause: String| ConfigError::Invalid { path: name.to_owned(), cause };
        let unknown = |field: &'static str| move |error: UnknownMethod| invalid(format!("{field}: {error}"));
        let (method, _) = self.learning(&config.distill.method).map_err(unknown("distill.method"))?;
        if let Some(compare) = &config.compare {
            for method in &compare.methods {
                self.get(method).map_err(unknown("compare.methods"))?;
            }
            for method in compare.methods_of_set() {
                self.get(method).map_err(unknown("compare.set"))?;
            }
        }
        let known = |section: &str| self.0.iter().any(|method| method.sections.contains(&section));
        if let Some(stranger) = config.own.keys().find(|section| !known(section)) {
            return Err(invalid(format!("unknown section [{stranger}]: no method reads it")));
        }
        (method.problem)(config)
    }

    /// What `of` makes of the method `name`; an error that lists the names of those that it makes something of.
    fn find<'a, T>(
        &'a self,
        which: &'static str,
        name: &str,
        of: impl Fn(&'a Method) -> Option<T>,
    ) -> Result<T, UnknownMethod> {
        let found = self.0.iter().find(|method| method.name == name).and_then(&of);
        found.ok_or_else(|| {
            let fitting = self.0.iter().filter(|method| of(method).is_some());
            let known = fitting.map(|method| method.name).collect::<Vec<_>>().join(", ");
            UnknownMethod { which, name: name.to_owned(), known }
        })
    }
}

/// There is no such method.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no method{which} '{name}'; known names: {known}")]
pub struct UnknownMethod {
    which: &'static str,
    name: String,
    known: String,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::small::small;

    #[test]
    fn a_name_is_found_and_has_one_entry() {
        let methods = Methods::built_in();
        let names: Vec<&str> = methods.iter().map(|method| method.name).collect();
        assert_eq!(names, ["random", "herding", "k-center", "forgetting", "mtt-vl", "lors", "covmatch", "waymatch"]);
        assert!(names.iter().all(|name| methods.get(name).unwrap().name == *name));
        let replaced = methods.clone().with(Method { title: "Mine", ..methods.get("lors").unwrap().clone() });
        assert_eq!((replaced.iter().count(), replaced.get("lors").unwrap().title), (8, "Mine"));
    }

    #[test]
    fn mistakes_are_named_with_what_there_is() {
        let methods = Methods::built_in();
        for (fields, words) in [
            (vec!["compare.methods=[\"randon\"]"], ["randon", "k-center"]),
            (vec!["compare.set.lorz-5=[]"], ["'lorz'", "lors"]),
            (vec!["distill.method=random"], ["distill.method", "mtt-vl, lors, covmatch"]),
            (vec!["evalute.epochs=5"], ["[evalute]", "no method"]),
        ] {
            let error = methods.check("small.toml", &small(&fields)).unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{fields:?}: {error}");
        }
        let fields = ["compare.methods=[\"forgetting\"]", "compare.set.full=[]", "compare.set.k-center-50=[]"];
        methods.check("small.toml", &small(&fields)).unwrap();
    }
}
