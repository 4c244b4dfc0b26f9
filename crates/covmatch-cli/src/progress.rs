//! Progress on stderr: a bar on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use covmatch::distill::{Event, Observer};
use covmatch::evaluate::Progress;
use covmatch::methods::{EpochDone, Prepared, StepReport};
use indicatif::{ProgressBar, ProgressStyle};

use crate::console::progress;

/// Time between lines where there is no terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// A bar on a terminal, or lines.
pub struct Bar {
    bar: Option<ProgressBar>,
    last: Option<Instant>,
}

impl Bar {
    /// A bar of `total` steps.
    pub fn new(total: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}  {elapsed} elapsed, {eta} left");
            ProgressBar::new(total).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { bar, last: None }
    }

    /// Shows that `done` of `total` is done; a line only if the last one is some time ago or this is the end.
    pub fn show(&mut self, done: u64, total: u64, message: &str) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            bar.set_message(message.to_owned());
        } else if done == total || self.last.is_none_or(|last| last.elapsed() >= BETWEEN_LINES) {
            self.last = Some(Instant::now());
            progress(&format!("{done}/{total}  {message}"));
        }
    }

    /// Shows something beside the bar.
    fn say(&self, message: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| progress(message)),
            None => progress(message),
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Shows the steps of a distillation, and stops it on Ctrl-C or SIGTERM.
pub struct StepBar {
    bar: Bar,
    total: u64,
    stop: Arc<AtomicBool>,
}

impl StepBar {
    /// A bar that listens to signals.
    pub fn new() -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        ctrlc::set_handler(move || {
            if flag.swap(true, Ordering::Relaxed) {
                std::process::exit(130); // asked twice
            }
            progress("stopping after this step, with a checkpoint; once more stops at once");
        })?;
        Ok(Self { bar: Bar::new(0), total: 0, stop })
    }

    /// Takes the bar away; the next distillation brings its own.
    pub fn clear(&mut self) {
        (self.bar, self.total) = (Bar::new(0), 0);
    }

    fn step(&mut self, report: &StepReport) {
        let message = format!("{}  {:.2} s/step", report.summary, report.total_seconds());
        self.bar.show(report.step + 1, self.total, &message);
    }

    /// Shows how far that is which the method needs first.
    fn preparing(&mut self, what: &str, Prepared { done, total, summary }: &Prepared) {
        if *total != self.total {
            self.bar = Bar::new(*total);
            self.total = *total;
            self.bar.say(&format!("{what} first, {total} parts to make; later runs share them"));
        }
        self.bar.show(*done, *total, summary);
    }
}

impl Observer for StepBar {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Preparing { what, prepared } => self.preparing(what, prepared),
            Event::Started { done, total, constants, .. } => {
                self.bar = Bar::new(total);
                self.total = total;
                let at =
                    if done > 0 { format!("goes on after step {done} of {total}") } else { format!("{total} steps") };
                self.bar.say(&format!("{at}; {constants}"));
            }
            Event::Step(report) => self.step(report),
            Event::Warning(text) => self.bar.say(&format!("warning: {text}")),
            _ => {}
        }
    }

    fn stop(&mut self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Shows the epochs of an evaluation.
pub struct EpochBar {
    bar: Bar,
    runs: usize,
    total: u64,
}

impl EpochBar {
    /// A bar of `runs` runs of `epochs` epochs.
    pub fn new(runs: usize, epochs: usize) -> Self {
        let total = (runs * epochs) as u64;
        Self { bar: Bar::new(total), runs, total }
    }

    /// Shows an epoch of the training that a selection looks at.
    pub fn selecting(&mut self, EpochDone { epoch, epochs, loss }: EpochDone) {
        self.show(Progress::Epoch { run: 0, epoch, epochs, loss });
    }

    /// Shows what happened.
    pub fn show(&mut self, event: Progress) {
        match event {
            Progress::Resumed { done } => self.bar.say(&format!("goes on after run {done} of {}", self.runs)),
            Progress::Epoch { run, epoch, epochs, loss } => {
                let done = (run * epochs + epoch + 1) as u64;
                let message = format!("run {} of {}  epoch {}  loss {loss:.3}", run + 1, self.runs, epoch + 1);
                self.bar.show(done, self.total, &message);
            }
            Progress::Tested { run, outcome } => {
                let [ir, _, _, tr, _, _, avg] = outcome.last.values();
                self.bar.say(&format!("run {}: IR@1 {ir:.1}  TR@1 {tr:.1}  Avg {avg:.1}", run + 1));
                if let Some(surge) = outcome.surge {
                    self.bar.say(&format!("warning: run {}: {surge}", run + 1));
                }
            }
            _ => {}
        }
    }
}
