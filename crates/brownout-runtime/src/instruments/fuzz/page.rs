//! The memory that the process shares with the engine: configuration, stations, counts.

use crate::wire;
use alloc::vec::Vec;
use brownout_ring::fuzz::{FILES, FuzzPage, PAGE, PathText, effect};
use core::sync::atomic::{AtomicPtr, Ordering};

static SHARED: AtomicPtr<FuzzPage> = AtomicPtr::new(core::ptr::null_mut());

/// Maps the memory.
pub fn create() {
    let Some(address) = wire::map(wire::READ_WRITE, PAGE, size_of::<FuzzPage>()) else {
        crate::fatal::unsupported(format_args!("the engine cannot map what executions count"));
    };
    SHARED.store(address as *mut FuzzPage, Ordering::Relaxed);
}

/// The memory, if executions are counted.
#[inline]
pub fn page() -> Option<&'static FuzzPage> {
    // SAFETY: null, or a mapping of that size that is never unmapped; every field is atomic.
    unsafe { SHARED.load(Ordering::Relaxed).as_ref() }
}

/// Notes [`effect`] bits of the execution.
pub fn note(effects: u32) {
    if let Some(page) = page()
        && page.effects.load(Ordering::Relaxed) & effects != effects
    {
        page.effects.fetch_or(effects, Ordering::Relaxed);
    }
}

/// Notes that a system call may have changed files that are not persistent.
pub fn note_files(nr: u32) {
    if let Some(page) = page() {
        page.effect_call.store(nr, Ordering::Relaxed);
    }
    note(effect::FILES);
}

/// The bytes of a text.
pub fn text(text: &PathText) -> Vec<u8> {
    let len = text.len.load(Ordering::Relaxed) as usize;
    let bytes = text.bytes.iter().take(len);
    bytes.map(|byte| byte.load(Ordering::Relaxed)).collect()
}

/// Puts a text there that fits.
pub fn put_text(to: &PathText, bytes: &[u8]) {
    for (to, from) in to.bytes.iter().zip(bytes) {
        to.store(*from, Ordering::Relaxed);
    }
    let len = bytes.len().min(to.bytes.len());
    to.len.store(len as u32, Ordering::Release);
}

/// The paths of the persistent files.
pub fn persistent_paths() -> Vec<Vec<u8>> {
    let Some(page) = page() else {
        return Vec::new();
    };
    let count = page.file_count.load(Ordering::Relaxed) as usize;
    page.files.iter().take(count.min(FILES)).map(text).collect()
}
