//! What calls of synchronisation functions do: locks change hands, and threads pass on what they know.
//!
//! The release of a lock passes nothing on to who acquires it next (HawkSet §3.1.2): in another run the order may be the other way
//! round, and races that were only avoided by chance would be missed. Semaphores, conditions, barriers and initialisers pass on,
//! because threads wait with them for what others do. A semaphore that a thread waits for and posts itself is a lock instead.
//!
//! A wait for a semaphore receives what one post passes on, the first that no wait before it has received; those that the initial value
//! lets pass receive nothing. A semaphore whose initial value is more than 1 is no lock.
//!
//! Can miss: a semaphore that serves as a lock although its first post comes from a thread that has not waited, which passes on what that
//! thread knows and protects nothing. A signal is received by all threads that wait for the condition, though it wakes perhaps only one of
//! them; and a semaphore that counts resources passes on what the post knew, though in another run another post may come first. Both hide
//! races that other runs can have.
//!
//! Can report falsely: what is passed on by an initialiser of a static variable of C++ to threads that find it done without calling
//! `__cxa_guard_acquire`; several threads that post and take what another one than the first of them has announced.

use std::collections::VecDeque;

use brownout_libraries::{LockFunction, OrderFunction};
use brownout_model::{ThreadSlot, Time};
use brownout_trace::{CallArguments, LockMode};
use rustc_hash::FxHashMap;

use crate::clocks::ClockId;
use crate::lifetimes::Knowledge;
use crate::locks::{LockName, LockOperation, LockSource};
use crate::sync_functions::SyncMeaning;
use crate::threads::OpenCall;

/// Where the initial value is among the arguments of `sem_init`, seen from the semaphore.
const VALUE_AFTER_SEMAPHORE: usize = 2;
/// The flags among the arguments of `sem_open`, and the one without which there is no initial value.
const OPEN_FLAGS: usize = 1;
const O_CREAT: u64 = 0x40;

/// A semaphore that passes on what threads know.
#[derive(Clone, Debug, Default)]
struct Semaphore {
    /// Waits that its initial value lets pass.
    free: u32,
    /// What was known at the posts that no wait has received.
    posts: VecDeque<ClockId>,
}

/// The rounds of a barrier.
#[derive(Clone, Debug, Default)]
struct Barrier {
    round: u32,
    /// What the threads that have arrived in this round know.
    arrived: ClockId,
    /// What all threads of the last round knew.
    complete: ClockId,
}

/// What threads pass on by objects that are no locks, which have names like locks.
#[derive(Default)]
pub(crate) struct Synchronization {
    semaphores: FxHashMap<LockName, Semaphore>,
    /// What the first thread knew that has returned from each initialisation.
    initialised: FxHashMap<LockName, ClockId>,
    barriers: FxHashMap<LockName, Barrier>,
    /// The threads that wait for each condition.
    waiting: FxHashMap<LockName, Vec<ThreadSlot>>,
}

/// A call or return of a thread.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) thread: ThreadSlot,
    pub(crate) time: Time,
}

impl Synchronization {
    /// A thread calls a function. `name` gives the lock or object at an address. Returns what is to be remembered until it returns.
    pub(crate) fn called(
        &mut self,
        by: Caller,
        meaning: &SyncMeaning,
        args: CallArguments,
        knowledge: &mut Knowledge,
        mut name: impl FnMut(u64) -> LockName,
        call: &mut OpenCall,
    ) {
        let Knowledge {
            threads, clocks, ..
        } = knowledge;
        match *meaning {
            SyncMeaning::Lock {
                function, argument, ..
            } => {
                let lock = name(args.get(argument));
                match function {
                    LockFunction::Release => {
                        let release = LockOperation::Release { lock };
                        apply(by.thread, release, LockSource::Function, knowledge);
                    }
                    LockFunction::Wait => {
                        let condition = name(args.get(argument - 1));
                        self.waiting.entry(condition).or_default().push(by.thread);
                        let Knowledge { threads, locks, .. } = knowledge;
                        if let Some(lock) = locks.find(lock) {
                            call.round = threads[by.thread].held.lose(lock, locks);
                            if call.round > 0 {
                                locks.set_holder(lock, None);
                            }
                        }
                    }
                    _ => {}
                }
            }
            SyncMeaning::Order { function, argument } => {
                let object = name(args.get(argument));
                match function {
                    OrderFunction::SemaphorePost => self.post(by, object, knowledge),
                    OrderFunction::SemaphoreInit => {
                        let value = args.get(argument + VALUE_AFTER_SEMAPHORE) as u32;
                        self.semaphores.remove(&object);
                        self.counts(object, value, knowledge);
                    }
                    OrderFunction::GuardRelease => {
                        let sent = threads.send(by.thread, by.time, clocks);
                        self.initialised.entry(object).or_insert(sent);
                    }
                    OrderFunction::Barrier => {
                        let barrier = self.barriers.entry(object).or_default();
                        call.round = barrier.round;
                        let sent = threads.send(by.thread, by.time, clocks);
                        barrier.arrived = clocks.join(barrier.arrived, sent);
                    }
                    OrderFunction::Signal => {
                        let sent = threads.send(by.thread, by.time, clocks);
                        for &thread in self.waiting.get(&object).into_iter().flatten() {
                            let calls = threads[thread].open.iter_mut();
                            for call in calls.filter(|call| call.is_lock) {
                                call.received = clocks.join(call.received, sent);
                            }
                        }
                    }
                    _ => {}
                }
            }
            SyncMeaning::Output => {}
        }
    }

    /// A call returns. `value` is `None` if it was left without returning.
    pub(crate) fn returned(
        &mut self,
        by: Caller,
        meaning: &SyncMeaning,
        call: OpenCall,
        value: Option<u64>,
        knowledge: &mut Knowledge,
        mut name: impl FnMut(u64) -> LockName,
    ) {
        match meaning {
            SyncMeaning::Lock {
                function,
                argument,
                acquired,
            } => {
                let lock = name(call.args.get(*argument));
                let is_acquired = value.is_some_and(|value| acquired.includes(value));
                let mode = match function {
                    LockFunction::Exclusive => LockMode::Exclusive,
                    LockFunction::Shared => LockMode::Shared,
                    LockFunction::Wait => {
                        let condition = name(call.args.get(argument - 1));
                        let is_signalled = value.is_some_and(|value| value as u32 == 0);
                        self.woken(by, condition, (&call, is_signalled), knowledge);
                        for _ in 0..call.round {
                            let mode = LockMode::Exclusive;
                            let acquire = LockOperation::Acquire { lock, mode };
                            apply(by.thread, acquire, LockSource::Function, knowledge);
                        }
                        return;
                    }
                    _ => return,
                };
                if is_acquired {
                    let acquire = LockOperation::Acquire { lock, mode };
                    apply(by.thread, acquire, LockSource::Function, knowledge);
                }
            }
            SyncMeaning::Order { function, argument } => {
                let object = name(call.args.get(*argument));
                match function {
                    OrderFunction::SemaphoreWait
                        if value.is_some_and(|value| value as u32 == 0) =>
                    {
                        self.waited(by, object, knowledge);
                    }
                    OrderFunction::Barrier => self.passed(by, object, call.round, knowledge),
                    OrderFunction::Once if value.is_some() => {
                        self.initialised(by, object, knowledge);
                    }
                    OrderFunction::SemaphoreOpen => {
                        let creates = call.args.get(OPEN_FLAGS) & O_CREAT != 0;
                        if let Some(addr) = value.filter(|&addr| creates && addr != 0) {
                            let value = call.args.get(*argument) as u32;
                            self.counts(name(addr), value, knowledge);
                        }
                    }
                    // Another thread has initialised it.
                    OrderFunction::GuardAcquire if value.is_some_and(|value| value as u32 == 0) => {
                        let Knowledge {
                            threads, clocks, ..
                        } = knowledge;
                        if let Some(&known) = self.initialised.get(&object) {
                            threads.receive(by.thread, by.time, known, clocks);
                        }
                    }
                    _ => {}
                }
            }
            SyncMeaning::Output => {}
        }
    }

    /// A thread that has waited for a semaphore releases it; any other passes on what it knows, and the semaphore is no lock.
    fn post(&mut self, by: Caller, object: LockName, knowledge: &mut Knowledge) {
        let Knowledge {
            threads,
            clocks,
            locks,
            ..
        } = knowledge;
        let semaphore = locks.lock(object, LockSource::Semaphore);
        if threads[by.thread].held.holds(semaphore) && !locks.is_refuted(semaphore) {
            let release = LockOperation::Release { lock: object };
            apply(by.thread, release, LockSource::Semaphore, knowledge);
            return;
        }
        locks.refute(semaphore);
        let sent = threads.send(by.thread, by.time, clocks);
        let semaphore = self.semaphores.entry(object).or_default();
        semaphore.posts.push_back(sent);
    }

    /// The initial value of a semaphore, unless it is known.
    fn counts(&mut self, object: LockName, value: u32, knowledge: &mut Knowledge) {
        self.semaphores.entry(object).or_insert_with(|| Semaphore {
            free: value,
            posts: VecDeque::new(),
        });
        if value > 1 {
            let locks = &mut knowledge.locks;
            let semaphore = locks.lock(object, LockSource::Semaphore);
            locks.refute(semaphore);
        }
    }

    fn waited(&mut self, by: Caller, object: LockName, knowledge: &mut Knowledge) {
        let Knowledge {
            threads,
            clocks,
            locks,
            ..
        } = knowledge;
        if let Some(semaphore) = self.semaphores.get_mut(&object) {
            if semaphore.free > 0 {
                semaphore.free -= 1;
            } else if let Some(posted) = semaphore.posts.pop_front() {
                threads.receive(by.thread, by.time, posted, clocks);
            }
        }
        let semaphore = locks.lock(object, LockSource::Semaphore);
        // A semaphore that two threads hold counts more than one.
        if locks
            .holder(semaphore)
            .is_some_and(|holder| holder != by.thread)
        {
            locks.refute(semaphore);
        }
        if !locks.is_refuted(semaphore) {
            let acquire = LockOperation::Acquire {
                lock: object,
                mode: LockMode::Exclusive,
            };
            apply(by.thread, acquire, LockSource::Semaphore, knowledge);
        }
    }

    /// The first thread that leaves a barrier completes the round: all others have arrived.
    fn passed(&mut self, by: Caller, object: LockName, round: u32, knowledge: &mut Knowledge) {
        let barrier = self.barriers.entry(object).or_default();
        if barrier.round == round {
            barrier.round += 1;
            barrier.complete = std::mem::take(&mut barrier.arrived);
        }
        let Knowledge {
            threads, clocks, ..
        } = knowledge;
        threads.receive(by.thread, by.time, barrier.complete, clocks);
    }

    fn initialised(&mut self, by: Caller, object: LockName, knowledge: &mut Knowledge) {
        let Knowledge {
            threads, clocks, ..
        } = knowledge;
        match self.initialised.get(&object) {
            Some(&known) => threads.receive(by.thread, by.time, known, clocks),
            None => {
                let sent = threads.send(by.thread, by.time, clocks);
                self.initialised.insert(object, sent);
            }
        }
    }

    /// A wait for a condition ends. A wait that has reached its time limit was not signalled.
    fn woken(
        &mut self,
        by: Caller,
        object: LockName,
        (call, is_signalled): (&OpenCall, bool),
        knowledge: &mut Knowledge,
    ) {
        if let Some(waiting) = self.waiting.get_mut(&object)
            && let Some(index) = waiting.iter().position(|&thread| thread == by.thread)
        {
            waiting.swap_remove(index);
        }
        if !is_signalled {
            return;
        }
        let Knowledge {
            threads, clocks, ..
        } = knowledge;
        threads.receive(by.thread, by.time, call.received, clocks);
    }
}

/// A thread acquires or releases a lock that was recognised by its instructions. Nothing follows for other threads, because these
/// events are not in the order in which the locks changed hands. What functions do to their locks is known from their calls.
pub(crate) fn apply_recognised(
    thread: ThreadSlot,
    operation: LockOperation,
    knowledge: &mut Knowledge,
) {
    let Knowledge { threads, locks, .. } = knowledge;
    match operation {
        LockOperation::Acquire { lock, mode } => {
            if threads[thread].is_in_lock_function() {
                return;
            }
            let lock = locks.lock(lock, LockSource::Recognised);
            if locks.is_recognised(lock) {
                threads[thread].held.acquire(lock, mode, locks);
            }
        }
        LockOperation::Release { lock } => {
            if let Some(lock) = locks.find(lock)
                && locks.is_recognised(lock)
            {
                threads[thread].held.release(lock, locks);
            }
        }
    }
}

/// A lock changes hands.
pub(crate) fn apply(
    thread: ThreadSlot,
    operation: LockOperation,
    source: LockSource,
    knowledge: &mut Knowledge,
) {
    let Knowledge { threads, locks, .. } = knowledge;
    match operation {
        LockOperation::Acquire { lock, mode } => {
            let lock = locks.lock(lock, source);
            // Its release was not seen, or another thread made it.
            if let Some(holder) = locks.holder(lock).filter(|&holder| holder != thread) {
                threads[holder].held.lose(lock, locks);
                locks.set_holder(lock, None);
            }
            threads[thread].held.acquire(lock, mode, locks);
            if mode == LockMode::Exclusive {
                locks.set_holder(lock, Some(thread));
            }
        }
        LockOperation::Release { lock } => {
            let Some(lock) = locks.find(lock) else {
                return;
            };
            let holder = match threads[thread].held.holds(lock) {
                true => Some(thread),
                false => locks.holder(lock),
            };
            if let Some(holder) = holder
                && threads[holder].held.release(lock, locks)
                && locks.holder(lock) == Some(holder)
            {
                locks.set_holder(lock, None);
            }
        }
    }
}
