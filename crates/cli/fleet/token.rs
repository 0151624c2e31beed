use std::fs;
use std::path::Path;

use ridgeline_fleet::message::Secret;

use crate::complaint::Complaint;

/// The variable that holds the token where no file is named.
pub(crate) const VARIABLE: &str = "RIDGELINE_TOKEN";

/// A shorter one can be guessed.
const CHARS_MIN: usize = 16;

/// The token that a coordinator and its workers share: from `file`, else from the environment; none where
/// neither has one.
pub(crate) fn token(file: Option<&Path>) -> Result<Option<Secret>, Complaint> {
    let (found, whence) = match file {
        Some(path) => {
            let text = fs::read_to_string(path).map_err(|error| {
                Complaint::new(format!("--token-file {}: {error}", path.display()))
            })?;
            (Some(text), format!("--token-file {}", path.display()))
        }
        None => (std::env::var(VARIABLE).ok(), VARIABLE.to_owned()),
    };
    checked(found.as_deref(), &whence, file.is_some())
}

fn checked(found: Option<&str>, whence: &str, named: bool) -> Result<Option<Secret>, Complaint> {
    let text = found.map_or("", str::trim);
    match text.chars().count() {
        0 if !named => Ok(None),
        CHARS_MIN.. => Ok(Some(Secret(text.to_owned()))),
        count => Err(Complaint::new(format!(
            "{whence}: a token of {count} characters can be guessed; it has at least {CHARS_MIN}, as \
             `head -c 24 /dev/urandom | base64` gives"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_enough_or_there_is_none() {
        let check = |text, named| checked(text, "T", named).map_err(|error| error.to_string());
        assert_eq!(check(None, false), Ok(None));
        assert_eq!(check(Some(" \n"), false), Ok(None));
        assert!(
            check(Some(""), true)
                .unwrap_err()
                .contains("T: a token of 0")
        );
        assert!(
            check(Some("short"), false)
                .unwrap_err()
                .contains("can be guessed")
        );
        let long = "0123456789abcdef";
        let found = check(Some(&format!("{long}\n")), true).unwrap();
        assert_eq!(found, Some(Secret(long.to_owned())));
    }
}
