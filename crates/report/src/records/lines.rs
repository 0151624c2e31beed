use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use serde::Deserialize;

use super::JSONL;
use crate::ReportError;

/// The lines of a folder's `records.jsonl`, one after the other.
#[derive(Debug)]
pub(crate) struct Lines {
    input: BufReader<File>,
    bytes: Vec<u8>,
    number: u64,
}

/// Why there is no next line.
#[derive(Debug)]
pub(crate) enum LineError {
    /// The file can't be read.
    Read(io::Error),
    /// Line `number`, from 1, is none.
    Form {
        number: u64,
        error: serde_json::Error,
    },
}

impl LineError {
    /// What it is to whoever wanted the records of `folder`.
    pub(crate) fn of(self, folder: &Path) -> ReportError {
        let path = folder.join(JSONL);
        match self {
            Self::Read(source) => ReportError::Read { path, source },
            Self::Form { number, error } => ReportError::Form {
                path,
                problem: format!("line {number}: {error}"),
            },
        }
    }
}

impl Lines {
    /// `None` when there is no such file.
    pub(crate) fn open(folder: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(folder.join(JSONL)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        Ok(Some(Self {
            input: BufReader::with_capacity(256 << 10, file),
            bytes: Vec::new(),
            number: 0,
        }))
    }

    /// The next line; `None` at the end. A last line that a kill cut short is none.
    pub(crate) fn next<'a, T: Deserialize<'a>>(&'a mut self) -> Result<Option<T>, LineError> {
        self.bytes.clear();
        let read = self.input.read_until(b'\n', &mut self.bytes);
        if read.map_err(LineError::Read)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        match serde_json::from_slice(&self.bytes) {
            Ok(line) => Ok(Some(line)),
            Err(_) if !self.bytes.ends_with(b"\n") => Ok(None),
            Err(error) => Err(LineError::Form {
                number: self.number,
                error,
            }),
        }
    }

    /// The number of the line that was read last, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}
