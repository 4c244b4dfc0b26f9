//! Reads datasets that other libraries wrote and compares with what those libraries see in them.
//!
//! `python/goldens/data_sources.py` wrote the fixtures and their listing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

use std::path::{Path, PathBuf};

use covmatch::data::decode::{self, Limits};
use covmatch::data::library::Library;
use covmatch::data::scenes::{self, SceneConfig};
use covmatch::data::source::{Format, OnBad, SourceConfig, detect, open};
use covmatch::data::{Dataset, Location, RgbImage, Split, video};
use serde_json::Value;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/data")
}

fn listing(key: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(fixtures().join("listing.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    all[key].as_array().unwrap().clone()
}

/// The 64-bit FNV-1a hash of size and pixels, as the generator writes it.
fn pixels_hash(picture: &RgbImage) -> String {
    let header = format!("{}x{}:", picture.width, picture.height);
    let bytes = header.bytes().chain(picture.pixels.iter().copied());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

/// Names, splits, captions and pixels are those of the listing, in its order.
fn assert_equal(dataset: &Dataset, key: &str) {
    let expected = listing(key);
    let names = |rows: &[Value]| rows.iter().map(|row| row["name"].as_str().unwrap().to_string()).collect::<Vec<_>>();
    assert_eq!(dataset.images.iter().map(|image| image.name.clone()).collect::<Vec<_>>(), names(&expected), "{key}");
    assert!(dataset.skipped.is_empty(), "{key}: {:?}", dataset.skipped);
    let library = Library::new(Limits::default());
    for (index, row) in expected.iter().enumerate() {
        let image = &dataset.images[index];
        assert_eq!(image.split.to_string(), row["split"].as_str().unwrap(), "{key}: {}", image.name);
        let captions: Vec<&str> =
            dataset.captions[dataset.captions_of(index as u32)].iter().map(|c| &*c.text).collect();
        let listed: Vec<&str> = row["captions"].as_array().unwrap().iter().map(|c| c.as_str().unwrap()).collect();
        assert_eq!(captions, listed, "{key}: {}", image.name);
        if let Some(pixels) = row["pixels"].as_str() {
            let picture = library.picture(image).unwrap();
            assert_eq!(pixels_hash(&picture), pixels, "{key}: {}", image.name);
            assert_eq!(library.dimensions(image).unwrap(), (picture.width, picture.height));
        }
    }
}

fn open_all(annotations: &[PathBuf]) -> Dataset {
    open(&SourceConfig { annotations: annotations.to_vec(), ..SourceConfig::default() }).unwrap()
}

#[test]
fn karpathy_with_images_in_a_tar() {
    let folder = fixtures().join("karpathy");
    assert_eq!(detect(&folder).unwrap(), Format::Karpathy);
    let dataset = open(&SourceConfig::new(&folder)).unwrap();
    assert_equal(&dataset, "karpathy");
    assert!(dataset.images.iter().all(|image| matches!(image.location, Location::Range { .. })));
    assert_equal(&open(&SourceConfig::new(folder.join("dataset_tiny.json"))).unwrap(), "karpathy");
    let images = Some(folder.join("pictures.tar"));
    let named = SourceConfig { images, format: Some(Format::Karpathy), ..SourceConfig::new(&folder) };
    assert_equal(&open(&named).unwrap(), "karpathy");
}

#[test]
fn blip_lists() {
    let folder = fixtures().join("blip");
    assert_eq!(detect(&folder).unwrap(), Format::Blip);
    assert_equal(&open(&SourceConfig::new(&folder)).unwrap(), "blip");
    let files = ["tiny_test.json", "tiny_train.json", "tiny_val.json"].map(|name| folder.join(name));
    assert_equal(&open_all(&files), "blip");
    // The root may be the folder of the images itself.
    let images = Some(folder.join("tiny-images"));
    assert_equal(&open(&SourceConfig { images, ..SourceConfig::new(&folder) }).unwrap(), "blip");
}

#[test]
fn one_blip_list_alone_is_one_split() {
    let dataset = open(&SourceConfig::new(fixtures().join("blip/tiny_test.json"))).unwrap();
    assert_eq!(dataset.counts(Split::Train).images, 0);
    assert_eq!((dataset.counts(Split::Test).images, dataset.counts(Split::Test).captions), (1, 5));
}

#[test]
fn coco_captions() {
    let folder = fixtures().join("coco");
    assert_eq!(detect(&folder).unwrap(), Format::Coco);
    assert_equal(&open(&SourceConfig::new(&folder)).unwrap(), "coco");
    assert_equal(&open(&SourceConfig::new(folder.join("annotations"))).unwrap(), "coco");
}

#[test]
fn flickr_token_with_split_lists() {
    let folder = fixtures().join("flickr_token");
    assert_eq!(detect(&folder).unwrap(), Format::FlickrToken);
    assert_equal(&open(&SourceConfig::new(&folder)).unwrap(), "flickr_token");
}

#[test]
fn tables_of_all_three_kinds() {
    let folder = fixtures().join("table");
    for name in ["pairs.csv", "pairs.tsv", "bare.tsv"] {
        assert_eq!(detect(&folder.join(name)).unwrap(), Format::Table);
        assert_equal(&open(&SourceConfig::new(folder.join(name))).unwrap(), "table");
    }
    let texts = ["train", "val", "test"].map(|split| folder.join(format!("tiny_{split}_karpathy.txt")));
    assert_equal(&open_all(&texts), "table");
}

#[test]
fn unquoted_commas_belong_to_the_caption() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(fixtures().join("table/pictures/0.png"), folder.path().join("0.png")).unwrap();
    let rows = "image,caption\n0.png,A dog, a cat, and \"a\" hat\n0.png,\"quoted, \"\"twice\"\"\"\n";
    std::fs::write(folder.path().join("pairs.csv"), rows).unwrap();
    let dataset = open(&SourceConfig::new(folder.path())).unwrap();
    let texts: Vec<&str> = dataset.captions.iter().map(|caption| caption.text.as_str()).collect();
    assert_eq!(texts, ["A dog, a cat, and \"a\" hat", "quoted, \"twice\""]);
}

#[test]
fn image_folder_of_hugging_face() {
    let folder = fixtures().join("image_folder");
    assert_eq!(detect(&folder).unwrap(), Format::ImageFolder);
    assert_equal(&open(&SourceConfig::new(&folder)).unwrap(), "image_folder");
}

#[test]
fn shards_of_webdataset() {
    let folder = fixtures().join("webdataset");
    assert_eq!(detect(&folder).unwrap(), Format::WebDataset);
    assert_equal(&open(&SourceConfig::new(&folder)).unwrap(), "webdataset");
    let pattern = folder.join("{test,train,val}-{000000..000000}.tar");
    let dataset = open(&SourceConfig::new(pattern)).unwrap();
    let shards = |name: &str| dataset.images.iter().filter(|image| image.name.starts_with(name)).count();
    assert_eq!((shards("test-000000.tar/"), shards("train-000000.tar/"), shards("val-000000.tar/")), (2, 2, 1));
}

#[test]
fn parquet_of_hugging_face() {
    let folder = fixtures().join("parquet");
    assert_eq!(detect(&folder).unwrap(), Format::Parquet);
    assert_equal(&open(&SourceConfig::new(&folder)).unwrap(), "parquet");
}

#[test]
fn parquet_cells_are_read_from_many_threads() {
    let dataset = open(&SourceConfig::new(fixtures().join("parquet"))).unwrap();
    let library = Library::new(Limits::default());
    let expected = listing("parquet");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (dataset, library, expected) = (&dataset, &library, &expected);
            scope.spawn(move || {
                for step in 0..dataset.images.len() {
                    let index = (step * 7 + thread) % dataset.images.len();
                    let picture = library.picture(&dataset.images[index]).unwrap();
                    assert_eq!(pixels_hash(&picture), expected[index]["pixels"].as_str().unwrap());
                }
            });
        }
    });
}

#[test]
fn a_format_that_is_named_wins_over_the_one_that_is_recognised() {
    let wrong = SourceConfig { format: Some(Format::Coco), ..SourceConfig::new(fixtures().join("karpathy")) };
    assert!(open(&wrong).is_err());
    assert_eq!("flickr-token".parse::<Format>().unwrap(), Format::FlickrToken);
    let error = "flicker".parse::<Format>().unwrap_err().to_string();
    assert!(error.contains("flicker") && error.contains("karpathy"), "{error}");
}

#[test]
fn a_source_is_configured_by_a_path_or_in_full() {
    let short: SourceConfig = serde_json::from_str(r#"{"annotations": "flickr8k"}"#).unwrap();
    assert_eq!(short, SourceConfig::new("flickr8k"));
    let full = r#"{"annotations": ["a.json", "b.json"], "images": "all.tar", "format": "blip", "on_bad": "skip"}"#;
    let full: SourceConfig = serde_json::from_str(full).unwrap();
    assert_eq!((full.annotations.len(), full.format, full.on_bad), (2, Some(Format::Blip), OnBad::Skip));
    let wrong = serde_json::from_str::<SourceConfig>(r#"{"annotations": "a", "format": "blipp"}"#).unwrap_err();
    assert!(wrong.to_string().contains("choose one of karpathy, blip"), "{wrong}");
}

#[test]
fn scenes_and_their_clips_are_drawn() {
    let config = SceneConfig { train: 2, val: 1, test: 1, ..SceneConfig::default() };
    let library = Library::default().with_scenes(config);
    let still = &scenes::dataset(&config).images[0];
    let picture = library.picture(still).unwrap();
    assert_eq!((picture.width, picture.height), (config.size, config.size));
    assert_eq!(library.frames(still).unwrap(), [picture]);
    assert_eq!(library.dimensions(still).unwrap(), (config.size, config.size));
    let clip = &scenes::clips(&config).images[0];
    let frames = library.frames(clip).unwrap();
    assert_eq!(frames.len(), video::FRAMES);
    assert_ne!(frames[0], frames[3]);
}

#[test]
fn train_entries_are_captions_and_galleries_are_images() {
    let dataset = open(&SourceConfig::new(fixtures().join("karpathy"))).unwrap();
    assert_eq!(dataset.train_entries().len(), 6 + 5 + 5); // the first image has six captions
    let gallery = dataset.gallery(Split::Val);
    assert_eq!(gallery.images, [2]);
    assert_eq!(gallery.captions, [11, 12, 13, 14, 15]);
    assert_eq!(gallery.owners, [0; 5]);
    assert_eq!(dataset.counts(Split::Train).images, 3);
    let smaller = dataset.without(|index, _| (index == 1).then(|| "a reason".to_string()));
    assert_eq!(smaller.skipped[0].cause, "a reason");
    assert_eq!((smaller.images.len(), smaller.captions.len()), (4, 21));
    assert_eq!(smaller.gallery(Split::Val).captions, [6, 7, 8, 9, 10]);
}

#[test]
fn images_of_every_mode_decode_as_pil_does() {
    let folder = fixtures().join("decode");
    let mut largest = 0.0_f64;
    for row in listing("decode") {
        let name = row["file"].as_str().unwrap();
        let bytes = std::fs::read(folder.join(name)).unwrap();
        let picture = decode::decode(name, &bytes, &Limits::default()).unwrap();
        let size = (row["width"].as_u64().unwrap() as usize, row["height"].as_u64().unwrap() as usize);
        assert_eq!((picture.width, picture.height), size, "{name}");
        assert_eq!(decode::dimensions(name, &bytes, &Limits::default()).unwrap(), size, "{name}");
        if !row["lossy"].as_bool().unwrap() {
            assert_eq!(pixels_hash(&picture), row["pixels"].as_str().unwrap(), "{name}");
            continue;
        }
        let stored = row["expected"].as_str().unwrap();
        let expected = std::fs::read(folder.join(stored)).unwrap();
        let expected = decode::decode(stored, &expected, &Limits::default()).unwrap();
        assert_eq!(pixels_hash(&expected), row["pixels"].as_str().unwrap(), "{stored}");
        let sum: u64 = picture.pixels.iter().zip(&expected.pixels).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
        let mean = sum as f64 / picture.pixels.len() as f64;
        println!("{name}: mean difference {mean:.3} of 255");
        largest = largest.max(mean);
    }
    assert!(largest <= 0.5, "decoders of lossy formats differ by {largest} of 255 levels");
}

#[test]
fn clips_from_folders_of_frames() {
    let dataset = open(&SourceConfig::new(fixtures().join("clips"))).unwrap();
    assert_equal(&dataset, "clips");
    let library = Library::new(Limits::default());
    for (image, row) in dataset.images.iter().zip(listing("clips")) {
        assert!(image.location.is_clip());
        let frames: Vec<String> = library.frames(image).unwrap().iter().map(pixels_hash).collect();
        let listed: Vec<&str> = row["frames"].as_array().unwrap().iter().map(|f| f.as_str().unwrap()).collect();
        assert_eq!(frames, listed, "{}", image.name);
    }
}

#[test]
fn clips_from_video_files() {
    if std::process::Command::new("ffmpeg").arg("-version").output().is_err() {
        println!("SKIPPED: ffmpeg is not installed, so no video file can be read");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let clip = folder.path().join("-grey.mkv");
    // Frame n of 40 has the grey level 5 n; FFV1 keeps it exactly.
    let made = std::process::Command::new("ffmpeg")
        .args(["-v", "error", "-f", "lavfi", "-i", "color=black:s=32x16:r=10:d=4,format=gray,geq=lum=5*N"])
        .args(["-c:v", "ffv1"])
        .arg(format!("file:{}", clip.display()))
        .status()
        .unwrap();
    assert!(made.success());
    std::fs::write(folder.path().join("clips.csv"), "video,caption\n-grey.mkv,getting brighter\n").unwrap();
    let dataset = open(&SourceConfig::new(folder.path())).unwrap();
    let frames = Library::new(Limits::default()).frames(&dataset.images[0]).unwrap();
    assert_eq!(frames.len(), 4);
    for (frame, number) in frames.iter().zip([5_u8, 15, 25, 35]) {
        assert_eq!((frame.width, frame.height), (32, 16));
        assert!(frame.pixels.iter().all(|&level| level.abs_diff(5 * number) <= 1), "{:?}", &frame.pixels[..3]);
    }
    let tight = Library::new(Limits { max_pixels: 100 });
    assert!(tight.frames(&dataset.images[0]).unwrap_err().to_string().contains("max_pixels"));
}

#[test]
fn flickr8k_has_its_official_counts() {
    let Some(folder) = std::env::var_os("COVMATCH_FLICKR8K").map(PathBuf::from) else {
        println!("SKIPPED: set COVMATCH_FLICKR8K to the folder of dataset_flickr8k.json");
        return;
    };
    let dataset = open(&SourceConfig { on_bad: OnBad::Fail, ..SourceConfig::new(folder) }).unwrap();
    assert_eq!((dataset.images.len(), dataset.captions.len()), (8_000, 40_000));
    let images = Split::ALL.map(|split| dataset.counts(split).images);
    assert_eq!(images, [6_000, 1_000, 1_000]);
    let library = Library::new(Limits::default());
    for image in dataset.images.iter().step_by(97) {
        let picture = library.picture(image).unwrap();
        assert_eq!(picture.pixels.len(), picture.width * picture.height * 3);
    }
}
