//! Where the objects of a clip are at each time.

use super::{Approach, Change, ClipScene, Meeting, Motion, Presence, Sense, Speed};
use crate::data::scenes::attributes::{Object, Size};
use crate::data::scenes::chance::{between, choose};
use crate::data::scenes::description::{Axis, Direction};
use crate::data::scenes::layout::Placed;
use crate::engine::Stream;

/// Turn of a spinning object over a whole clip, in radians: 50 degrees between two of four frames.
const WHOLE_TURN: f32 = 2.618;

/// Places of the visible objects at each of `times` in `[0, 1]`, in the order of the clip's objects.
pub fn places(scene: &ClipScene, times: &[f32], stream: &mut Stream) -> Vec<Vec<Placed>> {
    // What stays open is drawn once, before the times: a clip is smooth whatever the number of its frames.
    let centre = (between(stream, -0.06, 0.06), between(stream, -0.06, 0.06));
    let side = choose(stream, &[-1.0, 1.0]);
    let angles = [between(stream, -0.15, 0.15), between(stream, -0.15, 0.15)];
    let axis = choose(stream, Axis::ALL);
    let shake = |(i, placed): (usize, Placed)| Placed {
        angle: placed.angle + angles[i % 2],
        ..placed.moved(centre.0, centre.1)
    };
    times.iter().map(|&t| at(scene, t, side, axis).into_iter().enumerate().map(shake).collect()).collect()
}

/// Places at time `t`; `side` (-1 or 1) and `axis` are what the description leaves open.
fn at(scene: &ClipScene, t: f32, side: f32, axis: Axis) -> Vec<Placed> {
    let first = scene.objects[0];
    let second = scene.objects.get(1).copied().unwrap_or(first);
    let centred = t - 0.5;
    match scene.motion {
        Motion::Move(direction, speed) => {
            let reach = match speed {
                Speed::Slow => 0.22,
                Speed::Fast => 0.62,
            };
            vec![along(first, direction, centred * reach, side * 0.12)]
        }
        Motion::Past(direction) => {
            let clear = 0.55 * gap(first, second);
            vec![along(first, direction, centred * 0.6, side * clear), along(second, direction, 0.0, -side * clear)]
        }
        Motion::Near(approach, direction) => {
            let rest: f32 = match approach {
                Approach::Toward => 0.3,
                Approach::Away => -0.3,
            };
            let path = rest - rest.signum() * gap(first, second); // where they would touch
            let far = -0.3 * rest.signum();
            let moving = match approach {
                Approach::Toward => far + (path - far) * t,
                Approach::Away => path + (far - path) * t,
            };
            vec![along(first, direction, moving, 0.0), along(second, direction, rest, 0.0)]
        }
        Motion::Spin(sense) => {
            let angle = match sense {
                Sense::Clockwise => WHOLE_TURN * t,
                Sense::Counterclockwise => -WHOLE_TURN * t,
            };
            vec![Placed { angle, ..Placed::new(first, 0.5, 0.5) }]
        }
        Motion::Resize(change) => {
            let grown = match change {
                Change::Grows => t,
                Change::Shrinks => 1.0 - t,
            };
            let [one, other] = apart(first, second, side, axis);
            let (small, large) = (0.07, Size::Large.radius());
            vec![Placed { radius: small + (large - small) * grown, ..one }, other]
        }
        Motion::Show(presence) => {
            let [one, other] = apart(first, second, side, axis);
            let there = match presence {
                Presence::Appears => t,
                Presence::Disappears => 1.0 - t,
            };
            // Full size while there; it grows from nothing just around the middle of the clip.
            let part = ((there - 0.45) * 8.0).clamp(0.0, 1.0);
            let one = Placed { radius: one.radius * part, ..one };
            vec![one, other]
        }
        Motion::Meet(meeting, axis) => meet(first, second, meeting, axis, side, t),
        Motion::Follow(direction) => {
            let ahead = 0.5 * gap(first, second) + 0.03;
            let place = centred * 0.32;
            vec![along(first, direction, place - ahead, 0.0), along(second, direction, place + ahead, 0.0)]
        }
    }
}

/// Distance of the centres of two objects that nearly touch.
fn gap(first: Object, second: Object) -> f32 {
    first.size.radius() + second.size.radius() + 0.01
}

/// `object` at `ahead` of the middle in `direction`, and `aside` of it.
fn along(object: Object, direction: Direction, ahead: f32, aside: f32) -> Placed {
    let (dx, dy) = direction.step();
    Placed::new(object, 0.5 + dx * ahead - dy * aside, 0.5 + dy * ahead + dx * aside)
}

/// Two objects side by side.
fn apart(first: Object, second: Object, side: f32, axis: Axis) -> [Placed; 2] {
    let direction = match axis {
        Axis::Across => Direction::Right,
        Axis::Down => Direction::Down,
    };
    [along(first, direction, 0.22 * side, 0.0), along(second, direction, -0.22 * side, 0.0)]
}

/// Two objects that come together from both ends of an axis.
fn meet(first: Object, second: Object, meeting: Meeting, axis: Axis, side: f32, t: f32) -> Vec<Placed> {
    let direction = match axis {
        Axis::Across => Direction::Right,
        Axis::Down => Direction::Down,
    };
    let far = 0.33;
    match meeting {
        Meeting::Pass => {
            let (place, aside) = (far * (2.0 * t - 1.0), 0.5 * side * gap(first, second));
            vec![along(first, direction, place, aside), along(second, direction, -place, -aside)]
        }
        Meeting::Collide => {
            let touch = 0.5 * gap(first, second);
            let away = (2.0 * t - 1.0).abs(); // 1 at both ends, 0 when they touch
            let back = if t > 0.5 { 0.75 } else { 1.0 };
            let place = touch + (far - touch) * away * back;
            vec![along(first, direction, -place, 0.0), along(second, direction, place, 0.0)]
        }
    }
}
