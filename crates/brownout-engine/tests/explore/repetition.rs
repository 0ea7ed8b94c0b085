//! What makes runs alike, and what is left that differs.

use brownout_engine::OtherInput;

use crate::fixture::{Recovery, exited, words};

#[test]
fn all_copies_of_a_process_take_the_same_id_for_their_own() {
    let recovery = Recovery::new(
        "int a = pool[0]; printf(\"%d %d\\n\", getpid(), gettid()); fflush(stdout);
         return kill(getpid(), 0) + a;",
    );
    let ends = recovery.explore(&[(0, 8)], |_| words(&[1, 2, 3]));
    let seen: Vec<_> = ends.iter().map(|end| end.end).collect();
    assert_eq!(seen, [1, 2, 3].map(exited));
    assert!(
        ends.iter()
            .all(|end| end.output_of(1) == ends[0].output_of(1))
    );
}

#[test]
fn random_bytes_of_the_system_are_the_same_in_each_run() {
    let recovery = Recovery::new(
        "unsigned char *bytes = (void *)getauxval(AT_RANDOM);
         for (int at = 0; at < 16; at++) printf(\"%02x\", bytes[at]);
         puts(\"\"); return pool[0];",
    );
    let [first, second] = [(); 2].map(|()| {
        let ends = recovery.explore(&[(0, 8)], |_| words(&[1]));
        ends[0].output_of(1)
    });
    assert_eq!(first, second);
    assert_eq!(first.len(), 33);
}

#[test]
fn clocks_and_random_numbers_are_reported() {
    let used = |statements: &str| {
        let recovery = Recovery::new(&format!("{statements} return pool[0];"));
        recovery.start(&[(0, 8)]).0.other_inputs()
    };
    // Tests are not in a pid namespace of their own.
    let ids = OtherInput::ProcessIds;
    assert_eq!(used("free(malloc(100));"), [ids]);
    assert_eq!(used("if (time(0) == 0) return 1;"), [OtherInput::Time, ids]);
    let random = "char byte; getrandom(&byte, 1, 0);";
    assert_eq!(used(random), [OtherInput::RandomNumbers, ids]);
    let device = "if (open(\"/dev/urandom\", O_RDONLY) < 0) return 1;";
    assert_eq!(used(device), [OtherInput::RandomNumbers, ids]);
}

#[test]
fn files_that_are_not_of_the_system_are_reported() {
    let used = |statements: &str| {
        let recovery = Recovery::new(&format!("{statements} return pool[0];"));
        recovery.start(&[(0, 8)]).0.other_inputs()
    };
    let ids = OtherInput::ProcessIds;
    assert_eq!(used("open(\"/etc/passwd\", O_RDONLY);"), [ids]);
    let files = OtherInput::OtherFiles;
    assert_eq!(used("open(\"/nowhere\", O_RDONLY);"), [files, ids]);
    assert_eq!(used("access(\"expected\", R_OK);"), [files, ids]);
}
