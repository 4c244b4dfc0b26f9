//! Where two configurations differ.

use serde_json::Value;

use crate::config::Config;

/// A field and its two values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// The field, dots between sections.
    pub field: String,
    /// Its value in the first configuration.
    pub first: String,
    /// Its value in the second one.
    pub second: String,
}

/// The first field in which `first` and `second` differ.
pub(super) fn difference(first: &Config, second: &Config) -> Option<Difference> {
    // Through text, so that a number is shown with the digits that it has in a file.
    let text = |config: &Config| serde_json::to_string(config).unwrap_or_default();
    let value = |config: &Config| serde_json::from_str(&text(config)).unwrap_or_default();
    (first != second).then(|| descend(String::new(), &value(first), &value(second)))
}

/// The first difference within two values of `field` that are not the same.
fn descend(field: String, first: &Value, second: &Value) -> Difference {
    if let (Value::Object(a), Value::Object(b)) = (first, second) {
        let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
        let side = |map: &serde_json::Map<String, Value>, name: &str| map.get(name).cloned().unwrap_or_default();
        for name in names {
            let (x, y) = (side(a, name), side(b, name));
            if x != y {
                let field = if field.is_empty() { name.clone() } else { format!("{field}.{name}") };
                return descend(field, &x, &y);
            }
        }
    }
    Difference { field, first: shown(first), second: shown(second) }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "not set".to_owned(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::compare::plan::tests::config;

    #[test]
    fn the_field_that_differs_is_named_with_both_values() {
        let base = config(&[]);
        let found = |overrides: &[&str]| {
            let Difference { field, first, second } = difference(&base, &config(overrides)).unwrap();
            [field, first, second]
        };
        assert_eq!(found(&["distill.pairs=7"]), ["distill.pairs", "100", "7"]);
        assert_eq!(found(&["evaluate.rates.momentum=0.5"]), ["evaluate.rates.momentum", "0.9", "0.5"]);
        assert_eq!(found(&["distill.synthetic_batch=9"]), ["distill.synthetic_batch", "not set", "9"]);
        assert_eq!(difference(&base, &base), None);
    }
}
