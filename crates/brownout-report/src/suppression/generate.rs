//! Generates suppressions for findings. The user copies them to a file and adds the reasons.

use std::fmt::Write as _;

use toml::Value;

use crate::Finding;

/// Frames per suppression: enough to identify a location, few enough to survive changes of the callers.
const FRAMES: usize = 4;

/// One suppression per finding, in TOML. Findings that the same suppression matches share it.
pub fn suppressions_for<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> String {
    let mut text = String::new();
    let mut written = Vec::new();
    for finding in findings {
        let stack = innermost_functions(finding);
        let key = (finding.rule.as_str(), stack);
        if written.contains(&key) {
            continue;
        }
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "# {}\n[[suppression]]\nrule = {}\n",
            comment(finding),
            quoted(key.0)
        );
        if !key.1.is_empty() {
            let functions: Vec<String> = key.1.iter().map(|name| quoted(name)).collect();
            let _ = writeln!(text, "stack = [{}]", functions.join(", "));
        }
        text.push_str("reason = \"not reviewed\"\n\n");
        written.push(key);
    }
    text
}

/// Library frames become `...`, because their names depend on the machine.
fn innermost_functions(finding: &Finding) -> Vec<&str> {
    let frames = finding
        .stacks
        .first()
        .map_or(&[][..], |stack| stack.frames_of_program());
    let mut functions = Vec::new();
    for frame in frames {
        if functions.len() == FRAMES {
            break;
        }
        if !frame.is_library() {
            functions.push(frame.function.as_deref().unwrap_or("*"));
        } else if functions.last() != Some(&"...") {
            functions.push("...");
        }
    }
    functions
}

fn comment(finding: &Finding) -> String {
    let source = finding.primary_frame().and_then(|frame| frame.source());
    let text = match source {
        Some(source) => format!("{source}: {}", finding.message),
        None => finding.message.clone(),
    };
    text.replace(|c: char| c.is_control(), " ")
}

fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}
