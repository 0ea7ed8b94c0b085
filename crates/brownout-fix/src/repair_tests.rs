//! Repairs of statements, by example.

use super::*;
use crate::edit::{apply, in_order};
use crate::idiom::CallEffect;

struct Example<'a> {
    path: &'a str,
    text: &'a str,
    at: (u32, Option<u32>),
    operation: RepairOperation,
}

impl Example<'_> {
    fn repaired(
        &self,
        observe: impl FnOnce(&SourceTree, &mut Idioms),
    ) -> Result<String, RepairRefusal> {
        let source = SourceTree::new(self.path, self.text.to_owned())?;
        let mut idioms = Idioms::default();
        observe(&source, &mut idioms);
        let macros = MacroDefinitions::of(&source, &|_, _| None);
        let request = RepairRequest {
            source: &source,
            line: self.at.0,
            column: self.at.1,
            scope: RepairScope::Statement,
            operation: self.operation,
            one_line: true,
            is_dense: true,
            has_stores: &|_| true,
            syncs: false,
            macros: &macros,
            idioms: &idioms,
            called: &[],
            only_generic: false,
        };
        let repair = request.repair()?;
        Ok(apply(self.text, &in_order(repair.edits).unwrap()))
    }
}

#[test]
fn the_helper_of_the_program_is_used() {
    let text = "void persist(const void *p, size_t n);\nvoid f(struct s *s)\n{\n\ts->x = 1;\n\tpersist(s, 8);\n\ts->y++;\n}\n";
    let example = Example {
        path: "x.c",
        text,
        at: (6, None),
        operation: RepairOperation::FlushAndFence,
    };
    let repaired = example.repaired(|source, idioms| {
        idioms.observe(source, 5, Some(2), CallEffect::Flush);
        idioms.observe(source, 5, Some(2), CallEffect::Fence);
    });
    assert!(
        repaired
            .unwrap()
            .ends_with("\ts->y++;\n\tpersist(&s->y, sizeof(s->y));\n}\n")
    );
}

#[test]
fn libpmem_is_used_where_it_is_included() {
    let text = "#include <libpmem.h>\nvoid f(struct s *s)\n{\n\ts->x = 1;\n}\n";
    let code = |operation| {
        Example {
            path: "x.c",
            text,
            at: (4, None),
            operation,
        }
        .repaired(|_, _| ())
        .unwrap()
    };
    assert!(code(RepairOperation::Flush).contains("\tpmem_flush(&s->x, sizeof(s->x));\n"));
    assert!(
        code(RepairOperation::FlushAndFence).contains("\tpmem_persist(&s->x, sizeof(s->x));\n")
    );
    assert!(code(RepairOperation::Fence).contains("\tpmem_drain();\n"));
}

#[test]
fn a_file_without_an_idiom_gets_a_helper() {
    let text = "#include <stdio.h>\nvoid f(struct s *s)\n{\n\ts->x = 1;\n}\n";
    let example = Example {
        path: "x.c",
        text,
        at: (4, None),
        operation: RepairOperation::FlushAndFence,
    };
    let repaired = example.repaired(|_, _| ()).unwrap();
    assert!(
        repaired.contains("static inline void pm_write_back("),
        "{repaired}"
    );
    assert!(
        repaired.ends_with(
            "\ts->x = 1;\n\tpm_write_back(&s->x, sizeof(s->x));\n\t__builtin_ia32_sfence();\n}\n"
        ),
        "{repaired}"
    );
}

#[test]
fn an_address_with_an_effect_is_saved() {
    let text = "#include <libpmem.h>\nvoid f(int *p)\n{\n\t*p++ = 1;\n}\n";
    let example = Example {
        path: "x.c",
        text,
        at: (4, Some(7)),
        operation: RepairOperation::Flush,
    };
    let expected = "\t__typeof__(*p++) *pm_stored_4 = &(*p++);\n\t*pm_stored_4 = 1;\n\tpmem_flush(pm_stored_4, sizeof(*pm_stored_4));\n";
    let repaired = example.repaired(|_, _| ()).unwrap();
    assert!(repaired.contains(expected), "{repaired}");
}

#[test]
fn pools_are_named_or_found() {
    let text = "#include <libpmemobj.h>\nvoid f(PMEMobjpool *pop, struct s *s)\n{\n\ts->x = 1;\n}\nvoid g(struct s *s)\n{\n\ts->x = 1;\n}\n";
    let code = |line| {
        Example {
            path: "x.c",
            text,
            at: (line, None),
            operation: RepairOperation::FlushAndFence,
        }
        .repaired(|_, _| ())
        .unwrap()
    };
    assert!(code(4).contains("pmemobj_persist(pop, &s->x, sizeof(s->x));"));
    assert!(code(8).contains("pmemobj_persist(pmemobj_pool_by_ptr(&s->x), &s->x, sizeof(s->x));"));
}

#[test]
fn a_log_entry_comes_before_the_store() {
    let text = "#include <libpmemobj.h>\nvoid f(struct s *s)\n{\n\tif (s)\n\t\ts->x = 1;\n}\n";
    let example = Example {
        path: "x.c",
        text,
        at: (5, None),
        operation: RepairOperation::Log,
    };
    let expected =
        "\tif (s) {\n\t\tpmemobj_tx_add_range_direct(&s->x, sizeof(s->x));\n\t\ts->x = 1;\n\t}\n";
    let repaired = example.repaired(|_, _| ()).unwrap();
    assert!(repaired.contains(expected), "{repaired}");
}

#[test]
fn a_fence_can_follow_the_loop() {
    let text = "void f(char *p)\n{\n\tfor (int i = 0; i < 4; i++)\n\t\tclwb(p + i);\n}\n";
    let source = SourceTree::new("x.c", text.to_owned()).unwrap();
    let request = RepairRequest {
        source: &source,
        line: 4,
        column: None,
        scope: RepairScope::Loop,
        operation: RepairOperation::Fence,
        one_line: true,
        is_dense: true,
        has_stores: &|_| true,
        syncs: false,
        macros: &MacroDefinitions::default(),
        idioms: &Idioms::default(),
        called: &[],
        only_generic: false,
    };
    let repair = request.repair().unwrap();
    let repaired = apply(text, &in_order(repair.edits).unwrap());
    assert!(
        repaired.ends_with("\t\tclwb(p + i);\n\t__builtin_ia32_sfence();\n}\n"),
        "{repaired}"
    );
    assert_eq!((repair.span.start.0, repair.span.end.0), (3, 4));
}

#[test]
fn rust_is_repaired_in_its_own_terms() {
    let text =
        "unsafe fn persist(from: *const u8, len: usize) {}\nfn f(p: &mut S) {\n    p.x = 1;\n}\n";
    let example = Example {
        path: "x.rs",
        text,
        at: (3, None),
        operation: RepairOperation::FlushAndFence,
    };
    let repaired = example.repaired(|source, idioms| {
        let caller = SourceTree::new(
            "x.rs",
            format!(
                "{}fn g() {{ {UNSAFE} {{\n    persist(p, 8);\n}} }}\n",
                source.text
            ),
        )
        .unwrap();
        idioms.observe(&caller, 6, Some(5), CallEffect::Flush);
        idioms.observe(&caller, 6, Some(5), CallEffect::Fence);
    });
    let call = "persist((&raw const p.x).cast(), std::mem::size_of_val(&p.x))";
    let expected = format!("    {UNSAFE} {{ {call} }};\n");
    let repaired = repaired.unwrap();
    assert!(repaired.contains(&expected), "{repaired}");
}

/// The line that a repair of line 4 adds after it, if line 5 flushes and fences.
fn persisted(path: &str, helper: &str, function: &str, call: &str) -> String {
    let text = format!("{helper}\n{function}\n{{\ns.x = 1;\n{call}\n}}\n");
    let example = Example {
        path,
        text: &text,
        at: (4, Some(5)),
        operation: RepairOperation::FlushAndFence,
    };
    let repaired = example.repaired(|source, idioms| {
        idioms.observe(source, 5, Some(1), CallEffect::Flush);
        idioms.observe(source, 5, Some(1), CallEffect::Fence);
    });
    let repaired = repaired.unwrap();
    let mut lines = repaired.lines().skip_while(|line| *line != "s.x = 1;");
    lines.nth(1).unwrap_or_default().to_owned()
}

#[test]
fn a_helper_is_given_what_its_declaration_takes() {
    let reference = "template <class T> void persist(const T &t) {}";
    let code = persisted("x.cpp", reference, "void f(S &s)", "persist(s.y);");
    assert_eq!(code, "persist(s.x);");
    let inside = format!("namespace pm {{ {reference} }}");
    let code = persisted("x.cpp", &inside, "void f(S &s)", "pm::persist(s.y);");
    assert_eq!(code, "pm::persist(s.x);");
    let reference = "fn persist<T: ?Sized>(t: &T) {}";
    let code = persisted("x.rs", reference, "fn f(s: &mut S)", "persist(&s.y);");
    assert_eq!(code, "persist(&s.x);");
}

#[test]
fn a_helper_that_cannot_be_named_is_not_used() {
    let method = "struct P { void persist(const void *p, size_t n); };";
    let code = persisted("x.cpp", method, "void f(P &p, S &s)", "p.persist(&s.y, 8);");
    assert!(code.starts_with("pm_write_back("), "{code}");
    let plain = "void persist(const void *p, size_t n);";
    let code = persisted("x.c", plain, "void f(int persist)", "persist(&s.y, 8);");
    assert!(code.starts_with("pm_write_back("), "{code}");
}

/// The repair of a store in the loop around it, by the helper.
fn after_loop(path: &str, text: &str, line: u32) -> Result<String, RepairRefusal> {
    let source = SourceTree::new(path, text.to_owned())?;
    let request = RepairRequest {
        source: &source,
        line,
        column: None,
        scope: RepairScope::Loop,
        operation: RepairOperation::FlushAndFence,
        one_line: true,
        is_dense: true,
        has_stores: &|_| true,
        syncs: false,
        macros: &MacroDefinitions::default(),
        idioms: &Idioms::default(),
        called: &[],
        only_generic: false,
    };
    Ok(apply(text, &in_order(request.repair()?.edits).unwrap()))
}

#[test]
fn an_array_is_flushed_once_after_the_loop_that_fills_it() {
    let text = "void pm_write_back(const void *p, size_t n);\nvoid f(struct s *s, int n)\n{\n\tfor (int i = 0; i < n; i++)\n\t\ts->word[i] = 1;\n}\n";
    let repaired = after_loop("x.c", text, 5).unwrap();
    let expected = "\t\ts->word[i] = 1;\n\tif (n > 0) pm_write_back(s->word, n * sizeof(s->word[0]));\n\t__builtin_ia32_sfence();\n}\n";
    assert!(repaired.ends_with(expected), "{repaired}");
    let text = "void f(struct s *s, int n)\n{\n\twhile (n--)\n\t\ts->word[n] = 1;\n}\n";
    let refused = after_loop("x.c", text, 4).unwrap_err();
    assert!(
        matches!(refused, RepairRefusal::NotCovered { .. }),
        "{refused}"
    );
}

#[test]
fn stores_that_the_debug_information_does_not_distinguish_are_all_flushed() {
    let text = "void pm_write_back(const void *p, size_t n);\nvoid f(struct s *s)\n{\n\tif (s)\n\t\ts->x = 1, s->y = 2;\n\ts->a = 3; s->b = 4;\n}\n";
    let repaired = |line| {
        let example = Example {
            path: "x.c",
            text,
            at: (line, None),
            operation: RepairOperation::Flush,
        };
        example.repaired(|_, _| ()).unwrap()
    };
    let both = "\tif (s) {\n\t\ts->x = 1, s->y = 2;\n\t\tpm_write_back(&s->x, sizeof(s->x));\n\t\tpm_write_back(&s->y, sizeof(s->y));\n\t}\n";
    assert!(repaired(5).contains(both), "{}", repaired(5));
    let both = "\ts->a = 3; pm_write_back(&s->a, sizeof(s->a)); s->b = 4; pm_write_back(&s->b, sizeof(s->b));\n}\n";
    assert!(repaired(6).contains(both), "{}", repaired(6));
}

#[test]
fn a_log_entry_evaluates_an_effect_once() {
    let text =
        "#include <libpmemobj.h>\nvoid f(long *p)\n{\n\t*p++ = 1;\n\tstrcpy(name, text);\n}\n";
    let logged = |line| {
        Example {
            path: "x.c",
            text,
            at: (line, None),
            operation: RepairOperation::Log,
        }
        .repaired(|_, _| ())
    };
    let repaired = logged(4).unwrap();
    let saved = "\t__typeof__(*p++) *pm_stored_4 = &(*p++);\n";
    assert!(repaired.contains(saved), "{repaired}");
    let entry = "(pm_stored_4, sizeof(*pm_stored_4));\n\t*pm_stored_4 = 1;\n";
    assert!(repaired.contains(entry), "{repaired}");
    assert!(matches!(logged(5), Err(RepairRefusal::NotLogged { .. })));
}
