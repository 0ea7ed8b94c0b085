//! Starts a target under the loader.
//!
//! The loader is executed from a memfd, so it does not have to be installed. It gets the arguments and the environment of
//! the target, and one more variable with the descriptor of the wire and the program to load. The target never sees that
//! variable.

use crate::program::Program;
use crate::sys::memory::{MemfdUse, create_memfd};
use crate::sys::process::{self, Image, Pid, with_file_size_limit_raised};
use crate::sys::signals::SignalGate;
use brownout_ring::ENV;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A target that was started.
pub(crate) struct Launched {
    pub(crate) pid: Pid,
    /// The number of the wire's descriptor in the target and its descendants.
    pub(crate) descriptor: RawFd,
}

/// How a target differs from this process when it starts.
#[derive(Default)]
pub(crate) struct Launch<'a> {
    /// Its standard streams.
    pub(crate) streams: Option<[&'a File; 3]>,
    /// Variables that it has in addition, or with another value.
    pub(crate) environment: &'a [(OsString, OsString)],
    pub(crate) directory: Option<&'a Path>,
}

/// Starts `program` under `loader`, an ELF image, with `wire` for its records.
pub(crate) fn launch(
    loader: &[u8],
    program: &Program,
    wire: &File,
    gate: &SignalGate,
) -> io::Result<Launched> {
    launch_with(loader, program, wire, gate, &Launch::default())
}

/// Starts a target as [`launch`] does, with what is different for it.
pub(crate) fn launch_with(
    loader: &[u8],
    program: &Program,
    wire: &File,
    gate: &SignalGate,
    details: &Launch<'_>,
) -> io::Result<Launched> {
    let mut image = create_memfd(c"brownout", MemfdUse::Program)?;
    with_file_size_limit_raised(|| image.write_all(loader))?;
    let image = with_number_of_three_digits(image);
    let descriptor = process::high_descriptor()?;
    let mut environment = process::environment();
    environment.retain(|entry| !is_wire_variable(entry));
    for (name, value) in details.environment {
        let prefix = [name.as_bytes(), b"="].concat();
        environment.retain(|entry| !entry.to_bytes().starts_with(&prefix));
        environment.push(CString::new([&prefix, value.as_bytes()].concat())?);
    }
    environment.push(wire_variable(descriptor, program)?);
    let directory = details
        .directory
        .map(|path| CString::new(path.as_os_str().as_bytes()));
    let directory = directory.transpose()?;
    let image = Image {
        streams: details.streams,
        directory: directory.as_deref(),
        program: &image,
        arguments: &program.arguments,
        environment: &environment,
        handed_on: (wire, descriptor),
    };
    let pid = process::spawn(&image, gate)?;
    Ok(Launched { pid, descriptor })
}

/// The same file with a descriptor of three digits, if that is possible. The kernel puts the number on the stack of the program in a path,
/// so that addresses on the stack would depend on how many files are open.
fn with_number_of_three_digits(image: File) -> File {
    match rustix::io::fcntl_dupfd_cloexec(&image, 100) {
        Ok(numbered) => numbered.into(),
        Err(_) => image,
    }
}

fn wire_variable(descriptor: RawFd, program: &Program) -> io::Result<CString> {
    let mut variable = format!("{ENV}={descriptor}:").into_bytes();
    variable.extend_from_slice(program.path.as_os_str().as_bytes());
    CString::new(variable).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Whether an environment entry names the wire of an outer recording. Each recording has its own wire.
fn is_wire_variable(entry: &CString) -> bool {
    let value = entry.to_bytes().strip_prefix(ENV.as_bytes());
    value.is_some_and(|value| value.starts_with(b"="))
}
