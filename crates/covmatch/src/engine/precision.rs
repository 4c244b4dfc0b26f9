//! In which precision the CPU kernels multiply matrices.

use std::fmt;
use std::str::FromStr;

use covmatch_kernels::{Bf16Missing, Precision, precision, set_precision, simd};

/// A precision by name, as `--precision` takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrecisionChoice {
    /// f32 throughout.
    #[default]
    F32,
    /// Operands of large products in bf16, sums and everything else in f32; an error where the CPU has no such products.
    Bf16,
    /// [`Bf16`](Self::Bf16) where the CPU has such products, [`F32`](Self::F32) elsewhere.
    Auto,
}

/// Why a precision cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrecisionError {
    /// The text names no precision.
    #[error("'{0}' is not a precision: use f32, bf16 or auto")]
    Unknown(String),
    /// The CPU has no products of bf16 values.
    #[error("{0}: use --precision f32, or auto for the best there is")]
    Missing(#[from] Bf16Missing),
}

impl PrecisionChoice {
    /// Every product of the CPU kernels is computed in this precision from now on.
    pub fn set(self) -> Result<(), PrecisionError> {
        Ok(set_precision(self.resolve())?)
    }

    /// What [`Auto`](Self::Auto) stands for on this machine; any other choice is itself.
    fn resolve(self) -> Precision {
        match self {
            PrecisionChoice::F32 => Precision::F32,
            PrecisionChoice::Bf16 => Precision::Bf16,
            PrecisionChoice::Auto if simd::bf16().is_some() => Precision::Bf16,
            PrecisionChoice::Auto => Precision::F32,
        }
    }
}

/// The precision in which the CPU kernels multiply matrices, in a word: `f32` or `bf16`.
pub fn precision_name() -> &'static str {
    match precision() {
        Precision::F32 => "f32",
        Precision::Bf16 => "bf16",
    }
}

impl FromStr for PrecisionChoice {
    type Err = PrecisionError;

    fn from_str(text: &str) -> Result<Self, PrecisionError> {
        match text {
            "f32" => Ok(PrecisionChoice::F32),
            "bf16" => Ok(PrecisionChoice::Bf16),
            "auto" => Ok(PrecisionChoice::Auto),
            _ => Err(PrecisionError::Unknown(text.to_owned())),
        }
    }
}

impl fmt::Display for PrecisionChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PrecisionChoice::F32 => "f32",
            PrecisionChoice::Bf16 => "bf16",
            PrecisionChoice::Auto => "auto",
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_name_parses_and_prints_back() {
        for name in ["f32", "bf16", "auto"] {
            assert_eq!(name.parse::<PrecisionChoice>().unwrap().to_string(), name);
        }
        let error = "fp16".parse::<PrecisionChoice>().unwrap_err();
        assert!(error.to_string().contains("f32, bf16 or auto"), "{error}");
    }

    #[test]
    fn auto_is_bf16_where_the_machine_has_it() {
        let best = if simd::bf16().is_some() { Precision::Bf16 } else { Precision::F32 };
        assert_eq!(PrecisionChoice::Auto.resolve(), best);
    }

    #[test]
    fn a_missing_precision_says_what_is_missing_and_what_to_do() {
        let text = PrecisionError::from(Bf16Missing).to_string();
        assert!(text.contains("avx512_bf16") && text.contains("--precision f32"), "{text}");
    }
}
