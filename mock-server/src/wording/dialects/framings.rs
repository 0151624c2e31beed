//! The same streams in other HTTP.

use super::super::habits::{Cut, Habits, Http, Spelling, Transfer};
use super::servers::VLLM;

const HTTP: Http = VLLM.http;

/// The same line ten times.
macro_rules! ten {
    ($line:expr) => {
        concat!(
            $line, $line, $line, $line, $line, $line, $line, $line, $line, $line
        )
    };
}

/// Chunks of 23 bytes: they begin in names, in strings and between line ends.
pub(in super::super) const SPLIT_CHUNKS: Habits = Habits {
    http: Http {
        cut: Cut::Bytes(23),
        whole_chunked: true,
        ..HTTP
    },
    ..VLLM
};

/// A chunk for each byte.
pub(in super::super) const BYTE_CHUNKS: Habits = Habits {
    http: Http {
        cut: Cut::Bytes(1),
        whole_chunked: true,
        ..HTTP
    },
    ..VLLM
};

/// All events of a write in one chunk.
pub(in super::super) const SHARED_CHUNKS: Habits = Habits {
    http: Http {
        cut: Cut::Write,
        ..HTTP
    },
    ..VLLM
};

/// Chunk sizes in upper case, with leading zeros, with extensions.
pub(in super::super) const CHUNK_SPELLINGS: Habits = Habits {
    http: Http {
        spellings: &[
            Spelling {
                upper: true,
                digits_min: 8,
                extension: "",
            },
            Spelling {
                upper: false,
                digits_min: 1,
                extension: ";sig=\"a;b\";n=1",
            },
            Spelling {
                upper: true,
                digits_min: 4,
                extension: ";last",
            },
        ],
        last_chunk: "000;end\r\n\r\n",
        ..HTTP
    },
    ..VLLM
};

/// Fields after the last chunk.
pub(in super::super) const TRAILERS: Habits = Habits {
    http: Http {
        last_chunk: "0\r\nX-Cost: 0.0001\r\nServer-Timing: gen;dur=12\r\n\r\n",
        ..HTTP
    },
    ..VLLM
};

/// Chunks, and a length that is wrong and does not count.
pub(in super::super) const CHUNKED_AND_LENGTH: Habits = Habits {
    http: Http {
        chunked_fields: "content-length: 12\r\ntransfer-encoding: chunked\r\n",
        ..HTTP
    },
    ..VLLM
};

/// No framing but the end of the connection.
pub(in super::super) const CLOSE_DELIMITED: Habits = Habits {
    http: Http {
        transfer: Transfer::Close,
        ..HTTP
    },
    ..VLLM
};

/// The same in HTTP/1.0.
pub(in super::super) const HTTP_10: Habits = Habits {
    http: Http {
        version: "HTTP/1.0",
        transfer: Transfer::Close,
        ..HTTP
    },
    ..VLLM
};

/// A gateway that collects the stream, and sends it with its length when it is over.
pub(in super::super) const BUFFERED: Habits = Habits {
    http: Http {
        transfer: Transfer::Length,
        ..HTTP
    },
    ..VLLM
};

/// The connection ends after each response.
pub(in super::super) const CONNECTION_CLOSE: Habits = Habits {
    http: Http {
        closes: true,
        ..HTTP
    },
    ..VLLM
};

/// Names in any case, values with space around them or with none, a folded line, an empty value, and a hundred
/// fields more.
pub(in super::super) const HEADER_SPELLINGS: Habits = Habits {
    http: Http {
        stream_fields: concat!(
            "content-TYPE:text/event-stream\r\nX-Folded: one\r\n two\r\n\tthree\r\nX-Empty:\r\n",
            ten!(ten!("X-Many: 0123456789\r\n")),
        ),
        chunked_fields: "TRANSFER-ENCODING: \t chunked \t\r\n",
        ..HTTP
    },
    ..VLLM
};

/// Interim responses before the one that counts.
pub(in super::super) const INTERIM: Habits = Habits {
    http: Http {
        interim: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n",
        ..HTTP
    },
    ..VLLM
};
