//! The colour of a background at a point, from a few formulas over smooth noise.

use super::attributes::Background;
use super::look::Look;
use super::math::{floor, length, nearest};

type Rgb = [f32; 3];

/// Red, green and blue (0 to 255, may run over a little) at `(x, y)` in the unit square.
pub fn colour(background: Background, look: &Look, x: f32, y: f32) -> Rgb {
    let noise = |fx: f32, fy: f32| look.noise.at(x * fx + look.shift.0, y * fy + look.shift.1);
    match background {
        Background::Paper => {
            brighter([236.0, 233.0, 226.0], 14.0 * (noise(5.0, 5.0) - 0.5) + 10.0 * (noise(31.0, 31.0) - 0.5))
        }
        Background::Sunset => {
            let low = gradient([84.0, 64.0, 138.0], [226.0, 116.0, 112.0], y * 1.7);
            brighter(gradient(low, [252.0, 196.0, 116.0], y * 1.7 - 0.7), 26.0 * (noise(3.0, 15.0) - 0.5))
        }
        Background::Grass => {
            let blades = noise(37.0, 8.0) - 0.5;
            let patches = noise(5.0, 5.0) - 0.5;
            brighter([98.0 + 20.0 * patches, 152.0, 58.0], 66.0 * blades + 28.0 * patches)
        }
        Background::Sky => {
            let cloud = 0.62 * noise(3.5, 5.5) + 0.38 * noise(8.0, 13.0);
            gradient(gradient([84.0, 148.0, 226.0], [164.0, 206.0, 244.0], y), [250.0, 250.0, 252.0], cloud * 4.0 - 2.2)
        }
        Background::Sand => {
            let ripple = wave(y * 11.0 + 1.6 * noise(3.0, 3.0) + look.shift.0) - 0.5;
            brighter([226.0, 200.0, 148.0], 26.0 * ripple + 26.0 * (noise(31.0, 31.0) - 0.5))
        }
        Background::Night => {
            let sky = gradient([14.0, 16.0, 44.0], [44.0, 44.0, 92.0], y + 0.3 * (noise(4.0, 4.0) - 0.5));
            gradient(sky, [236.0, 236.0, 214.0], point(look, x * 11.0, y * 11.0, 0.14))
        }
        Background::Bricks => bricks(look, x, y, noise(31.0, 31.0)),
        Background::Water => {
            let swell = wave(y * 8.0 + 1.5 * noise(4.0, 6.0) + look.shift.1);
            let glint = (swell - 0.78).max(0.0) * 260.0 * noise(9.0, 5.0);
            brighter([30.0, 116.0, 158.0], 36.0 * (swell - 0.5) + glint)
        }
        Background::Wood => {
            let board = floor(x * 4.0 + look.shift.0);
            let seam = edge(x * 4.0 + look.shift.0, 0.045);
            let grain = look.noise.at(x * 46.0 + (board * 7) as f32, y * 3.0 + (board * 5) as f32) - 0.5;
            let tone = look.noise.cell(board, 3) - 0.5;
            gradient(brighter([176.0, 124.0, 74.0], 40.0 * grain + 34.0 * tone), [84.0, 54.0, 30.0], seam)
        }
        Background::Snow => {
            let air = gradient([124.0, 142.0, 172.0], [186.0, 198.0, 216.0], y);
            let flakes = point(look, x * 9.0, y * 9.0, 0.3).max(point(look, x * 13.0 + 5.5, y * 13.0 + 3.5, 0.26));
            gradient(air, [250.0, 252.0, 255.0], 0.92 * flakes)
        }
        Background::Tiles => {
            let (u, v) = (x * 5.0 + look.shift.0, y * 5.0 + look.shift.1);
            let dark = (floor(u) + floor(v)) % 2 == 0;
            let tile = if dark { [136.0, 142.0, 150.0] } else { [204.0, 206.0, 204.0] };
            let joint = edge(u, 0.05).max(edge(v, 0.05));
            gradient(brighter(tile, 14.0 * (noise(9.0, 9.0) - 0.5)), [112.0, 114.0, 118.0], joint)
        }
    }
}

/// Rows of bricks, every second one shifted by half a brick.
fn bricks(look: &Look, x: f32, y: f32, grain: f32) -> Rgb {
    let v = y * 8.0 + look.shift.1;
    let row = floor(v);
    let u = x * 4.0 + look.shift.0 + if row % 2 == 0 { 0.5 } else { 0.0 };
    let tone = look.noise.cell(floor(u), row) - 0.5;
    let brick = brighter([166.0 + 20.0 * tone, 80.0, 62.0], 34.0 * tone + 22.0 * (grain - 0.5));
    gradient(brick, [198.0, 188.0, 176.0], edge(u, 0.045).max(edge(v, 0.09)))
}

/// From `low` at `t <= 0` to `high` at `t >= 1`.
fn gradient(low: Rgb, high: Rgb, t: f32) -> Rgb {
    let t = t.clamp(0.0, 1.0);
    std::array::from_fn(|c| low[c] + (high[c] - low[c]) * t)
}

fn brighter(rgb: Rgb, by: f32) -> Rgb {
    rgb.map(|channel| channel + by)
}

/// 1 at whole numbers, falling to 0 at a distance of `width`.
fn edge(u: f32, width: f32) -> f32 {
    let off = (u - nearest(u)).abs();
    (1.5 - off / width).clamp(0.0, 1.0)
}

/// A smooth wave between 0 and 1 of period 1.
fn wave(t: f32) -> f32 {
    let t = (t - floor(t) as f32) * 2.0 - 1.0; // [-1, 1)
    let hump = 1.0 - t * t;
    hump * hump * (3.0 - 2.0 * hump)
}

/// Round points, one in every other cell, of `radius` in cells.
fn point(look: &Look, x: f32, y: f32, radius: f32) -> f32 {
    let (i, j) = (floor(x), floor(y));
    if look.noise.cell(i, j) < 0.5 {
        return 0.0;
    }
    let cx = 0.3 + 0.4 * look.noise.cell(i + 9, j + 4);
    let cy = 0.3 + 0.4 * look.noise.cell(i + 3, j + 11);
    let (dx, dy) = (x - i as f32 - cx, y - j as f32 - cy);
    (1.6 - length(dx, dy) / radius * 1.6).clamp(0.0, 1.0)
}
