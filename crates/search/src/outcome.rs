use serde::Serialize;

/// What became of a window.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<W> {
    /// It showed this.
    Sound(W),
    /// It does not show the server: the client limited it, or too little came back. Why. It is measured once
    /// more; the second time its load is given up.
    Unsound(String),
    /// It was ended early, and with it the search.
    Aborted,
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// With an answer, as near as was asked.
    Found,
    /// With a level that holds, but nothing above it could be shown not to: the answer is a lower
    /// bound.
    LowerBound,
    /// Without any level that holds.
    Nothing,
    /// Before its time.
    Aborted,
}
