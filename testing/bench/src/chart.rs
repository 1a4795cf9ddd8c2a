//! Charts as SVG text: lines and points over two axes with round ticks, for reports that anybody
//! opens in a browser. No colours carry meaning alone: each series has a mark of its own too.

use std::fmt::Write;

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Points joined by lines.
    Line,
    /// Points alone: what was measured, under a fitted curve.
    Points,
    /// A line without marks: a fitted curve.
    Curve,
    /// A dashed line without marks: what to compare with.
    Dashed,
}

/// Named points.
#[derive(Debug, Clone)]
pub struct Series {
    /// What the legend says.
    pub name: String,
    /// How it is drawn.
    pub style: Style,
    /// `(x, y)`; those that are not finite are left out.
    pub points: Vec<(f64, f64)>,
}

/// A chart with linear axes that begin at zero, or a logarithmic one below.
#[derive(Debug, Clone)]
pub struct Chart {
    /// Stands above it.
    pub title: String,
    /// With the unit.
    pub x_label: String,
    /// With the unit.
    pub y_label: String,
    /// The x axis is logarithmic; points at or below 0 are left out.
    pub x_is_logarithmic: bool,
    /// What is drawn.
    pub series: Vec<Series>,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 56.0;
const LEGEND_LINE: f64 = 18.0;
/// Chosen to differ for those who cannot tell red from green (Okabe and Ito, 2008).
const COLOURS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// Charts one below the other, as one `<svg>` element.
pub fn stacked(charts: &[Chart]) -> String {
    let height: f64 = charts.iter().map(Chart::height).sum();
    let mut out =
        format!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\">\n");
    let mut top = 0.0;
    for chart in charts {
        let _ = writeln!(out, "<g transform=\"translate(0 {top})\">");
        let height = chart.height();
        let inner = chart.to_svg();
        let sized = format!("<svg width=\"{WIDTH}\" height=\"{height}\" ");
        out.push_str(&inner.replacen("<svg ", &sized, 1));
        out.push_str("</g>\n");
        top += height;
    }
    out + "</svg>\n"
}

impl Chart {
    fn height(&self) -> f64 {
        HEIGHT + LEGEND_LINE * self.series.len() as f64
    }

    /// The chart as one `<svg>` element.
    pub fn to_svg(&self) -> String {
        let x_axis = Axis::over(self.values(|point| point.0), self.x_is_logarithmic);
        let y_axis = Axis::over(self.values(|point| point.1), false);
        let height = self.height();
        let mut out = opened(height);
        title(&mut out, (LEFT + WIDTH - RIGHT) / 2.0, &self.title);
        self.draw_axes(&mut out, &x_axis, &y_axis);
        for (place, series) in self.series.iter().enumerate() {
            draw_series(&mut out, series, place, (&x_axis, &y_axis));
            let line = HEIGHT + LEGEND_LINE * place as f64;
            let colour = COLOURS[place % COLOURS.len()];
            stroke(&mut out, series.style, colour, &[(LEFT, line), (LEFT + 30.0, line)]);
            if series.style.has_marks() {
                mark(&mut out, place, colour, (LEFT + 15.0, line));
            }
            text(&mut out, (LEFT + 40.0, line + 4.0), "start", &escaped(&series.name));
        }
        out.push_str("</svg>\n");
        out
    }

    fn values(&self, of: fn(&(f64, f64)) -> f64) -> Vec<f64> {
        let points = self.series.iter().flat_map(|series| &series.points);
        points.map(of).filter(|value| value.is_finite()).collect()
    }

    fn draw_axes(&self, out: &mut String, x_axis: &Axis, y_axis: &Axis) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for tick in x_axis.ticks() {
            let x = across(x_axis, tick);
            line(out, "#dddddd", (x, TOP), (x, bottom));
            text(out, (x, bottom + 18.0), "middle", &short(tick));
        }
        for tick in y_axis.ticks() {
            let y = down(y_axis, tick);
            line(out, "#dddddd", (LEFT, y), (right, y));
            text(out, (LEFT - 8.0, y + 4.0), "end", &short(tick));
        }
        line(out, "#444444", (LEFT, bottom), (right, bottom));
        line(out, "#444444", (LEFT, TOP), (LEFT, bottom));
        let middle = (LEFT + right) / 2.0;
        text(out, (middle, bottom + 40.0), "middle", &escaped(&self.x_label));
        let _ = writeln!(
            out,
            "<text transform=\"translate(18 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            (TOP + bottom) / 2.0,
            escaped(&self.y_label)
        );
    }
}

/// Named values as bars, one below the other: a ranking.
#[derive(Debug, Clone)]
pub struct Bars {
    /// Stands above them.
    pub title: String,
    /// What the values are, with the unit.
    pub label: String,
    /// Name, value, and the text beside the bar; values are not below 0.
    pub bars: Vec<(String, f64, String)>,
}

/// Room for a bar and the gap after it, for the names, and for the text beside the longest bar.
const BAR_LINE: f64 = 30.0;
const NAMES_WIDTH: f64 = 250.0;
const TEXT_WIDTH: f64 = 130.0;

impl Bars {
    /// The bars as one `<svg>` element.
    pub fn to_svg(&self) -> String {
        let height = TOP + BAR_LINE * self.bars.len() as f64 + BOTTOM / 2.0;
        let is_drawn = |value: f64| value.is_finite() && value > 0.0;
        let values = self.bars.iter().map(|bar| bar.1).filter(|value| is_drawn(*value));
        let most = values.fold(f64::MIN_POSITIVE, f64::max);
        let mut out = opened(height);
        title(&mut out, WIDTH / 2.0, &self.title);
        let room = WIDTH - NAMES_WIDTH - TEXT_WIDTH;
        for (place, (name, value, beside)) in self.bars.iter().enumerate() {
            let top = TOP + BAR_LINE * place as f64;
            let width = if is_drawn(*value) { room * value / most } else { 0.0 };
            let _ = writeln!(
                out,
                "<rect x=\"{NAMES_WIDTH}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"20\" \
                 fill=\"{}\"/>",
                COLOURS[0]
            );
            text(&mut out, (NAMES_WIDTH - 8.0, top + 14.0), "end", &escaped(name));
            text(&mut out, (NAMES_WIDTH + width + 8.0, top + 14.0), "start", &escaped(beside));
        }
        text(&mut out, (NAMES_WIDTH, height - 8.0), "start", &escaped(&self.label));
        out.push_str("</svg>\n");
        out
    }
}

/// The beginning of an `<svg>` element of a chart's width.
fn opened(height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n"
    )
}

fn title(out: &mut String, middle: f64, title: &str) {
    let marked_up = format!("<tspan font-size=\"15\">{}</tspan>", escaped(title));
    text(out, (middle, 24.0), "middle", &marked_up);
}

impl Style {
    fn has_marks(self) -> bool {
        matches!(self, Style::Line | Style::Points)
    }
}

/// What an axis spans.
struct Axis {
    low: f64,
    high: f64,
    /// Between ticks of a linear axis.
    step: f64,
    is_logarithmic: bool,
}

impl Axis {
    fn over(values: Vec<f64>, is_logarithmic: bool) -> Axis {
        let kept = values.into_iter().filter(|value| !is_logarithmic || *value > 0.0);
        let (least, most) = kept.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        if least > most {
            let low = if is_logarithmic { 1.0 } else { 0.0 };
            return Axis { low, high: 10.0, step: 2.0, is_logarithmic };
        }
        if is_logarithmic {
            let low = 10f64.powf(least.log10().floor());
            let high = 10f64.powf(most.log10().ceil()).max(low * 10.0);
            return Axis { low, high, step: 0.0, is_logarithmic };
        }
        let low = least.min(0.0);
        let step = round_step((most - low).max(f64::MIN_POSITIVE));
        let high = ((most / step).ceil() * step).max(low + step);
        Axis { low: (low / step).floor() * step, high, step, is_logarithmic }
    }

    fn ticks(&self) -> Vec<f64> {
        if self.is_logarithmic {
            let (low, high) = (self.low.log10().round() as i32, self.high.log10().round() as i32);
            // Few powers of ten leave room for what is between them.
            let steps: &[f64] = if high - low <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            let of_power = |power| steps.iter().map(move |step| step * 10f64.powi(power));
            let ticks = (low..=high).flat_map(of_power);
            return ticks.filter(|tick| *tick <= self.high * 1.001).collect();
        }
        let count = ((self.high - self.low) / self.step).round() as u32;
        (0..=count).map(|place| self.low + self.step * f64::from(place)).collect()
    }

    /// Where a value stands, from 0 at the low end to 1 at the high one.
    fn share(&self, value: f64) -> f64 {
        match self.is_logarithmic {
            true => (value / self.low).log10() / (self.high / self.low).log10(),
            false => (value - self.low) / (self.high - self.low),
        }
    }
}

/// 1, 2 or 5 times a power of ten, so that a span has four to ten steps.
fn round_step(span: f64) -> f64 {
    let power = 10f64.powf((span / 5.0).log10().floor());
    let times = span / 5.0 / power;
    power
        * if times < 1.5 {
            1.0
        } else if times < 3.5 {
            2.0
        } else if times < 7.5 {
            5.0
        } else {
            10.0
        }
}

fn across(axis: &Axis, value: f64) -> f64 {
    LEFT + axis.share(value) * (WIDTH - LEFT - RIGHT)
}

fn down(axis: &Axis, value: f64) -> f64 {
    HEIGHT - BOTTOM - axis.share(value) * (HEIGHT - TOP - BOTTOM)
}

fn draw_series(out: &mut String, series: &Series, place: usize, axes: (&Axis, &Axis)) {
    let colour = COLOURS[place % COLOURS.len()];
    let is_drawn = |point: &&(f64, f64)| {
        point.0.is_finite() && point.1.is_finite() && !(axes.0.is_logarithmic && point.0 <= 0.0)
    };
    let placed: Vec<(f64, f64)> = series
        .points
        .iter()
        .filter(is_drawn)
        .map(|point| (across(axes.0, point.0), down(axes.1, point.1)))
        .collect();
    stroke(out, series.style, colour, &placed);
    if series.style.has_marks() {
        placed.iter().for_each(|point| mark(out, place, colour, *point));
    }
}

fn stroke(out: &mut String, style: Style, colour: &str, points: &[(f64, f64)]) {
    if style == Style::Points || points.len() < 2 {
        return;
    }
    let dashes = if style == Style::Dashed { " stroke-dasharray=\"6 4\"" } else { "" };
    let places: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\"{dashes}/>",
        places.join(" ")
    );
}

/// A dot, a square, a triangle or a diamond.
fn mark(out: &mut String, place: usize, colour: &str, (x, y): (f64, f64)) {
    let shape = match place % 4 {
        0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\""),
        1 => format!("<rect x=\"{:.1}\" y=\"{:.1}\" width=\"7\" height=\"7\"", x - 3.5, y - 3.5),
        2 => format!("<path d=\"M{x:.1} {:.1} l4 7 h-8 z\"", y - 4.0),
        _ => format!("<path d=\"M{x:.1} {:.1} l4.5 4.5 l-4.5 4.5 l-4.5 -4.5 z\"", y - 4.5),
    };
    let _ = writeln!(out, "{shape} fill=\"{colour}\"/>");
}

fn line(out: &mut String, colour: &str, from: (f64, f64), to: (f64, f64)) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = writeln!(
        out,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>"
    );
}

fn text(out: &mut String, (x, y): (f64, f64), anchor: &str, marked_up: &str) {
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{marked_up}</text>"
    );
}

/// A tick's number in few characters.
fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let rounded = format!("{scaled:.3}");
    format!("{}{unit}", rounded.trim_end_matches('0').trim_end_matches('.'))
}

/// Text that may stand in SVG and HTML.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>, x_is_logarithmic: bool) -> Chart {
        let series = Series { name: "a < b".to_string(), style: Style::Line, points };
        Chart {
            title: "calls & clients".to_string(),
            x_label: "clients".to_string(),
            y_label: "calls per second".to_string(),
            x_is_logarithmic,
            series: vec![series],
        }
    }

    fn marks(svg: &str) -> Vec<&str> {
        svg.lines().filter(|line| line.starts_with("<circle")).collect()
    }

    #[test]
    fn charts_stand_one_below_the_other() {
        let one = chart(vec![(0.0, 1.0)], false);
        let svg = stacked(&[one.clone(), one]);
        assert!(
            svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 876\">")
        );
        assert!(
            svg.contains("<g transform=\"translate(0 0)\">\n<svg width=\"720\" height=\"438\" ")
        );
        assert!(svg.contains("<g transform=\"translate(0 438)\">\n<svg width"));
        assert_eq!((svg.matches("<svg").count(), svg.matches("</svg>").count()), (3, 3));
    }

    #[test]
    fn points_stand_where_their_values_say() {
        let svg = chart(vec![(0.0, 0.0), (5.0, 50_000.0), (10.0, 100_000.0)], false).to_svg();
        // The last one is the legend's.
        assert_eq!(
            marks(&svg)[..3],
            [
                "<circle cx=\"80.0\" cy=\"364.0\" r=\"3.5\" fill=\"#0072b2\"/>",
                "<circle cx=\"388.0\" cy=\"204.0\" r=\"3.5\" fill=\"#0072b2\"/>",
                "<circle cx=\"696.0\" cy=\"44.0\" r=\"3.5\" fill=\"#0072b2\"/>",
            ]
        );
        assert!(svg.contains(">100k</text>") && svg.contains(">20k</text>"));
        assert!(svg.contains("calls &amp; clients") && svg.contains("a &lt; b"));
    }

    #[test]
    fn a_logarithmic_axis_gives_each_power_the_same_room() {
        let svg = chart(vec![(1.0, 1.0), (10.0, 2.0), (100.0, 3.0), (0.0, 9.0)], true).to_svg();
        let across: Vec<&str> =
            marks(&svg).into_iter().map(|mark| mark.split('"').nth(1).unwrap()).collect();
        assert_eq!(across[..3], ["80.0", "388.0", "696.0"]);
        assert_eq!(across.len(), 3 + 1, "0 has no place on it");
    }

    #[test]
    fn empty_and_broken_values_make_a_chart_all_the_same() {
        for points in [vec![], vec![(1.0, f64::NAN), (f64::INFINITY, 2.0)], vec![(3.0, 7.0)]] {
            for x_is_logarithmic in [false, true] {
                let svg = chart(points.clone(), x_is_logarithmic).to_svg();
                assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"));
            }
        }
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let bar = |name: &str, value: f64| (name.to_string(), value, format!("{value} per s"));
        let bars = vec![bar("a < b", 200.0), bar("half", 100.0), bar("none", f64::NAN)];
        let label = "calls per second".to_string();
        let svg = Bars { title: "ways".to_string(), label, bars }.to_svg();
        let widths: Vec<&str> = svg
            .lines()
            .filter(|line| line.contains("height=\"20\""))
            .map(|line| line.split('"').nth(5).unwrap())
            .collect();
        assert_eq!(widths, ["340.0", "170.0", "0.0"]);
        assert!(svg.contains(">a &lt; b</text>") && svg.contains(">100 per s</text>"), "{svg}");
    }

    #[test]
    fn ticks_are_round() {
        let ticks = |most: f64| Axis::over(vec![0.0, most], false).ticks();
        assert_eq!(ticks(10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(7.3), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        assert_eq!(ticks(45_000.0), [0.0, 10e3, 20e3, 30e3, 40e3, 50e3]);
        let ticks = |most: f64| Axis::over(vec![1.0, most], true).ticks();
        assert_eq!(ticks(100.0), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        assert_eq!(ticks(1000.0), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(
            [0.5, 1234.0, 10_000.0, 2.5e6, 3e9].map(short),
            ["0.5", "1234", "10k", "2.5M", "3G"]
        );
    }
}
