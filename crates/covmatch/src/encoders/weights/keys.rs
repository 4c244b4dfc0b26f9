//! The key of a parameter: its place in the module tree, spelled as upstream checkpoints spell it.
//!
//! A key is the path of field names joined with dots. Upstream names that are no Rust field names are written with an
//! underscore that the key leaves out:
//!
//! | upstream        | field   | why                        |
//! |-----------------|---------|----------------------------|
//! | `self`          | `self_` | a keyword                  |
//! | `0` (a position in a `Sequential`) | `_0` | starts with a digit |
//!
//! The variants of an enum and the brackets of an `Option` leave no trace in the key.

use burn::module::Module;

use super::walk::visit;

/// Where a walk over a module stands.
#[derive(Default)]
pub(super) struct KeyPath(Vec<String>);

impl KeyPath {
    /// Call on `enter_module`.
    pub(super) fn enter(&mut self, name: &str, container_type: &str) {
        if !container_type.starts_with("Enum:") {
            self.0.push(segment(name).to_owned());
        }
    }

    /// Call on `exit_module`.
    pub(super) fn exit(&mut self, container_type: &str) {
        if !container_type.starts_with("Enum:") {
            self.0.pop();
        }
    }

    /// The key of the parameter at this place.
    pub(super) fn key(&self) -> String {
        self.0.join(".")
    }
}

/// The upstream spelling of the field `name`.
fn segment(name: &str) -> &str {
    let name = name.strip_suffix('_').unwrap_or(name);
    match name.strip_prefix('_') {
        Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => digits,
        _ => name,
    }
}

/// A parameter's key and shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyShape {
    /// The upstream key.
    pub key: String,
    /// The shape, as PyTorch prints it.
    pub shape: Vec<usize>,
}

/// The keys and shapes of all parameters and stored statistics of `module`, in the order of its fields.
///
/// Parameters that are not initialised yet stay so.
pub fn keys<M: Module>(module: &M) -> Vec<KeyShape> {
    let mut found = Vec::new();
    visit(module, |key, parameter| found.push(KeyShape { key: key.to_owned(), shape: parameter.shape() }));
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn a_segment_is_spelled_as_upstream() {
        for (field, key) in [("self_", "self"), ("_0", "0"), ("_12", "12"), ("_bn0", "_bn0"), ("weight", "weight")] {
            assert_eq!(segment(field), key);
        }
    }

    #[test]
    fn enum_variants_leave_no_trace() {
        let mut path = KeyPath::default();
        path.enter("Bert", "Enum:AnyTextEncoder");
        path.enter("embeddings", "Struct:Bert");
        path.enter("weight", "Struct:Embeddings");
        assert_eq!(path.key(), "embeddings.weight");
        path.exit("Struct:Embeddings");
        path.exit("Struct:Bert");
        path.exit("Enum:AnyTextEncoder");
        assert_eq!(path.key(), "");
    }
}
