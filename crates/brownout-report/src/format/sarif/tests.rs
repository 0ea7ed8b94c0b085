//! Validates documents against the types generated from the SARIF schema, and checks each field.

use std::path::Path;

use super::*;
use crate::samples::{FENCE_RULE, FLUSH_RULE, WARNING_RULE, finding, finding_at, frame, stack};
use crate::{Baseline, Evidence, Subject, Suppressions};

/// A report with a new, a known and a suppressed finding.
fn report() -> Report {
    let subject = Subject {
        command: vec!["./kv".into(), "put".into()],
        directory: Some("/home/u/kv".into()),
        gaps: vec!["the trace is damaged".into()],
        ..Subject::default()
    };
    let two_stacks = Finding::new(
        &FENCE_RULE,
        "m",
        vec![
            stack("fence", vec![frame("sync", "/home/u/kv/kv.c", 40)]),
            stack(
                "flush",
                vec![Frame::default(), frame("put", "/usr/src/a b.c", 9)],
            ),
        ],
        Evidence {
            events: vec![20, 10],
            ..Evidence::default()
        },
    );
    let other = finding_at(&WARNING_RULE, "/home/u/kv/log.c", 3);
    let suppressed = finding_at(&FLUSH_RULE, "/home/u/kv/stats.c", 3);
    let findings = vec![finding(), two_stacks, other.clone(), suppressed];
    let mut report = Report::new(subject, vec![FLUSH_RULE, FENCE_RULE], findings);
    let mut suppressions = Suppressions::default();
    let text = "[[suppression]]\nrule = '*'\nfile = 'stats.c'\nreason = 'rebuilt'";
    suppressions.add(Path::new("s.toml"), text).unwrap();
    report.suppress(&mut suppressions, &crate::Sources::on_disk());
    let sources = crate::Sources::on_disk();
    report.compare_with(
        &Baseline::of(std::slice::from_ref(&other), &sources),
        &sources,
    );
    report
}

/// The types represent the schema: a valid document can be read, and writing it again gives the same document.
fn assert_valid(document: &Value) {
    let typed: serde_sarif::sarif::Sarif = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), *document);
    for result in document["runs"][0]["results"].as_array().unwrap() {
        for set in ["stacks", "relatedLocations", "codeFlows"] {
            let items = result[set].as_array().map_or(&[][..], Vec::as_slice);
            for (at, item) in items.iter().enumerate() {
                assert!(!items[..at].contains(item), "{set} contains {item} twice");
            }
        }
    }
}

#[test]
fn equal_stacks_appear_once() {
    let flush = || stack("flush", vec![frame("persist", "/home/u/kv/kv.c", 9)]);
    let fence = stack("fence", vec![frame("persist", "/home/u/kv/kv.c", 10)]);
    let stacks = vec![fence, flush(), flush()];
    let finding = Finding::new(&FENCE_RULE, "m", stacks, Evidence::default());
    let document = document(&Report::new(Subject::default(), vec![], vec![finding]));
    assert_valid(&document);
    let result = &document["runs"][0]["results"][0];
    assert_eq!(result["stacks"].as_array().unwrap().len(), 2);
    assert_eq!(result["relatedLocations"].as_array().unwrap().len(), 1);
}

#[test]
fn every_state_of_a_finding_is_valid() {
    assert_valid(&document(&report()));
}

#[test]
fn an_empty_report_is_valid() {
    let empty = document(&Report::default());
    assert_valid(&empty);
    assert_eq!(empty["runs"][0]["results"], json!([]));
}

#[test]
fn a_finding_without_a_location_is_valid() {
    let bare = Finding::new(&FLUSH_RULE, "m", vec![], Evidence::default());
    let document = document(&Report::new(Subject::default(), vec![], vec![bare]));
    assert_valid(&document);
    assert_eq!(document["runs"][0]["results"][0]["locations"], json!([]));
}

#[test]
fn results_refer_to_rule_descriptions() {
    let document = document(&report());
    let run = &document["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    assert_eq!(rules[0]["name"], "MissingFlush");
    assert_eq!(rules.len(), 3, "a rule that only a finding names is added");
    for result in run["results"].as_array().unwrap() {
        let index = result["ruleIndex"].as_u64().unwrap() as usize;
        assert_eq!(rules[index]["id"], result["ruleId"]);
    }
}

#[test]
fn paths_are_relative_to_the_source_root() {
    let document = document(&report());
    let run = &document["runs"][0];
    assert_eq!(
        run["originalUriBaseIds"]["SRCROOT"]["uri"],
        "file:///home/u/kv/"
    );
    let result = &run["results"][0];
    let physical = &result["locations"][0]["physicalLocation"];
    assert_eq!(
        physical["artifactLocation"],
        json!({"uri": "kv.c", "uriBaseId": "SRCROOT"})
    );
    assert_eq!(physical["region"]["startLine"], 7);
    let outside = &run["results"][1]["relatedLocations"][0]["physicalLocation"];
    assert_eq!(
        outside["artifactLocation"]["uri"],
        "file:///usr/src/a%20b.c"
    );
}

#[test]
fn the_code_flow_is_in_the_order_of_events() {
    let document = document(&report());
    let flow = &document["runs"][0]["results"][1]["codeFlows"][0]["threadFlows"][0]["locations"];
    let roles: Vec<&str> = flow
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["location"]["message"]["text"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["flush", "fence"]);
}

#[test]
fn states_and_fingerprints() {
    let document = document(&report());
    let results = document["runs"][0]["results"].as_array().unwrap();
    let states: Vec<&str> = results
        .iter()
        .filter_map(|result| result["baselineState"].as_str())
        .collect();
    assert_eq!(states, ["new", "new", "unchanged"]);
    let suppression = &results[3]["suppressions"][0];
    assert_eq!(suppression["justification"], "rebuilt");
    let id = &results[0]["partialFingerprints"]["brownoutFinding/v1"];
    assert_eq!(id, finding().id.as_str());
}
