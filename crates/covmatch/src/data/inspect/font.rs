//! Text in pictures: a bitmap font of 5 x 9 points for ASCII, and drawing with it.
//!
//! `font.txt` shows the glyphs as they look: six bands of sixteen characters from the space on, nine rows each (seven
//! above the base line, two below). The last glyph, a box, stands for every character that the font does not have.

use std::sync::LazyLock;

use crate::data::RgbImage;

/// Points from one character to the next.
pub const ADVANCE: usize = 6;
/// Points from one line to the next.
pub const LINE: usize = 11;

const ROWS: usize = 9;
const COLUMNS: usize = 5;
const GLYPHS: usize = 96;
const BAND: usize = 16;

/// Rows of every glyph, the leftmost point in the highest of five bits.
static FONT: LazyLock<[[u8; ROWS]; GLYPHS]> = LazyLock::new(|| {
    let mut font = [[0; ROWS]; GLYPHS];
    let lines = include_str!("font.txt").lines().filter(|line| !line.is_empty());
    for (i, line) in lines.enumerate() {
        for (j, points) in line.split(' ').enumerate() {
            let row = points.bytes().fold(0, |row, point| (row << 1) | u8::from(point == b'#'));
            font[i / ROWS * BAND + j][i % ROWS] = row;
        }
    }
    font
});

/// The glyph of a character.
fn glyph(character: char) -> &'static [u8; ROWS] {
    let index = (character as usize).wrapping_sub(32);
    &FONT[index.min(GLYPHS - 1)]
}

/// Draws one line of text with its top left corner at `(x, y)`, each point `scale` pixels wide; what does not fit is
/// cut off.
pub fn draw(picture: &mut RgbImage, text: &str, (x, y): (usize, usize), scale: usize, rgb: [u8; 3]) {
    for (i, character) in text.chars().enumerate() {
        for (row, bits) in glyph(character).iter().enumerate() {
            for column in (0..COLUMNS).filter(|column| bits >> (COLUMNS - 1 - column) & 1 == 1) {
                fill(picture, (x + (i * ADVANCE + column) * scale, y + row * scale), scale, rgb);
            }
        }
    }
}

/// Fills a square of `side` pixels.
fn fill(picture: &mut RgbImage, (x, y): (usize, usize), side: usize, rgb: [u8; 3]) {
    for row in y..(y + side).min(picture.height) {
        for column in x..(x + side).min(picture.width) {
            let at = (row * picture.width + column) * 3;
            picture.pixels[at..at + 3].copy_from_slice(&rgb);
        }
    }
}

/// Breaks `text` into at most `lines` lines of at most `width` characters, at spaces where there are any. Text that is
/// left over is announced by two dots.
pub fn wrap(text: &str, width: usize, lines: usize) -> Vec<String> {
    let mut wrapped: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let letters: Vec<char> = word.chars().collect();
        for piece in letters.chunks(width.max(1)) {
            let fits = wrapped.last().is_some_and(|line| line.chars().count() + 1 + piece.len() <= width);
            match wrapped.last_mut() {
                Some(line) if fits => {
                    line.push(' ');
                    line.extend(piece);
                }
                _ => wrapped.push(piece.iter().collect()),
            }
        }
    }
    if wrapped.len() > lines {
        wrapped.truncate(lines);
        if let Some(last) = wrapped.last_mut() {
            let kept: String = last.chars().take(width.saturating_sub(2)).collect();
            *last = kept + "..";
        }
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_glyph_but_the_space_has_points_and_no_two_are_the_same() {
        for (i, one) in FONT.iter().enumerate() {
            assert_eq!(one.iter().any(|row| *row != 0), i != 0, "{:?}", char::from(32 + i as u8));
            assert!(FONT[..i].iter().all(|other| other != one), "{:?}", char::from(32 + i as u8));
        }
    }

    #[test]
    fn a_letter_is_drawn_where_it_belongs() {
        let mut picture = RgbImage { width: 12, height: 9, pixels: vec![0; 12 * 9 * 3] };
        draw(&mut picture, " L", (0, 0), 1, [255; 3]);
        let lit = |x: usize, y: usize| picture.pixels[(y * 12 + x) * 3] == 255;
        assert!((0..7).all(|y| lit(6, y)) && (6..11).all(|x| lit(x, 6)) && !lit(7, 5) && !lit(5, 0) && !lit(6, 7));
    }

    #[test]
    fn text_breaks_at_spaces_and_long_words_inside() {
        assert_eq!(wrap("a red star left of a ring", 10, 9), ["a red star", "left of a", "ring"]);
        assert_eq!(wrap("abcdefghij klm", 4, 9), ["abcd", "efgh", "ij", "klm"]);
        assert_eq!(wrap("one two three", 5, 2), ["one", "two.."]);
        assert!(wrap("  ", 5, 2).is_empty());
    }
}
