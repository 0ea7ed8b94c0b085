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
    /// What the C library is made to think of the CPU.
    tunables: String,
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
        Self {
            directory,
            tunables: String::new(),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs the program; how it ended, and the records of its path.
    fn record(&self, input: &[u8]) -> (ProcessEnd, Vec<u8>) {
        let file = self.file("input");
        fs::write(&file, input).unwrap();
        let options = TargetOptions {
            command: vec![
                "env".into(),
                format!("GLIBC_TUNABLES={}", self.tunables).into(),
                self.file("program").into(),
                file.clone().into(),
            ],
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
        (run.end, recording.records.to_vec())
    }

    /// Runs the program; how it ended, and its path.
    fn run(&self, input: &[u8], variables: &mut VariableTable) -> (ProcessEnd, ReplayedPath) {
        let (end, records) = self.record(input);
        let questions = ReplayQuestions {
            is_symbolic: &|_, _| true,
            is_own: &|_| true,
            stop: &|| false,
        };
        let path = replay(&records, variables, questions).unwrap();
        assert_eq!(path.mismatches, [], "of {} steps", path.steps);
        (end, path)
    }

    /// Solves for inputs until one makes the program exit with 42.
    fn search(&self, seed: &[u8], most: usize) -> Vec<u8> {
        self.try_search(seed, most)
            .unwrap_or_else(|why| panic!("{why}"))
    }

    fn try_search(&self, seed: &[u8], most: usize) -> Result<Vec<u8>, String> {
        let mut variables = VariableTable::default();
        let mut solver = Solver::new(Duration::from_secs(10));
        let mut waiting = vec![seed.to_vec()];
        let mut seen = std::collections::HashSet::new();
        let mut runs = 0;
        while !waiting.is_empty() {
            let input = waiting.remove(0);
            runs += 1;
            if runs > most {
                return Err(format!("not found in {most} runs"));
            }
            let (end, path) = self.run(&input, &mut variables);
            if end == (ProcessEnd::Exited { status: 42 }) {
                return Ok(input);
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
        Err(format!("not found in {runs} runs: {:?}", solver.statistics))
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

/// What a program requires of the input through functions of the C library, and an input from which it is found.
const STRINGS: [(&str, &[u8]); 4] = [
    ("strspn(in, \"abc\") == 3", b"AAAAAA"),
    ("strcspn(in, \":=\") == 2", b"AAAAAA"),
    ("(t = strtok(in, \",;\")) && strlen(t) == 2", b"AAAAAA"),
    ("!strcasecmp(in, \"PerS\")", b"AAAAAA"),
];

/// Each function as the C library has it for this CPU, and for one without AVX.
#[test]
fn what_functions_for_strings_compare_is_found_whichever_of_their_variants_runs() {
    let mut failures = Vec::new();
    for (condition, seed) in STRINGS {
        let body = format!(
            "int main(int c, char **v) {{ char *t; get(v); if ({condition}) _exit(42); return 0; }}"
        );
        let source = format!("#define _GNU_SOURCE\n#include <strings.h>\n{READ}{body}");
        let mut program = Program::compile(&source, &["-O1", "-fno-builtin"]);
        for mask in ["", "-AVX512VL,-AVX512BW,-AVX2,-AVX2_Usable"] {
            program.tunables = format!("glibc.cpu.hwcaps={mask}");
            if let Err(why) = program.try_search(seed, 40) {
                failures.push(format!("{condition} {mask}: {why}"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn an_array_whose_length_is_symbolic_moves_the_stack() {
    let body =
        "int main(int c, char **v) { get(v); char a[in[0] % 64 + 1]; memset(a, in[1], sizeof a);
        char b[in[2] % 16 + 16]; b[3] = a[0]; puts(\"a call\"); if (b[3] == 7) _exit(42); return 0; }";
    for level in ["-O0", "-O2"] {
        let input = found(body, &[40, 1, 9], &[level], 40);
        assert_eq!(input[1], 7);
    }
}

#[test]
fn hints_and_flushes_leave_their_addresses_symbolic() {
    let body = "#include <immintrin.h>
        static char t[256 * 64]; int main(int c, char **v) { get(v); char *p = t + in[0] * 64;
        asm volatile(\"nopl (%0)\" :: \"r\"(p)); asm volatile(\"prefetchnta (%0)\" :: \"r\"(p)); _mm_clflush(p); _mm_sfence();
        if (in[0] == 200) _exit(42); return 0; }";
    let program = Program::compile(&format!("{READ}{body}"), &["-O1"]);
    let (_, path) = program.run(&[3; 4], &mut VariableTable::default());
    assert!(path.concretised.is_empty(), "{:?}", path.concretised);
    assert_eq!(program.search(&[3; 4], 3)[0], 200);
}

#[test]
fn a_vector_load_from_a_table_is_a_choice_between_its_entries() {
    let body = "static const unsigned t[256] = { [7] = 1, [200] = 9 };
        int main(int c, char **v) { get(v); unsigned x; long i = in[0];
        asm(\"movd (%1,%2,4), %%xmm0; movd %%xmm0, %0\" : \"=r\"(x) : \"r\"(t), \"r\"(i) : \"xmm0\");
        if (x == 9) _exit(42); return 0; }";
    assert_eq!(found(body, &[0; 4], &["-O1"], 4)[0], 200);
    // A load of 16 bytes is no entry of a table: its address is what it was.
    let body = "static const unsigned t[1024] = { [7] = 1 };
        int main(int c, char **v) { get(v); unsigned x; long i = in[0];
        asm(\"movdqu (%1,%2,4), %%xmm0; movd %%xmm0, %0\" : \"=r\"(x) : \"r\"(t), \"r\"(i) : \"xmm0\");
        return x; }";
    let program = Program::compile(&format!("{READ}{body}"), &["-O1"]);
    let (_, path) = program.run(&[3; 4], &mut VariableTable::default());
    assert_eq!(path.concretised.get("addresses"), Some(&1));
}

#[test]
fn a_bit_outside_of_the_operand_is_what_it_was() {
    let body = "int main(int c, char **v) { get(v); long i = 75; unsigned char set;
        asm(\"btq %2, (%1); setc %0\" : \"=r\"(set) : \"r\"(in), \"r\"(i) : \"memory\"); return set ? 42 : 0; }";
    let program = Program::compile(&format!("{READ}{body}"), &["-O1"]);
    let (_, path) = program.run(&[0; 16], &mut VariableTable::default());
    // The operand, and the byte with the bit.
    assert_eq!(path.concretised.get("bt"), Some(&9));
}

#[test]
fn arguments_of_system_calls_are_what_they_were_and_bytes_that_leave_are_counted() {
    let body =
        "int main(int c, char **v) { get(v); int p[2]; pipe(p); write(p[1], in, 3 + (in[0] & 1));
        unsigned char o[8] = {0}; memcpy(o, in + 4, 4); read(p[0], o, 2); write(1, in, 4);
        if (o[0] == 9 || o[2] == 9) _exit(42); return 0; }";
    let program = Program::compile(&format!("{READ}{body}"), &["-O1"]);
    let seed = [1, 2, 3, 4, 1, 6, 7, 8];
    let (_, path) = program.run(&seed, &mut VariableTable::default());
    assert_eq!(path.concretised.get("arguments of system calls"), Some(&1));
    assert_eq!(path.sent, 4);
    // What was read over it does not depend on the input any more, although byte 0 has the same value as before; the byte behind it does.
    let input = program.search(&seed, 4);
    assert_eq!((input[4], input[6]), (1, 9));
}

#[test]
fn a_division_that_overflows_is_a_fault_to_solve_for() {
    let body = "#include <signal.h>
        static void fault(int s) { _exit(42); }
        int main(int c, char **v) { signal(SIGFPE, fault); get(v); int a, b; memcpy(&a, in, 4); memcpy(&b, in + 4, 4);
        return b ? a / b & 1 : 0; }";
    let input = found(body, &[1, 0, 0, 0, 3, 0, 0, 0], &["-O1"], 8);
    assert_eq!(input[..4], i32::MIN.to_le_bytes());
    assert_eq!(input[4..8], (-1i32).to_le_bytes());
}

#[test]
fn a_repetition_of_any_length_is_replayed() {
    let body = "static unsigned char b[1 << 17], d[1 << 17];
        int main(int c, char **v) { get(v); memcpy(b + 50000, in, 8); unsigned long n = sizeof b; void *s = b, *t = d;
        asm volatile(\"rep movsb\" : \"+c\"(n), \"+S\"(s), \"+D\"(t) :: \"memory\");
        n = sizeof b; t = b; asm volatile(\"rep stosb\" : \"+c\"(n), \"+D\"(t) : \"a\"((int)in[0]) : \"memory\");
        if (d[50003] == 17 && b[99] == 5) _exit(42); return 0; }";
    let input = found(body, &[1; 8], &["-O1"], 8);
    assert_eq!((input[0], input[3]), (5, 17));
}

#[test]
fn replay_stops_when_it_is_asked_to() {
    let body = "int main(int c, char **v) { get(v); unsigned h = 0; for (int i = 0; i < 10000; i++) h = h * 31 + in[i & 7];
        return h & 1; }";
    let program = Program::compile(&format!("{READ}{body}"), &["-O1"]);
    let (_, path) = program.run(&[1; 8], &mut VariableTable::default());
    assert!(!path.is_cut_off);
    let whole = path.steps;
    let asked = std::cell::Cell::new(0);
    let stop = || {
        asked.set(asked.get() + 1);
        asked.get() > 10
    };
    let recorded = program.record(&[1; 8]).1;
    let mut variables = VariableTable::default();
    let questions = ReplayQuestions {
        is_symbolic: &|_, _| true,
        is_own: &|_| true,
        stop: &stop,
    };
    let path = replay(&recorded, &mut variables, questions).unwrap();
    assert!(path.is_cut_off && path.steps < whole / 10, "{}", path.steps);
}

#[test]
fn elements_that_are_gathered_are_what_they_were() {
    let body = "#include <immintrin.h>
        __attribute__((target(\"avx2\"))) static int sum(void) {
        __m256i v = _mm256_i32gather_epi32((int *)in, _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0), 4);
        return _mm256_extract_epi32(v, 3) + _mm256_extract_epi32(v, 5); }
        int main(int c, char **v) { get(v); return __builtin_cpu_supports(\"avx2\") && sum() == 99 ? 42 : 0; }";
    if !std::arch::is_x86_feature_detected!("avx2") {
        return;
    }
    let program = Program::compile(&format!("{READ}{body}"), &["-O1"]);
    let (_, path) = program.run(&[1; 64], &mut VariableTable::default());
    assert_eq!(
        path.concretised.get("vpgatherdd"),
        Some(&32),
        "{:?}",
        path.concretised
    );
}

#[test]
fn vectors_that_are_saved_and_restored_depend_on_the_input_as_before() {
    let body = "static char area[4096] __attribute__((aligned(64)));
        int main(int c, char **v) { get(v); int x;
        asm(\"movdqu (%1), %%xmm1; fxsave (%2); pxor %%xmm1, %%xmm1; pcmpeqd %%xmm1, %%xmm1; fxrstor (%2); movd %%xmm1, %0\"
            : \"=r\"(x) : \"r\"(in), \"r\"(area) : \"xmm1\", \"memory\");
        if (x == 0x77665544) _exit(42); return 0; }";
    let input = found(body, &[1; 16], &["-O1"], 3);
    assert_eq!(input[..4], 0x7766_5544_u32.to_le_bytes());
}

#[test]
fn registers_are_symbolic_again_when_a_handler_has_returned() {
    let body = "#include <signal.h>
        static volatile int signals; static void handle(int s) { signals += s; }
        int main(int c, char **v) { signal(SIGUSR1, handle); get(v); unsigned x = in[0] | in[1] << 8;
        asm volatile(\"mov %0, %%ebx; mov $39, %%eax; syscall; mov %%eax, %%edi; mov $10, %%esi; mov $62, %%eax; syscall; mov %%ebx, %0\"
            : \"+r\"(x) :: \"rax\", \"rbx\", \"rcx\", \"rdi\", \"rsi\", \"r11\", \"memory\");
        return signals == 10 && x == 0x4321 ? 42 : 0; }";
    let input = found(body, &[1; 8], &["-O1"], 4);
    assert_eq!(input[..2], [0x21, 0x43]);
}
