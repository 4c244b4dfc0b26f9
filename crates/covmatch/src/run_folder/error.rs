//! Why a folder is refused.

use std::path::Path;

use super::{Content, Pairs};
use crate::config::{ConfigError, Maker};
use crate::files::WriteError;

/// Why a folder is refused.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Its configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It belongs to something else.
    #[error("{path} {holds}: {advice}")]
    NotThis {
        /// The folder.
        path: String,
        /// What it holds, after its name.
        holds: String,
        /// What can be done.
        advice: String,
    },
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl FolderError {
    fn new(path: &Path, holds: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::NotThis { path: path.display().to_string(), holds: holds.into(), advice: advice.into() }
    }

    /// `path` shall take something new and holds `content`.
    pub(crate) fn occupied(path: &Path, content: &Content) -> Self {
        let (holds, own) = described(path, content);
        Self::new(path, format!("already {holds}"), format!("{own}, or choose another --out"))
    }

    /// `path` shall hold pairs and has no `run.toml`.
    pub(crate) fn not_pairs(path: &Path) -> Self {
        match Content::of(path) {
            Content::Nothing => {
                let advice = "name a folder that `covmatch distill` or `covmatch select` made";
                Self::new(path, "holds no run: it has no run.toml", advice)
            }
            content => {
                let (holds, own) = described(path, &content);
                Self::new(path, format!("{holds}, no pairs"), own)
            }
        }
    }

    /// The pairs of `path` are not whole.
    pub(super) fn unfinished(path: &Path, maker: &Maker) -> Self {
        let (holds, own) = of_pairs(path, &Pairs { maker: maker.clone(), made: false });
        Self::new(path, holds, own)
    }

    /// The pairs of `path` were chosen: there is nothing to go on with.
    pub(super) fn nothing_to_resume(path: &Path, maker: &Maker) -> Self {
        let (holds, own) = of_pairs(path, &Pairs { maker: maker.clone(), made: true });
        Self::new(path, format!("{holds}: there is nothing to resume"), own)
    }
}

/// What `path` with `content` holds, and the command that it belongs to.
fn described(path: &Path, content: &Content) -> (String, String) {
    let shown = path.display();
    let (holds, own) = match content {
        Content::Pairs(pairs) => return of_pairs(path, pairs),
        Content::Nothing => ("holds nothing that covmatch made", "begin with `covmatch distill CONFIG`".to_owned()),
        Content::Unreadable => ("holds a run whose run.toml cannot be read", format!("look at {shown}/run.toml")),
        Content::FullTraining => ("holds models trained on everything", "they belong to `covmatch train`".to_owned()),
        Content::Experts => ("holds experts", "they belong to `covmatch experts`, as experts.folder".to_owned()),
        Content::Comparison => (
            "holds a comparison",
            "`covmatch compare` goes on with it, `covmatch evaluate` takes \
                                                       one of its folders"
                .to_owned(),
        ),
    };
    (holds.to_owned(), own)
}

fn of_pairs(path: &Path, Pairs { maker, made }: &Pairs) -> (String, String) {
    let (shown, title) = (path.display(), &maker.title);
    match (maker.learns, made) {
        (true, true) => {
            (format!("holds a run: pairs that {title} learned"), format!("test them with `covmatch evaluate {shown}`"))
        }
        (true, false) => (
            format!("holds a run of {title} that is not finished"),
            format!("go on with `covmatch distill --resume {shown}`"),
        ),
        (false, true) => {
            (format!("holds a run: pairs that {title} chose"), format!("test them with `covmatch evaluate {shown}`"))
        }
        (false, false) => (
            format!("holds a run of {title} that is not finished"),
            format!("choose again with `covmatch select {} CONFIG` into another folder", maker.method),
        ),
    }
}
