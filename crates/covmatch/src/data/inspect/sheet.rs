//! A contact sheet: a grid of pictures with their captions underneath.

use std::io::Cursor;
use std::path::Path;

use image::imageops::{FilterType, resize};
use rayon::prelude::*;

use super::font::{ADVANCE, LINE, draw, wrap};
use super::{Access, Dataset};
use crate::data::{Image, RgbImage};

const PAPER: [u8; 3] = [250, 250, 248];
const INK: [u8; 3] = [20, 20, 24];
const TITLE: [u8; 3] = [110, 110, 120];
const FAULT: [u8; 3] = [176, 30, 30];
const FRAME: [u8; 3] = [224, 224, 220];

/// How a contact sheet looks. All lengths are in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SheetConfig {
    /// Pictures in a row.
    pub columns: usize,
    /// Pictures in all, spread evenly over the dataset.
    pub pictures: usize,
    /// Side of the square that a picture is fitted into.
    pub side: usize,
    /// Captions under a picture.
    pub captions: usize,
    /// Lines that a caption may take.
    pub lines: usize,
    /// Pixels of one point of the font.
    pub scale: usize,
}

impl Default for SheetConfig {
    fn default() -> Self {
        Self { columns: 4, pictures: 12, side: 320, captions: 5, lines: 6, scale: 2 }
    }
}

/// One picture of a sheet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SheetCell {
    /// What stands over the picture.
    pub title: String,
    /// The picture, or why there is none.
    pub picture: Result<RgbImage, String>,
    /// What stands under it.
    pub captions: Vec<String>,
}

/// Why a sheet cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SheetError {
    /// The picture does not fit the format.
    #[error("cannot encode a picture of {width} x {height} pixels as PNG: {cause}; ask for fewer pictures")]
    Encode {
        /// Its width.
        width: usize,
        /// Its height.
        height: usize,
        /// What the encoder says.
        cause: image::ImageError,
    },
    /// The file cannot be written.
    #[error("cannot write {path}: {cause}; check that the folder exists and may be written to")]
    Write {
        /// The file.
        path: String,
        /// What the system says.
        cause: std::io::Error,
    },
}

/// A sheet of pictures spread evenly over `dataset`.
pub fn contact_sheet(dataset: &Dataset, access: &Access<'_>, config: &SheetConfig) -> RgbImage {
    let total = dataset.images.len();
    let count = config.pictures.min(total);
    let cell = |i: usize| {
        let index = i * total / count;
        let image: &Image = &dataset.images[index];
        let captions = dataset.captions.iter().filter(|caption| caption.image as usize == index);
        SheetCell {
            title: format!("{} {}", image.split, image.name),
            picture: (access.picture)(image).map_err(|error| error.to_string()),
            captions: captions.take(config.captions).map(|caption| caption.text.clone()).collect(),
        }
    };
    sheet(&(0..count).into_par_iter().map(cell).collect::<Vec<_>>(), config)
}

/// Cells in rows; a row is as high as its longest captions need.
pub fn sheet(cells: &[SheetCell], config: &SheetConfig) -> RgbImage {
    let page = Page::new(config);
    let texts: Vec<Vec<String>> = cells.iter().map(|cell| page.caption_lines(cell)).collect();
    let columns = config.columns.max(1);
    let heights: Vec<usize> = texts.chunks(columns).map(|row| page.row_height(row)).collect();
    let width = columns.min(cells.len().max(1)) * page.cell_width() + page.margin;
    let height = heights.iter().sum::<usize>() + page.margin;
    let mut sheet = RgbImage { width, height, pixels: PAPER.repeat(width * height) };
    let mut y = page.margin;
    for ((row, texts), height) in cells.chunks(columns).zip(texts.chunks(columns)).zip(heights) {
        for (i, (cell, text)) in row.iter().zip(texts).enumerate() {
            page.cell(&mut sheet, cell, text, (page.margin + i * page.cell_width(), y));
        }
        y += height;
    }
    sheet
}

/// The measures of a sheet.
struct Page<'a> {
    config: &'a SheetConfig,
    scale: usize,
    margin: usize,
    /// Characters that fit under a picture.
    letters: usize,
}

impl<'a> Page<'a> {
    fn new(config: &'a SheetConfig) -> Self {
        let scale = config.scale.max(1);
        Self { config, scale, margin: 8 * scale, letters: (config.side / (ADVANCE * scale)).max(1) }
    }

    fn cell_width(&self) -> usize {
        self.config.side + self.margin
    }

    fn line(&self) -> usize {
        LINE * self.scale
    }

    /// Wrapped captions; each starts with a dash so that the eye finds its beginning.
    fn caption_lines(&self, cell: &SheetCell) -> Vec<String> {
        let wrapped = |caption: &String| {
            let lines = wrap(caption, self.letters.saturating_sub(2).max(1), self.config.lines);
            lines.into_iter().enumerate().map(|(i, line)| format!("{} {line}", if i == 0 { '-' } else { ' ' }))
        };
        cell.captions.iter().take(self.config.captions).flat_map(wrapped).collect()
    }

    fn row_height(&self, texts: &[Vec<String>]) -> usize {
        let lines = texts.iter().map(Vec::len).max().unwrap_or(0);
        (lines + 1) * self.line() + self.config.side + 2 * self.margin
    }

    fn cell(&self, sheet: &mut RgbImage, cell: &SheetCell, captions: &[String], (x, y): (usize, usize)) {
        draw(sheet, &cut(&cell.title, self.letters), (x, y), self.scale, TITLE);
        let y = y + self.line();
        match &cell.picture {
            Ok(picture) => self.picture(sheet, picture, (x, y)),
            Err(cause) => {
                self.block(sheet, (x, y));
                for (i, line) in wrap(cause, self.letters, 9).iter().enumerate() {
                    draw(sheet, line, (x, y + (i + 1) * self.line()), self.scale, FAULT);
                }
            }
        }
        let y = y + self.config.side + self.margin / 2;
        for (i, line) in captions.iter().enumerate() {
            draw(sheet, line, (x, y + i * self.line()), self.scale, INK);
        }
    }

    /// The square behind a picture.
    fn block(&self, sheet: &mut RgbImage, (x, y): (usize, usize)) {
        let side = self.config.side;
        for row in y..y + side {
            let at = (row * sheet.width + x) * 3;
            sheet.pixels[at..at + side * 3].copy_from_slice(&FRAME.repeat(side));
        }
    }

    /// `picture` in the middle of its square, as large as fits.
    fn picture(&self, sheet: &mut RgbImage, picture: &RgbImage, (x, y): (usize, usize)) {
        self.block(sheet, (x, y));
        let side = self.config.side;
        let longest = picture.width.max(picture.height).max(1);
        let fitted = |length: usize| (length * side / longest).clamp(1, side.max(1));
        let (width, height) = (fitted(picture.width), fitted(picture.height));
        let pixels = u32::try_from(picture.width).ok().zip(u32::try_from(picture.height).ok());
        let source = pixels.and_then(|(w, h)| image::RgbImage::from_raw(w, h, picture.pixels.clone()));
        let Some(source) = source.filter(|_| !picture.pixels.is_empty() && side > 0) else { return };
        let small = resize(&source, width as u32, height as u32, FilterType::CatmullRom);
        let (left, top) = (x + (side - width) / 2, y + (side - height) / 2);
        for (row, line) in small.as_raw().chunks_exact(width * 3).enumerate() {
            let at = ((top + row) * sheet.width + left) * 3;
            sheet.pixels[at..at + line.len()].copy_from_slice(line);
        }
    }
}

/// `text` in at most `letters` characters, with two dots where it was cut.
fn cut(text: &str, letters: usize) -> String {
    match text.chars().count() > letters {
        true => text.chars().take(letters.saturating_sub(2)).chain("..".chars()).collect(),
        false => text.to_owned(),
    }
}

/// `picture` as the bytes of a PNG file.
///
/// # Errors
/// When it has no pixels, or more than the format allows.
pub fn encode_png(picture: &RgbImage) -> Result<Vec<u8>, SheetError> {
    let mut bytes = Cursor::new(Vec::new());
    let format = image::ImageFormat::Png;
    let (width, height) = (picture.width as u32, picture.height as u32);
    image::write_buffer_with_format(&mut bytes, &picture.pixels, width, height, image::ExtendedColorType::Rgb8, format)
        .map_err(|cause| SheetError::Encode { width: picture.width, height: picture.height, cause })?;
    Ok(bytes.into_inner())
}

/// Writes `picture` as a PNG file, whole or not at all.
///
/// # Errors
/// When it cannot be encoded or written.
pub fn save_png(picture: &RgbImage, path: &Path) -> Result<(), SheetError> {
    let bytes = encode_png(picture)?;
    let failed = |cause| SheetError::Write { path: path.display().to_string(), cause };
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".tmp");
    std::fs::write(&unfinished, bytes).map_err(failed)?;
    std::fs::rename(&unfinished, path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_within_a_word() {
        assert_eq!(cut("test a.jpg", 10), "test a.jpg");
        assert_eq!(cut("train 1000268201_693b08cb0e.jpg", 12), "train 1000..");
    }
}
