//! The roofline as a page: one file, no script, nothing that it loads.

use std::fmt::Write as _;

use ridgeline_clock::Nanos;
use ridgeline_report::console::text::{number, utc};

use crate::plot::{Bars, bars, charts, escape};
use crate::words::{bytes, known, known_cores, short};
use crate::{Headline, Peak, Roofline, Row, Section};

const STYLE: &str = include_str!("page.css");

/// The page.
#[must_use]
pub fn page(roofline: &Roofline) -> String {
    let mut page =
        String::from("<!doctype html>\n<html lang=\"en\"><head>\n<meta charset=\"utf-8\">\n");
    let host = escape(&roofline.host);
    // A string takes every write.
    let _ = write!(
        page,
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Roofline of {host}</title>\n<style>\n{STYLE}</style>\n</head>\n<body><main>\n\
         <h1>What this machine's client can do</h1>\n<p class=\"faint\">{}</p>\n",
        escape(&machine(roofline))
    );
    for reservation in roofline.reservations() {
        paragraph(&mut page, &format!("Note: {reservation}."));
    }
    cards(&mut page, &roofline.headline);
    for (label, text) in [
        ("Ceiling", roofline.headline.ceiling()),
        ("Scale out", roofline.headline.scale_out()),
    ] {
        if let Some(text) = text {
            let text = escape(&text);
            let _ = writeln!(page, "<p><strong>{label}:</strong> {text}.</p>");
        }
    }
    pictures(&mut page, &roofline.rows);
    for section in Section::ALL {
        table(&mut page, section, roofline);
    }
    paragraph(
        &mut page,
        "Ratio: achieved of ceiling. CPU: CPU time of one of what is counted, over that at the ceiling; 1 is \
         the least there is, more is dearer. Every ceiling was measured in this run, in turns with what \
         stands beside it.",
    );
    page.push_str("</main></body></html>\n");
    page
}

fn paragraph(page: &mut String, text: &str) {
    let _ = writeln!(page, "<p class=\"faint\">{}</p>", escape(text));
}

fn machine(roofline: &Roofline) -> String {
    let environment = &roofline.environment;
    format!(
        "{}: {}, {} cores, Linux {}, {}, {}; client on core {}, servers on core {}; ridgeline {} {}; {} UTC, \
         in {}",
        roofline.host,
        known(environment.cpu_model.as_deref()),
        known_cores(environment.cores),
        known(environment.kernel.as_deref()),
        known(environment.congestion_control.as_deref()),
        environment.driver,
        roofline.cores.client,
        roofline.cores.server,
        roofline.ridgeline.version,
        known(roofline.ridgeline.revision.as_deref()),
        utc(roofline.started_unix_ns),
        Nanos(roofline.duration_ns),
    )
}

/// The figures that people come for.
fn cards(page: &mut String, headline: &Headline) {
    if headline.is_empty() {
        return paragraph(page, "No figure of a whole client was measured.");
    }
    page.push_str("<div class=\"cards\">\n");
    let mut card = |label: &str, peak: &Option<Peak>, more: &str| {
        let Some(peak) = peak else {
            return;
        };
        let against = match (peak.ratio, &peak.ceiling) {
            (Some(ratio), Some(ceiling)) => format!("{} of {}. ", number(ratio), escape(ceiling)),
            _ => String::new(),
        };
        let _ = writeln!(
            page,
            "<div class=\"card\">{label}<b>{}</b><small>{more}{}{}</small></div>",
            short(peak.value),
            against,
            escape(&format!("Limited by {}", peak.limited_by)),
        );
    };
    let each = headline.stream_bytes;
    let each = each.map_or_else(String::new, |each| format!("{} each. ", bytes(each)));
    card("Requests/s", &headline.requests, "");
    card("Open streams", &headline.streams, &each);
    card("Events/s, many a read", &headline.coalesced, "");
    card("Events/s, one a read", &headline.paced, "");
    card("Requests/s on time", &headline.timely, "");
    page.push_str("</div>\n");
}

fn pictures(page: &mut String, rows: &[Row]) {
    let charts = charts(rows);
    if !charts.is_empty() {
        page.push_str("<h2>By load</h2>\n<div class=\"grid\">\n");
        for chart in charts {
            picture(
                page,
                &format!("{}: {}", chart.section.name(), chart.title),
                &chart.svg,
            );
        }
        page.push_str("</div>\n");
    }
    let kinds = [Bars::Throughput, Bars::Cpu];
    let drawn = kinds.map(|kind| Some((kind.title(), bars(kind, rows)?)));
    if drawn.iter().any(Option::is_some) {
        page.push_str("<h2>Beside the ceilings</h2>\n<div class=\"grid\">\n");
        for (title, svg) in drawn.into_iter().flatten() {
            picture(page, title, &svg);
        }
        page.push_str("</div>\n");
    }
}

fn picture(page: &mut String, title: &str, svg: &str) {
    let title = escape(title);
    let _ = writeln!(page, "<div class=\"card\"><h3>{title}</h3>\n{svg}</div>");
}

fn table(page: &mut String, section: Section, roofline: &Roofline) {
    let rows = roofline.rows.iter();
    let rows: Vec<&Row> = rows.filter(|row| row.section == section).collect();
    if rows.is_empty() {
        return;
    }
    let _ = write!(
        page,
        "<h2>{}: {}</h2>\n<div class=\"scroll\"><table>\n<tr><th>what</th><th>achieved</th>\
         <th>ceiling</th><th>ratio</th><th>CPU each</th><th>CPU ratio</th><th>ceiling is</th>\
         <th>limited by</th></tr>\n",
        section.name(),
        section.about()
    );
    for row in rows {
        page.push_str("<tr>");
        for cell in cells(row) {
            let _ = write!(page, "<td>{}</td>", escape(&cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n");
}

fn cells(row: &Row) -> [String; 8] {
    let none = || "\u{2013}".to_owned();
    let measured = row.measured.as_ref();
    let ceiling = measured.and_then(|measured| measured.ceiling.as_ref());
    let cpu = measured.and_then(|measured| measured.cpu_ns);
    [
        row.name.clone(),
        measured.map_or_else(none, |measured| row.unit.show(measured.achieved)),
        ceiling.map_or_else(none, |ceiling| row.unit.show(ceiling.value)),
        row.ratio().map_or_else(none, number),
        cpu.map_or_else(none, |cpu| format!("{} ns", number(cpu))),
        row.cpu_ratio().map_or_else(none, number),
        ceiling.map_or_else(none, |ceiling| ceiling.name.clone()),
        row.limited_by.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::elements;
    use crate::samples;

    #[test]
    fn the_page_is_whole_and_loads_nothing() {
        let page = page(&samples::roofline());
        let names = elements(&page);
        let count = |of: &str| names.iter().filter(|name| *name == of).count();
        assert_eq!(count("svg"), 5);
        assert_eq!(count("td"), 8 * samples::rows().len());
        for forbidden in ["<script", "href=", "src=", "url(", "@import"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        for part in [
            "<b>165k</b>",
            "<b>50.0k</b>",
            "<b>34.1M</b>",
            "prefers-color-scheme: dark",
        ] {
            assert!(page.contains(part), "{part}");
        }
    }

    #[test]
    fn what_rows_say_is_text_and_no_markup() {
        let mut roofline = samples::roofline();
        roofline.host = "<b>&".to_owned();
        roofline.rows[0].name = "</td><script>alert(1)</script>\u{1b}".to_owned();
        roofline.rows[2].limited_by = "\"><img src=x>".to_owned();
        roofline.headline = Headline::of(&roofline.rows);
        let page = page(&roofline);
        elements(&page);
        assert!(!page.contains("<script") && !page.contains("<img"));
    }

    #[test]
    fn a_page_of_nothing_is_a_page() {
        let mut roofline = samples::roofline();
        roofline.rows.clear();
        roofline.headline = Headline::default();
        let page = page(&roofline);
        assert!(elements(&page).iter().all(|name| name != "svg"));
        assert!(page.contains("No figure of a whole client was measured."));
    }
}
