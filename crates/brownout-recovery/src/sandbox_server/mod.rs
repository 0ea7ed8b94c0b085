//! The sandbox server: the process behind a sandbox.
//!
//! It is single-threaded, so that it can fork. With namespaces it forks their first process, which does all the work. The
//! server itself maps the user into the namespace, kills the first process when brownout ends, and starts another when a
//! run has changed the file system beyond repair. Without namespaces it does the work itself.

mod branching_host;
mod client_run;
mod confinement;
mod directory;
mod engine_host;
mod fuzz_host;
mod launch;
mod left_processes;
mod namespaces;
mod worker;

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::process::exit;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use super::channel::{Channel, ChannelError, Reply, Setup};
use super::sys::restore_ignored_signals;
use super::view::{BuildError, Plan, View};
use super::{Isolation, Obstacle, Refusal, SetupStep};
use confinement::Confinement;
use directory::PrivateDirectory;
use namespaces::{Announcement, Namespaces};
use worker::{Worker, WorkerExit};

pub use engine_host::HostError;

/// The exit status of the first process of a namespace that asks for a new one.
const RENEW_STATUS: i32 = 75;

/// Runs recoveries for the process at the other end of standard input, until that closes it. Must be called while this
/// process has no other thread, with the arguments that follow those of
/// [`SandboxServerCommand`](crate::SandboxServerCommand).
pub fn serve(arguments: &[OsString]) -> ! {
    if let Some(arguments) = engine_host::host_arguments(arguments) {
        engine_host::host(arguments);
    }
    // Recovery must not depend on how brownout was started.
    restore_ignored_signals();
    let status = match serve_requests() {
        Ok(()) | Err(ChannelError::Closed) => 0,
        Err(_) => 1,
    };
    exit(status)
}

/// The recovery of this server, and its files.
struct Session {
    setup: Setup,
    /// The persistent files.
    files: Vec<PathBuf>,
    stdout: File,
    stderr: File,
}

impl Session {
    fn receive(channel: &mut Channel) -> Result<Self, ChannelError> {
        let (setup, descriptors): (Setup, _) = channel.receive()?;
        let outputs = <[OwnedFd; 2]>::try_from(descriptors);
        let [stdout, stderr] = outputs.map_err(|_| ChannelError::Unexpected)?;
        let paths = setup.files.iter().cloned();
        let files = paths.map(|path| PathBuf::from(OsString::from_vec(path)));
        Ok(Self {
            files: files.collect(),
            setup,
            stdout: stdout.into(),
            stderr: stderr.into(),
        })
    }
}

fn serve_requests() -> Result<(), ChannelError> {
    let mut channel = Channel::new(take_standard_input()?);
    let session = Session::receive(&mut channel)?;
    let recovery = &session.setup.recovery;
    if !recovery.directory.is_dir() {
        let path = recovery.directory.clone();
        return channel.send(&Reply::Refused(Refusal::Directory { path }), &[]);
    }
    let mut obstacle = SetupStep::Namespaces.failed(rustix::io::Errno::OPNOTSUPP);
    if session.setup.strongest > Isolation::Directory {
        for namespaces in Namespaces::choices(recovery.network) {
            match serve_in(namespaces, &session, &channel)? {
                Ok(()) => return Ok(()),
                Err(found) => obstacle = found,
            }
        }
    }
    match PrivateDirectory::make(&session.files, recovery, obstacle) {
        Ok(directory) => {
            let mut worker = Worker::new(&session, Confinement::Directory(directory), channel)?;
            worker.work().map(drop)
        }
        Err(refusal) => channel.send(&Reply::Refused(refusal), &[]),
    }
}

/// Takes over the socket, which is standard input; recoveries must not inherit it.
fn take_standard_input() -> Result<OwnedFd, ChannelError> {
    let socket = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3)?;
    let mode = rustix::fs::Mode::empty();
    let nothing = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, mode)?;
    rustix::stdio::dup2_stdin(&nothing)?;
    Ok(socket)
}

/// Serves in namespaces, until brownout ends.
fn serve_in(
    namespaces: Namespaces,
    session: &Session,
    channel: &Channel,
) -> Result<Result<(), Obstacle>, ChannelError> {
    loop {
        let socket = rustix::io::fcntl_dupfd_cloexec(channel, 3)?;
        let inside = |announcement| {
            run_first_process(namespaces, announcement, session, Channel::new(socket));
        };
        let first = match namespaces.enter(inside) {
            Ok(first) => first,
            Err(obstacle) => return Ok(Err(obstacle)),
        };
        match supervise(first, channel)? {
            WorkerExit::Done => return Ok(Ok(())),
            WorkerExit::Renew => {}
        }
    }
}

/// Runs the first process of a namespace.
fn run_first_process(
    namespaces: Namespaces,
    announcement: Announcement,
    session: &Session,
    channel: Channel,
) -> ! {
    let plan = Plan {
        files: &session.files,
        disk_limit: session.setup.recovery.disk_limit,
        strongest: session.setup.strongest,
        in_user_namespace: namespaces.has_user(),
    };
    let built = namespaces
        .set_up()
        .map_err(BuildError::Obstacle)
        .and_then(|()| View::build(&plan));
    let view = match built {
        Ok(view) => view,
        Err(BuildError::Obstacle(obstacle)) => {
            announcement.obstacle(obstacle);
            exit(1);
        }
        Err(BuildError::Refusal(refusal)) => {
            announcement.ready();
            let sent = channel.send(&Reply::Refused(refusal), &[]);
            exit(i32::from(sent.is_err()));
        }
    };
    announcement.ready();
    let worker_exit =
        Worker::new(session, Confinement::View(view), channel).and_then(|mut worker| worker.work());
    exit(match worker_exit {
        Ok(WorkerExit::Done) | Err(ChannelError::Closed) => 0,
        Ok(WorkerExit::Renew) => RENEW_STATUS,
        Err(_) => 1,
    })
}

/// Waits for the end of the first process of a namespace, and kills it when brownout ends.
fn supervise(first: Pid, channel: &Channel) -> Result<WorkerExit, ChannelError> {
    let process = rustix::process::pidfd_open(first, PidfdFlags::empty())?;
    let mut descriptors = [
        PollFd::new(&process, PollFlags::IN),
        // Only whether it is hung up; its messages are for the first process.
        PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::empty()),
    ];
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut descriptors, None))?;
    if !descriptors[1].revents().is_empty() {
        // The kernel then kills all other processes of the namespace.
        let _ = rustix::process::kill_process(first, Signal::KILL);
    }
    let ended =
        rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(first), WaitOptions::empty()))?;
    let status = ended.and_then(|(_, status)| status.exit_status());
    Ok(if status == Some(RENEW_STATUS) {
        WorkerExit::Renew
    } else {
        WorkerExit::Done
    })
}
