//! Sentences on why findings cannot be shown in source, or not rightly.

use std::collections::BTreeSet;
use std::fs;
use std::time::SystemTime;

use brownout_report::{Finding, Frame};

/// A sentence for each module whose findings have no lines, unless it was told already why.
pub fn without_lines(findings: &[Finding], told: &[String]) -> Vec<String> {
    let modules: BTreeSet<&str> = findings
        .iter()
        .filter_map(Finding::primary_frame)
        .filter(|frame| frame.line.is_none() && !frame.module.starts_with('['))
        .map(|frame| frame.module.as_str())
        .collect();
    modules
        .into_iter()
        .filter(|module| !told.iter().any(|sentence| sentence.contains(module)))
        .map(|module| {
            format!(
                "{module} has no debug information, so that its findings have no source lines; \
                 compile with -g, or install its debug symbols"
            )
        })
        .collect()
}

/// A sentence for each source file that was written after the program was built: its lines may have moved.
pub fn newer_sources(findings: &[Finding]) -> Vec<String> {
    let places: BTreeSet<(&str, &str)> = findings
        .iter()
        .filter_map(Finding::primary_frame)
        .filter_map(|frame: &Frame| Some((frame.file.as_deref()?, frame.module.as_str())))
        .collect();
    places
        .into_iter()
        .filter(|(file, module)| match (written(file), written(module)) {
            (Some(source), Some(program)) => source > program,
            _ => false,
        })
        .map(|(file, module)| {
            format!("{file} is newer than {module}; the lines that are shown may have moved")
        })
        .collect()
}

fn written(path: &str) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}
