//! Warnings about source lines that are missing or may be wrong.

use std::collections::BTreeSet;
use std::fs;
use std::time::SystemTime;

use brownout_report::{Finding, Frame};

/// A warning for each module whose findings have no source lines, unless `reported` already mentions it.
pub fn without_lines(findings: &[Finding], reported: &[String]) -> Vec<String> {
    let modules: BTreeSet<&str> = findings
        .iter()
        .filter_map(Finding::primary_frame)
        .filter(|frame| frame.line.is_none() && !frame.module.starts_with('['))
        .map(|frame| frame.module.as_str())
        .collect();
    modules
        .into_iter()
        .filter(|module| !reported.iter().any(|sentence| sentence.contains(module)))
        .map(|module| {
            format!(
                "{module} has no debug information, so its findings have no source lines; \
                 compile it with -g or install its debug symbols"
            )
        })
        .collect()
}

/// A warning for each source file that was modified after its module was built: its lines may have moved.
pub fn newer_sources(findings: &[Finding]) -> Vec<String> {
    let locations: BTreeSet<(&str, &str)> = findings
        .iter()
        .filter_map(Finding::primary_frame)
        .filter_map(|frame: &Frame| Some((frame.file.as_deref()?, frame.module.as_str())))
        .collect();
    locations
        .into_iter()
        .filter(|(file, module)| match (modified(file), modified(module)) {
            (Some(source), Some(program)) => source > program,
            _ => false,
        })
        .map(|(file, module)| {
            format!("{file} is newer than {module}; the source lines shown may be wrong")
        })
        .collect()
}

fn modified(path: &str) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}
