//! Bicubic resampling as PIL does it: convolution with the Catmull-Rom kernel (`a = -0.5`), widened by the scale when a
//! picture shrinks, on 8-bit colours; first along rows, then along columns, rounded to 8 bits in between. (Pillow 13
//! takes columns first when the height shrinks much more than the width, which moves single values by a level or two.)
//!
//! The crop is a view: what lies outside of it takes no part, as if it had been cut out first.

use fast_image_resize::images::{TypedCroppedImage, TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8x3;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};

use super::{Crop, RgbView};
use crate::data::DataError;

/// Writes `crop` of `picture`, resized to `size` x `size` pixels, into `out`; `rows` holds the resized rows.
pub(super) fn bicubic(
    picture: RgbView<'_>,
    crop: Crop,
    size: usize,
    resizer: &mut Resizer,
    rows: &mut Vec<u8>,
    out: &mut [u8],
) -> Result<(), DataError> {
    let Crop { left, top, width, height } = crop;
    if width == 0 || height == 0 || left + width > picture.width || top + height > picture.height {
        return Err(picture.failed(format!("{crop:?} does not lie in it")));
    }
    let failed = |cause: String| picture.failed(cause);
    let [columns, lines, left, top, width, height, size] =
        [picture.width, picture.height, left, top, width, height, size].map(|side| side as u32);
    rows.resize(size as usize * height as usize * 3, 0);
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::CatmullRom));

    let whole = TypedImageRef::<U8x3>::from_buffer(columns, lines, picture.pixels);
    let whole = whole.map_err(|cause| failed(cause.to_string()))?;
    let cropped = TypedCroppedImage::from_ref(&whole, left, top, width, height);
    let cropped = cropped.map_err(|cause| failed(cause.to_string()))?;
    let mut narrow = typed(size, height, rows).map_err(failed)?;
    resizer.resize_typed(&cropped, &mut narrow, &options).map_err(|cause| failed(cause.to_string()))?;
    let mut square = typed(size, size, out).map_err(failed)?;
    resizer.resize_typed(&narrow, &mut square, &options).map_err(|cause| failed(cause.to_string()))
}

fn typed(width: u32, height: u32, pixels: &mut [u8]) -> Result<TypedImage<'_, U8x3>, String> {
    TypedImage::from_buffer(width, height, pixels).map_err(|cause| cause.to_string())
}
