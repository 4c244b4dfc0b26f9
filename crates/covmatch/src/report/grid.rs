//! Distilled pairs as people see them: the picture a pair started from beside what became of it, and the captions.
//!
//! Pictures are PNG inside the page (`data:` addresses), so that the page is one file. Small ones are shown large with
//! sharp pixels, as blurring them would show detail that is not there.

use askama::Template;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::data::RgbImage;
use crate::data::inspect::encode_png;

/// Pictures with a side below this are shown with sharp pixels.
const SMALL: usize = 128;
/// Pictures of the strip at the head of a page.
const STRIP: usize = 12;
/// Their longer side.
const THUMBNAIL: usize = 64;

/// A pair before and after distillation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairView {
    /// The real picture that the pair started from.
    pub before: RgbImage,
    /// The distilled picture.
    pub after: RgbImage,
    /// The caption that the pair started from.
    pub init_caption: String,
    /// The real caption whose feature is nearest to the distilled one.
    pub nearest_caption: String,
}

/// All pairs as cards in a list.
#[derive(Template)]
#[template(path = "pairs.html")]
pub(super) struct Pairs<'a> {
    pairs: Vec<Card<'a>>,
}

/// A pair with its pictures encoded.
struct Card<'a> {
    view: &'a PairView,
    before: Picture,
    after: Picture,
}

impl<'a> Pairs<'a> {
    pub fn of(pairs: &'a [PairView]) -> Self {
        let card = |(i, view): (usize, &'a PairView)| Card {
            view,
            before: Picture::new(&view.before, format!("Pair {} before: {}", i + 1, view.init_caption)),
            after: Picture::new(&view.after, format!("Pair {} after: {}", i + 1, view.nearest_caption)),
        };
        Self { pairs: pairs.iter().enumerate().map(card).collect() }
    }
}

/// Some distilled pictures, spread evenly, as an ornament; none with fewer than four pairs.
pub(super) fn strip(pairs: &[PairView]) -> Vec<Picture> {
    if pairs.len() < 4 {
        return Vec::new();
    }
    let count = pairs.len().min(STRIP);
    let chosen = (0..count).map(|i| &pairs[i * pairs.len() / count].after).filter(|picture| check(picture).is_ok());
    chosen.map(|picture| Picture::new(&thumbnail(picture), String::new())).collect()
}

/// An `<img>`, or the reason why there is none.
#[derive(Template)]
#[template(path = "picture.html")]
pub(super) struct Picture {
    width: usize,
    height: usize,
    /// What is read out in place of the picture.
    alt: String,
    /// The file in base64.
    png: Result<String, String>,
}

impl Picture {
    fn new(picture: &RgbImage, alt: String) -> Self {
        let png = png(picture).map(|bytes| BASE64_STANDARD.encode(bytes));
        Self { width: picture.width, height: picture.height, alt, png }
    }

    fn is_small(&self) -> bool {
        self.width.max(self.height) < SMALL
    }
}

/// An error unless `picture` has as many values as its sides say, and some.
fn check(picture: &RgbImage) -> Result<(), String> {
    let (width, height, values) = (picture.width, picture.height, picture.pixels.len());
    match values != 0 && width * height * 3 == values {
        true => Ok(()),
        false => Err(format!("no picture: {values} values do not make {width} x {height} pixels")),
    }
}

fn png(picture: &RgbImage) -> Result<Vec<u8>, String> {
    check(picture)?;
    encode_png(picture).map_err(|error| error.to_string())
}

/// `picture` at most [`THUMBNAIL`] pixels long; each pixel is the mean of those it stands for.
fn thumbnail(picture: &RgbImage) -> RgbImage {
    let longest = picture.width.max(picture.height);
    let whole = image::RgbImage::from_raw(picture.width as u32, picture.height as u32, picture.pixels.clone());
    let Some(whole) = whole.filter(|_| longest > THUMBNAIL) else { return picture.clone() };
    let [width, height] = [picture.width, picture.height].map(|side| (side * THUMBNAIL / longest).max(1));
    let small = image::imageops::thumbnail(&whole, width as u32, height as u32);
    RgbImage { width, height, pixels: small.into_raw() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grey(width: usize, height: usize, value: u8) -> RgbImage {
        RgbImage { width, height, pixels: vec![value; width * height * 3] }
    }

    fn pair(init: &str, nearest: &str) -> PairView {
        let (init_caption, nearest_caption) = (init.to_owned(), nearest.to_owned());
        PairView { before: grey(8, 8, 0), after: grey(8, 8, 255), init_caption, nearest_caption }
    }

    fn pairs_html(pairs: &[PairView]) -> String {
        Pairs::of(pairs).to_string()
    }

    fn picture_html(picture: &RgbImage) -> String {
        Picture::new(picture, String::new()).to_string()
    }

    #[test]
    fn a_card_has_both_pictures_and_both_captions() {
        let html = pairs_html(&[pair("a dog", "a cat")]);
        assert_eq!(html.matches("<img class=\"small\" width=\"8\" height=\"8\"").count(), 2);
        assert_eq!(html.matches("src=\"data:image/png;base64,iVBORw0KGgo").count(), 2);
        assert!(html.contains("alt=\"Pair 1 before: a dog\"") && html.contains("alt=\"Pair 1 after: a cat\""));
        assert!(html.contains(">a dog</dd>") && html.contains(">a cat</dd>"));
    }

    #[test]
    fn a_caption_that_stayed_is_shown_once() {
        assert_eq!(pairs_html(&[pair("same", "same")]).matches(">same</dd>").count(), 1);
        assert_eq!(pairs_html(&[pair("same", "other")]).matches("</dd>").count(), 2);
    }

    #[test]
    fn captions_cannot_bring_in_tags() {
        let html = pairs_html(&[pair("<script>alert(1)</script>", "\" onload=\"x")]);
        assert!(!html.contains("<script>") && html.contains("&lt;script&gt;"));
        assert!(!html.contains("\" onload="));
    }

    #[test]
    fn only_small_pictures_are_shown_with_sharp_pixels() {
        assert!(picture_html(&grey(SMALL - 1, 8, 1)).contains("class=\"small\""));
        assert!(!picture_html(&grey(SMALL, 8, 1)).contains("class=\"small\""));
    }

    #[test]
    fn a_picture_that_is_none_is_a_sentence() {
        let broken = RgbImage { width: 2, height: 2, pixels: vec![0; 5] };
        for picture in [broken, grey(0, 0, 0)] {
            let html = picture_html(&picture);
            assert!(html.contains("class=\"fault\"") && !html.contains("<img"), "{html}");
        }
    }

    #[test]
    fn a_thumbnail_is_the_mean_of_what_it_stands_for() {
        let mut wide = grey(256, 128, 0);
        wide.pixels.chunks_exact_mut(3).step_by(2).for_each(|pixel| pixel.fill(200));
        let small = thumbnail(&wide);
        assert_eq!((small.width, small.height), (64, 32));
        assert!(small.pixels.iter().all(|&value| value == 100));
        assert_eq!(thumbnail(&grey(64, 20, 7)), grey(64, 20, 7));
    }

    #[test]
    fn the_strip_shows_at_most_twelve_pictures_and_none_of_too_few_pairs() {
        let pairs = vec![pair("a", "b"); 30];
        assert_eq!(strip(&pairs).len(), STRIP);
        assert_eq!(strip(&pairs[..5]).len(), 5);
        assert!(strip(&pairs[..3]).is_empty());
        let mut broken = pairs[..5].to_vec();
        broken[2].after.pixels.clear();
        let strip: String = strip(&broken).iter().map(Picture::to_string).collect();
        assert!(strip.matches("<img").count() == 4 && !strip.contains("fault"), "{strip}");
    }
}
