//! Reads of recovery that can see several stores, and a search for their loads: runs of recovery, each of which shows the loads of all
//! reads on its way.

use std::collections::{BTreeSet, HashMap};
use std::hash::{Hash as _, Hasher as _};
use std::rc::Rc;
use std::sync::Arc;

use brownout_model::{
    CrashTime, InitialBytes, PmAddress, PossibleMemory, ReadSource, StoreHistory, Time,
};
use brownout_recovery::{ByteRanges, FirstRead, RawFrame};
use brownout_trace::FileId;
use rustc_hash::FxHasher;

use crate::crash_point::CrashPoint;
use crate::operation::Operation;
use crate::recovery_loads::{LoadExaminer, ObservedLoads};
use crate::several_stores::{SourcedRead, by_line, several_stores};

/// A read of recovery that can see several stores.
#[derive(Clone, Debug)]
pub struct PossibleRead {
    /// A crash after which recovery gets there and reads the oldest of them.
    pub point: CrashPoint,
    pub operation: Option<Operation>,
    /// When the crash is: before its event, or a later one before which nothing is stored.
    pub crash: CrashTime,
    /// How many reads lead there, each in one line, and a digest of them.
    pub number: usize,
    pub path: PathDigest,
    pub read: FirstRead,
    pub at: PmAddress,
    pub sources: BTreeSet<ReadSource>,
}

/// All reads of recovery that can see several stores.
pub struct PossibleReads {
    pub reads: Vec<PossibleRead>,
    /// The bytes of each persistent file whose reads are counted.
    pub wanted: Arc<[ByteRanges]>,
    pub history: Arc<StoreHistory>,
    pub initial: Arc<dyn InitialBytes>,
}

/// Names a sequence of reads and of the bytes that they saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PathDigest(u64);

impl PathDigest {
    /// The sequence with one more read, in one line.
    pub fn with(self, read: FirstRead, bytes: &[u8]) -> Self {
        let mut hasher = FxHasher::default();
        (self.0, read, bytes).hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Finds the loads of possible reads.
pub struct ReadExaminer<'r> {
    possible: &'r PossibleReads,
    reads: &'r [&'r PossibleRead],
    /// The reads whose load is not known, by number, by what leads to them.
    pub waiting: HashMap<(PathDigest, FirstRead), Vec<usize>>,
    pub found: Vec<FoundLoad<'r>>,
}

/// The load of a possible read.
pub struct FoundLoad<'r> {
    pub read: &'r PossibleRead,
    /// The calls that led to it; empty if it is not a load.
    pub stack: Vec<RawFrame>,
    /// All reads of that run that can see several stores.
    pub sourced: Rc<[SourcedRead]>,
}

impl<'r> ReadExaminer<'r> {
    pub fn new(possible: &'r PossibleReads, reads: &'r [&'r PossibleRead]) -> Self {
        let mut waiting: HashMap<_, Vec<usize>> = HashMap::new();
        for (number, read) in reads.iter().enumerate() {
            let waiting = waiting.entry((read.path, read.read));
            waiting.or_default().push(number);
        }
        Self {
            possible,
            reads,
            waiting,
            found: Vec::new(),
        }
    }
}

impl LoadExaminer for ReadExaminer<'_> {
    fn wanted(&self, _: &[Option<FileId>]) -> Vec<ByteRanges> {
        self.possible.wanted.to_vec()
    }

    fn needs(&self, number: usize) -> bool {
        let read = self.reads[number];
        self.waiting.contains_key(&(read.path, read.read))
    }

    fn take(&mut self, _: usize, observed: ObservedLoads) {
        let mut path = PathDigest::default();
        let mut by_time: HashMap<Time, Rc<[SourcedRead]>> = HashMap::new();
        for load in &observed.loads {
            for (read, bytes) in by_line(load.read, &load.bytes) {
                for number in self.waiting.remove(&(path, read)).unwrap_or_default() {
                    let read = self.reads[number];
                    let seen = by_time.entry(read.crash.before).or_insert_with(|| {
                        let mut memory = self.possible.memory(read.crash);
                        several_stores(&mut memory, &observed.holders, observed.reads()).into()
                    });
                    self.found.push(FoundLoad {
                        read,
                        stack: load.stack.clone(),
                        sourced: Rc::clone(seen),
                    });
                }
                path = path.with(read, bytes);
            }
        }
    }
}

impl PossibleReads {
    /// All memory that a crash can leave.
    fn memory(&self, crash: CrashTime) -> PossibleMemory {
        PossibleMemory::new(Arc::clone(&self.initial), Arc::clone(&self.history), crash)
    }
}
