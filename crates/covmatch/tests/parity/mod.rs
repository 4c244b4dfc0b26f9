//! Comparing an encoder with golden values of PyTorch (see python/goldens/formula.py for what a file holds).
#![allow(clippy::unwrap_used, clippy::expect_used)]
#![allow(dead_code)] // not every test file uses everything

pub mod model;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use covmatch::encoders::weights::{generated, visit};
use safetensors::{Dtype, SafeTensors};

/// Largest deviation of the features, relative to the largest feature.
const FEATURES: f64 = 1e-4;
/// Largest deviation of a gradient, relative to its largest element, and of its norm.
const GRADIENTS: f64 = 1e-3;

/// A golden file.
pub struct Golden(BTreeMap<String, Vec<f64>>);

impl Golden {
    /// Reads tests/goldens/NAME.safetensors.
    pub fn read(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/goldens/{name}.safetensors"));
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let file = SafeTensors::deserialize(&bytes).unwrap();
        Self(file.iter().map(|(key, view)| (key.to_owned(), numbers(view.dtype(), view.data()))).collect())
    }

    /// The entry `key`.
    pub fn get(&self, key: &str) -> &[f64] {
        self.0.get(key).unwrap_or_else(|| panic!("the golden file has no entry {key}"))
    }

    /// Shape of the input.
    pub fn input_shape<const D: usize>(&self) -> [usize; D] {
        let shape: Vec<usize> = self.get("input_shape").iter().map(|&size| size as usize).collect();
        shape.try_into().unwrap()
    }

    /// The input, tracked.
    pub fn input<const D: usize>(&self, device: &Device) -> Tensor<D> {
        let shape = self.input_shape::<D>();
        uniform("input", shape, device).require_grad()
    }

    /// Compares the features, then the gradients of the input and of every weight the file has.
    pub fn check<const D: usize>(&self, module: &impl Module, input: &Tensor<D>, features: Tensor<2>) {
        agree("features", &values(features.clone()), self.get("features"), 0.0, FEATURES);
        let cotangent = uniform("cotangent", features.dims(), &features.device());
        let gradients = (features * cotangent).sum().backward();
        let mut found = gradients_by_key(module, &gradients);
        found.insert("input".to_owned(), values(input.grad(&gradients).expect("a gradient of the input")));
        self.check_gradients(&found);
    }

    /// Compares the gradients `found`, by key, with all that the file has.
    pub fn check_gradients(&self, found: &BTreeMap<String, Vec<f64>>) {
        for (key, expected) in self.0.iter().filter_map(|(key, v)| Some((key.strip_prefix("grad.")?, v))) {
            let gradient = found.get(key).unwrap_or_else(|| panic!("no gradient of {key}"));
            let expected_norm = self.get(&format!("norm.{key}"));
            // The samples of a kernel may all lie on a tap that sees nothing but padding.
            let typical = expected_norm[0] / (gradient.len() as f64).sqrt();
            let samples = sampled(gradient, expected.len());
            agree(&format!("gradient of {key}"), &samples, expected, typical, GRADIENTS);
            let norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
            agree(&format!("norm of the gradient of {key}"), &[norm], expected_norm, 0.0, GRADIENTS);
        }
    }
}

/// `u_i` of `key`.
pub fn uniform<const D: usize>(key: &str, shape: [usize; D], device: &Device) -> Tensor<D> {
    let n = shape.iter().product();
    Tensor::from_data(TensorData::new(generated::uniform(key, n), shape), device)
}

fn numbers(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
    let words = bytes.chunks_exact(4).map(|word| word.try_into().unwrap());
    match dtype {
        Dtype::F32 => words.map(|word| f64::from(f32::from_le_bytes(word))).collect(),
        Dtype::I32 => words.map(|word| f64::from(i32::from_le_bytes(word))).collect(),
        Dtype::U8 => bytes.iter().map(|&byte| f64::from(byte)).collect(),
        other => panic!("golden files hold f32, i32 and bytes, not {other:?}"),
    }
}

/// The values of `t`.
pub fn values<const D: usize>(t: Tensor<D>) -> Vec<f64> {
    t.into_data().iter::<f32>().map(f64::from).collect()
}

/// `count` elements at flat indices `floor(j * len / count)`.
pub fn sampled(all: &[f64], count: usize) -> Vec<f64> {
    (0..count).map(|j| all[j * all.len() / count]).collect()
}

/// Fails unless `max |found - expected| <= tolerance * max(|expected|, typical)`.
fn agree(what: &str, found: &[f64], expected: &[f64], typical: f64, tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}: number of elements");
    assert!(found.iter().all(|f| f.is_finite()), "{what}: not finite");
    let largest = expected.iter().fold(typical, |m, e| m.max(e.abs()));
    assert!(largest > 0.0, "{what}: the golden values are all zero");
    let deviation = found.iter().zip(expected).fold(0.0_f64, |m, (f, e)| m.max((f - e).abs())) / largest;
    assert!(deviation <= tolerance, "{what}: deviates by {deviation:.1e} of its largest value");
}

/// Fails unless `max |found - expected| <= tolerance * max |expected|`.
pub fn close(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    agree(what, found, expected, 0.0, tolerance);
}

/// The gradients of all tracked parameters, by upstream key.
pub fn gradients_by_key(module: &impl Module, gradients: &Gradients) -> BTreeMap<String, Vec<f64>> {
    let mut found = BTreeMap::new();
    visit(module, |key, parameter| {
        if let Some(gradient) = parameter.gradient(gradients) {
            found.insert(key.to_owned(), values(gradient));
        }
    });
    found
}

/// The upstream keys of the parameters that have a gradient, sorted.
pub fn keys_with_gradient(module: &impl Module, gradients: &Gradients) -> Vec<String> {
    gradients_by_key(module, gradients).into_keys().collect()
}

/// Whether `key` names a statistic of a batch norm: stored, but no parameter.
pub fn is_statistic(key: &str) -> bool {
    key.ends_with("running_mean") || key.ends_with("running_var")
}

/// Fails unless exactly the parameters, and no statistic, get a gradient, even after everything is unfrozen.
pub fn statistics_stay_frozen<M: Module>(module: M, features: impl FnOnce(&M) -> Tensor<2>) {
    let module = module.unfreeze();
    let gradients = features(&module).sum().backward();
    let with_gradient: Vec<String> = gradients_by_key(&module, &gradients).into_keys().collect();
    let mut parameters: Vec<String> = covmatch::encoders::weights::keys(&module)
        .into_iter()
        .map(|entry| entry.key)
        .filter(|key| !is_statistic(key))
        .collect();
    parameters.sort();
    assert_eq!(with_gradient, parameters);
}

/// Number of parameters, statistics of batch norms not counted.
pub fn num_params(module: &impl Module) -> usize {
    let entries = covmatch::encoders::weights::keys(module);
    entries.iter().filter(|e| !is_statistic(&e.key)).map(|e| e.shape.iter().product::<usize>()).sum()
}

/// Says that a test checks nothing, and why, even where the output of passing tests is hidden.
pub fn skipped(why: &str) {
    use std::io::Write;
    #[allow(clippy::explicit_write)] // unlike eprintln!, it is seen although the test passes
    writeln!(std::io::stderr(), "SKIPPED: {why}").unwrap();
}

/// The folder of the model, under any of its `names`; `None`, said aloud, if there is none.
pub fn weights_folder(names: &[&str]) -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // Tests run in the package's folder; a relative path is meant from the workspace.
    let named = ["COVMATCH_MODELS", "COVMATCH_EXTRA_MODELS"].map(|name| std::env::var(name).ok());
    let models = workspace.join(named[0].as_deref().unwrap_or("models"));
    let parents = [Some(models), named[1].as_deref().map(|path| workspace.join(path))];
    let mut folders = parents.iter().flatten().flat_map(|parent| names.iter().map(move |name| parent.join(name)));
    let found = folders.find(|folder| folder.is_dir());
    if found.is_none() {
        skipped(&format!(
            "no weights of {}; scripts/pull-models fetches some, COVMATCH_MODELS and COVMATCH_EXTRA_MODELS name folders \
             to look in",
            names[0]
        ));
    }
    found
}

/// Of `names` those that another library has: the encoders of the built-in dataset are our own.
pub fn upstream(names: impl Iterator<Item = &'static str>) -> impl Iterator<Item = &'static str> {
    names.filter(|name| !["nfnet_scenes", "bert_scenes"].contains(name))
}
