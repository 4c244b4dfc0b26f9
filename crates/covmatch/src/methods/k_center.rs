//! K-Center: greedily the entry farthest from those chosen, so that none of all is far from one of them.
//!
//! ```text
//! entry 0 = the one nearest to the mean
//! entry t = argmax_i min_c || f_i - f_c ||^2        c: those chosen
//! ```

use super::coreset::{Free, JointFeatures};
use super::selection::{by_joint_features, coreset_work};
use super::{EpochDone, Method, MethodError};
use crate::experiment::Experiment;

/// The entry of K-Center.
pub fn method() -> Method {
    Method { work: coreset_work(choose), ..Method::selects("k-center", "K-Center", choose) }.with_sections(&["select"])
}

fn choose(experiment: &Experiment, progress: &mut dyn FnMut(EpochDone)) -> Result<Vec<u32>, MethodError> {
    by_joint_features(experiment, progress, k_center)
}

/// `count` entries, or as many as there are images.
pub fn k_center(features: &JointFeatures, count: usize) -> Vec<usize> {
    let (mut free, mut chosen) = (Free::new(features), Vec::with_capacity(count));
    let mut nearest = vec![f64::INFINITY; features.len()];
    let to_mean = features.times(&features.mean());
    let mut next = free.best(features, |entry| to_mean[entry]);
    while let Some(entry) = next.filter(|_| chosen.len() < count) {
        free.take(features, entry);
        chosen.push(entry);
        // All have norm sqrt(2): the squared distance is 4 - 2 f_i . f_c.
        let products = features.times(&features.entry(entry));
        nearest.iter_mut().zip(&products).for_each(|(near, product)| *near = near.min(4.0 - 2.0 * product));
        next = free.best(features, |entry| nearest[entry]);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::coreset::joint::tests::{brute, features};

    fn distance(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(x, y)| (x - y).powi(2)).sum()
    }

    #[test]
    fn it_follows_the_definition() {
        let (all, image_of) = brute();
        let chosen = k_center(&features(), 6);
        for (t, &entry) in chosen.iter().enumerate().skip(1) {
            let near = |i: usize| chosen[..t].iter().map(|&c| distance(&all[i], &all[c])).fold(f64::INFINITY, f64::min);
            let free = (0..all.len()).filter(|&i| chosen[..t].iter().all(|&c| image_of[c] != image_of[i]));
            let farthest = free.map(near).fold(0.0, f64::max);
            assert!((near(entry) - farthest).abs() < 1e-5, "{t}: {} {farthest}", near(entry));
        }
        let width = all[0].len();
        let mean: Vec<f64> = (0..width).map(|j| all.iter().map(|f| f[j]).sum::<f64>() / all.len() as f64).collect();
        let nearest = all.iter().map(|f| distance(f, &mean)).fold(f64::INFINITY, f64::min);
        assert!((distance(&all[chosen[0]], &mean) - nearest).abs() < 1e-5);
    }

    #[test]
    fn no_image_is_taken_twice() {
        let (_, image_of) = brute();
        let chosen = k_center(&features(), 1000);
        let mut images: Vec<u32> = chosen.iter().map(|&entry| image_of[entry]).collect();
        images.sort_unstable();
        assert_eq!(images, (0..8).collect::<Vec<_>>());
    }
}
