//! CSV: one column holds the prompts, and one may hold the lengths of the answers.

use csv::{ErrorKind, Position, ReaderBuilder, StringRecord};

use crate::error::WorkloadError;
use crate::load::{LoadOptions, Text};
use crate::sample::{Dataset, OutputLength, Sample};

const PROMPTS: [&str; 3] = ["prompt", "text_input", "text"];
const OUTPUTS: [&str; 3] = ["output_tokens", "output_length", "max_tokens"];

/// Whether the first record names a column that holds prompts.
pub(crate) fn has_prompts(text: &str) -> bool {
    let mut reader = ReaderBuilder::new().from_reader(text.as_bytes());
    let header = reader.headers();
    header.is_ok_and(|names| {
        names
            .iter()
            .any(|name| PROMPTS.contains(&name.trim_ascii()))
    })
}

pub(crate) fn parse(file: &Text<'_>, options: &LoadOptions<'_>) -> Result<Dataset, WorkloadError> {
    let mut reader = ReaderBuilder::new().from_reader(file.text.as_bytes());
    let broken = |cause: &csv::Error| match (cause.kind(), cause.position()) {
        (
            ErrorKind::UnequalLengths {
                expected_len, len, ..
            },
            Some(position),
        ) => {
            let problem = format!("{len} fields, where the header has {expected_len}");
            file.line(position.line(), problem)
        }
        _ => file.wrong(cause.to_string(), COLUMN),
    };
    let header = reader.headers().map_err(|cause| broken(&cause))?.clone();
    let columns = Columns::find(file, &header, options)?;
    let mut dataset = Dataset::default();
    let mut record = StringRecord::new();
    let mut last = None;
    while reader
        .read_record(&mut record)
        .map_err(|cause| broken(&cause))?
    {
        let line = record.position().map_or(0, Position::line);
        if record.as_slice().len() > options.line_bytes_max {
            let problem = format!(
                "a record above the limit of {} bytes",
                options.line_bytes_max
            );
            return Err(file.line(line, problem));
        }
        file.room(dataset.samples.len(), options)?;
        let sample = columns
            .sample(&record)
            .map_err(|problem| file.line(line, problem))?;
        dataset.samples.push(sample);
        last = record.position().cloned();
    }
    if dataset.samples.is_empty() {
        return Err(file.wrong("it has a header and no records", COLUMN));
    }
    if let Some(line) = last.and_then(|position| open_quotation(file.text, &position)) {
        return Err(file.line(
            line,
            "a quotation that is still open at the end of the file",
        ));
    }
    let unused = header.len() - 1 - usize::from(columns.output.is_some());
    if unused > 0 {
        dataset
            .notes
            .push(format!("{unused} of {} columns are not used", header.len()));
    }
    Ok(dataset)
}

const COLUMN: &str = "a CSV data set has a header line, with a column `prompt` or one that \
                      --dataset-column names, and one record for each sample";

/// Which fields of a record count.
struct Columns {
    prompt: usize,
    output: Option<usize>,
    /// Of the length column: whether its lengths are limits.
    limits: bool,
}

impl Columns {
    fn find(
        file: &Text<'_>,
        header: &StringRecord,
        options: &LoadOptions<'_>,
    ) -> Result<Self, WorkloadError> {
        let place = |name: &str| header.iter().position(|column| column.trim_ascii() == name);
        let named = |name: &str| {
            let all: Vec<_> = header.iter().take(20).collect();
            let missing = || file.wrong(format!("no column `{name}` among {all:?}"), COLUMN);
            place(name).ok_or_else(missing)
        };
        let prompt = match &options.prompt_column {
            Some(name) => named(name)?,
            None if header.len() == 1 => 0,
            None => match PROMPTS.into_iter().find_map(place) {
                Some(column) => column,
                None => named(PROMPTS[0])?,
            },
        };
        let output = match &options.output_column {
            Some(name) => Some(named(name)?),
            None => OUTPUTS.into_iter().find_map(place),
        };
        let limits = output.is_some_and(|column| header[column].trim_ascii() == "max_tokens");
        Ok(Self {
            prompt,
            output: output.filter(|column| *column != prompt),
            limits,
        })
    }

    fn sample(&self, record: &StringRecord) -> Result<Sample, String> {
        let prompt = &record[self.prompt];
        if prompt.is_empty() {
            return Err("the prompt is empty".to_owned());
        }
        let mut sample = Sample::prompt(prompt);
        if let Some(field) = self.output.map(|column| record[column].trim_ascii())
            && !field.is_empty()
        {
            let tokens = field
                .parse()
                .ok()
                .filter(|tokens| *tokens > 0)
                .ok_or_else(|| {
                    let shown: String = field.chars().take(40).collect();
                    format!("the length `{shown}` is not a number of tokens from 1 on")
                })?;
            let limit = OutputLength::AtMost(tokens);
            sample.output = Some(if self.limits {
                limit
            } else {
                OutputLength::Exact(tokens)
            });
        }
        Ok(sample)
    }
}

/// The line of the last record, if it is a quotation that nothing closes: the reader takes the
/// end of the file for its end, and every record in it for text.
fn open_quotation(text: &str, last: &Position) -> Option<u64> {
    let record = &text.as_bytes()[usize::try_from(last.byte()).ok()?..];
    let quotes = memchr::memchr_iter(b'"', record).count();
    let lines = memchr::memchr_iter(b'\n', record.trim_ascii_end()).count();
    (quotes % 2 == 1 && lines > 0).then(|| last.line())
}
