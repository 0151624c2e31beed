use std::borrow::Cow;

use crate::answer::Text;

/// Where a text is stopped.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stopped<'a> {
    /// Tokens up to the end of the stop string, which are generated.
    pub(super) tokens: u32,
    /// Bytes up to its beginning, which are said.
    pub(super) bytes: u64,
    pub(super) stop: &'a str,
}

/// The first of `stops` that is complete in a token after the first `min_tokens`. Of several in the
/// same token, the first of the list.
pub(super) fn stopped<'a>(
    text: &Text,
    stops: &'a [Cow<'_, str>],
    min_tokens: u32,
) -> Option<Stopped<'a>> {
    if stops.is_empty() {
        return None;
    }
    let whole: String = text.pieces().collect();
    // Bytes of the text up to the end of each token.
    let mut end = 0;
    let ends: Vec<usize> = text
        .tokens_one_by_one()
        .map(|token| {
            end += token.len();
            end
        })
        .collect();
    let token_of = |byte: usize| ends.partition_point(|end| *end < byte);
    let free = min_tokens as usize;
    let complete = |stop: &'a str| {
        let mut from = 0;
        while let Some(at) = whole.get(from..)?.find(stop) {
            let start = from + at;
            let token = token_of(start + stop.len());
            if token >= free {
                return Some((token, start, stop));
            }
            from = start + whole[start..].chars().next().map_or(1, char::len_utf8);
        }
        None
    };
    let (token, start, stop) = stops
        .iter()
        .map(AsRef::as_ref)
        .filter_map(complete)
        .min_by_key(|(token, ..)| *token)?;
    Some(Stopped {
        tokens: u32::try_from(token + 1).unwrap_or(u32::MAX),
        bytes: start as u64,
        stop,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stop(stops: &[&str], min_tokens: u32) -> Option<(u32, u64, String)> {
        let stops: Vec<_> = stops.iter().map(|stop| Cow::Borrowed(*stop)).collect();
        stopped(&Text::words(0, 80), &stops, min_tokens)
            .map(|stopped| (stopped.tokens, stopped.bytes, stopped.stop.to_owned()))
    }

    #[test]
    fn a_stop_string_ends_the_text_before_it() {
        // "A quiet river moves small boats ..."
        assert_eq!(stop(&["river"], 0), Some((3, 8, "river".to_owned())));
        assert_eq!(stop(&["r m"], 0), Some((4, 12, "r m".to_owned())));
        assert_eq!(stop(&["nowhere"], 0), None);
        assert_eq!(stop(&[], 0), None);
        assert_eq!(stop(&["A"], 0), Some((1, 0, "A".to_owned())));
        // Whatever is complete first; of two in the same token, the first of the list.
        assert_eq!(stop(&["moves", "qu"], 0).unwrap().2, "qu");
        assert_eq!(stop(&["iver", "ri"], 0).unwrap().2, "iver");
    }

    #[test]
    fn nothing_is_stopped_before_the_minimum() {
        assert_eq!(stop(&["river"], 2).unwrap().0, 3);
        // The list begins again with token 64.
        assert_eq!(stop(&["river"], 3).unwrap().0, 67);
        assert_eq!(stop(&["river"], 70), None);
    }

    proptest! {
        #[test]
        fn a_naive_reader_stops_at_the_same_place(
            stops in proptest::collection::vec("[ aeiou]{1,2}", 1..4),
            min_tokens in 0..90_u32,
        ) {
            let stops: Vec<_> = stops.iter().map(|stop| Cow::Borrowed(stop.as_str())).collect();
            let text = Text::words(5, 80);
            // Token by token, as a server would.
            let mut said = String::new();
            let mut naive = None;
            for (index, token) in text.tokens_one_by_one().enumerate() {
                let before = said.len();
                said.push_str(token);
                if index < min_tokens as usize {
                    continue;
                }
                naive = stops.iter().find_map(|stop| {
                    let start = (0..said.len()).find(|start| {
                        said[*start..].starts_with(stop.as_ref()) && start + stop.len() > before
                    })?;
                    Some((index + 1, start, stop.as_ref()))
                });
                if naive.is_some() {
                    break;
                }
            }
            let found = stopped(&text, &stops, min_tokens);
            let found = found.map(|s| (s.tokens as usize, usize::try_from(s.bytes).unwrap(), s.stop));
            prop_assert_eq!(found, naive);
        }
    }
}
