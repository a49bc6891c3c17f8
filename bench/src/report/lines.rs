//! Times over the points of a curve, one line for each column of milliseconds, as SVG that reads on light and on dark.

use super::plot::{escaped, short};
use crate::server::Curve;
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 48.0;
const LEVELS: u32 = 5;
/// Labels at the end of lines are at least so far from each other.
const LABEL_DISTANCE: f64 = 15.0;

const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-weight:600}.tick{fill:#59636e;font-size:11px}\
.grid{stroke:#8c959f;stroke-opacity:.35}polyline{fill:none;stroke-width:2}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.tick{fill:#9198a1}}";
/// They have contrast on both.
const COLOURS: [&str; 8] =
    ["#1a7f37", "#8250df", "#bc4c00", "#0969da", "#bf3989", "#9a6700", "#57606a", "#cf222e"];

/// The points stand at equal distances: they are a hundred, a thousand, ten thousand.
pub fn times(title: &str, curve: &Curve) -> String {
    let columns: Vec<usize> =
        (0..curve.columns.len()).filter(|column| curve.columns[*column].contains(", ms")).collect();
    let values = |column: usize| curve.points.iter().map(move |(_, values)| values[column]);
    let highest = columns.iter().flat_map(|column| values(*column)).flatten().fold(0.0, f64::max).max(0.001);
    let x =
        |index: usize| LEFT + index as f64 * (WIDTH - LEFT - RIGHT) / (curve.points.len().max(2) - 1) as f64;
    let y = |value: f64| HEIGHT - BOTTOM - value / highest * (HEIGHT - TOP - BOTTOM);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\">\n\
         <style>{STYLE}</style>\n<text class=\"title\" x=\"12\" y=\"24\">{0}, milliseconds</text>\n",
        escaped(title)
    );
    for level in 0..=LEVELS {
        let value = highest * f64::from(level) / f64::from(LEVELS);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{0:.1}\" x2=\"{1:.1}\" y2=\"{0:.1}\"/>\
             <text class=\"tick\" x=\"{2:.1}\" y=\"{3:.1}\" text-anchor=\"end\">{4}</text>",
            y(value),
            WIDTH - RIGHT,
            LEFT - 6.0,
            y(value) + 4.0,
            short(value)
        );
    }
    for (index, (at, _)) in curve.points.iter().enumerate() {
        let _ = writeln!(
            svg,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{at}</text>",
            x(index),
            HEIGHT - BOTTOM + 18.0
        );
    }
    let _ = writeln!(
        svg,
        "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 12.0,
        escaped(curve.along)
    );
    let mut labels: Vec<(f64, &str, &str)> = Vec::new();
    for (column, colour) in columns.iter().zip(COLOURS.iter().cycle()) {
        let points: Vec<(f64, f64)> =
            values(*column).enumerate().filter_map(|(index, value)| Some((x(index), y(value?)))).collect();
        let line: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(svg, "<polyline stroke=\"{colour}\" points=\"{}\"/>", line.join(" "));
        if let Some((_, end)) = points.last() {
            labels.push((*end, curve.columns[*column].trim_end_matches(", ms"), colour));
        }
    }
    labels.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut lowest = 0.0_f64;
    for (end, name, colour) in labels {
        lowest = (end + 4.0).max(lowest + LABEL_DISTANCE);
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{lowest:.1}\" style=\"fill:{colour}\">{}</text>",
            WIDTH - RIGHT + 8.0,
            escaped(&name.replace('`', ""))
        );
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_of_times_is_a_line() {
        let points = vec![(0, vec![None, Some(1.0), Some(2.0)]), (100, vec![Some(9.0), Some(4.0), None])];
        let curve = Curve { along: "live", columns: vec!["filled, /s", "create, ms", "`run`, ms"], points };
        let svg = times("a < b", &curve);
        assert_eq!(svg.matches("<polyline").count(), 2, "{svg}");
        assert!(svg.contains("a &lt; b") && svg.contains(">create</text>") && svg.contains(">run</text>"));
    }
}
