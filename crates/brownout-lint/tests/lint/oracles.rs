//! Oracles: declared ones, and one written in Rust.

use std::collections::HashMap;
use std::path::Path;

use brownout_lint::oracle::{
    Action, Declared, Demand, FunctionPattern, Memory, Oracle, OracleFrame, OracleStep, Region,
    Violation,
};
use brownout_lint::{Attribution, Origin, SiteKey};
use brownout_report::{Category, RuleInfo, RulePolicy, Severity};
use brownout_trace::selection::Patterns;
use brownout_trace::{Definitions, Event};

use crate::target_run::{A, B, C, POOL, SECOND, TargetRun, short};

static RULE: RuleInfo = RuleInfo {
    id: "own-rule",
    severity: Severity::Bug,
    category: Category::Ordering,
    pedantic: false,
    policy: RulePolicy::NONE,
    summary: "a demand",
    explanation: "A demand of the test.",
};

/// A program in which the instructions 1000 to 1999 belong to `append`, all others to `main`; both are in
/// `log.c`, at the line of their number.
#[derive(Default)]
struct Program {
    sites: HashMap<SiteKey, u64>,
}

impl Attribution for Program {
    fn origin(&mut self, site: SiteKey, event: &Event<'_>, _: &Definitions) -> Origin {
        self.sites.insert(site, event.pc.0);
        Origin::User
    }

    fn stack(&mut self, site: SiteKey) -> Vec<OracleFrame> {
        let line = self.sites[&site];
        let frame = |function: &str, line: u64| OracleFrame {
            module: "log".to_owned(),
            function: Some(function.to_owned()),
            source: Some(("/src/store/log.c".to_owned(), line as u32)),
        };
        match line {
            1000..2000 => vec![frame("append", line), frame("main", 7)],
            _ => vec![frame("main", line)],
        }
    }
}

/// The pool's bytes at an address of the run.
fn bytes(addr: u64, len: u64) -> Region {
    Region {
        offset: addr - POOL..addr - POOL + len,
        ..Region::default()
    }
}

fn found(run: &mut TargetRun, demand: Demand) -> Vec<String> {
    let oracle: Box<dyn Oracle> = Box::new(Declared::new(&RULE, demand));
    run.select("pool");
    let outcome = run.lint_with(Program::default(), vec![oracle]);
    let findings = outcome.findings.iter();
    findings
        .filter(|finding| finding.rule.id == RULE.id)
        .map(short)
        .collect()
}

fn function(pattern: &str) -> FunctionPattern {
    FunctionPattern::new(pattern)
}

#[test]
fn a_range_is_written_only_inside_a_function() {
    let demand = || Demand::OnlyInside {
        stores: bytes(A, 8),
        functions: vec![function("app*")],
    };
    let mut run = TargetRun::new();
    run.at(1000).store(A).persist(1001, A);
    run.at(1).store(B).persist(2, B);
    assert_eq!(found(&mut run, demand()), [""; 0]);

    let mut run = TargetRun::new();
    run.at(1).store_value(A - 4, &[1; 8]).persist(2, A - 8);
    run.at(1).store_value(A - 4, &[2; 8]).persist(2, A);
    assert_eq!(found(&mut run, demand()), ["own-rule store@1 ×2"]);
}

#[test]
fn data_must_be_persistent_before_it_is_published() {
    let demand = || Demand::PersistedBefore {
        first: bytes(C, 0x1000),
        then: bytes(A, 8),
    };
    let mut run = TargetRun::new();
    run.at(1)
        .store(C)
        .persist(2, C)
        .at(4)
        .store(A)
        .persist(5, A);
    assert_eq!(found(&mut run, demand()), [""; 0]);

    let mut run = TargetRun::new();
    run.at(1)
        .store(C)
        .at(2)
        .clwb(C)
        .at(4)
        .store(A)
        .at(5)
        .sfence();
    assert_eq!(
        found(&mut run, demand()),
        ["own-rule store@4 unpersisted@1"]
    );
}

#[test]
fn stores_of_other_threads_must_be_persistent_too() {
    let demand = || Demand::PersistedBefore {
        first: bytes(C, 8),
        then: bytes(A, 8),
    };
    let mut run = TargetRun::new();
    run.thread(SECOND).at(1).store(C);
    run.thread(crate::target_run::MAIN).at(2).store(A);
    assert_eq!(
        found(&mut run, demand()),
        ["own-rule store@2 unpersisted@1"]
    );
}

#[test]
fn nothing_is_stored_after_the_mark() {
    let demand = || Demand::NeverAfter {
        stores: bytes(C, 0x1000),
        mark: Region {
            value: Some(1),
            ..bytes(A, 8)
        },
    };
    let (set, clear) = (1u64.to_le_bytes(), 0u64.to_le_bytes());
    let mut run = TargetRun::new();
    run.at(1).store(C).at(2).store_value(A, &set);
    run.at(3).store_value(A, &clear).at(4).store(C);
    assert_eq!(found(&mut run, demand()), [""; 0]);

    let mut run = TargetRun::new();
    run.at(2).store_value(A, &set).at(3).store(B).at(4).store(C);
    assert_eq!(found(&mut run, demand()), ["own-rule store@4"]);
}

#[test]
fn regions_are_narrowed_by_file_function_and_source() {
    let only = |region: Region| Demand::OnlyInside {
        stores: region,
        functions: vec![function("nobody")],
    };
    let run = || {
        let mut run = TargetRun::new();
        run.at(1000).store(A).at(2).store(A);
        run
    };
    let all = |narrow: fn(Region) -> Region| only(narrow(Region::default()));
    let files = |pattern: &str| Patterns::new(&[pattern.into()], Path::new("/")).unwrap();
    assert_eq!(
        found(&mut run(), all(|region| region)),
        ["own-rule store@1000", "own-rule store@2"]
    );
    let other = Region {
        files: files("*.other"),
        ..Region::default()
    };
    assert_eq!(found(&mut run(), only(other)), [""; 0]);
    let pool = Region {
        files: files("pool"),
        functions: vec![function("append")],
        ..Region::default()
    };
    assert_eq!(found(&mut run(), only(pool)), ["own-rule store@1000"]);
    let lines = |file: &str| Region {
        source: Some((file.to_owned(), 1..=5)),
        ..Region::default()
    };
    assert_eq!(
        found(&mut run(), only(lines("store/log.c"))),
        ["own-rule store@2"]
    );
    assert_eq!(found(&mut run(), only(lines("og.c"))), [""; 0]);
}

/// At a fence, no store of `append` may be unpersisted.
struct FencesAreComplete;

impl Oracle for FencesAreComplete {
    fn rule(&self) -> &'static RuleInfo {
        &RULE
    }

    fn observe(&mut self, step: &OracleStep<'_>, memory: &Memory<'_>) -> Option<Violation> {
        let Action::Fence { .. } = step.action else {
            return None;
        };
        let mut files = memory.files();
        let left = files.find_map(|(file, _)| {
            let mut stores = memory.unpersisted(file, 0..u64::MAX);
            stores.find(|store| {
                let stack = memory.stack(store.site);
                stack[0].function.as_deref() == Some("append")
            })
        })?;
        Some(Violation::new("something is left").with("left", left))
    }
}

#[test]
fn a_custom_oracle_sees_fences_before_they_take_effect() {
    let mut run = TargetRun::new();
    run.at(1000)
        .store(A)
        .at(3)
        .store(B)
        .at(4)
        .clwb(A)
        .at(5)
        .sfence();
    run.at(6).sfence();
    let outcome = run.lint_with(Program::default(), vec![Box::new(FencesAreComplete)]);
    let own = outcome
        .findings
        .iter()
        .filter(|finding| finding.rule.id == RULE.id);
    assert_eq!(
        own.map(short).collect::<Vec<_>>(),
        ["own-rule fence@5 left@1000"]
    );
}
