//! Batches are a function of (seed, purpose, step); the cache changes no byte; bad pictures fail or are skipped.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use covmatch::data::cache::{CacheCounts, Cached, Fingerprint};
use covmatch::data::loader::{
    Ahead, Augment, Batch, CaptionLoader, ImageLoader, ImageOptions, Picture, Pictures, Prefetch, TrainLoader,
    TrainOptions,
};
use covmatch::data::source::OnBad;
use covmatch::data::tokens::Tokenizer;
use covmatch::data::transform::{Augmentation, Normalization, RgbView, Scratch, Transform};
use covmatch::data::{Caption, DataError, Dataset, Image, Location, RgbImage, Split};
use covmatch::engine::Seed;

const SIZE: usize = 24;

/// 20 train, 3 val and 5 test images; image `i` has `1 + i mod 3` captions.
fn dataset() -> Arc<Dataset> {
    let split = |i: u32| match i {
        0..20 => Split::Train,
        20..23 => Split::Val,
        _ => Split::Test,
    };
    let image = |i: u32| Image { name: format!("{i}.png"), location: Location::Scene(i.into()), split: split(i) };
    let caption = |i: u32, c: u32| Caption { text: format!("The dog; {i} runs {c} times. "), image: i };
    let captions = (0..28).flat_map(|i| (0..=i % 3).map(move |c| caption(i, c))).collect();
    Arc::new(Dataset { images: (0..28).map(image).collect(), captions, ..Dataset::default() })
}

/// Pictures of different sizes and colours; counts how many were decoded and fails for some.
#[derive(Debug)]
struct Drawn {
    bad: Vec<usize>,
    decoded: AtomicUsize,
}

impl Drawn {
    fn new(bad: &[usize]) -> Arc<Self> {
        Arc::new(Self { bad: bad.to_vec(), decoded: AtomicUsize::new(0) })
    }

    fn picture(image: usize) -> RgbImage {
        let (width, height) = (30 + image, 50 - image);
        let value = |i: usize| ((i * (image + 3)) % 251) as u8;
        RgbImage { width, height, pixels: (0..width * height * 3).map(value).collect() }
    }
}

impl Pictures for Drawn {
    fn load(&self, image: usize) -> Result<Picture<'_>, DataError> {
        self.decoded.fetch_add(1, Ordering::Relaxed);
        if self.bad.contains(&image) {
            return Err(DataError::Decode { image: format!("{image}.png"), cause: "cut short".into() });
        }
        Ok(Self::picture(image).into())
    }
}

fn tokenizer() -> Arc<Tokenizer> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/data_vocab.txt");
    Arc::new(Tokenizer::open(&file).unwrap())
}

fn transform() -> Transform {
    Transform::new(SIZE, &Normalization::CLIP)
}

fn options() -> TrainOptions {
    TrainOptions {
        seed: Seed(7),
        purpose: "real".into(),
        batch: 6,
        frames: 1,
        augment: Augment::Protocol,
        on_bad: OnBad::Fail,
    }
}

fn loader<P: Pictures>(pictures: P, options: TrainOptions) -> TrainLoader<P> {
    TrainLoader::new(dataset(), pictures, tokenizer(), transform(), options).unwrap()
}

/// Equality of floats by their bits.
fn assert_same(a: &Batch, b: &Batch) {
    assert!(a.pixels.iter().map(|x| x.to_bits()).eq(b.pixels.iter().map(|x| x.to_bits())));
    assert_eq!(a, b);
}

/// Pictures, one frame each.
fn pictures(images: Vec<u32>, batch: usize, on_bad: OnBad) -> ImageOptions {
    ImageOptions { images, batch, frames: 1, on_bad }
}

#[test]
fn a_batch_has_the_same_bytes_with_any_number_of_threads_and_in_any_order() {
    let one = loader(Drawn::new(&[]), options());
    let steps: Vec<_> = (0..14).map(|step| one.batch(step, 1).unwrap()).collect();
    for threads in [2, 3, 8] {
        let other = loader(Drawn::new(&[]), options());
        for step in (0..14).rev() {
            assert_same(&other.batch(step, threads).unwrap(), &steps[step as usize]);
        }
    }
    let ahead = Ahead { threads: 3, batches: 2 };
    let prefetched = Prefetch::new(Arc::new(loader(Drawn::new(&[]), options())), 4, ahead);
    for (step, batch) in (4..14).zip(prefetched) {
        assert_same(&batch.unwrap(), &steps[step]);
    }
}

#[test]
fn an_epoch_has_every_train_caption_at_most_once_and_no_other_splits() {
    let loader = loader(Drawn::new(&[]), options());
    let dataset = dataset();
    let entries = dataset.train_entries();
    assert_eq!((entries.len(), loader.batches_per_epoch()), (39, 6));
    for epoch in 0..3 {
        let mut seen = BTreeSet::new();
        for step in epoch * 6..(epoch + 1) * 6 {
            let batch = loader.batch(step, 2).unwrap();
            assert_eq!(batch.shape, [6, 3, 1, SIZE, SIZE]);
            for (&caption, &image) in batch.captions.iter().zip(&batch.images) {
                assert!(seen.insert(caption) && entries.contains(&caption));
                assert_eq!(dataset.captions[caption as usize].image, image);
            }
        }
        assert_eq!(seen.len(), 36);
    }
}

#[test]
fn a_sample_is_its_own_picture_under_the_plan_of_its_stream() {
    let loader = loader(Drawn::new(&[]), options());
    let batch = loader.batch(9, 2).unwrap();
    for (position, &image) in batch.images.iter().enumerate() {
        let picture = Drawn::picture(image as usize);
        let mut stream = Seed(7).stream("real.augment", 9 * 6 + position as u64);
        let plan = Augmentation::draw(picture.width, picture.height, &mut stream);
        let mut expected = vec![0.0; 3 * SIZE * SIZE];
        let (red, rest) = expected.split_at_mut(SIZE * SIZE);
        let (green, blue) = rest.split_at_mut(SIZE * SIZE);
        let view = RgbView::try_from(&picture).unwrap();
        transform().apply(view, &plan, &mut Scratch::default(), [red, green, blue]).unwrap();
        let sample = 3 * SIZE * SIZE;
        assert_eq!(batch.pixels[position * sample..(position + 1) * sample], expected);
    }
    let texts: Vec<_> = batch.captions.iter().map(|&c| dataset().captions[c as usize].text.clone()).collect();
    let cleaned: Vec<_> = texts.iter().map(|text| text.to_lowercase().replace("; ", " ").replace(". ", "")).collect();
    assert_eq!(batch.tokens, tokenizer().encode(&cleaned).unwrap());
}

#[test]
fn purposes_draw_independently() {
    let real = loader(Drawn::new(&[]), options());
    let online = loader(Drawn::new(&[]), TrainOptions { purpose: "online".into(), ..options() });
    assert_ne!(real.batch(0, 1).unwrap().captions, online.batch(0, 1).unwrap().captions);
}

#[test]
fn without_augmentation_the_train_transform_is_the_test_transform() {
    let plain = loader(Drawn::new(&[]), TrainOptions { augment: Augment::None, ..options() });
    let batch = plain.batch(0, 1).unwrap();
    let images =
        ImageLoader::new(dataset(), Drawn::new(&[]), transform(), pictures(batch.images.clone(), 6, OnBad::Fail));
    assert_eq!(images.batch(0, 1).unwrap().pixels, batch.pixels);
}

#[test]
fn too_few_entries_for_a_batch_is_an_error_with_the_fix() {
    let options = TrainOptions { batch: 40, ..options() };
    let error = TrainLoader::new(dataset(), Drawn::new(&[]), tokenizer(), transform(), options).unwrap_err();
    assert!(matches!(error, DataError::TooFewEntries { entries: 39, batch: 40, .. }));
    assert!(error.to_string().contains("lower the batch size to at most 39"), "{error}");
}

#[test]
fn errors_come_in_the_order_of_the_batches() {
    let good = loader(Drawn::new(&[]), options());
    let bad = good.batch(2, 1).unwrap().images[3];
    let first = (0..).find(|&step| good.batch(step, 1).unwrap().images.contains(&bad)).unwrap();
    for threads in [1, 4] {
        let ahead = Ahead { threads, batches: 3 };
        let mut batches = Prefetch::new(Arc::new(loader(Drawn::new(&[bad as usize]), options())), 0, ahead);
        for step in 0..first {
            assert_same(&batches.next().unwrap().unwrap(), &good.batch(step, 1).unwrap());
        }
        let error = batches.next().unwrap().unwrap_err();
        assert!(error.to_string().contains(&format!("{bad}.png")), "{error}");
        assert!(batches.next().is_none());
    }
}

#[test]
fn skipped_pictures_are_replaced_alike_on_any_number_of_threads_and_recorded() {
    let options = TrainOptions { on_bad: OnBad::Skip, ..options() };
    let [one, four] = [(); 2].map(|()| loader(Drawn::new(&[4, 11]), options.clone()));
    for step in 0..6 {
        let batch = one.batch(step, 1).unwrap();
        assert_same(&batch, &four.batch(step, 4).unwrap());
        assert_eq!(batch.images.len(), 6);
        assert!(!batch.images.contains(&4) && !batch.images.contains(&11));
    }
    let names: Vec<_> = one.skipped().into_iter().map(|skipped| (skipped.name, skipped.cause)).collect();
    assert_eq!(names.len(), 2);
    assert!(
        names.iter().zip(["4.png", "11.png"]).all(|((name, cause), bad)| name == bad && cause.contains("cut short"))
    );
}

#[test]
fn when_no_picture_can_be_used_skipping_ends_with_an_error() {
    let all: Vec<usize> = (0..28).collect();
    let loader = loader(Drawn::new(&all), TrainOptions { on_bad: OnBad::Skip, ..options() });
    assert!(loader.batch(0, 2).is_err());
}

#[test]
fn evaluation_has_every_image_and_caption_of_a_split_once_in_order() {
    let dataset = dataset();
    let gallery = dataset.gallery(Split::Test);
    let images = ImageLoader::new(
        dataset.clone(),
        Drawn::new(&[]),
        transform(),
        pictures(gallery.images.clone(), 2, OnBad::Fail),
    );
    let ahead = Ahead { threads: 2, batches: 1 };
    let batches: Vec<_> = Prefetch::new(Arc::new(images), 0, ahead).map(Result::unwrap).collect();
    assert_eq!(batches.iter().map(|batch| batch.shape[0]).collect::<Vec<_>>(), [2, 2, 1]);
    assert_eq!(batches.iter().flat_map(|batch| batch.images.clone()).collect::<Vec<_>>(), [23, 24, 25, 26, 27]);

    let captions = CaptionLoader::new(dataset.clone(), tokenizer(), gallery.captions.clone(), 4);
    let batches: Vec<_> = Prefetch::new(Arc::new(captions), 0, ahead).map(Result::unwrap).collect();
    assert_eq!(batches.iter().flat_map(|batch| batch.captions.clone()).collect::<Vec<_>>(), gallery.captions);
    assert!(batches.iter().all(|batch| batch.tokens.rows == batch.captions.len()));
}

#[test]
fn evaluation_leaves_out_what_it_skips() {
    let images = vec![23, 24, 25];
    let all = ImageLoader::new(dataset(), Drawn::new(&[]), transform(), pictures(images.clone(), 3, OnBad::Fail));
    let some = ImageLoader::new(dataset(), Drawn::new(&[24]), transform(), pictures(images.clone(), 3, OnBad::Skip));
    let (all, batch) = (all.batch(0, 2).unwrap(), some.batch(0, 2).unwrap());
    let sample = 3 * SIZE * SIZE;
    assert_eq!((batch.images, batch.shape[0]), (vec![23, 25], 2));
    assert_eq!(batch.pixels[..sample], all.pixels[..sample]);
    assert_eq!(batch.pixels[sample..], all.pixels[2 * sample..]);
    assert_eq!(some.skipped().len(), 1);
    let strict = ImageLoader::new(dataset(), Drawn::new(&[24]), transform(), pictures(images, 3, OnBad::Fail));
    assert!(strict.batch(0, 2).unwrap_err().to_string().contains("24.png"));
}

#[test]
fn the_frames_of_a_clip_share_one_plan() {
    struct Clips;
    impl Pictures for Clips {
        fn load(&self, image: usize) -> Result<Picture<'_>, DataError> {
            let frame = Drawn::picture(image);
            let pixels = frame.pixels.repeat(4);
            Ok(Picture { count: 4, width: frame.width, height: frame.height, pixels: pixels.into() })
        }
    }
    let clips = loader(Clips, TrainOptions { frames: 4, ..options() });
    let batch = clips.batch(0, 2).unwrap();
    assert_eq!(batch.shape, [6, 3, 4, SIZE, SIZE]);
    let pictures = loader(Drawn::new(&[]), options()).batch(0, 2).unwrap();
    let planes = pictures.pixels.chunks(SIZE * SIZE).flat_map(|plane| [plane; 4]);
    assert!(batch.pixels.chunks(SIZE * SIZE).eq(planes));

    let wrong = loader(Clips, options()).batch(0, 1).unwrap_err();
    assert!(wrong.to_string().contains("4 frames where 1"), "{wrong}");
}

#[test]
fn a_prefetch_that_is_dropped_early_ends_its_threads() {
    let pictures = Drawn::new(&[]);
    let mut batches = Prefetch::new(Arc::new(loader(pictures.clone(), options())), 0, Ahead { threads: 2, batches: 2 });
    batches.next().unwrap().unwrap();
    drop(batches);
    let decoded = pictures.decoded.load(Ordering::Relaxed);
    assert!(decoded <= 4 * 6, "at most four batches were begun: {decoded}");
    assert_eq!(Arc::strong_count(&pictures), 1);
}

// The decoded cache.

const ROOMY: u64 = 1 << 20;

fn cached(pictures: Arc<Drawn>, folder: &Path, limit: u64) -> Cached<Arc<Drawn>> {
    Cached::open(pictures, 28, folder, Fingerprint(5), limit).unwrap()
}

fn cache_file(folder: &Path) -> std::path::PathBuf {
    std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn batches_from_the_cache_have_the_same_bytes_and_decode_each_picture_once() {
    let folder = tempfile::tempdir().unwrap();
    let plain = loader(Drawn::new(&[]), options());
    let pictures = Drawn::new(&[]);
    let cache = loader(cached(pictures.clone(), folder.path(), ROOMY), options());
    for step in 0..12 {
        assert_same(&cache.batch(step, 1).unwrap(), &plain.batch(step, 1).unwrap());
    }
    assert!(pictures.decoded.load(Ordering::Relaxed) <= 20);

    // A second run decodes what the first did not reach, and no more.
    let again = Drawn::new(&[]);
    let reopened = loader(cached(again.clone(), folder.path(), ROOMY), options());
    for step in 0..12 {
        assert_same(&reopened.batch(step, 3).unwrap(), &plain.batch(step, 1).unwrap());
    }
    assert_eq!(again.decoded.load(Ordering::Relaxed), 0);
}

#[test]
fn the_limit_is_kept_and_what_does_not_fit_is_decoded_again() {
    let folder = tempfile::tempdir().unwrap();
    let limit = 20_000; // about four of the pictures
    let cache = cached(Drawn::new(&[]), folder.path(), limit);
    for _ in 0..2 {
        for image in 0..28 {
            assert_eq!(cache.load(image).unwrap(), Picture::from(Drawn::picture(image)));
        }
    }
    let CacheCounts { hits, stored, refused } = cache.counts();
    assert!(stored >= 3 && hits >= stored && refused >= 40, "{hits} {stored} {refused}");
    assert!(cache_file(folder.path()).metadata().unwrap().len() <= limit);
}

#[test]
fn a_damaged_record_is_decoded_again() {
    let folder = tempfile::tempdir().unwrap();
    cached(Drawn::new(&[]), folder.path(), ROOMY).load(3).unwrap();
    let path = cache_file(folder.path());
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.iter().rposition(|&byte| byte != 0).unwrap();
    bytes[last - 100] ^= 1;
    std::fs::write(&path, bytes).unwrap();

    let cache = cached(Drawn::new(&[]), folder.path(), ROOMY);
    let expected = Picture::from(Drawn::picture(3));
    assert_eq!(cache.load(3).unwrap(), expected);
    assert_eq!(cache.load(3).unwrap(), expected);
    assert_eq!(cache.counts(), CacheCounts { hits: 1, stored: 1, refused: 0 });
}

#[test]
fn a_file_that_is_no_cache_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    cached(Drawn::new(&[]), folder.path(), ROOMY).load(3).unwrap();
    let path = cache_file(folder.path());
    for damaged in [&b""[..], b"short", &[7; 5000]] {
        std::fs::write(&path, damaged).unwrap();
        let cache = cached(Drawn::new(&[]), folder.path(), ROOMY);
        assert_eq!(cache.load(3).unwrap(), Picture::from(Drawn::picture(3)));
        assert_eq!(cache.counts().stored, 1);
    }
}

#[test]
fn two_users_fill_one_file_together() {
    let folder = tempfile::tempdir().unwrap();
    let caches = [(); 2].map(|()| cached(Drawn::new(&[]), folder.path(), ROOMY));
    std::thread::scope(|scope| {
        for (thread, cache) in caches.iter().cycle().take(8).enumerate() {
            scope.spawn(move || {
                for i in 0..280 {
                    let image = (i * 5 + thread * 3) % 28;
                    assert_eq!(cache.load(image).unwrap(), Picture::from(Drawn::picture(image)));
                }
            });
        }
    });
    let third = cached(Drawn::new(&[]), folder.path(), ROOMY);
    for image in 0..28 {
        assert_eq!(third.load(image).unwrap(), Picture::from(Drawn::picture(image)));
    }
    assert_eq!(third.counts(), CacheCounts { hits: 28, stored: 0, refused: 0 });
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = Cached::open(Drawn::new(&[]), 1, &file.join("cache"), Fingerprint(1), ROOMY).unwrap_err();
    assert!(matches!(error, DataError::Cache { .. }) && error.to_string().contains("file"), "{error}");
}
