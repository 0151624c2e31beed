use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::count::UNFINISHED;
use super::spool::{self, HEAD_BYTES, Head, Next};
use super::{JSONL, RecordsError, SPOOL, line};

/// Bytes read and written at a time.
pub(super) const BLOCK_BYTES: usize = 256 << 10;

/// What was found in a result folder whose run did not end by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Lines made from the spool.
    pub converted: u64,
    /// Unfinished records that were cut off the end of a file.
    pub cut: u64,
}

/// Makes `records.jsonl` whole after a kill: cuts an unfinished last line off, and turns the spool,
/// if there is one, into lines. A folder that is whole already is left as it is; a kill in between
/// does no harm.
///
/// # Errors
/// When a file can't be read or written, when the run is not over, or when the spool is none that
/// this version can read.
pub fn recover(folder: &Path) -> Result<Recovered, RecordsError> {
    let (jsonl, spool) = (folder.join(JSONL), folder.join(SPOOL));
    let spooled = spool.exists();
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let mut lines = match options.create(spooled).truncate(false).open(&jsonl) {
        Ok(lines) => lines,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Recovered::default()),
        Err(error) => return Err(RecordsError::file("open", &jsonl)(error)),
    };
    lock(&lines, &jsonl)?;
    // A count of tokens that was killed: the lines that it was made from are all there.
    let _ = fs::remove_file(folder.join(UNFINISHED));
    if spooled {
        return convert(&mut lines, folder);
    }
    let cut = cut_partial_line(&mut lines).map_err(RecordsError::file("repair", &jsonl))?;
    Ok(Recovered { converted: 0, cut })
}

/// Takes the file for this process until it is closed. A file system that has no locks, and a file
/// that is none, do without.
pub(super) fn lock(file: &File, path: &Path) -> Result<(), RecordsError> {
    let regular = file.metadata().is_ok_and(|data| data.is_file());
    match file.try_lock() {
        Err(TryLockError::WouldBlock) if regular => Err(RecordsError::Busy { path: path.into() }),
        _ => Ok(()),
    }
}

/// Makes lines of the spool, at the place in `lines` where they belong, and removes it. On failure
/// the lines end where the spool begins, and the spool stays.
pub(super) fn convert(lines: &mut File, folder: &Path) -> Result<Recovered, RecordsError> {
    let (jsonl, path) = (folder.join(JSONL), folder.join(SPOOL));
    let file = File::open(&path).map_err(RecordsError::file("open", &path))?;
    let mut input = BufReader::with_capacity(BLOCK_BYTES, file);
    let mut head = [0; HEAD_BYTES];
    let found = match input.read_exact(&mut head) {
        Ok(()) => Some(
            Head::from_bytes(&head)
                .ok_or_else(|| RecordsError::NotASpool { path: path.clone() })?,
        ),
        // Killed before the head was written.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
        Err(error) => return Err(RecordsError::file("read", &path)(error)),
    };
    let write = |error| RecordsError::file("write", &jsonl)(error);
    let begin = |lines: &mut File, at: Option<u64>| -> io::Result<u64> {
        if let Some(at) = at
            && lines.metadata()?.len() > at
        {
            lines.set_len(at)?;
        }
        let cut = cut_partial_line(lines)?;
        lines.seek(SeekFrom::End(0))?;
        Ok(cut)
    };
    let mut recovered = Recovered {
        converted: 0,
        cut: begin(lines, found.map(|head| head.lines_bytes)).map_err(write)?,
    };
    if let Some(head) = found
        && let Err(error) = append(lines, &mut input, head.origin, &mut recovered)
    {
        let _ = begin(lines, Some(head.lines_bytes));
        return Err(match error {
            Failed::Read(error) => RecordsError::file("read", &path)(error),
            Failed::Write(error) => write(error),
        });
    }
    fs::remove_file(&path).map_err(RecordsError::file("remove", &path))?;
    Ok(recovered)
}

enum Failed {
    Read(io::Error),
    Write(io::Error),
}

fn append(
    lines: &mut File,
    input: &mut impl Read,
    origin: line::Origin,
    recovered: &mut Recovered,
) -> Result<(), Failed> {
    let (mut text, mut entry) = (Vec::with_capacity(BLOCK_BYTES + 4096), Vec::new());
    loop {
        match spool::read(input, &mut entry).map_err(Failed::Read)? {
            Next::Entry => {}
            Next::Cut => {
                recovered.cut += 1;
                break;
            }
            Next::End => break,
        }
        let Some(decoded) = spool::decode(&entry) else {
            recovered.cut += 1;
            continue;
        };
        line::write(&mut text, &decoded, origin);
        recovered.converted += 1;
        if text.len() >= BLOCK_BYTES {
            lines.write_all(&text).map_err(Failed::Write)?;
            text.clear();
        }
    }
    lines.write_all(&text).map_err(Failed::Write)
}

/// Cuts the file after its last line feed; tells whether there was something to cut, 0 or 1.
fn cut_partial_line(file: &mut File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let whole = end_of_last_line(file, length)?;
    if whole == length {
        return Ok(0);
    }
    file.set_len(whole)?;
    Ok(1)
}

/// The position after the last line feed, found from the end; 0 when there is none.
fn end_of_last_line(file: &mut File, length: u64) -> io::Result<u64> {
    let mut block = [0; 4096];
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(block.len() as u64);
        let size = usize::try_from(end - start).unwrap_or(block.len());
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut block[..size])?;
        if let Some(at) = block[..size].iter().rposition(|&byte| byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}
