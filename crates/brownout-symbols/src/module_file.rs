//! One program file or library, read when the first of its addresses is looked up.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::debug_files::DebugDirectories;
use crate::dwarf::DebugInfo;
use crate::elf::{ElfFile, Segment};
use crate::imports::Imports;
use crate::symbol_table::SymbolTable;
use crate::symbolizer::{FileOffset, Probe};
use crate::{BuildId, CodeFunction, CodeLine, ModuleProblem, SourceFrame};
use brownout_names::demangle;

/// A module as it was recorded.
pub(crate) struct ModuleFile {
    path: PathBuf,
    recorded: Option<BuildId>,
    /// `None` until first needed.
    contents: Option<Contents>,
}

/// The content of the file; everything is empty if the file is unusable.
#[derive(Default)]
struct Contents {
    segments: Vec<Segment>,
    debug_info: Option<DebugInfo>,
    symbols: SymbolTable,
    imports: Option<Imports>,
}

impl ModuleFile {
    pub(crate) fn new(path: PathBuf, recorded: Option<BuildId>) -> Self {
        Self {
            path,
            recorded,
            contents: None,
        }
    }

    pub(crate) fn is(&self, path: &Path, recorded: Option<&BuildId>) -> bool {
        // Comparing paths by their components takes far longer, and modules are looked up for every frame.
        self.path.as_os_str() == path.as_os_str() && self.recorded.as_ref() == recorded
    }

    /// The frames at one code location. Problems are added to `problems`.
    pub(crate) fn frames(
        &mut self,
        probe: Probe,
        directories: &DebugDirectories,
        problems: &mut Vec<ModuleProblem>,
    ) -> Vec<SourceFrame> {
        let (path, contents) = self.contents(directories, problems);
        contents.frames(path, probe, problems)
    }

    /// The function that is called by the call that returns to `returns_to`.
    pub(crate) fn callee(
        &mut self,
        FileOffset(returns_to): FileOffset,
        directories: &DebugDirectories,
        problems: &mut Vec<ModuleProblem>,
    ) -> Option<String> {
        let (_, contents) = self.contents(directories, problems);
        let call = contents.address_of(returns_to.checked_sub(1)?)?;
        let returns_to = call.checked_add(1)?;
        let imports = contents.imports.as_ref()?;
        if let Some(name) = imports.callee(returns_to) {
            return Some(demangle(name));
        }
        let (name, within) = contents.symbols.find(imports.target(returns_to)?)?;
        (within == 0).then_some(name)
    }

    /// The symbol of the function that contains a source line.
    pub(crate) fn function_at_line(
        &mut self,
        file: &Path,
        line: u32,
        directories: &DebugDirectories,
        problems: &mut Vec<ModuleProblem>,
    ) -> Option<String> {
        let (_, contents) = self.contents(directories, problems);
        let found = contents.debug_info.as_ref()?.address_of_line(file, line);
        let address = found.unwrap_or_else(|problem| {
            problems.push(problem);
            None
        })?;
        let (symbol, _) = contents.symbols.symbol_at(address)?;
        Some(symbol.to_owned())
    }

    /// The source line of each piece of code.
    pub(crate) fn lines(
        &mut self,
        directories: &DebugDirectories,
        problems: &mut Vec<ModuleProblem>,
    ) -> Vec<CodeLine> {
        let (_, contents) = self.contents(directories, problems);
        let lines = contents.debug_info.as_ref().map(DebugInfo::lines);
        let lines = lines.transpose().unwrap_or_else(|problem| {
            problems.push(problem);
            None
        });
        (lines.unwrap_or_default().into_iter())
            .filter_map(|(address, size, file, line)| {
                let code = contents.offsets_of(address, size)?;
                Some(CodeLine { code, file, line })
            })
            .collect()
    }

    /// The functions of the symbol table, in the order of their addresses.
    pub(crate) fn functions(
        &mut self,
        directories: &DebugDirectories,
        problems: &mut Vec<ModuleProblem>,
    ) -> Vec<CodeFunction> {
        let (_, contents) = self.contents(directories, problems);
        (contents.symbols.functions())
            .filter_map(|(address, size, name)| {
                let code = contents.offsets_of(address, size)?;
                Some(CodeFunction { code, name })
            })
            .collect()
    }

    fn contents(
        &mut self,
        directories: &DebugDirectories,
        problems: &mut Vec<ModuleProblem>,
    ) -> (&Path, &mut Contents) {
        let Self {
            path,
            recorded,
            contents,
        } = self;
        let contents = contents
            .get_or_insert_with(|| Contents::load(path, recorded.as_ref(), directories, problems));
        (path, contents)
    }
}

impl Contents {
    fn load(
        path: &Path,
        recorded: Option<&BuildId>,
        directories: &DebugDirectories,
        problems: &mut Vec<ModuleProblem>,
    ) -> Self {
        // `[vdso]` and the like are not files, so failing to read them is not a problem.
        if !path.is_absolute() && path.to_string_lossy().starts_with('[') {
            return Self::default();
        }
        Self::read(path, recorded, directories, problems).unwrap_or_else(|problem| {
            problems.push(problem);
            Self::default()
        })
    }

    fn read(
        path: &Path,
        recorded: Option<&BuildId>,
        directories: &DebugDirectories,
        problems: &mut Vec<ModuleProblem>,
    ) -> Result<Self, ModuleProblem> {
        let file = ElfFile::open(path)?;
        file.require_build_id(recorded)?;
        let segments = file.segments()?;
        let debug_file = directories.debug_file(&file);
        let debug_info =
            DebugInfo::load(&file, debug_file.as_ref(), directories).unwrap_or_else(|problem| {
                problems.push(problem);
                None
            });
        let symbols = debug_file
            .as_ref()
            .map(SymbolTable::of)
            .filter(|symbols| !symbols.is_empty())
            .unwrap_or_else(|| SymbolTable::of(&file));
        Ok(Self {
            imports: Some(Imports::of(&file, &segments)),
            segments,
            debug_info,
            symbols,
        })
    }

    fn frames(
        &mut self,
        path: &Path,
        probe: Probe,
        problems: &mut Vec<ModuleProblem>,
    ) -> Vec<SourceFrame> {
        // A return address may belong to the next line or even the next function; the call instruction ends
        // just before it.
        let (FileOffset(shown), back) = match probe {
            Probe::Instruction(offset) => (offset, 0),
            Probe::ReturnAddress(offset) => (offset, 1),
        };
        let Some(address) = self.address_of(shown.saturating_sub(back)) else {
            return vec![SourceFrame::bare(path, shown)];
        };
        let bare = SourceFrame::bare(path, address.saturating_add(back));
        let mut frames = self.source_frames(address, &bare, problems);
        if frames.is_empty() {
            frames.push(bare);
        }
        // Without function names (assembly, missing .dwo files), the symbol table gives the name of the
        // outermost function.
        if let Some(outermost) = frames.last_mut()
            && outermost.function.is_none()
            && let Some((name, offset)) = self.symbols.find(address)
        {
            outermost.function = Some(name);
            outermost.function_offset = outermost.line.is_none().then_some(offset + back);
        }
        frames
    }

    fn source_frames(
        &mut self,
        address: u64,
        bare: &SourceFrame,
        problems: &mut Vec<ModuleProblem>,
    ) -> Vec<SourceFrame> {
        let Some(debug_info) = &self.debug_info else {
            return Vec::new();
        };
        let sources = match debug_info.frames(address) {
            Ok(sources) => sources,
            Err(problem) => {
                // Reported once per module: other addresses usually have the same problem.
                let reported = problems.iter().any(|known| known.path() == problem.path());
                if !reported {
                    problems.push(problem);
                }
                return Vec::new();
            }
        };
        let outermost = sources.len().saturating_sub(1);
        sources
            .into_iter()
            .enumerate()
            .map(|(depth, source)| SourceFrame {
                function: source.function,
                file: source.file,
                line: source.line,
                column: source.column,
                inlined: depth < outermost,
                ..bare.clone()
            })
            .collect()
    }

    /// The offsets in the file of the code at `address`.
    fn offsets_of(&self, address: u64, size: u64) -> Option<Range<u64>> {
        self.segments
            .iter()
            .filter(|segment| segment.executable)
            .find_map(|segment| {
                let within = address.checked_sub(segment.address)?;
                let start = segment.file_offset.checked_add(within)?;
                (within < segment.size).then_some(start..start.checked_add(size)?)
            })
    }

    /// The address of the byte at `offset` in the file. If two segments share a page of the file, the
    /// executable one is used.
    fn address_of(&self, offset: u64) -> Option<u64> {
        self.segments
            .iter()
            .filter_map(|segment| {
                let within = offset.checked_sub(segment.file_offset)?;
                let address = segment.address.checked_add(within)?;
                (within < segment.size).then_some((segment.executable, address))
            })
            .max_by_key(|&(executable, _)| executable)
            .map(|(_, address)| address)
    }
}
