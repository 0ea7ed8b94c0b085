//! The processes, threads, modules, mappings, calling contexts, files and watched functions that are defined at a position
//! in a trace.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::address_space::AddressSpace;
use crate::contexts::{ContextFrames, Contexts};
use crate::event::{Event, EventKind, ProcessEnd, ProcessOrigin, ThreadParent};
use crate::ids::{Address, AppPc, ContextId, EventIndex, FileId, FunctionId, ProcessId, ThreadId};

/// The device and inode by which the kernel identifies a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIdentity {
    /// The device.
    pub dev: u64,
    /// The inode number.
    pub ino: u64,
}

/// A file that was mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedFile {
    /// The number of the file in the trace.
    pub id: FileId,
    /// Its device and inode.
    pub identity: FileIdentity,
    /// Its path: the one at which it was mapped last, or its name since it was renamed. A file that has lost its name to
    /// another has a path that ends with ` (deleted)`, as in `/proc/PID/maps`.
    pub path: PathBuf,
}

/// Code in a process: an executable mapping of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The first address.
    pub addr: Address,
    /// The length in bytes.
    pub len: u64,
    /// The offset in the file at which the mapping starts.
    pub file_offset: u64,
    /// The path of the file.
    pub path: PathBuf,
    /// The build-id of the file; empty if it has none.
    pub build_id: Vec<u8>,
}

/// A thread of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its thread id.
    pub id: ThreadId,
    /// The thread that created it; `None` if that was not recorded.
    pub parent: Option<ThreadParent>,
    /// Its first event.
    pub start: EventIndex,
    /// The event of its end; `None` while it runs.
    pub exit: Option<EventIndex>,
}

/// A process with its threads, modules, mappings and contexts.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// The number of the process in the trace.
    pub id: ProcessId,
    /// Its process id.
    pub pid: u32,
    /// The process id of its parent.
    pub parent_pid: u32,
    /// Its parent, if that was recorded.
    pub parent: Option<ProcessId>,
    /// How it started; `None` if its start is not in the trace.
    pub origin: Option<ProcessOrigin>,
    /// The path of the program.
    pub exe: PathBuf,
    /// The arguments of the program.
    pub args: Vec<OsString>,
    /// The event of its start.
    pub start: EventIndex,
    /// The event of its end and how it ended; `None` while it runs.
    pub end: Option<(EventIndex, ProcessEnd)>,
    threads: Vec<Thread>,
    /// The index in `threads` of each thread that has not exited.
    live_threads: HashMap<ThreadId, usize>,
    modules: Arc<Vec<Arc<Module>>>,
    address_space: Arc<AddressSpace>,
    contexts: Contexts,
}

impl Process {
    /// The threads, in the order of their starts.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// All modules that were ever mapped, in the order in which they were mapped.
    pub fn modules(&self) -> impl DoubleEndedIterator<Item = &Module> {
        self.modules.iter().map(|module| &**module)
    }

    /// The module mapped last at `pc`.
    pub fn module_at(&self, pc: AppPc) -> Option<&Module> {
        self.modules().rev().find(|module| {
            pc.0.checked_sub(module.addr.0)
                .is_some_and(|offset| offset < module.len)
        })
    }

    /// The current mappings.
    pub fn address_space(&self) -> &AddressSpace {
        &self.address_space
    }

    /// The return addresses of a calling context, innermost first.
    pub fn context_frames(&self, context: ContextId) -> ContextFrames<'_> {
        self.contexts.frames(context)
    }

    /// The context that a calling context returns to, and the address; `None` for the root and for one that is not defined.
    pub fn context_caller(&self, context: ContextId) -> Option<(ContextId, AppPc)> {
        self.contexts.caller(context)
    }

    /// The calling contexts into which recursive calls are folded.
    pub fn recursive_contexts(&self) -> impl Iterator<Item = ContextId> {
        self.contexts.recursive()
    }
}

/// Everything that is defined at a reader's position, including by the current event.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    processes: BTreeMap<ProcessId, Process>,
    files: BTreeMap<FileId, MappedFile>,
    path_changes: Vec<FileId>,
    functions: BTreeMap<FunctionId, String>,
}

impl Definitions {
    /// All processes so far, including those that ended.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.processes.values()
    }

    /// The process with this number.
    pub fn process(&self, process: ProcessId) -> Option<&Process> {
        self.processes.get(&process)
    }

    /// All files that were mapped so far.
    pub fn files(&self) -> impl Iterator<Item = &MappedFile> {
        self.files.values()
    }

    /// The file with this number.
    pub fn file(&self, file: FileId) -> Option<&MappedFile> {
        self.files.get(&file)
    }

    /// The name of a watched function, as in the symbol table.
    pub fn function(&self, function: FunctionId) -> Option<&str> {
        self.functions.get(&function).map(String::as_str)
    }

    /// The watched functions that are defined so far, with their names. A recorder defines them before the first call.
    pub fn functions(&self) -> impl Iterator<Item = (FunctionId, &str)> {
        self.functions.iter().map(|(&id, name)| (id, name.as_str()))
    }

    /// The return addresses of a calling context, innermost first. The instruction of the event itself is not included.
    pub fn context_frames(&self, process: ProcessId, context: ContextId) -> ContextFrames<'_> {
        self.process(process)
            .map_or_else(ContextFrames::none, |process| {
                process.context_frames(context)
            })
    }

    /// The module that was mapped last at `pc` of a process.
    pub fn module_at(&self, process: ProcessId, pc: AppPc) -> Option<&Module> {
        self.process(process)?.module_at(pc)
    }

    /// The files whose paths have changed so far, one for each change.
    #[inline]
    pub fn path_changes(&self) -> &[FileId] {
        &self.path_changes
    }

    /// Defines the file with this number. A later definition replaces an earlier one.
    pub fn define_file(&mut self, id: FileId, identity: FileIdentity, path: &Path) {
        if self.files.get(&id).is_some_and(|known| known.path != path) {
            self.path_changes.push(id);
        }
        self.files.insert(
            id,
            MappedFile {
                id,
                identity,
                path: path.to_owned(),
            },
        );
    }

    /// Defines the watched function with this number.
    pub fn define_function(&mut self, id: FunctionId, name: &str) {
        self.functions.insert(id, name.to_owned());
    }

    /// Adds a calling context: a return address on top of its parent.
    pub fn define_context(
        &mut self,
        process: ProcessId,
        context: ContextId,
        parent: ContextId,
        return_address: AppPc,
    ) {
        self.entry(process)
            .contexts
            .define(context, parent, return_address);
    }

    /// Adds what an event defines. A [`TraceReader`](crate::TraceReader) calls this for each event that it reads; code that
    /// gets its events elsewhere must call it.
    pub fn apply(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Map(mapping) => self.space(event).map(mapping),
            EventKind::Unmap { addr, len } => self.space(event).unmap(addr, len),
            EventKind::Remap {
                old,
                old_len,
                new,
                new_len,
            } => {
                self.space(event).remap(old, old_len, new, new_len);
            }
            EventKind::Protect {
                addr,
                len,
                writable,
            } => {
                self.space(event).protect(addr, len, writable);
            }
            EventKind::Module {
                addr,
                len,
                file_offset,
                path,
                build_id,
            } => {
                let (path, build_id) = (path.to_owned(), build_id.to_owned());
                let module = Module {
                    addr,
                    len,
                    file_offset,
                    path,
                    build_id,
                };
                Arc::make_mut(&mut self.entry(event.process).modules).push(Arc::new(module));
            }
            EventKind::ThreadStart { parent } => {
                self.thread(event).parent = parent;
            }
            EventKind::ThreadExit => {
                self.thread(event).exit = Some(event.index);
                self.entry(event.process).live_threads.remove(&event.thread);
            }
            EventKind::ProcessStart { .. } => self.start_process(event),
            EventKind::ProcessExit { end } => {
                self.entry(event.process).end = Some((event.index, end));
            }
            EventKind::ThreadJoin { .. }
            | EventKind::LockAcquire { .. }
            | EventKind::LockRelease { .. }
            | EventKind::Store { .. }
            | EventKind::Load { .. }
            | EventKind::Flush { .. }
            | EventKind::Fence { .. }
            | EventKind::KernelWrite { .. }
            | EventKind::FileWrite { .. }
            | EventKind::FileResize { .. }
            | EventKind::Sync(_)
            | EventKind::Content { .. }
            | EventKind::Note { .. }
            | EventKind::Call { .. }
            | EventKind::Return { .. } => {}
        }
    }

    fn start_process(&mut self, event: &Event<'_>) {
        let EventKind::ProcessStart {
            pid,
            parent_pid,
            parent,
            origin,
            exe,
            args,
        } = event.kind
        else {
            return;
        };
        let mut process = Process {
            id: event.process,
            pid,
            parent_pid,
            parent,
            origin: Some(origin),
            exe: exe.to_owned(),
            args: args.iter().map(OsStr::to_owned).collect(),
            start: event.index,
            ..Process::default()
        };
        if origin == ProcessOrigin::Fork
            && let Some(parent) = parent.and_then(|parent| self.processes.get_mut(&parent))
        {
            process.modules = Arc::clone(&parent.modules);
            process.address_space = Arc::clone(&parent.address_space);
            process.contexts = parent.contexts.fork();
        }
        self.processes.insert(event.process, process);
        self.thread(event);
    }

    /// The thread of an event. If no such thread is running, it starts with this event.
    fn thread(&mut self, event: &Event<'_>) -> &mut Thread {
        let process = self.entry(event.process);
        let threads = &mut process.threads;
        let at = *process.live_threads.entry(event.thread).or_insert_with(|| {
            threads.push(Thread {
                id: event.thread,
                parent: None,
                start: event.index,
                exit: None,
            });
            threads.len() - 1
        });
        &mut process.threads[at]
    }

    fn space(&mut self, event: &Event<'_>) -> &mut AddressSpace {
        Arc::make_mut(&mut self.entry(event.process).address_space)
    }

    /// A process, created by the first event or definition that refers to it.
    fn entry(&mut self, id: ProcessId) -> &mut Process {
        match self.processes.entry(id) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Process {
                id,
                ..Process::default()
            }),
        }
    }
}
