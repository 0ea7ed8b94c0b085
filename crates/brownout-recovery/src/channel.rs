//! The messages between a sandbox and its sandbox server.
//!
//! Each packet is one message, with file descriptors attached to it. Both ends are always of the same build.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{
    Actor, End, EngineRun, ExecutionMode, Isolation, Orphans, RawFrame, Recovery, Refusal,
    RunRequest,
};

/// Descriptors that can be attached to one packet; the kernel's limit is 253.
pub const DESCRIPTORS_AT_ONCE: usize = 128;
/// The longest packet: less than the smallest buffer of a socket.
const LONGEST: usize = 160 * 1024;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    #[error("{0}")]
    Socket(#[from] rustix::io::Errno),
    #[error("{0}")]
    Message(#[from] postcard::Error),
    #[error("a message of {0} bytes does not fit into a packet")]
    TooLong(usize),
    #[error("received an unexpected message")]
    Unexpected,
    #[error("the other end closed the connection")]
    Closed,
}

/// The first message to a sandbox server. Its descriptors are the files that receive standard output and standard error.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    pub recovery: Recovery,
    /// The paths as bytes, which need not be UTF-8.
    pub files: Vec<Vec<u8>>,
    pub strongest: Isolation,
}

/// The messages of a sandbox server.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    /// The sandbox is prepared; so many persistent files follow.
    Ready { isolation: Isolation, files: usize },
    /// The descriptors are the persistent files with these numbers.
    Files { numbers: Vec<usize>, more: bool },
    /// A run has ended.
    Ended(RunReport),
    /// The request cannot be carried out.
    Refused(Refusal),
}

/// How a run ended.
#[derive(Debug, Serialize, Deserialize)]
pub struct RunReport {
    pub end: End,
    pub actor: Actor,
    pub duration: Duration,
    pub orphans: Orphans,
    pub frames: Vec<RawFrame>,
    /// What the server sends next without being asked.
    pub follows: Follows,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Follows {
    Nothing,
    /// [`Reply::Files`] with the persistent files that had to be created again.
    Files,
    /// [`Reply::Ready`] of a new sandbox.
    Ready,
}

/// What a sandbox asks for after [`Setup`]: one run. Its descriptors are, in this order, the three of the terminal if it
/// is interactive, and the file for the trace or the reads if there is one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunMessage {
    pub time_limit: Duration,
    pub environment: Vec<(String, String)>,
    pub absent: Vec<usize>,
    pub execution: ExecutionMessage,
    pub interactive: bool,
    pub patience: Duration,
}

/// [`ExecutionMode`] without its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExecutionMessage {
    Native,
    Traced,
    Engine(EngineMessage),
}

/// What an engine run observes, and what is written to its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EngineMessage {
    Stores,
    Loads,
    /// There is a file, which gets the reads instead of a trace.
    Reads,
    /// There is a file with a [`HeldRun`](crate::HeldRun), which gets the trace of that run.
    Held,
    /// There is a file with an [`InputRun`](crate::InputRun), which gets what that run shows.
    Input,
    /// There is a connection, by which the caller chooses what recovery reads.
    Branches,
    /// There is a connection, by which the caller has a target executed.
    Fuzz,
}

impl EngineMessage {
    fn of(run: &EngineRun) -> Self {
        match run {
            EngineRun { reads: Some(_), .. } => Self::Reads,
            EngineRun { held: true, .. } => Self::Held,
            EngineRun { input: true, .. } => Self::Input,
            EngineRun { loads: true, .. } => Self::Loads,
            _ => Self::Stores,
        }
    }
}

impl From<&RunRequest> for RunMessage {
    fn from(request: &RunRequest) -> Self {
        Self {
            time_limit: request.time_limit,
            environment: request.environment.clone(),
            absent: request.absent.clone(),
            execution: match &request.execution {
                ExecutionMode::Native => ExecutionMessage::Native,
                ExecutionMode::Traced => ExecutionMessage::Traced,
                ExecutionMode::Engine(run) => ExecutionMessage::Engine(EngineMessage::of(run)),
            },
            interactive: request.interactive,
            patience: request.patience,
        }
    }
}

/// One end of the connection.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
    /// The buffer for received packets.
    packet: Vec<u8>,
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Channel {
    pub fn pair() -> Result<(Self, Self), ChannelError> {
        let (one, other) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Self::new(one), Self::new(other)))
    }

    pub fn new(socket: OwnedFd) -> Self {
        let packet = vec![0; LONGEST];
        Self { socket, packet }
    }

    pub fn into_socket(self) -> OwnedFd {
        self.socket
    }

    pub fn send(
        &self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        let bytes = postcard::to_stdvec(message)?;
        if bytes.len() > LONGEST {
            return Err(ChannelError::TooLong(bytes.len()));
        }
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_AT_ONCE))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors))
        {
            return Err(ChannelError::TooLong(descriptors.len()));
        }
        let sent = rustix::io::retry_on_intr(|| {
            rustix::net::sendmsg(
                &self.socket,
                &[IoSlice::new(&bytes)],
                &mut ancillary,
                SendFlags::NOSIGNAL,
            )
        });
        match sent {
            Ok(_) => Ok(()),
            Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => {
                Err(ChannelError::Closed)
            }
            Err(errno) => Err(errno.into()),
        }
    }

    pub fn receive<T: DeserializeOwned>(&mut self) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_AT_ONCE))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::io::retry_on_intr(|| {
            rustix::net::recvmsg(
                &self.socket,
                &mut [IoSliceMut::new(&mut self.packet)],
                &mut ancillary,
                RecvFlags::CMSG_CLOEXEC,
            )
        });
        let length = match received {
            Ok(message) if message.bytes > 0 => message.bytes,
            Ok(_) | Err(rustix::io::Errno::CONNRESET) => return Err(ChannelError::Closed),
            Err(errno) => return Err(errno.into()),
        };
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        Ok((postcard::from_bytes(&self.packet[..length])?, descriptors))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek, Write};

    use super::*;

    #[test]
    fn messages_arrive_whole_with_their_descriptors() {
        let (one, mut other) = Channel::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        let numbers: Vec<usize> = (0..10_000).collect();
        let message = Reply::Files {
            numbers: numbers.clone(),
            more: true,
        };
        one.send(&message, &[file.as_fd(), file.as_fd()]).unwrap();
        let (Reply::Files { numbers: got, more }, descriptors) = other.receive().unwrap() else {
            panic!("unexpected message");
        };
        assert!(more && got == numbers);
        assert_eq!(descriptors.len(), 2);
        let [mut first, _] = descriptors.map_into();
        first.write_all(b"same file").unwrap();
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "same file");
    }

    /// Two descriptors as files.
    trait MapInto {
        fn map_into(self) -> [File; 2];
    }

    impl MapInto for Vec<OwnedFd> {
        fn map_into(self) -> [File; 2] {
            let files: Vec<File> = self.into_iter().map(File::from).collect();
            files.try_into().unwrap()
        }
    }

    #[test]
    fn a_closed_connection_is_distinguished_from_an_error() {
        let (mut one, other) = Channel::pair().unwrap();
        // Processes that other tests are starting may have a copy of the descriptor, so closing it is not enough.
        rustix::net::shutdown(&other.socket, rustix::net::Shutdown::Both).unwrap();
        let run = RunMessage::from(&RunRequest::new(Duration::ZERO));
        assert!(matches!(one.send(&run, &[]), Err(ChannelError::Closed)));
        assert!(matches!(
            one.receive::<RunMessage>(),
            Err(ChannelError::Closed)
        ));
    }
}
