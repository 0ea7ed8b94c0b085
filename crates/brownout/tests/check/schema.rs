//! Findings are as the published schema says.

use super::*;

/// What `value` has that `schema`, a part of `root`, does not allow. Knows the keywords that the schema uses.
fn violations(root: &Value, schema: &Value, value: &Value, at: &str, out: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let part = root.pointer(reference.trim_start_matches('#')).unwrap();
        return violations(root, part, value, at, out);
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let allowed = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().any(|allowed| allowed == kind),
        allowed => allowed == kind,
    };
    if !allowed {
        out.push(format!("{at} is {kind}"));
    }
    if let Some(values) = schema["enum"].as_array().filter(|all| !all.contains(value)) {
        out.push(format!("{at} is none of {values:?}"));
    }
    for required in schema["required"].as_array().into_iter().flatten() {
        if value.get(required.as_str().unwrap()).is_none() {
            out.push(format!("{at} has no {required}"));
        }
    }
    for (name, field) in value.as_object().into_iter().flatten() {
        let at = format!("{at}.{name}");
        match (&schema["properties"][name], &schema["additionalProperties"]) {
            (Value::Null, Value::Bool(false)) => out.push(format!("{at} is not described")),
            (Value::Null, other) => violations(root, other, field, &at, out),
            (property, _) => violations(root, property, field, &at, out),
        }
    }
    for item in value.as_array().into_iter().flatten() {
        violations(root, &schema["items"], item, at, out);
    }
}

#[test]
fn findings_have_the_fields_of_the_schema() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/findings.schema.json"
    );
    let schema: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(schema["version"], 1);
    let dir = TestDir::with("check/recursion.c", &["-g", "-O0"]);
    let run = dir.brownout(&["check", "--", "./recursion", "pool"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let explored = TestDir::with("crash/list.c", &["-g"]);
    let recover = ["check", "--recover", "./list {pm} check", "--pedantic"];
    let target = [
        "--strategy",
        "exhaustive",
        "--",
        "./list",
        "pool",
        "put",
        "2",
        "late",
    ];
    let run = explored.brownout(&[&recover[..], &target].concat());
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let open_reads = |finding: &Value| !finding["evidence"]["open_reads"].is_null();
    assert!(explored.findings().iter().any(open_reads));
    let mut out = Vec::new();
    for finding in dir.findings().into_iter().chain(explored.findings()) {
        violations(&schema, &schema, &finding, "finding", &mut out);
    }
    assert_eq!(out, [] as [String; 0]);
    let mut wrong = dir.findings().remove(0);
    wrong["severity"] = "error".into();
    violations(&schema, &schema, &wrong, "finding", &mut out);
    assert_eq!(out.len(), 1, "the check can fail: {out:?}");
}
