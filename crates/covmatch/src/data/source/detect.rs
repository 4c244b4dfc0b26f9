//! Finds the annotation files of a dataset and recognises their format.
//!
//! A file is recognised by its name and, for JSON, by its first bytes. In a folder annotation files come before
//! archives, which may hold just the images: `metadata.jsonl`, then JSON, `.token`, tables, parquet and tar shards.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::names::split_in_name;
use super::{Format, folder_of, image_folder, table, webdataset};
use crate::data::DataError;

/// How much of a JSON file is looked at.
const SNIFFED: u64 = 1 << 16;

/// The formats in the order in which a folder is searched for them.
const IN_FOLDERS: [Format; 8] = [
    Format::ImageFolder,
    Format::Karpathy,
    Format::Blip,
    Format::Coco,
    Format::FlickrToken,
    Format::Table,
    Format::Parquet,
    Format::WebDataset,
];

/// Annotation files of one format.
pub(super) struct Annotations {
    pub(super) format: Format,
    pub(super) files: Vec<PathBuf>,
    /// The folder next to which images are looked for.
    pub(super) folder: PathBuf,
}

/// The format of the dataset at a file, folder or shard pattern.
pub fn detect(path: &Path) -> Result<Format, DataError> {
    find(&[path.to_path_buf()], None).map(|found| found.format)
}

/// The annotation files that `paths` stand for.
pub(super) fn find(paths: &[PathBuf], format: Option<Format>) -> Result<Annotations, DataError> {
    if let [folder] = paths
        && folder.is_dir()
    {
        return in_folder(folder, format);
    }
    let files = expand_all(paths)?;
    let Some(first) = files.first() else {
        return Err(unknown(Path::new("the dataset"), "no annotations are named".to_string()));
    };
    let folder = folder_of(first);
    let format = match format {
        Some(format) => format,
        None => of_files(&files)?,
    };
    if format == Format::ImageFolder {
        return in_folder(&folder, Some(format));
    }
    Ok(Annotations { format, files, folder })
}

/// Shard patterns become shards.
fn expand_all(paths: &[PathBuf]) -> Result<Vec<PathBuf>, DataError> {
    let mut files = Vec::new();
    for path in paths {
        match path.to_str() {
            Some(pattern) if !path.exists() && pattern.contains('{') => {
                files.extend(webdataset::expand(pattern)?.into_iter().map(PathBuf::from));
            }
            _ => files.push(path.clone()),
        }
    }
    Ok(files)
}

/// The format that all files have.
fn of_files(files: &[PathBuf]) -> Result<Format, DataError> {
    let mut common = None;
    for file in files {
        std::fs::metadata(file).map_err(|cause| DataError::read(file, cause))?;
        let format = of_file(file).ok_or_else(|| unknown(file, "neither its name nor its start says".to_string()))?;
        match common {
            None => common = Some(format),
            Some(known) if known == format => {}
            Some(known) => {
                return Err(unknown(file, format!("it looks like {format} while another file looks like {known}")));
            }
        }
    }
    common.ok_or_else(|| unknown(Path::new("the dataset"), "no annotations are named".to_string()))
}

/// The format of a file, by its name and its first bytes.
fn of_file(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
    if name == image_folder::METADATA {
        return Some(Format::ImageFolder);
    }
    if name.ends_with(".token") || name.ends_with(".token.txt") {
        return Some(Format::FlickrToken);
    }
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "json" => of_json(path),
        "csv" | "tsv" => Some(Format::Table),
        "txt" => table::is_first_comma_file(path).then_some(Format::Table),
        "tar" => Some(Format::WebDataset),
        "parquet" => Some(Format::Parquet),
        _ => None,
    }
}

/// The format of a JSON file: BLIP's is a list; Karpathy's and COCO's are objects with different fields.
fn of_json(path: &Path) -> Option<Format> {
    let mut start = Vec::new();
    File::open(path).ok()?.take(SNIFFED).read_to_end(&mut start).ok()?;
    let start = String::from_utf8_lossy(&start);
    let holds = |keys: &[&str]| keys.iter().any(|key| start.contains(&format!("\"{key}\"")));
    match start.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).chars().next()? {
        '[' => Some(Format::Blip),
        '{' if holds(&["sentences", "sentids", "filename"]) => Some(Format::Karpathy),
        '{' if holds(&["file_name", "annotations"]) => Some(Format::Coco),
        _ => None,
    }
}

/// The annotations in a folder.
fn in_folder(folder: &Path, format: Option<Format>) -> Result<Annotations, DataError> {
    let listing = Listing::read(folder)?;
    let wanted = |candidate: &Format| format.is_none_or(|format| format == *candidate);
    let mut found: Vec<(Format, Vec<PathBuf>)> = IN_FOLDERS
        .into_iter()
        .filter(wanted)
        .map(|format| (format, listing.files(format)))
        .filter(|(_, files)| !files.is_empty())
        .collect();
    let is_json = |format| matches!(format, Format::Karpathy | Format::Blip | Format::Coco);
    let Some((format, files)) = found.first().cloned() else {
        return Err(unknown(folder, "it holds no annotations".to_string()));
    };
    found.retain(|(other, _)| is_json(format) && is_json(*other));
    if found.len() > 1 || (!may_repeat(format) && same_split_twice(&files)) {
        let all = if found.is_empty() { files } else { found.into_iter().flat_map(|(_, files)| files).collect() };
        let names: Vec<_> = all.iter().map(|path| path.display().to_string()).collect();
        return Err(DataError::Ambiguous { path: folder.display().to_string(), found: names.join(", ") });
    }
    let beside = if format == Format::Coco { folder_of(&files[0]) } else { folder.to_path_buf() };
    Ok(Annotations { format, files, folder: beside })
}

/// Whether a split of this format may be spread over several files.
fn may_repeat(format: Format) -> bool {
    matches!(format, Format::ImageFolder | Format::Parquet | Format::WebDataset)
}

/// Whether two files are of the same split, by their names.
fn same_split_twice(files: &[PathBuf]) -> bool {
    let mut splits: Vec<_> = files.iter().map(|file| split_in_name(file)).collect();
    splits.sort();
    splits.windows(2).any(|pair| pair[0] == pair[1])
}

/// The files of a folder and of the folders in it where annotations usually lie.
struct Listing<'a> {
    folder: &'a Path,
    here: Vec<PathBuf>,
    below: Vec<PathBuf>,
}

impl<'a> Listing<'a> {
    fn read(folder: &'a Path) -> Result<Listing<'a>, DataError> {
        let (mut here, folders) = entries(folder)?;
        let mut below = Vec::new();
        let usual = ["annotations", "data", "train", "validation", "valid", "val", "dev", "test"];
        for folder in folders {
            if folder.file_name().is_some_and(|name| usual.iter().any(|usual| name == *usual)) {
                let (mut files, deeper) = entries(&folder)?;
                below.append(&mut files);
                for folder in deeper.iter().filter(|f| f.file_name().is_some_and(|n| usual.iter().any(|u| n == *u))) {
                    below.append(&mut entries(folder)?.0);
                }
            }
        }
        here.sort();
        below.sort();
        Ok(Listing { folder, here, below })
    }

    /// The annotation files of a format.
    fn files(&self, format: Format) -> Vec<PathBuf> {
        let of = |files: &[PathBuf], usable: &dyn Fn(&str) -> bool| -> Vec<PathBuf> {
            let named = |path: &&PathBuf| path.file_name().is_some_and(|name| usable(&name.to_string_lossy()));
            files.iter().filter(named).filter(|path| of_file(path) == Some(format)).cloned().collect()
        };
        let everywhere = [self.here.as_slice(), self.below.as_slice()].concat();
        match format {
            Format::ImageFolder => image_folder::metadata_files(self.folder),
            Format::Karpathy | Format::Table => of(&self.here, &|_| true),
            Format::Blip => of(&self.here, &|name| split_in_name(Path::new(name)).is_some()),
            Format::Coco => of(&everywhere, &|name| name.contains("caption")),
            Format::FlickrToken => of(&self.here, &|name| !name.contains("lemma")),
            Format::Parquet | Format::WebDataset => of(&everywhere, &|_| true),
        }
    }
}

/// The files and the folders in a folder.
fn entries(folder: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>), DataError> {
    let failed = |cause| DataError::read(folder, cause);
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        let is_folder = kind.is_dir() || (kind.is_symlink() && entry.path().is_dir());
        if is_folder { folders.push(entry.path()) } else { files.push(entry.path()) }
    }
    Ok((files, folders))
}

fn unknown(path: &Path, cause: String) -> DataError {
    DataError::UnknownFormat { path: path.display().to_string(), cause, formats: Format::names() }
}
