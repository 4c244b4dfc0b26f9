//! What a trajectory method does where the configuration leaves it open.

use crate::config::{Config, Units, Unroll};
use crate::losses::PairLoss;

/// The settings of a published method.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Defaults {
    /// What the students minimise.
    pub loss: PairLoss,
    /// How far gradients reach in a student's training.
    pub unroll: Unroll,
    /// Rank of the learned similarity; 0 learns none.
    pub rank: usize,
    /// Pairs in a student's step.
    pub student_batch: usize,
    /// Learning rate of pixels and captions in absolute units, for 100 pairs and the authors' encoders.
    pub rate: f32,
}

/// A method whose settings were published.
pub trait Published: 'static {
    /// Its settings.
    const DEFAULTS: Defaults;
}

/// The settings of a method, those that are left out filled in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Settings {
    pub loss: PairLoss,
    pub unroll: Unroll,
    pub rank: usize,
    pub student_batch: usize,
    pub tau: f32,
    /// The most that a gradient changes in a step, relative to its size.
    pub max_change: f32,
}

impl Settings {
    pub(super) fn of<P: Published>(config: &Config) -> Self {
        let (own, pairs) = (&config.trajectory, config.distill.pairs);
        let Defaults { loss, unroll, rank, student_batch, .. } = P::DEFAULTS;
        let unroll = own.unroll.unwrap_or(unroll);
        let max_change = match (unroll, config.distill.units) {
            (Unroll::Full, Units::Relative) => 0.1,
            _ => f32::INFINITY,
        };
        Self {
            loss: own.loss.unwrap_or(loss),
            unroll,
            rank: own.rank.unwrap_or(rank),
            student_batch: own.student_batch.unwrap_or(student_batch).min(pairs),
            tau: own.tau.unwrap_or(config.head.tau),
            max_change: own.max_change.unwrap_or(max_change),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::methods::trajectory::{Lors, MttVl};

    #[test]
    fn steps_are_bounded_where_gradients_go_through_all_steps_in_relative_units() {
        fn most<P: Published>(fields: &[&str]) -> f32 {
            let text = "[data.scenes]\n[image]\nencoder = 'nfnet_scenes'\nweights = 'built-in'\n\
                        [text]\nencoder = 'bert_scenes'\nweights = 'built-in'\n";
            let fields: Vec<String> = fields.iter().map(|&field| field.to_owned()).collect();
            Settings::of::<P>(&Config::parse("small.toml", text, &fields).unwrap()).max_change
        }
        assert_eq!(most::<MttVl>(&[]), 0.1);
        assert_eq!(most::<MttVl>(&["trajectory.max_change=0.3"]), 0.3);
        assert_eq!(most::<MttVl>(&["distill.units=absolute"]), f32::INFINITY);
        assert_eq!(most::<Lors>(&[]), f32::INFINITY);
        assert_eq!(most::<Lors>(&["trajectory.unroll=full"]), 0.1);
    }
}
