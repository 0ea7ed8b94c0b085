//! The client of a target that is a server: its connections are made by the target's own process, whenever all threads wait.
//!
//! The target listens on a stream socket as it does natively. When all its threads wait, the input is sent over a connection to that
//! socket, and the sending end is closed. When all threads wait again, the input is consumed: what the target has answered is read and
//! forgotten, and the connection is closed. An input that holds the [divider](ring::DIVIDER) is sent over several connections, one after
//! the other. Then the process gets `SIGTERM`. If all of its threads wait once more, it is killed. That a thread waits is known from the
//! schedule, so that an input is consumed at the same point in each run.
//!
//! What it can miss: what threads do after a wait of more than a second; servers whose children accept connections or that wait
//! with a mask of signals; datagrams; connections that are open at the same time.

use super::turns::{State, Turns};
use crate::instruments::fuzz;
use crate::lock::Lock;
use crate::sys::{self, linux};
use crate::translator::context::Context;
use crate::translator::process::about_to_die;
use crate::translator::signal;
use crate::wire;
use alloc::vec::Vec;
use brownout_ring::client as ring;
use brownout_ring::client::ClientPage;
use connection::{Connection, Listener};
use core::sync::atomic::{AtomicPtr, Ordering};

mod connection;

/// Waits with a time limit that end before the client does something: what a target does from time to time.
const LIMITED_WAITS: u32 = 3;
/// Longer ones do not.
const LONGEST_WAIT: u64 = 1_000_000_000;

/// Looks at what is outside of the process, up to 10 ms each, before it is killed: another thread may be about to get the signal.
const LOOKS_BEFORE_KILL: u32 = 8;

static PAGE: AtomicPtr<ClientPage> = AtomicPtr::new(core::ptr::null_mut());
/// The client of this process, once the target listens.
static CLIENT: Lock<Option<Client>> = Lock::new(None);

/// What is left to be sent.
struct Client {
    listener: Listener,
    input: Vec<u8>,
    /// The parts of the input that were not sent yet, last one first.
    parts: Vec<(usize, usize)>,
    connection: Option<Connection>,
    was_asked_to_end: bool,
    /// How often it is waited for a reaction to that.
    looks_left: u32,
    limited_waits: u32,
}

pub fn create() {
    if !wire::wants_client() {
        return;
    }
    let Some(address) = wire::map(wire::READ_WRITE, ring::PAGE, size_of::<ClientPage>()) else {
        crate::fatal::unsupported(format_args!("the engine cannot map what the client sends"));
    };
    PAGE.store(address as *mut ClientPage, Ordering::Relaxed);
}

fn page() -> Option<&'static ClientPage> {
    // SAFETY: null, or a mapping of that size that is never unmapped; every field is atomic.
    unsafe { PAGE.load(Ordering::Relaxed).as_ref() }
}

/// Whether the process may be a server with a client.
pub fn is_wanted() -> bool {
    let owner = page().map(|page| page.owner.load(Ordering::Relaxed));
    owner.is_some_and(|owner| owner == 0 || owner == sys::getpid())
}

/// Whether every thread waits for what may come from the client.
pub fn is_awaited(turns: &Turns) -> bool {
    is_wanted()
        && turns.awaits_outside()
        && turns.threads.iter().all(|it| it.state != State::Outside)
}

/// Lets the time pass until the first wait with a time limit is over, if it is short and not too many have ended so. Returns whether it
/// was.
pub fn pass_time(turns: &mut Turns) -> bool {
    let mut client = CLIENT.lock();
    let Some(client) = client.as_mut() else {
        return false;
    };
    let Some(deadline) = turns.first_deadline() else {
        return false;
    };
    if client.limited_waits == 0 || deadline.saturating_sub(turns.time) > LONGEST_WAIT {
        return false;
    }
    client.limited_waits -= 1;
    turns.time = turns.time.max(deadline);
    turns.expire();
    true
}

/// All threads wait. Does what comes next, if the target listens. Returns whether it has.
pub fn act(context: &mut Context) -> bool {
    let Some(page) = page() else { return false };
    if CLIENT.lock().is_none() {
        let Some(listener) = Listener::find() else {
            return false;
        };
        // Returns in each copy of the process.
        fuzz::arrive_at_client(context);
        page.owner.store(sys::getpid(), Ordering::Relaxed);
        *CLIENT.lock() = Some(Client::new(listener, connection::read_file(&page.input)));
    }
    let next = CLIENT.lock().as_mut().map(Client::step);
    match next {
        Some(ClientStep::Done) => {}
        Some(ClientStep::Ask) => {
            page.ended.store(linux::SIGTERM, Ordering::Relaxed);
            ask_to_end(context);
        }
        Some(ClientStep::Kill) => {
            page.ended.store(linux::SIGKILL, Ordering::Relaxed);
            about_to_die(context, linux::SIGKILL);
            signal::die(linux::SIGKILL, context.tid)
        }
        Some(ClientStep::Wait) | None => return false,
    }
    true
}

/// Sends `SIGTERM`: to the calling thread, which looks after the others and gets it at once, or to any if that one blocks it.
fn ask_to_end(context: &Context) {
    let pid = sys::getpid();
    // SAFETY: the target's handler runs like that of any signal.
    unsafe {
        match context.mask & signal::bit(linux::SIGTERM) {
            0 => crate::sys!(linux::__NR_tgkill, pid, context.tid, linux::SIGTERM),
            _ => crate::sys!(linux::__NR_kill, pid, linux::SIGTERM),
        }
    };
}

/// What comes next.
enum ClientStep {
    /// It was done.
    Done,
    /// The target is to be asked to end.
    Ask,
    /// It was asked, and a thread may be about to react.
    Wait,
    /// It was asked, and did not.
    Kill,
}

impl Client {
    fn new(listener: Listener, input: Vec<u8>) -> Self {
        let mut parts = ring::divide(&input).collect::<Vec<_>>();
        parts.reverse();
        Self {
            listener,
            input,
            parts,
            connection: None,
            was_asked_to_end: false,
            looks_left: LOOKS_BEFORE_KILL,
            limited_waits: LIMITED_WAITS,
        }
    }

    fn step(&mut self) -> ClientStep {
        self.limited_waits = LIMITED_WAITS;
        if let Some(connection) = &mut self.connection {
            let has_answered = connection.forget_answers();
            let is_done = !connection.send(&self.input) && !has_answered;
            if is_done && !connection.may_be_on_its_way() {
                self.connection = None;
            }
            return ClientStep::Done;
        }
        if let Some(part) = self.parts.pop() {
            self.connection = self.listener.connect(part);
            if let Some(connection) = &mut self.connection {
                connection.send(&self.input);
            }
            return ClientStep::Done;
        }
        if !core::mem::replace(&mut self.was_asked_to_end, true) {
            return ClientStep::Ask;
        }
        if self.looks_left > 0 {
            self.looks_left -= 1;
            return ClientStep::Wait;
        }
        ClientStep::Kill
    }
}
