//! Models that are trained and tested one after the other, with a bar; what was stopped goes on.

use std::path::Path;

use covmatch::config::TrainConfig;
use covmatch::evaluate::{EvaluateError, Evaluation, Progress, Run, Unfinished};
use covmatch::experiment::Experiment;

use super::results::ResultFile;
use crate::console::progress;
use crate::progress::EpochBar;

/// What `measure` makes of the models that `folder` has already, and tells of as it goes. If it is stopped, the same
/// experiment in `folder` goes on after the last model that was tested.
pub fn go_on(
    folder: &Path,
    experiment: &Experiment,
    config: &TrainConfig,
    measure: impl FnOnce(Vec<Run>, &mut dyn FnMut(Progress)) -> Result<Evaluation, EvaluateError>,
) -> anyhow::Result<(Evaluation, Unfinished)> {
    let mut unfinished = Unfinished::open(folder.join(ResultFile::UNFINISHED), &experiment.config);
    let done = unfinished.runs();
    if !done.is_empty() {
        progress(&format!("goes on after run {} of {}", done.len(), config.runs));
    }
    let mut bar = EpochBar::new(config.runs, config.epochs);
    let evaluation = measure(done, &mut |event| {
        unfinished.hear(&event);
        bar.show(event);
    })?;
    Ok((evaluation, unfinished))
}
