//! What no caption speaks of: the grain of the background, small marks, where the light comes from.

use std::f32::consts::TAU;

use super::attributes::Colour;
use super::chance::{below, between, choose};
use super::math::{floor, sin_cos};
use crate::engine::Stream;

/// Side of the table of random values behind [`Noise`].
const SIDE: usize = 32;

/// Smooth random values over the plane, repeating every [`SIDE`] units.
#[derive(Clone, Debug)]
pub struct Noise([f32; SIDE * SIDE]);

impl Noise {
    fn new(stream: &mut Stream) -> Self {
        let mut values = [0.0; SIDE * SIDE];
        for eight in values.chunks_exact_mut(8) {
            let bytes = stream.next_u64().to_le_bytes();
            eight.iter_mut().zip(bytes).for_each(|(value, byte)| *value = f32::from(byte) / 255.0);
        }
        Self(values)
    }

    /// The value in `[0, 1]` of the cell that `(x, y)` lies in.
    pub fn cell(&self, x: i32, y: i32) -> f32 {
        self.0[(y as usize % SIDE) * SIDE + (x as usize % SIDE)]
    }

    /// The value in `[0, 1]` at `(x, y)`: values at whole numbers, blended in between.
    pub fn at(&self, x: f32, y: f32) -> f32 {
        let (i, j) = (floor(x), floor(y));
        let (u, v) = (ease(x - i as f32), ease(y - j as f32));
        let top = self.cell(i, j) + (self.cell(i + 1, j) - self.cell(i, j)) * u;
        let bottom = self.cell(i, j + 1) + (self.cell(i + 1, j + 1) - self.cell(i, j + 1)) * u;
        top + (bottom - top) * v
    }
}

/// A step from 0 to 1 with level ends.
fn ease(t: f32) -> f32 {
    t * t * (3.0 - 2.0 * t)
}

/// A small short stroke that no caption mentions.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Middle, from the left edge, as a part of the width.
    pub x: f32,
    /// Middle, from the top edge.
    pub y: f32,
    /// Half of the stroke, as a vector.
    pub half: (f32, f32),
    /// Half of its thickness.
    pub radius: f32,
    /// Its colour.
    pub rgb: [f32; 3],
}

/// Everything of a picture that its description leaves open, but for the places of the objects.
#[derive(Clone, Debug)]
pub struct Look {
    /// Grain of the background.
    pub noise: Noise,
    /// Shift of the background's pattern.
    pub shift: (f32, f32),
    /// Unit vector towards the light.
    pub light: (f32, f32),
    /// Overall brightness.
    pub exposure: f32,
    /// Darkness of the shadows, 0 to 1.
    pub shadow: f32,
    /// Clutter.
    pub marks: Vec<Mark>,
    /// Colour cast of each object, in order.
    pub casts: [[f32; 3]; 4],
}

impl Look {
    /// A random look.
    pub fn new(stream: &mut Stream) -> Self {
        let noise = Noise::new(stream);
        let shift = (between(stream, 0.0, 16.0), between(stream, 0.0, 16.0));
        // From above, left or right: a shadow falls below its object.
        let (sin, cos) = sin_cos(between(stream, 0.55, 0.95) * TAU);
        let exposure = between(stream, 0.9, 1.08);
        let shadow = between(stream, 0.25, 0.5);
        let marks = (0..2 + below(stream, 7)).map(|_| Mark::new(stream)).collect();
        let mut cast = || 1.0 + between(stream, -0.06, 0.06);
        let casts = std::array::from_fn(|_| std::array::from_fn(|_| cast()));
        Self { noise, shift, light: (cos, sin), exposure, shadow, marks, casts }
    }
}

impl Mark {
    fn new(stream: &mut Stream) -> Self {
        let (sin, cos) = sin_cos(between(stream, 0.0, TAU));
        let half = choose(stream, &[0.0, 0.0, 0.018, 0.028]);
        let pale = choose(stream, Colour::ALL).rgb().map(|channel| 0.5 * channel + 62.0);
        Self {
            x: stream.uniform(),
            y: stream.uniform(),
            half: (cos * half, sin * half),
            radius: between(stream, 0.009, 0.016),
            rgb: pale,
        }
    }
}
