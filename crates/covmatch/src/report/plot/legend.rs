//! The legend of a chart: the names of its curves.

use std::fmt::Write as _;

use super::line::Line;
use super::{LETTER, WIDTH, text_svg};

/// Letters of a name that the legend shows.
pub(super) const NAME: usize = 44;

/// The names of the curves, in rows, and where the rows end.
pub(super) struct Legend {
    pub svg: String,
    pub bottom: f64,
}

/// The legend of `lines`, from `top` downwards.
pub(super) fn legend(lines: &[Line], top: f64) -> Legend {
    const LEFT: f64 = 10.0;
    let (mut x, mut y, mut svg) = (LEFT, top + 8.0, String::new());
    let named: Vec<&Line> = lines.iter().filter(|line| !line.name.is_empty()).collect();
    for line in &named {
        let name = shortened(line.name);
        let width = 24.0 + LETTER * name.chars().count() as f64 + 18.0;
        if x > LEFT && x + width > WIDTH {
            (x, y) = (LEFT, y + 18.0);
        }
        let (end, text) = (x + 18.0, x + 24.0);
        let _ = writeln!(svg, "<path {} stroke-width=\"2.5\" d=\"M{x:.1} {y:.1}H{end:.1}\"/>", line.look());
        svg.push_str(&text_svg((text, y + 4.0), "start", &name));
        x += width;
    }
    Legend { svg, bottom: if named.is_empty() { top } else { y + 10.0 } }
}

pub(super) fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME { name.to_owned() } else { name.chars().take(NAME - 1).chain(['…']).collect() }
}
