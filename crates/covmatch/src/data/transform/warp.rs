//! Affine warps with bilinear interpolation; what comes from outside of the picture has the colour [`FILL`].
//!
//! `out(x, y) = in(a x + b y + c, d x + e y + f)`. Coordinates have 32 fractional bits and weights 8.

use std::ops::Range;

use super::FILL;

/// Where a pixel of the result comes from: `[a, b, c, d, e, f]`.
pub(super) type Affine = [f64; 6];

/// Writes the picture of `width` columns that `source` makes of `pixels` into `out`.
pub(super) fn warp(pixels: &[u8], out: &mut [u8], width: usize, source: Affine) {
    let [a, b, c, d, e, f] = source;
    let picture = Picture { pixels, width, height: pixels.len() / (width * 3) };
    for (y, row) in out.chunks_exact_mut(width * 3).enumerate() {
        let y = y as f64;
        let line = Line { x: fixed(b * y + c), y: fixed(e * y + f), step_x: fixed(a), step_y: fixed(d) };
        picture.sample(line, row.as_chunks_mut::<3>().0);
    }
}

/// Writes the picture of `width` columns, moved to the left by `dx` and up by `dy` pixels, into `out`.
pub(super) fn shift(pixels: &[u8], out: &mut [u8], width: usize, dx: i64, dy: i64) {
    let picture = Picture { pixels, width, height: pixels.len() / (width * 3) };
    let taken = (dx.max(0) as usize).min(width)..((width as i64 + dx.min(0)).max(0) as usize);
    for (y, row) in (0i64..).zip(out.chunks_exact_mut(width * 3)) {
        row.fill(FILL);
        if let Some(from) = picture.row(y + dy).and_then(|from| from.get(taken.start * 3..taken.end * 3)) {
            let at = (-dx.min(0) as usize).min(width) * 3;
            row[at..at + from.len()].copy_from_slice(from);
        }
    }
}

/// The points from which a row of the result comes, in units of 2^-32 pixels.
#[derive(Clone, Copy)]
struct Line {
    x: i64,
    y: i64,
    step_x: i64,
    step_y: i64,
}

struct Picture<'a> {
    pixels: &'a [u8],
    width: usize,
    height: usize,
}

impl Picture<'_> {
    fn sample(&self, line: Line, row: &mut [[u8; 3]]) {
        let inside = self.inside(line, row.len());
        let at = |x: usize| (line.x + line.step_x * x as i64, line.y + line.step_y * x as i64);
        for x in (0..inside.start).chain(inside.end..row.len()) {
            let (sx, sy) = at(x);
            row[x] = self.at_border(sx, sy);
        }
        let stride = self.width * 3;
        let (mut sx, mut sy) = at(inside.start);
        for pixel in &mut row[inside] {
            let i = (sy >> 32) as usize * stride + (sx >> 32) as usize * 3;
            let corners = (&self.pixels[i..i + 6], &self.pixels[i + stride..i + stride + 6]);
            *pixel = blend(corners.0, corners.1, weight(sx), weight(sy));
            sx += line.step_x;
            sy += line.step_y;
        }
    }

    /// The part of a row whose four neighbours all lie in the picture.
    fn inside(&self, line: Line, length: usize) -> Range<usize> {
        let columns = steps_within(line.x, line.step_x, (self.width as i64 - 1) << 32, length);
        let rows = steps_within(line.y, line.step_y, (self.height as i64 - 1) << 32, length);
        let start = columns.start.max(rows.start);
        start..columns.end.min(rows.end).max(start)
    }

    fn at_border(&self, sx: i64, sy: i64) -> [u8; 3] {
        let (left, top) = (sx >> 32, sy >> 32);
        let pair = |y: i64| {
            let ([a, b, c], [d, e, f]) = (self.pixel_or_fill(left, y), self.pixel_or_fill(left + 1, y));
            [a, b, c, d, e, f]
        };
        blend(&pair(top), &pair(top + 1), weight(sx), weight(sy))
    }

    fn pixel_or_fill(&self, x: i64, y: i64) -> [u8; 3] {
        let column = usize::try_from(x).ok().filter(|&x| x < self.width);
        let pixel = self.row(y).zip(column).and_then(|(row, x)| row[x * 3..].first_chunk());
        *pixel.unwrap_or(&[FILL; 3])
    }

    fn row(&self, y: i64) -> Option<&[u8]> {
        let stride = self.width * 3;
        let y = usize::try_from(y).ok().filter(|&y| y < self.height)?;
        self.pixels.get(y * stride..(y + 1) * stride)
    }
}

/// The steps `k` of `0..length` with `0 <= start + k * step < end`.
fn steps_within(start: i64, step: i64, end: i64, length: usize) -> Range<usize> {
    let length = length as i64;
    let (first, last) = match step {
        0 if (0..end).contains(&start) => (0, length),
        0 => (0, 0),
        1.. => (ceil_div(-start, step), ceil_div(end - start, step)),
        _ => (ceil_div(start - end + 1, -step), ceil_div(start + 1, -step)),
    };
    let first = first.clamp(0, length);
    first as usize..last.clamp(first, length) as usize
}

fn ceil_div(a: i64, b: i64) -> i64 {
    a.div_euclid(b) + i64::from(a.rem_euclid(b) > 0)
}

/// The colour at `x / 256` to the right and `y / 256` down, between two pixels of a row and those below them.
#[inline(always)]
fn blend(top: &[u8], bottom: &[u8], x: u32, y: u32) -> [u8; 3] {
    let weights = [(256 - x) * (256 - y), x * (256 - y), (256 - x) * y, x * y];
    std::array::from_fn(|c| {
        let corners = [top[c], top[c + 3], bottom[c], bottom[c + 3]].map(u32::from);
        let sum: u32 = corners.iter().zip(weights).map(|(corner, weight)| corner * weight).sum();
        ((sum + (1 << 15)) >> 16) as u8
    })
}

fn fixed(x: f64) -> i64 {
    (x * 4_294_967_296.0).round() as i64
}

/// The upper 8 fractional bits.
#[inline(always)]
fn weight(x: i64) -> u32 {
    (x >> 24) as u32 & 0xff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_within_agree_with_trying_each() {
        for start in -20..20 {
            for step in -4..5 {
                let tried: Vec<usize> = (0..12).filter(|&k| (0..10).contains(&(start + step * k as i64))).collect();
                let range = steps_within(start, step, 10, 12);
                assert_eq!(range.collect::<Vec<_>>(), tried, "{start} {step}");
            }
        }
    }

    #[test]
    fn a_shift_is_the_warp_by_whole_pixels() {
        let pixels: Vec<u8> = (0..7 * 5 * 3).map(|i| (i * 37 % 256) as u8).collect();
        let (mut shifted, mut warped) = (vec![0; pixels.len()], vec![0; pixels.len()]);
        for dx in -8..9 {
            for dy in -6..7 {
                shift(&pixels, &mut shifted, 7, dx, dy);
                warp(&pixels, &mut warped, 7, [1.0, 0.0, dx as f64, 0.0, 1.0, dy as f64]);
                assert_eq!(shifted, warped, "{dx} {dy}");
            }
        }
    }
}
