//! A curve in a chart: as it is, and smoothed on top where it has many points.

use super::frame::Frame;
use super::smooth::{extremes, means, smoothed};
use super::{Curve, Scale};

/// Colours of the curves, in order. The page's style sheet brightens them on dark ground by their class.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#c0609a", "#b8860b", "#3f93c8"];
/// Curves with more points than this are smoothed.
pub(super) const MANY: usize = 60;
/// Curves with fewer points than this show them.
pub(super) const FEW: usize = 16;

/// A curve on its way into the picture; heights are places on the scale.
pub(super) struct Line<'a> {
    index: usize,
    pub name: &'a str,
    pub points: Vec<(f64, f64)>,
}

impl<'a> Line<'a> {
    /// None without points that have a place.
    pub fn new(index: usize, curve: &'a Curve, scale: Scale) -> Option<Self> {
        // Beyond these limits the width of an axis overflows.
        let fits = |v: f64| v.is_finite() && v.abs() < 1e300;
        let places = curve.points.iter().map(|&(x, y)| (x, scale.place(y)));
        let points: Vec<_> = places.filter(|&(x, y)| fits(x) && fits(y)).collect();
        (!points.is_empty()).then_some(Self { index, name: &curve.name, points })
    }

    /// Attributes that give the colour, and a dash pattern once the colours repeat.
    pub fn look(&self) -> String {
        let colour = self.index % COLOURS.len();
        let dash = if self.index < COLOURS.len() { "" } else { " stroke-dasharray=\"6 4\"" };
        format!("class=\"series-{}\" stroke=\"{}\"{dash}", colour + 1, COLOURS[colour])
    }

    pub fn svg(&self, frame: &Frame) -> String {
        if self.points.len() <= MANY {
            return self.path(frame, &self.points, "stroke-width=\"2\"") + &self.dots(frame);
        }
        let raw = self.path(frame, &extremes(&self.points), "stroke-width=\"1\" stroke-opacity=\".38\"");
        raw + &self.path(frame, &smoothed(&means(&self.points)), "stroke-width=\"2.2\"")
    }

    fn path(&self, frame: &Frame, points: &[(f64, f64)], style: &str) -> String {
        let places: Vec<String> = points.iter().map(|&point| frame.place(point)).collect();
        let look = self.look();
        let places = places.join(" ");
        format!("<polyline {look} {style} fill=\"none\" stroke-linejoin=\"round\" points=\"{places}\"/>\n")
    }

    fn dots(&self, frame: &Frame) -> String {
        if self.points.len() >= FEW {
            return String::new();
        }
        let look = self.look();
        let dot = |&(x, y): &(f64, f64)| {
            let (x, y) = (frame.x(x), frame.y(y));
            // The stroke, which has the colour, reaches the centre.
            format!("<circle {look} cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.5\" stroke-width=\"3\"/>\n")
        };
        self.points.iter().map(dot).collect()
    }
}
