//! Which findings suppressions match in both formats, and that hostile input does not panic.

use proptest::prelude::*;

use super::*;
use crate::samples::{FENCE_RULE, FLUSH_RULE, finding, frame, stack};
use crate::{Evidence, Finding};

/// The reason for which a file with this name and text suppresses `finding()`.
fn reason(file: &str, text: &str) -> Option<String> {
    reason_for(&finding(), file, text)
}

fn reason_for(finding: &Finding, file: &str, text: &str) -> Option<String> {
    let mut suppressions = Suppressions::default();
    suppressions.add(Path::new(file), text).unwrap();
    suppressions.reason_for(finding, &sources())
}

/// Every file has ten lines; the second and the eighth have the same text.
fn sources() -> Sources {
    Sources::from_fn(|_| {
        let lines = (1..=10).map(|line| match line {
            2 | 8 => "\tagain(  x );\n".to_owned(),
            _ => format!("    line({line});\n"),
        });
        Ok(lines.collect())
    })
}

fn toml(body: &str) -> Option<String> {
    reason(
        "s.toml",
        &format!("[[suppression]]\nreason = \"r\"\n{body}"),
    )
}

fn valgrind(body: &str) -> Option<String> {
    reason("s.supp", &format!("{{\n r\n {body}\n}}\n"))
}

fn error(file: &str, text: &str) -> String {
    let mut suppressions = Suppressions::default();
    suppressions
        .add(Path::new(file), text)
        .unwrap_err()
        .to_string()
}

#[test]
fn functions_match_in_every_spelling() {
    let mut cpp = finding();
    cpp.stacks[0].frames[0].function = Some("kv::Log<long>::put(long)".into());
    for name in ["_ZN2kv3LogIlE3putEl", "kv::Log::put", "put", "kv::*"] {
        let suppression = format!("[[suppression]]\nrule = '*'\nreason = 'r'\nfunction = '{name}'");
        assert!(reason_for(&cpp, "s.toml", &suppression).is_some(), "{name}");
        let suppression = format!("{{\n r\n Brownout:*\n fun:{name}\n}}\n");
        assert!(reason_for(&cpp, "s.supp", &suppression).is_some(), "{name}");
    }
}

#[test]
fn toml_by_rule_function_file_and_module() {
    let matched = Some("r".to_owned());
    assert_eq!(toml("rule = 'missing-flush'"), matched);
    assert_eq!(toml("rule = 'missing-*'\nfunction = 'ma?n'"), matched);
    assert_eq!(toml("rule = '*'\nfile = 'kv.c'\nmodule = 'kv'"), matched);
    assert_eq!(toml("rule = 'missing-fence'"), None);
    assert_eq!(toml("rule = '*'\nfunction = 'get'"), None);
    assert_eq!(toml("rule = '*'\nfile = 'kv.h'"), None);
    assert_eq!(toml("rule = '*'\nmodule = 'libkv.so'"), None);
}

#[test]
fn function_file_and_module_must_match_one_frame() {
    let frames = vec![frame("put", "kv.c", 7), frame("main", "main.c", 9)];
    let finding = Finding::new(
        &FLUSH_RULE,
        "m",
        vec![stack("store", frames)],
        Evidence::default(),
    );
    let text = |file| {
        format!("[[suppression]]\nreason = 'r'\nrule = '*'\nfunction = 'put'\nfile = '{file}'")
    };
    assert!(reason_for(&finding, "s.toml", &text("kv.c")).is_some());
    assert!(reason_for(&finding, "s.toml", &text("main.c")).is_none());
}

#[test]
fn toml_by_stack() {
    assert!(toml("rule = '*'\nstack = ['put', 'main']").is_some());
    assert!(toml("rule = '*'\nstack = ['put']").is_some());
    assert!(toml("rule = '*'\nstack = ['...', 'main']").is_some());
    assert!(toml("rule = '*'\nstack = ['*', 'm*']").is_some());
    assert!(toml("rule = '*'\nstack = ['main']").is_none());
    assert!(toml("rule = '*'\nstack = ['put', 'main', '*']").is_none());
}

#[test]
fn the_first_stack_is_matched_unless_a_role_is_given() {
    let stacks = vec![
        stack("flush", vec![frame("sync", "kv.c", 3)]),
        stack("store", vec![frame("put", "kv.c", 7)]),
    ];
    let finding = Finding::new(&FENCE_RULE, "m", stacks, Evidence::default());
    let text = |more| format!("[[suppression]]\nreason = 'r'\nrule = '*'\n{more}");
    let matches = |more| reason_for(&finding, "s.toml", &text(more)).is_some();
    assert!(matches("function = 'sync'"));
    assert!(!matches("function = 'put'"));
    assert!(matches("function = 'put'\nrole = 'store'"));
    assert!(!matches("function = 'put'\nrole = 'fence'"));
}

#[test]
fn valgrind_format() {
    assert_eq!(valgrind("Brownout:missing-flush"), Some("r".into()));
    assert!(valgrind("Memcheck,brownout:missing-*\nfun:put\nfun:main").is_some());
    assert!(valgrind("Brownout:*\n...\nfun:main").is_some());
    assert!(valgrind("Brownout:*\nobj:*/kv").is_some());
    assert!(valgrind("Brownout:*\nsrc:kv.c:7\nsrc:kv.c").is_some());
    assert!(valgrind("Brownout:*\nsrc:kv.c:8").is_none());
    assert!(valgrind("Brownout:*\nfun:main").is_none());
    assert!(valgrind("Memcheck:missing-flush\nfun:put").is_none());
}

#[test]
fn suppressions_of_other_tools_are_ignored() {
    let leak = "Memcheck:Leak\nmatch-leak-kinds: reachable\nfun:malloc";
    assert_eq!(valgrind(leak), None);
}

#[test]
fn errors_have_line_numbers() {
    let cases = [
        (
            "s.toml",
            "\n[[suppression]]\nrule = 'r'\n",
            "line 2: missing field `reason`",
        ),
        (
            "s.toml",
            "[[suppression]]\nrule = 'r'\nreason = ' '\n",
            "line 1: the reason is empty",
        ),
        (
            "s.toml",
            "[[suppression]]\nrule = 'r'\nreason = 'x'\nfunc = 'f'\n",
            "line 4: unknown field `func`",
        ),
        (
            "s.toml",
            "[[suppression]]\nrule = 'r'\nreason = 'x'\nstack = []\nfile = 'f'\n",
            "line 1: `stack` cannot be combined",
        ),
        ("s.toml", "[[suppression", "line 1: "),
        ("s.supp", "# c\nname\n", "line 2: expected `{`"),
        (
            "s.supp",
            "{\nname\nBrownout:x\n",
            "line 1: missing `}` at the end of the suppression",
        ),
        ("s.supp", "{\n}\n", "line 1: the suppression has no name"),
        ("s.supp", "{\nname\n}\n", "line 1: expected `Tool:Kind`"),
        (
            "s.supp",
            "{\nname\nBrownout\n}\n",
            "line 3: expected `Tool:Kind`",
        ),
        (
            "s.supp",
            "{\nname\nBrownout:x\nput\n}\n",
            "line 4: expected `fun:`",
        ),
        (
            "s.supp",
            "{\nname\nBrownout:x\nobj:\n}\n",
            "line 4: expected a pattern after `obj:`",
        ),
    ];
    for (file, text, expected) in cases {
        let error = error(file, text);
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}

#[test]
fn unused_suppressions_are_listed() {
    let text = "\
[[suppression]]
rule = 'missing-flush'
reason = 'used'

[[suppression]]
rule = 'no-such-rule'
reason = 'stale'
";
    let mut suppressions = Suppressions::default();
    suppressions.add(Path::new("s.toml"), text).unwrap();
    suppressions.reason_for(&finding(), &sources());
    let unused: Vec<_> = suppressions.unused().collect();
    assert_eq!(unused.len(), 1);
    assert_eq!((unused[0].origin.line, unused[0].reason), (5, "stale"));
}

#[test]
fn generated_suppressions_match_on_other_machines() {
    let memcpy = |name: &str| {
        let mut finding = finding();
        let mut frame = frame(name, "./string/memmove.S", 3);
        frame.module = "/lib/libc.so.6".into();
        finding.stacks[0].frames.insert(0, frame);
        finding
    };
    let text = suppressions_for([&memcpy("__memmove_avx_unaligned")], &sources());
    assert!(text.contains("stack = [\"...\", \"put\"]\n"), "{text}");
    assert!(reason_for(&memcpy("memcpy"), "s.toml", &text).is_some());
}

#[test]
fn generated_suppressions_match_their_findings() {
    let mut odd = finding();
    odd.stacks[0].frames[0].function = Some("<[T] as \"Store\">::put::{{closure}}\u{7}\\".into());
    odd.message = "two\nlines".into();
    let mut nameless = finding();
    nameless.stacks[0].frames[0].function = None;
    for finding in [finding(), odd, nameless] {
        let text = suppressions_for([&finding, &finding], &sources());
        assert_eq!(text.matches("[[suppression]]").count(), 1, "{text}");
        assert!(reason_for(&finding, "s.toml", &text).is_some(), "{text}");
        let mut other = finding.clone();
        other.stacks[0].frames[0].line = Some(3);
        assert!(reason_for(&other, "s.toml", &text).is_none(), "{text}");
        let mut other_caller = finding.clone();
        other_caller.stacks[0].frames[1].function = Some("elsewhere".into());
        assert!(reason_for(&other_caller, "s.toml", &text).is_some());
    }
}

#[test]
fn generated_suppressions_distinguish_lines_with_the_same_text() {
    let at = |line| {
        let mut finding = finding();
        finding.stacks[0].frames[0].line = Some(line);
        finding
    };
    let text = suppressions_for([&at(8)], &sources());
    assert!(
        text.contains("source = \"again( x );\"\noccurrence = 2\n"),
        "{text}"
    );
    assert!(reason_for(&at(8), "s.toml", &text).is_some());
    assert!(reason_for(&at(2), "s.toml", &text).is_none());
    let text = suppressions_for([&at(2)], &sources());
    assert!(!text.contains("occurrence"), "{text}");
    assert!(reason_for(&at(2), "s.toml", &text).is_some());
    assert!(reason_for(&at(8), "s.toml", &text).is_none());
}

#[test]
fn without_source_text_lines_and_offsets_are_used() {
    let mut numbered = finding();
    numbered.stacks[0].frames[0].line = Some(77);
    let text = suppressions_for([&numbered], &sources());
    assert!(text.contains("line = 77\n"), "{text}");
    let mut bare = finding();
    for frame in &mut bare.stacks[0].frames {
        (frame.file, frame.line, frame.column) = (None, None, None);
    }
    bare.stacks[0].frames[0].offset = 0x1234;
    let text = suppressions_for([&bare], &sources());
    assert!(text.contains("offset = 0x1234\n"), "{text}");
    assert!(reason_for(&bare, "s.toml", &text).is_some());
    bare.stacks[0].frames[0].offset = 0x1238;
    assert!(reason_for(&bare, "s.toml", &text).is_none());
}

#[test]
fn a_statement_needs_a_function() {
    for body in [
        "stack = ['put', '...']\nsource = 'x'",
        "stack = []\nline = 3",
    ] {
        let text = format!("[[suppression]]\nreason = 'r'\nrule = '*'\n{body}");
        assert!(error("s.toml", &text).contains("need a function"), "{body}");
    }
    for body in ["occurrence = 2", "source = 'x'\noccurrence = 0"] {
        let text = format!("[[suppression]]\nreason = 'r'\nrule = '*'\n{body}");
        assert!(
            error("s.toml", &text).contains("`occurrence` needs"),
            "{body}"
        );
    }
}

#[test]
fn rules_that_do_not_exist_are_found() {
    let unknown = |rule: &str| {
        let mut suppressions = Suppressions::default();
        let text = format!("[[suppression]]\nreason = 'r'\nrule = '{rule}'");
        suppressions.add(Path::new("s.toml"), &text).unwrap();
        let found = suppressions.without_rule(&["missing-flush", "missing-fence"]);
        found.map(|(origin, rule)| (origin.line, rule.to_owned()))
    };
    assert_eq!(unknown("missing-*"), None);
    assert_eq!(unknown("missing-fence"), None);
    assert_eq!(
        unknown("mising-fence"),
        Some((1, "mising-fence".to_owned()))
    );
    assert_eq!(unknown("redundant-*"), Some((1, "redundant-*".to_owned())));
}

proptest! {
    #[test]
    fn hostile_input_never_panics(text in "\\PC*|([{}\\n. :#]|fun|obj|src|Brownout|x|=|\\[\\[suppression\\]\\]|'){0,40}") {
        for file in ["s.supp", "s.toml"] {
            let mut suppressions = Suppressions::default();
            if suppressions.add(Path::new(file), &text).is_ok() {
                suppressions.reason_for(&finding(), &sources());
            }
        }
    }

    #[test]
    fn hostile_blocks_never_panic(lines in proptest::collection::vec("(fun|obj|src|):[*?a:0-9]{0,5}|\\.\\.\\.|", 0..12)) {
        let text = format!("{{\nr\nBrownout:*\n{}\n}}", lines.join("\n"));
        let mut suppressions = Suppressions::default();
        if suppressions.add(Path::new("s.supp"), &text).is_ok() {
            suppressions.reason_for(&finding(), &sources());
        }
    }
}
