//! Why data cannot be used, with the file, the cause and the fix.

use std::path::Path;

use super::Split;

/// What can be wrong with a dataset.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A file cannot be read.
    #[error("cannot read {path}: {cause}; check that the path exists and may be read")]
    Read {
        /// The file.
        path: String,
        /// What the system says.
        cause: std::io::Error,
    },
    /// Nothing at a path looks like annotations.
    #[error(
        "{path} is not a dataset that can be recognised: {cause}; name the annotation file itself, or say which \
             format it is with `format = ` one of {formats}"
    )]
    UnknownFormat {
        /// The file or folder.
        path: String,
        /// What was found there.
        cause: String,
        /// The known formats.
        formats: String,
    },
    /// A format that does not exist.
    #[error("there is no format {name:?}; choose one of {formats}, or leave `format` out to have it recognised")]
    NoSuchFormat {
        /// The name.
        name: String,
        /// The known formats.
        formats: String,
    },
    /// A folder holds annotations of several datasets.
    #[error("{path} holds more than one dataset ({found}); set `annotations` to the files of one of them")]
    Ambiguous {
        /// The folder.
        path: String,
        /// The files that each look like annotations.
        found: String,
    },
    /// A file is not JSON at all.
    #[error("{path} is not valid JSON: {cause}; correct it there, or make or download it again if it is cut short")]
    Json {
        /// The file.
        path: String,
        /// What the parser says, with line and column.
        cause: String,
    },
    /// JSON without a field that the format has.
    #[error(
        "{path}: {at} should be {expected} but is {found}; correct the file, or set `format` if it is of another \
             kind"
    )]
    Shape {
        /// The file.
        path: String,
        /// Which field, such as `images[17].sentences[2].raw`.
        at: String,
        /// What the format has there.
        expected: String,
        /// What the file has there.
        found: String,
    },
    /// A line of a text file that does not follow the format.
    #[error("{path}, line {line}: {cause}; {fix}")]
    Line {
        /// The file.
        path: String,
        /// Line number, from 1.
        line: u64,
        /// What is wrong.
        cause: String,
        /// What to do.
        fix: &'static str,
    },
    /// Text that is not UTF-8.
    #[error("{path}, {at}: the text is not UTF-8; convert the file, for example with `iconv -f latin1 -t utf-8`")]
    NotUtf8 {
        /// The file.
        path: String,
        /// Where in the file.
        at: String,
    },
    /// A caption without a word.
    #[error("{path}, {at}: the caption of {image} is empty; write one, remove the entry, or set `on_bad = \"skip\"`")]
    EmptyCaption {
        /// The annotation file.
        path: String,
        /// Where in the file.
        at: String,
        /// The image.
        image: String,
    },
    /// An image that the annotations list without any caption.
    #[error("{path}: {image} has no caption; add one, remove the entry, or set `on_bad = \"skip\"`")]
    NoCaption {
        /// The annotation file.
        path: String,
        /// The image.
        image: String,
    },
    /// Annotations without any pair.
    #[error("{path} holds no pair of image and caption; check that it is the right file")]
    NoPairs {
        /// The annotations.
        path: String,
    },
    /// None of the places next to the annotations holds the images.
    #[error(
        "the images of {path} are not next to it (looked for {example} in {tried}); set `images` to their folder \
             or tar archive"
    )]
    NoImageRoot {
        /// The annotations.
        path: String,
        /// The name of an image.
        example: String,
        /// The places that were tried.
        tried: String,
    },
    /// Images that the annotations list are not there.
    #[error(
        "{missing} of {total} images are not in {root}: {examples}; add them, set `images` to where they are, or \
             set `on_bad = \"skip\"` to do without"
    )]
    MissingImages {
        /// The image root.
        root: String,
        /// How many are missing.
        missing: usize,
        /// How many the annotations list.
        total: usize,
        /// The names of the first few.
        examples: String,
    },
    /// The path of an image leads out of the image root.
    #[error(
        "{path}: the image path {image:?} {cause}; paths must stay below the image root {root}: correct the file, \
             or set `images` to a folder that holds all images"
    )]
    Escape {
        /// The annotations.
        path: String,
        /// The path of the image.
        image: String,
        /// How it leaves the root.
        cause: String,
        /// The image root.
        root: String,
    },
    /// An image is listed in two splits.
    #[error(
        "{path}: {image} is in both the {first} and the {second} split; results on one would be learned from the \
             other: remove it from one of them, or set `on_bad = \"skip\"` to keep it in {first} only"
    )]
    SharedImage {
        /// The annotations.
        path: String,
        /// The image.
        image: String,
        /// The split that lists it first.
        first: Split,
        /// The split that lists it again.
        second: Split,
    },
    /// A tar archive is damaged.
    #[error(
        "{path} is not a whole tar archive: {cause}; make or download it again, or set `on_bad = \"skip\"` to use \
             what is readable"
    )]
    Tar {
        /// The archive.
        path: String,
        /// What is wrong, and where.
        cause: String,
    },
    /// A parquet file that cannot be used.
    #[error(
        "cannot use {path} as parquet: {cause}; it must hold an image column (bytes, or a struct of bytes and \
             path) and a text column, compressed with snappy or not at all"
    )]
    Parquet {
        /// The file.
        path: String,
        /// What is wrong.
        cause: String,
    },
    /// A shard pattern that cannot be expanded.
    #[error("cannot expand the shard pattern {pattern}: {cause}; write it like `train-{{000000..000012}}.tar`")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong.
        cause: String,
    },
    /// A file without a byte.
    #[error("{image} is an empty file (0 bytes); copy or download it again, or remove it from the annotations")]
    EmptyFile {
        /// The image.
        image: String,
    },
    /// Bytes that are no image of a known format.
    #[error("{image} is not an image but {found}; supported are JPEG, PNG, WebP, BMP and GIF: convert or replace it")]
    NotAnImage {
        /// The file.
        image: String,
        /// What it looks like.
        found: String,
    },
    /// An image that is damaged.
    #[error("cannot decode {image}: {cause}; the file is damaged or cut short: copy or download it again")]
    Decode {
        /// The image.
        image: String,
        /// What the decoder says.
        cause: String,
    },
    /// An image without a pixel.
    #[error("{image} has no pixels ({width} x {height}); replace it or remove it from the annotations")]
    ZeroSized {
        /// The image.
        image: String,
        /// Pixels in a row.
        width: u32,
        /// Rows.
        height: u32,
    },
    /// An image that would need too much memory.
    #[error("{image} has {width} x {height} pixels, more than the limit of {limit}; shrink it, or raise `max_pixels`")]
    TooLarge {
        /// The image.
        image: String,
        /// Pixels in a row.
        width: u32,
        /// Rows.
        height: u32,
        /// The largest number of pixels that is accepted.
        limit: u64,
    },
    /// A clip needs a program that is not installed.
    #[error(
        "cannot read the clip {clip}: the program `{program}` was not found; install ffmpeg (it brings ffprobe), \
             or give a folder of frames for each clip"
    )]
    NoFfmpeg {
        /// The clip.
        clip: String,
        /// The missing program.
        program: &'static str,
    },
    /// A clip that cannot be used.
    #[error("cannot read the clip {clip}: {cause}; check that `ffmpeg -i` can play it, or give a folder of frames")]
    Clip {
        /// The clip.
        clip: String,
        /// What is wrong.
        cause: String,
    },
    /// A tokenizer file cannot be used.
    #[error("cannot use the tokenizer {path}: {cause}; give a BERT tokenizer.json or vocab.txt")]
    Tokenizer {
        /// The file.
        path: String,
        /// What is wrong with it.
        cause: String,
    },
    /// A batch cannot be filled.
    #[error(
        "a batch of {batch} cannot be filled: the {split} split has {entries} entries; lower the batch size to at \
             most {entries}, or add data"
    )]
    TooFewEntries {
        /// The split.
        split: Split,
        /// Entries that the split has.
        entries: usize,
        /// Entries of a batch.
        batch: usize,
    },
    /// Pixels that no transform can use.
    #[error("cannot transform {picture}: {cause}; remove the picture or run with on_bad = \"skip\"")]
    Transform {
        /// The picture.
        picture: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The decoded cache cannot be used.
    #[error("cannot use the cache {path}: {cause}; delete the file, give another folder, or run without a cache")]
    Cache {
        /// The cache's file.
        path: String,
        /// What the system says.
        cause: std::io::Error,
    },
}

impl DataError {
    /// A file that cannot be read.
    pub(crate) fn read(path: &Path, cause: std::io::Error) -> Self {
        DataError::Read { path: path.display().to_string(), cause }
    }
}
