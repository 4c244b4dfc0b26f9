//! Where the objects of a scene lie: what the description leaves open is drawn at random.
//!
//! Positions and radii are parts of the picture's width; y grows downwards.

use super::attributes::{Object, Shape};
use super::chance::{below, between};
use super::description::{Arrangement, Axis, Direction, Formation, Scene, Spot};
use crate::engine::Stream;

/// An object at its place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placed {
    /// What it is.
    pub object: Object,
    /// Centre, from the left edge.
    pub x: f32,
    /// Centre, from the top edge.
    pub y: f32,
    /// Radius of the circle it fits into.
    pub radius: f32,
    /// Clockwise turn in radians.
    pub angle: f32,
}

impl Placed {
    /// `object` upright at `(x, y)` with the radius of its size.
    pub fn new(object: Object, x: f32, y: f32) -> Self {
        Self { object, x, y, radius: object.size.radius(), angle: 0.0 }
    }

    /// The same, moved.
    pub fn moved(self, dx: f32, dy: f32) -> Self {
        Self { x: self.x + dx, y: self.y + dy, ..self }
    }
}

/// Places in the order of the scene's objects.
pub fn layout(scene: &Scene, stream: &mut Stream) -> Vec<Placed> {
    let objects = &scene.objects;
    let centres = match scene.arrangement {
        Arrangement::Single(spot) => vec![shaken(spot_centre(spot), 0.05, stream)],
        Arrangement::Group(formation) => group(formation, objects.len(), stream),
        Arrangement::Side(axis) => line(axis, &[0.27, 0.73], 0.1, stream),
        Arrangement::Line(axis) => line(axis, &[0.18, 0.5, 0.82], 0.12, stream),
        Arrangement::Inside => {
            let outer = shaken((0.5, 0.5), 0.12, stream);
            vec![middle_of(objects[1].shape, outer), outer]
        }
        Arrangement::Front => front(stream),
        Arrangement::Beside(direction) => beside(direction, objects.len() - 1, stream),
    };
    let scale = match scene.arrangement {
        Arrangement::Inside => [1.05, 1.5], // room for the inner one
        Arrangement::Front => [1.05, 1.15],
        _ if objects.len() == 4 => [0.8, 0.8], // four fit a row
        _ => [1.0, 1.0],
    };
    let place = |(i, (&object, &(x, y))): (usize, (&Object, &(f32, f32)))| {
        let radius = object.size.radius() * scale[i.min(1)] * between(stream, 0.95, 1.05);
        let angle = between(stream, -0.2, 0.2);
        Placed { object, x, y, radius, angle }
    };
    objects.iter().zip(&centres).enumerate().map(place).collect()
}

type Point = (f32, f32);

fn shaken((x, y): Point, reach: f32, stream: &mut Stream) -> Point {
    (x + between(stream, -reach, reach), y + between(stream, -reach, reach))
}

/// `(along, across)` as `(x, y)`.
fn on_axis(axis: Axis, along: f32, across: f32) -> Point {
    match axis {
        Axis::Across => (along, across),
        Axis::Down => (across, along),
    }
}

fn spot_centre(spot: Spot) -> Point {
    match spot {
        Spot::Middle => (0.5, 0.5),
        Spot::TopLeft => (0.28, 0.28),
        Spot::TopRight => (0.72, 0.28),
        Spot::BottomLeft => (0.28, 0.72),
        Spot::BottomRight => (0.72, 0.72),
    }
}

/// Where a shape at `centre` has the most room inside.
fn middle_of(shape: Shape, (x, y): Point) -> Point {
    match shape {
        Shape::Heart | Shape::Triangle => (x, y - 0.03),
        _ => (x, y),
    }
}

/// Positions `along` an axis, close to a common line across it.
fn line(axis: Axis, along: &[f32], reach: f32, stream: &mut Stream) -> Vec<Point> {
    let common = 0.5 + between(stream, -reach, reach);
    let place = |&a: &f32| on_axis(axis, a + between(stream, -0.025, 0.025), common + between(stream, -0.06, 0.06));
    along.iter().map(place).collect()
}

/// Centres of `count` equal objects.
fn group(formation: Formation, count: usize, stream: &mut Stream) -> Vec<Point> {
    const SCATTERED: [[Point; 4]; 3] = [
        [(0.3, 0.32), (0.7, 0.68), (0.74, 0.26), (0.26, 0.76)],
        [(0.72, 0.3), (0.3, 0.6), (0.7, 0.75), (0.26, 0.22)],
        [(0.5, 0.24), (0.24, 0.64), (0.74, 0.72), (0.8, 0.22)],
    ];
    let along: &[f32] = match count {
        2 => &[0.29, 0.71],
        3 => &[0.18, 0.5, 0.82],
        _ => &[0.14, 0.38, 0.62, 0.86],
    };
    match formation {
        Formation::Row => line(Axis::Across, along, 0.2, stream),
        Formation::Column => line(Axis::Down, along, 0.2, stream),
        Formation::Scattered => {
            let pattern = SCATTERED[below(stream, SCATTERED.len())];
            pattern[..count].iter().map(|&centre| shaken(centre, 0.05, stream)).collect()
        }
    }
}

/// One object in front of another, off its centre to any side.
fn front(stream: &mut Stream) -> Vec<Point> {
    let far = shaken((0.5, 0.5), 0.08, stream);
    let (across, down) =
        [(1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0), (0.7, 0.7), (-0.7, 0.7), (0.7, -0.7)][below(stream, 7)];
    let offset = between(stream, 0.15, 0.19);
    vec![(far.0 + across * offset, far.1 + down * offset), far]
}

/// `count` equal objects in a line across `direction`, and the last object on the other side.
fn beside(direction: Direction, count: usize, stream: &mut Stream) -> Vec<Point> {
    let (axis, side) = match direction {
        Direction::Left => (Axis::Down, 0.24),
        Direction::Right => (Axis::Down, 0.76),
        Direction::Up => (Axis::Across, 0.24),
        Direction::Down => (Axis::Across, 0.76),
    };
    let along: &[f32] = if count == 2 { &[0.3, 0.7] } else { &[0.18, 0.5, 0.82] };
    let mut centres: Vec<Point> = along
        .iter()
        .map(|&a| on_axis(axis, a + between(stream, -0.03, 0.03), side + between(stream, -0.04, 0.04)))
        .collect();
    centres.push(on_axis(axis, 0.5 + between(stream, -0.1, 0.1), 0.98 - side + between(stream, -0.03, 0.03)));
    centres
}
