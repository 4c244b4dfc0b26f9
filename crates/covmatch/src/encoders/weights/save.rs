//! Writing an encoder's weights as safetensors, under the keys that PyTorch's libraries use.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use burn::module::Module;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use super::error::WeightsError;
use super::keys::{KeyShape, keys};
use super::walk::visit;
use crate::files::write_whole;

/// Writes all parameters and stored statistics of `module` to the safetensors file `path`, as f32.
///
/// The file appears whole or not at all.
pub fn save<M: Module>(module: &M, path: impl AsRef<Path>) -> Result<(), WeightsError> {
    let path = path.as_ref();
    write_whole(path, |out| write_to(module, out)).map_err(|source| WeightsError::Write { path: path.into(), source })
}

fn write_to<M: Module>(module: &M, out: &mut BufWriter<File>) -> io::Result<()> {
    let header = header(keys(module))?;
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    let mut result = Ok(());
    visit(module, |_, parameter| {
        if result.is_ok() {
            let data = parameter.values().into_data();
            result = data.iter::<f32>().try_for_each(|value| out.write_all(&value.to_le_bytes()));
        }
    });
    result
}

/// The JSON header of tensors that follow each other in the order of `entries`, padded to a multiple of 8 bytes.
fn header(entries: Vec<KeyShape>) -> io::Result<Vec<u8>> {
    let mut end = 0;
    let tensors = entries.into_iter().map(|KeyShape { key, shape }| {
        let start = end;
        end += 4 * shape.iter().product::<usize>();
        (key, TensorInfo { dtype: Dtype::F32, shape, data_offsets: (start, end) })
    });
    // Hugging Face transformers reads only files that say they are PyTorch's.
    let about = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let metadata = Metadata::new(Some(about), tensors.collect()).map_err(io::Error::other)?;
    let mut header = serde_json::to_vec(&metadata)?;
    header.resize(header.len().next_multiple_of(8), b' ');
    Ok(header)
}
