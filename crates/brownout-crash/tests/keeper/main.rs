//! The keeper of recoveries on its own, as the tests need it.
//!
//! `keep-recovery` keeps; `keep-recovery ISOLATION DIRECTORY COMMAND` is a caller that has one kept, for being killed.

use std::path::Path;
use std::time::Duration;

use brownout_crash::recovery::{Isolation, KeeperCommand, Recovery, Run, Sandbox, serve};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [isolation, directory, command] => call(isolation, Path::new(directory), command),
        _ => serve(),
    }
}

fn call(isolation: &str, directory: &Path, command: &str) {
    let isolation = match isolation {
        "directory" => Isolation::Directory,
        _ => Isolation::Layered,
    };
    let program = std::env::current_exe().expect("this program has a path");
    let keeper = KeeperCommand::new(program, &[]).at_most(isolation);
    let recovery = Recovery::new(command, directory);
    let mut sandbox =
        Sandbox::start(&keeper, &recovery, &[directory.join("pool")]).expect("a sandbox");
    loop {
        let outcome = sandbox
            .run(&Run::new(Duration::from_secs(1)))
            .expect("a run");
        println!("{:?}", outcome.end);
    }
}
