//! Replacing the target: `execve` and `execveat`.
//!
//! The loader is executed instead of the new program, with its arguments and environment; one more variable
//! says what to load. Programs that the engine cannot follow run without it: set-user-ID programs, programs
//! that cannot be read, and programs for other machines.

use crate::sys;
use crate::sys::{Raw, err, errno, is_err, linux};
use crate::translator::context::Context;
use crate::translator::load;
use crate::translator::load::{InitialStack, Refusal};
use crate::translator::process::{executable, own_image, set_close_on_exec};
use crate::translator::signal;
use crate::wire::Head;
use crate::{fatal, target_memory, wire};
use alloc::vec::Vec;
use brownout_ring as ring;
use core::ffi::CStr;

/// The target's `execve` and `execveat`.
pub fn exec(
    context: &mut Context,
    dirfd: i32,
    path_at: u64,
    argv_at: u64,
    envp_at: u64,
    flags: u32,
) -> Raw {
    match try_exec(context, dirfd, path_at, argv_at, envp_at, flags) {
        Ok(never) => match never {},
        Err(number) => err(number),
    }
}

enum Never {}

fn try_exec(
    context: &mut Context,
    dirfd: i32,
    path_at: u64,
    argv_at: u64,
    envp_at: u64,
    flags: u32,
) -> Result<Never, u32> {
    let bad = |_| errno::EFAULT;
    let given = target_memory::read_cstr(path_at, 4096).map_err(bad)?;
    let mut argv = target_memory::read_pointers(argv_at).map_err(bad)?;
    let mut envp = target_memory::read_pointers(envp_at).map_err(bad)?;
    let mut buffer = [0u8; 4096];
    let mut path = resolve(dirfd, &given, flags, &mut buffer)?;
    let original = path.clone();
    let mut strings: Vec<Vec<u8>> = Vec::new();
    for _ in 0..5 {
        match examine(&path, flags)? {
            ExecPlan::Run => {
                argv.push(0);
                return Err(replace(context, &path, &argv, &mut envp));
            }
            ExecPlan::Native { unrecorded } => {
                // The engine cannot follow this program: it runs unobserved.
                if let Some(why) = unrecorded {
                    note_unrecorded(context, &original, why);
                }
                // SAFETY: the target's own call.
                let raw = unsafe {
                    sys::syscall(
                        linux::__NR_execveat,
                        [dirfd as u64, path_at, argv_at, envp_at, u64::from(flags), 0],
                    )
                };
                return Err((-(raw as i64)) as u32);
            }
            ExecPlan::Script {
                interpreter,
                argument,
            } => {
                let mut front: Vec<Vec<u8>> = alloc::vec![with_nul(&interpreter)];
                front.extend(argument.as_deref().map(with_nul));
                front.push(if strings.is_empty() {
                    original.clone()
                } else {
                    path.clone()
                });
                let pointers: Vec<u64> = front.iter().map(|text| text.as_ptr() as u64).collect();
                argv = pointers
                    .into_iter()
                    .chain(argv.iter().skip(1).copied())
                    .collect();
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
    if crate::translator::syscall::is_own_executable(given) {
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
    if crate::translator::syscall::is_own_executable(&path) {
        return Ok(with_nul(&executable()));
    }
    Ok(path)
}

/// The name of an open file, if it still has one; else a way through the descriptor.
fn by_descriptor(fd: i32, buffer: &mut [u8]) -> Result<Vec<u8>, u32> {
    let path = with_nul(sys::fd_path(fd, buffer).ok_or(errno::EBADF)?);
    let same = CStr::from_bytes_with_nul(&path).ok().and_then(|name| {
        let other = sys::open(name, linux::O_PATH | linux::O_CLOEXEC);
        let stat = if is_err(other) {
            None
        } else {
            sys::fstat(other as i32)
        };
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
    Ok(sys::fd_link(copy as i32, &mut name)
        .to_bytes_with_nul()
        .to_vec())
}

enum ExecPlan {
    Run,
    /// The kernel decides what happens.
    Native {
        /// Why the program runs without being recorded. `None` if the kernel refuses to run it.
        unrecorded: Option<&'static str>,
    },
    Script {
        interpreter: Vec<u8>,
        argument: Option<Vec<u8>>,
    },
}

/// What exec of a file would do.
fn examine(path: &[u8], flags: u32) -> Result<ExecPlan, u32> {
    let name = CStr::from_bytes_with_nul(path).map_err(|_| errno::EINVAL)?;
    // SAFETY: a valid string; the kernel checks whether the file may be executed.
    let raw = unsafe {
        crate::sys!(
            linux::__NR_faccessat,
            linux::AT_FDCWD,
            name.as_ptr(),
            linux::X_OK
        )
    };
    if is_err(raw) {
        return Err((-(raw as i64)) as u32);
    }
    let nofollow = if flags & linux::AT_SYMLINK_NOFOLLOW != 0 {
        linux::O_NOFOLLOW
    } else {
        0
    };
    let fd = sys::open(name, linux::O_RDONLY | linux::O_CLOEXEC | nofollow);
    if is_err(fd) {
        // Executable but not readable: the kernel can run it, the engine cannot.
        return Ok(unrecorded("it is not readable"));
    }
    let stat = sys::fstat(fd as i32);
    let inspected = load::inspect(fd as i32);
    let capable = has_capabilities(fd as i32);
    sys::close(fd as i32);
    let mode = stat.map_or(0, |stat| stat.st_mode);
    if mode & linux::S_IFMT != linux::S_IFREG {
        return Err(errno::EACCES);
    }
    // Set-user-ID programs get their rights only from the kernel's own exec.
    let is_script = matches!(inspected, Err(Refusal::Script { .. }));
    if mode & linux::S_ISUID != 0 && !is_script {
        return Ok(unrecorded("it is set-user-ID"));
    }
    if mode & linux::S_ISGID != 0 && !is_script {
        return Ok(unrecorded("it is set-group-ID"));
    }
    if capable && !is_script {
        return Ok(unrecorded("it has file capabilities"));
    }
    match inspected {
        Ok(headers) => {
            if let Some(interpreter) = &headers.interpreter {
                // SAFETY: a valid string.
                let raw = unsafe {
                    crate::sys!(
                        linux::__NR_faccessat,
                        linux::AT_FDCWD,
                        interpreter.as_ptr(),
                        linux::R_OK
                    )
                };
                if is_err(raw) {
                    return Ok(unrecorded("its loader is not readable"));
                }
            }
            Ok(ExecPlan::Run)
        }
        Err(Refusal::Script {
            interpreter,
            argument,
        }) => Ok(ExecPlan::Script {
            interpreter,
            argument,
        }),
        Err(Refusal::Foreign) => Ok(unrecorded("it is a 32-bit program or for another machine")),
        // The kernel knows the right error.
        Err(Refusal::Open(_) | Refusal::NotExecutable | Refusal::Damaged) => {
            Ok(ExecPlan::Native { unrecorded: None })
        }
    }
}

fn unrecorded(why: &'static str) -> ExecPlan {
    ExecPlan::Native {
        unrecorded: Some(why),
    }
}

/// Whether the kernel gives the program behind `fd` capabilities of its own.
fn has_capabilities(fd: i32) -> bool {
    let name = c"security.capability";
    // SAFETY: a valid string; with a size of 0 the kernel writes nothing.
    let raw = unsafe { crate::sys!(linux::__NR_fgetxattr, fd, name.as_ptr(), 0, 0) };
    !is_err(raw) && raw > 0
}

/// Leaves a note for the user that the program at `path`, which ends with a NUL, runs without being recorded.
fn note_unrecorded(context: &mut Context, path: &[u8], why: &str) {
    let head = Head {
        kind: ring::kind::NOTE,
        pc: context.pc,
        ..Head::default()
    };
    let path = path.strip_suffix(b"\0").unwrap_or(path);
    let before = "a child process ran ".as_bytes();
    let parts = [before, path, ring::UNRECORDED.as_bytes(), why.as_bytes()];
    context.wire.record(head, &parts);
}

/// Replaces the process by the loader, which then loads `path`. Returns the error if that fails.
fn replace(context: &mut Context, path: &[u8], argv: &[u64], envp: &mut Vec<u64>) -> u32 {
    let fd = wire::descriptor();
    let variable = wire_variable(fd, path);
    envp.push(variable.as_ptr() as u64);
    envp.push(0);
    // Signals that the engine handles only for itself must be inherited as the target set them.
    let actions = context.actions();
    for number in [signal::SIGSEGV, signal::SIGBUS, signal::SIGTRAP] {
        if actions.get(number).handler == 1 {
            signal::ignore(number);
        }
    }
    let empty = [0u64];
    let argv = if argv.len() > 1 { argv } else { &empty[..] };
    // The mask survives exec, and so must what the target blocked.
    sys::set_mask(context.mask);
    // SAFETY: valid, NULL-terminated arrays of the target's and our own strings.
    let raw = unsafe { exec_loader(fd, argv, envp) };
    signal::apply_mask(context.mask);
    for number in [signal::SIGSEGV, signal::SIGBUS, signal::SIGTRAP] {
        signal::install(number, 0);
    }
    (-(raw as i64)) as u32
}

/// The variable that tells the next image where the wire is and which program to run; `path` ends with a NUL.
fn wire_variable(fd: i32, path: &[u8]) -> Vec<u8> {
    let mut variable = alloc::format!("{}={fd}:", ring::ENV).into_bytes();
    variable.extend_from_slice(path);
    variable
}

/// Executes the loader again in this process, with the wire open. Returns only if that fails.
///
/// # Safety
/// The arrays hold addresses of strings and end with 0.
unsafe fn exec_loader(fd: i32, argv: &[u64], envp: &[u64]) -> u64 {
    set_close_on_exec(fd, false);
    // SAFETY: the caller's promise.
    let raw = unsafe { own_image::execute(argv, envp) };
    set_close_on_exec(fd, true);
    raw
}

/// At start-up, the target turned out to be a script: start again with its interpreter.
pub fn exec_script(
    path: &CStr,
    interpreter: &[u8],
    argument: Option<&[u8]>,
    stack: &InitialStack,
) -> ! {
    let interpreter = with_nul(interpreter);
    let argument = argument.map(with_nul);
    let mut argv: Vec<u64> = alloc::vec![interpreter.as_ptr() as u64];
    argv.extend(argument.as_ref().map(|text| text.as_ptr() as u64));
    argv.push(path.as_ptr() as u64);
    argv.extend(stack.arguments().skip(1).map(|text| text.as_ptr() as u64));
    argv.push(0);
    let fd = wire::descriptor();
    let variable = wire_variable(fd, &interpreter);
    let mut envp: Vec<u64> = stack
        .environment()
        .map(|text| text.as_ptr() as u64)
        .collect();
    envp.push(variable.as_ptr() as u64);
    envp.push(0);
    // SAFETY: valid, NULL-terminated arrays.
    let raw = unsafe { exec_loader(fd, &argv, &envp) };
    fatal::unsupported(format_args!(
        "cannot start the interpreter of {path:?} ({})",
        sys::Errno::of(raw)
    ));
}
