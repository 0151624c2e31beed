//! Numbers and texts as they stand on a page for a terminal.

use ridgeline_clock::Nanos;

/// 7412 as `7,412`.
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A rate or a ratio, with the digits that matter: `47,436`, `741.2`, `12.30`, `0.0123`.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a saturated rate is as good as any beyond 10^19"
)]
pub fn number(value: f64) -> String {
    match value {
        v if v >= 999.95 => count(v.round() as u64),
        v if v >= 99.995 => format!("{v:.1}"),
        v if v >= 0.0995 || v == 0.0 => format!("{v:.2}"),
        v => format!("{v:.4}"),
    }
}

/// A mean of things that are counted: `15.9`, `1,024.0`.
#[must_use]
pub fn mean(value: f64) -> String {
    let tenths = format!("{value:.1}");
    let (whole, tenth) = tenths.split_once('.').unwrap_or((&tenths, "0"));
    whole.parse().map_or_else(
        |_| tenths.clone(),
        |whole| format!("{}.{tenth}", count(whole)),
    )
}

/// A share, 0 to 1, as `3.70 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = match percent {
        p if p >= 99.95 || p == 0.0 => 0,
        p if p >= 9.995 => 1,
        _ => 2,
    };
    // All but all of them is not all of them.
    if share < 1.0 && percent >= 99.95 {
        return format!("{:.2} %", percent.min(99.99));
    }
    format!("{percent:.decimals$} %")
}

/// Bytes per second: `12.3 MB/s`.
#[must_use]
pub fn bytes_per_s(rate: f64) -> String {
    let (value, unit) = match rate {
        r if r >= 999.5e6 => (r / 1e9, "GB/s"),
        r if r >= 999.5e3 => (r / 1e6, "MB/s"),
        r if r >= 999.5 => (r / 1e3, "kB/s"),
        r => (r, "B/s"),
    };
    format!("{} {unit}", number(value))
}

/// A span given in fractions of a ns: `12.3 us`.
#[must_use]
pub fn span(ns: f64) -> String {
    Nanos::from_secs_f64(ns / 1e9).to_string()
}

/// A moment, ns since 1970, as `2026-07-30 07:42:06`: UTC. Howard Hinnant's `civil_from_days`, for days
/// since 1970.
#[must_use]
pub fn utc(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Text of a peer, fit for a terminal: one line, nothing that moves the cursor or turns the
/// direction of writing.
#[must_use]
pub fn clean(text: &str) -> String {
    let hidden = |c: char| {
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            || c == '\u{feff}'
    };
    let visible: String = text
        .chars()
        .filter(|&c| !hidden(c))
        .map(|c| {
            if c.is_control() || c.is_whitespace() {
                ' '
            } else {
                c
            }
        })
        .collect();
    visible.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// At most `chars` characters of it.
#[must_use]
pub fn shorten(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text.to_owned();
    }
    let kept: String = text.chars().take(chars.saturating_sub(3)).collect();
    format!("{kept}...")
}

/// Columns that a terminal gives to `text`: East Asian characters and symbols take two, and our own
/// colours none.
#[must_use]
pub fn columns(text: &str) -> usize {
    let mut in_colour = false;
    let width = |c: char| {
        let painted = in_colour || c == '\u{1b}';
        in_colour = painted && c != 'm';
        match c {
            _ if painted => 0,
            '\0'..'\u{1100}' => 1,
            _ => 2,
        }
    };
    text.chars().map(width).sum()
}

/// `text` in lines of at most `width` columns, broken at spaces where there are any.
#[must_use]
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(8);
    let mut lines = vec![String::new()];
    for word in words(text) {
        let line = lines.last_mut().expect("there is a first line");
        let space = usize::from(!line.is_empty());
        if columns(line) + space + columns(&word) <= width {
            line.push_str(if space == 1 { " " } else { "" });
            line.push_str(&word);
            continue;
        }
        if !line.is_empty() {
            lines.push(String::new());
        }
        for c in word.chars() {
            let line = lines.last_mut().expect("there is a first line");
            if columns(line) + columns(c.encode_utf8(&mut [0; 4])) > width {
                lines.push(String::new());
            }
            lines.last_mut().expect("there is a first line").push(c);
        }
    }
    lines
}

/// The words of a text; a number and its unit are one.
fn words(text: &str) -> Vec<String> {
    let is_unit = |word: &str| {
        let word = word.trim_end_matches([',', ';', ':', '.', ')']);
        matches!(
            word,
            "%" | "s" | "ms" | "us" | "ns" | "B/s" | "kB/s" | "MB/s" | "GB/s"
        )
    };
    let is_number = |word: &str| {
        let word = word.trim_start_matches('(');
        word.starts_with(|c: char| c.is_ascii_digit())
    };
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match words.last_mut() {
            Some(last) if is_unit(word) && is_number(last) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_matter() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(1_234_567), "1,234,567");
        for (value, text) in [
            (0.0, "0.00"),
            (0.0123, "0.0123"),
            (0.9697, "0.97"),
            (1.0, "1.00"),
            (99.994, "99.99"),
            (99.999, "100.0"),
            (741.24, "741.2"),
            (999.96, "1,000"),
            (47_435.6, "47,436"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!(mean(1_023.96), "1,024.0");
        assert_eq!(mean(0.04), "0.0");
        assert_eq!(bytes_per_s(12_345_678.0), "12.35 MB/s");
        assert_eq!(bytes_per_s(12.0), "12.00 B/s");
        assert_eq!(span(12_345.6), "12.3 us");
    }

    #[test]
    fn moments_are_utc_dates() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_785_397_326, "2026-07-30 07:42:06"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(utc(Nanos::from_secs(seconds).0), text);
        }
    }

    #[test]
    fn nearly_all_is_not_all() {
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(0.999_999), "99.99 %");
        assert_eq!(percent(0.5), "50.0 %");
        assert_eq!(percent(0.0005), "0.05 %");
        assert_eq!(percent(0.0), "0 %");
    }

    #[test]
    fn text_of_a_peer_can_not_play_with_the_terminal() {
        let text = "a\u{1b}[31mred\r\n\tb\u{202e}c\0";
        assert_eq!(clean(text), "a [31mred bc");
        assert_eq!(shorten("abcdefgh", 6), "abc...");
        assert_eq!(shorten("abc", 3), "abc");
    }

    #[test]
    fn lines_keep_to_their_width() {
        assert_eq!(wrap("", 10), [""]);
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("took (10.0 s)", 11), ["took", "(10.0 s)"]);
        assert_eq!(columns("\u{1b}[1;31mred\u{1b}[0m"), 3);
        assert_eq!(wrap("a 漢字漢字漢字", 8), ["a", "漢字漢字", "漢字"]);
        let long = format!("see {} there", "x".repeat(30));
        let lines = wrap(&long, 10);
        assert!(lines.iter().all(|line| columns(line) <= 10), "{lines:?}");
        assert_eq!(lines.concat().replace(' ', ""), long.replace(' ', ""));
    }
}
