//! Lets one thread of the process run at a time: threads give their turn away, wait for it, and look after each other's waits.
//!
//! The thread whose turn it is holds the baton. It passes the baton on when it waits, when it gives way, and when a schedule
//! preempts it. If no thread is ready, one of those that wait keeps the baton and watches for what can end a wait: first
//! descriptors, then the time, which jumps to the next deadline unless something outside of the process is awaited. In that
//! case time passes as it does outside. If nothing can end a wait, that is a [`deadlock`].
//!
//! A thread that ends is really gone before the next one runs, so that what the kernel does to its memory at that time
//! (robust mutexes) is done at the same point in each run.

use super::turns::{State, Turns, Wait, WaitedDescriptor, Wakeup};
use super::{STATE, ScheduleArea, client, deadlock};
use crate::instruments::baton::Arrival;
use crate::instruments::pm::candidates;
use crate::lock::Guard;
use crate::sys::{self, linux};
use crate::target_memory;
use crate::translator::context::Context;
use crate::wire;
use alloc::vec::Vec;
use brownout_ring::input;
use core::sync::atomic::{AtomicU32, Ordering};

/// Branches that a thread may execute in one turn. One that spins without a `pause` gives way then.
const BRANCHES: u64 = 50_000;
/// Instructions that hint at a spin loop which a thread may execute in one turn.
const PAUSES: u64 = 100;
/// Counters are set to this if nothing is counted.
pub const NEVER: u64 = u64::MAX >> 1;
/// What a thread that spins until its turn is over takes for it, in nanoseconds.
const TURN_TIME: u64 = 100_000;
/// The shortest and the longest time between two looks at what is awaited outside of the process, in nanoseconds.
const SHORTEST_SLEEP: u64 = 100_000;
const LONGEST_SLEEP: u64 = 10_000_000;
/// For how long nothing must have happened until a deadlock is believed, in nanoseconds: a signal may be on its way.
const IDLE_BEFORE_DEADLOCK: u64 = 1_000_000_000;

type Locked<'a> = Guard<'a, Option<Turns>>;

/// The word that the kernel clears when the last thread that has ended is gone.
static LEAVING: AtomicU32 = AtomicU32::new(0);

/// Runs `work` on the turns of the process; `None` if nothing is scheduled.
pub fn with_turns<R>(work: impl FnOnce(&mut Turns) -> R) -> Option<R> {
    STATE.lock().as_mut().map(work)
}

/// Whether the process has one thread.
pub fn is_alone() -> bool {
    with_turns(|turns| turns.is_alone()).unwrap_or(true)
}

/// Passes the baton to a thread, which is in the list of threads.
fn pass_to(context: u64) {
    let context = context as *const Context;
    // SAFETY: contexts in the list belong to threads that have not ended, and the baton is made for use by others.
    unsafe { (*context).areas.schedule.baton.pass() };
}

/// The thread has its turn: nothing of the thread that ended last remains, and steps are counted from here.
fn begin_turn(context: &mut Context) {
    let mut state = STATE.lock();
    if let Some(turns) = state.as_mut() {
        finish_leaving(turns);
        arm(&mut context.areas.schedule, turns);
    }
}

/// Waits until the thread is gone that has ended last.
fn finish_leaving(turns: &mut Turns) {
    const SECOND: u64 = 1_000_000_000;
    if !core::mem::take(&mut turns.has_left) {
        return;
    }
    while LEAVING.load(Ordering::Acquire) != 0 {
        sys::futex_wait(&LEAVING, 1, SECOND);
    }
    // The kernel may have marked mutexes that the thread held, and does not know who waits for them.
    turns.end_waits(Wakeup::Happened, |wait| {
        wait.word != 0 && read_word(wait.word) != Some(wait.expected)
    });
}

/// Sets the counters of the thread whose turn begins or continues.
fn arm(area: &mut ScheduleArea, turns: &Turns) {
    let limit = |limit| if turns.is_alone() { NEVER } else { limit };
    area.steps = limit(turns.steps_to_preemption().unwrap_or(NEVER));
    area.armed = area.steps;
    area.branches = limit(BRANCHES);
    area.pauses = limit(PAUSES);
}

/// Notes the steps that the running thread has made.
fn settle(area: &mut ScheduleArea, turns: &mut Turns) {
    if !turns.is_alone() {
        let made = area.armed.wrapping_sub(area.steps);
        turns.steps += made;
        wire::add_steps(made);
    }
    area.armed = area.steps;
}

/// The code before an instruction that led here is executed again: it must not be counted twice.
pub fn repeat_instruction(area: &mut ScheduleArea) {
    area.steps += 1;
    area.branches += 1;
    area.pauses += 1;
}

/// Lets the thread run next that should. Returns when that is the calling one again.
pub fn reschedule(context: &mut Context) {
    let this = context.this;
    let mut state = STATE.lock();
    let Some(turns) = state.as_mut() else { return };
    settle(&mut context.areas.schedule, turns);
    turns.step(this);
    refresh(turns);
    match turns.next() {
        Some(next) if next != this => {
            turns.running = Some(next);
            drop(state);
            pass_to(next);
            context.areas.schedule.baton.wait();
            begin_turn(context);
        }
        _ => arm(&mut context.areas.schedule, turns),
    }
}

/// Lets all other threads run that can.
pub fn give_way(context: &mut Context) {
    let this = context.this;
    with_turns(|turns| {
        turns.give_way(this);
        turns.time += TURN_TIME;
        refresh(turns);
        // A thread that only waits in a loop waits for one that waits for a time.
        let others_ready = turns.next() != Some(this);
        if !others_ready && !awaits_outside(turns) {
            pass_time(turns);
        }
    });
    reschedule(context);
}

/// Waits; the other threads run meanwhile.
pub fn wait(context: &mut Context, wait: Wait) -> Wakeup {
    let this = context.this;
    let mut state = STATE.lock();
    if let Some(turns) = state.as_mut() {
        settle(&mut context.areas.schedule, turns);
        turns.begin_wait(this, wait);
    }
    let (mut sleep, mut idle) = (SHORTEST_SLEEP, 0);
    loop {
        let Some(turns) = state.as_mut() else {
            return Wakeup::Interrupted;
        };
        finish_leaving(turns);
        refresh(turns);
        match turns.next() {
            Some(next) if next == this => break,
            Some(next) => {
                turns.running = Some(next);
                drop(state);
                pass_to(next);
                await_turn(context);
                state = STATE.lock();
                (sleep, idle) = (SHORTEST_SLEEP, 0);
                let is_ready = |turns: &mut Turns| {
                    let thread = turns.thread(this);
                    thread.is_none_or(|thread| thread.state == State::Ready)
                };
                if state.as_mut().is_none_or(is_ready) {
                    break;
                }
            }
            None if !awaits_outside(turns) && pass_time(turns) => {}
            None if client::is_awaited(turns) && client::pass_time(turns) => {}
            None if client::is_awaited(turns) => {
                drop(state);
                let has_acted = client::act(context);
                state = STATE.lock();
                if is_signalled(context) {
                    interrupt(&mut state, this);
                } else if !has_acted {
                    state = look_outside(state, sleep);
                }
            }
            None if idle >= IDLE_BEFORE_DEADLOCK && deadlock::is_certain(context, turns) => {
                let threads = turns.threads.len();
                drop(state);
                deadlock::end_process(context, threads);
            }
            None => {
                state = look_outside(state, sleep);
                idle += sleep;
                sleep = (2 * sleep).min(LONGEST_SLEEP);
                if is_signalled(context) {
                    interrupt(&mut state, this);
                }
            }
        }
    }
    let turns = state.as_mut();
    let wakeup = turns.and_then(|turns| Some(turns.thread(this)?.wakeup));
    drop(state);
    begin_turn(context);
    let wakeup = wakeup.unwrap_or(Wakeup::Interrupted);
    if wakeup == Wakeup::Interrupted {
        wire::note_input(input::SIGNALS);
    }
    wakeup
}

/// Makes a call whose end only the kernel knows, while other threads run.
pub fn outside<R>(context: &mut Context, call: impl FnOnce(&mut Context) -> R) -> R {
    let this = context.this;
    let mut state = STATE.lock();
    let Some(turns) = state.as_mut().filter(|turns| !turns.is_alone()) else {
        drop(state);
        return call(context);
    };
    wire::note_input(input::OUTSIDE);
    settle(&mut context.areas.schedule, turns);
    if let Some(thread) = turns.thread(this) {
        thread.state = State::Outside;
    }
    pass_on(state);
    let result = call(context);
    let mut state = STATE.lock();
    if let Some(turns) = state.as_mut() {
        if let Some(thread) = turns.thread(this) {
            thread.state = State::Ready;
        }
        let is_free = turns.running.is_none();
        if is_free {
            turns.running = Some(this);
        }
        drop(state);
        if !is_free {
            context.areas.schedule.baton.wait();
        }
    }
    begin_turn(context);
    result
}

/// Passes the baton on from a thread that will not be ready: to one that is, or to one that watches for the end of waits.
fn pass_on(mut state: Locked<'_>) {
    let Some(turns) = state.as_mut() else { return };
    refresh(turns);
    let next = turns.next().or_else(|| turns.any_waiting());
    turns.running = next;
    drop(state);
    if let Some(next) = next {
        pass_to(next);
    }
}

/// The calling thread is about to create another one.
pub fn add_thread(context: &mut Context, child: u64) {
    let area = &mut context.areas.schedule;
    with_turns(|turns| {
        settle(area, turns);
        turns.add(child);
        arm(area, turns);
    });
    // The new thread may be preferred: the next step of this one shows that.
    area.steps = 1;
    area.armed = 1;
}

/// A new thread waits for its first turn.
pub fn begin_thread(context: &mut Context) {
    context.areas.schedule.baton.wait();
    begin_turn(context);
}

/// The calling thread ends. It is in no way observed any more.
pub fn end_thread(context: &mut Context) {
    let cleared = context.areas.schedule.cleared;
    let mut state = STATE.lock();
    let Some(turns) = state.as_mut() else { return };
    settle(&mut context.areas.schedule, turns);
    if cleared != 0 && target_memory::write(cleared, &0u32).is_ok() {
        turns.wake(cleared, !0, usize::MAX);
    }
    turns.remove(context.this);
    turns.has_left = true;
    LEAVING.store(1, Ordering::Release);
    // SAFETY: the word is a static one, which the kernel clears when the thread is gone. What the target had it clear
    // is cleared already, and may belong to another thread by then.
    unsafe { crate::sys!(linux::__NR_set_tid_address, LEAVING.as_ptr()) };
    pass_on(state);
}

/// Waits at the baton. A signal ends the thread's wait; it then waits for its turn.
fn await_turn(context: &mut Context) {
    if context.areas.schedule.baton.wait_interruptibly() == Arrival::Signal {
        let mut state = STATE.lock();
        interrupt(&mut state, context.this);
        let is_free = state.as_ref().is_none_or(|turns| turns.running.is_none());
        if let Some(turns) = state.as_mut().filter(|_| is_free) {
            turns.running = Some(context.this);
            return;
        }
        drop(state);
        context.areas.schedule.baton.wait();
    }
}

fn is_signalled(context: &Context) -> bool {
    // SAFETY: a plain read that the compiler may not move: the signal handler writes the flag.
    unsafe { (&raw const context.pending_flag).read_volatile() != 0 }
}

/// A signal ends the wait of a thread.
fn interrupt(state: &mut Locked<'_>, context: u64) {
    let thread = state.as_mut().and_then(|turns| turns.thread(context));
    if let Some(thread) = thread
        && matches!(thread.state, State::Waiting(_))
    {
        thread.state = State::Ready;
        thread.wakeup = Wakeup::Interrupted;
    }
}

/// Ends waits for what has happened: descriptors that are ready, times that are over, futexes of other processes.
fn refresh(turns: &mut Turns) {
    turns.end_waits(Wakeup::Happened, |wait| are_ready(&wait.descriptors));
    turns.expire();
    if wire::has_several_processes() {
        turns.end_waits(Wakeup::Happened, |wait| {
            wait.shared && read_word(wait.word) != Some(wait.expected)
        });
    }
}

/// Whether one of the descriptors is ready.
pub fn are_ready(descriptors: &[WaitedDescriptor]) -> bool {
    !descriptors.is_empty() && poll(descriptors, 0)
}

/// Waits at most `nanos` for one of the descriptors.
fn poll(descriptors: &[WaitedDescriptor], nanos: u64) -> bool {
    let mut polled: Vec<WaitedDescriptor> = descriptors.to_vec();
    let timeout = [nanos / 1_000_000_000, nanos % 1_000_000_000];
    // SAFETY: the kernel writes to the list, which has this many entries.
    let raw = unsafe {
        crate::sys!(
            linux::__NR_ppoll,
            polled.as_mut_ptr(),
            polled.len(),
            timeout.as_ptr(),
            0,
            8
        )
    };
    !sys::is_err(raw) && raw != 0
}

/// What a futex of the target holds, also if it is in persistent memory that the target cannot read by itself.
pub fn read_word(word: u64) -> Option<u32> {
    let place = candidates::find(word).map_or(word, |found| word.wrapping_add(found.delta));
    target_memory::read(place).ok()
}

/// Whether something that happens outside of the process can end a wait, so that time has to pass as it does there.
pub fn awaits_outside(turns: &Turns) -> bool {
    turns.awaits_outside() || wire::has_several_processes() || wire::has_input(input::TIMERS)
}

/// Lets the time jump to the end of the first wait that has one. False if there is none.
fn pass_time(turns: &mut Turns) -> bool {
    let Some(deadline) = turns.first_deadline() else {
        return false;
    };
    turns.time = turns.time.max(deadline);
    turns.expire();
    true
}

/// Waits at most `sleep` for descriptors, or for what the other threads and processes do. Time passes.
fn look_outside(mut state: Locked<'_>, sleep: u64) -> Locked<'_> {
    let mut awaited = Vec::new();
    let mut sleep = sleep;
    if let Some(turns) = state.as_mut() {
        for thread in &turns.threads {
            if let State::Waiting(wait) = &thread.state {
                awaited.extend_from_slice(&wait.descriptors);
            }
        }
        if let Some(deadline) = turns.first_deadline() {
            sleep = sleep.min(deadline.saturating_sub(turns.time));
        }
    }
    drop(state);
    if poll(&awaited, sleep) {
        wire::note_input(input::OUTSIDE);
    }
    let mut state = STATE.lock();
    if let Some(turns) = state.as_mut() {
        turns.time += sleep;
    }
    state
}
