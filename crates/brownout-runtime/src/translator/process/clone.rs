//! Making threads and processes: `clone`, `clone3`, `fork`, `vfork`.

use crate::arch::translator::{gate, thread_pointer};
use crate::hooks;
use crate::memory::{self, HEAP};
use crate::sys;
use crate::sys::{Raw, err, errno, is_err, linux};
use crate::translator::cache::TRANSLATOR;
use crate::translator::context::Context;
use crate::translator::discoveries;
use crate::translator::dispatch::with_translator;
use crate::translator::process::{
    OWNER, THREADS, ThreadRef, announce, blocks, register, unregister,
};
use crate::translator::space::SPACE;
use crate::translator::translate::Translator;
use crate::translator::{map_lock, signal};
use crate::wire;
use crate::wire::{Birth, Head, Producer};
use crate::{fatal, target_memory};
use alloc::boxed::Box;
use alloc::vec::Vec;
use brownout_ring::{ProcessStart, kind, origin};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use linux_raw_sys::prctl;

/// The arguments of `clone` and `clone3` in one form.
struct CloneRequest {
    flags: u64,
    stack: u64,
    args: [u64; 6],
    /// For clone3: its structure.
    structure: Option<[u64; 11]>,
}

const CLONE_VM: u64 = linux::CLONE_VM as u64;
const CLONE_VFORK: u64 = linux::CLONE_VFORK as u64;
const CLONE_THREAD: u64 = linux::CLONE_THREAD as u64;

/// The target's `clone`.
pub fn clone(context: &mut Context, args: [u64; 6]) -> Raw {
    run_clone(
        context,
        CloneRequest {
            flags: args[0],
            stack: args[1],
            args,
            structure: None,
        },
    )
}

/// The target's `clone3`.
pub fn clone3(context: &mut Context, at: u64, size: u64) -> Raw {
    if !(64..=88).contains(&size) {
        return err(if size < 64 {
            errno::EINVAL
        } else {
            errno::E2BIG
        });
    }
    let mut structure = [0u64; 11];
    let mut bytes = [0u8; 88];
    if target_memory::read_into(at, &mut bytes[..size as usize]) != size as usize {
        return err(errno::EFAULT);
    }
    for (word, chunk) in structure.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
    }
    let [flags, _, _, _, _, stack, stack_size, ..] = structure;
    if (stack == 0) != (stack_size == 0) {
        return err(errno::EINVAL);
    }
    let args = [0, size, 0, 0, 0, 0];
    let stack = if stack == 0 { 0 } else { stack + stack_size };
    run_clone(
        context,
        CloneRequest {
            flags,
            stack,
            args,
            structure: Some(structure),
        },
    )
}

/// The target's `vfork`.
pub fn vfork(context: &mut Context) -> Raw {
    let flags = CLONE_VM | CLONE_VFORK | u64::from(linux::SIGCHLD);
    run_clone(
        context,
        CloneRequest {
            flags,
            stack: 0,
            args: [flags, 0, 0, 0, 0, 0],
            structure: None,
        },
    )
}

fn run_clone(context: &mut Context, request: CloneRequest) -> Raw {
    if request.flags & CLONE_THREAD == 0 {
        wire::announce_process();
    }
    if request.flags & CLONE_VFORK == 0 {
        hooks::about_to_share(request.flags & CLONE_VM == 0);
    }
    let creation = announce_creation(context, &request);
    if request.flags & CLONE_VM == 0 {
        fork_process(context, request, creation)
    } else {
        clone_thread(context, request, creation)
    }
}

/// The number of the next thread that is created.
static NEXT_CREATION: AtomicU64 = AtomicU64::new(1);

/// Records that a thread is about to be created, and returns the number by which its start refers to this.
fn announce_creation(context: &mut Context, request: &CloneRequest) -> u64 {
    let creation = NEXT_CREATION.fetch_add(1, Ordering::Relaxed);
    let pointer = thread_pointer::requested(request.flags, &request.args, &request.structure);
    let head = Head {
        kind: kind::THREAD_CREATE,
        addr: creation,
        ..Head::default()
    };
    context.wire.record(head, &[&pointer.to_le_bytes()]);
    creation
}

/// Issues the system call with `stack` as the child's.
fn issue(request: &CloneRequest, stack: Option<u64>, child: *mut Context) -> Raw {
    let mut args = request.args;
    match request.structure {
        None => {
            args[1] = stack.unwrap_or(0);
            // SAFETY: the child gets its own stack, or its own copy of memory.
            unsafe {
                match stack {
                    Some(_) => gate::clone(linux::__NR_clone, &args, child),
                    None => sys::syscall(linux::__NR_clone, args),
                }
            }
        }
        Some(mut structure) => {
            // stack, stack_size
            structure[5] = stack.map_or(0, |top| top - 4096);
            structure[6] = if stack.is_some() { 4096 } else { 0 };
            args[0] = structure.as_ptr() as u64;
            // SAFETY: as above.
            unsafe {
                match stack {
                    Some(_) => gate::clone(linux::__NR_clone3, &args, child),
                    None => sys::syscall(linux::__NR_clone3, args),
                }
            }
        }
    }
}

/// A child that shares memory: a thread, or a vfork child.
fn clone_thread(context: &mut Context, request: CloneRequest, creation: u64) -> Raw {
    let is_thread = request.flags & CLONE_THREAD != 0;
    let child = Context::create();
    // SAFETY: fresh and not shared yet.
    let new = unsafe { &mut *child };
    new.cpu = context.cpu.cloned();
    new.cpu.set_result(0);
    if request.stack != 0 {
        new.cpu.set_stack_pointer(request.stack);
    }
    new.pc = context.next_pc;
    new.mask = context.mask;
    new.actions = if is_thread || request.flags & u64::from(linux::CLONE_SIGHAND) != 0 {
        context.actions
    } else {
        Box::into_raw(Box::new(context.actions().copy()))
    };
    if request.flags & CLONE_VFORK != 0 {
        new.altstack = context.altstack;
    }
    new.creation = creation;
    new.in_rust = 1;
    register(new);
    if is_thread {
        let cleared = thread_pointer::cleared(request.flags, &request.args, &request.structure);
        hooks::thread_created(context, new, cleared);
    }
    // The child must not get a signal before it has its context; it sets its mask itself.
    let before = sys::set_mask(!0);
    let raw = issue(&request, Some(new.stack), child);
    sys::set_mask(before);
    if is_err(raw) || request.flags & CLONE_VFORK != 0 {
        // Either there is no child, or it has left this memory by now.
        unregister(child);
        new.wire.reclaim();
        hooks::thread_left(new);
        blocks::give_back(child as u64);
    }
    raw
}

/// The first Rust code of a cloned thread.
pub extern "C" fn thread_begin(context: &mut Context) {
    hooks::thread_begins(context);
    context.tid = sys::gettid();
    context.epoch = crate::translator::cache::EPOCH.load(Ordering::Relaxed);
    signal::install_for_thread(context);
    context.wire.claim(sys::getpid(), context.tid);
    context.wire.record(
        Head {
            kind: kind::THREAD_START,
            addr: context.creation,
            ..Head::default()
        },
        &[],
    );
    hooks::thread_started(context);
    match crate::translator::dispatch::with_translator(|translator| translator.block(context.pc)) {
        Ok(at) => context.resume = at,
        Err(_) => fatal::fault(format_args!(
            "a new thread has no code at {:#x}",
            context.pc
        )),
    }
    context.in_rust = 0;
    signal::apply_mask(context.mask);
}

/// A child with its own copy of memory.
fn fork_process(context: &mut Context, request: CloneRequest, creation: u64) -> Raw {
    // From now on the parent and the child draw sequence numbers concurrently.
    wire::set_alone(false);
    let parent = wire::process();
    let parent_pid = sys::getpid();
    let before = sys::set_mask(!0);
    let mut birth = None;
    let raw = fork_quiesced(context, &request, |context| {
        birth = context.wire.draw_birth()
    });
    if raw == 0 {
        context.creation = creation;
        begin_child(context, (parent, parent_pid), request.stack, birth);
    } else {
        if is_err(raw) {
            context.wire.cancel_birth(birth);
        }
        context.wire.end_fork();
    }
    sys::set_mask(before);
    raw
}

/// Forks while no other thread is changing what the child inherits. Calls `begin` right before.
fn fork_quiesced(
    context: &mut Context,
    request: &CloneRequest,
    begin: impl FnOnce(&mut Context),
) -> Raw {
    // With all locks held, no other thread can be changing what they guard, and the child inherits it in a
    // consistent state. The map lock comes first, then the locks of the instruments: their holders may take any
    // of the others.
    let _map_lock = map_lock::acquire();
    with_translator(prepare_fork);
    hooks::quiesced(|| {
        let _translator = TRANSLATOR.lock();
        let _space = SPACE.lock();
        let mut threads = THREADS.lock();
        let others: Vec<ThreadRef> = threads
            .iter()
            .copied()
            .filter(|thread| thread.0 != &raw mut *context)
            .collect();
        begin(context);
        let raw = HEAP.quiesced(|| issue(request, None, core::ptr::null_mut()));
        if raw == 0 {
            threads.retain(|thread| thread.0 == &raw mut *context);
            blocks::adopt(others.iter().map(|thread| thread.0 as u64));
        }
        raw
    })
}

/// Forks the process on behalf of an instrument: the child has the same parent, is not recorded, and ends with that
/// parent. Its memory stays as it is: what the C library takes for the id of the thread is that of the first process.
pub fn fork_copy(context: &mut Context) -> Raw {
    let flags = u64::from(linux::CLONE_PARENT);
    let mut structure = [0u64; 11];
    structure[0] = flags;
    let request = CloneRequest {
        flags,
        stack: 0,
        args: [0, size_of_val(&structure) as u64, 0, 0, 0, 0],
        structure: Some(structure),
    };
    // It will be copied again and again, and so will its copies.
    FORKS.fetch_max(MANY_FORKS, Ordering::Relaxed);
    let before = sys::set_mask(!0);
    let raw = fork_quiesced(context, &request, |_| ());
    if raw == 0 {
        context.tid = sys::gettid();
        OWNER.store(sys::getpid(), Ordering::Relaxed);
        wire::forget_spares();
        context.wire = Producer::none();
        // SAFETY: changes an attribute of the process.
        unsafe {
            let kill = linux::SIGKILL;
            crate::sys!(linux::__NR_prctl, prctl::PR_SET_PDEATHSIG, kill)
        };
    }
    sys::set_mask(before);
    raw
}

/// Forks after which a process is taken for one that forks often.
const MANY_FORKS: u32 = 8;
/// Forks that this process has made, and its parents before them. Children inherit what was done for them.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Makes the fork cheaper that is about to happen: for the child, and if there have been others, for the kernel.
fn prepare_fork(translator: &mut Translator) {
    discoveries::follow(translator);
    if FORKS.fetch_add(1, Ordering::Relaxed) == MANY_FORKS {
        translator.cache.collapse();
        memory::collapse_heap();
        memory::collapse_text();
    }
}

fn begin_child(
    context: &mut Context,
    (parent, parent_pid): (u32, u32),
    stack: u64,
    birth: Option<Birth>,
) {
    context.tid = sys::gettid();
    if stack != 0 {
        context.cpu.set_stack_pointer(stack);
    }
    let pid = sys::getpid();
    OWNER.store(pid, Ordering::Relaxed);
    wire::forget_spares();
    wire::enter_process(pid);
    context.wire.claim(pid, context.tid);
    let start = ProcessStart {
        pid,
        parent_pid,
        parent,
        origin: origin::FORK,
    };
    announce(context, start, b"", birth);
    hooks::process_started(context);
}
