//! The server: where the target waits, and how it is copied for each execution.

use super::execution::{CopyEnd, FuzzExecution};
use super::fork_point::{ForkPoint, Obstacle};
use super::input_file;
use super::operations::{self, PmOperation};
use super::persistent_files::{FuzzedFiles, Restored};
use super::process_end;
use super::shared::Shared;
use super::{FuzzServerError, FuzzTarget, InputChannel};
use crate::client;
use crate::launch::{Launch, launch_with};
use crate::loader_image::LOADER;
use crate::program::Program;
use crate::schedule::Unpinned;
use crate::sys::process::{self, FixedAddresses, Pid, WaitMode};
use crate::sys::signals::SignalGate;
use crate::target::TargetError;
use crate::wire::Wire;
use brownout_ring::fuzz::{EDGES, FuzzPage, goal, station, turn};
use brownout_ring::option;
use brownout_trace::replay::Content;
use rustix::process::Signal;
use std::fs::File;
use std::io::{self, Seek as _};
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

/// The time that a target has to come to its fork point when it is started, and on the first image, is that of so many executions, and no
/// less than [`START_LIMIT`]: its code is translated. On other images it has the time of one execution.
const START_FACTOR: u32 = 20;
const START_LIMIT: Duration = Duration::from_secs(10);
/// How often a process that runs to its fork point is looked after.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The processes that wait.
enum Waiting {
    /// One that has used neither the input nor a persistent file.
    AtInput(Pid),
    /// One that has not used a persistent file; and a copy of it that has, and waits for the input.
    WithImage {
        root: Pid,
        image: Pid,
    },
    /// One that has not used a persistent file.
    BeforeFiles {
        root: Pid,
        obstacle: Obstacle,
    },
    Nowhere(Obstacle),
}

/// How a process came to a station, or did not.
enum Arrival {
    At(usize),
    Passed(u32),
    Ended(CopyEnd),
    TooSlow,
}

/// A target that is run on one input after the other. Its processes are killed when this is dropped.
pub struct FuzzServer {
    // Dropped last: processes use the wire until they are killed.
    wire: Wire,
    shared: Shared,
    gate: SignalGate,
    program: Program,
    target: FuzzTarget,
    input: File,
    files: FuzzedFiles,
    image: Vec<Option<Content>>,
    /// Whether the target has used an image since it was started.
    has_opened: bool,
    waiting: Waiting,
    /// Whether an execution has run whose effects on persistent files are there.
    is_dirty: bool,
    edges: Vec<u8>,
    has_fixed_addresses: bool,
}

pub(super) fn set_up(error: io::Error) -> FuzzServerError {
    TargetError::SetUp(error).into()
}

impl FuzzServer {
    /// Starts the target, with the persistent files as they are now for an image, and runs it to its fork point.
    pub fn start(target: &FuzzTarget) -> Result<Self, FuzzServerError> {
        let mut server = Self::start_without_image(target)?;
        server.run_on_image()?;
        Ok(server)
    }

    /// Starts the target, but does not let it use its persistent files before [`set_image`](Self::set_image), if it can wait before that.
    /// Otherwise it would write its other files twice.
    pub fn start_without_image(target: &FuzzTarget) -> Result<Self, FuzzServerError> {
        let program = Program::find(&target.command).map_err(TargetError::from)?;
        let gate = SignalGate::open().map_err(set_up)?;
        let mut options = option::FUZZ | option::REPEATED | option::SCHEDULE;
        if matches!(target.input, InputChannel::Clients(_)) {
            options |= option::CLIENT;
        }
        let wire = Wire::create(options).map_err(set_up)?;
        wire.put_schedule(target.schedule).map_err(set_up)?;
        // Nobody reads records.
        wire.turn_off();
        let shared = Shared::map(wire.file()).map_err(set_up)?;
        let input = input_file::open(&target.input)?;
        shared.configure(target, &input)?;
        if let InputChannel::Clients(path) = &target.input {
            client::put(&wire, path).map_err(set_up)?;
        }
        let files = FuzzedFiles::of(target)?;
        let mut server = Self {
            wire,
            shared,
            gate,
            program,
            target: target.clone(),
            input,
            image: files.now(Some(&[]))?,
            files,
            has_opened: false,
            waiting: Waiting::Nowhere(Obstacle::InputUnused),
            is_dirty: false,
            edges: vec![0; EDGES],
            has_fixed_addresses: true,
        };
        server.start_root()?;
        Ok(server)
    }

    /// Where the target is copied for each execution.
    pub fn fork_point(&self) -> ForkPoint {
        match &self.waiting {
            Waiting::AtInput(_) | Waiting::WithImage { .. } => ForkPoint::Input,
            Waiting::BeforeFiles { obstacle, .. } => ForkPoint::BeforeFiles(obstacle.clone()),
            Waiting::Nowhere(obstacle) => ForkPoint::StartPerRun(obstacle.clone()),
        }
    }

    /// What the target uses that can make executions of the same input differ.
    pub fn unpinned(&self) -> Vec<Unpinned> {
        Unpinned::of(self.wire.inputs(), self.has_fixed_addresses)
    }

    /// Whether stores to persistent files were found that the runtime had not noticed; files are then compared as a whole after each
    /// execution.
    pub fn has_unnoticed_stores(&self) -> bool {
        self.files.is_unreliable()
    }

    /// The operation with this identity, if an execution has made it.
    pub fn operation(&self, identity: u64) -> Option<PmOperation> {
        operations::find(self.page(), identity)
    }

    /// Lets the following executions start on an image: what the persistent files hold, in the order of the target's, or `None` for a file
    /// that does not exist. If the target uses the files before its input, it does so now: what this has shown is returned.
    pub fn set_image(
        &mut self,
        image: &[Option<Content>],
    ) -> Result<Option<FuzzExecution<'_>>, FuzzServerError> {
        if image.len() != self.files.len() {
            return Err(FuzzServerError::Image {
                given: image.len(),
                expected: self.files.len(),
            });
        }
        self.image = image.to_vec();
        self.run_on_image()
    }

    /// The persistent files as the last execution has left them, in the order of the target's; `None` if a file does not exist.
    pub fn files(&self) -> Result<Vec<Option<Content>>, FuzzServerError> {
        self.files.now(self.shared.changed_pages().as_deref())
    }

    /// Runs the target on an input.
    pub fn execute(&mut self, input: &[u8]) -> Result<FuzzExecution<'_>, FuzzServerError> {
        self.undo()?;
        self.put_input(input)?;
        self.begin(goal::END)?;
        self.is_dirty = true;
        let mut started = Instant::now();
        let pid = match self.copy()? {
            Some(pid) => pid,
            None => {
                // What waited has ended: somebody has killed it.
                self.prepare()?;
                self.put_input(input)?;
                self.begin(goal::END)?;
                self.is_dirty = true;
                // The time of another start is not that of the execution.
                started = Instant::now();
                self.copy()?.ok_or(FuzzServerError::Copy)?
            }
        };
        let end = process_end::wait_until(pid, started + self.target.timeout)
            .map_err(FuzzServerError::Wait)?;
        self.shared.copy_edges(&mut self.edges);
        Ok(FuzzExecution {
            end: self.without_client(end),
            duration: started.elapsed(),
            server: self,
        })
    }

    /// Begins another execution.
    fn begin(&self, goal: u32) -> Result<(), FuzzServerError> {
        self.shared.begin_execution(goal);
        match self.target.input {
            InputChannel::Clients(_) => client::begin(&self.wire).map_err(set_up),
            _ => Ok(()),
        }
    }

    /// How an execution has ended: the end of a server after its last client is not its own.
    fn without_client(&self, end: CopyEnd) -> CopyEnd {
        match end {
            CopyEnd::Killed(signal)
                if matches!(self.target.input, InputChannel::Clients(_))
                    && client::has_sent(&self.wire, signal) =>
            {
                CopyEnd::Exited(0)
            }
            end => end,
        }
    }

    /// A process that runs the execution which has begun; `None` if it could not be made.
    fn copy(&mut self) -> Result<Option<Pid>, FuzzServerError> {
        let (waits, which) = match self.waiting {
            Waiting::AtInput(root) => (root, station::BEFORE_INPUT),
            Waiting::WithImage { image, .. } => (image, station::BEFORE_INPUT),
            Waiting::BeforeFiles { root, .. } => (root, station::BEFORE_FILES),
            Waiting::Nowhere(_) => return self.launch().map(Some),
        };
        Ok(self.copy_at(waits, which))
    }

    fn copy_at(&self, waits: Pid, which: usize) -> Option<Pid> {
        let is_alive = || matches!(process::wait(waits, WaitMode::Poll), Ok(None));
        let copy = self.shared.copy(which, is_alive)?;
        Some(Pid(copy as i32))
    }

    /// Starts the target and runs it to its fork point.
    fn prepare(&mut self) -> Result<(), FuzzServerError> {
        self.start_root()?;
        self.run_on_image().map(|_| ())
    }

    /// Starts the target and runs it to its first station.
    fn start_root(&mut self) -> Result<(), FuzzServerError> {
        self.end_processes();
        self.has_opened = false;
        self.files.put(&self.image)?;
        self.is_dirty = false;
        self.put_input(&[])?;
        self.begin(goal::STATION)?;
        let root = self.launch()?;
        self.waiting = match self.arrival(root, self.start_limit())? {
            Arrival::At(station::BEFORE_INPUT) => Waiting::AtInput(root),
            Arrival::At(_) => Waiting::BeforeFiles {
                root,
                obstacle: Obstacle::InputUnused,
            },
            Arrival::Passed(threads) => {
                end(root);
                Waiting::Nowhere(Obstacle::Threads(threads))
            }
            Arrival::Ended(_) => Waiting::Nowhere(Obstacle::InputUnused),
            Arrival::TooSlow => {
                end(root);
                Waiting::Nowhere(Obstacle::TooSlow)
            }
        };
        self.is_dirty = true;
        Ok(())
    }

    /// Makes a process that has used the image and waits for the input, if the target does it in this order.
    fn run_on_image(&mut self) -> Result<Option<FuzzExecution<'_>>, FuzzServerError> {
        let root = match self.waiting {
            Waiting::BeforeFiles { root, .. } => Some(root),
            Waiting::WithImage { root, image } => {
                end(image);
                Some(root)
            }
            Waiting::AtInput(_) | Waiting::Nowhere(_) => None,
        };
        self.files.put(&self.image)?;
        self.is_dirty = false;
        let Some(root) = root else { return Ok(None) };
        self.shared.clear_station(station::BEFORE_INPUT);
        self.put_input(&[])?;
        self.begin(goal::STATION)?;
        let started = Instant::now();
        let copy = self.copy_at(root, station::BEFORE_FILES);
        let image = copy.ok_or(FuzzServerError::Copy)?;
        let before_files = |obstacle| Waiting::BeforeFiles { root, obstacle };
        let limit = match std::mem::replace(&mut self.has_opened, true) {
            true => self.target.timeout,
            false => self.start_limit(),
        };
        let arrival = self.arrival(image, limit)?;
        let (waiting, end) = match arrival {
            Arrival::At(_) => {
                let changed = self.shared.changed_pages();
                self.files.keep(changed.as_deref())?;
                (Waiting::WithImage { root, image }, CopyEnd::AtInput)
            }
            Arrival::Passed(threads) => {
                end(image);
                let obstacle = Obstacle::Threads(threads);
                (before_files(obstacle), CopyEnd::AtInput)
            }
            Arrival::Ended(ended) => (before_files(Obstacle::InputUnused), ended),
            Arrival::TooSlow => {
                end(image);
                (before_files(Obstacle::TooSlow), CopyEnd::TimedOut)
            }
        };
        self.is_dirty = matches!(waiting, Waiting::BeforeFiles { .. });
        self.waiting = waiting;
        self.shared.copy_edges(&mut self.edges);
        Ok(Some(FuzzExecution {
            end,
            duration: started.elapsed(),
            server: self,
        }))
    }

    /// Restores the persistent files after an execution.
    fn undo(&mut self) -> Result<(), FuzzServerError> {
        if !self.is_dirty {
            return Ok(());
        }
        let changed = self.shared.changed_pages();
        let restored = self.files.restore(changed.as_deref())?;
        self.is_dirty = false;
        if restored == Restored::Anew && matches!(self.waiting, Waiting::WithImage { .. }) {
            self.run_on_image()?;
        }
        Ok(())
    }

    /// Starts the target.
    fn launch(&mut self) -> Result<Pid, FuzzServerError> {
        if self.target.input == InputChannel::Stdin {
            self.input.rewind().map_err(set_up)?;
        }
        let nothing = File::options().read(true).write(true).open("/dev/null");
        let nothing = nothing.map_err(set_up)?;
        let input = match self.target.input {
            InputChannel::Stdin => &self.input,
            InputChannel::File(_) | InputChannel::Clients(_) => &nothing,
        };
        let addresses = FixedAddresses::begin();
        self.has_fixed_addresses = addresses.is_allowed();
        self.target.repetition.prepare();
        let details = Launch {
            streams: Some([input, &nothing, &nothing]),
            environment: &self.target.environment,
            directory: self.target.directory.as_deref(),
        };
        let launched = launch_with(
            LOADER,
            &self.program,
            self.wire.file(),
            &self.gate,
            &details,
        );
        let launched = launched.map_err(|source| TargetError::Start {
            path: self.program.path.clone(),
            source,
        })?;
        Ok(launched.pid)
    }

    fn start_limit(&self) -> Duration {
        (self.target.timeout * START_FACTOR).max(START_LIMIT)
    }

    /// Waits until a process comes to a station or ends, at most for `limit`.
    fn arrival(&self, pid: Pid, limit: Duration) -> Result<Arrival, FuzzServerError> {
        let deadline = Instant::now() + limit;
        let stations = &self.page().stations;
        loop {
            let turns = self.shared.wait_at_stations(POLL_INTERVAL);
            for (which, turn) in turns.into_iter().enumerate() {
                let waits = stations[which]
                    .pid
                    .load(std::sync::atomic::Ordering::Relaxed);
                match turn {
                    turn::WAITING if waits == pid.0 as u32 => return Ok(Arrival::At(which)),
                    turn::PASSED => {
                        let threads = &stations[which].threads;
                        let threads = threads.load(std::sync::atomic::Ordering::Relaxed);
                        self.shared.clear_station(which);
                        return Ok(Arrival::Passed(threads));
                    }
                    _ => {}
                }
            }
            let ended = process::wait(pid, WaitMode::Poll).map_err(FuzzServerError::Wait)?;
            if let Some(ended) = ended {
                return Ok(Arrival::Ended(process_end::of(ended.end)));
            }
            if Instant::now() >= deadline {
                return Ok(Arrival::TooSlow);
            }
        }
    }

    fn put_input(&mut self, bytes: &[u8]) -> Result<(), FuzzServerError> {
        let put = |file: &File| {
            if file.metadata()?.len() != bytes.len() as u64 {
                file.set_len(bytes.len() as u64)?;
            }
            file.write_all_at(bytes, 0)
        };
        put(&self.input).map_err(|source| input_file::failed(&self.target.input, source))
    }

    fn end_processes(&mut self) {
        match self.waiting {
            Waiting::AtInput(root) | Waiting::BeforeFiles { root, .. } => end(root),
            Waiting::WithImage { root, image } => {
                end(image);
                end(root);
            }
            Waiting::Nowhere(_) => {}
        }
        self.waiting = Waiting::Nowhere(Obstacle::InputUnused);
        self.shared.clear_station(station::BEFORE_FILES);
        self.shared.clear_station(station::BEFORE_INPUT);
    }

    pub(super) fn page(&self) -> &FuzzPage {
        self.shared.page()
    }

    pub(super) fn edges(&self) -> &[u8] {
        &self.edges
    }

    pub(super) fn changed_pages(&self) -> Option<Vec<(usize, u64)>> {
        self.shared.changed_pages()
    }

    pub(super) fn is_at_input(&self) -> bool {
        matches!(
            self.waiting,
            Waiting::AtInput(_) | Waiting::WithImage { .. }
        )
    }
}

impl Drop for FuzzServer {
    fn drop(&mut self) {
        self.end_processes();
    }
}

/// Kills and waits for a process.
fn end(pid: Pid) {
    process::kill(pid, Signal::KILL);
    let _ = process::wait(pid, WaitMode::Block);
}
