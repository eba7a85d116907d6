//! A plot of latencies as SVG: a panel for each load, a line for each policy, on a logarithmic scale.

use std::fmt::Write;

/// One part of the plot.
pub struct Panel {
    pub title: String,
    /// A name and p50, p99 and p99.9, in milliseconds.
    pub rows: Vec<(String, [f64; 3])>,
}

const NAMES: f64 = 130.0;
const WIDTH: f64 = 300.0;
const GAP: f64 = 48.0;
const LINE: f64 = 26.0;
const TOP: f64 = 76.0;
/// From 1 ms to 10 s.
const DECADES: f64 = 4.0;
/// Light to dark, for p50, p99 and p99.9.
const COLOURS: [&str; 3] = ["#9ecae1", "#4292c6", "#08306b"];

/// The plot; `limit` is a line across, in milliseconds.
pub fn svg(title: &str, panels: &[Panel], limit: f64) -> String {
    let lines = panels.iter().map(|panel| panel.rows.len()).max().unwrap_or(0);
    #[allow(clippy::cast_precision_loss)]
    let (n, lines) = (panels.len() as f64, lines as f64);
    let (width, bottom) = (NAMES + n * (WIDTH + GAP), TOP + lines * LINE);
    let height = bottom + 64.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    text(&mut out, 12.0, 26.0, "start", title, 16);
    for (at, panel) in panels.iter().enumerate() {
        #[allow(clippy::cast_precision_loss)]
        let left = NAMES + at as f64 * (WIDTH + GAP);
        let x = |ms: f64| left + (ms.clamp(1.0, 1e4).log10() / DECADES) * WIDTH;
        text(&mut out, left + WIDTH / 2.0, TOP - 22.0, "middle", &panel.title, 14);
        for ms in [1.0, 10.0, 100.0, 1_000.0, 10_000.0] {
            line(&mut out, [x(ms), TOP - 10.0, x(ms), bottom], "#dddddd", 1.0, "");
            let label = if ms < 1_000.0 { format!("{ms} ms") } else { format!("{} s", ms / 1e3) };
            text(&mut out, x(ms), bottom + 18.0, "middle", &label, 11);
        }
        line(&mut out, [x(limit), TOP - 10.0, x(limit), bottom], "#cb181d", 1.0, " stroke-dasharray=\"4 3\"");
        for (row, (name, points)) in panel.rows.iter().enumerate() {
            #[allow(clippy::cast_precision_loss)]
            let y = TOP + (row as f64 + 0.5) * LINE;
            if at == 0 {
                text(&mut out, NAMES - 12.0, y + 4.0, "end", name, 12);
            }
            line(&mut out, [x(points[0]), y, x(points[2]), y], "#bbbbbb", 3.0, "");
            for (ms, colour) in points.iter().zip(COLOURS) {
                let _ = writeln!(
                    out,
                    "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{colour}\"><title>{}: {ms:.1} ms</title></circle>",
                    x(*ms),
                    escaped(name)
                );
            }
        }
    }
    let y = bottom + 44.0;
    for (at, (name, colour)) in ["p50", "p99", "p99.9"].iter().zip(COLOURS).enumerate() {
        #[allow(clippy::cast_precision_loss)]
        let x = NAMES + at as f64 * 80.0;
        let _ = writeln!(out, "<circle cx=\"{x}\" cy=\"{y}\" r=\"5\" fill=\"{colour}\"/>");
        text(&mut out, x + 10.0, y + 4.0, "start", name, 12);
    }
    text(&mut out, NAMES + 250.0, y + 4.0, "start", "dashed: the deadline, as which a failure counts", 12);
    out.push_str("</svg>\n");
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, text: &str, size: u32) {
    let text = escaped(text);
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\">{text}</text>"
    );
}

fn line(out: &mut String, [x1, y1, x2, y2]: [f64; 4], colour: &str, width: f64, more: &str) {
    let _ = writeln!(
        out,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"{more}/>"
    );
}
