//! Images per second of the train transform, for `python/bench_data.py`.
//!
//! ```text
//! cargo run --release --example data_bench -- PICTURES [--threads 2] [--size 224] [--batch 32] [--seconds 4] [--cache FOLDER]
//! ```
//! Reads the JPEG files of the folder PICTURES through the loader that training uses, captions and tokens included.
//! With `--cache` every picture is decoded once before the clock starts. Prints one JSON object.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use covmatch::data::cache::{Cached, Fingerprint};
use covmatch::data::library::Library;
use covmatch::data::loader::{Ahead, Augment, DatasetPictures, Pictures, Prefetch, TrainLoader, TrainOptions};
use covmatch::data::source::OnBad;
use covmatch::data::tokens::Tokenizer;
use covmatch::data::transform::{Normalization, Transform};
use covmatch::data::{Caption, Dataset, Image, Location, Split};
use covmatch::engine::Seed;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().expect("a folder of JPEG files"));
    let (mut threads, mut size, mut batch, mut seconds, mut cache) = (2, 224, 32, 4.0, None);
    while let (Some(flag), Some(value)) = (arguments.next(), arguments.next()) {
        match flag.as_str() {
            "--threads" => threads = value.parse().expect("a number of threads"),
            "--size" => size = value.parse().expect("a size in pixels"),
            "--batch" => batch = value.parse().expect("a batch size"),
            "--seconds" => seconds = value.parse().expect("a number of seconds"),
            "--cache" => cache = Some(PathBuf::from(value)),
            _ => panic!("{flag} is not known"),
        }
    }
    let dataset = Arc::new(dataset(&folder));
    let pictures = DatasetPictures::new(dataset.clone(), Library::default());
    let pictures: Arc<dyn Pictures> = match cache {
        Some(cache) => Arc::new(warm(pictures, &dataset, &cache)),
        None => Arc::new(pictures),
    };
    let options = TrainOptions {
        seed: Seed(0),
        purpose: "bench".into(),
        batch,
        frames: 1,
        augment: Augment::Protocol,
        on_bad: OnBad::Fail,
    };
    let vocabulary = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/data_vocab.txt");
    let tokenizer = Arc::new(Tokenizer::open(&vocabulary).unwrap());
    let transform = Transform::new(size, &Normalization::CLIP);
    let loader = TrainLoader::new(dataset, pictures, tokenizer, transform, options).unwrap();
    let mut batches = Prefetch::new(Arc::new(loader), 0, Ahead { threads, batches: 3 });

    // As many batches as can wait, and one more.
    let warm_up = batches.by_ref().take(4).map(|batch| batch.unwrap().pixels[0]).sum::<f32>();
    let (start, mut images, mut used) = (Instant::now(), 0, warm_up);
    while start.elapsed().as_secs_f64() < seconds {
        let batch = batches.next().unwrap().unwrap();
        images += batch.images.len();
        used += batch.pixels[batch.pixels.len() / 2];
    }
    assert!(used.is_finite());
    println!("{{\"images_per_second\": {:.1}, \"images\": {images}}}", images as f64 / start.elapsed().as_secs_f64());
}

/// The JPEG files of `folder`, each with one caption.
fn dataset(folder: &Path) -> Dataset {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "jpg"));
    files.sort();
    let image = |file: &PathBuf| Image {
        name: file.display().to_string(),
        location: Location::File(file.clone()),
        split: Split::Train,
    };
    let caption = |image: u32| Caption { text: "Two men and one dog running in the park .".into(), image };
    Dataset {
        images: files.iter().map(image).collect(),
        captions: (0..files.len() as u32).map(caption).collect(),
        ..Dataset::default()
    }
}

/// `pictures` with a cache that holds all of them.
fn warm(pictures: DatasetPictures, dataset: &Dataset, folder: &Path) -> Cached<DatasetPictures> {
    let fingerprint = Fingerprint::new(&dataset.images, "bench").unwrap();
    let cached = Cached::open(pictures, dataset.images.len(), folder, fingerprint, 4 << 30).unwrap();
    (0..dataset.images.len()).for_each(|image| drop(cached.load(image).unwrap()));
    cached
}
