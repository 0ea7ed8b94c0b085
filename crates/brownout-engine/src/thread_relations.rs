//! Which thread created which, and which joined which.
//!
//! A thread announces each creation before it happens, with a number that the start of the new thread repeats. This gives
//! the parent of a thread and the position of its creation in the order of events.
//!
//! C libraries identify a thread by its thread pointer (`pthread_t` and `thrd_t` of glibc and musl). The creation records
//! the pointer, so the argument of a call that joins identifies the thread. The thread is determined at the call, not at
//! the return: a pointer can be reused as soon as its thread has been joined, which may be before the call returns. Until
//! the call has joined its thread, the latest creation with that pointer is the thread that it joins.
//!
//! Can miss: joins by functions that are not in the table of [`brownout_libraries`] or that have no symbol in the target
//! (stripped static programs), and waits on the futex of a thread that was created with a raw `clone`.

use brownout_trace::{
    EventIndex, FunctionId, ProcessId, ProcessOrigin, ThreadId, ThreadKey, ThreadParent,
};
use std::collections::HashMap;

/// A creation whose thread has not started yet.
struct Creation {
    parent: ThreadParent,
    pointer: u64,
}

/// A call of a function that joins, which has not returned.
struct OpenJoin {
    function: FunctionId,
    /// Its argument.
    pointer: u64,
    /// The thread that the argument identifies, once it has started.
    joined: Option<ThreadId>,
}

#[derive(Default)]
struct ProcessThreads {
    /// The process that this one was forked from, until its first thread has started.
    forked_from: Option<ProcessId>,
    /// The latest thread with each thread pointer; `None` between its creation and its start.
    by_pointer: HashMap<u64, Option<ThreadId>>,
    /// The open calls of each thread, the innermost last.
    open: HashMap<ThreadId, Vec<OpenJoin>>,
}

impl ProcessThreads {
    /// Records that `thread` is the latest one with `pointer`, and completes open calls that were given this pointer before
    /// the thread started.
    fn name(&mut self, pointer: u64, thread: ThreadId) {
        self.by_pointer.insert(pointer, Some(thread));
        for open in self.open.values_mut().flatten() {
            if open.pointer == pointer && open.joined.is_none() {
                open.joined = Some(thread);
            }
        }
    }
}

/// The creations and joins of all processes, followed in the order of events.
#[derive(Default)]
pub(crate) struct ThreadRelations {
    /// By creating process and number.
    creations: HashMap<(ProcessId, u64), Creation>,
    processes: HashMap<ProcessId, ProcessThreads>,
}

impl ThreadRelations {
    /// `creator` is about to create thread number `creation`; the next event has the index `next`.
    pub(crate) fn created(
        &mut self,
        (process, thread): ThreadKey,
        creation: u64,
        pointer: u64,
        next: EventIndex,
    ) {
        let parent = ThreadParent {
            thread,
            created: next,
        };
        let created = Creation { parent, pointer };
        self.creations.insert((process, creation), created);
        if pointer != 0 {
            let threads = self.processes.entry(process).or_default();
            threads.by_pointer.insert(pointer, None);
        }
    }

    /// A thread starts. Returns its parent.
    pub(crate) fn started(
        &mut self,
        (process, thread): ThreadKey,
        creation: u64,
    ) -> Option<ThreadParent> {
        let threads = self.processes.entry(process).or_default();
        let creator = threads.forked_from.take().unwrap_or(process);
        let Creation { parent, pointer } = self.creations.remove(&(creator, creation))?;
        if pointer != 0 {
            threads.name(pointer, thread);
        }
        Some(parent)
    }

    /// A thread with the thread pointer `pointer` ends. For the first thread of a process, the pointer is not known before
    /// this.
    pub(crate) fn exited(&mut self, (process, thread): ThreadKey, pointer: u64) {
        let threads = self.processes.entry(process).or_default();
        if pointer != 0 && !threads.by_pointer.contains_key(&pointer) {
            threads.name(pointer, thread);
        }
    }

    pub(crate) fn process_started(
        &mut self,
        process: ProcessId,
        parent: Option<ProcessId>,
        origin: ProcessOrigin,
    ) {
        let forked_from = parent.filter(|_| origin == ProcessOrigin::Fork);
        let threads = ProcessThreads {
            forked_from,
            ..ProcessThreads::default()
        };
        self.processes.insert(process, threads);
    }

    pub(crate) fn process_ended(&mut self, process: ProcessId) {
        self.processes.remove(&process);
    }

    /// `joiner` calls a function that joins the thread with `pointer`.
    pub(crate) fn join_called(
        &mut self,
        (process, thread): ThreadKey,
        function: FunctionId,
        pointer: u64,
    ) {
        let threads = self.processes.entry(process).or_default();
        let call = OpenJoin {
            function,
            pointer,
            joined: threads.by_pointer.get(&pointer).copied().flatten(),
        };
        threads.open.entry(thread).or_default().push(call);
    }

    /// `joiner` leaves a function that joins. `result` is `None` if the function was left without returning. Returns the
    /// thread that was joined; if such functions call each other, only the outermost return does.
    pub(crate) fn join_returned(
        &mut self,
        (process, thread): ThreadKey,
        function: FunctionId,
        result: Option<u64>,
    ) -> Option<ThreadId> {
        let open = self.processes.get_mut(&process)?.open.get_mut(&thread)?;
        let place = open.iter().rposition(|call| call.function == function)?;
        let call = open.remove(place);
        // All these functions return an `int` that is 0 on success.
        let succeeded = result.is_some_and(|result| result as u32 == 0);
        let is_nested = open[..place]
            .iter()
            .any(|outer| outer.pointer == call.pointer);
        call.joined.filter(|_| succeeded && !is_nested)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIN: ThreadKey = (ProcessId(0), ThreadId(1));
    const CHILD: ThreadKey = (ProcessId(0), ThreadId(2));
    const OTHER: ThreadKey = (ProcessId(0), ThreadId(3));
    const JOIN: FunctionId = FunctionId(7);
    const TIMED_JOIN: FunctionId = FunctionId(8);
    const POINTER: u64 = 0x7f00;

    fn created(relations: &mut ThreadRelations, creation: u64, at: u64) {
        relations.created(MAIN, creation, POINTER, EventIndex(at));
    }

    #[test]
    fn a_start_names_the_creator_and_the_position_of_the_creation() {
        let mut relations = ThreadRelations::default();
        created(&mut relations, 1, 10);
        let parent = relations.started(CHILD, 1).unwrap();
        assert_eq!((parent.thread, parent.created), (MAIN.1, EventIndex(10)));
        assert_eq!(relations.started(OTHER, 0), None);
    }

    #[test]
    fn the_first_thread_of_a_forked_process_has_a_parent_in_the_other_process() {
        let mut relations = ThreadRelations::default();
        relations.created(MAIN, 4, 0, EventIndex(10));
        let forked = ProcessId(1);
        relations.process_started(forked, Some(MAIN.0), ProcessOrigin::Fork);
        let parent = relations.started((forked, ThreadId(9)), 4).unwrap();
        assert_eq!(parent.thread, MAIN.1);
        relations.created((forked, ThreadId(9)), 4, 0, EventIndex(12));
        let parent = relations.started((forked, ThreadId(10)), 4).unwrap();
        assert_eq!(parent.thread, ThreadId(9));
    }

    #[test]
    fn a_successful_return_joins_the_thread_that_the_call_named() {
        let mut relations = ThreadRelations::default();
        created(&mut relations, 1, 10);
        relations.started(CHILD, 1);
        relations.join_called(MAIN, JOIN, POINTER);
        assert_eq!(relations.join_returned(MAIN, JOIN, Some(35)), None);
        relations.join_called(MAIN, JOIN, POINTER);
        assert_eq!(relations.join_returned(MAIN, JOIN, None), None);
        relations.join_called(MAIN, JOIN, POINTER);
        assert_eq!(relations.join_returned(MAIN, JOIN, Some(0)), Some(CHILD.1));
    }

    #[test]
    fn a_thread_can_be_joined_before_its_start_is_seen() {
        let mut relations = ThreadRelations::default();
        // A detached thread that had the same pointer.
        created(&mut relations, 1, 10);
        relations.started(OTHER, 1);
        relations.exited(OTHER, POINTER);
        created(&mut relations, 2, 20);
        relations.join_called(MAIN, JOIN, POINTER);
        relations.started(CHILD, 2);
        assert_eq!(relations.join_returned(MAIN, JOIN, Some(0)), Some(CHILD.1));
    }

    #[test]
    fn a_pointer_can_be_reused_before_the_call_returns() {
        let mut relations = ThreadRelations::default();
        created(&mut relations, 1, 10);
        relations.started(CHILD, 1);
        relations.join_called(MAIN, JOIN, POINTER);
        relations.exited(CHILD, POINTER);
        relations.created(OTHER, 2, POINTER, EventIndex(20));
        relations.started((ProcessId(0), ThreadId(4)), 2);
        assert_eq!(relations.join_returned(MAIN, JOIN, Some(0)), Some(CHILD.1));
    }

    #[test]
    fn functions_that_call_each_other_report_a_join_once() {
        let mut relations = ThreadRelations::default();
        created(&mut relations, 1, 10);
        relations.started(CHILD, 1);
        relations.join_called(MAIN, TIMED_JOIN, POINTER);
        relations.join_called(MAIN, JOIN, POINTER);
        assert_eq!(relations.join_returned(MAIN, JOIN, Some(0)), None);
        let joined = relations.join_returned(MAIN, TIMED_JOIN, Some(0));
        assert_eq!(joined, Some(CHILD.1));
    }

    #[test]
    fn the_first_thread_can_be_joined() {
        let mut relations = ThreadRelations::default();
        relations.join_called(CHILD, JOIN, 0x1000);
        relations.exited(MAIN, 0x1000);
        assert_eq!(relations.join_returned(CHILD, JOIN, Some(0)), Some(MAIN.1));
    }
}
