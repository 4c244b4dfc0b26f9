//! The rectangle of a chart with its axes, and where a point is in it.

use std::fmt::Write as _;

use super::line::Line;
use super::ticks::{Tick, ticks};
use super::{HEIGHT, LETTER, Scale, WIDTH, text_svg};

/// The rectangle of the curves and what its edges stand for.
pub(super) struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x_range: (f64, f64),
    y_range: (f64, f64),
    x_ticks: Vec<Tick>,
    y_ticks: Vec<Tick>,
}

impl Frame {
    /// That of `lines`, below `above`.
    pub fn new(lines: &[Line], scale: Scale, above: f64) -> Self {
        let x_range = widened(range(lines, |point| point.0));
        let y_range = with_air(range(lines, |point| point.1), scale);
        let y_ticks = ticks(y_range.0, y_range.1, 6, scale);
        let letters = y_ticks.iter().map(|tick| tick.label.chars().count()).max().unwrap_or(0);
        Self {
            left: 34.0 + LETTER * letters as f64,
            right: WIDTH - 16.0,
            top: above + 8.0,
            bottom: HEIGHT - 44.0,
            x_range,
            y_range,
            x_ticks: ticks(x_range.0, x_range.1, 6, Scale::Linear),
            y_ticks,
        }
    }

    pub fn x(&self, x: f64) -> f64 {
        self.left + (x - self.x_range.0) / (self.x_range.1 - self.x_range.0) * (self.right - self.left)
    }

    pub fn y(&self, y: f64) -> f64 {
        self.bottom - (y - self.y_range.0) / (self.y_range.1 - self.y_range.0) * (self.bottom - self.top)
    }

    pub fn place(&self, (x, y): (f64, f64)) -> String {
        format!("{:.1},{:.1}", self.x(x), self.y(y))
    }

    /// Grid, base line, marks and names of the axes.
    pub fn axes(&self, x_label: &str, y_label: &str) -> String {
        let (left, right, bottom) = (self.left, self.right, self.bottom);
        let across = self.y_ticks.iter().map(|tick| format!("M{left:.1} {:.1}H{right:.1}", self.y(tick.at)));
        let down = self.x_ticks.iter().map(|tick| format!("M{:.1} {bottom:.1}v4", self.x(tick.at)));
        let (across, down): (String, String) = (across.collect(), down.collect());
        let mut svg = format!(
            "<path d=\"{across}\" stroke=\"currentColor\" stroke-opacity=\".12\"/>\n\
             <path d=\"M{left:.1} {bottom:.1}H{right:.1}{down}\" stroke=\"currentColor\" stroke-opacity=\".5\"/>\n\
             <g fill-opacity=\".72\">\n"
        );
        svg.extend(self.y_ticks.iter().map(|tick| text_svg((left - 7.0, self.y(tick.at) + 4.0), "end", &tick.label)));
        svg.extend(self.x_ticks.iter().map(|tick| text_svg((self.x(tick.at), bottom + 18.0), "middle", &tick.label)));
        let (x, y) = self.middle();
        svg.push_str(&text_svg((x, HEIGHT - 8.0), "middle", x_label));
        let y_label = text_svg((0.0, 0.0), "middle", y_label);
        let _ = write!(svg, "<g transform=\"translate(14 {y:.1}) rotate(-90)\">{y_label}</g>\n</g>\n");
        svg
    }

    pub fn middle(&self) -> (f64, f64) {
        ((self.left + self.right) / 2.0, (self.top + self.bottom) / 2.0)
    }
}

/// Least and greatest of a coordinate; (0, 1) without points.
fn range(lines: &[Line], coordinate: fn(&(f64, f64)) -> f64) -> (f64, f64) {
    let values = || lines.iter().flat_map(|line| &line.points).map(coordinate);
    values().reduce(f64::min).zip(values().reduce(f64::max)).unwrap_or((0.0, 1.0))
}

/// A range that is not empty.
fn widened((low, high): (f64, f64)) -> (f64, f64) {
    let size = low.abs().max(high.abs());
    if high - low > size * 1e-6 {
        return (low, high);
    }
    let margin = if size == 0.0 { 1.0 } else { size * 0.1 };
    (low - margin, high + margin)
}

/// A range with some air; a linear one that comes near zero starts there.
fn with_air(range: (f64, f64), scale: Scale) -> (f64, f64) {
    let (low, high) = widened(range);
    let air = (high - low) * 0.05;
    let from_zero = scale == Scale::Linear && range.0 >= 0.0 && low < high * 0.35;
    (if from_zero { 0.0 } else { low - air }, high + air)
}
