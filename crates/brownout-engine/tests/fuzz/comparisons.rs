//! The operands of comparisons.

use crate::fixture::Target;
use brownout_engine::fuzz::Comparison;

const MAGIC: &str = "
  open_pool(argv[1]);
  char text[16] = {0}; read(0, text, sizeof text);
  uint32_t word; memcpy(&word, text, 4);
  if (word != 0xcafe1234) return 1;
  if (memcmp(text + 4, \"password\", argc + 6)) return 2;
  return 0;
";

fn comparisons(captures: bool, input: &[u8]) -> Vec<Comparison> {
    let mut target = Target::new("", MAGIC);
    target.options.comparisons = captures;
    let mut server = target.start();
    server.execute(input).unwrap().comparisons()
}

#[test]
fn a_value_that_is_compared_with_the_input_is_captured() {
    let found = comparisons(true, b"abcdxxxxxxxx");
    let magic = 0xcafe_1234_u32.to_le_bytes();
    let compares = |one: &Comparison| {
        let operands = [&one.left[..], &one.right[..]];
        !one.is_call && operands.contains(&&b"abcd"[..]) && operands.contains(&&magic[..])
    };
    assert!(found.iter().any(compares), "{found:?}");
}

#[test]
fn text_that_a_call_compares_is_captured() {
    let found = comparisons(true, b"\x34\x12\xfe\xcaPASSWORD");
    let compares = |one: &Comparison| {
        let starts = |text: &[u8]| one.left.starts_with(text) || one.right.starts_with(text);
        one.is_call && starts(b"PASSWORD") && starts(b"password")
    };
    assert!(found.iter().any(compares), "{found:?}");
}

#[test]
fn comparisons_are_captured_only_if_asked_for() {
    assert_eq!(comparisons(false, b"abcd"), []);
}
