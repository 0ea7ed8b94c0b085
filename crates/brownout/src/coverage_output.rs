//! The coverage file of `record` and `check`: finds the source lines and functions of what was counted.
//!
//! A line is executed as often as the instruction of it that was executed most: for a loop, that is its condition. If several
//! functions have code of a line (macros, templates, inlined functions), their counts are added. In optimised code
//! a line may have several copies in one function; its count is then that of the copy executed most.
//!
//! Source files without an absolute path are left out: distributions hide the directory in which they built a library, and no
//! tool would find its sources.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use brownout_engine::{Coverage, CoveredModule};
use brownout_report::{CoverageReport, FunctionCoverage};
use brownout_symbols::{CodeFunction, CodeLine, ModuleId, Symbolizer};

use crate::arguments::CoverageFormat;
use crate::console::Console;
use crate::failure::Failure;
use crate::output_directory::write_file;

/// Writes the coverage of a run to `file`.
pub fn write(
    coverage: &Coverage,
    file: &Path,
    format: CoverageFormat,
    console: &Console,
) -> Result<(), Failure> {
    let mut symbolizer = Symbolizer::new();
    let mut report = CoverageReport::default();
    for (path, module) in &coverage.modules {
        let id = symbolizer.add_module(path, None);
        let lines = match format {
            CoverageFormat::Lcov => code_lines(&mut symbolizer, id),
            CoverageFormat::Functions => Vec::new(),
        };
        add_module(
            &mut report,
            (path, module),
            &lines,
            &symbolizer.functions(id),
        );
    }
    for problem in symbolizer.problems() {
        console.warn(problem);
    }
    if coverage.uncounted > 0 {
        console.warn(format_args!(
            "the coverage is incomplete: the program has too much code or too many threads to count all of it \
             ({} were left out)",
            coverage.uncounted
        ));
    }
    if coverage.outside_modules > 0 {
        console.remark(format_args!(
            "[generated]: blocks of code that is in no file were entered {} times; the coverage file does not include them",
            coverage.outside_modules
        ));
    }
    write_file(file, |out| match format {
        CoverageFormat::Lcov => report.write_lcov(out),
        CoverageFormat::Functions => report.write_functions(out),
    })?;
    console.remark(format_args!("coverage -> {}", file.display()));
    Ok(())
}

/// Ranges of a module's file with the number of their executions, in order.
struct Executed(Vec<(Range<u64>, u64)>);

impl Executed {
    /// The parts that overlap `code`.
    fn within(&self, code: &Range<u64>) -> impl Iterator<Item = (Range<u64>, u64)> {
        let Range { start, end } = *code;
        let first = self.0.partition_point(|(part, _)| part.end <= start);
        (self.0[first..].iter())
            .take_while(move |(part, _)| part.start < end)
            .map(move |(part, count)| (part.start.max(start)..part.end.min(end), *count))
    }

    /// The number of executions of the instruction executed most.
    fn most(&self, code: &Range<u64>) -> u64 {
        self.within(code).map(|(_, count)| count).max().unwrap_or(0)
    }

    /// The number of executions of the first instruction.
    fn entries(&self, code: &Range<u64>) -> u64 {
        self.most(&(code.start..code.start + 1))
    }
}

/// The source lines of a module, in the order of their code.
fn code_lines(symbolizer: &mut Symbolizer, id: ModuleId) -> Vec<CodeLine> {
    let mut lines = symbolizer.lines(id);
    lines.retain(|line| !line.code.is_empty() && line.file.is_absolute());
    lines.sort_by_key(|line| line.code.start);
    lines
}

/// Adds what was executed of one module.
fn add_module(
    report: &mut CoverageReport,
    (path, module): (&Path, &CoveredModule),
    lines: &[CodeLine],
    functions: &[CodeFunction],
) {
    let executed = Executed(module.executed());
    for function in functions {
        let parts = executed.within(&function.code);
        report.functions.push(FunctionCoverage {
            module: path.display().to_string(),
            name: function.name.clone(),
            entries: executed.entries(&function.code),
            bytes: function.code.end - function.code.start,
            executed_bytes: parts.map(|(part, _)| part.end - part.start).sum(),
        });
        if let Some(line) = line_at(lines, function.code.start) {
            let file = report.files.entry(path_text(&line.file)).or_default();
            let name = (line.line, function.name.clone());
            *file.functions.entry(name).or_default() += executed.entries(&function.code);
        }
    }
    for ((file, line), count) in line_counts(lines, functions, &executed) {
        let file = report.files.entry(path_text(file)).or_default();
        *file.lines.entry(line).or_default() += count;
    }
    for branch in module.branches() {
        if let Some(line) = line_at(lines, branch.offset) {
            let file = report.files.entry(path_text(&line.file)).or_default();
            let ways = [branch.taken, branch.not_taken];
            file.branches.entry(line.line).or_default().push(ways);
        }
    }
}

/// How often each line was executed.
fn line_counts<'a>(
    lines: &'a [CodeLine],
    functions: &[CodeFunction],
    executed: &Executed,
) -> BTreeMap<(&'a PathBuf, u32), u64> {
    let mut most_in_function: BTreeMap<(&PathBuf, u32, usize), u64> = BTreeMap::new();
    for CodeLine { code, file, line } in lines {
        let function = functions.partition_point(|function| function.code.start <= code.start);
        let most = most_in_function.entry((file, *line, function)).or_default();
        *most = executed.most(code).max(*most);
    }
    let mut counts = BTreeMap::new();
    for ((file, line, _), most) in most_in_function {
        *counts.entry((file, line)).or_default() += most;
    }
    counts
}

/// The line of the code at `offset`.
fn line_at(lines: &[CodeLine], offset: u64) -> Option<&CodeLine> {
    let after = lines.partition_point(|line| line.code.start <= offset);
    let line = lines[..after].last()?;
    line.code.contains(&offset).then_some(line)
}

fn path_text(path: &Path) -> String {
    path.display().to_string()
}
