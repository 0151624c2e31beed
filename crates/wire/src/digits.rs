/// Numbers of so many digits fit 64 bits.
pub(crate) const DIGITS_MAX: usize = 19;

/// How many digits `input` begins with, and their number. `None` where there are none or too many, and where
/// the input ends with them: they may go on.
#[inline]
pub(crate) fn leading_number(input: &[u8]) -> Option<(usize, u64)> {
    let mut number = 0;
    for (count, byte) in input.iter().take(DIGITS_MAX + 1).enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return (count > 0).then_some((count, number));
        }
        if count == DIGITS_MAX {
            return None;
        }
        number = number * 10 + u64::from(digit);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_ends_before_what_is_no_digit() {
        for (input, found) in [
            ("0,", Some((1, 0))),
            ("007\r", Some((3, 7))),
            (
                "9999999999999999999}",
                Some((19, 9_999_999_999_999_999_999)),
            ),
            ("10000000000000000000}", None),
            ("12", None),
            ("-1,", None),
            (",", None),
            ("", None),
        ] {
            assert_eq!(leading_number(input.as_bytes()), found, "{input}");
        }
    }
}
