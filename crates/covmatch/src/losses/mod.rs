//! The losses of the paper: pure functions, tensors in, scalar out.
//!
//! | loss                                      | trains                                |
//! |-------------------------------------------|---------------------------------------|
//! | [`info_nce()`]                            | the model, online and in evaluation   |
//! | [`mod@cross_covariance`]: `L_cov`         | the synthetic pairs                   |
//! | [`mod@feature_matching`]: `L_feat`        | the synthetic pairs                   |
//! | [`PairLoss`]                              | students, with a learned similarity   |

pub mod cross_covariance;
pub mod feature_matching;
pub mod info_nce;
pub mod pair_loss;

pub use cross_covariance::{CovarianceLoss, covariance_loss};
pub use feature_matching::feature_loss;
pub use info_nce::info_nce;
pub use pair_loss::PairLoss;
