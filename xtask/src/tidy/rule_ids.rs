//! A rule of lint is one file and one line: no other code names it. What the rest of brownout does with its findings is in the policy
//! that the file declares.
//!
//! What it can miss: an id that is put together from parts.

use super::rust_code::literals_of;

/// Folder of the rules of lint.
const RULES: &str = "crates/brownout-lint/src/rules/";

/// The ids that a file declares, if it is that of a rule.
pub fn declared(path: &str, text: &str) -> Vec<String> {
    if !path.starts_with(RULES) {
        return Vec::new();
    }
    let lines = text.lines().map(str::trim);
    lines
        .filter_map(|line| line.strip_prefix("id: \"")?.strip_suffix("\","))
        .map(str::to_owned)
        .collect()
}

/// The rules that a file of another part of brownout names.
pub fn check(path: &str, text: &str, ids: &[String]) -> Vec<String> {
    let is_source = path.starts_with("crates/") && path.contains("/src/");
    let is_test = path.ends_with("/tests.rs") || path.contains("/tests/");
    // Samples for tests, and the names that annotations of the corpus give.
    let is_sample = path.ends_with("/samples.rs") || path.starts_with("crates/brownout-corpus/");
    if !is_source || is_test || is_sample || path.starts_with(RULES) {
        return Vec::new();
    }
    let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or(text);
    literals_of(code)
        .filter(|(_, content)| ids.iter().any(|id| id == content))
        .map(|(line, id)| {
            format!("line {line}: names the rule `{id}`; let its `RulePolicy` say what is done")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_file_names_a_rule() {
        let file = "crates/brownout-lint/src/rules/late.rs";
        let text = "const INFO: &RuleInfo = &RuleInfo {\n    id: \"late\",\n};\n";
        let ids = declared(file, text);
        assert_eq!(ids, ["late"]);
        let found = |path: &str, text: &str| check(path, text, &ids).len();
        assert_eq!(found(file, text), 0);
        let elsewhere = "crates/brownout/src/suspects.rs";
        assert_eq!(found(elsewhere, "let rule = \"late\";\n"), 1);
        assert_eq!(
            found(elsewhere, "// \"late\"\nlet how = \"too late\";\n"),
            0
        );
        let in_tests =
            "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    const RULE: &str = \"late\";\n}\n";
        assert_eq!(found(elsewhere, in_tests), 0);
        assert_eq!(found("crates/brownout/tests/check/fix.rs", "\"late\""), 0);
    }
}
