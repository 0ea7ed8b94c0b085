//! Whether a recovered server is ready for its client.
//!
//! The probe never connects: a server may count its connections, or accept only one.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use super::Readiness;

/// The state of a listening socket in `/proc/net/tcp`.
const LISTENS: &str = "0A";
/// The flag of a listening socket in `/proc/net/unix`.
const ACCEPTS: u32 = 0x0001_0000;

/// Checks whether a server is ready.
#[derive(Debug)]
pub struct ReadinessProbe<'a> {
    readiness: &'a Readiness,
    /// Relative paths start here.
    directory: &'a Path,
    /// How much of the output has been searched.
    searched: u64,
}

impl<'a> ReadinessProbe<'a> {
    pub fn new(readiness: &'a Readiness, directory: &'a Path) -> Self {
        Self {
            readiness,
            directory,
            searched: 0,
        }
    }

    /// Whether the server is ready now. `output` holds what it has printed.
    pub fn is_ready(&mut self, output: &File) -> io::Result<bool> {
        match self.readiness {
            Readiness::Tcp(port) => {
                let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
                // Without IPv6 the second table does not exist.
                Ok(tables
                    .iter()
                    .filter_map(|table| fs::read_to_string(table).ok())
                    .any(|table| listens_on(&table, *port)))
            }
            Readiness::Unix(path) => {
                let path = self.directory.join(path);
                let is_socket = fs::metadata(&path).is_ok_and(|file| file.file_type().is_socket());
                Ok(is_socket && accepts_on(&fs::read("/proc/self/net/unix")?, &path))
            }
            Readiness::File(path) => Ok(self.directory.join(path).exists()),
            Readiness::Output(text) => self.has_written(output, text.as_bytes()),
        }
    }

    fn has_written(&mut self, output: &File, text: &[u8]) -> io::Result<bool> {
        if text.is_empty() {
            return Ok(true);
        }
        let length = output.metadata()?.len();
        // The end of what was searched may have been the first half of the text.
        let from = self.searched.saturating_sub(text.len() as u64 - 1);
        let mut written = vec![0; usize::try_from(length.saturating_sub(from)).unwrap_or(0)];
        output.read_exact_at(&mut written, from)?;
        self.searched = length;
        Ok(written.windows(text.len()).any(|window| window == text))
    }
}

/// Whether a table of TCP sockets (number, local address, remote address, state, …) has a listener on the port.
fn listens_on(table: &str, port: u16) -> bool {
    let suffix = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let is_local = fields.next().is_some_and(|local| local.ends_with(&suffix));
        is_local && fields.nth(1) == Some(LISTENS)
    })
}

/// Whether a table of Unix sockets (address, count, protocol, flags, type, state, inode, path) has a listener whose
/// path ends as this one does; a server may have bound it by a relative path.
fn accepts_on(table: &[u8], path: &Path) -> bool {
    let Some(name) = path.file_name() else {
        return false;
    };
    table.split(|&byte| byte == b'\n').skip(1).any(|line| {
        let mut fields = line
            .split(|byte| byte.is_ascii_whitespace())
            .filter(|field| !field.is_empty());
        let flags = fields.nth(3).and_then(|flags| str::from_utf8(flags).ok());
        let flags = flags.and_then(|flags| u32::from_str_radix(flags, 16).ok());
        let bound = fields.nth(3);
        flags.is_some_and(|flags| flags & ACCEPTS != 0)
            && bound.is_some_and(|bound| bound.ends_with(name.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn is_ready(readiness: &Readiness, directory: &Path) -> bool {
        let nothing = tempfile::tempfile().unwrap();
        ReadinessProbe::new(readiness, directory)
            .is_ready(&nothing)
            .unwrap()
    }

    #[test]
    fn a_port_is_ready_while_something_listens() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                continue; // A machine without IPv6.
            };
            let port = Readiness::Tcp(listener.local_addr().unwrap().port());
            assert!(is_ready(&port, Path::new("/")));
            drop(listener);
            assert!(!is_ready(&port, Path::new("/")));
        }
    }

    #[test]
    fn a_socket_file_without_a_listener_is_not_ready() {
        let directory = tempfile::tempdir().unwrap();
        let socket = Readiness::Unix("socket".into());
        assert!(!is_ready(&socket, directory.path()));
        let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
        assert!(is_ready(&socket, directory.path()));
        drop(listener);
        assert!(!is_ready(&socket, directory.path()));
    }

    #[test]
    fn text_is_found_when_it_arrives_in_pieces() {
        let mut output = tempfile::tempfile().unwrap();
        let readiness = Readiness::Output("ready to serve".to_owned());
        let mut probe = ReadinessProbe::new(&readiness, Path::new("/"));
        for (piece, is_ready) in [("starting\nready t", false), ("o serve\n", true)] {
            output.write_all(piece.as_bytes()).unwrap();
            assert_eq!(probe.is_ready(&output).unwrap(), is_ready);
        }
    }
}
