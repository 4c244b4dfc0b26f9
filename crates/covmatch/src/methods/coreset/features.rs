//! Joint features of the train entries: under the pretrained encoders, or under a model that was warmed up.
//!
//! ```text
//! without warm-up   h_v, h_l   before the heads, which are random
//! with warm-up      z_v, z_l   after the heads
//! ```

use burn::tensor::Tensor;

use super::joint::{JointFeatures, Rows};
use crate::data::Split;
use crate::encoders::text::encode_by_length;
use crate::encoders::{EncoderError, Mode};
use crate::experiment::{Experiment, ExperimentError};
use crate::model::Model;

/// Features before the heads, of the pretrained encoders.
pub(super) fn pretrained_features(experiment: &Experiment) -> Result<JointFeatures, ExperimentError> {
    let (visual, text) = (&experiment.pretrained.visual, &experiment.pretrained.text);
    train_features(
        experiment,
        |pixels| visual.encode(pixels),
        |embedded, mask| encode_by_length(text, embedded, mask, &mut Mode::Eval),
    )
}

/// Features after the heads of `model`.
pub(super) fn projected_features(experiment: &Experiment, model: &Model) -> Result<JointFeatures, ExperimentError> {
    let eval = || Mode::Eval;
    train_features(
        experiment,
        |pixels| model.project_image(model.visual.encode(pixels)?, &mut eval()),
        |embedded, mask| {
            let features = encode_by_length(&model.text, embedded, mask, &mut eval())?;
            model.text_head.forward(features, &mut eval())
        },
    )
}

/// What `image` makes of pixels `[n, 3, t, h, w]` and `text` of captions `[n, l, d_l]` with their mask `[n, l]`, for
/// every entry of the train split.
fn train_features(
    experiment: &Experiment,
    image: impl Fn(Tensor<5>) -> Result<Tensor<2>, EncoderError>,
    text: impl Fn(Tensor<3>, Tensor<2>) -> Result<Tensor<2>, EncoderError>,
) -> Result<JointFeatures, ExperimentError> {
    let gallery = experiment.dataset.gallery(Split::Train);
    let images = experiment.encode_images(gallery.images, image)?;
    let captions = experiment.encode_captions(&gallery.captions, text)?;
    Ok(JointFeatures::new(rows(images), rows(captions), gallery.owners))
}

fn rows(features: Tensor<2>) -> Rows {
    let width = features.dims()[1];
    Rows { values: features.into_data().iter::<f32>().collect(), width }
}
