//! Signed distance functions: how far a point lies outside (positive) or inside (negative) a shape.
//!
//! Shapes fit a circle of radius 1.14 around the origin; y grows downwards. A pixel's coverage is `0.5 - distance` in
//! pixels, clamped to 0..1, which is what makes edges smooth. Distances are exact near straight edges; past sharp
//! corners they are a lower bound, which coverage does not notice.

use super::attributes::Shape;
use super::math::length;

/// Signed distance of `(x, y)` to `shape`.
pub fn distance(shape: Shape, x: f32, y: f32) -> f32 {
    match shape {
        Shape::Circle => length(x, y) - 0.93,
        Shape::Square => x.abs().max(y.abs()) - 0.78,
        Shape::Triangle => (y + 0.1).max(0.866 * x.abs() - 0.5 * (y + 0.1)) - 0.52,
        Shape::Star => star(x, -y),
        Shape::Ring => (length(x, y) - 0.63).abs() - 0.31,
        Shape::Cross => cross(x.abs(), y.abs()),
        Shape::Heart => heart(0.6 * x.abs(), 0.55 - 0.6 * y) / 0.6,
        Shape::Hexagon => (0.866 * x.abs() + 0.5 * y.abs()).max(y.abs()) - 0.83,
        Shape::Crescent => (length(x - 0.22, y) - 0.97).max(0.78 - length(x - 0.68, y)),
        Shape::Diamond => (x.abs() + 0.64 * y.abs() - 0.64) / 1.187,
        Shape::Arrow => arrow(x.abs(), y),
        Shape::Flower => flower(x, y),
    }
}

/// Two crossed bars; coordinates already folded to the first quadrant.
fn cross(x: f32, y: f32) -> f32 {
    (x - 0.33).max(y - 0.92).min((y - 0.33).max(x - 0.92))
}

/// A head over a shaft, pointing to negative y; x already folded.
fn arrow(x: f32, y: f32) -> f32 {
    let head = ((x - 0.84 * (y + 0.98)) / 1.306).max(y - 0.05);
    let shaft = (x - 0.29).max(y - 0.92).max(-0.1 - y);
    head.min(shaft)
}

/// Five round petals and a round middle.
fn flower(x: f32, y: f32) -> f32 {
    // Unit vectors at multiples of 72 degrees from the top.
    const PETALS: [(f32, f32); 5] = [
        (0.0, -1.0),
        (0.951_057, -0.309_017),
        (0.587_785, 0.809_017),
        (-0.587_785, 0.809_017),
        (-0.951_057, -0.309_017),
    ];
    let nearest = PETALS.iter().map(|&(px, py)| {
        let (dx, dy) = (x - 0.6 * px, y - 0.6 * py);
        dx * dx + dy * dy
    });
    let petals = nearest.fold(f32::INFINITY, f32::min).sqrt() - 0.36;
    petals.min(length(x, y) - 0.36)
}

/// Five points, one at positive y. The plane is folded along the star's mirror lines until one edge is left.
fn star(x: f32, y: f32) -> f32 {
    const MIRROR: (f32, f32) = (0.809_017, -0.587_785);
    const DEPTH: f32 = 0.47;
    let fold = |x: f32, y: f32, mx: f32, my: f32| {
        let over = 2.0 * (mx * x + my * y).max(0.0);
        (x - over * mx, y - over * my)
    };
    let (x, y) = fold(x.abs(), y, MIRROR.0, MIRROR.1);
    let (x, y) = fold(x, y, -MIRROR.0, MIRROR.1);
    let (x, y) = (x.abs(), y - 1.0);
    let (ex, ey) = (-DEPTH * MIRROR.1, DEPTH * MIRROR.0 - 1.0); // the edge, from the point
    let along = ((x * ex + y * ey) / (ex * ex + ey * ey)).clamp(0.0, 1.0);
    let outside = y * ex - x * ey;
    length(x - ex * along, y - ey * along) * if outside < 0.0 { -1.0 } else { 1.0 }
}

/// A heart with its tip at the origin, one unit high; x already folded, y upwards.
fn heart(x: f32, y: f32) -> f32 {
    if x + y > 1.0 {
        return length(x - 0.25, y - 0.75) - 0.353_553;
    }
    let diagonal = 0.5 * (x + y).max(0.0);
    let edge = length(x - diagonal, y - diagonal).min(length(x, y - 1.0));
    if x < y { -edge } else { edge }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inside or outside, as the definition of each shape says at points that are easy to place.
    #[test]
    fn points_fall_on_the_side_that_geometry_says() {
        let inside = |shape, x, y| distance(shape, x, y) < 0.0;
        assert!(inside(Shape::Ring, 0.66, 0.0) && !inside(Shape::Ring, 0.0, 0.0));
        assert!(inside(Shape::Star, 0.0, -0.9) && !inside(Shape::Star, 0.0, 0.9), "a point up, a notch down");
        assert!(inside(Shape::Heart, 0.0, 0.8) && !inside(Shape::Heart, 0.0, -0.85), "tip down, notch up");
        assert!(inside(Shape::Triangle, 0.0, -0.9) && !inside(Shape::Triangle, 0.5, -0.7));
        assert!(inside(Shape::Arrow, 0.0, 0.8) && !inside(Shape::Arrow, 0.6, 0.8), "the shaft is narrow");
        assert!(inside(Shape::Crescent, -0.5, 0.0) && !inside(Shape::Crescent, 0.6, 0.0), "open to the right");
        assert!(inside(Shape::Cross, 0.8, 0.0) && !inside(Shape::Cross, 0.6, 0.6));
        assert!(inside(Shape::Flower, 0.0, -0.8) && !inside(Shape::Flower, 0.0, 0.9));
    }

    #[test]
    fn shapes_fit_their_circle_and_are_not_empty() {
        for &shape in Shape::ALL {
            let mut area = 0;
            for i in -60..=60 {
                for j in -60..=60 {
                    let (x, y) = (i as f32 * 0.025, j as f32 * 0.025);
                    let inside = distance(shape, x, y) < 0.0;
                    assert!(!inside || x * x + y * y < 1.3, "{shape:?} at {x} {y}");
                    area += usize::from(inside);
                }
            }
            assert!(area > 1000, "{shape:?} covers {area}"); // of 5027 in the unit circle
        }
    }

    #[test]
    fn distances_change_no_faster_than_the_points_move() {
        for &shape in Shape::ALL {
            for i in -40..40 {
                for j in -40..40 {
                    let (x, y) = (i as f32 * 0.03, j as f32 * 0.03);
                    let change = (distance(shape, x + 0.01, y) - distance(shape, x, y)).abs();
                    assert!(change <= 0.0101, "{shape:?} at {x} {y}: {change}");
                }
            }
        }
    }
}
