//! Whose events are reported, and how events of libraries count.

use brownout_lint::{Attribution, Origin, SiteKey};
use brownout_trace::{Definitions, Event};

use crate::target_run::{A, A2, B, C, HEAP, TargetRun};

/// Instructions from 500 on are the library's, from 900 on those of a lock's functions, from 1000 on those
/// of a copying function.
fn by_number(event: &Event<'_>, _: &Definitions) -> Origin {
    match event.pc.0 {
        1000.. => Origin::CLibrary,
        900.. => Origin::Lock,
        500.. => Origin::Library,
        _ => Origin::User,
    }
}

#[test]
fn events_of_a_library_for_its_own_purposes_are_not_reported() {
    let mut run = TargetRun::new();
    // Each of these would be a finding.
    run.at(500).store(A).at(501).store(A).persist(502, A);
    run.at(504)
        .clwb(A)
        .at(505)
        .clwb(HEAP)
        .at(506)
        .sfence()
        .at(507)
        .sfence();
    run.at(508)
        .store(B)
        .at(509)
        .store(C)
        .persist(510, C)
        .persist(512, B);
    run.at(514)
        .store(A)
        .at(515)
        .nt_store(C)
        .at(516)
        .store(B)
        .at(517)
        .clwb(B);
    assert_eq!(run.findings_by(by_number), [""; 0]);
}

#[test]
fn locks_in_persistent_memory_need_not_be_persistent() {
    let mut run = TargetRun::new();
    run.at(1).store(A).persist(2, A);
    run.at(900).store(A2).at(901).store(C);
    assert_eq!(run.findings_by(by_number), [""; 0]);
}

#[test]
fn the_users_store_is_persisted_by_the_librarys_flush() {
    let mut run = TargetRun::new();
    run.at(1).store(A).persist(500, A);
    assert_eq!(run.findings_by(by_number), [""; 0]);
}

#[test]
fn a_librarys_store_does_not_make_the_users_late() {
    let mut run = TargetRun::new();
    run.at(1)
        .store(A)
        .at(500)
        .store(B)
        .persist(501, B)
        .persist(2, A);
    assert_eq!(run.findings_by(by_number), [""; 0]);
}

#[test]
fn flushes_of_a_library_do_not_count_at_the_users_fence() {
    let mut run = TargetRun::new();
    run.at(500).store(A).at(501).clwb(A).at(502).nt_store(B);
    run.at(1).store(C).persist(2, C);
    assert_eq!(run.findings_by(by_number), [""; 0]);
}

#[test]
fn each_site_is_attributed_once_and_findings_name_its_key() {
    let mut run = TargetRun::new();
    for _ in 0..3 {
        run.at(1).store(A).at(2).store(A2).persist(3, A);
    }
    let outcome = run.lint(Asked::default());
    let Asked(asked) = outcome.attribution;
    for site in outcome.findings.iter().flat_map(|finding| &finding.sites) {
        assert!(asked.contains(&(site.key, site.pc.0)));
    }
    let instructions: Vec<u64> = asked.iter().map(|&(_, pc)| pc).collect();
    assert_eq!(instructions, [1, 2, 3, 4]);
}

/// Remembers the sites it was asked about.
#[derive(Default)]
struct Asked(Vec<(SiteKey, u64)>);

impl Attribution for Asked {
    fn origin(&mut self, site: SiteKey, event: &Event<'_>, _: &Definitions) -> Origin {
        self.0.push((site, event.pc.0));
        Origin::User
    }
}

#[test]
fn one_copy_is_one_store() {
    let mut run = TargetRun::new();
    run.at(1000).store(A).at(1001).store(A2).persist(1, A);
    assert_eq!(run.findings_by(by_number), [""; 0]);
    // Calls from two sites are two stores.
    let mut run = TargetRun::new();
    run.at(1000).store(A).at(2000).store(A2).persist(1, A);
    assert_eq!(
        run.findings_by(by_number),
        ["flush-covers-many flush@1 first store@1000 last store@2000"]
    );
}
