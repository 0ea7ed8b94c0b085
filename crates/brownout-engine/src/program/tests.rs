//! Which programs are found, and the messages for those that are rejected.

use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn write(path: &Path, bytes: &[u8], mode: u32) -> OsString {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    path.into()
}

/// The reasons why `command` cannot be run, outermost first.
fn refusal(command: OsString) -> String {
    let error = Program::find(&[command]).unwrap_err();
    let mut sentence = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        sentence = format!("{sentence}: {error}");
        cause = error.source();
    }
    sentence
}

fn elf(class: u8, machine: u8) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1]);
    bytes[16] = 2;
    bytes[18] = machine;
    bytes
}

#[test]
fn a_name_is_looked_up_in_path_and_kept_as_typed() {
    let program = Program::find(&["sh".into(), "-c".into(), ":".into()]).unwrap();
    assert!(
        program.path.ends_with("sh") && program.path.is_absolute(),
        "{:?}",
        program.path
    );
    assert_eq!(program.arguments, [c"sh", c"-c", c":"].map(CString::from));
}

#[test]
fn an_empty_element_of_path_is_the_current_directory() {
    let found = look_up(
        OsStr::new("Cargo.toml"),
        Some(OsStr::new("/nonexistent::/bin")),
    );
    // The file exists but is not executable.
    assert!(matches!(
        found,
        Err(ProgramError::NotAccessible { path, .. }) if path == Path::new("./Cargo.toml")
    ));
}

#[test]
fn missing_programs_and_directories_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let in_directory = |name: &str| directory.path().join(name);
    assert!(refusal("no-such-program-anywhere".into()).contains("no such program in PATH"));
    assert!(refusal(in_directory("missing").into()).contains("No such file"));
    assert!(refusal(directory.path().into()).contains("is a directory"));
    let plain = write(&in_directory("plain"), b"#!/bin/sh\n", 0o644);
    assert!(refusal(plain).contains("Permission denied"));
    assert!(refusal(OsString::new()).contains("no program"));
}

#[test]
fn programs_for_other_machines_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let program = |name: &str, bytes: &[u8]| write(&directory.path().join(name), bytes, 0o755);
    assert!(refusal(program("old", &elf(1, 3))).contains("32-bit"));
    assert!(refusal(program("arm", &elf(2, 183))).contains("ELF machine 183"));
    assert!(refusal(program("cut", &elf(2, 62)[..20])).contains("is not an executable program"));
    assert!(refusal(program("data", b"MZ\0\0")).contains("is not an executable program"));
}

#[test]
fn scripts_need_their_interpreter() {
    let directory = tempfile::tempdir().unwrap();
    let script =
        |name: &str, text: &str| write(&directory.path().join(name), text.as_bytes(), 0o755);
    assert!(Program::find(&[script("good", "#! /bin/sh -e\n")]).is_ok());
    let missing = refusal(script("bad", "#!/no/such/interpreter\n"));
    assert!(
        missing.contains("needs /no/such/interpreter to run"),
        "{missing}"
    );
    let own = directory.path().join("loop");
    let looping = refusal(script("loop", &format!("#!{}\n", own.display())));
    assert!(looping.contains("chain of interpreters"), "{looping}");
}

#[test]
fn a_script_that_names_no_interpreter_is_run_by_the_shell() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("script");
    let script = write(&path, b"echo $1\n", 0o755);
    let program = Program::find(&[script, "x".into()]).unwrap();
    assert_eq!(program.path, Path::new("/bin/sh"));
    let path = CString::new(path.into_os_string().into_vec()).unwrap();
    assert_eq!(
        program.arguments,
        [CString::from(c"/bin/sh"), path, c"x".into()]
    );
}

#[test]
fn an_argument_with_a_nul_is_rejected() {
    assert!(matches!(
        Program::find(&["sh".into(), "a\0b".into()]),
        Err(ProgramError::Nul)
    ));
}
