//! A decoded picture.

/// A picture of 8-bit red, green and blue, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RgbImage {
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// `height * width * 3` values.
    pub pixels: Vec<u8>,
}
