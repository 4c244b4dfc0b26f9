//! What a picture shows, as data: objects, how they lie to one another, background and light.
//!
//! Descriptions are numbered: a kind of arrangement has `n` descriptions, and number `x` is decoded digit by digit in
//! a mixed radix. Scene `k` takes the number that a keyed permutation gives for `k`, so two
//! scenes of a seed never share a description (until a kind has run out of them; then only scenes of one split do).

use super::attributes::{Background, Colour, Fill, Light, Object, Shape, Size, choices};
use super::permutation::{mix, permute};

choices! {
    /// Part of the picture where a single object lies.
    Spot {
        /// The middle.
        Middle,
        /// Top left.
        TopLeft,
        /// Top right.
        TopRight,
        /// Bottom left.
        BottomLeft,
        /// Bottom right.
        BottomRight,
    }
}

choices! {
    /// How equal objects are laid out.
    Formation {
        /// From left to right.
        Row,
        /// From top to bottom.
        Column,
        /// Neither.
        Scattered,
    }
}

choices! {
    /// A line through the picture.
    Axis {
        /// From left to right.
        Across,
        /// From top to bottom.
        Down,
    }
}

choices! {
    /// A direction in the picture.
    Direction {
        /// Left.
        Left,
        /// Right.
        Right,
        /// Up.
        Up,
        /// Down.
        Down,
    }
}

impl Direction {
    /// Its unit step; y grows downwards.
    pub fn step(self) -> (f32, f32) {
        match self {
            Self::Left => (-1.0, 0.0),
            Self::Right => (1.0, 0.0),
            Self::Up => (0.0, -1.0),
            Self::Down => (0.0, 1.0),
        }
    }
}

/// How the objects lie to one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arrangement {
    /// One object at a spot.
    Single(Spot),
    /// Two to four equal objects.
    Group(Formation),
    /// Object 0 is left of (or above) object 1.
    Side(Axis),
    /// Object 0 is inside object 1.
    Inside,
    /// Object 0 is in front of object 1 and hides a part of it.
    Front,
    /// All objects but the last are equal, and lie in this direction from the last.
    Beside(Direction),
    /// Three objects in this order.
    Line(Axis),
}

/// Kinds of [`Arrangement`]; scene number `k` of a split has kind `k % KINDS`.
pub const KINDS: u64 = 7;

/// What a picture shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scene {
    /// What lies behind.
    pub background: Background,
    /// How much light there is.
    pub light: Light,
    /// How the objects lie to one another.
    pub arrangement: Arrangement,
    /// The objects; an earlier one covers a later one where they overlap.
    pub objects: Vec<Object>,
}

/// Shapes that another object fits into.
const CONTAINERS: [Shape; 6] =
    [Shape::Circle, Shape::Square, Shape::Triangle, Shape::Heart, Shape::Hexagon, Shape::Diamond];

impl Scene {
    /// Scene `number` of split `split` (0, 1 or 2).
    pub fn new(seed: u64, split: u64, number: u64) -> Self {
        let kind = number % KINDS;
        decode_distinct(seed ^ mix(kind), number / KINDS * 3 + split, |digits| Self::decode(kind, digits))
    }

    /// The description that `digits` spell.
    fn decode(kind: u64, digits: &mut Digits) -> Self {
        use Fill::{Dotted, Outlined, Plain, Striped};
        use Size::{Large, Medium, Small};
        let background = digits.choose(Background::ALL);
        let light = digits.choose(Light::ALL);
        let mut kinds = Kinds::new(background);
        let (arrangement, objects) = match kind {
            0 => {
                let object = kinds.object(digits, Size::ALL, Fill::ALL);
                (Arrangement::Single(digits.choose(Spot::ALL)), vec![object])
            }
            1 => {
                let object = kinds.object(digits, &[Small, Medium], Fill::ALL);
                let count = digits.choose(&[2, 3, 4]);
                (Arrangement::Group(digits.choose(Formation::ALL)), vec![object; count])
            }
            2 => {
                let objects = (0..2).map(|_| kinds.object(digits, Size::ALL, Fill::ALL)).collect();
                (Arrangement::Side(digits.choose(Axis::ALL)), objects)
            }
            3 => {
                let (inner, outer) = kinds.two_colours(digits);
                let inner = Object::decode(digits, Shape::ALL, inner, &[Small], &[Plain, Striped, Dotted]);
                let outer = Object::decode(digits, &CONTAINERS, outer, &[Large], &[Plain, Outlined]);
                (Arrangement::Inside, vec![inner, outer])
            }
            4 => {
                let (near, far) = kinds.two_colours(digits);
                let near = Object::decode(digits, Shape::ALL, near, &[Medium], &[Plain, Striped, Dotted]);
                let far = Object::decode(digits, Shape::ALL, far, &[Large], &[Plain, Striped, Dotted]);
                (Arrangement::Front, vec![near, far])
            }
            5 => {
                let equal = kinds.object(digits, &[Small, Medium], Fill::ALL);
                let other = kinds.object(digits, Size::ALL, Fill::ALL);
                let mut objects = vec![equal; digits.choose(&[2, 3])];
                objects.push(other);
                (Arrangement::Beside(digits.choose(Direction::ALL)), objects)
            }
            _ => {
                let objects = (0..3).map(|_| kinds.object(digits, &[Small, Medium], Fill::ALL)).collect();
                (Arrangement::Line(digits.choose(Axis::ALL)), objects)
            }
        };
        Self { background, light, arrangement, objects }
    }
}

impl Object {
    /// An object of the given colour.
    pub(super) fn decode(
        digits: &mut Digits,
        shapes: &[Shape],
        colour: Colour,
        sizes: &[Size],
        fills: &[Fill],
    ) -> Self {
        Self { shape: digits.choose(shapes), colour, size: digits.choose(sizes), fill: digits.choose(fills) }
    }
}

/// Colour and shape of the objects of a scene: none clashes with the background, no two are the same.
pub(super) struct Kinds {
    colours: Vec<Colour>,
    taken: Vec<u64>,
}

impl Kinds {
    pub(super) fn new(background: Background) -> Self {
        let clashes = background.clashes();
        let colours = Colour::ALL.iter().copied().filter(|colour| !clashes.contains(colour)).collect();
        Self { colours, taken: Vec::new() }
    }

    /// An object whose (shape, colour) no earlier object has.
    pub(super) fn object(&mut self, digits: &mut Digits, sizes: &[Size], fills: &[Fill]) -> Object {
        let colours = self.colours.len() as u64;
        let mut kind = digits.take(Shape::ALL.len() as u64 * colours - self.taken.len() as u64);
        for &taken in &self.taken {
            kind += u64::from(kind >= taken);
        }
        self.taken.push(kind);
        self.taken.sort_unstable();
        let (shape, colour) = (Shape::ALL[(kind / colours) as usize], self.colours[(kind % colours) as usize]);
        Object { shape, colour, size: digits.choose(sizes), fill: digits.choose(fills) }
    }

    /// Any colour.
    pub(super) fn colour(&self, digits: &mut Digits) -> Colour {
        digits.choose(&self.colours)
    }

    /// Two different colours.
    pub(super) fn two_colours(&self, digits: &mut Digits) -> (Colour, Colour) {
        let first = self.colour(digits);
        let others: Vec<Colour> = self.colours.iter().copied().filter(|&colour| colour != first).collect();
        (first, digits.choose(&others))
    }
}

/// A number read digit by digit, each digit in a radix of its own.
pub(super) struct Digits {
    rest: u64,
    /// Product of the radices so far.
    product: u64,
}

impl Digits {
    fn new(number: u64) -> Self {
        Self { rest: number, product: 1 }
    }

    /// The next digit, below `radix`.
    pub(super) fn take(&mut self, radix: u64) -> u64 {
        let digit = self.rest % radix;
        self.rest /= radix;
        self.product *= radix;
        digit
    }

    /// The next digit as one of `choices`.
    pub(super) fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.take(choices.len() as u64) as usize]
    }
}

/// The description that scene `ordinal` of one kind has. `decode` reads the same radices whatever the digits.
///
/// Ordinals `3 q + split` with different values never share a description while `q` is below a third of their number.
/// Past that they repeat; the numbers used are a multiple of three, so a repeat stays within its split.
pub(super) fn decode_distinct<T>(key: u64, ordinal: u64, decode: impl Fn(&mut Digits) -> T) -> T {
    let mut count = Digits::new(0);
    decode(&mut count);
    let usable = count.product - count.product % 3;
    decode(&mut Digits::new(permute(key, usable, ordinal % usable)))
}
