use std::fmt;

/// Why a command can't do what was asked: one line for the user, with cause and remedy.
#[derive(Debug)]
pub(crate) struct Complaint(String);

impl Complaint {
    /// `text`: a sentence without a full stop. Line breaks become blanks: it stays one line.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        let text: String = text.into();
        Self(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The libraries' errors are whole sentences already.
impl<E: std::error::Error> From<E> for Complaint {
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}
