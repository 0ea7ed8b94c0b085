//! Which inputs are generated and kept.

use super::*;

#[test]
fn values_that_the_program_compares_are_put_into_the_input() {
    let dir = TestDir::with("fuzz/magic.c", &["-g"]);
    dir.write_seeds(&["hello\n"]);
    let found = dir.fuzz_with(&[], &["./magic", "pool"], |found| {
        of_rule(found, "target-crashed").is_some()
    });
    let crash = of_rule(&found, "target-crashed").unwrap();
    let input = dir.path(&format!("brownout.out/{}", detail(crash, "input")));
    let input = std::fs::read(input).unwrap();
    let magic = [
        &0xdead_c0de_u32.to_le_bytes()[..],
        &0x1122_3344_5566_7788_u64.to_le_bytes(),
    ];
    assert!(input.starts_with(&magic.concat()), "{input:x?}");
    // The seed is kept, although a shorter input takes the same path through persistent memory.
    let corpus = std::fs::read_dir(dir.path("brownout.out/corpus")).unwrap();
    let mut inputs = corpus.map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    assert!(inputs.any(|input| input == b"hello\n"));
}
