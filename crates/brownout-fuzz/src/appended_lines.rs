//! Files to which whole lines are appended, also after a process was killed, or the disk was full, in the middle of one.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

/// Opens a file, or creates it, and removes a line that was cut off.
pub fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let mut file = options.read(true).append(true).create(true).open(path)?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let end = text.iter().rposition(|&byte| byte == b'\n');
    let whole = end.map_or(0, |end| end + 1);
    if whole < text.len() {
        file.set_len(whole as u64)?;
    }
    Ok(file)
}

/// Appends a line, which ends with a newline; or nothing, if that fails.
pub fn append(file: &mut File, line: &[u8]) -> io::Result<()> {
    let before = file.seek(SeekFrom::End(0))?;
    file.write_all(line).inspect_err(|_| {
        // If this fails, too, the next process removes the line.
        let _ = file.set_len(before);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_cut_off_does_not_spoil_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list");
        std::fs::write(&path, "one\ntwo\nthr").unwrap();
        let mut file = open(&path).unwrap();
        append(&mut file, b"four\n").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one\ntwo\nfour\n");
        std::fs::write(&path, "on").unwrap();
        open(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");
    }
}
