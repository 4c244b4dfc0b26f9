//! Tables of image, caption and (optionally) split: CSV, TSV and the `image,caption` text files of Flickr8k.
//!
//! - `.csv`: separated by commas, quoted as RFC 4180 says; unquoted commas belong to the caption where it is the last
//!   of two columns.
//! - `.tsv`: separated by tabs; quotes mean nothing.
//! - `.txt`: image and caption, separated by the first comma; quotes mean nothing.
//!
//! A first line with the names of the columns is optional. Without a split column the file name says which split it is.

use std::path::{Path, PathBuf};

use super::builder::Builder;
use super::names::{CAPTION_FIELDS, IMAGE_FIELDS, SPLIT_FIELDS, split_in_name};
use super::text::{lines, read_bytes, utf8};
use crate::data::{DataError, Split};

/// Reads the rows of the files.
pub(super) fn read(files: &[PathBuf], builder: &mut Builder) -> Result<(), DataError> {
    for path in files {
        let rows = rows(path)?;
        let Some((_, first)) = rows.first() else { continue };
        let (columns, header) = Columns::of(path, first)?;
        for (line, fields) in rows.into_iter().skip(usize::from(header)) {
            if let Err(error) = columns.row(path, line, &fields).and_then(|row| row.add(path, line, builder)) {
                builder.bad(&format!("{}, line {line}", path.display()), error)?;
            }
        }
    }
    Ok(())
}

/// Whether a text file starts with the line `image,caption`.
pub(super) fn is_first_comma_file(path: &Path) -> bool {
    use std::io::Read;
    let mut start = [0; 16];
    let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut start)).unwrap_or_default();
    let start = &start[..read];
    start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).to_ascii_lowercase().starts_with(b"image,caption")
}

/// The fields of each row, with the number of its line.
type Rows = Vec<(u64, Vec<Vec<u8>>)>;

fn rows(path: &Path) -> Result<Rows, DataError> {
    let bytes = read_bytes(path)?;
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    if extension == "txt" {
        let first_comma = |line: &[u8]| line.splitn(2, |&b| b == b',').map(<[u8]>::to_vec).collect();
        return Ok(lines(&bytes).map(|(number, line)| (number, first_comma(line))).collect());
    }
    let tabs = extension == "tsv";
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(if tabs { b'\t' } else { b',' })
        .quoting(!tabs)
        .has_headers(false)
        .flexible(true)
        .from_reader(bytes.as_slice());
    let rows = reader.byte_records().map(|record| {
        let record = record.map_err(|cause| broken_line(path, 0, cause.to_string()))?;
        let line = record.position().map_or(0, csv::Position::line);
        Ok((line, record.iter().map(<[u8]>::to_vec).collect()))
    });
    rows.collect()
}

/// Which column is what.
struct Columns {
    image: usize,
    caption: usize,
    split: Option<usize>,
    count: usize,
    default: Split,
}

impl Columns {
    /// By the names in the first row if it is a header (the second value says so), or else by position.
    fn of(path: &Path, first: &[Vec<u8>]) -> Result<(Columns, bool), DataError> {
        let names: Vec<String> =
            first.iter().map(|field| String::from_utf8_lossy(field).trim().to_ascii_lowercase()).collect();
        let find = |known: &[&str]| known.iter().find_map(|known| names.iter().position(|name| name == known));
        let default = split_in_name(path).unwrap_or(Split::Train);
        let count = first.len();
        match (find(&IMAGE_FIELDS), find(&CAPTION_FIELDS)) {
            (Some(image), Some(caption)) => {
                Ok((Columns { image, caption, split: find(&SPLIT_FIELDS), count, default }, true))
            }
            (None, None) if count >= 2 => {
                let split = (count == 3 && Split::from_name(&names[2]).is_some()).then_some(2);
                let count = if split.is_some() { 3 } else { 2 };
                Ok((Columns { image: 0, caption: 1, split, count, default }, false))
            }
            _ => Err(DataError::Line {
                path: path.display().to_string(),
                line: 1,
                cause: format!("the columns {:?} are not an image and a caption", names.join(", ")),
                fix: "name them `image,caption` or `image,caption,split`",
            }),
        }
    }

    fn row(&self, path: &Path, line: u64, fields: &[Vec<u8>]) -> Result<Row, DataError> {
        let fields = fields.iter().map(|field| utf8(path, line, field)).collect::<Result<Vec<_>, _>>()?;
        let commas_in_caption = self.count == 2 && self.caption == 1 && fields.len() > 2;
        if fields.len() != self.count && !commas_in_caption {
            let cause = format!("it has {} fields where {} are expected", fields.len(), self.count);
            return Err(broken_line(path, line, cause));
        }
        let caption = if commas_in_caption { fields[1..].join(",") } else { fields[self.caption].to_string() };
        let split = match self.split.map(|column| fields[column].trim()) {
            None => self.default,
            Some(name) => {
                let unknown = || broken_line(path, line, format!("the split is {name:?}, not train, val or test"));
                Split::from_name(name).ok_or_else(unknown)?
            }
        };
        Ok(Row { image: fields[self.image].trim().to_string(), caption, split })
    }
}

struct Row {
    image: String,
    caption: String,
    split: Split,
}

impl Row {
    fn add(self, path: &Path, line: u64, builder: &mut Builder) -> Result<(), DataError> {
        let Some(image) = builder.image(path, &self.image, self.split)? else { return Ok(()) };
        builder.caption(path, || format!("line {line}"), image, self.caption)
    }
}

fn broken_line(path: &Path, line: u64, cause: String) -> DataError {
    let fix = "correct the line (quote captions that hold commas), or set `on_bad = \"skip\"`";
    DataError::Line { path: path.display().to_string(), line, cause, fix }
}
