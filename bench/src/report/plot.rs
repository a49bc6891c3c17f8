//! Horizontal bars on a logarithmic scale, as SVG that reads on light and on dark.

use std::fmt::Write;

pub struct Bar {
    pub label: String,
    /// Milliseconds.
    pub value: f64,
    pub ours: bool,
}

const WIDTH: f64 = 760.0;
const LEFT: f64 = 230.0;
const RIGHT: f64 = 80.0;
const TOP: f64 = 46.0;
const ROW: f64 = 26.0;
const BOTTOM: f64 = 34.0;

/// Colours of the text follow the reader's scheme; those of the bars have contrast on both.
const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-weight:600}.tick{fill:#59636e;font-size:11px}\
.grid{stroke:#8c959f;stroke-opacity:.35}.ours{fill:#1a7f37}.other{fill:#8250df;fill-opacity:.75}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.tick{fill:#9198a1}.ours{fill:#3fb950}.other{fill:#a371f7}}";

pub fn bars(title: &str, bars: &[Bar]) -> String {
    let height = TOP + ROW * bars.len() as f64 + BOTTOM;
    let scale = Scale::around(bars);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{0}\">\n\
         <style>{STYLE}</style>\n<text class=\"title\" x=\"12\" y=\"24\">{0}</text>\n",
        escaped(title)
    );
    for tick in scale.ticks() {
        let (x, bottom) = (scale.at(tick), height - BOTTOM);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>\
             <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} ms</text>",
            bottom + 18.0,
            short(tick)
        );
    }
    for (index, bar) in bars.iter().enumerate() {
        let y = TOP + ROW * index as f64;
        let end = scale.at(bar.value);
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <rect class=\"{}\" x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT - 8.0,
            y + 17.0,
            escaped(&bar.label),
            if bar.ours { "ours" } else { "other" },
            y + 4.0,
            (end - LEFT).max(1.0),
            ROW - 8.0,
            end + 6.0,
            y + 17.0,
            short(bar.value)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// A scale from a power of ten to a power of ten.
struct Scale {
    low: i32,
    high: i32,
}

impl Scale {
    fn around(bars: &[Bar]) -> Scale {
        let values = || bars.iter().map(|bar| bar.value.max(0.001).log10());
        let low = values().fold(f64::INFINITY, f64::min);
        let high = values().fold(f64::NEG_INFINITY, f64::max);
        let low = if low.is_finite() { low.floor() as i32 } else { 0 };
        let high = if high.is_finite() { high.ceil() as i32 } else { 1 };
        Scale { low, high: high.max(low + 1) }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value.max(0.001).log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        LEFT + share.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        (self.low..=self.high).map(|power| 10_f64.powi(power))
    }
}

/// Three digits are enough to compare.
pub fn short(value: f64) -> String {
    let digits = match value {
        value if value >= 100.0 => return format!("{value:.0}"),
        value if value >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(label: &str, value: f64) -> Bar {
        Bar { label: label.into(), value, ours: false }
    }

    #[test]
    fn a_tenfold_is_the_same_distance_everywhere() {
        let scale = Scale::around(&[bar("a", 0.5), bar("b", 400.0)]);
        assert_eq!(scale.ticks().collect::<Vec<_>>(), [0.1, 1.0, 10.0, 100.0, 1000.0]);
        let (first, second) = (scale.at(1.0) - scale.at(0.1), scale.at(1000.0) - scale.at(100.0));
        assert!((first - second).abs() < 1e-9 && first > 0.0);
    }

    #[test]
    fn labels_cannot_break_the_picture() {
        let svg = bars("a < b", &[bar("<script>&\"", 3.0)]);
        assert!(svg.contains("a &lt; b") && svg.contains("&lt;script&gt;&amp;&quot;"), "{svg}");
        assert_eq!(svg.matches("<rect").count(), 1);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.5, 4.25, 10.0, 17.44, 1234.5].map(short), ["0.5", "4.25", "10", "17.4", "1234"]);
    }
}
