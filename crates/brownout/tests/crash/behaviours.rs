//! `brownout stat --behaviours`: the types and fields that the stores of recorded programs change.

use std::collections::BTreeMap;
use std::process::Command;

use crate::test_dir::TestDir;
use serde_json::Value;

/// Records a program and returns what `stat --behaviours` prints.
fn behaviours(dir: &TestDir, program: &[&str]) -> Value {
    let mut arguments = vec!["record", "-q", "-o", "trace", "--"];
    arguments.extend(program);
    let run = dir.brownout(&arguments);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let options = ["-q", "--behaviours", "--format", "json", "--top", "100"];
    let run = dir.brownout(&[&["stat", "trace"], &options[..]].concat());
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
    serde_json::from_str(&run.stdout).unwrap()
}

/// The stores of each field or type.
fn stores<'v>(shown: &'v Value, of: &str) -> BTreeMap<&'v str, u64> {
    let listed = shown[of].as_array().unwrap().iter();
    listed
        .map(|item| {
            (
                item["name"].as_str().unwrap(),
                item["stores"].as_u64().unwrap(),
            )
        })
        .collect()
}

#[test]
fn every_store_has_the_outermost_object_and_a_field() {
    for options in [&["-g", "-O0"][..], &["-g", "-O2", "-fno-tree-vectorize"]] {
        let dir = TestDir::with("crash/nodes.c", options);
        let shown = behaviours(&dir, &["./nodes", "pool", "5"]);
        let fields = stores(&shown, "fields");
        let expected = [
            ("node.entry.key", 5),
            ("node.entry.valid", 5),
            ("node.next", 5),
            ("node.tags[]", 5),
            ("root.first", 5),
            ("root.magic", 1),
            ("root.used", 6),
        ];
        for (field, count) in expected {
            assert_eq!(fields.get(field), Some(&count), "{field} in {shown:#}");
        }
        // How many stores a copy consists of depends on the machine.
        let text = fields["node.entry.text"];
        assert!(text >= 5, "{shown:#}");
        assert_eq!(fields.len(), expected.len() + 1, "{shown:#}");
        let typed = &shown["typed_by"];
        assert_eq!(typed["debug_info"], 32 + text, "{shown:#}");
        assert_eq!(
            (&typed["structure"], &typed["none"]),
            (&0.into(), &0.into())
        );
        let nodes = &shown["types"].as_array().unwrap()[0];
        assert_eq!(
            (&nodes["name"], &nodes["objects"]),
            (&"node".into(), &5.into())
        );
        assert_eq!(nodes["size"], 56);
    }
}

#[test]
fn code_without_types_stores_to_objects_that_become_known_later() {
    for options in [&["-g", "-O0"][..], &["-g", "-O2", "-fno-tree-vectorize"]] {
        let dir = TestDir::with("crash/cleared.c", options);
        let shown = behaviours(&dir, &["./cleared", "pool"]);
        let expected = BTreeMap::from([("item.key", 6), ("item.value", 6)]);
        assert_eq!(stores(&shown, "fields"), expected, "{options:?}: {shown:#}");
    }
}

#[test]
fn a_stripped_program_has_types_by_structure() {
    let dir = TestDir::with("crash/nodes.c", &["-O2", "-s"]);
    let shown = behaviours(&dir, &["./nodes", "pool", "5"]);
    let typed = &shown["typed_by"];
    assert_eq!(
        (&typed["debug_info"], &typed["allocation"]),
        (&0.into(), &0.into())
    );
    let (by_structure, none) = (&typed["structure"], &typed["none"]);
    assert!(
        by_structure.as_u64() > none.as_u64().map(|none| 4 * none),
        "{shown:#}"
    );
    // The nodes are five objects of one type, with the fields that the program stores to one by one.
    let types = shown["types"].as_array().unwrap();
    let nodes = types.iter().find(|ty| ty["objects"] == 5);
    let name = nodes.expect("a type with five objects")["name"]
        .as_str()
        .unwrap();
    let fields = stores(&shown, "fields");
    for offset in [0, 8] {
        let field = format!("{name}[+{offset}]");
        assert_eq!(fields.get(field.as_str()), Some(&5), "{field} in {shown:#}");
    }
}

#[test]
fn a_type_without_a_name_is_called_by_the_path_to_it() {
    let dir = TestDir::with("crash/unnamed.c", &["-g"]);
    let shown = behaviours(&dir, &["./unnamed", "pool"]);
    let types = shown["update_behaviours"]["types"].as_array().unwrap();
    let names: Vec<&str> = types
        .iter()
        .map(|ty| ty["name"].as_str().unwrap())
        .collect();
    for name in ["pool", "pool.slots[]", "pool.range", "counter"] {
        assert!(names.contains(&name), "{name} in {shown:#}");
    }
    assert!(!names.contains(&"unnamed"), "{shown:#}");
    let fields = stores(&shown, "fields");
    assert_eq!(fields.get("pool.slots[].key"), Some(&1), "{shown:#}");
    assert_eq!(fields.get("pool.plain"), Some(&1), "{shown:#}");
}

/// Whether programs can be linked with libpmemobj here.
fn has_libpmemobj() -> bool {
    let found = Command::new("pkg-config")
        .args(["--exists", "libpmemobj"])
        .status();
    let has = found.is_ok_and(|status| status.success());
    if !has {
        println!("left out: libpmemobj is not installed");
    }
    has
}

#[test]
fn objects_of_libpmemobj_have_the_types_of_their_identifiers() {
    if !has_libpmemobj() {
        return;
    }
    for level in ["-O0", "-O2"] {
        let dir = TestDir::with("crash/identifiers.c", &["-g", level, "-lpmemobj"]);
        let program = ["env", "PMEM_IS_PMEM_FORCE=1", "./identifiers", "pool", "4"];
        let shown = behaviours(&dir, &program);
        let fields = stores(&shown, "fields");
        for (field, count) in [
            ("item.value", 4),
            ("item.state", 4),
            ("list.length", 4),
            ("table.items[].oid.off", 4),
        ] {
            assert_eq!(
                fields.get(field),
                Some(&count),
                "{field} with {level} in {shown:#}"
            );
        }
        let types = shown["types"].as_array().unwrap();
        let items = types.iter().find(|ty| ty["name"] == "item").unwrap();
        assert_eq!(items["objects"], 4);
        let table = types.iter().find(|ty| ty["name"] == "table").unwrap();
        assert_eq!(table["objects"], 1, "{shown:#}");
    }
}
