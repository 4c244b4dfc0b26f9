//! What is said of a clip: sentences for every motion, all of which need the motion.

use super::{Approach, Change, ClipScene, Meeting, Motion, Presence, Sense, Speed};
use crate::data::scenes::description::{Axis, Direction};
use crate::data::scenes::grammar::{Detail, definite, five_captions, indefinite, setting};
use crate::engine::Stream;

/// `{way}`: the direction; `{pace}`: slowly or quickly.
const MOVE: &[&str] = &[
    "{a} {moves} {way} {pace}",
    "{the a} {moves} {way} {pace} {ground}",
    "{pace}, {a} {moves} {way} {light}",
    "{there is} {a} {moving} {way} {pace} {ground}",
    "a {clip} of {a} {moving} {pace} {way}",
    "{ground}, {a} {moves} {pace} {way} {light}",
    "the {clip} shows {the a} {moving} {way} {pace}",
];

const PAST: &[&str] = &[
    "{the a} {moves} {way} {past} {the b}",
    "{a} {moves} {way} {past} {b} {ground}",
    "{moving} {way}, {a} passes {b} {light}",
    "{b} {stays} while {a} {moves} {way} {past} it",
    "{ground}, {a} passes {the b} and {moves} {way}",
    "a {clip} of {a} {moving} {way} {past} {b}",
    "{the b} is passed by {a}, which {moves} {way} {light}",
];

/// `{near}`: toward or away from.
const NEAR: &[&str] = &[
    "{the a} {moves} {way} {near} {the b}",
    "{a} {moves} {near} {b} {ground}",
    "{moving} {way}, {a} {comes} {b} {light}",
    "{b} {stays} while {a} {moves} {near} it",
    "{ground}, {a} {moves} {way} and {near} {b}",
    "a {clip} of {a} {moving} {way} {near} {b}",
    "{the a} {comes} {the b} {ground} {light}",
];

/// `{sense}`: clockwise or counterclockwise.
const SPIN: &[&str] = &[
    "{a} {turns} {sense}",
    "{a} {turns} {sense} {ground}",
    "{there is} {a} {turning} {sense} {ground} {light}",
    "the {clip} shows {a} {turning} {sense}",
    "{turning} {sense}, {a} stays in its place {light}",
    "{ground}, {the a} {turns} {sense}",
    "a {clip} of {a} that {turns} {sense}, with {place} in the background",
];

/// `{changes}`, `{changing}`: grows or shrinks.
const RESIZE: &[&str] = &[
    "{the a} {changes} next to {the b}",
    "{a} {changes} while {b} {stays} {ground}",
    "{b} keeps its size and {a} {changes} {light}",
    "{there is} {a} {changing} beside {b} {ground}",
    "the {clip} shows {a} {changing} next to {b}",
    "{ground}, {a} {changes} beside {the b}",
    "{changing}, {the a} is next to {the b} {light}",
];

/// `{shows}`: appears or disappears.
const SHOW: &[&str] = &[
    "{the a} {shows} next to {the b}",
    "{a} {shows} beside {b} {ground}",
    "{b} {stays} and {a} {shows} {light}",
    "{ground}, {a} {shows} while {b} {stays}",
    "after a while {a} {shows} beside {the b}",
    "the {clip} shows {b}, and next to it {a} {shows}",
    "halfway through, {the a} {shows} but {the b} {stays} {ground} {light}",
];

/// `{from a}`, `{from b}`: where each comes from.
const COLLIDE: &[&str] = &[
    "{the a} and {the b} bump into each other and go back",
    "{a} {from a} hits {b} {from b} {ground}",
    "{a} and {b} run into each other and part {ground} {light}",
    "{ground}, {the a} {from a} and {the b} {from b} crash and go back",
    "{b} {from b} is pushed back by {a} {from a}",
    "a {clip} of {a} and {b} that hit each other and turn around",
    "after they meet, {the a} and {the b} both turn back {light}",
];

const PASS: &[&str] = &[
    "{the a} and {the b} pass each other and go on",
    "{a} {from a} passes {b} {from b} {ground}",
    "{a} and {b} change places {ground} {light}",
    "{ground}, {the a} {from a} and {the b} {from b} pass and go on",
    "{b} {from b} goes by {a} {from a}",
    "a {clip} of {a} and {b} that pass without touching",
    "after they meet, {the a} and {the b} both go on {light}",
];

const FOLLOW: &[&str] = &[
    "{the a} follows {the b} {way}",
    "{a} follows {b} {way} {ground}",
    "{b} {moves} {way} and {a} comes after it {light}",
    "{ground}, {b} leads {a} {way}",
    "{a} is behind {b}, both {moving} {way}",
    "a {clip} of {a} and {b} {moving} {way}, with {the b} in the lead",
    "{the b} {moves} {way} ahead of {the a} {ground} {light}",
];

/// Five different captions of `scene`.
pub fn captions(scene: &ClipScene, stream: &mut Stream) -> [String; 5] {
    let sentences = match scene.motion {
        Motion::Move(..) => MOVE,
        Motion::Past(_) => PAST,
        Motion::Near(..) => NEAR,
        Motion::Spin(_) => SPIN,
        Motion::Resize(_) => RESIZE,
        Motion::Show(_) => SHOW,
        Motion::Meet(Meeting::Collide, _) => COLLIDE,
        Motion::Meet(Meeting::Pass, _) => PASS,
        Motion::Follow(_) => FOLLOW,
    };
    five_captions(sentences, stream, |name, detail, stream| {
        setting(name, scene.background, scene.light, stream)
            .or_else(|| objects(name, scene, detail, stream))
            .unwrap_or_else(|| motion(name, scene.motion).to_string())
    })
}

/// Slots that name objects.
fn objects(name: &str, scene: &ClipScene, detail: Detail, stream: &mut Stream) -> Option<String> {
    let (first, second) = (&scene.objects[0], scene.objects.get(1));
    Some(match name {
        "a" => indefinite(first, detail, stream),
        "b" => indefinite(second?, detail, stream),
        "the a" => definite(first, stream),
        "the b" => definite(second?, stream),
        _ => return None,
    })
}

/// Slots that say what happens; empty for a phrase that needs nothing of the clip.
fn motion(name: &str, motion: Motion) -> &'static str {
    match (name, motion) {
        ("way", Motion::Move(direction, _) | Motion::Past(direction)) => way(direction),
        ("way", Motion::Near(_, direction) | Motion::Follow(direction)) => way(direction),
        ("pace", Motion::Move(_, Speed::Slow)) => "slowly",
        ("pace", Motion::Move(_, Speed::Fast)) => "quickly",
        ("near", Motion::Near(Approach::Toward, _)) => "toward",
        ("near", Motion::Near(Approach::Away, _)) => "away from",
        ("comes", Motion::Near(Approach::Toward, _)) => "comes close to",
        ("comes", Motion::Near(Approach::Away, _)) => "leaves",
        ("sense", Motion::Spin(Sense::Clockwise)) => "clockwise",
        ("sense", Motion::Spin(Sense::Counterclockwise)) => "counterclockwise",
        ("changes", Motion::Resize(Change::Grows)) => "grows",
        ("changes", Motion::Resize(Change::Shrinks)) => "shrinks",
        ("changing", Motion::Resize(Change::Grows)) => "growing",
        ("changing", Motion::Resize(Change::Shrinks)) => "shrinking",
        ("shows", Motion::Show(Presence::Appears)) => "appears",
        ("shows", Motion::Show(Presence::Disappears)) => "disappears",
        ("from a", Motion::Meet(_, Axis::Across)) => "from the left",
        ("from b", Motion::Meet(_, Axis::Across)) => "from the right",
        ("from a", Motion::Meet(_, Axis::Down)) => "from the top",
        ("from b", Motion::Meet(_, Axis::Down)) => "from the bottom",
        _ => "",
    }
}

/// The phrase for moving in `direction`.
fn way(direction: Direction) -> &'static str {
    match direction {
        Direction::Left => "to the left",
        Direction::Right => "to the right",
        Direction::Up => "up",
        Direction::Down => "down",
    }
}
