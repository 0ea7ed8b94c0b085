//! Stations: where the process waits, and is copied for each execution.
//!
//! There are two. The first is before the process uses a persistent file: from there, a copy can be run on any starting image. The second
//! is before it uses the input, or before a function that the user names. A copy that is made at the first runs to the second and waits
//! there, or runs to its end; the engine decides that by [`goal`].
//!
//! A process with several threads cannot be copied: it passes the station, and the engine starts the target for each execution, or copies
//! it at the earlier station. The positions of files that are open at a station are shared by all copies; they are set back before each
//! copy is made.
//!
//! What a copy leaves in pipes, sockets and counters that it shares with the others is [taken out](SharedDescriptors) before the next copy
//! is made.
//!
//! What it can miss: locks on files, which copies share; what a copy takes out of a pipe or socket that was not empty.

use super::page::page;
use super::shared_descriptors::SharedDescriptors;
use crate::sys::{self, is_err, linux};
use crate::translator::context::Context;
use crate::translator::process;
use crate::wire;
use alloc::vec::Vec;
use brownout_ring::fuzz::{FuzzPage, Station, goal, turn};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Nanoseconds after which a waiting process looks whether the engine still exists.
const CHECK_INTERVAL: u64 = 1_000_000_000;
/// Descriptors that are set back.
pub const DESCRIPTORS: i32 = 256;

/// Whether the process has come to a station before.
static PASSED: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];
/// The process that may wait: the one that was started, or a copy of it; not one that the target has forked.
static MAIN: AtomicU32 = AtomicU32::new(0);

/// The calling process may wait at stations from now on.
pub fn become_main() {
    MAIN.store(sys::getpid(), Ordering::Relaxed);
}

/// Whether the calling process is the target's first one, or a copy of it.
pub fn is_main() -> bool {
    MAIN.load(Ordering::Relaxed) == sys::getpid()
}

/// Whether the process has been at a station.
pub fn is_passed(which: usize) -> bool {
    PASSED[which].load(Ordering::Relaxed)
}

/// The process has come to a station. Returns in each copy that is made there.
pub fn arrive(context: &mut Context, which: usize) {
    if PASSED[which].swap(true, Ordering::Relaxed) {
        return;
    }
    let Some(page) = page() else { return };
    if page.goal.load(Ordering::Relaxed) != goal::STATION || !is_main() {
        return;
    }
    let station = &page.stations[which];
    let mut threads = 0;
    process::for_each_thread(|_| threads += 1);
    if threads > 1 {
        station.threads.store(threads, Ordering::Relaxed);
        return give_turn(page, station, turn::PASSED);
    }
    station.pid.store(sys::getpid(), Ordering::Relaxed);
    let positions = positions();
    let shared = SharedDescriptors::now();
    loop {
        give_turn(page, station, turn::WAITING);
        while station.turn.load(Ordering::Acquire) == turn::WAITING {
            sys::futex_wait(&station.turn, turn::WAITING, CHECK_INTERVAL);
            if !wire::has_recorder() {
                sys::exit_group(0);
            }
        }
        positions.iter().for_each(|&(fd, position)| {
            seek(fd, position, linux::SEEK_SET);
        });
        shared.empty();
        let raw = process::fork_copy(context);
        if raw == 0 {
            return become_main();
        }
        let copy = if is_err(raw) { 0 } else { raw as u32 };
        station.copy.store(copy, Ordering::Relaxed);
    }
}

fn give_turn(page: &FuzzPage, station: &Station, turn: u32) {
    station.turn.store(turn, Ordering::Release);
    page.arrivals.fetch_add(1, Ordering::Release);
    sys::futex_wake(&page.arrivals);
}

/// The positions of the files that are open.
fn positions() -> Vec<(i32, u64)> {
    let positions = (0..DESCRIPTORS).map(|fd| (fd, seek(fd, 0, linux::SEEK_CUR)));
    positions.filter(|&(_, at)| !is_err(at)).collect()
}

fn seek(fd: i32, by: u64, from: u32) -> u64 {
    // SAFETY: changes nothing but the position of a file.
    unsafe { crate::sys!(linux::__NR_lseek, fd, by, from) }
}
