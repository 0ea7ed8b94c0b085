//! `brownout stat --failure-points`: the failure points of a run, as a tree.

use std::io::{self, Write};
use std::path::Path;

use brownout_crash::{Leaf, RecordedRun, Symbols as _};
use brownout_report::{Frame, LeftOut};
use serde_json::json;

use crate::arguments::{Format, StatArgs};
use crate::console::{self, Console};
use crate::crash_test::{
    CrashSymbols, CrashTestMonitor, PointFilters, RecordedBy, check_scope, left_out, scope,
};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::quantity::number_of;
use crate::trace_file::TraceFile;

pub fn run(arguments: &StatArgs, console: &Console) -> Result<ExitCode, Failure> {
    let mut trace = TraceFile::open(&arguments.trace)?;
    let selection = trace.select(&arguments.selection.patterns, console)?;
    let code = trace.report_missing(console);
    if selection.is_empty() {
        console.warn("nothing persistent was seen; select files with --pm");
    }
    let filters = PointFilters::new(&arguments.points)?;
    let mut symbols = CrashSymbols::new(&trace.header().cwd, filters);
    let mut monitor = CrashTestMonitor::new(None, console);
    monitor.begin_reading(trace.events());
    let run = RecordedRun::new(trace.path(), selection);
    let scope = scope(&arguments.points);
    let survey = run.survey(scope.clone(), &mut symbols, &mut monitor)?;
    drop(monitor);
    let recorded_by = RecordedBy::AnEarlierCommand;
    check_scope(&survey.points, &scope, &run, recorded_by)?;
    symbols.check_filters()?;
    let leaves = survey.points.leaves().iter().map(|leaf| {
        let frames = leaf.stack.map(|stack| symbols.frames(stack));
        (leaf, frames.unwrap_or_default())
    });
    let leaves: Vec<(&Leaf, Vec<Frame>)> = leaves.collect();
    let left_out = left_out(survey.points.creations(), survey.files.paths(), &trace);
    let mut out = console::results();
    match arguments.format {
        Format::Human => print_tree(&leaves, &mut out),
        Format::Json => print_json(&leaves, &left_out, &mut out),
    }
    .and_then(|()| out.flush())
    .map_err(Failure::Output)?;
    for sentence in left_out.sentences() {
        console.remark(sentence);
    }
    for problem in symbols.problems() {
        console.warn(problem);
    }
    Ok(code)
}

/// A function call, with the calls and failure points in it.
#[derive(Default)]
struct Node {
    children: Vec<(String, Node)>,
    /// Failure points in this function: their kind, and how often they were reached.
    points: Vec<(&'static str, u64)>,
}

impl Node {
    fn child(&mut self, name: String) -> &mut Node {
        let known = self.children.iter().position(|(known, _)| *known == name);
        let at = known.unwrap_or_else(|| {
            self.children.push((name, Node::default()));
            self.children.len() - 1
        });
        &mut self.children[at].1
    }
}

fn print_tree(leaves: &[(&Leaf, Vec<Frame>)], out: &mut impl Write) -> io::Result<()> {
    let reached: u64 = leaves.iter().map(|(leaf, _)| leaf.count).sum();
    writeln!(
        out,
        "{}, reached {}",
        number_of(leaves.len() as u64, "failure point"),
        number_of(reached, "time")
    )?;
    let mut root = Node::default();
    for (leaf, frames) in leaves {
        let mut node = &mut root;
        for frame in frames.iter().rev() {
            node = node.child(describe(frame));
        }
        node.points.push((leaf.kind.name(), leaf.count));
    }
    // Not recursive, because a target may recurse deeper than brownout's own stack allows.
    let mut pending: Vec<(usize, &str, &Node)> = vec![(0, "", &root)];
    while let Some((depth, name, node)) = pending.pop() {
        let indent = "  ".repeat(depth.saturating_sub(1));
        if depth > 0 {
            writeln!(out, "{indent}{name}")?;
        }
        for (kind, count) in &node.points {
            let indent = "  ".repeat(depth);
            writeln!(
                out,
                "{indent}* before a {kind}, {}",
                number_of(*count, "time")
            )?;
        }
        let children = node.children.iter().rev();
        pending.extend(children.map(|(name, child)| (depth + 1, name.as_str(), child)));
    }
    Ok(())
}

fn describe(frame: &Frame) -> String {
    let function = match &frame.function {
        Some(function) => function.clone(),
        None => format!("{}+{:#x}", frame.module, frame.offset),
    };
    let location = match (&frame.file, frame.line) {
        (Some(file), Some(line)) => {
            let name = Path::new(file).file_name().unwrap_or_default();
            format!(" ({}:{line})", name.to_string_lossy())
        }
        _ => String::new(),
    };
    format!("{function}{location}{}", frame.remark())
}

fn print_json(
    leaves: &[(&Leaf, Vec<Frame>)],
    left_out: &LeftOut,
    out: &mut impl Write,
) -> io::Result<()> {
    let leaves: Vec<_> = leaves
        .iter()
        .map(|(leaf, frames)| {
            json!({
                "kind": leaf.kind.name(),
                "count": leaf.count,
                "first_event": leaf.chosen().first().map(|first| first.event.0),
                "frames": frames,
            })
        })
        .collect();
    let all = json!({ "failure_points": leaves, "left_out": left_out });
    serde_json::to_writer_pretty(&mut *out, &all)?;
    writeln!(out)
}
