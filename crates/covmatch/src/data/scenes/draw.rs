//! Pictures from places: background, marks, then each object with its shadow, back to front; at last the light.
//!
//! An edge pixel gets the part of it that the shape covers, `clamp(0.5 - d)` with `d` the signed distance in pixels.
//! Only f32 additions, products, quotients and square roots are used, which IEEE 754 fixes to the bit.

use std::f32::consts::FRAC_1_SQRT_2;

use super::attributes::{Background, Fill, Light};
use super::background;
use super::layout::Placed;
use super::look::{Look, Mark};
use super::math::{length, nearest, sin_cos};
use super::shape;
use crate::data::RgbImage;

/// A picture under way, in red, green, blue of 0 to 255.
#[derive(Clone)]
pub struct Canvas {
    size: usize,
    rgb: Vec<[f32; 3]>,
}

impl Canvas {
    /// The background with its clutter.
    pub fn new(size: usize, background: Background, look: &Look) -> Self {
        let pixel = 1.0 / size.max(1) as f32;
        let at = |i: usize| (i as f32 + 0.5) * pixel;
        let rgb = (0..size * size).map(|i| background::colour(background, look, at(i % size), at(i / size))).collect();
        let mut canvas = Self { size, rgb };
        look.marks.iter().for_each(|mark| canvas.mark(mark));
        canvas
    }

    /// Draws the objects, the last first, so that an earlier one covers a later one.
    pub fn objects(&mut self, placed: &[Placed], look: &Look) {
        for (i, object) in placed.iter().enumerate().rev() {
            if object.radius * self.size as f32 <= 0.5 {
                continue; // less than a pixel: not there yet, or gone
            }
            self.shadow(object, look);
            self.object(object, look, look.casts[i % look.casts.len()]);
        }
    }

    /// Lights the picture and rounds it to bytes.
    pub fn finish(&self, light: Light, look: &Look) -> RgbImage {
        let level = match light {
            Light::Bright => [1.0, 1.0, 1.0],
            Light::Dim => [0.56, 0.57, 0.63],
        };
        let level = level.map(|channel| channel * look.exposure);
        let across = 2.0 / self.size.max(1) as f32;
        let mut pixels = Vec::with_capacity(self.rgb.len() * 3);
        for (y, row) in self.rgb.chunks_exact(self.size.max(1)).enumerate() {
            let down = look.light.1 * (y as f32 * across - 1.0);
            for (x, rgb) in row.iter().enumerate() {
                let fall = 1.0 + 0.13 * (down + look.light.0 * (x as f32 * across - 1.0));
                pixels.extend((0..3).map(|c| (rgb[c] * level[c] * fall + 0.5) as u8)); // `as` saturates
            }
        }
        RgbImage { width: self.size, height: self.size, pixels }
    }

    /// Calls `paint` with each pixel within `reach` of `(x, y)` and the pixel's place relative to it (unit: width).
    fn around(&mut self, x: f32, y: f32, reach: f32, mut paint: impl FnMut(&mut [f32; 3], f32, f32)) {
        let size = self.size as f32;
        let first = |centre: f32| ((centre - reach) * size).floor().clamp(0.0, size) as usize;
        let last = |centre: f32| ((centre + reach) * size).ceil().clamp(0.0, size) as usize;
        for j in first(y)..last(y) {
            let dy = (j as f32 + 0.5) / size - y;
            for i in first(x)..last(x) {
                let dx = (i as f32 + 0.5) / size - x;
                paint(&mut self.rgb[j * self.size + i], dx, dy);
            }
        }
    }

    fn mark(&mut self, mark: &Mark) {
        let size = self.size as f32;
        let (hx, hy) = mark.half;
        let squared = (hx * hx + hy * hy).max(1e-9);
        self.around(mark.x, mark.y, 0.05, |rgb, dx, dy| {
            let along = ((dx * hx + dy * hy) / squared).clamp(-1.0, 1.0);
            let (ox, oy) = (dx - along * hx, dy - along * hy);
            let distance = length(ox, oy) - mark.radius;
            blend(rgb, mark.rgb, 0.75 * coverage(distance * size));
        });
    }

    /// Darkens what lies on the far side of the light, softly.
    fn shadow(&mut self, placed: &Placed, look: &Look) {
        let throw = 0.25 * placed.radius;
        let (x, y) = (placed.x - look.light.0 * throw, placed.y - look.light.1 * throw);
        let soft = 0.3 * placed.radius;
        let frame = Frame::new(placed, self.size);
        self.around(x, y, placed.radius * 1.35, |rgb, dx, dy| {
            let distance = frame.distance(dx, dy);
            let dark = look.shadow * (0.5 - distance / soft).clamp(0.0, 1.0);
            blend(rgb, [0.0, 0.0, 10.0], dark);
        });
    }

    fn object(&mut self, placed: &Placed, look: &Look, cast: [f32; 3]) {
        let size = self.size as f32;
        let frame = Frame::new(placed, self.size);
        let tones = [placed.object.colour.rgb(), placed.object.colour.accent()]
            .map(|rgb| std::array::from_fn(|c| rgb[c] * cast[c]));
        self.around(placed.x, placed.y, placed.radius * 1.15, |rgb, dx, dy| {
            let distance = frame.distance(dx, dy) * size;
            if distance >= 0.5 {
                return;
            }
            let shine = 1.0 + 0.16 * (look.light.0 * dx + look.light.1 * dy) / placed.radius;
            let rim = 1.0 - 0.22 * coverage(-distance - 1.2);
            let mut tone: [f32; 3] = tones[0];
            blend(&mut tone, tones[1], frame.pattern(dx, dy) * coverage(distance + 0.7)); // not on the edge
            blend(rgb, tone.map(|channel| channel * shine * rim), coverage(distance));
        });
    }
}

/// The part of a pixel that is covered by a shape whose edge is `distance` pixels away (negative: inside).
fn coverage(distance: f32) -> f32 {
    (0.5 - distance).clamp(0.0, 1.0)
}

fn blend(under: &mut [f32; 3], over: [f32; 3], part: f32) {
    under.iter_mut().zip(over).for_each(|(u, o)| *u += (o - *u) * part);
}

/// An object's own coordinates: unit radius, upright.
struct Frame<'a> {
    placed: &'a Placed,
    sin: f32,
    cos: f32,
    /// One pixel in own units.
    pixel: f32,
}

impl<'a> Frame<'a> {
    fn new(placed: &'a Placed, size: usize) -> Self {
        let (sin, cos) = sin_cos(placed.angle);
        Self { placed, sin, cos, pixel: 1.0 / (placed.radius * size as f32).max(1e-6) }
    }

    fn local(&self, dx: f32, dy: f32) -> (f32, f32) {
        let (x, y) = (dx / self.placed.radius, dy / self.placed.radius);
        (self.cos * x + self.sin * y, self.cos * y - self.sin * x)
    }

    /// Signed distance in parts of the picture's width.
    fn distance(&self, dx: f32, dy: f32) -> f32 {
        let (x, y) = self.local(dx, dy);
        let distance = shape::distance(self.placed.object.shape, x, y);
        let line = (1.25 * self.pixel).max(0.17); // thickness of an outline
        let distance = match self.placed.object.fill {
            Fill::Outlined => distance.max(-distance - line),
            _ => distance,
        };
        distance * self.placed.radius
    }

    /// Part of the second tone at a point: the stripes or dots.
    fn pattern(&self, dx: f32, dy: f32) -> f32 {
        let (x, y) = self.local(dx, dy);
        match self.placed.object.fill {
            Fill::Plain | Fill::Outlined => 0.0,
            Fill::Striped => {
                let period = (4.2 * self.pixel).max(0.46);
                let t = FRAC_1_SQRT_2 * (x + y) / period;
                let off = (t - nearest(t)).abs() * period; // distance to a stripe's middle line
                coverage((off - 0.24 * period) / self.pixel)
            }
            Fill::Dotted => {
                let period = (4.6 * self.pixel).max(0.5);
                let row = nearest(y / period);
                let u = x / period + if row as i32 % 2 == 0 { 0.0 } else { 0.5 };
                let (ox, oy) = ((u - nearest(u)) * period, y - row * period);
                coverage((length(ox, oy) - 0.32 * period) / self.pixel)
            }
        }
    }
}
