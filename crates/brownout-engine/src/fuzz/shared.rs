//! The engine's end of the memory that it shares with executions.

use super::{FuzzServerError, FuzzTarget};
use crate::sys::memory::{self, FuzzMap};
use brownout_ring::fuzz::{
    FILES, FuzzPage, LIBRARY_BYTES, MAX_PATH, PathText, library, mode, station, turn,
};
use brownout_ring::watch::{self, Order};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

pub(super) struct Shared(FuzzMap);

impl Shared {
    pub(super) fn map(wire: &File) -> io::Result<Self> {
        FuzzMap::map(wire).map(Self)
    }

    pub(super) fn page(&self) -> &FuzzPage {
        self.0.page()
    }

    /// Writes what the target has to know before it starts.
    pub(super) fn configure(
        &self,
        target: &FuzzTarget,
        input: &File,
    ) -> Result<(), FuzzServerError> {
        let page = self.page();
        if target.files.len() > FILES {
            return Err(FuzzServerError::TooManyFiles {
                given: target.files.len(),
                most: FILES,
            });
        }
        for (to, path) in page.files.iter().zip(&target.files) {
            put_path(to, path)?;
        }
        page.file_count.store(target.files.len() as u32, Relaxed);
        if target.comparisons {
            page.mode.store(mode::COMPARISONS, Relaxed);
        }
        let input = input.metadata().map_err(super::server::set_up)?;
        page.input_dev.store(input.dev(), Relaxed);
        page.input_ino.store(input.ino(), Relaxed);
        if let Some(function) = &target.fork_at {
            let head =
                watch::head(0, Order::None, function).ok_or(FuzzServerError::FunctionName)?;
            let entry = [&head, function.as_bytes()].concat();
            if entry.len() > MAX_PATH {
                return Err(FuzzServerError::FunctionName);
            }
            put_text(&page.fork_at, &entry);
        }
        let all = brownout_libraries::library_modules().map(|name| (library::ANY, name));
        let persistence = brownout_libraries::persistence_modules();
        let persistence = persistence.map(|name| (library::PERSISTENCE, name));
        let names: Vec<u8> = persistence
            .chain(all)
            .flat_map(|(kind, name)| [kind].into_iter().chain(name.bytes()).chain([0]))
            .collect();
        debug_assert!(names.len() < LIBRARY_BYTES);
        put(&page.libraries, &names);
        Ok(())
    }

    /// Forgets what the last execution has done, and begins another one.
    pub(super) fn begin_execution(&self, goal: u32) {
        let page = self.page();
        let changed = page.changed_count.load(Relaxed) as usize;
        for entry in page.changed.iter().take(changed) {
            let (file, number) = changed_page(entry.load(Relaxed));
            if let Some(word) = page
                .changed_bits
                .get(file)
                .and_then(|bits| bits.get(number / 64))
            {
                word.store(0, Relaxed);
            }
        }
        if changed > page.changed.len() {
            let all = page.changed_bits.iter().flatten();
            all.for_each(|word| word.store(0, Relaxed));
        }
        for counter in [
            &page.effects,
            &page.changed_count,
            &page.transition_count,
            &page.lost_transitions,
            &page.comparison_count,
            &page.translated,
        ] {
            counter.store(0, Relaxed);
        }
        self.0.clear_edges();
        let next = page.execution.load(Relaxed).wrapping_add(1).max(1);
        page.execution.store(next, Relaxed);
        page.goal.store(goal, Release);
    }

    /// Copies the counts of edges.
    pub(super) fn copy_edges(&self, to: &mut [u8]) {
        self.0.copy_edges(to);
    }

    /// The pages of persistent files that were stored to; `None` if they are not known.
    pub(super) fn changed_pages(&self) -> Option<Vec<(usize, u64)>> {
        let page = self.page();
        let unknown = brownout_ring::fuzz::effect::UNKNOWN_PAGES;
        let count = page.changed_count.load(Acquire) as usize;
        if page.effects.load(Relaxed) & unknown != 0 || count > page.changed.len() {
            return None;
        }
        let changed = page.changed.iter().take(count);
        let pages = changed.map(|entry| changed_page(entry.load(Relaxed)));
        Some(pages.map(|(file, number)| (file, number as u64)).collect())
    }

    /// Waits until a process comes to one of the stations, at most for `timeout`. The turn at each.
    pub(super) fn wait_at_stations(&self, timeout: Duration) -> [u32; 2] {
        let page = self.page();
        let turns = || [0, 1].map(|which| page.stations[which].turn.load(Acquire));
        let seen = page.arrivals.load(Acquire);
        let before = turns();
        if before[station::BEFORE_INPUT] == turn::NOBODY {
            memory::futex_wait(&page.arrivals, seen, timeout);
        }
        turns()
    }

    /// Lets the process at a station make a copy, and waits until it has. The id of the copy.
    pub(super) fn copy(&self, which: usize, mut is_alive: impl FnMut() -> bool) -> Option<u32> {
        const POLL_INTERVAL: Duration = Duration::from_millis(50);
        let station = &self.page().stations[which];
        station.copy.store(0, Relaxed);
        station.turn.store(turn::COPY, Release);
        memory::futex_wake(&station.turn);
        loop {
            let seen = self.page().arrivals.load(Acquire);
            if station.turn.load(Acquire) != turn::COPY {
                break;
            }
            memory::futex_wait(&self.page().arrivals, seen, POLL_INTERVAL);
            if station.turn.load(Acquire) == turn::COPY && !is_alive() {
                return None;
            }
        }
        Some(station.copy.load(Relaxed)).filter(|&pid| pid != 0)
    }

    /// No process waits at a station any more.
    pub(super) fn clear_station(&self, which: usize) {
        self.page().stations[which]
            .turn
            .store(turn::NOBODY, Release);
    }
}

/// The file and the number of the page in an entry of the list.
fn changed_page(entry: u64) -> (usize, usize) {
    ((entry >> 32) as usize, entry as u32 as usize)
}

fn put_path(to: &PathText, path: &Path) -> Result<(), FuzzServerError> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() > MAX_PATH {
        return Err(FuzzServerError::LongPath {
            path: path.to_owned(),
            most: MAX_PATH,
        });
    }
    put_text(to, bytes);
    Ok(())
}

fn put_text(to: &PathText, bytes: &[u8]) {
    put(&to.bytes, bytes);
    to.len.store(bytes.len() as u32, Release);
}

fn put(to: &[AtomicU8], bytes: &[u8]) {
    for (to, from) in to.iter().zip(bytes) {
        to.store(*from, Relaxed);
    }
}
