//! The lists of BLIP (Salesforce): `*_train.json` with one entry a caption, `*_val.json` and `*_test.json` with one
//! entry an image.
//!
//! ```json
//! [{"image": "val2014/a.jpg", "caption": "A dog.", "image_id": "coco_1"}]
//! [{"image": "val2014/b.jpg", "caption": ["A cat.", "A black cat."]}]
//! ```
//! The file name says which split a list is.

use std::path::PathBuf;

use super::builder::Builder;
use super::names::split_in_name;
use super::text::{each_entry, string, strings};
use crate::data::{DataError, Split};

/// Reads the entries of the files.
pub(super) fn read(files: &[PathBuf], builder: &mut Builder) -> Result<(), DataError> {
    for path in files {
        let split = split_in_name(path).unwrap_or(Split::Train);
        each_entry(path, &[], &mut |_, index, value| {
            let at = format!("[{index}]");
            let parsed = string(path, &at, &value, "image")
                .and_then(|image| Ok((image, strings(path, &at, &value, "caption")?)));
            let (name, captions) = match parsed {
                Ok(parsed) => parsed,
                Err(error) => return builder.bad(&format!("{}, {at}", path.display()), error),
            };
            let Some(image) = builder.image(path, name, split)? else { return Ok(()) };
            for caption in captions {
                builder.caption(path, || format!("{at}.caption"), image, caption)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}
