//! Distilled pairs as people see them: the picture a pair started from beside what became of it, and the captions.
//!
//! Pictures are PNG inside the page (`data:` addresses), so that the page is one file. Small ones are shown large with
//! sharp pixels, as blurring them would show detail that is not there.

use super::embed::{base64, escape};
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
pub(super) fn pairs_html(pairs: &[PairView]) -> String {
    let cards: String = pairs.iter().enumerate().map(|(i, pair)| card(i + 1, pair)).collect();
    format!("<ol class=\"pairs\">\n{cards}</ol>\n")
}

/// Some distilled pictures, spread evenly, as an ornament; empty with fewer than four pairs.
pub(super) fn strip_html(pairs: &[PairView]) -> String {
    if pairs.len() < 4 {
        return String::new();
    }
    let count = pairs.len().min(STRIP);
    let chosen = (0..count).map(|i| &pairs[i * pairs.len() / count].after).filter(|picture| png(picture).is_ok());
    let pictures: String = chosen.map(|picture| picture_html(&thumbnail(picture), "")).collect();
    format!("<div class=\"strip\" aria-hidden=\"true\">{pictures}</div>\n")
}

fn card(number: usize, pair: &PairView) -> String {
    let (init, nearest) = (escape(&pair.init_caption), escape(&pair.nearest_caption));
    let before = picture_html(&pair.before, &format!("Pair {number} before: {}", pair.init_caption));
    let after = picture_html(&pair.after, &format!("Pair {number} after: {}", pair.nearest_caption));
    let captions = if init == nearest {
        format!("<div><dt>Caption, before and after</dt><dd dir=\"auto\">{init}</dd></div>")
    } else {
        format!(
            "<div><dt>Started from</dt><dd dir=\"auto\">{init}</dd></div>\
             <div class=\"now\"><dt>Now nearest to</dt><dd dir=\"auto\">{nearest}</dd></div>"
        )
    };
    format!(
        "<li class=\"pair\">\n<div class=\"pictures\">\n\
         <figure>{before}<figcaption>before</figcaption></figure>\n\
         <figure>{after}<figcaption>after</figcaption></figure>\n\
         </div>\n<dl>{captions}</dl>\n</li>\n"
    )
}

/// An `<img>`, or the reason why there is none.
fn picture_html(picture: &RgbImage, alt: &str) -> String {
    let (width, height) = (picture.width, picture.height);
    match png(picture) {
        Ok(bytes) => {
            let class = if width.max(height) < SMALL { " class=\"small\"" } else { "" };
            let (alt, data) = (escape(alt), base64(&bytes));
            format!(
                "<img{class} width=\"{width}\" height=\"{height}\" alt=\"{alt}\" decoding=\"async\" \
                 src=\"data:image/png;base64,{data}\">"
            )
        }
        Err(cause) => format!("<p class=\"fault\">{}</p>", escape(&cause)),
    }
}

fn png(picture: &RgbImage) -> Result<Vec<u8>, String> {
    let (width, height, values) = (picture.width, picture.height, picture.pixels.len());
    if values == 0 || width * height * 3 != values {
        return Err(format!("no picture: {values} values do not make {width} x {height} pixels"));
    }
    encode_png(picture).map_err(|error| error.to_string())
}

/// `picture` at most [`THUMBNAIL`] pixels long; each pixel is the mean of those it stands for.
fn thumbnail(picture: &RgbImage) -> RgbImage {
    let longest = picture.width.max(picture.height);
    if longest <= THUMBNAIL || picture.pixels.len() != picture.width * picture.height * 3 {
        return picture.clone();
    }
    let [width, height] = [picture.width, picture.height].map(|side| (side * THUMBNAIL / longest).max(1));
    let mut pixels = Vec::with_capacity(width * height * 3);
    for i in 0..width * height {
        let columns = i % width * picture.width / width..(i % width + 1) * picture.width / width;
        let rows = i / width * picture.height / height..(i / width + 1) * picture.height / height;
        let count = columns.len() * rows.len();
        for channel in 0..3 {
            let value = |(y, x): (usize, usize)| usize::from(picture.pixels[(y * picture.width + x) * 3 + channel]);
            let places = rows.clone().flat_map(|y| columns.clone().map(move |x| (y, x)));
            let sum: usize = places.map(value).sum();
            pixels.push((sum / count.max(1)) as u8);
        }
    }
    RgbImage { width, height, pixels }
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
        assert!(picture_html(&grey(SMALL - 1, 8, 1), "").contains("class=\"small\""));
        assert!(!picture_html(&grey(SMALL, 8, 1), "").contains("class=\"small\""));
    }

    #[test]
    fn a_picture_that_is_none_is_a_sentence() {
        let broken = RgbImage { width: 2, height: 2, pixels: vec![0; 5] };
        for picture in [broken, grey(0, 0, 0)] {
            let html = picture_html(&picture, "");
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
        assert_eq!(strip_html(&pairs).matches("<img").count(), STRIP);
        assert_eq!(strip_html(&pairs[..5]).matches("<img").count(), 5);
        assert_eq!(strip_html(&pairs[..3]), "");
        let mut broken = pairs[..5].to_vec();
        broken[2].after.pixels.clear();
        let strip = strip_html(&broken);
        assert!(strip.matches("<img").count() == 4 && !strip.contains("fault"), "{strip}");
    }
}
