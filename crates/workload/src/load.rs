//! From what the user named to samples in memory.

use std::path::{Path, PathBuf};

use crate::error::WorkloadError;
use crate::lines;
use crate::read::read_bounded;
use crate::sample::{Dataset, Sample};
use crate::sharegpt;
use crate::synthetic::{Generator, Synthetic};
use crate::table;
use crate::tokenizer::Tokenizer;

/// Where samples come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// `--dataset FILE`: JSONL, ShareGPT or CSV.
    File(PathBuf),
    /// `--prompt TEXT`: one sample.
    Prompt(String),
    /// Made up, see [`Synthetic`].
    Synthetic(Synthetic),
}

/// The form of a data set file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A table with a header line; one column holds the prompts.
    Csv,
    /// One JSON object per line, with `prompt`, `text_input`, `text`, `messages` or
    /// `conversations`.
    Jsonl,
    /// A JSON array of `{"id": .., "conversations": [{"from": "human", "value": ..}, ..]}`.
    ShareGpt,
}

/// How to read a data set, and the limits on it.
#[derive(Debug, Clone)]
pub struct LoadOptions<'a> {
    /// Overrides the detection by content.
    pub format: Option<Format>,
    /// The CSV column that holds the prompts. Default: `prompt`, `text_input` or `text`, else the
    /// only column.
    pub prompt_column: Option<String>,
    /// The CSV column that holds the lengths of the answers, exact ones unless it is called
    /// `max_tokens`. Default: `output_tokens`, `output_length` or `max_tokens`, if there is one.
    pub output_column: Option<String>,
    /// Counts answers for `answer_lengths`, and decides what "exact" means for synthetic prompts.
    pub tokenizer: Option<&'a Tokenizer>,
    /// Ask for at most as many tokens as the recorded answer of a conversation has.
    pub answer_lengths: bool,
    /// The largest file. Memory while loading is at most the file, the samples' text, which is
    /// part of it, and some 100 bytes for each sample and for each of its extra members.
    pub file_bytes_max: u64,
    /// The longest line of JSONL and the longest record of CSV.
    pub line_bytes_max: usize,
    /// The most samples of a file.
    pub samples_max: u32,
}

impl Default for LoadOptions<'_> {
    /// Detection, no tokenizer, 1 GiB a file, 16 MiB a line, 10 million samples.
    fn default() -> Self {
        Self {
            format: None,
            prompt_column: None,
            output_column: None,
            tokenizer: None,
            answer_lengths: false,
            file_bytes_max: 1 << 30,
            line_bytes_max: 16 << 20,
            samples_max: 10_000_000,
        }
    }
}

/// Loads the samples of a run.
///
/// ```
/// use ridgeline_workload::{LoadOptions, Source, load};
///
/// let dataset = load(&Source::Prompt("Why?".to_owned()), &LoadOptions::default())?;
/// assert_eq!(dataset.samples_count(), 1);
/// # Ok::<(), ridgeline_workload::WorkloadError>(())
/// ```
///
/// # Errors
/// When the source is not what it claims to be, or is beyond a limit: one message that names the
/// file, the line where there is one, the cause and the remedy.
pub fn load(source: &Source, options: &LoadOptions<'_>) -> Result<Dataset, WorkloadError> {
    match source {
        Source::File(path) => load_file(path, options),
        Source::Prompt(text) if text.is_empty() => Err(WorkloadError::Option {
            option: "--prompt",
            problem: "the text is empty, and servers refuse an empty prompt".to_owned(),
        }),
        Source::Prompt(text) => Ok(Dataset {
            name: "prompt".to_owned(),
            samples: vec![Sample::prompt(text.as_str())],
            ..Dataset::default()
        }),
        Source::Synthetic(synthetic) => Generator::new(*synthetic, options.tokenizer)?.dataset(),
    }
}

fn load_file(path: &Path, options: &LoadOptions<'_>) -> Result<Dataset, WorkloadError> {
    if options.answer_lengths && options.tokenizer.is_none() {
        return Err(WorkloadError::Option {
            option: "--answer-lengths",
            problem: "needs --tokenizer to count the recorded answers".to_owned(),
        });
    }
    let bytes =
        read_bounded(path, options.file_bytes_max).map_err(|cause| WorkloadError::Read {
            path: path.to_owned(),
            cause,
        })?;
    let file = Text {
        path,
        text: checked(path, &bytes)?,
    };
    let mut dataset = match options.format {
        Some(format) => format,
        None => detect(&file, options)?,
    }
    .parse(&file, options)?;
    dataset.name = path
        .file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned();
    Ok(dataset)
}

impl Format {
    fn parse(self, file: &Text<'_>, options: &LoadOptions<'_>) -> Result<Dataset, WorkloadError> {
        match self {
            Self::Csv => table::parse(file, options),
            Self::Jsonl => lines::parse(file, options),
            Self::ShareGpt => sharegpt::parse(file, options),
        }
    }
}

/// The text of a file, and how to complain about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'a> {
    pub(crate) path: &'a Path,
    pub(crate) text: &'a str,
}

impl Text<'_> {
    pub(crate) fn wrong(self, problem: impl Into<String>, remedy: &'static str) -> WorkloadError {
        WorkloadError::File {
            path: self.path.to_owned(),
            problem: problem.into(),
            remedy,
        }
    }

    pub(crate) fn line(self, line: u64, problem: impl Into<String>) -> WorkloadError {
        WorkloadError::Line {
            path: self.path.to_owned(),
            line,
            problem: problem.into(),
        }
    }

    /// Fails when one more sample would be one too many.
    pub(crate) fn room(
        self,
        samples: usize,
        options: &LoadOptions<'_>,
    ) -> Result<(), WorkloadError> {
        if samples < options.samples_max as usize {
            return Ok(());
        }
        let problem = format!("it holds more than {} samples", options.samples_max);
        Err(self.wrong(problem, "use a part of the file"))
    }
}

/// The file as text without its byte order mark, or what it is instead of text.
fn checked<'a>(path: &Path, bytes: &'a [u8]) -> Result<&'a str, WorkloadError> {
    let wrong = |problem: String, remedy| {
        Err(WorkloadError::File {
            path: path.to_owned(),
            problem,
            remedy,
        })
    };
    for (magic, kind) in [
        (&b"\x1f\x8b"[..], "gzip"),
        (b"PK\x03\x04", "zip"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"BZh", "bzip2"),
        (b"\xfd7zXZ", "xz"),
    ] {
        if bytes.starts_with(magic) {
            return wrong(format!("it is compressed ({kind})"), "unpack it first");
        }
    }
    if bytes.starts_with(b"PAR1") {
        return wrong("it is a Parquet file".to_owned(), "convert it to JSONL");
    }
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return wrong("it is UTF-16 text".to_owned(), "convert it to UTF-8");
    }
    if let Some(offset) = memchr::memchr(0, bytes) {
        let problem = format!("it is not a text file: a NUL byte at offset {offset}");
        return wrong(problem, FORMS);
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(cause) => {
            let line = memchr::memchr_iter(b'\n', &bytes[..cause.valid_up_to()]).count() + 1;
            return wrong(
                format!("it is not UTF-8 text: {cause}, in line {line}"),
                FORMS,
            );
        }
    };
    if text.trim_ascii().is_empty() {
        return wrong("it is empty".to_owned(), FORMS);
    }
    Ok(text)
}

pub(crate) const FORMS: &str = "a data set is JSONL (one JSON object with `prompt` or `messages` \
                                per line), a ShareGPT JSON array, or CSV with a column `prompt`";

/// A JSON array is ShareGPT, a JSON object starts JSONL, and CSV has a name that is known in its
/// header, a name ending in `.csv`, or was told its column.
fn detect(file: &Text<'_>, options: &LoadOptions<'_>) -> Result<Format, WorkloadError> {
    match file.text.trim_ascii_start().as_bytes()[0] {
        b'[' => return Ok(Format::ShareGpt),
        b'{' => return Ok(Format::Jsonl),
        _ => {}
    }
    let named = file
        .path
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("csv"));
    if named || options.prompt_column.is_some() || table::has_prompts(file.text) {
        return Ok(Format::Csv);
    }
    Err(file.wrong("it is neither JSON nor CSV with a column `prompt`", FORMS))
}
