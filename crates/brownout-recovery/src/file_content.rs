//! Writing an image into a persistent file of a sandbox.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use brownout_trace::replay::{Content, PAGE};
use rustix::fs::{FallocateFlags, SeekFrom};

/// Bytes compared at a time.
const WINDOW: usize = 64 * PAGE;

/// Makes `file` hold `content`. Pages that are already right are not written again, so that restoring the file after a
/// recovery that changed little is cheap. Holes of both are skipped.
pub fn write_content(content: &Content, file: &File) -> io::Result<()> {
    if file.metadata()?.len() != content.len() {
        file.set_len(content.len())?;
    }
    let page = PAGE as u64;
    let mut window = vec![0; WINDOW];
    let mut held: Vec<(u64, u64)> = Vec::new();
    let mut at = 0;
    while let Some((start, end)) = data_from(file, at)? {
        let (first, last) = (start / page, end.div_ceil(page));
        held.push((first, last));
        let mut number = first;
        while number < last {
            let count = (WINDOW / PAGE).min((last - number) as usize);
            let window = &mut window[..count * PAGE];
            read_padded(file, number * page, window)?;
            for (number, old) in (number..).zip(window.chunks_exact(PAGE)) {
                correct(content, file, number, old)?;
            }
            number += count as u64;
        }
        at = last * page;
    }
    for (number, bytes) in content.pages() {
        let before = held.partition_point(|&(first, _)| first <= number);
        let was_there = before > 0 && number < held[before - 1].1;
        if !was_there {
            write_page(content, file, number, bytes)?;
        }
    }
    Ok(())
}

/// Whether `file` holds `content`.
pub fn holds(content: &Content, file: &File) -> io::Result<bool> {
    if file.metadata()?.len() != content.len() {
        return Ok(false);
    }
    let page = PAGE as u64;
    let is_empty = |number: u64| {
        let bytes = content.page(number);
        bytes.is_none_or(|bytes| bytes.iter().all(|&byte| byte == 0))
    };
    let mut held = [0; PAGE];
    let mut seen: Vec<(u64, u64)> = Vec::new();
    let mut at = 0;
    while let Some((start, end)) = data_from(file, at)? {
        let (first, last) = (start / page, end.div_ceil(page));
        for number in first..last {
            read_padded(file, number * page, &mut held)?;
            let mut expected = [0; PAGE];
            content.read(number * page, &mut expected);
            if held != expected {
                return Ok(false);
            }
        }
        seen.push((first, last));
        at = last * page;
    }
    let in_hole = |number: u64| {
        let before = seen.partition_point(|&(first, _)| first <= number);
        before == 0 || number >= seen[before - 1].1
    };
    let last = content.len().div_ceil(page);
    let mut pages = content.pages();
    Ok(pages.all(|(number, _)| number >= last || !in_hole(number) || is_empty(number)))
}

fn correct(content: &Content, file: &File, number: u64, old: &[u8]) -> io::Result<()> {
    match content.page(number) {
        Some(bytes) if bytes[..] == *old => Ok(()),
        Some(bytes) => write_page(content, file, number, bytes),
        None if old.iter().all(|&byte| byte == 0) => Ok(()),
        None => {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(file, flags, number * PAGE as u64, PAGE as u64)?;
            Ok(())
        }
    }
}

fn write_page(content: &Content, file: &File, number: u64, bytes: &[u8]) -> io::Result<()> {
    let start = number * PAGE as u64;
    let len = content.len().saturating_sub(start).min(PAGE as u64) as usize;
    file.write_all_at(&bytes[..len], start)
}

/// The next stretch of a file that is not a hole.
pub fn data_from(file: &File, at: u64) -> io::Result<Option<(u64, u64)>> {
    let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(rustix::io::Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start))?;
    Ok(Some((start, end)))
}

/// Fills `out` from the file; bytes past the end of the file read as zeros.
pub fn read_padded(file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < out.len() {
        match file.read_at(&mut out[done..], offset + done as u64)? {
            0 => break,
            count => done += count,
        }
    }
    out[done..].fill(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Writes as offset, length and byte value.
    fn writes() -> impl Strategy<Value = Vec<(u64, usize, u8)>> {
        let offset = 0..(3 * WINDOW as u64);
        prop::collection::vec((offset, 1..9000usize, 0..4u8), 0..12)
    }

    fn content(len: u64, writes: &[(u64, usize, u8)]) -> Content {
        let mut content = Content::default();
        content.resize(len);
        for &(at, count, byte) in writes {
            let count = count.min(len.saturating_sub(at) as usize);
            content.write(at, &vec![byte; count]);
        }
        content
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_file_gets_the_content_regardless_of_what_it_held(
            old in writes(), new in writes(), old_len in 0..800_000u64, new_len in 0..800_000u64,
        ) {
            let file = tempfile::tempfile().unwrap();
            for (len, writes) in [(old_len, &old), (new_len, &new)] {
                let wanted = content(len, writes);
                write_content(&wanted, &file).unwrap();
                let mut expected = vec![0; len as usize];
                wanted.read(0, &mut expected);
                let mut found = vec![1; len as usize];
                file.read_exact_at(&mut found, 0).unwrap();
                prop_assert_eq!(file.metadata().unwrap().len(), len);
                prop_assert!(found == expected);
            }
        }
    }

    #[test]
    fn a_large_sparse_file_costs_what_it_holds() {
        let file = tempfile::tempfile().unwrap();
        let mut wanted = Content::default();
        wanted.resize(1 << 40);
        wanted.write(1 << 39, b"here");
        write_content(&wanted, &file).unwrap();
        write_content(&wanted, &file).unwrap();
        use std::os::unix::fs::MetadataExt as _;
        assert!(file.metadata().unwrap().blocks() <= 64);
    }
}
