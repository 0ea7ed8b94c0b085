//! Persistent files at unusual paths, and what else of the machine recovery sees.

use std::net::TcpListener;
use std::path::PathBuf;

use brownout_recovery::{End, Isolation, Refusal, Sandbox, SandboxError};

use crate::*;

#[test]
fn paths_may_contain_special_characters_of_shells_and_mounts() {
    let fixture = Fixture::set_up();
    let names = [
        "with space",
        "a,b:c\\d",
        "it's $HOME \"x\" *",
        "{pm}",
        "ünï",
    ];
    let files: Vec<PathBuf> = names
        .iter()
        .map(|name| fixture.path().join(name).join(name))
        .collect();
    for file in &files[1..] {
        std::fs::create_dir(file.parent().unwrap()).unwrap();
        std::fs::write(file, ORIGINAL).unwrap();
    }
    let recovery = fixture.recovery("cat {pm} {pm:2} {pm:3} {pm:4} {pm:5} | tr -d '\\n'");
    let mut sandbox = Sandbox::start(&sandbox_server(), &recovery, &files).unwrap();
    let outcome = run(&mut sandbox);
    assert_eq!(
        text(&outcome.stdout),
        IMAGE.repeat(5),
        "{}",
        text(&outcome.stderr)
    );
    assert_eq!(std::fs::read_to_string(&files[4]).unwrap(), ORIGINAL);
}

#[test]
fn a_file_behind_symbolic_links_is_replaced_at_its_real_path() {
    if !layers_are_possible() {
        return;
    }
    let fixture = Fixture::set_up();
    let elsewhere = Fixture::set_up();
    std::os::unix::fs::symlink(elsewhere.path(), fixture.path().join("directory")).unwrap();
    std::os::unix::fs::symlink("directory/pool", fixture.path().join("link")).unwrap();
    let recovery = fixture.recovery("cat link directory/pool; rm directory/pool");
    let files = [fixture.path().join("link")];
    let mut sandbox = Sandbox::start(&sandbox_server(), &recovery, &files).unwrap();
    for _ in 0..2 {
        assert_eq!(text(&run(&mut sandbox).stdout), IMAGE.repeat(2));
    }
    elsewhere.assert_untouched();
}

#[test]
fn hundreds_of_files_are_possible() {
    let fixture = Fixture::set_up();
    let files: Vec<PathBuf> = (0..300)
        .map(|number| fixture.path().join(format!("part{number}")))
        .collect();
    let recovery = fixture.recovery("cat {pm} {pm:150} {pm:300}; rm {pm:200} {pm:299}");
    let mut sandbox = Sandbox::start(&sandbox_server(), &recovery, &files).unwrap();
    for round in 0..2 {
        for (number, file) in sandbox.files().unwrap().iter().enumerate() {
            write(file, &format!("<{number}>"));
        }
        let outcome = sandbox.run(&quick()).unwrap();
        assert_eq!(text(&outcome.stdout), "<0><149><299>", "round {round}");
    }
}

#[test]
fn a_huge_sparse_file_costs_nothing() {
    let fixture = Fixture::set_up();
    let mut sandbox = fixture.sandbox("stat -c %s {pm}");
    let size = 1_u64 << 40;
    sandbox.files().unwrap()[0].set_len(size).unwrap();
    let outcome = sandbox.run(&quick()).unwrap();
    assert_eq!(text(&outcome.stdout).trim(), size.to_string());
}

#[test]
fn a_file_in_shared_memory_or_in_the_root_directory() {
    if !layers_are_possible() {
        return;
    }
    let fixture = Fixture::set_up();
    let name = format!("brownout-test-{}", std::process::id());
    for isolation in [Isolation::Layered, Isolation::ReadOnly] {
        for directory in ["/dev/shm", "/", "/brownout-no-such-directory/x"] {
            let file = PathBuf::from(directory).join(&name);
            let recovery = fixture.recovery("cat {pm}; rm {pm}; echo new > {pm}");
            let server = sandbox_server().at_most(isolation);
            let mut sandbox =
                Sandbox::start(&server, &recovery, std::slice::from_ref(&file)).unwrap();
            for _ in 0..2 {
                let outcome = run(&mut sandbox);
                assert_eq!(outcome.end, End::Exited(0), "{}", text(&outcome.stderr));
                assert_eq!(text(&outcome.stdout), IMAGE);
            }
            assert!(!file.exists());
        }
    }
}

#[test]
fn a_file_among_devices_is_refused() {
    if !layers_are_possible() {
        return;
    }
    let fixture = Fixture::set_up();
    for path in ["/proc/pool", "/sys/pool", "/dev/pool"] {
        let files = [PathBuf::from(path)];
        let error =
            Sandbox::start(&sandbox_server(), &fixture.recovery("true"), &files).unwrap_err();
        let is_refusal = matches!(&error, SandboxError::Refused(Refusal::KernelFileSystem { path }) if *path == files[0]);
        assert!(is_refusal, "{error}");
    }
}

#[test]
fn the_network_can_be_used_only_if_allowed() {
    if !layers_are_possible() {
        return;
    }
    let fixture = Fixture::set_up();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!(":{:04X} ", listener.local_addr().unwrap().port());
    for network in [false, true] {
        let mut recovery = fixture.recovery(&format!("grep -q '{port}' /proc/net/tcp"));
        recovery.network = network;
        let mut sandbox = Sandbox::start(&sandbox_server(), &recovery, &fixture.files()).unwrap();
        assert_eq!(run(&mut sandbox).end, End::Exited(i32::from(!network)));
    }
}

#[test]
fn recovery_runs_as_the_user_and_may_create_namespaces() {
    if !layers_are_possible() {
        return;
    }
    let fixture = Fixture::set_up();
    let mut sandbox = fixture.sandbox("id -u; id -g; touch new && stat -c %u new");
    let (user, group) = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    assert_eq!(
        text(&run(&mut sandbox).stdout),
        format!("{user}\n{group}\n{user}\n")
    );
    let is_possible = std::process::Command::new("unshare")
        .args(["-U", "true"])
        .status()
        .unwrap()
        .success();
    let outcome = run(&mut fixture.sandbox("unshare -U true"));
    assert_eq!(
        outcome.end == End::Exited(0),
        is_possible,
        "{}",
        text(&outcome.stderr)
    );
}
