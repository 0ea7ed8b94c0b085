//! Decides when a thread that is held goes on, and when the target is ended.

use super::HoldPlan;
use crate::sys::memory::{HoldMap, Table};
use crate::sys::process::{self, Pid};
use brownout_ring::{SLOTS, slot};
use rustix::process::Signal;
use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often the threads are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Threads that have not run for so long wait for the one that is held, or for longer than it is worth waiting.
const IDLE_LIMIT: Duration = Duration::from_millis(200);

/// How long the others run on when one of them has acted: what it does next may do more harm.
const RUN_ON_TIME: Duration = Duration::from_millis(50);

/// What the events of the target show while a thread is held.
#[derive(Default)]
pub(crate) struct HoldProgress {
    /// Events so far.
    pub(super) events: AtomicU64,
    /// Another thread has loaded what the held thread has stored.
    pub(super) loaded: AtomicBool,
    /// That thread has made something durable since, or sent something out.
    pub(super) acted: AtomicBool,
    /// For each thread whether its last store at the instruction was in the calling context of the plan.
    stores: Mutex<HashMap<(u32, u32), bool>>,
    /// The target has ended.
    over: AtomicBool,
}

impl HoldProgress {
    pub(super) fn note_store(&self, process: u32, thread: u32, is_of_plan: bool) {
        if let Ok(mut stores) = self.stores.lock() {
            stores.insert((process, thread), is_of_plan);
        }
    }

    fn is_other_store(&self, process: u32, thread: u32) -> bool {
        let stores = self.stores.lock();
        stores.is_ok_and(|stores| stores.get(&(process, thread)) == Some(&false))
    }

    /// The target has ended: nobody is held any more.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }
}

/// The hold that is under way.
struct Hold {
    number: u32,
    since: Instant,
    last_active: Instant,
    events: u64,
}

/// Supervises a target until it has ended.
pub(crate) fn supervise(plan: &HoldPlan, progress: &HoldProgress, page: &HoldMap, table: &Table) {
    let started = Instant::now();
    let mut hold: Option<Hold> = None;
    let mut acted_at: Option<Instant> = None;
    while !progress.over.load(Ordering::Acquire) {
        thread::sleep(POLL_INTERVAL);
        if progress.acted.load(Ordering::Acquire) {
            acted_at.get_or_insert_with(Instant::now);
        }
        let is_done = acted_at.is_some_and(|at| at.elapsed() > RUN_ON_TIME);
        if is_done || started.elapsed() > plan.time_limit {
            page.turn_off();
            for pid in processes(table) {
                process::kill(Pid(pid as i32), Signal::KILL);
            }
            continue;
        }
        let Some(held) = page.held() else {
            hold = None;
            continue;
        };
        let now = Instant::now();
        let current = hold.take_if(|hold| hold.number == held.number);
        let mut current = current.unwrap_or(Hold {
            number: held.number,
            since: now,
            last_active: now,
            events: 0,
        });
        let events = progress.events.load(Ordering::Relaxed);
        if events != current.events || any_runs(table, held.thread) {
            current.events = events;
            current.last_active = now;
        }
        // A thread that has read the store may take longer to act on it.
        let longest = match progress.loaded.load(Ordering::Acquire) {
            true => 2 * plan.longest_hold,
            false => plan.longest_hold,
        };
        let is_over = now - current.since > longest || now - current.last_active > IDLE_LIMIT;
        if is_over || progress.is_other_store(held.process, held.thread) {
            page.release();
        } else {
            hold = Some(current);
        }
    }
}

/// The threads of the target, each with its process.
fn threads(table: &Table) -> impl Iterator<Item = (u32, u32)> {
    let used = table.control().slots_used.load(Ordering::SeqCst) as usize;
    let slots = table.slots()[..used.min(SLOTS)].iter();
    let live = slots.filter(|known| known.state.load(Ordering::Acquire) == slot::LIVE);
    live.map(|known| {
        let pid = known.pid.load(Ordering::Relaxed);
        (pid, known.tid.load(Ordering::Relaxed))
    })
}

fn processes(table: &Table) -> BTreeSet<u32> {
    threads(table).map(|(pid, _)| pid).collect()
}

/// Whether another thread than `held` runs, or could.
fn any_runs(table: &Table, held: u32) -> bool {
    threads(table).any(|(pid, tid)| tid != held && process::is_runnable(pid, tid))
}
