//! The same words in other lines: everything that the event stream format allows.

use super::super::habits::{Block, Cut, Habits, Http, Lines};
use super::servers::{CRLF, LF, VLLM};

/// CRLF, and each carriage return ends an HTTP chunk: its line feed is in the next.
pub(in super::super) const CRLF_SPLIT: Habits = Habits {
    lines: Lines {
        blocks: &[CRLF],
        ..VLLM.lines
    },
    http: Http {
        cut: Cut::Return,
        ..VLLM.http
    },
    ..VLLM
};

/// A lone carriage return ends a line.
pub(in super::super) const CR_ONLY: Habits = Habits {
    lines: Lines {
        blocks: &[Block {
            eol: "\r",
            after: "\r\r",
            ..LF
        }],
        ..VLLM.lines
    },
    ..VLLM
};

/// Each line may end another way.
pub(in super::super) const MIXED_LINE_ENDS: Habits = Habits {
    lines: Lines {
        blocks: &[
            LF,
            CRLF,
            Block {
                after: "\r\r",
                ..LF
            },
            Block {
                after: "\r\n\n",
                ..LF
            },
            Block {
                after: "\n\r\n",
                ..LF
            },
            Block {
                after: "\n\r",
                ..LF
            },
        ],
        ..VLLM.lines
    },
    ..VLLM
};

/// No space after the colon.
pub(in super::super) const NO_SPACE: Habits = Habits {
    lines: Lines {
        blocks: &[Block {
            data: "data:",
            ..LF
        }],
        ..VLLM.lines
    },
    ..VLLM
};

/// The JSON of an event over many `data` lines.
pub(in super::super) const MULTI_LINE: Habits = Habits {
    lines: Lines {
        blocks: &[
            Block { breaks: true, ..LF },
            Block {
                breaks: true,
                data: "data:",
                ..LF
            },
        ],
        ..VLLM.lines
    },
    ..VLLM
};

/// A byte order mark before the first event.
pub(in super::super) const BOM: Habits = Habits {
    lines: Lines {
        first: "\u{feff}",
        ..VLLM.lines
    },
    ..VLLM
};

/// Event ids, `retry`, names that are the default, unknown fields, fields without a value, and
/// blocks without data.
pub(in super::super) const FIELDS: Habits = Habits {
    lines: Lines {
        first: "retry: 3000\n\nid: first\n\n",
        blocks: &[
            Block {
                before: "event: message\nid: $serial\n",
                ..LF
            },
            Block {
                after: "\nid: $serial\nretry: 10\n\n",
                ..LF
            },
            Block {
                before: "\n\n\ndata\n\ndata:\n\n",
                ..LF
            },
            Block {
                before: "colour: blue\ndata\n",
                ..LF
            },
            Block {
                before: "datum: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"WRONG\"}}]}\n\n",
                ..LF
            },
        ],
        ..VLLM.lines
    },
    ..VLLM
};

/// A comment before every event, and in some.
pub(in super::super) const COMMENTS: Habits = Habits {
    lines: Lines {
        first: ": hello\n\n",
        blocks: &[
            Block {
                before: ": keep-alive\n\n",
                ..LF
            },
            Block {
                before: ":\n: data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"WRONG\"}}]}\n",
                ..LF
            },
        ],
        ..VLLM.lines
    },
    ..VLLM
};

/// The stream goes on after `[DONE]`: a token, something that is not JSON, an error.
pub(in super::super) const AFTER_DONE: Habits = Habits {
    lines: Lines {
        late: &[
            r#"{"choices":[{"index":0,"delta":{"content":"LATE"}}]}"#,
            "not json",
            r#"{"error":{"message":"late"}}"#,
        ],
        ..VLLM.lines
    },
    ..VLLM
};
