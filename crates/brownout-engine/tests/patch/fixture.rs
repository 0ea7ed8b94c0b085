//! Programs that store to a pool, and plans made from what their recordings show.

use brownout_engine::{
    CodeLocation, InstructionRole, OnFull, PatchCounts, PatchOperations, PatchPlan,
    PatchedInstruction, RecordOptions, Recording, record,
};
use brownout_trace::{AppPc, EventKind, FenceKind, ProcessEnd, ProcessId, Sync, TraceReader};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const HEAD: &str = "
#define _GNU_SOURCE
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile uint64_t *pool;
static void *store(void *at) { pool[(long)at * 8] = 1; return 0; }
static inline void in_thread_and_child(long i) {
  pthread_t thread;
  if (pthread_create(&thread, 0, store, (void *)i) || pthread_join(thread, 0)) abort();
  if (fork() == 0) { store((void *)(i + 8)); _exit(0); }
  wait(0);
}
";

pub struct PatchedProgram {
    directory: tempfile::TempDir,
    stores: Vec<RecordedStore>,
    text: String,
}

/// A store as the first recording has it.
struct RecordedStore {
    /// Its offset in the pool.
    offset: u64,
    /// The instruction, then return addresses.
    stack: Vec<CodeLocation>,
}

impl PatchedProgram {
    /// A program whose `main` does this.
    pub fn new(body: &str) -> Self {
        Self::with_functions("", body)
    }

    pub fn with_functions(functions: &str, body: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("program.c");
        let main = format!(
            "int main(int argc, char **argv) {{
               int fd = open(argv[1], O_RDWR);
               pool = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
               if (fd < 0 || pool == MAP_FAILED) return 99;
               {body}
               return 0;
             }}"
        );
        fs::write(&source, format!("{HEAD}{functions}{main}")).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-w", "-pthread", "-fno-optimize-sibling-calls", "-o"]);
        compiler.args([directory.path().join("program"), source]);
        assert!(compiler.status().unwrap().success(), "{body}");
        let mut program = Self {
            directory,
            stores: Vec::new(),
            text: String::new(),
        };
        let (trace, _) = program.record(None);
        (program.text, program.stores) = read(trace);
        program
    }

    /// What the program does by itself: `s` a store, `f` a flush, `v` a flush of other memory, `y` a sync, each with its offset in
    /// the pool, and `|` a fence.
    pub fn recorded(&self) -> &str {
        &self.text
    }

    /// A plan that flushes what each of the chosen stores stores, behind it. `choose` gets the number and the offset of a store.
    pub fn behind_stores(
        &self,
        operations: PatchOperations,
        choose: impl Fn(usize, u64) -> bool,
    ) -> PatchPlan {
        let mut sites = Vec::new();
        for (number, store) in self.stores.iter().enumerate() {
            if !choose(number, store.offset) {
                continue;
            }
            for role in [InstructionRole::Store, InstructionRole::BehindIt] {
                add(&mut sites, &store.stack[0], role);
            }
        }
        PatchPlan {
            patches: vec![operations],
            sites,
        }
    }

    /// A plan for the calls that make the chosen stores.
    pub fn in_calls(&self, operations: PatchOperations, choose: impl Fn(u64) -> bool) -> PatchPlan {
        let mut sites = Vec::new();
        for store in self.stores.iter().filter(|store| choose(store.offset)) {
            add(&mut sites, &store.stack[0], InstructionRole::StoreInCall);
            add(&mut sites, &store.stack[1], InstructionRole::ReturnsHere);
        }
        PatchPlan {
            patches: vec![operations],
            sites,
        }
    }

    /// What the program does with a plan.
    pub fn patched(&self, plan: &PatchPlan) -> String {
        let (trace, recording) = self.record(Some(plan.clone()));
        assert_eq!(recording.patched.unwrap().unknown, 0);
        read(trace).0
    }

    pub fn counts(&self, plan: &PatchPlan) -> PatchCounts {
        self.record(Some(plan.clone())).1.patched.unwrap()
    }

    fn record(&self, patch: Option<PatchPlan>) -> (PathBuf, Recording) {
        let pool = self.directory.path().join("pool");
        fs::write(&pool, vec![0; 65536]).unwrap();
        let trace = self.directory.path().join("trace");
        let options = RecordOptions {
            command: vec![self.directory.path().join("program").into(), pool.into()],
            trace: trace.clone(),
            pm: Vec::new(),
            loads: false,
            shared_loads: false,
            coverage: false,
            watch: Vec::new(),
            on_full: OnFull::Stop,
            schedule: None,
            patch,
            symbolic: Vec::new(),
        };
        let recording = record(&options, &mut |_| ()).unwrap();
        assert_eq!(recording.end, ProcessEnd::Exited { status: 0 });
        (trace, recording)
    }
}

fn add(sites: &mut Vec<PatchedInstruction>, at: &CodeLocation, role: InstructionRole) {
    let site = PatchedInstruction {
        at: at.clone(),
        patch: 0,
        role,
    };
    if !sites.contains(&site) {
        sites.push(site);
    }
}

/// The events of a trace as text, and its stores.
fn read(trace: PathBuf) -> (String, Vec<RecordedStore>) {
    let mut reader = TraceReader::open(&trace).unwrap();
    let mut words = Vec::new();
    let mut stores = Vec::new();
    let mut start = 0;
    while let Some((event, definitions)) = reader.next_defined().unwrap() {
        let at = |process: ProcessId, pc: AppPc| {
            let module = definitions.module_at(process, pc)?;
            Some(CodeLocation {
                path: module.path.clone(),
                offset: pc.0 - module.addr.0 + module.file_offset,
            })
        };
        match event.kind {
            EventKind::Map(mapping) => start = mapping.addr.0,
            EventKind::Store { addr, .. } => {
                let callers = definitions.context_frames(event.process, event.context);
                let stack = std::iter::once(event.pc).chain(callers);
                stores.push(RecordedStore {
                    offset: addr.0 - start,
                    stack: stack.map_while(|pc| at(event.process, pc)).collect(),
                });
                words.push(format!("s{}", addr.0 - start));
            }
            EventKind::Flush { volatile: true, .. } => words.push("v".to_owned()),
            EventKind::Flush { addr, .. } => words.push(format!("f{}", addr.0 - start)),
            EventKind::Fence {
                kind: FenceKind::Sfence,
            } => words.push("|".to_owned()),
            EventKind::Sync(Sync::Msync { addr, len, .. }) => {
                words.push(format!("y{}+{len}", addr.0 - start))
            }
            _ => {}
        }
    }
    (words.join(" "), stores)
}
