//! Line plots as SVG.

use std::fmt::Write;

use crate::check::figure;

/// A line plot over a logarithmic axis of base two.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Name of its file, without the suffix.
    pub name: String,
    /// Above the plot.
    pub title: String,
    /// What is on the horizontal axis.
    pub x_label: &'static str,
    /// What is on the vertical axis.
    pub y_label: &'static str,
    /// How a power of two on the horizontal axis is written.
    pub x_tick: fn(f64) -> String,
    /// The lines.
    pub series: Vec<Series>,
    /// Places on the horizontal axis that are marked by a vertical line, with what is written at it.
    pub marks: Vec<(f64, String)>,
}

/// A line.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points, by increasing x.
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 80.0;

/// Colours that are told apart without seeing red and green (M. Okabe and K. Ito, "Color Universal
/// Design", 2008).
const COLOURS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// Bytes in the largest unit that they are a round number of: `64 KiB`.
#[must_use]
pub fn bytes(value: f64) -> String {
    match value {
        // Half a MiB is a round number, and less is not.
        v if v >= 1_048_576.0 && v % 524_288.0 == 0.0 => format!("{} MiB", figure(v / 1_048_576.0)),
        v if v >= 1024.0 => format!("{} KiB", figure(v / 1024.0)),
        v => format!("{} B", figure(v)),
    }
}

/// A number as it is.
#[must_use]
pub fn number(value: f64) -> String {
    figure(value)
}

/// The distance between labelled values on the vertical axis: 1, 2 or 5 times a power of ten, so that there
/// are at most six.
fn step(top: f64) -> f64 {
    let mut step = 0.001;
    for factor in [2.0, 2.5, 2.0].into_iter().cycle() {
        if top / step <= 6.0 {
            break;
        }
        step *= factor;
    }
    step
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

impl Plot {
    /// The picture.
    #[must_use]
    pub fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| series.points.iter().copied());
        let (low, high) = points().fold((f64::MAX, f64::MIN), |(low, high), (x, _)| {
            (low.min(x.log2()), high.max(x.log2()))
        });
        let most = points().fold(0.0, |most: f64, (_, y)| most.max(y));
        let step = step(if most > 0.0 { most } else { 1.0 });
        let lines = (most / step).ceil().max(1.0);
        let x = |value: f64| LEFT + (value.log2() - low) / (high - low) * (WIDTH - LEFT - RIGHT);
        let bottom = HEIGHT - BOTTOM;
        let y = |value: f64| bottom - value / (lines * step) * (bottom - TOP);

        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
             <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>\n",
            escaped(&self.title)
        );
        let right = WIDTH - RIGHT;
        for n in 0..=lines as u32 {
            let value = f64::from(n) * step;
            let at = y(value);
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#dddddd\"/>\n<text x=\"{:.1}\" \
                 y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                at + 4.0,
                figure(value)
            );
        }
        for power in low.ceil() as i32..=high.floor() as i32 {
            let value = f64::from(power).exp2();
            let at = x(value);
            let _ = writeln!(
                svg,
                "<path d=\"M{at:.1} {bottom}v5\" stroke=\"#000000\"/>\n<text \
                 transform=\"translate({:.1} {:.1}) rotate(-40)\" text-anchor=\"end\">{}</text>",
                at + 4.0,
                bottom + 16.0,
                (self.x_tick)(value)
            );
        }
        for (value, text) in &self.marks {
            let at = x(*value);
            let _ = writeln!(
                svg,
                "<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"#999999\" \
                 stroke-dasharray=\"3 3\"/>\n<text x=\"{at:.1}\" y=\"{:.1}\" font-size=\"10\" \
                 text-anchor=\"middle\" fill=\"#666666\">{}</text>",
                TOP - 4.0,
                escaped(text)
            );
        }
        for (n, series) in self.series.iter().enumerate() {
            let colour = COLOURS[n % COLOURS.len()];
            // Lines that lie upon each other are all seen: what is drawn first is broader.
            let width = 2.0 + 1.5 * (self.series.len() - 1 - n) as f64;
            let path: Vec<String> = series
                .points
                .iter()
                .map(|&(at, value)| format!("{:.1} {:.1}", x(at), y(value)))
                .collect();
            let legend = TOP + 8.0 + 20.0 * n as f64;
            let _ = writeln!(
                svg,
                "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width:.1}\"/>\n<path \
                 d=\"M{:.1} {legend:.1}h22\" stroke=\"{colour}\" stroke-width=\"{width:.1}\"/>\n<text \
                 x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                path.join("L"),
                right + 12.0,
                right + 40.0,
                legend + 4.0,
                escaped(&series.name)
            );
        }
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#000000\"/>\n<text \
             x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n<text \
             transform=\"translate(16 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n</svg>",
            (LEFT + right) / 2.0,
            HEIGHT - 6.0,
            escaped(self.x_label),
            (TOP + bottom) / 2.0,
            escaped(self.y_label)
        );
        svg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers() {
        assert_eq!(step(1.0), 0.2);
        assert_eq!(step(6.0), 1.0);
        assert_eq!(step(230.0), 50.0);
        assert_eq!(bytes(65536.0), "64 KiB");
        assert_eq!(bytes(1_114_112.0), "1088 KiB");
    }
}
