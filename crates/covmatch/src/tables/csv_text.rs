//! Records for programs (RFC 4180).

use csv::{Terminator, WriterBuilder};

/// `records`, which have as many fields each, as lines that end in CR LF.
pub(crate) fn csv_text(records: impl IntoIterator<Item = Vec<String>>) -> csv::Result<String> {
    let mut writer = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
    for record in records {
        writer.write_record(record)?;
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
