//! Herding: entries whose running mean stays close to the mean of all (Welling 2009).
//!
//! ```text
//! entry t = argmin_i || (t + 1) mu - (sum of those chosen + f_i) ||  =  argmax_i f_i . ((t + 1) mu - sum)
//! ```
//! All joint features have the same norm, so the nearest is the one with the largest inner product. The first `N` of an
//! ordering are what a smaller `N` chooses.

use super::coreset::{Free, JointFeatures};
use super::selection::{by_joint_features, coreset_work};
use super::{EpochDone, Method, MethodError};
use crate::experiment::Experiment;

/// The entry of Herding.
pub fn method() -> Method {
    Method { work: coreset_work(choose), ..Method::selects("herding", "Herding", choose) }.with_sections(&["select"])
}

fn choose(experiment: &Experiment, progress: &mut dyn FnMut(EpochDone)) -> Result<Vec<u32>, MethodError> {
    by_joint_features(experiment, progress, herding)
}

/// `count` entries, or as many as there are images.
pub fn herding(features: &JointFeatures, count: usize) -> Vec<usize> {
    let mean = features.mean();
    let mut target = mean.clone(); // (t + 1) mu - sum
    let (mut free, mut chosen) = (Free::new(features), Vec::with_capacity(count));
    while chosen.len() < count {
        let scores = features.times(&target);
        let Some(entry) = free.best(features, |entry| scores[entry]) else { break };
        free.take(features, entry);
        chosen.push(entry);
        target.add(-1.0, &features.entry(entry));
        target.add(1.0, &mean);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::coreset::joint::tests::{brute, features};

    /// The definition: the distance itself, over all entries of images that are free.
    fn by_definition(count: usize) -> Vec<usize> {
        let (all, image_of) = brute();
        let width = all[0].len();
        let mean: Vec<f64> = (0..width).map(|j| all.iter().map(|f| f[j]).sum::<f64>() / all.len() as f64).collect();
        let mut chosen: Vec<usize> = Vec::new();
        while chosen.len() < count {
            let distance = |i: usize| {
                let t = chosen.len() as f64 + 1.0;
                let sum = |j: usize| chosen.iter().chain(&[i]).map(|&c| all[c][j]).sum::<f64>();
                (0..width).map(|j| (t * mean[j] - sum(j)).powi(2)).sum::<f64>()
            };
            let free = (0..all.len()).filter(|&i| chosen.iter().all(|&c| image_of[c] != image_of[i]));
            let Some(best) = free.min_by(|&a, &b| distance(a).total_cmp(&distance(b))) else { break };
            chosen.push(best);
        }
        chosen
    }

    #[test]
    fn it_follows_the_definition_and_smaller_sets_are_prefixes() {
        let chosen = herding(&features(), 6);
        assert_eq!(chosen, by_definition(6));
        assert_eq!(herding(&features(), 3), chosen[..3]);
    }

    #[test]
    fn it_ends_when_every_image_is_taken() {
        assert_eq!(herding(&features(), 1000).len(), 8);
    }
}
