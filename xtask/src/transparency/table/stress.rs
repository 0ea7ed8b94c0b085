//! stress-ng: threads, signals, memory and processes harder than ordinary programs use them. Only the
//! end is compared; a stressor that verifies itself fails when it finds a mistake.

use super::super::case::{Case, argv};

macro_rules! stressor {
    ($name:literal, $($word:literal),+) => {
        argv(concat!("stress-", $name), &["stress-ng", "--quiet", "--verify", "--timeout", "90s", $($word),+]).needs(&["stress-ng"])
    };
}

pub const CASES: &[Case] = &[
    stressor!(
        "pthread",
        "--pthread",
        "2",
        "--pthread-max",
        "64",
        "--pthread-ops",
        "600"
    ),
    stressor!(
        "mutex",
        "--mutex",
        "2",
        "--mutex-procs",
        "4",
        "--mutex-ops",
        "20000"
    ),
    stressor!("futex", "--futex", "2", "--futex-ops", "20000"),
    stressor!("signal", "--signal", "2", "--signal-ops", "20000"),
    stressor!("signest", "--signest", "2", "--signest-ops", "2000"),
    stressor!("sigsegv", "--sigsegv", "2", "--sigsegv-ops", "5000"),
    stressor!("sigfpe", "--sigfpe", "2", "--sigfpe-ops", "5000"),
    stressor!("sigtrap", "--sigtrap", "1", "--sigtrap-ops", "5000"),
    stressor!("sigabrt", "--sigabrt", "2", "--sigabrt-ops", "100"),
    stressor!(
        "sigsuspend",
        "--sigsuspend",
        "2",
        "--sigsuspend-ops",
        "2000"
    ),
    stressor!("sigq", "--sigq", "2", "--sigq-ops", "5000"),
    stressor!("sigrt", "--sigrt", "1", "--sigrt-ops", "5000"),
    stressor!("sigfd", "--sigfd", "2", "--sigfd-ops", "5000"),
    stressor!("sigpipe", "--sigpipe", "2", "--sigpipe-ops", "200"),
    stressor!("sigchld", "--sigchld", "1", "--sigchld-ops", "300"),
    stressor!("timer", "--timer", "2", "--timer-ops", "3000"),
    stressor!("itimer", "--itimer", "2", "--itimer-ops", "2000"),
    stressor!("fork", "--fork", "2", "--fork-ops", "300"),
    stressor!("vfork", "--vfork", "2", "--vfork-ops", "300"),
    stressor!("clone", "--clone", "1", "--clone-ops", "200"),
    stressor!("exec", "--exec", "2", "--exec-ops", "200"),
    stressor!("vm", "--vm", "2", "--vm-bytes", "32M", "--vm-ops", "200"),
    stressor!(
        "mmap",
        "--mmap",
        "2",
        "--mmap-bytes",
        "8M",
        "--mmap-ops",
        "40"
    ),
    stressor!(
        "mremap",
        "--mremap",
        "2",
        "--mremap-bytes",
        "4M",
        "--mremap-ops",
        "60"
    ),
    stressor!("mprotect", "--mprotect", "1", "--mprotect-ops", "500"),
    stressor!("brk", "--brk", "2", "--brk-ops", "20000"),
    stressor!("stack", "--stack", "1", "--stack-ops", "20"),
    stressor!("context", "--context", "2", "--context-ops", "5000"),
    stressor!("longjmp", "--longjmp", "2", "--longjmp-ops", "100000"),
    stressor!("dynlib", "--dynlib", "1", "--dynlib-ops", "100"),
    stressor!("pipe", "--pipe", "2", "--pipe-ops", "20000"),
    stressor!("epoll", "--epoll", "1", "--epoll-ops", "2000"),
    stressor!("matrix", "--matrix", "2", "--matrix-ops", "200"),
    stressor!("cpu", "--cpu", "2", "--cpu-ops", "100"),
    stressor!("vecmath", "--vecmath", "2", "--vecmath-ops", "100"),
    stressor!(
        "x86syscall",
        "--x86syscall",
        "1",
        "--x86syscall-ops",
        "20000"
    ),
    stressor!("icache", "--icache", "1", "--icache-ops", "200"),
    stressor!(
        "rdrand-tsc",
        "--rdrand",
        "1",
        "--rdrand-ops",
        "50",
        "--tsc",
        "1",
        "--tsc-ops",
        "100"
    ),
];
