//! Safe wrappers of `ptrace` requests.

use std::ffi::{c_int, c_long, c_uint, c_void};
use std::io;

use rustix::process::Pid;

use crate::arch::{Registers, system_call};

/// The system call that a stopped thread is in, by number; `None` if it is in none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemCall(pub Option<u64>);

fn request(request: c_uint, pid: Pid, address: usize, data: *mut c_void) -> io::Result<c_long> {
    // SAFETY: every caller in this file passes as `data` a number, or a pointer to a value of the type that the request
    // writes, which lives across the call. `address` is a number for each of them.
    let result = unsafe { libc::ptrace(request, pid.as_raw_nonzero().get(), address, data) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// A number as the pointer argument of the call.
fn number(value: c_int) -> *mut c_void {
    std::ptr::without_provenance_mut(value as usize)
}

/// Starts to trace a child and all processes that it starts; they are killed if the tracer ends.
pub fn seize(child: Pid) -> io::Result<()> {
    let options = libc::PTRACE_O_EXITKILL
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACEEXIT;
    request(libc::PTRACE_SEIZE, child, 0, number(options)).map(drop)
}

/// Resumes a stopped thread, with a signal if that is not 0.
pub fn resume(thread: Pid, signal: c_int) -> io::Result<()> {
    request(libc::PTRACE_CONT, thread, 0, number(signal)).map(drop)
}

/// Leaves a thread stopped as it would be without a tracer.
pub fn leave_stopped(thread: Pid) -> io::Result<()> {
    request(libc::PTRACE_LISTEN, thread, 0, number(0)).map(drop)
}

/// Stops a thread.
pub fn interrupt(thread: Pid) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, thread, 0, number(0)).map(drop)
}

/// The message of an event stop.
pub fn event_message(thread: Pid) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    request(
        libc::PTRACE_GETEVENTMSG,
        thread,
        0,
        (&raw mut message).cast(),
    )?;
    Ok(message)
}

/// The registers of a stopped thread.
pub fn registers(thread: Pid) -> io::Result<(Registers, SystemCall)> {
    // SAFETY: all-zero is a valid value of a structure of numbers.
    let mut user: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GETREGS, thread, 0, (&raw mut user).cast())?;
    Ok((Registers::from(&user), SystemCall(system_call(&user))))
}
