//! Clips: one or two objects that move, described so that a single frame does not give the caption away.

mod captions;
mod motion;

pub use captions::captions;
pub use motion::places;

use super::attributes::{Background, Fill, Light, Object, Shape, Size, choices};
use super::description::{Axis, Digits, Direction, Kinds, decode_distinct};
use super::permutation::mix;

choices! {
    /// How fast something moves.
    Speed {
        /// A quarter of the picture.
        Slow,
        /// Two thirds of the picture.
        Fast,
    }
}

choices! {
    /// Sense of a turn.
    Sense {
        /// Like a clock's hands.
        Clockwise,
        /// The other way.
        Counterclockwise,
    }
}

choices! {
    /// Change of size.
    Change {
        /// Larger.
        Grows,
        /// Smaller.
        Shrinks,
    }
}

choices! {
    /// Change of presence.
    Presence {
        /// Comes in halfway.
        Appears,
        /// Is gone after half of the clip.
        Disappears,
    }
}

choices! {
    /// Motion relative to an object at rest.
    Approach {
        /// Nearer.
        Toward,
        /// Farther.
        Away,
    }
}

choices! {
    /// What happens when two objects come together.
    Meeting {
        /// They bump and go back.
        Collide,
        /// They go on.
        Pass,
    }
}

/// What happens; object 0 is the one spoken of first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Motion {
    /// Object 0, alone, moves.
    Move(Direction, Speed),
    /// Object 0 moves past object 1, which rests.
    Past(Direction),
    /// Object 0 moves toward or away from object 1, which rests.
    Near(Approach, Direction),
    /// Object 0, alone, turns.
    Spin(Sense),
    /// Object 0 changes its size next to object 1, which does not.
    Resize(Change),
    /// Object 0 appears or disappears next to object 1, which stays.
    Show(Presence),
    /// Both move toward each other along an axis; object 0 comes from the left or from the top.
    Meet(Meeting, Axis),
    /// Object 0 follows object 1.
    Follow(Direction),
}

/// Kinds of [`Motion`]; clip number `k` of a split has kind `k % MOTIONS`.
const MOTIONS: u64 = 8;

/// Shapes whose turn shows: none of them looks the same after the angle between two of four frames.
const TURNING: [Shape; 4] = [Shape::Arrow, Shape::Crescent, Shape::Heart, Shape::Triangle];

/// What a clip shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClipScene {
    /// What lies behind.
    pub background: Background,
    /// How much light there is.
    pub light: Light,
    /// What happens.
    pub motion: Motion,
    /// One or two objects; an earlier one covers a later one where they overlap.
    pub objects: Vec<Object>,
}

impl ClipScene {
    /// Clip `number` of split `split` (0, 1 or 2).
    pub fn new(seed: u64, split: u64, number: u64) -> Self {
        let kind = number % MOTIONS;
        decode_distinct(seed ^ mix(!kind), number / MOTIONS * 3 + split, |digits| Self::decode(kind, digits))
    }

    /// The description that `digits` spell.
    fn decode(kind: u64, digits: &mut Digits) -> Self {
        let sizes = [Size::Small, Size::Medium];
        let background = digits.choose(Background::ALL);
        let light = digits.choose(Light::ALL);
        let mut kinds = Kinds::new(background);
        let one = |kinds: &mut Kinds, digits: &mut Digits| vec![kinds.object(digits, &sizes, Fill::ALL)];
        let two = |kinds: &mut Kinds, digits: &mut Digits| -> Vec<Object> {
            (0..2).map(|_| kinds.object(digits, &sizes, Fill::ALL)).collect()
        };
        let (motion, objects) = match kind {
            0 => {
                let motion = Motion::Move(digits.choose(Direction::ALL), digits.choose(Speed::ALL));
                (motion, one(&mut kinds, digits))
            }
            1 => (Motion::Past(digits.choose(Direction::ALL)), two(&mut kinds, digits)),
            2 => {
                let motion = Motion::Near(digits.choose(Approach::ALL), digits.choose(Direction::ALL));
                (motion, two(&mut kinds, digits))
            }
            3 => {
                let colour = kinds.colour(digits);
                let object = Object::decode(digits, &TURNING, colour, Size::ALL, Fill::ALL);
                (Motion::Spin(digits.choose(Sense::ALL)), vec![object])
            }
            4 => {
                let medium = [Size::Medium]; // its size changes: captions name none
                let objects = (0..2).map(|_| kinds.object(digits, &medium, Fill::ALL)).collect();
                (Motion::Resize(digits.choose(Change::ALL)), objects)
            }
            5 => (Motion::Show(digits.choose(Presence::ALL)), two(&mut kinds, digits)),
            6 => {
                let motion = Motion::Meet(digits.choose(Meeting::ALL), digits.choose(Axis::ALL));
                (motion, two(&mut kinds, digits))
            }
            _ => (Motion::Follow(digits.choose(Direction::ALL)), two(&mut kinds, digits)),
        };
        Self { background, light, motion, objects }
    }
}
