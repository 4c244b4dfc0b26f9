//! Why a configuration cannot be used.

/// What can be wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}: {cause}; presets/ has files to start from")]
    Read {
        /// The file.
        path: String,
        /// What the system says.
        cause: std::io::Error,
    },
    /// The document is not TOML, has an unknown field or a value that cannot be used.
    #[error("{path}: {cause}")]
    Invalid {
        /// The file.
        path: String,
        /// What is wrong, with the field and, where it is known, the line.
        cause: String,
    },
    /// An override is malformed.
    #[error("cannot set '{pair}': {cause}; write section.field=value, such as distill.pairs=200")]
    Override {
        /// The override.
        pair: String,
        /// What is wrong.
        cause: String,
    },
    /// The configuration cannot be written out.
    #[error("cannot write the configuration as TOML: {cause}")]
    Write {
        /// What the writer says.
        cause: String,
    },
}

/// `Some(message)` unless `holds`.
pub(super) fn require(holds: bool, field: &str, expected: &str, got: impl std::fmt::Display) -> Option<String> {
    (!holds).then(|| format!("{field} must be {expected}, not {got}"))
}

/// The first of the problems that there are.
pub(super) fn first(problems: impl IntoIterator<Item = Option<String>>) -> Option<String> {
    problems.into_iter().flatten().next()
}
