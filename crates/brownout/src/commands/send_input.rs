//! Runs a server natively with a client beside it, as brownout's engine does inside of the process: for failures that have to happen
//! without the engine, too, and for the debugger.
//!
//! This process becomes the server; the client is a child of it. It connects to the socket at which somebody in this private network
//! listens, sends each part of the input over a connection, and then ends the server.
//!
//! What it can miss: when the input is consumed is not known exactly here. The server counts as waiting when none of its threads has run
//! for a while.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use brownout_engine::client_parts;
use rustix::process::{Pid, Signal, getpid, kill_process, test_kill_process};

use crate::arguments::{SEND_INPUT, SendInputArgs};
use crate::exit_code::ExitCode;
use crate::failure::Failure;

const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// How often in a row the threads of the server must be found waiting.
const QUIET_LOOKS: u32 = 30;
/// How long the client waits for the next bytes of an answer.
const SILENCE: Duration = Duration::from_millis(300);

pub fn run(arguments: &SendInputArgs) -> Result<ExitCode, Failure> {
    if let Some(server) = arguments.server.and_then(Pid::from_raw) {
        let input = fs::read(&arguments.input).map_err(|source| Failure::Input {
            path: arguments.input.clone(),
            source,
        })?;
        serve_clients(server, &input, arguments.keep_running);
        return Ok(ExitCode::Success);
    }
    let Some((program, words)) = arguments.command.split_first() else {
        return Err(Failure::InputTwice);
    };
    let failed = |source| Failure::Server {
        program: program.clone(),
        source,
    };
    let own = std::env::current_exe().map_err(Failure::OwnProgram)?;
    let mut client = Command::new(own);
    client.arg(SEND_INPUT).arg("--server");
    client.arg(getpid().as_raw_nonzero().to_string());
    if arguments.keep_running {
        client.arg("--keep-running");
    }
    client.arg(&arguments.input);
    client
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    client.spawn().map_err(failed)?;
    let mut server = Command::new(program);
    server.args(words);
    if !arguments.keep_running {
        server.stdin(Stdio::null());
    }
    Err(failed(server.exec()))
}

/// Sends the input, and ends the server.
fn serve_clients(server: Pid, input: &[u8], keeps_running: bool) {
    let is_alive = || test_kill_process(server).is_ok();
    for part in client_parts(input) {
        let connected = loop {
            if let Some(connection) = connect() {
                break connection;
            }
            if !is_alive() {
                return;
            }
            sleep(POLL_INTERVAL);
        };
        // A server may close a connection at any time.
        let _ = connected.exchange(part);
    }
    if keeps_running {
        return;
    }
    for signal in [Signal::TERM, Signal::KILL] {
        await_quiet(server);
        let _ = kill_process(server, signal);
    }
}

/// Waits until the threads of the server wait, for ever if they do not: that is what a hung server is known by.
fn await_quiet(server: Pid) {
    let mut quiet = 0;
    while quiet < QUIET_LOOKS {
        sleep(POLL_INTERVAL);
        let Some(is_running) = is_running(server) else {
            return;
        };
        quiet = if is_running { 0 } else { quiet + 1 };
    }
}

/// Whether a thread of a process runs; `None` if the process has ended.
fn is_running(process: Pid) -> Option<bool> {
    let tasks = fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero())).ok()?;
    let states = tasks.flatten().filter_map(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        rest.chars().next()
    });
    let states: Vec<char> = states.collect();
    match states.iter().all(|&state| state == 'Z') {
        true => None,
        false => Some(states.iter().any(|state| matches!(state, 'R' | 'D'))),
    }
}

enum Connection {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Connection {
    /// Sends bytes, and reads answers until there are no more.
    fn exchange(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_read_timeout(Some(SILENCE))?;
                stream.set_write_timeout(Some(SILENCE))?;
                send(&mut &*stream, bytes)?;
                stream.shutdown(Shutdown::Write)?;
                forget_answers(&mut &*stream)
            }
            Self::Unix(stream) => {
                stream.set_read_timeout(Some(SILENCE))?;
                stream.set_write_timeout(Some(SILENCE))?;
                send(&mut &*stream, bytes)?;
                stream.shutdown(Shutdown::Write)?;
                forget_answers(&mut &*stream)
            }
        }
    }
}

fn send(stream: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes)
}

fn forget_answers(stream: &mut impl Read) -> io::Result<()> {
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer)? > 0 {}
    Ok(())
}

/// Connects to whatever listens in this network.
fn connect() -> Option<Connection> {
    let tcp = ["/proc/self/net/tcp", "/proc/self/net/tcp6"].into_iter();
    let ports = tcp.flat_map(|table| {
        fs::read_to_string(table)
            .unwrap_or_default()
            .lines()
            .filter_map(listening_port)
            .collect::<Vec<_>>()
    });
    for port in ports {
        for host in ["127.0.0.1", "::1"] {
            let address = SocketAddr::new(host.parse().ok()?, port);
            if let Ok(stream) = TcpStream::connect(address) {
                return Some(Connection::Tcp(stream));
            }
        }
    }
    let sockets = fs::read_to_string("/proc/self/net/unix").unwrap_or_default();
    let mut paths = sockets.lines().filter_map(listening_path);
    let stream = paths.find_map(|path| match path.strip_prefix('@') {
        Some(name) => UnixStream::connect_addr(&UnixAddress::from_abstract_name(name).ok()?).ok(),
        None => UnixStream::connect(path).ok(),
    })?;
    Some(Connection::Unix(stream))
}

/// The port of a line of `/proc/net/tcp`, if the socket listens.
fn listening_port(line: &str) -> Option<u16> {
    const LISTENS: &str = "0A";
    let mut words = line.split_whitespace().skip(1);
    let (local, state) = (words.next()?, words.nth(1)?);
    let (_, port) = local.rsplit_once(':')?;
    (state == LISTENS).then(|| u16::from_str_radix(port, 16).ok())?
}

/// The path of a line of `/proc/net/unix`, if the socket listens.
fn listening_path(line: &str) -> Option<&str> {
    const ACCEPTS: &str = "00010000";
    let mut words = line.split_whitespace().skip(3);
    let (flags, path) = (words.next()?, words.nth(3)?);
    (flags == ACCEPTS).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_that_listen_are_found_in_the_tables_of_the_kernel() {
        let listens =
            "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 1 1";
        let connected =
            "   1: 0100007F:1F90 0100007F:AABB 01 00000000:00000000 00:00000000 00000000 0 0 1 1";
        assert_eq!(listening_port(listens), Some(8080));
        assert_eq!(listening_port(connected), None);
        assert_eq!(listening_port("  sl  local_address rem_address st"), None);
        let unix = "0000000000000000: 00000002 00000000 00010000 0001 01 4242 /run/kv.sock";
        assert_eq!(listening_path(unix), Some("/run/kv.sock"));
        assert_eq!(listening_path(&unix.replace("00010000", "00000000")), None);
    }
}
