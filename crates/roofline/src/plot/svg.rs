//! A writer of SVG: a few shapes, texts escaped, every element closed.

use std::fmt::{Display, Write as _};

use ridgeline_report::console::text::clean;

/// Text as it may stand in markup: what peers and files brought loses its control characters, and
/// nothing of it is taken for markup.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Where a text stands by its place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture that is being drawn. Lengths are in its own units, of which text has 12 a line.
#[derive(Debug)]
pub(crate) struct Svg(String);

impl Svg {
    /// An empty picture; `about` is read to those who do not see it.
    pub(crate) fn new(width: f64, height: f64, about: &str) -> Self {
        let mut out = String::new();
        let about = escape(about);
        // A string takes every write.
        let _ = writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"{about}\" \
             viewBox=\"0 0 {} {}\">",
            Length(width),
            Length(height)
        );
        Self(out)
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ((x1, y1), (x2, y2)) = (pair(from), pair(to));
        self.element(
            "line",
            &[
                ("x1", &x1),
                ("y1", &y1),
                ("x2", &x2),
                ("y2", &y2),
                ("class", &class),
            ],
            None,
        );
    }

    pub(crate) fn polyline(&mut self, points: &[(f64, f64)], class: &str) {
        let points: Vec<String> = points
            .iter()
            .map(|point| {
                let (x, y) = pair(*point);
                format!("{x},{y}")
            })
            .collect();
        let points = points.join(" ");
        self.element("polyline", &[("points", &points), ("class", &class)], None);
    }

    /// A point; `told` is shown to whoever points at it.
    pub(crate) fn point(&mut self, at: (f64, f64), radius: f64, class: &str, told: &str) {
        let (x, y) = pair(at);
        let told = format!("<title>{}</title>", escape(told));
        self.element(
            "circle",
            &[
                ("cx", &x),
                ("cy", &y),
                ("r", &Length(radius)),
                ("class", &class),
            ],
            Some(&told),
        );
    }

    /// A box; `told` is shown to whoever points at it.
    pub(crate) fn rect(&mut self, corner: (f64, f64), size: (f64, f64), class: &str, told: &str) {
        let ((x, y), (width, height)) = (pair(corner), pair(size));
        let told = format!("<title>{}</title>", escape(told));
        self.element(
            "rect",
            &[
                ("x", &x),
                ("y", &y),
                ("width", &width),
                ("height", &height),
                ("rx", &2),
                ("class", &class),
            ],
            Some(&told),
        );
    }

    pub(crate) fn text(&mut self, at: (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let (x, y) = pair(at);
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.element(
            "text",
            &[
                ("x", &x),
                ("y", &y),
                ("text-anchor", &anchor),
                ("class", &class),
            ],
            Some(&escape(text)),
        );
    }

    /// The picture's markup.
    pub(crate) fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }

    /// `inner` is markup already.
    fn element(&mut self, name: &str, attributes: &[(&str, &dyn Display)], inner: Option<&str>) {
        let out = &mut self.0;
        let _ = write!(out, "<{name}");
        for (name, value) in attributes {
            let _ = write!(out, " {name}=\"{value}\"");
        }
        let _ = match inner {
            Some(inner) => writeln!(out, ">{inner}</{name}>"),
            None => writeln!(out, "/>"),
        };
    }
}

/// A tenth is finer than a screen.
struct Length(f64);

impl Display for Length {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1}", self.0)
    }
}

fn pair((x, y): (f64, f64)) -> (Length, Length) {
    (Length(x), Length(y))
}

/// Checks that markup is a tree: every element that is opened is closed, in order, and every `&` begins
/// an entity. The names of its elements.
#[cfg(test)]
pub(crate) fn elements(markup: &str) -> Vec<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut names = Vec::new();
    let mut rest = markup;
    while let Some((text, after)) = rest.split_once('<') {
        assert!(!text.contains('>'), "a bare > in {text:?}");
        for part in text.split('&').skip(1) {
            let entity = part.split_once(';').map(|(entity, _)| entity);
            let known = ["amp", "lt", "gt", "quot", "#39"];
            assert!(entity.is_some_and(|e| known.contains(&e)), "&{part}");
        }
        let (tag, after) = after.split_once('>').expect("a tag ends");
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if let Some(tag) = tag.strip_suffix('/') {
            names.push(tag.split(' ').next().unwrap_or_default().to_owned());
        } else if !tag.starts_with('!') && !tag.starts_with("meta") {
            let name = tag.split(' ').next().unwrap_or_default();
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            open.push(name);
            names.push(name.to_owned());
        }
    }
    assert!(open.is_empty(), "not closed: {open:?}");
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_well_formed_whatever_its_texts() {
        let hostile = "<script>\"&'\u{1b}\u{202e}]]>";
        let mut svg = Svg::new(100.0, 50.0, hostile);
        svg.line((0.0, 0.0), (1.0, 1.25), "axis");
        svg.polyline(&[(0.0, 0.0), (3.0, 4.0)], "s0");
        svg.point((1.0, 1.0), 3.0, "s0", hostile);
        svg.rect((1.0, 1.0), (3.0, 3.0), "s0", hostile);
        svg.text((1.0, 1.0), Anchor::End, "tick", hostile);
        let markup = svg.finish();
        assert_eq!(
            elements(&markup),
            [
                "svg", "line", "polyline", "circle", "title", "rect", "title", "text"
            ]
        );
        assert!(
            markup.contains("y2=\"1.2\"") && !markup.contains("<script"),
            "{markup}"
        );
    }
}
