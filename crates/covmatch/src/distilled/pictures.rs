//! Normalised pixels as pictures to look at.

use std::path::Path;

use burn::tensor::Tensor;

use crate::data::RgbImage;
use crate::data::inspect::encode_png;
use crate::data::transform::{ChannelOrder, Normalization};
use crate::files::{self, WriteError};

/// Pair `index` of `pixels` `[n, 3, t, h, w]` as colours, clipped to what a screen shows; of a clip, the middle frame.
pub fn picture(pixels: &Tensor<5>, index: usize, normalization: &Normalization) -> RgbImage {
    let [_, _, frames, height, width] = pixels.dims();
    let frame = pixels.clone().narrow(0, index, 1).narrow(2, frames / 2, 1);
    let values: Vec<f32> = frame.into_data().iter::<f32>().collect(); // [3, h, w]
    let plane = height * width;
    let colour = |channel: usize, at: usize| {
        let x = values[channel * plane + at] * normalization.std[channel] + normalization.mean[channel];
        (x.clamp(0.0, 1.0) * 255.0).round() as u8
    };
    let channels = match normalization.order {
        ChannelOrder::Rgb => [0, 1, 2],
        ChannelOrder::Bgr => [2, 1, 0],
    };
    let pixels = (0..plane).flat_map(|at| channels.map(|channel| colour(channel, at))).collect();
    RgbImage { width, height, pixels }
}

/// Name of the picture of pair `index` in the set's folder.
pub fn file_name(index: usize) -> String {
    format!("images/{index:04}.png")
}

/// Writes a view of every pair to `folder/images`.
pub fn save_pictures(folder: &Path, pixels: &Tensor<5>, normalization: &Normalization) -> Result<(), WriteError> {
    let images = folder.join("images");
    std::fs::create_dir_all(&images).map_err(|cause| WriteError::new(&images, cause))?;
    for index in 0..pixels.dims()[0] {
        let path = folder.join(file_name(index));
        let png = encode_png(&picture(pixels, index, normalization))
            .map_err(|cause| WriteError::new(&path, std::io::Error::other(cause.to_string())))?;
        files::write(&path, &png)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn colours_come_back_in_red_green_blue_and_are_clipped() {
        let device = Device::flex();
        let colours = [0.2f32, 0.6, 1.0];
        for order in [ChannelOrder::Rgb, ChannelOrder::Bgr] {
            let normalization = Normalization { order, mean: [0.1, 0.2, 0.3], std: [0.5, 0.25, 2.0] };
            let channel = |c: usize| if order == ChannelOrder::Rgb { c } else { 2 - c };
            let value = |c: usize| (colours[channel(c)] - normalization.mean[c]) / normalization.std[c];
            let pixels = Tensor::<1>::from_floats([value(0), value(1), value(2)], &device).reshape([1, 3, 1, 1, 1]);
            assert_eq!(picture(&pixels, 0, &normalization).pixels, [51, 153, 255]);
            let bright = pixels.add_scalar(100.0);
            assert_eq!(picture(&bright, 0, &normalization).pixels, [255, 255, 255]);
        }
    }
}
