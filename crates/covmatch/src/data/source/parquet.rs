//! Hugging Face parquet: an image column (a struct of `bytes` and `path`, or plain bytes) and a text column, which may
//! be a list of captions.
//!
//! ```text
//! image: struct<bytes: binary, path: string>   caption: string | list<string>   [split: string]
//! ```
//! Each row is an image of its own. Captions are read when the dataset is opened; image bytes stay in the file, and a
//! cell is found again through the file's table of contents ([`Cells`]).

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::Type as Physical;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::properties::ReaderProperties;
use parquet::file::reader::RowGroupReader;
use parquet::file::serialized_reader::SerializedRowGroupReader;

use super::builder::Builder;
use super::names::{CAPTION_FIELDS, IMAGE_FIELDS, SPLIT_FIELDS, split_in_path};
use crate::data::{DataError, Location, Split};

/// Reads the captions of parquet files and notes where their images are.
pub(super) fn read(files: &[PathBuf], builder: &mut Builder) -> Result<(), DataError> {
    for path in files {
        if let Err(error) = guarded(path, || read_file(path, builder)) {
            builder.bad(&path.display().to_string(), error)?;
        }
    }
    Ok(())
}

fn read_file(path: &Path, builder: &mut Builder) -> Result<(), DataError> {
    let table = Table::open(path)?;
    let caption = table.leaf(&CAPTION_FIELDS).ok_or_else(|| unusable(path, no_column("caption", &CAPTION_FIELDS)))?;
    let image = table.image_leaf().ok_or_else(|| unusable(path, no_column("image", &IMAGE_FIELDS)))?;
    let image_path = table.path_leaf(image);
    let split = table.leaf(&SPLIT_FIELDS);
    let default = split_in_path(path).unwrap_or(Split::Train);

    let file = Arc::new(path.to_path_buf());
    let mut row = 0u64;
    for group in 0..table.metadata.num_row_groups() {
        let mut captions = table.column(group, caption)?;
        let mut paths = image_path.map(|leaf| table.column(group, leaf)).transpose()?;
        let mut splits = split.map(|leaf| table.column(group, leaf)).transpose()?;
        for _ in 0..table.metadata.row_group(group).num_rows() {
            let texts = table.next(&mut captions)?;
            let image_path = paths.as_mut().map(|column| table.next(column)).transpose()?;
            let split = splits.as_mut().map(|column| table.next(column)).transpose()?;
            let entry = Row { row, texts, image_path, split };
            let at = format!("row {row}");
            if let Err(error) = entry.add(&file, default, builder) {
                builder.bad(&format!("{}, {at}", path.display()), error)?;
            }
            row += 1;
        }
    }
    Ok(())
}

/// The text cells of a row.
struct Row {
    row: u64,
    texts: Vec<ByteArray>,
    image_path: Option<Vec<ByteArray>>,
    split: Option<Vec<ByteArray>>,
}

impl Row {
    fn add(self, file: &Arc<PathBuf>, default: Split, builder: &mut Builder) -> Result<(), DataError> {
        let path = file.as_path();
        let at = || format!("row {}", self.row);
        let split = match self.split.as_ref().and_then(|cells| cells.first()) {
            None => default,
            Some(cell) => {
                let name = utf8(path, at, cell)?;
                let unknown = || unusable(path, format!("row {} is of the unknown split {name:?}", self.row));
                Split::from_name(&name).ok_or_else(unknown)?
            }
        };
        let texts = self.texts.iter().map(|cell| utf8(path, at, cell)).collect::<Result<Vec<_>, _>>()?;
        let inner = self.image_path.as_ref().and_then(|cells| cells.first()).map(|cell| utf8(path, at, cell));
        let inner = inner.transpose()?.unwrap_or_default();
        let shard = path.file_name().unwrap_or_default().to_string_lossy();
        let mut name = format!("{shard}#{}", self.row);
        if !inner.is_empty() {
            name = format!("{name}/{inner}");
        }
        let location = Location::Parquet { file: Arc::clone(file), row: self.row };
        let image = builder.located(name, split, location);
        for text in texts {
            builder.caption(path, at, image, text)?;
        }
        Ok(())
    }
}

/// The image column of a parquet file: finds the bytes of a row without reading those before it.
pub(crate) struct Cells {
    table: Table,
    leaf: usize,
}

impl Cells {
    /// Reads the table of contents.
    pub(crate) fn open(path: &Path) -> Result<Cells, DataError> {
        guarded(path, || {
            let table = Table::open(path)?;
            let leaf = table.image_leaf().ok_or_else(|| unusable(path, no_column("image", &IMAGE_FIELDS)))?;
            Ok(Cells { table, leaf })
        })
    }

    /// The image bytes of a row, counted over the whole file.
    pub(crate) fn bytes(&self, row: u64) -> Result<Vec<u8>, DataError> {
        guarded(&self.table.path, || self.cell(row))
    }

    fn cell(&self, row: u64) -> Result<Vec<u8>, DataError> {
        let path = &self.table.path;
        let mut before = row;
        for group in 0..self.table.metadata.num_row_groups() {
            let rows = self.table.metadata.row_group(group).num_rows().max(0) as u64;
            if before >= rows {
                before -= rows;
                continue;
            }
            let mut column = self.table.column(group, self.leaf)?;
            column.skip_records(before as usize).map_err(|error| unusable(path, error.to_string()))?;
            let cell = self.table.next(&mut column)?.into_iter().next();
            return cell.map(|bytes| bytes.data().to_vec()).ok_or_else(|| {
                unusable(path, format!("row {row} has no image bytes (write the dataset with its images embedded)"))
            });
        }
        Err(unusable(path, format!("it has no row {row}")))
    }
}

/// A parquet file with its table of contents.
struct Table {
    path: PathBuf,
    metadata: ParquetMetaData,
}

impl Table {
    fn open(path: &Path) -> Result<Table, DataError> {
        let file = File::open(path).map_err(|cause| DataError::read(path, cause))?;
        let metadata = ParquetMetaDataReader::new()
            .with_page_index_policy(PageIndexPolicy::Optional)
            .parse_and_finish(&file)
            .map_err(|error| unusable(path, error.to_string()))?;
        Ok(Table { path: path.to_path_buf(), metadata })
    }

    /// The text leaf of the first column with one of `names`; a list of texts has one leaf too.
    fn leaf(&self, names: &[&str]) -> Option<usize> {
        let leaves = self.metadata.file_metadata().schema_descr().columns();
        names.iter().find_map(|name| {
            leaves.iter().position(|leaf| {
                let root = leaf.path().parts().first();
                root.is_some_and(|root| root.eq_ignore_ascii_case(name)) && leaf.physical_type() == Physical::BYTE_ARRAY
            })
        })
    }

    /// The leaf that holds image bytes: `bytes` of a struct, or a column of bytes, by a usual name if there is one.
    fn image_leaf(&self) -> Option<usize> {
        let leaves = self.metadata.file_metadata().schema_descr().columns();
        let holds_bytes = |leaf: usize| {
            let parts = leaves[leaf].path().parts();
            leaves[leaf].physical_type() == Physical::BYTE_ARRAY
                && leaves[leaf].max_rep_level() == 0
                && match parts {
                    [_, inner] => inner == "bytes",
                    [name] => IMAGE_FIELDS.contains(&name.as_str()) && leaves[leaf].logical_type_ref().is_none(),
                    _ => false,
                }
        };
        let named = |name: &str| {
            (0..leaves.len())
                .find(|&leaf| holds_bytes(leaf) && leaves[leaf].path().parts()[0].eq_ignore_ascii_case(name))
        };
        IMAGE_FIELDS.iter().find_map(|name| named(name)).or_else(|| (0..leaves.len()).find(|&leaf| holds_bytes(leaf)))
    }

    /// The leaf `path` next to the leaf `bytes`.
    fn path_leaf(&self, image: usize) -> Option<usize> {
        let leaves = self.metadata.file_metadata().schema_descr().columns();
        let [root, _] = leaves[image].path().parts() else { return None };
        leaves.iter().position(|leaf| {
            matches!(leaf.path().parts(), [r, inner] if r == root && inner == "path")
                && leaf.physical_type() == Physical::BYTE_ARRAY
        })
    }

    /// A leaf column of a row group, from its start. The file is opened anew: readers of one file share its cursor.
    fn column(&self, group: usize, leaf: usize) -> Result<ColumnReaderImpl<ByteArrayType>, DataError> {
        let file = Arc::new(File::open(&self.path).map_err(|cause| DataError::read(&self.path, cause))?);
        let open = || -> Result<ColumnReader, ParquetError> {
            let properties = Arc::new(ReaderProperties::builder().build());
            let pages = self.metadata.page_index_for_row_group(group);
            SerializedRowGroupReader::new(file, self.metadata.row_group(group), pages, properties)?
                .get_column_reader(leaf)
        };
        match open() {
            Ok(ColumnReader::ByteArrayColumnReader(column)) => Ok(column),
            Ok(_) => Err(unusable(&self.path, "a column is not of bytes or text".to_string())),
            Err(error) => Err(unusable(&self.path, error.to_string())),
        }
    }

    /// The values of the next row: none for null, several for a list.
    fn next(&self, column: &mut ColumnReaderImpl<ByteArrayType>) -> Result<Vec<ByteArray>, DataError> {
        let (mut definition, mut repetition, mut values) = (Vec::new(), Vec::new(), Vec::new());
        let (records, _, _) = column
            .read_records(1, Some(&mut definition), Some(&mut repetition), &mut values)
            .map_err(|error| unusable(&self.path, error.to_string()))?;
        if records == 0 {
            return Err(unusable(&self.path, "a column has fewer rows than the file".to_string()));
        }
        Ok(values)
    }
}

/// Runs a reader of parquet; a damaged file that makes it panic is an error like any other.
fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T, DataError>) -> Result<T, DataError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(unusable(path, "the file is damaged".to_string())))
}

fn utf8(path: &Path, at: impl Fn() -> String, cell: &ByteArray) -> Result<String, DataError> {
    let not_utf8 = |_| DataError::NotUtf8 { path: path.display().to_string(), at: at() };
    std::str::from_utf8(cell.data()).map(str::to_string).map_err(not_utf8)
}

fn no_column(kind: &str, names: &[&str]) -> String {
    format!("it has no {kind} column (looked for {})", names.join(", "))
}

fn unusable(path: &Path, cause: String) -> DataError {
    DataError::Parquet { path: path.display().to_string(), cause }
}
