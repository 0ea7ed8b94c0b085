//! Where symbolic bytes come from: system calls that read or map a source, and the strings that the program is started with.

use super::record::RECORDER;
use super::{activate, page};
use crate::sys::{self, is_err, linux};
use crate::target_memory;
use crate::translator::context::Context;
use crate::translator::syscall::attend_to;
use alloc::vec::Vec;
use brownout_ring::path::{PathPage, Source, source};
use core::sync::atomic::Ordering;

/// Calls that read files.
const READS: &[u32] = &[
    linux::__NR_read,
    linux::__NR_pread64,
    linux::__NR_readv,
    linux::__NR_preadv,
    linux::__NR_preadv2,
];
/// The kernel takes no more buffers at once.
const MOST_BUFFERS: u64 = 1024;
/// No string that a program is started with is longer.
const LONGEST_STRING: usize = 128 << 10;

/// Lets the calls be attended that can read symbolic bytes.
pub fn attend() {
    attend_to(READS);
    attend_to(&[linux::__NR_mmap]);
}

fn sources(page: &PathPage) -> impl Iterator<Item = (u32, &Source)> {
    let count = page.count.load(Ordering::Relaxed);
    (0..count).zip(&page.sources)
}

/// The source that a descriptor refers to.
fn source_of(fd: u64) -> Option<u32> {
    let page = page()?;
    let stat = sys::fstat(i32::try_from(fd).ok()?)?;
    let mut found = sources(page).filter(|(_, file)| {
        file.kind.load(Ordering::Relaxed) == source::FILE
            && file.dev.load(Ordering::Relaxed) == stat.st_dev
            && file.ino.load(Ordering::Relaxed) == stat.st_ino
    });
    found.next().map(|(number, _)| number)
}

/// A call that is about to read a source.
pub struct SymbolicRead {
    source: u32,
    offset: u64,
    buffers: Vec<(u64, u64)>,
}

/// What a call is about to read, if that is a source.
pub fn before(nr: u32, args: &[u64; 6]) -> Option<SymbolicRead> {
    if !READS.contains(&nr) {
        return None;
    }
    let source = source_of(args[0])?;
    const OWN_POSITION: u64 = u64::MAX;
    let has_position = match nr {
        linux::__NR_pread64 | linux::__NR_preadv => true,
        linux::__NR_preadv2 => args[3] != OWN_POSITION,
        _ => false,
    };
    let offset = match has_position {
        true => args[3],
        false => {
            // SAFETY: asks for the position, which stays.
            let raw = unsafe { crate::sys!(linux::__NR_lseek, args[0], 0, linux::SEEK_CUR) };
            (!is_err(raw)).then_some(raw)?
        }
    };
    let buffers = match nr {
        linux::__NR_read | linux::__NR_pread64 => alloc::vec![(args[1], args[2])],
        _ => (0..args[2].min(MOST_BUFFERS))
            .map_while(|index| target_memory::read::<[u64; 2]>(args[1] + 16 * index).ok())
            .map(|[addr, len]| (addr, len))
            .collect(),
    };
    Some(SymbolicRead {
        source,
        offset,
        buffers,
    })
}

impl SymbolicRead {
    /// The call has read this many bytes.
    pub fn finish(self, context: &Context, read: u64) {
        if read == 0 || !activate() {
            return;
        }
        let mut recorder = RECORDER.lock();
        recorder.select(context.tid);
        let (mut offset, mut left) = (self.offset, read);
        for (addr, len) in self.buffers {
            let len = len.min(left);
            recorder.symbolic(self.source, offset, addr, len);
            offset += len;
            left -= len;
        }
    }
}

/// A call is about to be served: notes it if it maps a source.
pub fn before_map(context: &mut Context) {
    if context.cpu.syscall_number() != u64::from(linux::__NR_mmap) {
        return;
    }
    let [_, len, _, flags, fd, offset] = context.cpu.syscall_arguments();
    if flags & u64::from(linux::MAP_ANONYMOUS) != 0 {
        return;
    }
    if let Some(source) = source_of(fd)
        && activate()
    {
        let size = sys::fstat(fd as i32).map_or(0, |stat| stat.st_size as u64);
        let len = len.min(size.saturating_sub(offset));
        context.areas.path.mapping = Some((source, offset, len));
    }
}

/// Whether the program is started with symbolic strings.
pub fn any_at_entry(page: &PathPage) -> bool {
    sources(page).any(|(_, source)| source.kind.load(Ordering::Relaxed) != source::FILE)
}

/// The program begins: the strings on its stack become symbolic.
pub fn at_entry(context: &mut Context) {
    let Some(page) = page() else { return };
    if !activate() {
        return;
    }
    let stack = context.cpu.stack_pointer();
    let count = target_memory::read::<u64>(stack).unwrap_or(0);
    let arguments = target_memory::read_pointers(stack + 8).unwrap_or_default();
    let variables = target_memory::read_pointers(stack + 8 * (count + 2)).unwrap_or_default();
    let text = |at: u64| target_memory::read_cstr(at, LONGEST_STRING).unwrap_or_default();
    let mut recorder = RECORDER.lock();
    recorder.select(context.tid);
    for (index, source) in sources(page) {
        let number = source.number.load(Ordering::Relaxed) as usize;
        let found = match source.kind.load(Ordering::Relaxed) {
            source::ARGUMENT => arguments.get(number).map(|&at| (at, text(at).len())),
            source::VARIABLE => {
                let name = source.name.get(..number).unwrap_or_default();
                let of_name =
                    |text: &[u8]| text.starts_with(name) && text.get(name.len()) == Some(&b'=');
                let mut known = variables.iter().map(|&at| (at, text(at)));
                let found = known.find(|(_, text)| of_name(text));
                let skipped = name.len() + 1;
                found.map(|(at, text)| (at + skipped as u64, text.len() - skipped))
            }
            _ => None,
        };
        // The NUL at the end is not a part of the input: its position says how long the string is.
        if let Some((at, len)) = found.filter(|&(_, len)| len > 1) {
            recorder.symbolic(index, 0, at, len as u64 - 1);
        }
    }
}
