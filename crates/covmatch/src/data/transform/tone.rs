//! Operations that change colours in place: contrast, brightness, sharpness, histogram equalisation.

/// Each colour's values are stretched so that they reach from 0 to 255.
pub(super) fn auto_contrast(pixels: &mut [u8]) {
    map_colours(pixels, |histogram| {
        let low = histogram.iter().position(|&count| count > 0)?;
        let high = histogram.iter().rposition(|&count| count > 0)?;
        let scale = 255.0 / (high.checked_sub(low).filter(|&range| range > 0)? as f64);
        let offset = -(low as f64) * scale;
        Some(std::array::from_fn(|value| (value as f64 * scale + offset).clamp(0.0, 255.0) as u8))
    });
}

/// Each colour's values are spread so that all are equally frequent, as far as whole values allow: PIL's algorithm.
pub(super) fn equalize(pixels: &mut [u8]) {
    map_colours(pixels, |histogram| {
        let last = *histogram.iter().rfind(|&&count| count > 0)?;
        let step = (histogram.iter().sum::<u32>() - last) / 255;
        let mut below = step / 2;
        (step > 0).then(|| {
            histogram.map(|count| {
                let level = (below / step).min(255) as u8;
                below += count;
                level
            })
        })
    });
}

/// Values times `factor`.
pub(super) fn brightness(pixels: &mut [u8], factor: f32) {
    let table: [u8; 256] = std::array::from_fn(|value| (value as f32 * factor).clamp(0.0, 255.0) as u8);
    pixels.iter_mut().for_each(|value| *value = table[usize::from(*value)]);
}

/// Writes `smooth + factor * (pixels - smooth)` into `out`; `smooth` is the mean of 3 x 3 pixels with weight 5 in the
/// middle. The outermost pixels stay as they are.
pub(super) fn sharpness(pixels: &[u8], out: &mut [u8], width: usize, factor: f32) {
    out.copy_from_slice(pixels);
    let stride = width * 3;
    let height = pixels.len() / stride;
    for y in 1..height.saturating_sub(1) {
        for i in y * stride + 3..(y + 1) * stride - 3 {
            let row = |i: usize| u32::from(pixels[i - 3]) + u32::from(pixels[i]) + u32::from(pixels[i + 3]);
            let sum = row(i - stride) + row(i) + row(i + stride) + 4 * u32::from(pixels[i]);
            let smooth = ((2 * sum + 13) / 26) as f32; // sum / 13, rounded
            out[i] = (smooth + factor * (f32::from(pixels[i]) - smooth)).clamp(0.0, 255.0) as u8;
        }
    }
}

/// Replaces each colour's values by those of a table made from its histogram; no table, no change.
fn map_colours(pixels: &mut [u8], table: impl Fn([u32; 256]) -> Option<[u8; 256]>) {
    let pixels = pixels.as_chunks_mut::<3>().0;
    let mut histograms = [[0u32; 256]; 3];
    for pixel in pixels.iter() {
        for (histogram, &value) in histograms.iter_mut().zip(pixel) {
            histogram[usize::from(value)] += 1;
        }
    }
    let unchanged: [u8; 256] = std::array::from_fn(|value| value as u8);
    let [red, green, blue] = histograms.map(|histogram| table(histogram).unwrap_or(unchanged));
    for [r, g, b] in pixels {
        *r = red[usize::from(*r)];
        *g = green[usize::from(*g)];
        *b = blue[usize::from(*b)];
    }
}
