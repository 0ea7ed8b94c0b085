//! Shells: pipelines, job control, traps, substitutions, scripts with `#!`.

use super::super::case::{Case, argv, sh};
use crate::compare::Normaliser::SortLines;
use crate::test_directory::End;

pub const CASES: &[Case] = &[
    argv("true", &["true"]).core(),
    argv("false", &["false"]).ends(End::Exit(1)).core(),
    argv("missing-file", &["cat", "no-such-file"]).ends(End::Exit(1)).with_stderr().core(),
    sh("dash-pipeline", "seq 1 2000 | sort -rn | head -n 20 | tr '\\n' ' '").core(),
    sh("dash-exit-status", "(exit 42)").ends(End::Exit(42)).core(),
    sh("dash-killed-child", "sh -c 'kill -TERM $$'; echo $?; sh -c 'kill -KILL $$'; echo $?").core(),
    sh("dash-here-document", "cat <<EOF | wc -l\n$(seq 1 100)\nEOF\n").core(),
    sh("dash-trap", "trap 'echo trapped' TERM; kill -TERM $$; echo after; trap 'echo bye' EXIT").core(),
    sh("dash-background-wait", "for i in 1 2 3 4; do (sleep 0.0$i; echo $i; exit $i) & done; wait; echo status $?").normalise(&[SortLines]).core(),
    argv("bash-arithmetic", &["bash", "-c", "s=0; for ((i=0;i<20000;i++)); do ((s+=i*i%7)); done; echo $s"]).core(),
    argv("bash-arrays", &["bash", "-c", "declare -A m; for w in a b c a b a; do ((m[$w]++)); done; for k in a b c; do echo $k ${m[$k]}; done"]).core(),
    argv("bash-process-substitution", &["bash", "-c", "diff <(seq 1 50) <(seq 2 51); paste <(seq 3) <(seq 4 6)"])
        .core(),
    argv("bash-pipestatus", &["bash", "-c", "true | false | (exit 7) | cat; echo ${PIPESTATUS[@]}"]).core(),
    argv("bash-coproc", &["bash", "-c", "coproc bc -l; echo '2^64' >&${COPROC[1]}; read -r x <&${COPROC[0]}; echo $x"])
        .needs(&["bc"]),
    argv("bash-trap-signals", &["bash", "-c", "n=0; trap '((n++))' USR1; for i in 1 2 3 4 5; do kill -USR1 $$; done; echo $n; trap 'echo chld' CHLD; sleep 0.01; echo done"]).core(),
    argv("bash-many-subshells", &["bash", "-c", "for i in $(seq 200); do x=$(echo $i); done; echo $x"]).core(),
    argv("bash-killed-by-signal", &["bash", "-c", "kill -SEGV $$"]).ends(End::Signal(11)).core(),
    argv("bash-read-stdin", &["bash", "-c", "while read -r line; do echo \"<$line>\"; done"])
        .stdin("one\ntwo three\n\nlast\n")
        .core(),
    argv("bash-ulimit", &["bash", "-c", "ulimit -n 64; ulimit -n; exec 50</dev/null; ls -1 /proc/self/fd | wc -l"]).core(),
    sh("script-with-interpreter", "./script one 'two three'")
        .setup("printf '#!/bin/sh -u\\necho \"$0\" \"$#\" \"$2\"\\n' >script; chmod +x script")
        .core(),
    sh("script-with-env", "./script x; echo $?")
        .setup("printf '#!/usr/bin/env perl\\nprint \"@ARGV $0\\\\n\"; exit 9;\\n' >script; chmod +x script")
        .needs(&["perl"])
        .core(),
    sh("script-of-script", "./outer a b")
        .setup("printf '#!/bin/sh\\necho inner \"$@\"\\n' >inner; printf '#!./inner arg\\n' >outer; chmod +x inner outer")
        .core(),
    sh("exec-not-permitted", "./plain").setup("echo hi >plain").ends(End::Exit(126)).core(),
    sh("exec-not-found", "./nowhere").ends(End::Exit(127)).core(),
    argv("zsh-globbing", &["zsh", "-c", "touch a{1..9}.txt b.c; print -l *.txt(On) | head -3; print ${(j:,:)${(s: :)$(echo x y z)}}"])
        .needs(&["zsh"]),
    argv("env-cleared", &["env", "-i", "A=1", "/usr/bin/env"]).core(),
    sh("xargs-parallel", "seq 1 60 | xargs -P 4 -n 5 sh -c 'echo $(($# + $1))' x | sort -n | uniq -c").core(),
    sh("timeout-kills", "timeout 0.2 sleep 30; echo $?; timeout -s KILL 0.2 sleep 30; echo $?").core(),
    sh("nohup-setsid", "setsid -w sh -c 'exit 3'; echo $?; nohup sh -c 'echo x' </dev/null 2>/dev/null").core(),
];
