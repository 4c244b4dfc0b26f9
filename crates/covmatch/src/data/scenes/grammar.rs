//! A small grammar: sentences with slots, and the phrases that fill them.
//!
//! A sentence is text with `{slots}`. A slot is a phrase of [`PHRASES`], of which any wording may stand, or names
//! something of the scene (`{a}`: the first object), which the scene's own code words. Five sentences of a scene's
//! list are chosen without repetition, each with a level of detail of its own.

use super::attributes::{Background, Light, Object};
use super::chance::{below, choose, happens};
use super::description::Direction;
use crate::engine::Stream;

/// Wordings that mean the same.
const PHRASES: &[(&str, &[&str])] = &[
    ("left of", &["to the left of", "left of", "on the left side of"]),
    ("right of", &["to the right of", "right of", "on the right side of"]),
    ("above", &["above", "over", "higher than"]),
    ("below", &["below", "under", "beneath", "lower than"]),
    ("inside", &["inside", "within", "in the middle of"]),
    ("around", &["around", "surrounding", "that goes around"]),
    ("in front of", &["in front of", "partly covering", "partly hiding"]),
    ("behind", &["behind", "partly covered by", "partly hidden by"]),
    ("on the left", &["on the left", "at the left", "on the left side"]),
    ("on the right", &["on the right", "at the right", "on the right side"]),
    ("at the top", &["at the top", "in the upper part", "up high"]),
    ("at the bottom", &["at the bottom", "in the lower part", "down low"]),
    ("to the left", &["to the left", "left", "from right to left"]),
    ("to the right", &["to the right", "right", "from left to right"]),
    ("up", &["up", "upwards", "from bottom to top"]),
    ("down", &["down", "downwards", "from top to bottom"]),
    ("there is", &["there is", "we see", "you can see", "here is"]),
    ("there are", &["there are", "we see", "you can see", "here are"]),
    ("picture", &["picture", "image", "drawing", "scene"]),
    ("a picture", &["a picture", "an image", "a drawing", "a view"]),
    ("clip", &["clip", "video", "film"]),
    ("moves", &["moves", "slides", "goes", "travels"]),
    ("move", &["move", "slide", "go", "travel"]),
    ("moving", &["moving", "sliding", "going", "traveling"]),
    ("past", &["past", "by"]),
    ("slowly", &["slowly", "at a slow pace"]),
    ("quickly", &["quickly", "fast", "at high speed"]),
    ("turns", &["turns", "turns around", "spins"]),
    ("turning", &["turning", "turning around", "spinning"]),
    ("clockwise", &["clockwise", "like the hands of a clock"]),
    ("counterclockwise", &["against the hands of a clock", "the opposite way of a clock"]),
    ("grows", &["grows", "gets bigger", "becomes larger"]),
    ("growing", &["growing", "getting bigger", "becoming larger"]),
    ("shrinks", &["gets smaller", "becomes smaller", "grows smaller"]),
    ("shrinking", &["getting smaller", "becoming smaller", "growing smaller"]),
    ("appears", &["appears", "shows up", "comes into view"]),
    ("disappears", &["disappears", "goes away", "goes out of view"]),
    ("stays", &["stays", "stays still", "does not move", "remains"]),
];

/// Counts in words.
const COUNTS: [&str; 5] = ["no", "one", "two", "three", "four"];

/// `count` in words.
pub fn count(count: usize) -> &'static str {
    COUNTS.get(count).copied().unwrap_or("many")
}

/// How much a caption says of an object beyond shape and colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Nothing.
    Brief,
    /// Size and fill, each half of the time.
    Some,
    /// Size and fill.
    Full,
}

/// Words of a caption that the protocol keeps.
const MAX_WORDS: usize = 30;

/// Five different captions: each of [`five`] of `sentences` filled by `slot`, without detail where it would run long.
pub fn five_captions(
    sentences: &[&'static str],
    stream: &mut Stream,
    slot: impl Fn(&str, Detail, &mut Stream) -> String,
) -> [String; 5] {
    five(sentences, stream).map(|(sentence, detail)| {
        let text = expand(sentence, stream, |name, stream| slot(name, detail, stream));
        match text.split(' ').count() {
            0..=MAX_WORDS => text,
            _ => expand(sentence, stream, |name, stream| slot(name, Detail::Brief, stream)),
        }
    })
}

/// Fills the slots of `sentence`: a slot that is no phrase is worded by `slot`. The result starts with a capital
/// letter and ends with a full stop.
pub(super) fn expand(sentence: &str, stream: &mut Stream, mut slot: impl FnMut(&str, &mut Stream) -> String) -> String {
    let mut text = String::with_capacity(96);
    let mut rest = sentence;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        text.push_str(before);
        let words = slot(name, stream);
        // A slot may be worded by a phrase: "{before}" by "left of", which is then chosen from its wordings.
        text.push_str(phrase(&words, stream).or_else(|| phrase(name, stream)).unwrap_or(&words));
        rest = after;
    }
    text.push_str(rest);
    finish(&text)
}

/// One of the wordings of a phrase.
fn phrase(name: &str, stream: &mut Stream) -> Option<&'static str> {
    PHRASES.iter().find(|(known, _)| *known == name).map(|(_, wordings)| choose(stream, wordings))
}

/// Single spaces, none before a comma, a capital letter first, a full stop last.
fn finish(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace(" ,", ",");
    let mut letters = text.trim_end_matches(',').chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

/// Five different `(sentence, detail)` of `sentences`, which are five or more.
fn five(sentences: &[&'static str], stream: &mut Stream) -> [(&'static str, Detail); 5] {
    let mut order: Vec<&'static str> = sentences.to_vec();
    let mut details = [Detail::Full, Detail::Full, Detail::Some, Detail::Some, Detail::Brief];
    std::array::from_fn(|i| {
        let other = i + below(stream, order.len() - i);
        order.swap(i, other);
        let other = i + below(stream, details.len() - i);
        details.swap(i, other);
        (order[i], details[i])
    })
}

/// "a small striped red star".
pub fn indefinite(object: &Object, detail: Detail, stream: &mut Stream) -> String {
    let noun = noun(object, detail, false, stream);
    let article = if noun.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {noun}")
}

/// "the red star".
pub fn definite(object: &Object, stream: &mut Stream) -> String {
    format!("the {}", noun(object, Detail::Brief, false, stream))
}

/// "small striped red star", or "stars" when `plural`.
pub fn noun(object: &Object, detail: Detail, plural: bool, stream: &mut Stream) -> String {
    let mentions = |stream: &mut Stream| match detail {
        Detail::Brief => false,
        Detail::Some => happens(stream, 0.5),
        Detail::Full => true,
    };
    let mut words: Vec<&str> = Vec::with_capacity(6);
    if mentions(stream) {
        words.extend(any(object.size.names(), stream));
    }
    let mut ending = None;
    if mentions(stream) {
        ending = any(object.fill.endings(), stream).filter(|_| happens(stream, 0.35));
        words.extend(any(object.fill.adjectives(), stream).filter(|_| ending.is_none()));
    }
    words.push(mostly_first(object.colour.names(), stream));
    let (one, many) = mostly_first(object.shape.names(), stream);
    words.push(if plural { many } else { one });
    words.extend(ending);
    words.join(" ")
}

/// Any of `words`, if there are any.
fn any(words: &[&'static str], stream: &mut Stream) -> Option<&'static str> {
    (!words.is_empty()).then(|| choose(stream, words))
}

/// The usual name in three of four cases.
fn mostly_first<T: Copy>(names: &[T], stream: &mut Stream) -> T {
    if happens(stream, 0.75) { names[0] } else { choose(stream, names) }
}

/// Slots that every scene words alike: `{ground}`, `{place}` and `{light}` (empty where light is not worth a word).
pub fn setting(name: &str, background: Background, light: Light, stream: &mut Stream) -> Option<String> {
    let words = match name {
        "ground" => any(background.grounds(), stream),
        "place" => any(background.places(), stream),
        "light" => Some(any(light.phrases(), stream).unwrap_or_default()),
        _ => None,
    };
    words.map(str::to_string)
}

/// The phrase for lying in `direction` of something.
pub fn relation(direction: Direction) -> &'static str {
    match direction {
        Direction::Left => "left of",
        Direction::Right => "right of",
        Direction::Up => "above",
        Direction::Down => "below",
    }
}

/// The phrase for the side of the picture in `direction`.
pub fn side(direction: Direction) -> &'static str {
    match direction {
        Direction::Left => "on the left",
        Direction::Right => "on the right",
        Direction::Up => "at the top",
        Direction::Down => "at the bottom",
    }
}

impl Direction {
    /// The other way.
    pub fn opposite(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::scenes::attributes::{Colour, Fill, Shape, Size};
    use crate::engine::Seed;

    #[test]
    fn a_sentence_gets_its_slots_filled_and_its_spaces_tidied() {
        let mut stream = Seed(1).stream("test", 0);
        let text = expand("{x} stays {none}, {y}", &mut stream, |name, _| match name {
            "x" => "a box".into(),
            "y" => "quiet".into(),
            _ => String::new(),
        });
        assert_eq!(text, "A box stays, quiet.");
    }

    #[test]
    fn articles_follow_the_sound_of_the_next_word() {
        let mut stream = Seed(1).stream("test", 0);
        let mut object = Object { shape: Shape::Heart, colour: Colour::Orange, size: Size::Medium, fill: Fill::Plain };
        assert_eq!(indefinite(&object, Detail::Full, &mut stream), "an orange heart");
        object.colour = Colour::Red;
        assert_eq!(indefinite(&object, Detail::Full, &mut stream), "a red heart");
    }

    #[test]
    fn a_phrase_is_listed_once() {
        let mut names: Vec<&str> = PHRASES.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
