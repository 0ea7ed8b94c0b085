//! Paths of real programs, recorded by the engine and replayed: every value is what the processor computed, and a solved input goes the
//! other way.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use brownout_engine::{LiveEvents, OnFull, SymbolicSource, Target, TargetOptions, ThreadSchedule};
use brownout_symex::{
    PathConstraints, ReplayQuestions, ReplayedPath, Solution, Solver, VariableTable, replay,
};
use brownout_trace::ProcessEnd;

/// A program that reads the file in its first argument.
struct Program {
    directory: tempfile::TempDir,
}

impl Program {
    fn compile(source: &str, options: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let text = directory.path().join("program.c");
        fs::write(&text, source).unwrap();
        let mut compiler = Command::new("cc");
        compiler
            .args(["-w", "-o"])
            .arg(directory.path().join("program"));
        let status = compiler.args(options).arg(&text).status().unwrap();
        assert!(status.success());
        Self { directory }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs the program; how it ended, and its path.
    fn run(&self, input: &[u8], variables: &mut VariableTable) -> (ProcessEnd, ReplayedPath) {
        let file = self.file("input");
        fs::write(&file, input).unwrap();
        let options = TargetOptions {
            command: vec![self.file("program").into(), file.clone().into()],
            loads: false,
            locks: false,
            shared_loads: false,
            reads: false,
            coverage: false,
            watch: Vec::new(),
            on_full: OnFull::Stop,
            repetition: None,
            hold: None,
            schedule: Some(ThreadSchedule::of_seed(1)),
            patch: None,
            symbolic: vec![SymbolicSource::File(file)],
            client: None,
        };
        let target = Target::prepare(&options).unwrap();
        let run = target.run(LiveEvents::discard(), &mut |_| ()).unwrap();
        let recording = run.path.unwrap();
        assert!(!recording.is_cut_off);
        let questions = ReplayQuestions {
            is_symbolic: &|_, _| true,
            is_own: &|_| true,
            stop: &|| false,
        };
        let path = replay(&recording.records, variables, questions).unwrap();
        assert_eq!(path.mismatches, [], "of {} steps", path.steps);
        (run.end, path)
    }

    /// Solves for inputs until one makes the program exit with 42.
    fn search(&self, seed: &[u8], most: usize) -> Vec<u8> {
        let mut variables = VariableTable::default();
        let mut solver = Solver::new(Duration::from_secs(10));
        let mut waiting = vec![seed.to_vec()];
        let mut seen = std::collections::HashSet::new();
        let mut runs = 0;
        while !waiting.is_empty() {
            let input = waiting.remove(0);
            runs += 1;
            assert!(runs <= most, "not found in {most} runs");
            let (end, path) = self.run(&input, &mut variables);
            if end == (ProcessEnd::Exited { status: 42 }) {
                return input;
            }
            let holds = path.constraints.iter().map(|it| it.holds).collect();
            let mut constraints = PathConstraints::new(path.dag, holds, &|| false);
            for index in (0..path.constraints.len()).rev() {
                if !path.constraints[index].is_choice() {
                    continue;
                }
                let (Solution::Exact(model) | Solution::Optimistic(model)) =
                    solver.negate(&mut constraints, index)
                else {
                    continue;
                };
                let mut next = input.clone();
                for (variable, value) in model {
                    next[variables.byte(variable).1 as usize] = value;
                }
                if seen.insert(next.clone()) {
                    waiting.push(next);
                }
            }
        }
        panic!("not found: {:?}", solver.statistics);
    }
}

const READ: &str = r#"
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static unsigned char in[4096];
static long get(char **argv) { int fd = open(argv[1], 0); return read(fd, in, sizeof in - 1); }
"#;

fn found(body: &str, seed: &[u8], options: &[&str], most: usize) -> Vec<u8> {
    let program = Program::compile(&format!("{READ}{body}"), options);
    program.search(seed, most)
}

#[test]
fn a_magic_number_is_found() {
    let body = "int main(int c, char **v) { get(v); uint32_t m; memcpy(&m, in, 4);
        return m * 3 + 1 == 0xdeadbeef * 3u + 1 ? 42 : 0; }";
    let input = found(body, &[0; 8], &["-O0"], 3);
    assert_eq!(input[..4], 0xdead_beef_u32.to_le_bytes());
}

#[test]
fn a_keyword_is_found_through_strcmp() {
    let body = "int main(int c, char **v) { get(v); return strcmp(in, \"persist\") ? 0 : 42; }";
    let input = found(body, b"AAAAAAAAAAAA", &["-O0", "-fno-builtin"], 30);
    assert!(input.starts_with(b"persist\0"));
}

#[test]
fn a_decimal_number_is_found_through_atoi() {
    let body = "int main(int c, char **v) { get(v); if (atoi(in) == 73519) _exit(42); return 0; }";
    let input = found(body, b"000000\n", &["-O1"], 20);
    assert!(input.starts_with(b"073519"), "{input:?}");
}

#[test]
fn a_table_is_looked_up() {
    let body = "static const unsigned char t[256] = { [7] = 1, [200] = 9, [201] = 9 };
        int main(int c, char **v) { get(v); return t[in[0]] + t[in[1]] == 10 && in[1] > in[0] ? 42 : 0; }";
    let input = found(body, &[0; 4], &["-O1"], 10);
    assert!(input[0] == 7 && [200, 201].contains(&input[1]), "{input:?}");
}

#[test]
fn a_checksum_is_solved() {
    let body = "int main(int c, char **v) { long n = get(v); uint32_t s = 1;
        for (int i = 4; i < 12; i++) s = s * 31 + in[i];
        uint32_t want; memcpy(&want, in, 4);
        if (s == want && in[5] == 'x' && in[9] / 7 == 11) _exit(42); return 0; }";
    let input = found(body, &[1; 12], &["-O2"], 12);
    assert_eq!(input[5], b'x');
}

#[test]
fn the_same_program_is_replayed_at_all_levels_of_optimisation() {
    let body = "int main(int c, char **v) { long n = get(v); int d = 0; unsigned long h = 5381;
        for (int i = 0; i < 16; i++) { h = h * 33 ^ in[i]; if (in[i] >= '0' && in[i] <= '9') d++;
          h = (h << (in[i] & 7)) | (h >> 13); }
        char out[64]; sprintf(out, \"%lu %d %s\", h, d, in); double x = in[3] * 1.5; memmove(out + 3, in, 9);
        return d == 3 && memcmp(in + 4, \"key=\", 4) == 0 && strlen(in) == 12 && x > 100 && strchr(in, 'z') ? 42 : (h % 7); }";
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        let program = Program::compile(&format!("{READ}{body}"), &[level]);
        let (_, path) = program.run(b"abcdkey=123z", &mut VariableTable::default());
        assert!(path.constraints.len() > 10);
    }
}

#[test]
fn nothing_is_recorded_without_a_symbolic_byte() {
    let program = Program::compile("int main(void) { return 0; }", &[]);
    let (_, path) = program.run(b"x", &mut VariableTable::default());
    assert_eq!(path.steps, 0);
}
