//! The findings of [`inspect`](super::inspect), as data and as a table.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use super::statistics::{mean, percentile};
use crate::data::Image;

/// Entries of a list that the table shows; the data hold all.
const SHOWN: usize = 10;
/// Names of a group of equal pictures that the table shows.
const NAMED: usize = 4;

/// What a dataset holds and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Findings {
    /// Images in all.
    pub images: usize,
    /// Captions in all.
    pub captions: usize,
    /// Per split that has an image.
    pub splits: Vec<SplitCounts>,
    /// How many captions images have.
    pub captions_per_image: CaptionCounts,
    /// Words of cleaned captions; `None` without captions.
    pub words: Option<Lengths>,
    /// Words that are kept of a caption.
    pub word_limit: usize,
    /// Captions that have more.
    pub over_word_limit: usize,
    /// Tokens of cleaned captions cut to the word limit; `None` without captions or tokenizer.
    pub tokens: Option<Lengths>,
    /// Sizes of readable images; `None` when there are none.
    pub sizes: Option<Sizes>,
    /// Groups of images with the same pixels.
    pub duplicate_images: Vec<Vec<ImageName>>,
    /// Those of the groups that lie in more than one split.
    pub shared_images: Vec<Vec<ImageName>>,
    /// Captions that occur more than once.
    pub repeated_captions: RepeatedCaptions,
    /// What reading the annotations left out: (name, cause).
    pub skipped: Vec<(String, String)>,
    /// Images that cannot be read.
    pub unreadable: Vec<Unreadable>,
}

/// Size of a split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SplitCounts {
    /// Its name.
    pub split: String,
    /// Its images.
    pub images: usize,
    /// Their captions.
    pub captions: usize,
}

/// How many captions images have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaptionCounts {
    /// Fewest.
    pub min: usize,
    /// Mean.
    pub mean: f64,
    /// Most.
    pub max: usize,
    /// Number of captions -> number of images that have so many.
    pub histogram: BTreeMap<usize, usize>,
}

impl CaptionCounts {
    pub(super) fn new(counts: &[usize]) -> Self {
        let mut histogram = BTreeMap::new();
        counts.iter().for_each(|&count| *histogram.entry(count).or_insert(0) += 1);
        let ends = |count: Option<&usize>| count.copied().unwrap_or(0);
        Self { min: ends(counts.iter().min()), mean: mean(counts), max: ends(counts.iter().max()), histogram }
    }
}

/// Percentiles of lengths.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Lengths {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: usize,
    /// 90 percent are not longer.
    pub p90: usize,
    /// 95 percent are not longer.
    pub p95: usize,
    /// 99 percent are not longer.
    pub p99: usize,
    /// Longest.
    pub max: usize,
}

impl Lengths {
    /// `None` of no lengths.
    pub(super) fn new(mut lengths: Vec<usize>) -> Option<Self> {
        lengths.sort_unstable();
        let at = |percent| percentile(&lengths, percent);
        (!lengths.is_empty()).then(|| Self {
            mean: mean(&lengths),
            p50: at(50),
            p90: at(90),
            p95: at(95),
            p99: at(99),
            max: at(100),
        })
    }
}

/// Smallest, middle and largest of some values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range<T> {
    /// Smallest.
    pub min: T,
    /// Half of the values are not larger.
    pub median: T,
    /// Largest.
    pub max: T,
}

impl<T: Copy> Range<T> {
    fn of(sorted: &[T]) -> Self {
        Self { min: percentile(sorted, 0), median: percentile(sorted, 50), max: percentile(sorted, 100) }
    }
}

/// Sizes of images in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sizes {
    /// Widths.
    pub width: Range<usize>,
    /// Heights.
    pub height: Range<usize>,
    /// Width by height.
    pub aspect: Range<f64>,
}

impl Sizes {
    /// `None` of no sizes.
    pub(super) fn new(sizes: impl Iterator<Item = (usize, usize)>) -> Option<Self> {
        let (mut widths, mut heights): (Vec<usize>, Vec<usize>) = sizes.unzip();
        let mut aspects: Vec<f64> = widths.iter().zip(&heights).map(|(&w, &h)| w as f64 / h.max(1) as f64).collect();
        widths.sort_unstable();
        heights.sort_unstable();
        aspects.sort_unstable_by(f64::total_cmp);
        (!widths.is_empty()).then(|| Self {
            width: Range::of(&widths),
            height: Range::of(&heights),
            aspect: Range::of(&aspects),
        })
    }
}

/// Which image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImageName {
    /// Its name in the annotations.
    pub name: String,
    /// Its split.
    pub split: String,
}

impl ImageName {
    pub(super) fn of(image: &Image) -> Self {
        Self { name: image.name.clone(), split: image.split.to_string() }
    }
}

/// Captions that are the same after cleaning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RepeatedCaptions {
    /// Different captions.
    pub distinct: usize,
    /// Captions that some earlier caption equals.
    pub copies: usize,
    /// Up to ten captions that occur most often, with their numbers.
    pub most_frequent: Vec<(String, usize)>,
}

/// An image that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// Its name in the annotations.
    pub name: String,
    /// Its split.
    pub split: String,
    /// What is wrong and what to do.
    pub cause: String,
}

impl Display for Findings {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.counts(f)?;
        self.lengths(f)?;
        self.pictures(f)?;
        self.faults(f)
    }
}

impl Findings {
    fn counts(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<22}{:>10}{:>12}", "split", "images", "captions")?;
        for split in &self.splits {
            writeln!(f, "{:<22}{:>10}{:>12}", split.split, split.images, split.captions)?;
        }
        writeln!(f, "{:<22}{:>10}{:>12}", "all", self.images, self.captions)?;
        let per_image = &self.captions_per_image;
        writeln!(f, "\n{:<22}{:>10}{:>12}", "captions of an image", "images", "")?;
        for (count, images) in &per_image.histogram {
            writeln!(f, "{count:<22}{images:>10}")?;
        }
        writeln!(f, "{:<22}{:>10.2}", "mean", per_image.mean)
    }

    fn lengths(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let named = [("words", &self.words), ("tokens", &self.tokens)];
        if named.iter().all(|(_, lengths)| lengths.is_none()) {
            return Ok(());
        }
        let heads = ["mean", "p50", "p90", "p95", "p99", "max"];
        write!(f, "\n{:<22}", "caption length")?;
        heads.iter().try_for_each(|head| write!(f, "{head:>8}"))?;
        for (name, lengths) in named {
            if let Some(l) = lengths {
                write!(f, "\n{name:<22}{:>8.1}", l.mean)?;
                [l.p50, l.p90, l.p95, l.p99, l.max].iter().try_for_each(|length| write!(f, "{length:>8}"))?;
            }
        }
        writeln!(f)?;
        let over = format!("over {} words (cut)", self.word_limit);
        writeln!(f, "{over:<22}{:>8}", self.over_word_limit)
    }

    fn pictures(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(sizes) = &self.sizes else { return Ok(()) };
        writeln!(f, "\n{:<22}{:>8}{:>8}{:>8}", "image size", "min", "median", "max")?;
        for (name, r) in [("width", &sizes.width), ("height", &sizes.height)] {
            writeln!(f, "{name:<22}{:>8}{:>8}{:>8}", r.min, r.median, r.max)?;
        }
        let r = &sizes.aspect;
        writeln!(f, "{:<22}{:>8.2}{:>8.2}{:>8.2}", "width / height", r.min, r.median, r.max)
    }

    fn faults(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f)?;
        list(f, "same pixels", self.duplicate_images.iter().map(|group| names(group)))?;
        list(f, "shared by splits", self.shared_images.iter().map(|group| names(group)))?;
        writeln!(f, "{:<22}{:>8}", "repeated captions", self.repeated_captions.copies)?;
        self.repeated_captions
            .most_frequent
            .iter()
            .take(3)
            .try_for_each(|(text, n)| writeln!(f, "  {n} x {text:?}"))?;
        list(f, "left out", self.skipped.iter().map(|(name, cause)| format!("{name}: {cause}")))?;
        list(f, "unreadable", self.unreadable.iter().map(|u| format!("{} ({}): {}", u.name, u.split, u.cause)))
    }
}

/// The names of a group of equal pictures, or the first of them and how many there are besides.
fn names(group: &[ImageName]) -> String {
    let shown = group.iter().take(NAMED).map(|image| format!("{} ({})", image.name, image.split));
    let shown = shown.collect::<Vec<_>>().join(" = ");
    match group.len().checked_sub(NAMED) {
        Some(more @ 1..) => format!("{shown} and {more} more"),
        _ => shown,
    }
}

/// A count and the first entries.
fn list(f: &mut Formatter<'_>, title: &str, entries: impl ExactSizeIterator<Item = String>) -> fmt::Result {
    let count = entries.len();
    writeln!(f, "{title:<22}{count:>8}")?;
    for entry in entries.take(SHOWN) {
        writeln!(f, "  {entry}")?;
    }
    if count > SHOWN {
        writeln!(f, "  and {} more", count - SHOWN)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_group_of_equal_pictures_is_named_by_its_first() {
        let group = |count: usize| -> Vec<ImageName> {
            (0..count).map(|i| ImageName { name: format!("{i}.png"), split: "val".to_owned() }).collect()
        };
        assert_eq!(names(&group(2)), "0.png (val) = 1.png (val)");
        assert_eq!(names(&group(4)).matches(" = ").count(), 3);
        assert_eq!(names(&group(300)), "0.png (val) = 1.png (val) = 2.png (val) = 3.png (val) and 296 more");
    }
}
