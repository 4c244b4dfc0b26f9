//! `covmatch inspect`: what a dataset holds and what is wrong with it.

use std::sync::atomic::{AtomicUsize, Ordering};

use covmatch::data::inspect::{Access, SheetConfig, contact_sheet, inspect, save_png};
use covmatch::data::library::Library;
use covmatch::data::scenes::{self, SceneConfig};
use covmatch::data::source::{OnBad, SourceConfig, open};
use covmatch::data::tokens::Tokenizer;
use covmatch::data::{Dataset, Image};

use crate::args::InspectArgs;
use crate::console::progress;

/// Reads every picture of the dataset once and reports on it, as text or as JSON.
pub fn run(args: &InspectArgs) -> anyhow::Result<String> {
    let (dataset, library) = dataset(args)?;
    let tokenizer = args.tokenizer.as_deref().map(Tokenizer::open).transpose()?;
    let count = |caption: &str| tokenizer.as_ref().map_or(Ok(0), |t| t.ids(caption).map(|ids| ids.len()));
    let told = AtomicUsize::new(0);
    let access = Access {
        picture: &|image: &Image| library.picture(image),
        tokens: tokenizer.is_some().then_some(&count),
        progress: &|done, total| tell(&told, done, total),
    };
    let report = inspect(&dataset, &access)?;
    if let Some(path) = &args.sheet {
        save_png(&contact_sheet(&dataset, &access, &SheetConfig::default()), path)?;
        progress(&format!("contact sheet: {}", path.display()));
    }
    Ok(if args.json { format!("{}\n", serde_json::to_string_pretty(&report)?) } else { report.to_string() })
}

/// The dataset that was asked for, and what reads its pictures.
fn dataset(args: &InspectArgs) -> anyhow::Result<(Dataset, Library)> {
    if args.data.as_os_str() == "scenes" {
        let config = SceneConfig::default();
        return Ok((scenes::dataset(&config), Library::default().with_scenes(config)));
    }
    let on_bad = if args.skip_bad { OnBad::Skip } else { OnBad::Fail };
    let (images, format) = (args.images.clone(), args.format);
    Ok((open(&SourceConfig { images, format, on_bad, ..SourceConfig::new(&args.data) })?, Library::default()))
}

/// Says how far it is, at every tenth of the pictures.
fn tell(told: &AtomicUsize, done: usize, total: usize) {
    let tenth = done * 10 / total.max(1);
    if told.fetch_max(tenth, Ordering::Relaxed) < tenth {
        progress(&format!("{done} of {total} pictures"));
    }
}
