//! How often the code of a target was executed, by source line and by function, and the formats in which that is written.
//!
//! [`write_lcov`](CoverageReport::write_lcov) writes the tracefile format of lcov, as `man geninfo` describes it.

use std::collections::BTreeMap;
use std::io::{self, Write};

/// The coverage of one run.
#[derive(Clone, Debug, Default)]
pub struct CoverageReport {
    /// By path of the source file.
    pub files: BTreeMap<String, FileCoverage>,
    /// All functions, including those without source lines.
    pub functions: Vec<FunctionCoverage>,
}

/// The coverage of one source file.
#[derive(Clone, Debug, Default)]
pub struct FileCoverage {
    /// How often each line with code was executed.
    pub lines: BTreeMap<u32, u64>,
    /// How often each function was entered, by its first line and name.
    pub functions: BTreeMap<(u32, String), u64>,
    /// How often each conditional branch of a line was taken and not taken. Branches that were never reached are not
    /// known.
    pub branches: BTreeMap<u32, Vec<[u64; 2]>>,
}

/// The coverage of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionCoverage {
    pub module: String,
    pub name: String,
    /// How often it was entered.
    pub entries: u64,
    /// Bytes of its code, and how many of them were executed.
    pub bytes: u64,
    pub executed_bytes: u64,
}

impl CoverageReport {
    /// Writes an lcov tracefile.
    pub fn write_lcov(&self, out: &mut dyn Write) -> io::Result<()> {
        for (path, file) in &self.files {
            writeln!(out, "TN:\nSF:{path}")?;
            file.write_lcov(out)?;
            writeln!(out, "end_of_record")?;
        }
        Ok(())
    }

    /// Writes a table of all functions, separated by tabs, with a line of headings.
    pub fn write_functions(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "entries\tbytes\texecuted_bytes\tfunction\tmodule")?;
        for function in &self.functions {
            let FunctionCoverage {
                module,
                name,
                entries,
                bytes,
                executed_bytes,
            } = function;
            writeln!(
                out,
                "{entries}\t{bytes}\t{executed_bytes}\t{name}\t{module}"
            )?;
        }
        Ok(())
    }
}

impl FileCoverage {
    fn write_lcov(&self, out: &mut dyn Write) -> io::Result<()> {
        for (line, name) in self.functions.keys() {
            writeln!(out, "FN:{line},{name}")?;
        }
        for ((_, name), entries) in &self.functions {
            writeln!(out, "FNDA:{entries},{name}")?;
        }
        let entered = self.functions.values().filter(|&&entries| entries > 0);
        writeln!(out, "FNF:{}\nFNH:{}", self.functions.len(), entered.count())?;

        let ways = (self.branches.iter()).flat_map(|(line, branches)| {
            let ways = branches.iter().enumerate();
            ways.flat_map(move |(block, ways)| {
                (ways.iter().enumerate()).map(move |way| (line, block, way))
            })
        });
        for (line, block, (way, count)) in ways.clone() {
            writeln!(out, "BRDA:{line},{block},{way},{count}")?;
        }
        let gone = ways.clone().filter(|&(_, _, (_, &count))| count > 0);
        writeln!(out, "BRF:{}\nBRH:{}", ways.count(), gone.count())?;

        for (line, count) in &self.lines {
            writeln!(out, "DA:{line},{count}")?;
        }
        let executed = self.lines.values().filter(|&&count| count > 0);
        writeln!(out, "LF:{}\nLH:{}", self.lines.len(), executed.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_lcov_tracefile_lists_functions_branches_and_lines_with_totals() {
        let file = FileCoverage {
            lines: BTreeMap::from([(3, 2), (4, 0)]),
            functions: BTreeMap::from([((3, "put".to_owned()), 2)]),
            branches: BTreeMap::from([(3, vec![[2, 0]])]),
        };
        let report = CoverageReport {
            files: BTreeMap::from([("/src/kv.c".to_owned(), file)]),
            functions: Vec::new(),
        };
        let mut text = Vec::new();
        report.write_lcov(&mut text).unwrap();
        let expected = "TN:\nSF:/src/kv.c\nFN:3,put\nFNDA:2,put\nFNF:1\nFNH:1\nBRDA:3,0,0,2\nBRDA:3,0,1,0\nBRF:2\nBRH:1\n\
                        DA:3,2\nDA:4,0\nLF:2\nLH:1\nend_of_record\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
