//! Private namespaces, without privileges where the machine allows it.
//!
//! In a user namespace every user may create the other namespaces. User numbers are the same inside as outside: all of
//! them for root, otherwise that of the caller. Processes inside have no privileges outside.

use std::fs;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::process::exit;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, Signal, WaitOptions};

use crate::sys::{self, Fork, Namespace};
use crate::{Obstacle, SetupStep};

/// Which namespaces to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespaces {
    user: bool,
    network: bool,
}

/// Tells the parent whether the first process of the namespaces can work there.
#[derive(Debug)]
pub struct Announcement(PipeWriter);

impl Announcement {
    pub fn ready(mut self) {
        // If the parent has ended, this process is killed too.
        let _ = self.0.write_all(&[1]);
    }

    pub fn obstacle(mut self, obstacle: Obstacle) {
        let message = postcard::to_stdvec(&obstacle).unwrap_or_default();
        let _ = self.0.write_all(&[&[0], message.as_slice()].concat());
    }
}

impl Namespaces {
    /// The combinations to try, best first.
    pub fn choices(network_is_allowed: bool) -> Vec<Self> {
        let network = !network_is_allowed;
        let mut choices = vec![Self {
            user: true,
            network,
        }];
        if rustix::process::geteuid().is_root() {
            choices.push(Self {
                user: false,
                network,
            });
        }
        choices
    }

    pub fn has_user(self) -> bool {
        self.user
    }

    fn list(self) -> Vec<Namespace> {
        let mut list = vec![Namespace::Mount, Namespace::Pid, Namespace::Ipc];
        list.extend(self.user.then_some(Namespace::User));
        list.extend(self.network.then_some(Namespace::Network));
        list
    }

    /// Starts the first process of new namespaces, which runs `inside`. Returns when it announces that it is ready.
    pub fn enter(self, inside: impl FnOnce(Announcement)) -> Result<Pid, Obstacle> {
        let failed = |error: io::Error| SetupStep::Namespaces.failed(error);
        let (admission, mut admit) = io::pipe().map_err(failed)?;
        let (mut announced, announce) = io::pipe().map_err(failed)?;
        match sys::fork_into(&self.list()).map_err(failed)? {
            Fork::Child => {
                drop((admit, announced));
                if await_admission(admission) {
                    inside(Announcement(announce));
                }
                exit(1)
            }
            Fork::Parent(first) => {
                drop((admission, announce));
                let admitted = self
                    .map_users(first)
                    .and_then(|()| admit.write_all(&[1]).map_err(failed))
                    .and_then(|()| await_announcement(&mut announced));
                if admitted.is_err() {
                    let _ = rustix::process::kill_process(first, Signal::KILL);
                    let _ = rustix::process::waitpid(Some(first), WaitOptions::empty());
                }
                admitted.map(|()| first)
            }
        }
    }

    /// Maps users to themselves: all of them if that is allowed, otherwise the caller only.
    fn map_users(self, first: Pid) -> Result<(), Obstacle> {
        if !self.user {
            return Ok(());
        }
        let failed = |error: io::Error| SetupStep::UserMap.failed(error);
        let directory = format!("/proc/{}", first.as_raw_nonzero());
        if rustix::process::geteuid().is_root() {
            let users = identity("/proc/self/uid_map").map_err(failed)?;
            let groups = identity("/proc/self/gid_map").map_err(failed)?;
            let mapped = fs::write(format!("{directory}/uid_map"), users)
                .and_then(|()| fs::write(format!("{directory}/gid_map"), groups));
            // In a container, root may not be allowed to do this.
            if mapped.is_ok() {
                return Ok(());
            }
        }
        let user = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        // The kernel requires this, since dropping groups could circumvent permissions that deny access to a group.
        fs::write(format!("{directory}/setgroups"), "deny")
            .and_then(|()| fs::write(format!("{directory}/uid_map"), format!("{user} {user} 1")))
            .and_then(|()| fs::write(format!("{directory}/gid_map"), format!("{group} {group} 1")))
            .map_err(failed)
    }

    /// Sets up the network; the first process calls this before anything else.
    pub fn set_up(self) -> Result<(), Obstacle> {
        if !self.network {
            return Ok(());
        }
        let socket = rustix::net::socket_with(
            AddressFamily::INET,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        );
        let socket = socket.map_err(|errno| SetupStep::Loopback.failed(errno))?;
        sys::bring_up_loopback(socket.as_fd())
            .map_err(|error| SetupStep::Loopback.failed(error))?;
        // A port is free again as soon as its server has ended. Older kernels do not allow this setting in a namespace;
        // there a server has to set SO_REUSEADDR, as most do.
        let _ = fs::write("/proc/sys/net/ipv4/tcp_max_tw_buckets", "0");
        Ok(())
    }
}

/// Waits until the users are mapped. From now on the kernel kills this process with its parent.
fn await_admission(mut admission: PipeReader) -> bool {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).is_ok()
        // If the parent has already ended, the other end is closed.
        && admission.read_exact(&mut [0]).is_ok()
}

fn await_announcement(announced: &mut PipeReader) -> Result<(), Obstacle> {
    let mut message = Vec::new();
    let first = announced
        .take(1)
        .read_to_end(&mut message)
        .map_err(|error| SetupStep::Root.failed(error))?;
    if first == 1 && message[0] == 1 {
        return Ok(());
    }
    message.clear();
    let _ = announced.read_to_end(&mut message);
    // A process that died without an announcement reports nothing.
    Err(postcard::from_bytes(&message).unwrap_or(SetupStep::Root.failed(rustix::io::Errno::IO)))
}

/// A map of all users that exist here to themselves.
fn identity(current: &str) -> io::Result<String> {
    let mut map = String::new();
    for line in fs::read_to_string(current)?.lines() {
        let mut numbers = line.split_ascii_whitespace();
        if let (Some(first), Some(_), Some(count)) =
            (numbers.next(), numbers.next(), numbers.next())
        {
            map.push_str(&format!("{first} {first} {count}\n"));
        }
    }
    Ok(map)
}
