//! Bounds on the elements of a result.

/// Bounds that C is clamped to when it is stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Clamp {
    /// Lower bound.
    pub(crate) low: f32,
    /// Upper bound.
    pub(crate) high: f32,
}

impl Clamp {
    /// No bounds.
    pub(crate) const NONE: Clamp = Clamp { low: f32::NEG_INFINITY, high: f32::INFINITY };
    /// `max(c, 0)`.
    pub(crate) const RELU: Clamp = Clamp { low: 0.0, high: f32::INFINITY };
    /// `min(max(c, 0), 6)`.
    pub(crate) const RELU6: Clamp = Clamp { low: 0.0, high: 6.0 };

    /// The clamped value; NaN stays NaN.
    pub(crate) fn apply(self, v: f32) -> f32 {
        if v < self.low {
            self.low
        } else if v > self.high {
            self.high
        } else {
            v
        }
    }
}
