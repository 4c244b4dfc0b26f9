//! The members of a tar archive and where their bytes lie. Nothing is unpacked.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::names::normal_name;
use crate::data::DataError;

/// Headers and contents of a tar archive fill whole blocks of this many bytes; a block of zeros ends the archive.
const BLOCK: u64 = 512;

/// A file in an archive.
pub(super) struct Member {
    /// Its normal name.
    pub(super) name: String,
    /// First byte of its contents.
    pub(super) offset: u64,
    /// Length of its contents.
    pub(super) len: u64,
}

/// What an archive holds.
pub(super) struct TarIndex {
    /// Whole members, in order.
    pub(super) members: Vec<Member>,
    /// What is wrong if the archive does not end as it should.
    pub(super) cut_short: Option<DataError>,
}

/// Reads the headers of an archive.
pub(super) fn read(path: &Path) -> Result<TarIndex, DataError> {
    let failed = |cause| DataError::read(path, cause);
    let damaged = |cause: String| DataError::Tar { path: path.display().to_string(), cause };
    let mut file = File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    if is_compressed(&mut file) {
        let cause = "it is compressed, so its members cannot be read in place; decompress it first".to_string();
        return Err(damaged(cause));
    }

    let mut archive = tar::Archive::new(File::open(path).map_err(failed)?);
    let mut members = Vec::new();
    let mut end = 0; // of the last member, in whole blocks
    for entry in archive.entries_with_seek().map_err(failed)? {
        let entry = match entry {
            Ok(entry) => entry,
            Err(cause) => {
                let cause = format!("after {} members, near byte {end}: {cause}", members.len());
                return Ok(TarIndex { members, cut_short: Some(damaged(cause)) });
            }
        };
        let (offset, len) = (entry.raw_file_position(), entry.size());
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let last = offset.saturating_add(len);
        if last > size {
            let cause = format!("it ends at byte {size}, inside {name}, which ends at byte {last}");
            return Ok(TarIndex { members, cut_short: Some(damaged(cause)) });
        }
        end = last.div_ceil(BLOCK) * BLOCK;
        if entry.header().entry_type().is_file()
            && let Ok(name) = normal_name(&name)
        {
            members.push(Member { name, offset, len });
        }
    }
    let unended = size < end + BLOCK;
    let cause = format!("it ends at byte {size} after {} members without an end mark", members.len());
    Ok(TarIndex { members, cut_short: unended.then(|| damaged(cause)) })
}

/// Whether a file starts like gzip, bzip2, xz or zstd.
fn is_compressed(file: &mut File) -> bool {
    let mut start = [0; 6];
    let starts: [&[u8]; 4] = [&[0x1f, 0x8b], b"BZh", b"\xfd7zXZ\0", &[0x28, 0xb5, 0x2f, 0xfd]];
    file.read_exact(&mut start).is_ok() && starts.iter().any(|known| start.starts_with(known))
}
