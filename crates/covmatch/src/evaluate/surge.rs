//! A loss that shoots up while a model is trained: its result says more about the rates than about the pairs.
//!
//! ```text
//! epoch e surges      loss_e - min_{f < e} loss_f > 1/2 loss_0
//! ```
//! The first epoch's loss is the measure, so that the rule is the same for any loss, batch and temperature.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The part of the first epoch's loss by which a loss climbs that shoots up.
const CLIMB: f32 = 0.5;

/// Where a loss shot up: the highest climb.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Surge {
    /// The epoch, from 0.
    pub epoch: usize,
    /// Its mean loss.
    pub loss: f32,
    /// The lowest loss of an epoch before it.
    pub lowest: f32,
}

impl fmt::Display for Surge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the loss shot up in epoch {}, from {:.2} to {:.2}", self.epoch + 1, self.lowest, self.loss)
    }
}

/// The mean losses of the epochs of a training.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses(Vec<f32>);

impl Losses {
    /// The next epoch had `loss`.
    pub(super) fn see(&mut self, loss: f32) {
        self.0.push(loss);
    }

    /// The loss of the last epoch.
    pub(super) fn last(&self) -> f32 {
        self.0.last().copied().unwrap_or(f32::NAN)
    }

    /// Where the loss climbs the highest, if it shoots up at all.
    pub(super) fn surge(&self) -> Option<Surge> {
        let (first, mut lowest, mut highest) = (*self.0.first()?, f32::INFINITY, None::<Surge>);
        for (epoch, &loss) in self.0.iter().enumerate() {
            let climb = loss - lowest;
            if climb > CLIMB * first && highest.is_none_or(|surge| climb > surge.loss - surge.lowest) {
                highest = Some(Surge { epoch, loss, lowest });
            }
            lowest = lowest.min(loss);
        }
        highest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surge(losses: &[f32]) -> Option<Surge> {
        Losses(losses.to_vec()).surge()
    }

    #[test]
    fn a_loss_that_falls_or_wavers_does_not_shoot_up() {
        assert_eq!(surge(&[]), None);
        assert_eq!(surge(&[4.0]), None);
        assert_eq!(surge(&[4.0, 5.9, 3.0, 1.0, 2.5, 0.5, 0.1]), None);
    }

    #[test]
    fn the_highest_climb_is_told() {
        let found = surge(&[4.0, 1.0, 3.5, 0.5, 6.5, 0.2, 2.5]);
        assert_eq!(found, Some(Surge { epoch: 4, loss: 6.5, lowest: 0.5 }));
        assert_eq!(
            found.map(|surge| surge.to_string()).as_deref(),
            Some("the loss shot up in epoch 5, from 0.50 to 6.50")
        );
    }
}
