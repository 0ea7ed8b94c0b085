//! Threads and processes: clone, fork, vfork, exec, exit.

use crate::cache::TRANSLATOR;
use crate::context::{Context, reg};
use crate::load::{self, Image, InitialStack, Refusal};
use crate::lock::Lock;
use crate::memory::HEAP;
use crate::signal;
use crate::space::SPACE;
use crate::sys::{self, Raw, err, errno, is_err, linux};
use crate::wire::{self, Head};
use crate::{fatal, gate, guest, pm};
use alloc::boxed::Box;
use alloc::vec::Vec;
use brownout_ring::{self as ring, kind, origin};
use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, Ordering};

/// A context in the list of threads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ThreadRef(pub *mut Context);
// SAFETY: the list only hands out addresses; what may be touched from other threads is said where it
// is done.
unsafe impl Send for ThreadRef {}

static THREADS: Lock<Vec<ThreadRef>> = Lock::new(Vec::new());
/// Blocks of threads that have ended. Guarded by `DYING`, which a dying thread holds until it no longer
/// uses its stack.
static mut SPARE_BLOCKS: Vec<u64> = Vec::new();
static DYING: AtomicU32 = AtomicU32::new(0);
/// Process id of the owner of this memory; a vfork child runs in it with another.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// Path of the program, for `/proc/self/exe`.
static EXECUTABLE: Lock<Vec<u8>> = Lock::new(Vec::new());
/// The auxiliary vector, for `/proc/self/auxv`.
static AUXILIARY: Lock<Vec<u8>> = Lock::new(Vec::new());

pub fn register(context: &mut Context) {
    let mut threads = THREADS.lock();
    threads.push(ThreadRef(context));
    drop(threads);
    pm::refresh(context);
}

/// Runs `visit` on the context of every thread. Only fields that are safe to change from outside may
/// be touched.
pub fn for_each_thread(mut visit: impl FnMut(*mut Context)) {
    for thread in THREADS.lock().iter() {
        visit(thread.0);
    }
}

/// Whether every thread has been in the dispatcher since `epoch`, or waits in a system call.
pub fn all_threads_passed(epoch: u64) -> bool {
    // SAFETY: plain reads of words that their threads write; old values only delay the answer.
    THREADS.lock().iter().all(|thread| unsafe {
        (&raw const (*thread.0).epoch).read_volatile() >= epoch || (&raw const (*thread.0).in_rust).read_volatile() != 0
    })
}

/// Makes threads that will come back from a system call into `[start, end)` look their way up again.
pub fn redirect_waiters(start: u64, end: u64) {
    for_each_thread(|context| {
        // SAFETY: an 8-byte store; the gate reads the word once, and going through the resync entry is
        // right whichever value it sees.
        unsafe {
            let resume = (&raw const (*context).sys_resume).read_volatile();
            if (start..end).contains(&resume) {
                (&raw mut (*context).sys_resume).write_volatile(gate::after_syscall());
            }
        }
    });
}

fn lock_dying() {
    while DYING.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        core::hint::spin_loop();
    }
}

/// A block of memory that an ended thread left, for a new one.
pub fn spare_block() -> Option<u64> {
    lock_dying();
    // SAFETY: guarded by DYING.
    let block = unsafe { (*(&raw mut SPARE_BLOCKS)).pop() };
    DYING.store(0, Ordering::Release);
    block
}

/// Keeps the wire's descriptor from leaking into programs that are not followed.
pub fn protect_descriptor(fd: i32) {
    set_close_on_exec(fd, true);
}

fn set_close_on_exec(fd: i32, on: bool) {
    // SAFETY: changes a flag of the engine's own descriptor.
    unsafe { crate::sys!(linux::__NR_fcntl, fd, linux::F_SETFD, u32::from(on)) };
}

pub fn set_executable(path: &CStr) {
    let fd = sys::open(path, linux::O_PATH | linux::O_CLOEXEC);
    let mut buffer = [0u8; 4096];
    let name = if is_err(fd) { None } else { sys::fd_path(fd as i32, &mut buffer) };
    *EXECUTABLE.lock() = name.unwrap_or(path.to_bytes()).to_vec();
    if !is_err(fd) {
        sys::close(fd as i32);
    }
}

/// Notes the auxiliary vector as the program has it.
pub fn set_auxiliary(vector: &[u64]) {
    let mut bytes = AUXILIARY.lock();
    bytes.clear();
    for word in vector {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
}

/// The bytes of the auxiliary vector.
pub fn auxiliary() -> Vec<u8> {
    AUXILIARY.lock().clone()
}

/// What `/proc/self/exe` should lead to.
pub fn executable() -> Vec<u8> {
    EXECUTABLE.lock().clone()
}

/// Tells the recorder that a program image starts.
pub fn announce_exec<'a>(context: &mut Context, path: &CStr, arguments: impl Iterator<Item = &'a CStr>) {
    let (pid, parent) = (sys::getpid(), parent_pid());
    OWNER.store(pid, Ordering::Relaxed);
    wire::enter_process(pid);
    context.wire.claim(pid, context.tid);
    let mut text = path.to_bytes_with_nul().to_vec();
    for argument in arguments {
        if text.len() + argument.count_bytes() > ring::MAX_RECORD - 4096 {
            break;
        }
        text.extend_from_slice(argument.to_bytes_with_nul());
    }
    announce(context, pid, parent, u32::MAX, origin::EXEC, &text);
}

fn announce(context: &mut Context, pid: u32, parent_pid: u32, parent: u32, origin: u32, text: &[u8]) {
    let start = ring::ProcessStart { pid, parent_pid, parent, origin };
    let head = Head { kind: kind::PROCESS_START, ..Head::default() };
    context.wire.record(head, &[wire_bytes(&start), text]);
    context.wire.record(Head { kind: kind::THREAD_START, ..Head::default() }, &[]);
}

/// The bytes of a wire structure.
pub fn wire_bytes<T>(value: &T) -> &[u8] {
    // SAFETY: wire structures are plain integers without padding.
    unsafe { core::slice::from_raw_parts((&raw const *value).cast(), size_of::<T>()) }
}

fn parent_pid() -> u32 {
    // SAFETY: getppid takes no arguments.
    unsafe { crate::sys!(linux::__NR_getppid) as u32 }
}

pub fn announce_modules(context: &mut Context, image: &Image, path: &CStr) {
    for &(addr, len, offset) in &image.code {
        announce_module(context, addr, len, offset, path.to_bytes());
    }
}

/// Tells the recorder that code was mapped.
pub fn announce_module(context: &mut Context, addr: u64, len: u64, file_offset: u64, path: &[u8]) {
    let head = Head { kind: kind::MODULE, addr, ..Head::default() };
    context.wire.record(head, &[wire_bytes(&ring::Module { len, file_offset }), path]);
}

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

/// The program's `clone`.
pub fn clone(context: &mut Context, args: [u64; 6]) -> Raw {
    run_clone(context, CloneRequest { flags: args[0], stack: args[1], args, structure: None })
}

/// The program's `clone3`.
pub fn clone3(context: &mut Context, at: u64, size: u64) -> Raw {
    if !(64..=88).contains(&size) {
        return err(if size < 64 { errno::EINVAL } else { errno::E2BIG });
    }
    let mut structure = [0u64; 11];
    let mut bytes = [0u8; 88];
    if guest::read_into(at, &mut bytes[..size as usize]) != size as usize {
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
    run_clone(context, CloneRequest { flags, stack, args, structure: Some(structure) })
}

/// The program's `vfork`.
pub fn vfork(context: &mut Context) -> Raw {
    let flags = CLONE_VM | CLONE_VFORK | u64::from(linux::SIGCHLD);
    run_clone(context, CloneRequest { flags, stack: 0, args: [flags, 0, 0, 0, 0, 0], structure: None })
}

fn run_clone(context: &mut Context, request: CloneRequest) -> Raw {
    if request.flags & CLONE_VM == 0 { fork_process(context, request) } else { clone_thread(context, request) }
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
fn clone_thread(context: &mut Context, request: CloneRequest) -> Raw {
    let is_thread = request.flags & CLONE_THREAD != 0;
    let child = Context::create();
    // SAFETY: fresh and not shared yet.
    let new = unsafe { &mut *child };
    new.gpr = context.gpr;
    new.xmm = context.xmm;
    new.flags = context.flags;
    new.app_gs = context.app_gs;
    new.gpr[reg::RAX] = 0;
    if request.stack != 0 {
        new.gpr[reg::RSP] = request.stack;
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
    new.in_rust = 1;
    register(new);
    // The child must not get a signal before it has its context; it sets its mask itself.
    let before = sys::set_mask(!0);
    let raw = issue(&request, Some(new.stack), child);
    sys::set_mask(before);
    if is_err(raw) || request.flags & CLONE_VFORK != 0 {
        // Either there is no child, or it has left this memory by now.
        unregister(child);
        new.wire.reclaim();
        lock_dying();
        // SAFETY: guarded by DYING; nobody uses the block any more.
        unsafe { (*(&raw mut SPARE_BLOCKS)).push(child as u64) };
        DYING.store(0, Ordering::Release);
    }
    raw
}

fn unregister(context: *mut Context) {
    THREADS.lock().retain(|thread| thread.0 != context);
}

/// The first Rust code of a cloned thread.
pub extern "C" fn thread_begin(context: &mut Context) {
    context.tid = sys::gettid();
    context.epoch = crate::cache::EPOCH.load(Ordering::Relaxed);
    signal::install_for_thread(context);
    context.wire.claim(sys::getpid(), context.tid);
    context.wire.record(Head { kind: kind::THREAD_START, ..Head::default() }, &[]);
    match crate::dispatch::with_translator(|translator| translator.block(context.pc)) {
        Ok(at) => context.resume = at,
        Err(_) => fatal::fault(format_args!("a new thread has no code at {:#x}", context.pc)),
    }
    context.in_rust = 0;
    signal::apply_mask(context.mask);
}

/// A child with its own copy of memory.
fn fork_process(context: &mut Context, request: CloneRequest) -> Raw {
    let parent = wire::process();
    let parent_pid = sys::getpid();
    let before = sys::set_mask(!0);
    // With all locks held, no other thread can be inside what they guard, and the child inherits it in
    // order. The stripes come first: their holders may want any of the others.
    let raw = pm::quiesced(|| {
        let _translator = TRANSLATOR.lock();
        let _space = SPACE.lock();
        let mut threads = THREADS.lock();
        let others: Vec<ThreadRef> = threads.iter().copied().filter(|thread| thread.0 != &raw mut *context).collect();
        let raw = HEAP.quiesced(|| issue(&request, None, core::ptr::null_mut()));
        if raw == 0 {
            threads.retain(|thread| thread.0 == &raw mut *context);
            lock_dying_in_child();
            // SAFETY: guarded by DYING; the threads of these blocks exist only in the parent.
            unsafe { (*(&raw mut SPARE_BLOCKS)).extend(others.iter().map(|thread| thread.0 as u64)) };
            DYING.store(0, Ordering::Release);
        }
        raw
    });
    if raw == 0 {
        begin_child(context, parent, parent_pid, request.stack);
    }
    sys::set_mask(before);
    raw
}

fn lock_dying_in_child() {
    // Whoever held it in the parent is not here.
    DYING.store(1, Ordering::Relaxed);
}

fn begin_child(context: &mut Context, parent: u32, parent_pid: u32, stack: u64) {
    context.tid = sys::gettid();
    if stack != 0 {
        context.gpr[reg::RSP] = stack;
    }
    let pid = sys::getpid();
    OWNER.store(pid, Ordering::Relaxed);
    wire::forget_spares();
    wire::enter_process(pid);
    context.wire.claim(pid, context.tid);
    announce(context, pid, parent_pid, parent, origin::FORK, b"");
}

/// Whether the caller is a vfork child: a process in the memory of another.
fn is_guest_in_memory() -> bool {
    sys::getpid() != OWNER.load(Ordering::Relaxed)
}

/// The program's `exit`: ends the thread.
pub fn exit_thread(context: &mut Context, status: u64) -> ! {
    if is_guest_in_memory() || THREADS.lock().len() == 1 {
        exit_process(context, status, false);
    }
    context.wire.record(Head { kind: kind::THREAD_EXIT, ..Head::default() }, &[]);
    context.wire.close();
    sys::set_mask(!0);
    let this = &raw mut *context;
    unregister(this);
    lock_dying();
    // SAFETY: guarded by DYING, which is released when the thread no longer uses its block.
    unsafe {
        (*(&raw mut SPARE_BLOCKS)).push(this as u64);
        gate::thread_exit((&raw const DYING).cast(), status)
    }
}

/// The program's `exit_group`, or `exit` by the last thread.
pub fn exit_process(context: &mut Context, status: u64, group: bool) -> ! {
    if !is_guest_in_memory() {
        // No other thread may be between a store and its record.
        pm::stop_all();
        context.wire.record(Head { kind: kind::PROCESS_EXIT, addr: status, ..Head::default() }, &[]);
    }
    context.wire.close();
    if group {
        sys::exit_group(status);
    }
    loop {
        // SAFETY: does not return.
        unsafe { crate::sys!(linux::__NR_exit, status) };
    }
}

/// The process is about to be ended by a signal of its own making.
pub fn about_to_die(context: &mut Context, signal: u32) {
    if is_guest_in_memory() {
        return;
    }
    pm::stop_all();
    let head = Head { kind: kind::PROCESS_EXIT, flags: signal as u16, ..Head::default() };
    context.wire.record(head, &[]);
}

/// The fixed addresses of the old vsyscall page, which no mapping shows.
pub fn vsyscall(context: &mut Context) -> bool {
    let nr = match context.pc {
        0xffff_ffff_ff60_0000 => linux::__NR_gettimeofday,
        0xffff_ffff_ff60_0400 => linux::__NR_time,
        0xffff_ffff_ff60_0800 => linux::__NR_getcpu,
        _ => return false,
    };
    let Ok(back) = guest::read::<u64>(context.gpr[reg::RSP]) else { return false };
    let (rdi, rsi, rdx) = (context.gpr[reg::RDI], context.gpr[reg::RSI], context.gpr[reg::RDX]);
    // SAFETY: the program's own call with its own pointers.
    context.gpr[reg::RAX] = unsafe { crate::sys!(nr, rdi, rsi, rdx) };
    context.gpr[reg::RSP] += 8;
    context.pc = back;
    true
}

/// The program's `execve` and `execveat`.
pub fn exec(context: &mut Context, dirfd: i32, path_at: u64, argv_at: u64, envp_at: u64, flags: u32) -> Raw {
    match try_exec(context, dirfd, path_at, argv_at, envp_at, flags) {
        Ok(never) => match never {},
        Err(number) => err(number),
    }
}

enum Never {}

fn try_exec(context: &mut Context, dirfd: i32, path_at: u64, argv_at: u64, envp_at: u64, flags: u32) -> Result<Never, u32> {
    let bad = |_| errno::EFAULT;
    let given = guest::read_cstr(path_at, 4096).map_err(bad)?;
    let mut argv = guest::read_pointers(argv_at).map_err(bad)?;
    let mut envp = guest::read_pointers(envp_at).map_err(bad)?;
    let mut buffer = [0u8; 4096];
    let mut path = resolve(dirfd, &given, flags, &mut buffer)?;
    let original = path.clone();
    let mut strings: Vec<Vec<u8>> = Vec::new();
    for _ in 0..5 {
        match examine(&path, flags)? {
            Verdict::Run => {
                argv.push(0);
                return Err(replace(context, &path, &argv, &mut envp));
            }
            Verdict::Native => {
                // Not something the engine can follow: it runs, unseen.
                // SAFETY: the program's own call.
                let raw = unsafe {
                    sys::syscall(linux::__NR_execveat, [dirfd as u64, path_at, argv_at, envp_at, u64::from(flags), 0])
                };
                return Err((-(raw as i64)) as u32);
            }
            Verdict::Script { interpreter, argument } => {
                let mut front: Vec<Vec<u8>> = alloc::vec![with_nul(&interpreter)];
                front.extend(argument.as_deref().map(with_nul));
                front.push(if strings.is_empty() { original.clone() } else { path.clone() });
                let pointers: Vec<u64> = front.iter().map(|text| text.as_ptr() as u64).collect();
                argv = pointers.into_iter().chain(argv.iter().skip(1).copied()).collect();
                path = with_nul(&interpreter);
                strings.extend(front);
            }
        }
    }
    Err(errno::ELOOP)
}

fn with_nul(text: &[u8]) -> Vec<u8> {
    let mut text = text.to_vec();
    text.push(0);
    text
}

/// The path as a NUL-terminated string that the kernel can open from anywhere.
fn resolve(dirfd: i32, given: &[u8], flags: u32, buffer: &mut [u8]) -> Result<Vec<u8>, u32> {
    if crate::syscall::is_own_executable(given) {
        return Ok(with_nul(&executable()));
    }
    if given.len() == 1 {
        if flags & linux::AT_EMPTY_PATH == 0 {
            return Err(errno::ENOENT);
        }
        return by_descriptor(dirfd, buffer);
    }
    if given[0] == b'/' || dirfd == linux::AT_FDCWD {
        return Ok(given.to_vec());
    }
    let mut path = sys::fd_path(dirfd, buffer).ok_or(errno::EBADF)?.to_vec();
    path.push(b'/');
    path.extend_from_slice(given);
    if crate::syscall::is_own_executable(&path) {
        return Ok(with_nul(&executable()));
    }
    Ok(path)
}

/// The name of an open file, if it still has one; else a way through the descriptor.
fn by_descriptor(fd: i32, buffer: &mut [u8]) -> Result<Vec<u8>, u32> {
    let path = with_nul(sys::fd_path(fd, buffer).ok_or(errno::EBADF)?);
    let same = CStr::from_bytes_with_nul(&path).ok().and_then(|name| {
        let other = sys::open(name, linux::O_PATH | linux::O_CLOEXEC);
        let stat = if is_err(other) { None } else { sys::fstat(other as i32) };
        if !is_err(other) {
            sys::close(other as i32);
        }
        let own = sys::fstat(fd)?;
        stat.filter(|stat| (stat.st_dev, stat.st_ino) == (own.st_dev, own.st_ino))
    });
    if same.is_some() {
        return Ok(path);
    }
    // A copy of the descriptor that exec leaves open for the loader.
    // SAFETY: duplicates a descriptor.
    let copy = unsafe { crate::sys!(linux::__NR_fcntl, fd, linux::F_DUPFD, 3) };
    if is_err(copy) {
        return Err(errno::EMFILE);
    }
    let mut name = [0u8; 32];
    Ok(sys::fd_link(copy as i32, &mut name).to_bytes_with_nul().to_vec())
}

enum Verdict {
    Run,
    Native,
    Script { interpreter: Vec<u8>, argument: Option<Vec<u8>> },
}

/// What exec of a file would do.
fn examine(path: &[u8], flags: u32) -> Result<Verdict, u32> {
    let name = CStr::from_bytes_with_nul(path).map_err(|_| errno::EINVAL)?;
    // SAFETY: a valid string; the kernel checks whether the file may be executed.
    let raw = unsafe { crate::sys!(linux::__NR_faccessat, linux::AT_FDCWD, name.as_ptr(), linux::X_OK) };
    if is_err(raw) {
        return Err((-(raw as i64)) as u32);
    }
    let nofollow = if flags & linux::AT_SYMLINK_NOFOLLOW != 0 { linux::O_NOFOLLOW } else { 0 };
    let fd = sys::open(name, linux::O_RDONLY | linux::O_CLOEXEC | nofollow);
    if is_err(fd) {
        // Executable but not readable: the kernel can run it, the engine cannot.
        return Ok(Verdict::Native);
    }
    let stat = sys::fstat(fd as i32);
    let verdict = load::inspect(fd as i32);
    sys::close(fd as i32);
    let mode = stat.map_or(0, |stat| stat.st_mode);
    if mode & linux::S_IFMT != linux::S_IFREG {
        return Err(errno::EACCES);
    }
    // Set-user-ID programs get their rights only from the kernel's own exec.
    if mode & (linux::S_ISUID | linux::S_ISGID) != 0 {
        return Ok(Verdict::Native);
    }
    match verdict {
        Ok(headers) => {
            if let Some(interpreter) = &headers.interpreter {
                // SAFETY: a valid string.
                let raw =
                    unsafe { crate::sys!(linux::__NR_faccessat, linux::AT_FDCWD, interpreter.as_ptr(), linux::R_OK) };
                if is_err(raw) {
                    return Ok(Verdict::Native);
                }
            }
            Ok(Verdict::Run)
        }
        Err(Refusal::Script { interpreter, argument }) => Ok(Verdict::Script { interpreter, argument }),
        // The kernel knows the right error.
        Err(_) => Ok(Verdict::Native),
    }
}

/// Replaces the process by the loader, which then loads `path`. Returns the error if that fails.
fn replace(context: &mut Context, path: &[u8], argv: &[u64], envp: &mut Vec<u64>) -> u32 {
    let fd = wire::descriptor();
    let mut variable = alloc::format!("{}={fd}:", ring::ENV).into_bytes();
    variable.extend_from_slice(path);
    envp.push(variable.as_ptr() as u64);
    envp.push(0);
    // Signals that the engine handles only for itself must be inherited as the program set them.
    let actions = context.actions();
    for number in [signal::SIGSEGV, signal::SIGBUS, signal::SIGTRAP] {
        if actions.get(number).handler == 1 {
            signal::ignore(number);
        }
    }
    let empty = [0u64];
    let argv = if argv.len() > 1 { argv } else { &empty[..] };
    // The mask survives exec, and so must what the program blocked.
    sys::set_mask(context.mask);
    set_close_on_exec(fd, false);
    // SAFETY: valid, NULL-terminated arrays of the program's and our own strings.
    let raw = unsafe { crate::sys!(linux::__NR_execve, c"/proc/self/exe".as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    set_close_on_exec(fd, true);
    signal::apply_mask(context.mask);
    for number in [signal::SIGSEGV, signal::SIGBUS, signal::SIGTRAP] {
        signal::install(number, 0);
    }
    (-(raw as i64)) as u32
}

/// At start-up, the program turned out to be a script: start again with its interpreter.
pub fn exec_script(path: &CStr, interpreter: &[u8], argument: Option<&[u8]>, stack: &InitialStack) -> ! {
    let interpreter = with_nul(interpreter);
    let argument = argument.map(with_nul);
    let mut argv: Vec<u64> = alloc::vec![interpreter.as_ptr() as u64];
    argv.extend(argument.as_ref().map(|text| text.as_ptr() as u64));
    argv.push(path.as_ptr() as u64);
    argv.extend(stack.arguments().skip(1).map(|text| text.as_ptr() as u64));
    argv.push(0);
    let fd = wire::descriptor();
    let mut variable = alloc::format!("{}={fd}:", ring::ENV).into_bytes();
    variable.extend_from_slice(&interpreter);
    let mut envp: Vec<u64> = stack.environment().map(|text| text.as_ptr() as u64).collect();
    envp.push(variable.as_ptr() as u64);
    envp.push(0);
    set_close_on_exec(fd, false);
    // SAFETY: valid, NULL-terminated arrays.
    let raw = unsafe { crate::sys!(linux::__NR_execve, c"/proc/self/exe".as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    fatal::unsupported(format_args!("cannot start the interpreter of {path:?} (error {})", -(raw as i64)));
}

