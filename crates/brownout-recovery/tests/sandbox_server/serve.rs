//! The sandbox server as a program of its own, for the tests.
//!
//! `serve-sandbox` is a server. `serve-sandbox ISOLATION DIRECTORY COMMAND` is a caller that runs a recovery in a loop until it is
//! killed. `serve-sandbox terminal DIRECTORY COMMAND` is a caller that hands its terminal to the recovery.

use std::path::Path;
use std::time::Duration;

use brownout_recovery::{Isolation, Recovery, RunRequest, Sandbox, SandboxServerCommand, serve};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [mode, directory, command] if mode != "engine-host" => {
            call(mode, Path::new(directory), command)
        }
        _ => serve(&std::env::args_os().skip(1).collect::<Vec<_>>()),
    }
}

fn call(mode: &str, directory: &Path, command: &str) {
    let isolation = match mode {
        "directory" => Isolation::Directory,
        _ => Isolation::Layered,
    };
    let program = std::env::current_exe().expect("this program has a path");
    let server = SandboxServerCommand::new(program, &[]).at_most(isolation);
    let recovery = Recovery::new(command, directory);
    let mut sandbox =
        Sandbox::start(&server, &recovery, &[directory.join("pool")]).expect("a sandbox");
    if mode == "terminal" {
        let mut run = RunRequest::new(Duration::ZERO);
        run.interactive = true;
        println!("{:?}", sandbox.run(&run).expect("a run").end);
        return;
    }
    loop {
        let outcome = sandbox
            .run(&RunRequest::new(Duration::from_secs(1)))
            .expect("a run");
        println!("{:?}", outcome.end);
    }
}
