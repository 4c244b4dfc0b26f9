//! Some distilled pictures side by side, an ornament at the head of a page.

use super::grid::PairView;
use super::picture::{Picture, check};
use crate::data::RgbImage;

/// Pictures of a strip.
const STRIP: usize = 12;
/// Their longer side.
const THUMBNAIL: usize = 64;

/// Some distilled pictures, spread evenly; none with fewer than four pairs.
pub(super) fn strip(pairs: &[PairView]) -> Vec<Picture> {
    if pairs.len() < 4 {
        return Vec::new();
    }
    let count = pairs.len().min(STRIP);
    let chosen = (0..count).map(|i| &pairs[i * pairs.len() / count].after).filter(|picture| check(picture).is_ok());
    chosen.map(|picture| Picture::new(&thumbnail(picture), String::new())).collect()
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
    use crate::report::grid::tests::pair;
    use crate::report::picture::tests::grey;

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
