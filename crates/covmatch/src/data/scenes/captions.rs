//! What is said of a picture: sentences for every arrangement.

use super::chance::choose;
use super::description::{Arrangement, Axis, Direction, Formation, Scene, Spot};
use super::grammar::{Detail, count, definite, five_captions, indefinite, noun, relation, setting, side};
use crate::engine::Stream;

/// `{a}`: the object with its article; `{spot}`: its part of the picture.
const SINGLE: &[&str] = &[
    "{a} {ground}",
    "{a} {spot} of the {picture}",
    "{there is} {a} {ground} {light}",
    "the {picture} shows {a} {spot}",
    "{spot}, {a} {ground}",
    "one shape alone, {a}, {ground} {light}",
    "{a picture} of {a}, with {place} in the background",
    "{ground} {there is} just one {noun a} {spot}",
    "nothing but {a} {spot} {light}",
];

/// `{n}`: how many; `{as}`: the objects in the plural; `{formation}`: how they are laid out.
const GROUP: &[&str] = &[
    "{n} {as} {ground}",
    "{n} {as} {formation}",
    "{there are} {n} {as} {ground} {light}",
    "a group of {n} {as} {formation} {ground}",
    "the {picture} shows {n} {as} {formation} {light}",
    "{as}, {n} of them, {formation}",
    "{ground} {there are} {n} {as} {formation}",
    "{n} shapes of the same kind, all of them {as}",
    "{as} {ground}, {n} in all",
    "{n} {as} {formation}, with {place} in the background",
];

/// `{before}`, `{after}`: left and right of, or above and below; `{first side}`, `{second side}`: of the picture.
const SIDE: &[&str] = &[
    "{a} {before} {b}",
    "{b} {after} {a} {ground}",
    "{there is} {a} {before} {b} {ground} {light}",
    "{a} and {b} {ground}, with {the a} {first side}",
    "two shapes {ground}, {a} {first side} and {b} {second side}",
    "{the a} is {before} {the b}",
    "{b} {second side} and {a} {first side} {light}",
    "the {picture} shows {b} {after} {a}",
    "{ground}, {the b} is {after} {the a} {light}",
    "{first side} {a}, {second side} {b}, and {place} in the background",
];

/// `{a}` is the inner object, `{b}` the outer one.
const INSIDE: &[&str] = &[
    "{a} {inside} {b}",
    "{b} {around} {a} {ground}",
    "{b} with {a} in it {light}",
    "{there is} {a} {inside} {b} {ground}",
    "{the b} holds {a} {ground}",
    "{ground}, {the a} is {inside} {the b} {light}",
    "{b} contains {a}",
    "{a} framed by {b} {ground}",
    "the {picture} shows {b}, and {inside} it {a}",
    "one shape is {inside} another, {a} in {b}, with {place} in the background",
];

/// `{a}` is the near object, `{b}` the far one.
const FRONT: &[&str] = &[
    "{a} {in front of} {b}",
    "{b} {behind} {a} {ground}",
    "{there is} {a} {in front of} {b} {ground} {light}",
    "{the a} hides a part of {the b} {ground}",
    "{the b} is {behind} {the a}",
    "two shapes overlap {ground}, {a} is in front and {b} is at the back",
    "the {picture} shows {b}, and {in front of} it {a} {light}",
    "{ground}, {a} covers a part of {b}",
    "{a} lies on top of {b} {light}",
    "at the back is {b}, at the front is {a}, and {place} is in the background",
];

/// `{as}`: `{n}` equal objects; `{b}`: the other one; `{there}`: how the group lies to it; `{back}`: the reverse.
const BESIDE: &[&str] = &[
    "{n} {as} {there} {b}",
    "{b} {back} {n} {as} {ground}",
    "{there are} {n} {as} and one {noun b} {ground} {light}",
    "{n} {as} and {b}, with {the b} {b side}",
    "{all} shapes {ground}, {n} {as} and {b}",
    "the {picture} shows {n} {as} {group side} and {b} {b side}",
    "{ground}, {n} {as} are {there} {b} {light}",
    "{b} {b side}, {n} {as} {group side}",
    "one {noun b} is {back} {n} {as}, with {place} in the background",
];

/// `{a}`, `{b}`, `{c}`: from left to right or from top to bottom.
const LINE: &[&str] = &[
    "{a}, {b} and {c} {along}",
    "{b} between {a} and {c} {ground}",
    "three shapes {ground}, {a}, {b} and {c} {light}",
    "{the b} is between {the a} and {the c}",
    "{along} {there are} {a}, {b} and {c} {ground}",
    "{a} {first side}, {b} in the middle and {c} {second side}",
    "{c}, {b} and {a} {back along} {light}",
    "the {picture} shows {the c}, {the b} and {the a} {back along} {ground}",
    "in the middle {b}, {first side} {a}, {second side} {c}, with {place} in the background",
];

/// Five different captions of `scene`.
pub fn captions(scene: &Scene, stream: &mut Stream) -> [String; 5] {
    let sentences = match scene.arrangement {
        Arrangement::Single(_) => SINGLE,
        Arrangement::Group(_) => GROUP,
        Arrangement::Side(_) => SIDE,
        Arrangement::Inside => INSIDE,
        Arrangement::Front => FRONT,
        Arrangement::Beside(_) => BESIDE,
        Arrangement::Line(_) => LINE,
    };
    five_captions(sentences, stream, |name, detail, stream| {
        setting(name, scene.background, scene.light, stream)
            .or_else(|| objects(name, scene, detail, stream))
            .unwrap_or_else(|| arrangement(name, scene.arrangement, stream))
    })
}

/// Slots that name objects or count them.
fn objects(name: &str, scene: &Scene, detail: Detail, stream: &mut Stream) -> Option<String> {
    let objects = &scene.objects;
    let second = match scene.arrangement {
        Arrangement::Beside(_) => objects.last(),
        _ => objects.get(1),
    };
    let equal = objects.iter().filter(|object| **object == objects[0]).count();
    Some(match name {
        "a" => indefinite(&objects[0], detail, stream),
        "b" => indefinite(second?, detail, stream),
        "c" => indefinite(objects.get(2)?, detail, stream),
        "the a" => definite(&objects[0], stream),
        "the b" => definite(second?, stream),
        "the c" => definite(objects.get(2)?, stream),
        "noun a" => noun(&objects[0], detail, false, stream),
        "noun b" => noun(second?, detail, false, stream),
        "as" => noun(&objects[0], detail, true, stream),
        "n" => count(equal).to_string(),
        "all" => count(objects.len()).to_string(),
        _ => return None,
    })
}

/// Slots that say how the objects lie; empty for a phrase that needs nothing of the scene.
fn arrangement(name: &str, arrangement: Arrangement, stream: &mut Stream) -> String {
    let words = match arrangement {
        Arrangement::Single(spot) if name == "spot" => choose(stream, spot_words(spot)),
        Arrangement::Group(formation) if name == "formation" => choose(stream, formation_words(formation)),
        Arrangement::Side(axis) | Arrangement::Line(axis) => axis_words(name, axis),
        Arrangement::Beside(direction) => beside_words(name, direction),
        _ => "",
    };
    words.to_string()
}

fn spot_words(spot: Spot) -> &'static [&'static str] {
    match spot {
        Spot::Middle => &["in the middle", "in the center"],
        Spot::TopLeft => &["in the top left corner", "at the upper left", "near the top left"],
        Spot::TopRight => &["in the top right corner", "at the upper right", "near the top right"],
        Spot::BottomLeft => &["in the bottom left corner", "at the lower left", "near the bottom left"],
        Spot::BottomRight => &["in the bottom right corner", "at the lower right", "near the bottom right"],
    }
}

fn formation_words(formation: Formation) -> &'static [&'static str] {
    match formation {
        Formation::Row => &["in a row", "side by side", "lined up from left to right"],
        Formation::Column => &["in a column", "one above the other", "lined up from top to bottom"],
        Formation::Scattered => &["scattered around", "spread out", "here and there"],
    }
}

fn axis_words(name: &str, axis: Axis) -> &'static str {
    let first = match axis {
        Axis::Across => Direction::Left,
        Axis::Down => Direction::Up,
    };
    match (name, axis) {
        ("before", _) => relation(first),
        ("after", _) => relation(first.opposite()),
        ("first side", _) => side(first),
        ("second side", _) => side(first.opposite()),
        ("along", Axis::Across) => "from left to right",
        ("along", Axis::Down) => "from top to bottom",
        ("back along", Axis::Across) => "from right to left",
        ("back along", Axis::Down) => "from bottom to top",
        _ => "",
    }
}

fn beside_words(name: &str, direction: Direction) -> &'static str {
    match name {
        "there" => relation(direction),
        "back" => relation(direction.opposite()),
        "group side" => side(direction),
        "b side" => side(direction.opposite()),
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::data::scenes::grammar::expand;
    use crate::engine::Seed;

    #[test]
    fn no_sentence_leaves_a_slot_open_or_says_too_much() {
        for number in 0..2000 {
            let scene = Scene::new(9, number % 3, number / 3);
            for caption in captions(&scene, &mut Seed(9).stream("test", number)) {
                assert!(!caption.contains(['{', '}']) && !caption.contains("  "), "{caption}");
                assert!(caption.split(' ').count() <= 30, "{caption}");
            }
        }
    }

    #[test]
    fn every_slot_of_every_sentence_has_words() {
        let scene = |kind| Scene::new(3, 0, kind);
        let lists = [SINGLE, GROUP, SIDE, INSIDE, FRONT, BESIDE, LINE];
        for (kind, sentences) in lists.into_iter().enumerate() {
            let scene = scene(kind as u64);
            let mut stream = Seed(3).stream("test", kind as u64);
            for slot in sentences.iter().flat_map(|s| s.split('{').skip(1)).map(|s| s.split_once('}').unwrap().0) {
                let worded = setting(slot, scene.background, scene.light, &mut stream)
                    .or_else(|| objects(slot, &scene, Detail::Full, &mut stream))
                    .unwrap_or_else(|| arrangement(slot, scene.arrangement, &mut stream));
                let phrase = expand(&format!("{{{slot}}}"), &mut stream, |_, _| String::new());
                assert!(slot == "light" || !worded.is_empty() || phrase.len() > 1, "{{{slot}}} of kind {kind}");
            }
        }
    }
}
