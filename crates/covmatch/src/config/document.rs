//! A configuration as a TOML document: overrides, and fields whose names have changed.

use super::error::ConfigError;

/// Fields that had another name in version 0.1, which is still read: the old name and the one of this version.
const RENAMED: [(&str, &str); 4] = [
    ("distill.lr_img", "distill.lr_image"),
    ("distill.lr_txt", "distill.lr_text"),
    ("distill.distil", "distill.learn"),
    ("distill.augment", "data.augment"),
];

/// Fields of version 0.1 that this version does without: they are left out.
const GONE: [&str; 5] =
    ["waymatch.canonical", "waymatch.directions", "waymatch.spread", "waymatch.labels", "waymatch.label_tau"];

/// A sentence for each field of the document `text` and of `overrides` that has an old name or is gone.
pub fn old_names(text: &str, overrides: &[String]) -> Vec<String> {
    let table = text.parse::<toml::Table>().unwrap_or_default();
    let set = table.get("compare").and_then(|compare| compare.get("set")?.as_table());
    let in_sets = set.into_iter().flatten().flat_map(|(_, pairs)| pairs.as_array().into_iter().flatten());
    let pairs: Vec<&str> =
        in_sets.filter_map(toml::Value::as_str).chain(overrides.iter().map(String::as_str)).collect();
    let has = |old: &str| {
        field(&table, old).is_some() || pairs.iter().any(|pair| pair.split('=').next().map(str::trim) == Some(old))
    };
    let outdated = RENAMED.iter().filter(|(old, _)| has(old));
    let outdated =
        outdated.map(|(old, new)| format!("{old} is called {new}; the next version does not read the old name"));
    let gone = GONE.iter().filter(|gone| has(gone));
    outdated
        .chain(gone.map(|gone| format!("{gone} has no effect any more; the next version does not read it")))
        .collect()
}

/// The value of the field `key`, dots between sections.
fn field<'a>(table: &'a toml::Table, key: &str) -> Option<&'a toml::Value> {
    let (section, name) = key.split_once('.')?;
    table.get(section)?.get(name)
}

/// Sets one `key=value` in `table`.
pub(super) fn set(table: &mut toml::Table, pair: &str) -> Result<(), ConfigError> {
    let wrong = |cause: String| ConfigError::Override { pair: pair.to_owned(), cause };
    let (key, value) = pair.split_once('=').ok_or_else(|| wrong("it has no '='".to_owned()))?;
    let (key, value) = (key.trim(), value.trim());
    let key = present_name(key);
    if GONE.contains(&key) {
        return Ok(());
    }
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

/// The name of the field `key` in this version.
fn present_name(key: &str) -> &str {
    RENAMED.iter().find(|(old, _)| *old == key).map_or(key, |(_, new)| new)
}

/// Gives fields of `table` that have an old name the one of this version, and leaves out those that are gone. Whether there
/// was any.
pub(super) fn rename(table: &mut toml::Table) -> bool {
    let mut found = false;
    for ((old_section, old), (section, new)) in renamed_fields() {
        let value = table.get_mut(old_section).and_then(|fields| fields.as_table_mut()?.remove(old));
        let Some(value) = value else { continue };
        let fields = table.entry(section).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        fields.as_table_mut().map(|fields| fields.insert(new.to_owned(), value));
        found = true;
    }
    for (section, gone) in gone_fields() {
        found |= table.get_mut(section).and_then(|fields| fields.as_table_mut()?.remove(gone)).is_some();
    }
    found
}

/// The same for a configuration as JSON.
pub(super) fn rename_in_json(config: &mut serde_json::Value) {
    for ((old_section, old), (section, new)) in renamed_fields() {
        let value = config.get_mut(old_section).and_then(|fields| fields.as_object_mut()?.remove(old));
        if let Some(fields) = config.get_mut(section).and_then(serde_json::Value::as_object_mut) {
            value.map(|value| fields.insert(new.to_owned(), value));
        }
    }
    for (section, gone) in gone_fields() {
        config.get_mut(section).and_then(|fields| fields.as_object_mut()?.remove(gone));
    }
}

/// Section and name of each field that had another name: old, new.
fn renamed_fields() -> impl Iterator<Item = ((&'static str, &'static str), (&'static str, &'static str))> {
    RENAMED.iter().filter_map(|(old, new)| Some((old.split_once('.')?, new.split_once('.')?)))
}

/// Section and name of each field that is gone.
fn gone_fields() -> impl Iterator<Item = (&'static str, &'static str)> {
    GONE.iter().filter_map(|gone| gone.split_once('.'))
}

/// A TOML value, or the text itself where quotes were left out.
fn value_of(text: &str) -> toml::Value {
    let document = format!("value = {text}").parse::<toml::Table>();
    let value = document.ok().and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| toml::Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn fields_that_are_gone_are_left_out_and_said() {
        let text = "[waymatch]\nspread = 0.5\nteachers = 3\n";
        let mut table: toml::Table = text.parse().unwrap();
        assert!(rename(&mut table));
        assert_eq!(table, "[waymatch]\nteachers = 3\n".parse().unwrap());
        let mut json = serde_json::json!({"waymatch": {"canonical": 0.0, "stay": 5}});
        rename_in_json(&mut json);
        assert_eq!(json, serde_json::json!({"waymatch": {"stay": 5}}));
        set(&mut table, "waymatch.labels=infonce").unwrap();
        assert!(table["waymatch"].get("labels").is_none());
        let said = old_names(text, &["waymatch.directions=3".to_owned()]);
        assert!(said.len() == 2 && said[0].starts_with("waymatch.directions has no effect"), "{said:?}");
    }

    #[test]
    fn old_names_are_found_in_the_file_in_settings_of_methods_and_in_overrides() {
        let text = "[distill]\naugment = false\n[compare.set]\nlors = [\"distill.lr_img=0.1\", \"seed=1\"]\n";
        let found = old_names(text, &["distill.distil = text".to_owned()]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("distill.lr_img is called distill.lr_image"), "{found:?}");
        assert!(found[1].contains("distill.learn") && found[2].contains("data.augment"), "{found:?}");
        assert!(old_names("[distill]\nlr_image = 0.1\n", &[]).is_empty());
    }
}
