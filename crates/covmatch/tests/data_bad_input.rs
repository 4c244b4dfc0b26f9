//! Whatever is wrong with the input, the message names the file and the fix, and nothing panics.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

use std::fs;
use std::path::{Path, PathBuf};

use covmatch::data::decode::{Limits, decode};
use covmatch::data::library::Library;
use covmatch::data::source::{Format, OnBad, SourceConfig, open};
use covmatch::data::{DataError, Dataset, Split};
use proptest::prelude::*;
use tempfile::TempDir;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/data")
}

/// A folder with `dataset.json` in Karpathy's layout and some images.
fn karpathy(json: &str, images: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in images {
        fs::copy(fixtures().join("table/pictures/0.png"), folder.path().join(name)).unwrap();
    }
    fs::write(folder.path().join("dataset.json"), json).unwrap();
    folder
}

/// One entry of Karpathy's list.
fn entry(name: &str, split: &str, caption: &str) -> String {
    format!(r#"{{"filename": "{name}", "split": "{split}", "sentences": [{{"raw": "{caption}"}}]}}"#)
}

fn images(entries: &[String]) -> String {
    format!(r#"{{"images": [{}]}}"#, entries.join(", "))
}

fn read(path: &Path) -> Result<Dataset, DataError> {
    open(&SourceConfig::new(path))
}

fn read_skipping(path: &Path) -> Result<Dataset, DataError> {
    open(&SourceConfig { on_bad: OnBad::Skip, ..SourceConfig::new(path) })
}

/// The error message holds every one of `parts`.
fn assert_says<T: std::fmt::Debug>(result: Result<T, DataError>, parts: &[&str]) {
    let message = result.unwrap_err().to_string();
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
}

#[test]
fn missing_images_are_named_and_counted() {
    let entries: Vec<String> = (0..6).map(|n| entry(&format!("{n}.png"), "train", "A box.")).collect();
    let folder = karpathy(&images(&entries), &["0.png", "3.png"]);
    let root = folder.path().display().to_string();
    assert_says(read(folder.path()), &["4 of 6", &root, "1.png, 2.png, 4.png, ...", "`images`", "on_bad"]);
    let dataset = read_skipping(folder.path()).unwrap();
    assert_eq!(dataset.images.len(), 2);
    let skipped: Vec<&str> = dataset.skipped.iter().map(|skipped| skipped.name.as_str()).collect();
    assert_eq!(skipped, ["1.png", "2.png", "4.png", "5.png"]);
    assert!(dataset.skipped[0].cause.contains(&root));
}

#[test]
fn images_that_are_nowhere_near_ask_for_the_root() {
    let folder = karpathy(&images(&[entry("far.png", "train", "A box.")]), &[]);
    assert_says(read(folder.path()), &["far.png", "set `images`"]);
    let images = Some(folder.path().join("nothing"));
    assert_says(
        open(&SourceConfig { images, ..SourceConfig::new(folder.path()) }),
        &["nothing", "check that the path"],
    );
}

#[test]
fn an_image_that_vanishes_after_opening_is_named() {
    let folder = karpathy(&images(&[entry("0.png", "train", "A box.")]), &["0.png"]);
    let dataset = read(folder.path()).unwrap();
    fs::remove_file(folder.path().join("0.png")).unwrap();
    assert_says(Library::default().picture(&dataset.images[0]), &["0.png", "check that the path exists"]);
}

#[test]
fn truncated_images_are_errors_in_every_format() {
    for name in
        ["rgb.png", "420.jpg", "progressive.jpg", "cmyk.jpg", "lossless.webp", "lossy.webp", "rgb.bmp", "palette.gif"]
    {
        let bytes = fs::read(fixtures().join("decode").join(name)).unwrap();
        for percent in [20, 50, 80, 95] {
            let cut = &bytes[..bytes.len() * percent / 100];
            let result = decode(name, cut, &Limits::default());
            assert!(result.is_err(), "{name} cut at {percent}% decodes");
            assert_says(result, &[name, "copy or download it again"]);
        }
    }
}

#[test]
fn files_that_are_not_images_say_what_they_look_like() {
    let cases: [(&[u8], &str); 7] = [
        (b"", "empty file"),
        (b"<!DOCTYPE html><html>404</html>", "web page"),
        (b"hello", "text file"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (&[0; 100], "zeros"),
        (b"II*\0\x08\0\0\0\0\0\0\0", "tif"),
        (b"\0\0\0\x18ftypheic\0\0\0\0", "HEIC"),
    ];
    for (bytes, looks) in cases {
        assert_says(decode("photo.jpg", bytes, &Limits::default()), &["photo.jpg", looks]);
    }
}

#[test]
fn zero_sized_images_are_refused() {
    let mut png = fs::read(fixtures().join("decode/rgb.png")).unwrap();
    png[16..20].fill(0);
    let mut jpeg = fs::read(fixtures().join("decode/444.jpg")).unwrap();
    let frame = jpeg.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
    jpeg[frame + 5..frame + 7].fill(0);
    let mut gif = fs::read(fixtures().join("decode/palette.gif")).unwrap();
    gif[6..8].fill(0);
    let mut bmp = fs::read(fixtures().join("decode/rgb.bmp")).unwrap();
    bmp[18..22].fill(0);
    for bytes in [png, jpeg, gif, bmp] {
        assert_says(decode("flat.img", &bytes, &Limits::default()), &["flat.img", "no pixels", "0", "replace it"]);
    }
}

#[test]
fn gigantic_images_are_refused_before_they_are_decoded() {
    let mut png = fs::read(fixtures().join("decode/rgb.png")).unwrap();
    png[16..20].copy_from_slice(&1_000_000_u32.to_be_bytes());
    png[20..24].copy_from_slice(&1_000_000_u32.to_be_bytes());
    let parts = ["huge.png", "1000000 x 1000000", "100000000", "max_pixels"];
    assert_says(decode("huge.png", &png, &Limits::default()), &parts);
    let small = fs::read(fixtures().join("decode/444.jpg")).unwrap();
    assert_says(decode("a.jpg", &small, &Limits { max_pixels: 96 * 64 - 1 }), &["a.jpg", "96 x 64", "max_pixels"]);
    assert!(decode("a.jpg", &small, &Limits { max_pixels: 96 * 64 }).is_ok());
}

#[test]
fn empty_captions_are_named_or_skipped() {
    let json = images(&[entry("0.png", "train", "A box."), entry("1.png", "train", "  ")]);
    let folder = karpathy(&json, &["0.png", "1.png"]);
    assert_says(read(folder.path()), &["dataset.json", "images[1].sentences[0].raw", "1.png", "on_bad"]);
    let dataset = read_skipping(folder.path()).unwrap();
    assert_eq!((dataset.images.len(), dataset.captions.len()), (1, 1));
    assert!(dataset.skipped.iter().any(|skipped| skipped.name == "1.png" && skipped.cause.contains("empty")));
}

#[test]
fn an_image_without_captions_is_named() {
    let bare = r#"{"filename": "1.png", "split": "val", "sentences": []}"#.to_string();
    let folder = karpathy(&images(&[entry("0.png", "train", "A box."), bare]), &["0.png", "1.png"]);
    assert_says(read(folder.path()), &["1.png", "no caption", "dataset.json"]);
    assert_eq!(read_skipping(folder.path()).unwrap().images.len(), 1);
}

#[test]
fn captions_that_are_not_utf8_are_named_by_line() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(fixtures().join("table/pictures/0.png"), folder.path().join("0.png")).unwrap();
    let cases: [(&str, &[u8], &str); 5] = [
        ("pairs.csv", b"image,caption\n0.png,fine\n0.png,caf\xe9\n", "line 3"),
        ("pairs_train.txt", b"image,caption\n0.png,caf\xe9\n0.png,fine\n", "line 2"),
        ("pairs.token", b"0.png#0\tfine\n0.png#1\tcaf\xe9\n", "line 2"),
        (
            "metadata.jsonl",
            b"{\"file_name\": \"0.png\", \"text\": \"fine\"}\n{\"file_name\": \"0.png\", \"text\": \"\xe9\"}",
            "line 2",
        ),
        ("pairs.tsv", b"0.png\tcaf\xe9\n0.png\tfine\n", "line 1"),
    ];
    for (name, bytes, line) in cases {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        assert_says(read(&path), &[name, line, "not UTF-8", "iconv"]);
        let dataset = read_skipping(&path).unwrap();
        assert_eq!((dataset.captions.len(), dataset.skipped.len()), (1, 1), "{name}");
        assert_eq!(dataset.captions[0].text, "fine", "{name}");
        fs::remove_file(&path).unwrap();
    }
    let json = folder.path().join("dataset.json");
    fs::write(&json, b"{\"images\": [\n{\"filename\": \"caf\xe9.png\"}]}").unwrap();
    assert_says(read(&json), &["dataset.json", "line 2", "not UTF-8", "iconv"]);
}

#[test]
fn a_caption_of_ten_thousand_words_is_read_whole() {
    let long = "word ".repeat(10_000);
    let folder = karpathy(&images(&[entry("0.png", "train", &long)]), &["0.png"]);
    let dataset = read(folder.path()).unwrap();
    assert_eq!(dataset.captions[0].text.split_whitespace().count(), 10_000);
}

#[test]
fn json_of_the_wrong_shape_says_which_field_where() {
    let good = entry("0.png", "train", "A box.");
    let cases = [
        (
            r#"{"filename": 7, "split": "train", "sentences": []}"#,
            "images[1].filename should be a string but is a number",
        ),
        (r#"{"split": "train", "sentences": []}"#, "images[1].filename should be a string but is missing"),
        (r#"{"filename": "1.png", "sentences": []}"#, "images[1].split should be a string but is missing"),
        (r#"{"filename": "1.png", "split": "holdout", "sentences": []}"#, "images[1].split should be train, restval"),
        (
            r#"{"filename": "1.png", "split": "val", "sentences": {}}"#,
            "images[1].sentences should be a list but is an object",
        ),
        (
            r#"{"filename": "1.png", "split": "val", "sentences": [{"raw": "x"}, {"tokens": []}]}"#,
            "images[1].sentences[1].raw should be a string but is missing",
        ),
        ("17", "images[1].filename should be a string but is missing (the entry is not an object)"),
    ];
    for (bad, message) in cases {
        let folder = karpathy(&images(&[good.clone(), bad.to_string()]), &["0.png"]);
        assert_says(read(folder.path()), &["dataset.json", message]);
        let dataset = read_skipping(folder.path()).unwrap();
        assert_eq!((dataset.images.len(), dataset.skipped.len()), (1, 1), "{bad}");
        assert!(dataset.skipped[0].name.ends_with("images[1]"), "{:?}", dataset.skipped);
    }
}

#[test]
fn json_that_is_another_format_or_none_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny_train.json");
    let as_format = |text: &str, format| {
        fs::write(&path, text).unwrap();
        open(&SourceConfig { format: Some(format), ..SourceConfig::new(&path) })
    };
    assert_says(
        as_format("[]", Format::Karpathy),
        &["tiny_train.json", "an object with the list `images`", "`format`"],
    );
    assert_says(as_format("{}", Format::Blip), &["tiny_train.json", "a list of entries", "`format`"]);
    assert_says(as_format("{}", Format::Karpathy), &["images should be a list but is missing"]);
    assert_says(as_format(r#"{"images": 3}"#, Format::Karpathy), &["tiny_train.json", "images"]);
    assert_says(as_format(r#"{"images": []}"#, Format::Coco), &["annotations should be a list but is missing"]);
    assert_says(
        as_format(r#"{"images": [{"file"#, Format::Karpathy),
        &["not valid JSON", "line 1", "download it again"],
    );
    assert_says(as_format("[]", Format::Blip), &["tiny_train.json", "no pair"]);
    assert_says(as_format(r#"[{"image": "a.png"}]"#, Format::Blip), &["[0].caption", "missing"]);
    assert_says(
        as_format(r#"[{"image": "a.png", "caption": ["x", 3]}]"#, Format::Blip),
        &["[0].caption[1]", "a number"],
    );
    let stray = r#"{"images": [], "annotations": [{"image_id": 4, "caption": "x"}]}"#;
    assert_says(as_format(stray, Format::Coco), &["annotations[0].image_id", "4"]);
    fs::write(&path, "hello").unwrap();
    assert_says(read(&path), &["tiny_train.json", "`format = `", "karpathy"]);
    assert_says(read(folder.path()), &[&folder.path().display().to_string(), "no annotations"]);
}

#[test]
fn tables_of_the_wrong_shape_name_the_line() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(fixtures().join("table/pictures/0.png"), folder.path().join("0.png")).unwrap();
    let path = folder.path().join("pairs.csv");
    let cases = [
        ("image,caption,split\n0.png,fine,train\n0.png,a, b,train\n", "line 3: it has 4 fields where 3 are expected"),
        ("image,caption,split\n0.png,fine,train\n0.png,a,holdout\n", "line 3: the split is \"holdout\""),
        ("image,caption\n0.png,fine\n0.png\n", "line 3: it has 1 fields where 2 are expected"),
    ];
    for (text, message) in cases {
        fs::write(&path, text).unwrap();
        assert_says(read(&path), &["pairs.csv", message, "on_bad"]);
        assert_eq!(read_skipping(&path).unwrap().skipped.len(), 1);
    }
    fs::write(&path, "image,likes\n0.png,3\n").unwrap();
    assert_says(read(&path), &["pairs.csv", "line 1", "image, likes", "`image,caption`"]);
}

#[test]
fn a_tar_that_is_cut_short_is_named() {
    let whole = fs::read(fixtures().join("karpathy/pictures.tar")).unwrap();
    let json = fixtures().join("karpathy/dataset_tiny.json");
    let folder = tempfile::tempdir().unwrap();
    fs::copy(&json, folder.path().join("dataset_tiny.json")).unwrap();
    let tar = folder.path().join("pictures.tar");
    // Inside contents, inside a header, between members, and before the end mark.
    for cut in [700, 1024 + 100, 1024, 512 * 6] {
        fs::write(&tar, &whole[..cut]).unwrap();
        assert_says(read(folder.path()), &["pictures.tar", "not a whole tar archive", "download it again", "on_bad"]);
    }
    fs::write(&tar, &whole[..512 * 5]).unwrap();
    let dataset = read_skipping(folder.path()).unwrap();
    assert!(!dataset.images.is_empty() && dataset.images.len() < 5);
    assert!(dataset.skipped[0].name.ends_with("pictures.tar"));
    assert_eq!(dataset.skipped.len(), 1 + 5 - dataset.images.len());

    let shard = folder.path().join("train-000000.tar");
    let bytes = fs::read(fixtures().join("webdataset/train-000000.tar")).unwrap();
    fs::write(&shard, &bytes[..bytes.len() / 3]).unwrap();
    assert_says(read(&shard), &["train-000000.tar", "not a whole tar archive"]);
    fs::write(&shard, b"\x1f\x8b\x08\0\0\0\0\0\0\0").unwrap();
    assert_says(read(&shard), &["train-000000.tar", "compressed", "decompress"]);
    fs::remove_file(&shard).unwrap();
    fs::write(&tar, b"\x1f\x8b\x08\0\0\0\0\0\0\0").unwrap();
    assert_says(read(folder.path()), &["pictures.tar", "compressed", "decompress"]);
}

#[test]
fn a_tar_that_shrinks_after_opening_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let shard = folder.path().join("train-000000.tar");
    fs::copy(fixtures().join("webdataset/train-000000.tar"), &shard).unwrap();
    let dataset = read(&shard).unwrap();
    fs::write(&shard, b"short").unwrap();
    assert_says(Library::default().picture(&dataset.images[0]), &["train-000000.tar", "ends at byte 5"]);
}

#[test]
fn two_splits_that_share_an_image_are_an_error() {
    let json = images(&[entry("0.png", "train", "A box."), entry("./0.png", "test", "A cube.")]);
    let folder = karpathy(&json, &["0.png"]);
    assert_says(read(folder.path()), &["0.png", "both the train and the test split", "dataset.json", "remove it"]);
    let dataset = read_skipping(folder.path()).unwrap();
    assert_eq!((dataset.counts(Split::Train).images, dataset.counts(Split::Test).images), (1, 0));
    assert_eq!(dataset.captions.len(), 1);
    assert_eq!(dataset.skipped.len(), 1);
}

#[test]
fn paths_cannot_leave_the_image_root() {
    let outside = tempfile::tempdir().unwrap();
    fs::copy(fixtures().join("table/pictures/0.png"), outside.path().join("secret.png")).unwrap();
    let absolute = outside.path().join("secret.png").display().to_string();
    let up = format!("../{}/secret.png", outside.path().file_name().unwrap().to_str().unwrap());
    let around = format!("sub/../{up}");
    for name in [absolute.as_str(), up.as_str(), around.as_str(), "C:\\\\secret.png", ""] {
        let json = images(&[entry("0.png", "train", "A box."), entry(name, "train", "A secret.")]);
        let folder = karpathy(&json, &["0.png"]);
        assert_says(read(folder.path()), &["dataset.json", "must stay below the image root", "correct the file"]);
        assert_eq!(read_skipping(folder.path()).unwrap().images.len(), 1, "{name}");
    }
}

#[cfg(unix)]
#[test]
fn links_cannot_leave_the_image_root() {
    use std::os::unix::fs::symlink;
    let outside = tempfile::tempdir().unwrap();
    fs::copy(fixtures().join("table/pictures/0.png"), outside.path().join("secret.png")).unwrap();
    let names = ["0.png", "inside.png", "link.png", "sub/secret.png", "clip"];
    let entries: Vec<String> = names.iter().map(|name| entry(name, "train", "A box.")).collect();
    let folder = karpathy(&images(&entries), &["0.png"]);
    symlink("0.png", folder.path().join("inside.png")).unwrap();
    symlink(outside.path().join("secret.png"), folder.path().join("link.png")).unwrap();
    symlink(outside.path(), folder.path().join("sub")).unwrap();
    fs::create_dir(folder.path().join("clip")).unwrap();
    symlink(outside.path().join("secret.png"), folder.path().join("clip/1.png")).unwrap();
    assert_says(read(folder.path()), &["dataset.json", "link.png", "is a link to", "secret.png", "set `images`"]);
    let dataset = read_skipping(folder.path()).unwrap();
    let kept: Vec<&str> = dataset.images.iter().map(|image| image.name.as_str()).collect();
    assert_eq!(kept, ["0.png", "inside.png"]);
    assert_eq!(dataset.skipped.len(), 3);
}

#[test]
fn a_folder_of_several_datasets_asks_which() {
    let folder = karpathy(&images(&[entry("0.png", "train", "A box.")]), &["0.png"]);
    fs::copy(folder.path().join("dataset.json"), folder.path().join("dataset_other.json")).unwrap();
    assert_says(read(folder.path()), &["dataset.json", "dataset_other.json", "`annotations`"]);
}

#[test]
fn shards_and_patterns_that_do_not_exist_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let pattern = folder.path().join("train-{000000..000002}.tar");
    assert_says(read(&pattern), &["train-000000.tar", "check that the path exists"]);
    assert_says(read(&folder.path().join("train-{2..0}.tar")), &["train-{2..0}.tar", "{000000..000012}"]);
    assert_says(read(&folder.path().join("none.json")), &["none.json", "check that the path exists"]);
}

#[test]
fn parquet_that_is_damaged_or_of_another_kind_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.parquet");
    let whole = fs::read(fixtures().join("parquet/data/train-00000-of-00001.parquet")).unwrap();
    for cut in [0, 4, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..cut]).unwrap();
        assert_says(read(&path), &["train.parquet", "image column"]);
    }
    let renamed: Vec<u8> = replace(&whole, b"caption", b"remarks");
    fs::write(&path, renamed).unwrap();
    assert_says(read(&path), &["train.parquet", "no caption column"]);
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for at in 0..=bytes.len() - from.len() {
        if bytes[at..].starts_with(from) {
            bytes[at..at + from.len()].copy_from_slice(to);
        }
    }
    bytes
}

#[test]
fn a_clip_that_cannot_be_played_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("clip.mp4"), b"not a video").unwrap();
    fs::write(folder.path().join("clips.csv"), "video,caption\nclip.mp4,a walk\n").unwrap();
    let dataset = read(folder.path()).unwrap();
    // Without ffmpeg the message asks for it, with it the clip is at fault.
    assert_says(Library::default().frames(&dataset.images[0]), &["clip.mp4", "ffmpeg", "folder of frames"]);
}

/// A whole file of each format that is parsed, with the name it is given.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let files = [
        "karpathy/dataset_tiny.json",
        "blip/tiny_train.json",
        "blip/tiny_test.json",
        "coco/annotations/captions_val2014.json",
        "flickr_token/Tiny.token.txt",
        "table/pairs.csv",
        "table/pairs.tsv",
        "table/tiny_val_karpathy.txt",
        "image_folder/train/metadata.jsonl",
        "webdataset/train-000000.tar",
        "parquet/data/train-00000-of-00001.parquet",
        "parquet/data/test-00000-of-00001.parquet",
    ];
    let read = |name: &&str| (name.rsplit('/').next().unwrap().to_string(), fs::read(fixtures().join(name)).unwrap());
    files.iter().map(read).collect()
}

/// A way to damage bytes.
#[derive(Clone, Debug)]
enum Damage {
    Set(usize, u8),
    Cut(usize),
    Remove(usize, usize),
    Repeat(usize, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        4 => (any::<usize>(), any::<u8>()).prop_map(|(at, value)| Damage::Set(at, value)),
        1 => any::<usize>().prop_map(Damage::Cut),
        2 => (any::<usize>(), 1..64_usize).prop_map(|(at, count)| Damage::Remove(at, count)),
        1 => (any::<usize>(), 1..64_usize).prop_map(|(at, count)| Damage::Repeat(at, count)),
    ]
}

fn damaged(mut bytes: Vec<u8>, damages: &[Damage]) -> Vec<u8> {
    for damage in damages {
        let len = bytes.len().max(1);
        match *damage {
            _ if bytes.is_empty() => {}
            Damage::Set(at, value) => bytes[at % len] = value,
            Damage::Cut(at) => bytes.truncate(at % len),
            Damage::Remove(at, count) => drop(bytes.drain(at % len..(at % len + count).min(len))),
            Damage::Repeat(at, count) => {
                let piece = bytes[at % len..(at % len + count).min(len)].to_vec();
                bytes.splice(at % len..at % len, piece);
            }
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_annotations_never_panic(
        which in 0..12_usize,
        damages in prop::collection::vec(damage(), 1..6),
        skip: bool,
    ) {
        let (name, bytes) = seeds().swap_remove(which);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(&name);
        fs::write(&path, damaged(bytes, &damages)).unwrap();
        let on_bad = if skip { OnBad::Skip } else { OnBad::Fail };
        match open(&SourceConfig { on_bad, ..SourceConfig::new(&path) }) {
            Err(error) => prop_assert!(error.to_string().len() > 20),
            Ok(dataset) => {
                let library = Library::new(Limits { max_pixels: 1_000_000 });
                for image in &dataset.images {
                    if let Ok(picture) = library.picture(image) {
                        prop_assert_eq!(picture.pixels.len(), picture.width * picture.height * 3);
                    }
                }
            }
        }
    }

    #[test]
    fn damaged_images_never_panic(which in 0..12_usize, damages in prop::collection::vec(damage(), 1..6)) {
        let names = ["rgb.png", "palette.png", "gray16.png", "420.jpg", "progressive.jpg", "cmyk.jpg", "exif6.jpg",
                     "lossless.webp", "lossy.webp", "palette.bmp", "palette.gif", "exif6.png"];
        let bytes = fs::read(fixtures().join("decode").join(names[which])).unwrap();
        match decode(names[which], &damaged(bytes, &damages), &Limits { max_pixels: 1_000_000 }) {
            Ok(picture) => prop_assert_eq!(picture.pixels.len(), picture.width * picture.height * 3),
            Err(error) => prop_assert!(error.to_string().contains(names[which])),
        }
    }
}
