//! A recovery that uses the terminal, as a debugger does.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use crate::*;

#[test]
fn it_reads_input_and_is_interrupted_by_a_key() {
    let fixture = Fixture::set_up();
    // In the background it would be stopped when it reads, and would never get the key.
    let command = "trap 'echo interrupted; exit 7' INT; test -t 0 && test -t 1 && echo begun {pm}; \
                   read line; echo got $line; while :; do sleep 0.01; done";
    let caller = shell_words::join([
        env!("CARGO_BIN_EXE_serve-sandbox"),
        "terminal",
        fixture.path().to_str().unwrap(),
        command,
    ]);
    let mut terminal = Command::new("script")
        .args(["-qec", &caller, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = terminal.stdin.take().unwrap();
    let mut output = terminal.stdout.take().unwrap();
    let mut seen = String::new();
    for (awaited, typed) in [
        ("begun", "words\n"),
        ("got words", "\x03"),
        ("Exited(7)", ""),
    ] {
        while !seen.contains(awaited) {
            let mut bytes = [0; 1024];
            let length = output.read(&mut bytes).unwrap();
            assert!(length > 0, "no {awaited} in {seen}");
            seen.push_str(&text(&bytes[..length]));
        }
        input.write_all(typed.as_bytes()).unwrap();
    }
    assert!(seen.contains("interrupted"));
    drop(input);
    terminal.wait().unwrap();
}
