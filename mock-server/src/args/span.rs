use ridgeline_clock::Nanos;

/// A span with its unit: `20ms`, `750us`, `1.5s`, `100ns`, or `0`.
pub(crate) fn span(text: &str) -> Result<Nanos, String> {
    let split = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let unit_ns: u64 = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "" if digits == "0" => 1,
        _ => return Err("expected a number and ns, us, ms, s or m, like 750us".to_owned()),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole: u64 = whole
        .parse()
        .map_err(|_| format!("{digits:?} is not a number"))?;
    let mut span = whole.checked_mul(unit_ns).ok_or("too long")?;
    let mut place_ns = unit_ns;
    for digit in fraction.chars() {
        place_ns /= 10;
        let digit = digit
            .to_digit(10)
            .ok_or_else(|| format!("{digits:?} is not a number"))?;
        span = span
            .checked_add(u64::from(digit) * place_ns)
            .ok_or("too long")?;
    }
    Ok(Nanos(span))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_a_unit_and_are_exact() {
        for (text, ns) in [
            ("0", 0),
            ("0s", 0),
            ("20ms", 20_000_000),
            ("750us", 750_000),
            ("1.5s", 1_500_000_000),
            ("0.000000001s", 1),
            ("2m", 120_000_000_000),
            ("7ns", 7),
        ] {
            assert_eq!(span(text), Ok(Nanos(ns)), "{text}");
        }
        for text in [
            "",
            "5",
            "ms",
            "-1ms",
            "1h",
            "1.x5s",
            "1..5s",
            "99999999999999999999s",
        ] {
            assert!(span(text).is_err(), "{text}");
        }
    }
}
