//! Finds the program of a command, and checks that it can be run.
//!
//! A program that cannot be run is reported before anything starts. The rules are those of `execvp`: a name without a slash
//! is looked up in `PATH`, scripts are run by the interpreter that they name, and text files that name none by the shell.

use crate::elf;
use crate::sys::process::may_execute;
use rustix::fs::Mode;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Bytes at the start of a file that determine its kind. The kernel reads the same number.
const START_BYTES: usize = 256;
/// How many levels of interpreters the kernel follows.
const MAX_INTERPRETERS: usize = 4;
/// Where names are looked up when there is no `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
const SHELL: &str = "/bin/sh";

/// Why a command cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    #[error("no program is given")]
    NoName,
    #[error("{}: no such program in PATH", name.display())]
    NotInPath { name: OsString },
    #[error("cannot run {}", path.display())]
    NotAccessible {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is a directory", path.display())]
    Directory { path: PathBuf },
    #[error("{} is not a regular file", path.display())]
    NotRegular { path: PathBuf },
    #[error("cannot read {}; a program must be readable to run under instrumentation", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is a 32-bit program; only 64-bit x86 programs can be recorded", path.display())]
    ThirtyTwoBit { path: PathBuf },
    #[error(
        "{} is a program for another processor (ELF machine {machine}); only x86-64 programs can be recorded",
        path.display()
    )]
    OtherMachine { path: PathBuf, machine: u16 },
    #[error("{} is not an executable program", path.display())]
    NotAProgram { path: PathBuf },
    #[error("{} is set-user-ID or set-group-ID; a recorded program cannot gain the rights of another user or group", path.display())]
    SetUserId { path: PathBuf },
    #[error("{} needs {} to run", path.display(), interpreter.display())]
    Interpreter {
        path: PathBuf,
        interpreter: PathBuf,
        #[source]
        source: Box<ProgramError>,
    },
    #[error("{} cannot be run: the chain of interpreters that its first line leads to is too long", path.display())]
    TooManyInterpreters { path: PathBuf },
    #[error("an argument contains a NUL byte")]
    Nul,
}

/// A command that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The file to pass to `execve`.
    pub(crate) path: PathBuf,
    /// The arguments, starting with the name.
    pub(crate) arguments: Vec<CString>,
}

impl Program {
    /// Finds the program that `command` names, its first element, and checks that it can be run.
    pub(crate) fn find(command: &[OsString]) -> Result<Program, ProgramError> {
        let name = command
            .first()
            .filter(|name| !name.is_empty())
            .ok_or(ProgramError::NoName)?;
        let path = look_up(name, std::env::var_os("PATH").as_deref())?;
        let mut arguments = command.to_vec();
        let path = match check(&path, 0)? {
            ProgramStart::Direct => path,
            ProgramStart::Shell => {
                arguments.splice(..1, [SHELL.into(), path.into_os_string()]);
                check(Path::new(SHELL), 0)?;
                SHELL.into()
            }
        };
        let c_string = |argument: OsString| CString::new(argument.into_vec());
        let arguments = arguments
            .into_iter()
            .map(c_string)
            .collect::<Result<_, _>>();
        Ok(Program {
            path,
            arguments: arguments.map_err(|_| ProgramError::Nul)?,
        })
    }
}

/// Looks a name up as `execvp` does.
fn look_up(name: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, ProgramError> {
    if name.as_bytes().contains(&b'/') {
        return Ok(name.into());
    }
    let mut refused = None;
    for directory in path
        .unwrap_or(OsStr::new(DEFAULT_PATH))
        .as_bytes()
        .split(|&byte| byte == b':')
    {
        let directory = if directory.is_empty() {
            b"."
        } else {
            directory
        };
        let candidate = Path::new(OsStr::from_bytes(directory)).join(name);
        match executable(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(error) => {
                let denied = |source: &io::Error| source.kind() == io::ErrorKind::PermissionDenied;
                if matches!(&error, ProgramError::NotAccessible { source, .. } if denied(source)) {
                    refused.get_or_insert(error);
                }
            }
        }
    }
    Err(refused.unwrap_or_else(|| ProgramError::NotInPath { name: name.into() }))
}

/// Checks that `execve` would accept the file.
fn executable(path: &Path) -> Result<(), ProgramError> {
    let inaccessible = |source| ProgramError::NotAccessible {
        path: path.into(),
        source,
    };
    let metadata = path.metadata().map_err(inaccessible)?;
    if metadata.is_dir() {
        return Err(ProgramError::Directory { path: path.into() });
    }
    if !metadata.is_file() {
        return Err(ProgramError::NotRegular { path: path.into() });
    }
    let c_path = CString::new(path.as_os_str().as_bytes()).map_err(|_| ProgramError::Nul)?;
    may_execute(&c_path).map_err(inaccessible)
}

/// How a file that passed all checks is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProgramStart {
    /// By the kernel, directly or through the interpreter that it names.
    Direct,
    /// By the shell, because it names no interpreter.
    Shell,
}

fn check(path: &Path, interpreters: usize) -> Result<ProgramStart, ProgramError> {
    executable(path)?;
    let unreadable = |source| ProgramError::Unreadable {
        path: path.into(),
        source,
    };
    let file = File::open(path).map_err(unreadable)?;
    let mut start = vec![0; START_BYTES];
    let read = read_start(&file, &mut start).map_err(unreadable)?;
    start.truncate(read);

    let interpreter = match elf::kind(&start) {
        elf::Kind::Program => {
            check_rights(path, &file).map_err(unreadable)??;
            elf::interpreter(&file).map_err(unreadable)?
        }
        elf::Kind::ThirtyTwoBit => return Err(ProgramError::ThirtyTwoBit { path: path.into() }),
        elf::Kind::OtherMachine(machine) => {
            return Err(ProgramError::OtherMachine {
                path: path.into(),
                machine,
            });
        }
        elf::Kind::NotExecutable => return Err(ProgramError::NotAProgram { path: path.into() }),
        elf::Kind::NotElf => match script_interpreter(&start) {
            Some(interpreter) => Some(interpreter),
            None if start.contains(&0) => {
                return Err(ProgramError::NotAProgram { path: path.into() });
            }
            None => return Ok(ProgramStart::Shell),
        },
    };
    if let Some(interpreter) = interpreter {
        if interpreters == MAX_INTERPRETERS {
            return Err(ProgramError::TooManyInterpreters { path: path.into() });
        }
        let checked = match check(&interpreter, interpreters + 1) {
            // The kernel does not fall back to the shell for an interpreter.
            Ok(ProgramStart::Shell) => Err(ProgramError::NotAProgram {
                path: interpreter.clone(),
            }),
            other => other,
        };
        checked.map_err(|source| match source {
            ProgramError::TooManyInterpreters { .. } => source,
            source => ProgramError::Interpreter {
                path: path.into(),
                interpreter,
                source: Box::new(source),
            },
        })?;
    }
    Ok(ProgramStart::Direct)
}

fn read_start(file: &File, start: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < start.len() {
        match file.read_at(&mut start[read..], read as u64)? {
            0 => break,
            count => read += count,
        }
    }
    Ok(read)
}

/// Under instrumentation a program cannot change its user or group on exec.
fn check_rights(path: &Path, file: &File) -> io::Result<Result<(), ProgramError>> {
    let metadata = file.metadata()?;
    let (user, group) = crate::sys::process::effective_ids();
    let mode = Mode::from_raw_mode(metadata.mode());
    let sets_user = mode.contains(Mode::SUID) && metadata.uid() != user;
    // Without the group's execute bit, the set-group-ID bit has another meaning.
    let sets_group = mode.contains(Mode::SGID | Mode::XGRP) && metadata.gid() != group;
    Ok(if sets_user || sets_group {
        Err(ProgramError::SetUserId { path: path.into() })
    } else {
        Ok(())
    })
}

/// The interpreter that the first line of a script names.
fn script_interpreter(start: &[u8]) -> Option<PathBuf> {
    let line = start.strip_prefix(b"#!")?;
    let line = line
        .split(|&byte| byte == b'\n' || byte == 0)
        .next()?
        .trim_ascii();
    let name = line.split(|&byte| byte == b' ' || byte == b'\t').next()?;
    (!name.is_empty()).then(|| OsStr::from_bytes(name).into())
}

#[cfg(test)]
mod tests;
