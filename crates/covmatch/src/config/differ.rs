//! Where two configurations differ.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Config;

/// A field and its two values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The field, dots between sections.
    pub field: String,
    /// Its value in the first configuration.
    pub first: String,
    /// Its value in the second one.
    pub second: String,
}

/// The fields in which `first` and `second` differ, in the order of the file.
pub fn differences(first: &Config, second: &Config) -> Vec<Difference> {
    // Through text, so that a number is shown with the digits that it has in a file.
    let text = |config: &Config| serde_json::to_string(config).unwrap_or_default();
    let value = |config: &Config| serde_json::from_str(&text(config)).unwrap_or_default();
    let mut found = Vec::new();
    if first != second {
        descend("", &value(first), &value(second), &mut found);
    }
    found
}

/// Adds the differences within two values of `field` to `found`.
fn descend(field: &str, first: &Value, second: &Value, found: &mut Vec<Difference>) {
    let (Value::Object(a), Value::Object(b)) = (first, second) else {
        if first != second {
            found.push(Difference { field: field.to_owned(), first: shown(first), second: shown(second) });
        }
        return;
    };
    let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
    let side = |map: &serde_json::Map<String, Value>, name: &str| map.get(name).cloned().unwrap_or_default();
    for name in names {
        let field = if field.is_empty() { name.clone() } else { format!("{field}.{name}") };
        descend(&field, &side(a, name), &side(b, name), found);
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "not set".to_owned(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::small::small;

    #[test]
    fn the_fields_that_differ_are_named_with_both_values() {
        let base = small(&[]);
        let found = |overrides: &[&str]| -> Vec<[String; 3]> {
            let found = differences(&base, &small(overrides));
            found.into_iter().map(|Difference { field, first, second }| [field, first, second]).collect()
        };
        assert_eq!(found(&["distill.pairs=7"]), [["distill.pairs", "100", "7"]]);
        assert_eq!(
            found(&["evaluate.rates.momentum=0.5", "distill.synthetic_batch=9"]),
            [["distill.synthetic_batch", "not set", "9"], ["evaluate.rates.momentum", "0.9", "0.5"]]
        );
        assert!(found(&[]).is_empty());
    }
}
