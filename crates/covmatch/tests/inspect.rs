//! `inspect` on datasets whose contents are known.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::sync::atomic::{AtomicUsize, Ordering};

use covmatch::data::inspect::{
    Access, Findings, SheetCell, SheetConfig, contact_sheet, encode_png, inspect, save_png, sheet,
};
use covmatch::data::library::Library;
use covmatch::data::scenes::{self, SceneConfig};
use covmatch::data::source::{self, SourceConfig};
use covmatch::data::{Caption, DataError, Dataset, Image, Location, RgbImage, Split};

/// Six images: 1 and 4 are the same picture in different splits, 5 cannot be read.
fn dataset() -> Dataset {
    let splits = [Split::Train, Split::Train, Split::Train, Split::Val, Split::Test, Split::Test];
    let image = |(i, split)| Image { name: format!("{i}.png"), location: Location::Scene(i as u64), split };
    let texts: [&[&str]; 6] = [
        &["A dog.", "a dog"],
        &["one two three four five"],
        &["a", "a b", "a b c"],
        &["a cat sits"],
        &["A cat sits!", &"word ".repeat(40)],
        &["nobody sees it"],
    ];
    let captions = texts
        .iter()
        .enumerate()
        .flat_map(|(i, texts)| texts.iter().map(move |text| Caption { text: text.to_string(), image: i as u32 }));
    Dataset {
        images: splits.into_iter().enumerate().map(image).collect(),
        captions: captions.collect(),
        ..Dataset::default()
    }
}

fn load(image: &Image) -> Result<RgbImage, DataError> {
    let Location::Scene(i) = image.location else { panic!("{image:?}") };
    if i == 5 {
        let cause = std::io::Error::other("the disk is gone");
        return Err(DataError::Read { path: image.name.clone(), cause });
    }
    let (width, height) = [(4, 2), (10, 5), (6, 6), (3, 9), (10, 5)][i as usize];
    let level = if i == 4 { 1 } else { i as u8 };
    Ok(RgbImage { width, height, pixels: vec![level; 3 * width * height] })
}

fn report() -> Findings {
    let tokens = |text: &str| Ok(text.split(' ').count() + 2);
    inspect(&dataset(), &Access { picture: &load, tokens: Some(&tokens), progress: &|_, _| {} }).unwrap()
}

#[test]
fn counts_and_lengths_are_right() {
    let report = report();
    assert_eq!((report.images, report.captions), (6, 10));
    let splits: Vec<_> = report.splits.iter().map(|s| (s.split.as_str(), s.images, s.captions)).collect();
    assert_eq!(splits, [("train", 3, 6), ("val", 1, 1), ("test", 2, 3)]);
    let per_image = &report.captions_per_image;
    assert_eq!((per_image.min, per_image.max), (1, 3));
    assert!((per_image.mean - 10.0 / 6.0).abs() < 1e-12);
    assert_eq!(per_image.histogram.iter().map(|(k, v)| (*k, *v)).collect::<Vec<_>>(), [(1, 3), (2, 2), (3, 1)]);
    // Words, sorted: 1 2 2 2 3 3 3 3 5 40.
    let words = report.words.unwrap();
    assert_eq!((words.p50, words.p90, words.p95, words.p99, words.max), (3, 5, 40, 40, 40));
    assert!((words.mean - 6.4).abs() < 1e-12);
    assert_eq!((report.word_limit, report.over_word_limit), (30, 1));
    let tokens = report.tokens.unwrap();
    assert_eq!((tokens.p50, tokens.p90, tokens.max), (5, 7, 32)); // cut to 30 words, and two marks
}

#[test]
fn sizes_are_those_of_readable_images() {
    let sizes = report().sizes.unwrap();
    assert_eq!((sizes.width.min, sizes.width.median, sizes.width.max), (3, 6, 10));
    assert_eq!((sizes.height.min, sizes.height.median, sizes.height.max), (2, 5, 9));
    assert_eq!((sizes.aspect.min, sizes.aspect.median, sizes.aspect.max), (3.0 / 9.0, 2.0, 2.0));
}

#[test]
fn the_same_picture_is_found_and_so_is_its_way_into_another_split() {
    let report = report();
    let names: Vec<&str> = report.duplicate_images[0].iter().map(|image| image.name.as_str()).collect();
    assert_eq!((report.duplicate_images.len(), names), (1, vec!["1.png", "4.png"]));
    assert_eq!(report.shared_images, report.duplicate_images);
    assert_eq!((report.repeated_captions.distinct, report.repeated_captions.copies), (8, 2));
    assert_eq!(report.repeated_captions.most_frequent, [("a cat sits".to_string(), 2), ("a dog".to_string(), 2)]);
}

#[test]
fn pictures_of_other_shape_or_of_one_other_pixel_are_not_the_same() {
    let mut data = dataset();
    data.images.truncate(4);
    data.captions.retain(|caption| caption.image < 4);
    let load = |image: &Image| {
        let Location::Scene(i) = image.location else { panic!("{image:?}") };
        let (width, height) = [(4, 5), (5, 4), (4, 5), (4, 5)][i as usize];
        let mut pixels = vec![7; 60];
        pixels[0] += u8::from(i == 2);
        pixels[59] += u8::from(i == 3);
        Ok(RgbImage { width, height, pixels })
    };
    let report = inspect(&data, &Access { picture: &load, tokens: None, progress: &|_, _| {} }).unwrap();
    assert!(report.duplicate_images.is_empty() && report.tokens.is_none());
}

#[test]
fn an_unreadable_image_is_named_with_its_cause() {
    let report = report();
    assert_eq!(report.unreadable.len(), 1);
    assert_eq!((report.unreadable[0].name.as_str(), report.unreadable[0].split.as_str()), ("5.png", "test"));
    assert!(report.unreadable[0].cause.contains("the disk is gone"));
}

#[test]
fn progress_counts_every_picture() {
    let (calls, last) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let progress = |done: usize, total: usize| {
        calls.fetch_add(1, Ordering::Relaxed);
        last.fetch_max(done, Ordering::Relaxed);
        assert_eq!(total, 6);
    };
    inspect(&dataset(), &Access { picture: &load, tokens: None, progress: &progress }).unwrap();
    assert_eq!((calls.into_inner(), last.into_inner()), (6, 6));
}

#[test]
fn a_failing_tokenizer_is_an_error() {
    let tokens = |_: &str| Err(DataError::Read { path: "vocab.txt".into(), cause: std::io::Error::other("gone") });
    let failed = inspect(&dataset(), &Access { picture: &load, tokens: Some(&tokens), progress: &|_, _| {} });
    assert!(failed.unwrap_err().to_string().contains("vocab.txt"));
}

#[test]
fn an_empty_dataset_has_an_empty_report() {
    let access = Access { picture: &load, tokens: None, progress: &|_, _| {} };
    let report = inspect(&Dataset::default(), &access).unwrap();
    assert_eq!((report.images, report.captions, report.words, report.sizes), (0, 0, None, None));
    assert!(report.to_string().contains("unreadable"));
    let sheet = contact_sheet(&Dataset::default(), &access, &SheetConfig::default());
    assert!(sheet.width > 0 && sheet.height > 0);
}

#[test]
fn the_table_and_the_json_say_the_same() {
    let report = report();
    let table = report.to_string();
    for expected in ["train                          3           6", "5.png (test)", "1.png (train) = 4.png (test)"] {
        assert!(table.contains(expected), "{expected:?} is not in\n{table}");
    }
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["splits"][0]["captions"], 6);
    assert_eq!(json["captions_per_image"]["histogram"]["2"], 2);
    assert_eq!(json["words"]["p95"], 40);
    assert_eq!(json["unreadable"][0]["name"], "5.png");
    assert_eq!(json["shared_images"][0][1]["split"], "test");
}

#[test]
fn scenes_have_nothing_wrong_with_them() {
    let config = SceneConfig { seed: 1, train: 300, val: 60, test: 60, size: 32 };
    let load = |image: &Image| match image.location {
        Location::Scene(index) => Ok(scenes::render(&config, index)),
        ref other => panic!("{other:?}"),
    };
    let access = Access { picture: &load, tokens: None, progress: &|_, _| {} };
    let report = inspect(&scenes::dataset(&config), &access).unwrap();
    assert!(report.duplicate_images.is_empty() && report.unreadable.is_empty() && report.over_word_limit == 0);
    assert_eq!((report.captions_per_image.min, report.captions_per_image.max), (5, 5));
}

#[test]
fn a_sheet_shows_each_picture_in_its_place() {
    let red = RgbImage { width: 8, height: 8, pixels: [250, 0, 0].repeat(64) };
    let wide = RgbImage { width: 8, height: 4, pixels: [0, 0, 250].repeat(32) };
    let cell = |picture| SheetCell { title: "t".into(), picture, captions: vec!["caption".into()] };
    let config = SheetConfig { columns: 2, pictures: 3, side: 60, captions: 1, lines: 1, scale: 1 };
    let sheet = sheet(&[cell(Ok(red)), cell(Ok(wide)), cell(Err("broken".into()))], &config);
    let pixel = |x: usize, y: usize| &sheet.pixels[(y * sheet.width + x) * 3..][..3];
    let count = |rgb: [u8; 3]| sheet.pixels.chunks_exact(3).filter(|p| *p == rgb).count();
    assert_eq!(sheet.width, 2 * (60 + 8) + 8);
    assert_eq!(pixel(8 + 30, 8 + 11 + 30), [250, 0, 0]);
    assert_eq!(pixel(8 + 68 + 30, 8 + 11 + 30), [0, 0, 250]);
    assert_eq!((count([250, 0, 0]), count([0, 0, 250])), (60 * 60, 60 * 30)); // the wide one keeps its shape
    assert!(count([20, 20, 24]) > 100, "captions are drawn");
}

#[test]
fn a_sheet_is_written_as_a_png_that_reads_back() {
    let picture = RgbImage { width: 3, height: 2, pixels: (0..18).collect() };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sheet.png");
    save_png(&picture, &path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), encode_png(&picture).unwrap());
    let read = image::open(&path).unwrap().to_rgb8();
    assert_eq!((read.dimensions(), read.into_raw()), ((3, 2), picture.pixels.clone()));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing unfinished is left behind");
    let missing = save_png(&picture, &folder.path().join("no/such/sheet.png")).unwrap_err();
    assert!(missing.to_string().contains("check that the folder exists"), "{missing}");
}

/// Counts as the authors of the corpus give them. `COVMATCH_SHEET` also writes the contact sheet, to look at.
#[test]
fn flickr8k_inspects_cleanly() {
    let Some(folder) = std::env::var_os("COVMATCH_FLICKR8K") else {
        println!("SKIPPED: set COVMATCH_FLICKR8K to the folder of dataset_flickr8k.json");
        return;
    };
    let dataset = source::open(&SourceConfig::new(folder)).unwrap();
    let library = Library::default();
    let access = Access { picture: &|image| library.picture(image), tokens: None, progress: &|_, _| {} };
    let report = inspect(&dataset, &access).unwrap();
    println!("{report}");
    let splits: Vec<_> = report.splits.iter().map(|s| (s.split.as_str(), s.images, s.captions)).collect();
    assert_eq!(splits, [("train", 6000, 30000), ("val", 1000, 5000), ("test", 1000, 5000)]);
    assert_eq!((report.captions_per_image.min, report.captions_per_image.max), (5, 5));
    assert_eq!((report.unreadable.len(), report.skipped.len()), (0, 0));
    if let Some(path) = std::env::var_os("COVMATCH_SHEET") {
        save_png(&contact_sheet(&dataset, &access, &SheetConfig::default()), path.as_ref()).unwrap();
    }
}
