//! Whose turn it is: the threads of a process, what each of them waits for, and the time as they see it.
//!
//! Pure bookkeeping. Nothing here waits or makes system calls, so that the order of turns depends only on the seed and on what
//! the threads do. [`super::switch`] lets threads wait and continue as this says.

use super::priorities::{Priorities, SeededNumbers};
use alloc::vec::Vec;

/// A descriptor that a thread waits for, as `poll` has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct WaitedDescriptor {
    pub fd: i32,
    pub events: u16,
    pub happened: u16,
}

crate::plain_data!(WaitedDescriptor {
    fd: i32,
    events: u16,
    happened: u16,
});

/// What a thread waits for: the first of these ends the wait. Without any, only a signal does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// The address of a futex; 0 if it waits for none.
    pub word: u64,
    /// Wakes of the futex that concern the thread.
    pub bits: u32,
    /// What the futex held.
    pub expected: u32,
    /// Whether other processes may wake it.
    pub shared: bool,
    /// The time at which the wait ends.
    pub deadline: Option<u64>,
    /// Descriptors, one of which must be ready.
    pub descriptors: Vec<WaitedDescriptor>,
}

/// Why a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakeup {
    /// The futex was woken, or a descriptor is ready.
    Happened,
    TimedOut,
    /// By a signal.
    Interrupted,
}

/// What a thread does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It has its turn, or can have it.
    Ready,
    Waiting(Wait),
    /// It is in a system call that the kernel ends at any time.
    Outside,
}

/// A thread of the process.
#[derive(Clone, Debug)]
pub struct ScheduledThread {
    /// The address of its context.
    pub context: u64,
    priority: u64,
    pub state: State,
    /// Why its last wait is over.
    pub wakeup: Wakeup,
    /// When it began to wait: of several threads that wait for a futex, the one that has waited longest is woken.
    since: u64,
}

/// All threads of a process.
#[derive(Clone, Debug)]
pub struct Turns {
    pub threads: Vec<ScheduledThread>,
    /// The context of the thread whose turn it is.
    pub running: Option<u64>,
    pub priorities: Priorities,
    /// Random numbers that the target asks for. Drawn apart from the priorities, so that these do not depend on them.
    pub random: SeededNumbers,
    /// Steps while there were several threads.
    pub steps: u64,
    /// Nanoseconds since the process began, as its threads see them.
    pub time: u64,
    /// A thread has ended, and may not be gone yet.
    pub has_left: bool,
    waits: u64,
}

impl Turns {
    pub fn new(seed: u64, length: u64) -> Turns {
        Turns {
            threads: Vec::new(),
            running: None,
            priorities: Priorities::new(seed, length),
            random: SeededNumbers::new(!seed),
            steps: 0,
            time: 0,
            has_left: false,
            waits: 0,
        }
    }

    /// A thread has been created.
    pub fn add(&mut self, context: u64) {
        let priority = self.priorities.of_new_thread();
        self.threads.push(ScheduledThread {
            context,
            priority,
            state: State::Ready,
            wakeup: Wakeup::Happened,
            since: 0,
        });
    }

    /// A thread ends.
    pub fn remove(&mut self, context: u64) {
        self.threads.retain(|thread| thread.context != context);
    }

    /// The process was forked, and has only this thread.
    pub fn keep_only(&mut self, context: u64) {
        self.threads.retain(|thread| thread.context == context);
        self.running = Some(context);
    }

    pub fn is_alone(&self) -> bool {
        self.threads.len() <= 1
    }

    pub fn thread(&mut self, context: u64) -> Option<&mut ScheduledThread> {
        let mut threads = self.threads.iter_mut();
        threads.find(|thread| thread.context == context)
    }

    /// A thread waits from now on.
    pub fn begin_wait(&mut self, context: u64, wait: Wait) {
        self.waits += 1;
        let since = self.waits;
        if let Some(thread) = self.thread(context) {
            thread.state = State::Waiting(wait);
            thread.since = since;
        }
    }

    /// The thread that should have its turn next, if one can.
    pub fn next(&self) -> Option<u64> {
        let ready = self.threads.iter().filter(|it| it.state == State::Ready);
        let best = ready.max_by_key(|thread| thread.priority)?;
        Some(best.context)
    }

    /// A thread that waits, and can look after the others while none is ready.
    pub fn any_waiting(&self) -> Option<u64> {
        let is_waiting = |it: &&ScheduledThread| matches!(it.state, State::Waiting(_));
        self.threads
            .iter()
            .find(is_waiting)
            .map(|thread| thread.context)
    }

    /// The running thread has reached a step. It is preempted if that is a step of a preemption.
    pub fn step(&mut self, context: u64) {
        while let Some(priority) = self.priorities.preempt(self.steps) {
            self.set_priority(context, priority);
        }
    }

    /// A thread lets all others run.
    pub fn give_way(&mut self, context: u64) {
        let priority = self.priorities.of_yielding_thread();
        self.set_priority(context, priority);
    }

    fn set_priority(&mut self, context: u64, priority: u64) {
        if let Some(thread) = self.thread(context) {
            thread.priority = priority;
        }
    }

    /// How many steps there are until the next preemption.
    pub fn steps_to_preemption(&self) -> Option<u64> {
        let next = self.priorities.next_preemption()?;
        Some(next.saturating_sub(self.steps).max(1))
    }

    /// Ends waits.
    pub fn end_waits(&mut self, wakeup: Wakeup, mut is_over: impl FnMut(&Wait) -> bool) {
        for thread in &mut self.threads {
            if let State::Waiting(wait) = &thread.state
                && is_over(wait)
            {
                thread.state = State::Ready;
                thread.wakeup = wakeup;
            }
        }
    }

    /// Ends waits whose time has come.
    pub fn expire(&mut self) {
        let time = self.time;
        self.end_waits(Wakeup::TimedOut, |wait| {
            wait.deadline.is_some_and(|deadline| deadline <= time)
        });
    }

    /// The time at which the first wait ends by itself.
    pub fn first_deadline(&self) -> Option<u64> {
        let deadline = |thread: &ScheduledThread| match &thread.state {
            State::Waiting(wait) => wait.deadline,
            _ => None,
        };
        self.threads.iter().filter_map(deadline).min()
    }

    /// Whether something that happens outside of the process can end a wait.
    pub fn awaits_outside(&self) -> bool {
        self.threads.iter().any(|thread| match &thread.state {
            State::Waiting(wait) => !wait.descriptors.is_empty(),
            State::Outside => true,
            State::Ready => false,
        })
    }

    /// Wakes at most `count` threads that wait for a futex; how many there were.
    pub fn wake(&mut self, word: u64, bits: u32, count: usize) -> usize {
        let woken = self.waiting_for(word, bits, count);
        for &index in &woken {
            self.threads[index].state = State::Ready;
            self.threads[index].wakeup = Wakeup::Happened;
        }
        woken.len()
    }

    /// Lets at most `count` threads that wait for a futex wait for another one; how many there were.
    pub fn requeue(&mut self, word: u64, to: u64, count: usize) -> usize {
        let moved = self.waiting_for(word, !0, count);
        for &index in &moved {
            if let State::Waiting(wait) = &mut self.threads[index].state {
                wait.word = to;
            }
        }
        moved.len()
    }

    /// Threads that wait for a futex, those that have waited longest first.
    fn waiting_for(&self, word: u64, bits: u32, count: usize) -> Vec<usize> {
        let waits = |thread: &ScheduledThread| match &thread.state {
            State::Waiting(wait) => word != 0 && wait.word == word && wait.bits & bits != 0,
            _ => false,
        };
        let mut found: Vec<usize> = (0..self.threads.len())
            .filter(|&index| waits(&self.threads[index]))
            .collect();
        found.sort_by_key(|&index| self.threads[index].since);
        found.truncate(count);
        found
    }
}

#[cfg(test)]
mod tests;
