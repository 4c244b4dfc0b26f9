//! A picture inside a page.
//!
//! It is PNG in a `data:` address, so that the page is one file. Small ones are shown large with sharp pixels, as blurring
//! them would show detail that is not there.

use askama::Template;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::data::RgbImage;
use crate::data::inspect::encode_png;

/// Pictures with a side below this are shown with sharp pixels.
const SMALL: usize = 128;

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
    /// `picture`, which is read out as `alt`.
    pub fn new(picture: &RgbImage, alt: String) -> Self {
        let png = png(picture).map(|bytes| BASE64_STANDARD.encode(bytes));
        Self { width: picture.width, height: picture.height, alt, png }
    }

    fn is_small(&self) -> bool {
        self.width.max(self.height) < SMALL
    }
}

/// An error unless `picture` has as many values as its sides say, and some.
pub(super) fn check(picture: &RgbImage) -> Result<(), String> {
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn grey(width: usize, height: usize, value: u8) -> RgbImage {
        RgbImage { width, height, pixels: vec![value; width * height * 3] }
    }

    fn html(picture: &RgbImage) -> String {
        Picture::new(picture, String::new()).to_string()
    }

    #[test]
    fn only_small_pictures_are_shown_with_sharp_pixels() {
        assert!(html(&grey(SMALL - 1, 8, 1)).contains("class=\"small\""));
        assert!(!html(&grey(SMALL, 8, 1)).contains("class=\"small\""));
    }

    #[test]
    fn a_picture_that_is_none_is_a_sentence() {
        let broken = RgbImage { width: 2, height: 2, pixels: vec![0; 5] };
        for picture in [broken, grey(0, 0, 0)] {
            let html = html(&picture);
            assert!(html.contains("class=\"fault\"") && !html.contains("<img"), "{html}");
        }
    }
}
