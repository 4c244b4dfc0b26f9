//! Line charts as SVG.
//!
//! A curve of many points is drawn twice: as it is, faint, and smoothed on top; on a logarithmic scale it is the
//! logarithm that is smoothed. Colours are after Okabe and Ito, which people with any colour vision can tell apart, the
//! light ones darkened to stand out on white. Text and lines take the colour of the page around, so that one picture
//! serves light and dark.

mod frame;
mod legend;
mod line;
mod smooth;
mod ticks;

use std::fmt::Write as _;

use frame::Frame;
use legend::legend;
use line::Line;
use ticks::label;

use crate::tables::escape;

const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 264.0;
/// Width of a letter, as far as it is known without the font.
const LETTER: f64 = 6.6;

/// A line of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Its name in the legend; an empty one has no entry.
    pub name: String,
    /// (x, y), in the order in which they are joined.
    pub points: Vec<(f64, f64)>,
}

/// How heights are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences are equally high.
    #[default]
    Linear,
    /// Equal ratios are equally high; values that are not positive are skipped.
    Log,
}

impl Scale {
    /// The place of a value; not finite for one that has no place.
    fn place(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Log => value.log10(),
        }
    }
}

/// The curves as one SVG picture, which stands alone or inside a page.
///
/// Points with a coordinate that is not finite are skipped, and so are curves without any point. With an empty `title`
/// there is no line for it, for pages that have their own heading.
pub fn plot_svg(title: &str, x_label: &str, y_label: &str, curves: &[Curve], scale: Scale) -> String {
    let lines: Vec<Line> = curves.iter().enumerate().filter_map(|(i, curve)| Line::new(i, curve, scale)).collect();
    let legend = legend(&lines, if title.is_empty() { 8.0 } else { 34.0 });
    let frame = Frame::new(&lines, scale, legend.bottom);
    let about = escape(&summary(title, x_label, y_label, curves));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"{about}\" font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"currentColor\">\n"
    );
    if !title.is_empty() {
        let title = escape(title);
        let _ = writeln!(svg, "<text x=\"8\" y=\"20\" font-size=\"14\" font-weight=\"600\">{title}</text>");
    }
    svg.push_str(&legend.svg);
    svg.push_str(&frame.axes(x_label, y_label));
    svg.extend(lines.iter().map(|line| line.svg(&frame)));
    if lines.is_empty() {
        svg.push_str(&text_svg(frame.middle(), "middle", "no values"));
    }
    svg.push_str("</svg>\n");
    svg
}

/// The chart in words: where each curve begins and ends.
fn summary(title: &str, x_label: &str, y_label: &str, curves: &[Curve]) -> String {
    let mut text = if title.is_empty() { format!("{y_label} by {x_label}.") } else { format!("{title}.") };
    for curve in curves {
        let mut finite = curve.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
        let Some(first) = finite.next() else { continue };
        let last = finite.next_back().unwrap_or(first);
        let [from, to] = [first, last].map(|&(x, y)| format!("{} at {x_label} {x}", label(y, y.abs() / 100.0)));
        let _ = write!(text, " {}: {from}, {to}.", curve.name);
    }
    text
}

fn text_svg((x, y): (f64, f64), anchor: &str, text: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>\n", escape(text))
}

#[cfg(test)]
mod tests {
    use super::legend::{NAME, shortened};
    use super::line::{FEW, MANY};
    use super::*;

    fn curve(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Curve {
        Curve { name: name.to_owned(), points: points.into_iter().collect() }
    }

    fn ramp(count: usize) -> Curve {
        curve("ramp", (0..count).map(|i| (i as f64, i as f64)))
    }

    fn plot(curves: &[Curve], scale: Scale) -> String {
        plot_svg("", "step", "loss", curves, scale)
    }

    /// The places of the first line, as (x, y) in the picture.
    fn places(svg: &str) -> Vec<(f64, f64)> {
        let points = svg.split(" points=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        let pair = |place: &str| place.split_once(',').map(|(x, y)| (x.parse(), y.parse()));
        let pairs = points.split_whitespace().filter_map(pair);
        pairs.map(|(x, y)| (x.unwrap_or(f64::NAN), y.unwrap_or(f64::NAN))).collect()
    }

    #[test]
    fn higher_values_are_higher_and_later_ones_are_to_the_right() {
        let places = places(&plot(&[ramp(5)], Scale::Linear));
        assert_eq!(places.len(), 5);
        assert!(places.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 > pair[1].1), "{places:?}");
        let gaps: Vec<f64> = places.windows(2).map(|pair| pair[0].1 - pair[1].1).collect();
        assert!(gaps.iter().all(|gap| (gap - gaps[0]).abs() < 0.21), "{gaps:?}");
    }

    #[test]
    fn equal_ratios_are_equally_high_on_a_logarithmic_scale() {
        let svg = plot(&[curve("", [(0.0, 1.0), (1.0, 10.0), (2.0, 100.0)])], Scale::Log);
        let places = places(&svg);
        let gaps: Vec<f64> = places.windows(2).map(|pair| pair[0].1 - pair[1].1).collect();
        assert!((gaps[0] - gaps[1]).abs() < 0.21 && gaps[0] > 20.0, "{gaps:?}");
    }

    #[test]
    fn points_that_have_no_place_are_skipped() {
        let points = [(0.0, 1.0), (1.0, f64::NAN), (2.0, f64::INFINITY), (f64::NAN, 2.0), (4.0, -1.0), (5.0, 3.0)];
        for (scale, count) in [(Scale::Linear, 3), (Scale::Log, 2)] {
            let svg = plot(&[curve("a", points)], scale);
            assert_eq!(places(&svg).len(), count);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn a_chart_without_values_says_so() {
        for curves in [vec![], vec![curve("a", [(0.0, f64::NAN)])]] {
            let svg = plot(&curves, Scale::Log);
            assert!(svg.contains(">no values<") && !svg.contains("NaN"), "{svg}");
        }
        assert!(!plot(&[ramp(2)], Scale::Linear).contains("no values"));
    }

    #[test]
    fn a_flat_or_lonely_curve_has_finite_places_inside_the_picture() {
        for (points, scale) in [(vec![(3.0, 0.0)], Scale::Linear), (vec![(0.0, 1.0), (1.0, 1.0)], Scale::Log)] {
            let places = places(&plot(&[curve("a", points)], scale));
            assert!(!places.is_empty());
            assert!(places.iter().all(|(x, y)| (0.0..WIDTH).contains(x) && (0.0..HEIGHT).contains(y)), "{places:?}");
        }
    }

    #[test]
    fn many_points_get_a_smoothed_line_on_top_and_few_do_not() {
        assert_eq!(plot(&[ramp(MANY)], Scale::Linear).matches("<polyline").count(), 1);
        assert_eq!(plot(&[ramp(MANY + 1)], Scale::Linear).matches("<polyline").count(), 2);
        assert_eq!(plot(&[ramp(FEW - 1)], Scale::Linear).matches("<circle").count(), FEW - 1);
        assert_eq!(plot(&[ramp(FEW)], Scale::Linear).matches("<circle").count(), 0);
    }

    #[test]
    fn a_long_legend_takes_more_rows_and_stays_inside() {
        let curves: Vec<Curve> = (0..8).map(|i| curve(&format!("a rather long name {i}"), [(0.0, 1.0)])).collect();
        let lines: Vec<Line> = curves.iter().filter_map(|c| Line::new(0, c, Scale::Linear)).collect();
        assert!(legend(&lines, 0.0).bottom > legend(&lines[..2], 0.0).bottom + 30.0);
        assert_eq!(shortened(&"x".repeat(100)).chars().count(), NAME);
    }

    #[test]
    fn names_and_labels_are_escaped() {
        let svg = plot_svg("<t>", "<x>", "<y>", &[curve("<script>", [(0.0, 1.0)])], Scale::Linear);
        for tag in ["<t>", "<x>", "<y>", "<script>"] {
            assert!(!svg.contains(tag), "{svg}");
        }
        assert!(svg.contains("&lt;script&gt;"));
    }

    #[test]
    fn the_picture_says_in_words_what_it_shows() {
        let svg = plot_svg("Losses", "step", "loss", &[curve("total", [(0.0, 1.5), (9.0, 0.25)])], Scale::Linear);
        assert!(svg.contains("aria-label=\"Losses. total: 1.50 at step 0, 0.250 at step 9.\""), "{svg}");
    }
}
