//! The corpus itself: every program is well-formed, small, and in the folder it belongs to.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use brownout_corpus::{Language, Program, discover};

/// Programs a rule has at least, and twins in `clean`, named after it.
const BUGGY: usize = 3;
const CLEAN: usize = 2;
/// Lines a program has at most, and one that brings its recovery.
const LINES: usize = 50;
const LINES_WITH_RECOVERY: usize = 60;
/// Programs whose recovery fails, crashes or hangs, at least, and the lines in which a twin differs at most.
const RECOVERIES: usize = 15;
const DIFFERENCE: usize = 8;

fn corpus() -> Vec<Program> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    discover(&dir).expect("every program is well-formed")
}

fn folder(program: &Program) -> &str {
    program.name.split_once('/').expect("a name has a folder").0
}

fn by_folder(programs: &[Program]) -> BTreeMap<&str, Vec<&Program>> {
    let mut folders: BTreeMap<&str, Vec<&Program>> = BTreeMap::new();
    for program in programs {
        folders.entry(folder(program)).or_default().push(program);
    }
    folders
}

#[test]
fn clean_programs_expect_nothing() {
    let programs = corpus();
    let loud: Vec<&str> = by_folder(&programs)["clean"]
        .iter()
        .filter(|program| !program.annotations.is_empty())
        .map(|program| program.name.as_str())
        .collect();
    assert_eq!(loud, [""; 0]);
}

#[test]
fn every_other_program_speaks_of_the_rule_it_is_filed_under() {
    let programs = corpus();
    let misfiled: Vec<&str> = programs
        .iter()
        .filter(|program| folder(program) != "clean")
        .filter(|program| {
            let mut rules = program.annotations.iter().map(|note| note.rule.as_str());
            !rules.any(|rule| rule == folder(program))
        })
        .map(|program| program.name.as_str())
        .collect();
    assert_eq!(misfiled, [""; 0]);
}

#[test]
fn every_rule_has_programs_in_several_guises_and_clean_twins() {
    let programs = corpus();
    let folders = by_folder(&programs);
    for rule in folders.keys().filter(|rule| **rule != "clean") {
        // A program of another rule may show it, too.
        let shows = |program: &&Program| program.annotations.iter().any(|note| note.rule == *rule);
        let buggy = programs.iter().filter(shows).count();
        assert!(buggy >= BUGGY, "{rule} has {buggy} programs");
        let prefix = match rule.strip_prefix("tx-") {
            Some(_) => "tx_".to_owned(),
            None => format!("{}_", rule.replace('-', "_")),
        };
        let twins = folders["clean"]
            .iter()
            .filter(|program| program.name.starts_with(&format!("clean/{prefix}")));
        assert!(twins.count() >= CLEAN, "{rule} has too few clean twins");
    }
}

#[test]
fn every_flush_is_tried_and_every_language_written() {
    let programs = corpus();
    let variants: BTreeSet<&str> = programs
        .iter()
        .flat_map(|program| &program.builds)
        .filter_map(|build| build.variant.as_deref())
        .collect();
    assert_eq!(
        variants,
        BTreeSet::from(["clwb", "clflush", "clflushopt", "nt"])
    );
    for language in [Language::C, Language::Cpp, Language::Rust] {
        let count = programs
            .iter()
            .filter(|program| program.language == language)
            .count();
        assert!(count >= 5, "{count} programs in {language:?}");
    }
}

#[test]
fn programs_are_small() {
    let long: Vec<String> = corpus()
        .iter()
        .filter_map(|program| {
            let lines = text_of(program).lines().count();
            let most = program
                .recover
                .as_ref()
                .map_or(LINES, |_| LINES_WITH_RECOVERY);
            (lines > most).then(|| format!("{}: {lines} lines", program.name))
        })
        .collect();
    assert_eq!(long, [""; 0]);
}

#[test]
fn every_failing_recovery_has_a_twin_that_differs_in_the_lines_that_matter() {
    let programs = corpus();
    let named = |name: &str| programs.iter().find(|program| program.name == name);
    let failing: Vec<&Program> = programs
        .iter()
        .filter(|program| folder(program).starts_with("recovery-"))
        .collect();
    assert!(failing.len() >= RECOVERIES, "there are {}", failing.len());
    for program in failing {
        let name = program.name.replace(['-', '/'], "_");
        let twin = named(&format!("clean/{name}")).unwrap_or_else(|| panic!("no clean/{name}"));
        assert!(program.recover.is_some(), "{name} has no recovery");
        assert_eq!(program.recover, twin.recover, "{name}");
        let lines = text_of(twin);
        let own = text_of(program);
        let own: BTreeSet<&str> = own.lines().map(without_comment).collect();
        let differing: Vec<&str> = lines
            .lines()
            .map(without_comment)
            .filter(|line| !own.contains(line))
            .collect();
        assert!(differing.len() <= DIFFERENCE, "{name}: {differing:#?}");
    }
}

fn text_of(program: &Program) -> String {
    fs::read_to_string(&program.source).expect("it was read before")
}

fn without_comment(line: &str) -> &str {
    line.split("//").next().unwrap_or_default().trim_end()
}
