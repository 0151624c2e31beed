//! Reading a whole file, bounded.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// All bytes of `path`, when they are at most `bytes_max`. Named pipes are read too, so that
/// `<(...)` works in a shell.
///
/// # Errors
/// What the system says, and one of its own kinds for a directory, a device and a file too large.
pub(crate) fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            "it is a directory, not a file",
        ));
    }
    let too_large = || {
        let message = format!("it is larger than the limit of {bytes_max} bytes");
        io::Error::new(io::ErrorKind::FileTooLarge, message)
    };
    if metadata.len() > bytes_max {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).map_err(io::Error::other)?);
    file.by_ref().take(bytes_max).read_to_end(&mut bytes)?;
    if file.read(&mut [0])? != 0 {
        return Err(too_large());
    }
    Ok(bytes)
}
