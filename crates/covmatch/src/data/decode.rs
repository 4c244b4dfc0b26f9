//! From the bytes of an image file to pixels.
//!
//! The result is that of `PIL.Image.open(file).convert("RGB")`: grayscale is repeated in the three channels, palettes
//! are looked up, CMYK is converted, alpha is dropped (not blended), animations give their first frame, and 16-bit
//! colour keeps its high byte. It departs from PIL in three places, where PIL's result is a different picture from the
//! one a person sees: the EXIF orientation is applied, 16-bit grayscale keeps its high byte (PIL clips it, so nearly
//! everything is white), and a JPEG without its end is an error even when all rows could be guessed.

use std::io::Cursor;

use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits as DecoderLimits};

use super::{DataError, RgbImage};

/// What a decoder accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest number of pixels of an image.
    pub max_pixels: u64,
}

impl Default for Limits {
    /// 100 megapixels.
    fn default() -> Self {
        Limits { max_pixels: 100_000_000 }
    }
}

impl Limits {
    /// Refuses images without pixels and those with too many; `name` is for the message.
    pub fn check(&self, name: &str, width: u32, height: u32) -> Result<(), DataError> {
        let image = name.to_string();
        if width == 0 || height == 0 {
            return Err(DataError::ZeroSized { image, width, height });
        }
        if u64::from(width) * u64::from(height) > self.max_pixels {
            return Err(DataError::TooLarge { image, width, height, limit: self.max_pixels });
        }
        Ok(())
    }
}

/// The pixels of an image file, upright. `name` is for messages.
pub fn decode(name: &str, bytes: &[u8], limits: &Limits) -> Result<RgbImage, DataError> {
    let damaged = |cause: image::ImageError| DataError::Decode { image: name.to_string(), cause: cause.to_string() };
    let mut decoder = open(name, bytes, limits)?;
    let orientation = decoder.orientation().map_err(damaged)?;
    let decoded = DynamicImage::from_decoder(decoder).map_err(damaged)?;
    let (width, height) = (decoded.width(), decoded.height());
    let short = || DataError::Decode { image: name.to_string(), cause: "too few pixels".to_string() };
    let rgb = image::RgbImage::from_raw(width, height, without_alpha(decoded)).ok_or_else(short)?;
    let mut upright = DynamicImage::ImageRgb8(rgb);
    upright.apply_orientation(orientation);
    let (width, height) = (upright.width() as usize, upright.height() as usize);
    Ok(RgbImage { width, height, pixels: upright.into_rgb8().into_raw() })
}

/// Width and height of an image file when upright, from its header alone. `name` is for messages.
pub fn dimensions(name: &str, bytes: &[u8], limits: &Limits) -> Result<(usize, usize), DataError> {
    use image::metadata::Orientation::{Rotate90, Rotate90FlipH, Rotate270, Rotate270FlipH};
    let mut decoder = open(name, bytes, limits)?;
    let (width, height) = decoder.dimensions();
    let (width, height) = (width as usize, height as usize);
    match decoder.orientation() {
        Ok(Rotate90 | Rotate270 | Rotate90FlipH | Rotate270FlipH) => Ok((height, width)),
        Ok(_) => Ok((width, height)),
        Err(cause) => Err(DataError::Decode { image: name.to_string(), cause: cause.to_string() }),
    }
}

/// A decoder that has read the header of an image of acceptable size.
fn open<'a>(name: &str, bytes: &'a [u8], limits: &Limits) -> Result<impl ImageDecoder + 'a, DataError> {
    if bytes.is_empty() {
        return Err(DataError::EmptyFile { image: name.to_string() });
    }
    let format = supported_format(bytes).map_err(|found| DataError::NotAnImage { image: name.to_string(), found })?;
    if let Some((width, height)) = stated_size(format, bytes) {
        limits.check(name, width, height)?;
    }
    if format == ImageFormat::Jpeg && !has_jpeg_end(bytes) {
        let cause = "the end of the picture is missing".to_string();
        return Err(DataError::Decode { image: name.to_string(), cause });
    }
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    reader.limits(decoder_limits(limits));
    let decoder = reader
        .into_decoder()
        .map_err(|cause| DataError::Decode { image: name.to_string(), cause: cause.to_string() })?;
    let (width, height) = decoder.dimensions();
    limits.check(name, width, height)?;
    Ok(decoder)
}

/// Memory for the largest accepted image with four channels of 16 bits, twice (an animation keeps its canvas).
fn decoder_limits(limits: &Limits) -> DecoderLimits {
    let mut decoder = DecoderLimits::no_limits();
    decoder.max_alloc = Some(limits.max_pixels.saturating_mul(16).saturating_add(1 << 26));
    decoder
}

/// The format by the first bytes, or what the bytes look like instead.
fn supported_format(bytes: &[u8]) -> Result<ImageFormat, String> {
    use ImageFormat::{Bmp, Gif, Jpeg, Png, WebP};
    match image::guess_format(bytes) {
        Ok(format @ (Bmp | Gif | Jpeg | Png | WebP)) => Ok(format),
        Ok(other) => Err(format!("a picture in {} format", other.extensions_str().first().unwrap_or(&"an unknown"))),
        Err(_) => Err(looks_like(bytes).to_string()),
    }
}

/// A guess at what bytes are that are not an image.
fn looks_like(bytes: &[u8]) -> &'static str {
    let start = bytes[..bytes.len().min(512)].trim_ascii_start().to_ascii_lowercase();
    if start.starts_with(b"<!doctype html") || start.starts_with(b"<html") {
        "a web page (the download may have failed)"
    } else if start.starts_with(b"version https://git-lfs") {
        "a Git LFS pointer (run `git lfs pull`)"
    } else if start.starts_with(b"<svg") || start.starts_with(b"<?xml") {
        "an SVG or XML file"
    } else if bytes.get(4..8) == Some(b"ftyp") {
        "a video, HEIC or AVIF file"
    } else if start.starts_with(b"%pdf") {
        "a PDF file"
    } else if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(&[0x1f, 0x8b]) {
        "a compressed archive"
    } else if bytes.iter().take(512).all(|&b| b == 0) {
        "a file of zeros (the copy may have failed)"
    } else if std::str::from_utf8(&start).is_ok() {
        "a text file"
    } else {
        "data of an unknown kind"
    }
}

/// Width and height at their fixed place in the header, before a decoder judges them.
fn stated_size(format: ImageFormat, bytes: &[u8]) -> Option<(u32, u32)> {
    let four = |at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
    let two = |at: usize| bytes.get(at..at + 2).and_then(|b| b.try_into().ok());
    match format {
        ImageFormat::Png => Some((u32::from_be_bytes(four(16)?), u32::from_be_bytes(four(20)?))),
        ImageFormat::Gif => Some((u16::from_le_bytes(two(6)?).into(), u16::from_le_bytes(two(8)?).into())),
        ImageFormat::Bmp if bytes.get(14) == Some(&40) => {
            Some((i32::from_le_bytes(four(18)?).unsigned_abs(), i32::from_le_bytes(four(22)?).unsigned_abs()))
        }
        ImageFormat::Jpeg => {
            let (at, _) = jpeg_segments(bytes).find(|&(_, marker)| is_start_of_frame(marker))?;
            Some((u16::from_be_bytes(two(at + 7)?).into(), u16::from_be_bytes(two(at + 5)?).into()))
        }
        _ => None,
    }
}

/// Whether a JPEG marker opens a frame, whose segment holds the size.
fn is_start_of_frame(marker: u8) -> bool {
    matches!(marker, 0xC0..=0xCF) && !matches!(marker, 0xC4 | 0xC8 | 0xCC)
}

/// Start of scan: what follows its segment is picture data.
const START_OF_SCAN: u8 = 0xDA;

/// The segments of a JPEG up to and including the first scan, as (position of `FF`, marker).
fn jpeg_segments(bytes: &[u8]) -> impl Iterator<Item = (usize, u8)> {
    let mut next = 2; // after the start of image, FF D8
    std::iter::from_fn(move || {
        while bytes.get(next) == Some(&0xFF) && bytes.get(next + 1) == Some(&0xFF) {
            next += 1; // fill bytes
        }
        let [0xFF, marker, high, low] = *bytes.get(next..next + 4)? else { return None };
        let at = next;
        next = if marker == START_OF_SCAN {
            usize::MAX - 8 // nothing is there: the iteration ends
        } else {
            at + 2 + usize::from(u16::from_be_bytes([high, low]))
        };
        Some((at, marker))
    })
}

/// Whether the end of image, `FF D9`, follows the first scan. Within picture data `FF` is followed by 0, so it can be
/// nothing else there; before the first scan it may belong to an embedded thumbnail.
fn has_jpeg_end(bytes: &[u8]) -> bool {
    let scan = jpeg_segments(bytes).find(|&(_, marker)| marker == START_OF_SCAN);
    scan.is_none_or(|(at, _)| bytes[at..].windows(2).rev().any(|pair| pair == [0xFF, 0xD9]))
}

/// Red, green and blue of each pixel.
fn without_alpha(image: DynamicImage) -> Vec<u8> {
    let high = |value: &u16| (value >> 8) as u8;
    match image {
        DynamicImage::ImageRgb8(rgb) => rgb.into_raw(),
        DynamicImage::ImageLuma8(gray) => gray.into_raw().into_iter().flat_map(|v| [v; 3]).collect(),
        DynamicImage::ImageLumaA8(gray) => gray.as_raw().chunks_exact(2).flat_map(|p| [p[0]; 3]).collect(),
        DynamicImage::ImageRgba8(rgba) => rgba.as_raw().chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]).collect(),
        DynamicImage::ImageLuma16(gray) => gray.as_raw().iter().flat_map(|v| [high(v); 3]).collect(),
        DynamicImage::ImageLumaA16(gray) => gray.as_raw().chunks_exact(2).flat_map(|p| [high(&p[0]); 3]).collect(),
        DynamicImage::ImageRgb16(rgb) => rgb.as_raw().iter().map(high).collect(),
        DynamicImage::ImageRgba16(rgba) => {
            rgba.as_raw().chunks_exact(4).flat_map(|p| [high(&p[0]), high(&p[1]), high(&p[2])]).collect()
        }
        other => other.into_rgb8().into_raw(),
    }
}
