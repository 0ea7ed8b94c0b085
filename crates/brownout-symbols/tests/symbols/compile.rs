//! Compiles the programs in `programs` and finds the addresses of their marks.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use brownout_symbols::{BuildId, FileOffset, Probe};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use tempfile::TempDir;

/// A compiled program in a temporary directory.
pub struct Program {
    pub path: PathBuf,
    directory: TempDir,
    /// Addresses of all symbols, read before stripping.
    symbols: HashMap<String, u64>,
    /// Their sizes.
    sizes: HashMap<String, u64>,
    /// Difference between addresses in `.text` and file offsets.
    text_bias: u64,
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/symbols/programs")
        .join(name)
}

/// The source line with the comment `line <mark>`.
pub fn line_of(name: &str, mark: &str) -> u32 {
    let text = fs::read_to_string(source(name)).unwrap();
    let comment = format!("line {mark}");
    let index = text.lines().position(|line| {
        line.split("/")
            .any(|c| c.trim_matches(['*', ' ']) == comment)
    });
    u32::try_from(index.expect("the mark exists")).unwrap() + 1
}

fn run(directory: &Path, program: &str, arguments: &[&str]) {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

impl Program {
    pub fn compile(name: &str, options: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let source = source(name);
        let source = source.to_str().unwrap();
        // Not all compilers add a build-id by default. A later option of the test can remove it.
        let (compiler, build_id) = match name.rsplit_once('.') {
            Some((_, "rs")) => ("rustc", "-Clink-arg=-Wl,--build-id"),
            Some((_, "cc")) => ("c++", "-Wl,--build-id"),
            _ => ("cc", "-Wl,--build-id"),
        };
        let mut arguments = vec![build_id];
        arguments.extend(options);
        arguments.extend([source, "-o", "program"]);
        run(directory.path(), compiler, &arguments);
        Self::in_directory(directory)
    }

    fn in_directory(directory: TempDir) -> Self {
        let path = directory.path().join("program");
        let bytes = fs::read(&path).unwrap();
        let elf = object::File::parse(&*bytes).unwrap();
        let text = elf.section_by_name(".text").unwrap();
        Self {
            text_bias: text.address() - text.file_range().unwrap().0,
            symbols: elf
                .symbols()
                .map(|s| (s.name().unwrap().to_owned(), s.address()))
                .collect(),
            sizes: elf
                .symbols()
                .map(|s| (s.name().unwrap().to_owned(), s.size()))
                .collect(),
            path,
            directory,
        }
    }

    /// The offsets in the file of the code of a function, and of the byte after it.
    pub fn code(&self, symbol: &str) -> std::ops::RangeInclusive<u64> {
        let FileOffset(start) = self.offset(symbol);
        start..=start + self.sizes[symbol]
    }

    pub fn address(&self, symbol: &str) -> u64 {
        self.symbols[symbol]
    }

    fn offset(&self, symbol: &str) -> FileOffset {
        FileOffset(self.address(symbol) - self.text_bias)
    }

    pub fn instruction(&self, symbol: &str) -> Probe {
        Probe::Instruction(self.offset(symbol))
    }

    pub fn return_address(&self, symbol: &str) -> Probe {
        Probe::ReturnAddress(self.offset(symbol))
    }

    pub fn build_id(&self) -> Option<BuildId> {
        let bytes = fs::read(&self.path).unwrap();
        let elf = object::File::parse(&*bytes).unwrap();
        BuildId::new(elf.build_id().unwrap()?)
    }

    /// Runs a binary utility with the program as the last argument.
    pub fn tool(&self, tool: &str, options: &[&str]) {
        let mut arguments = options.to_vec();
        arguments.push("program");
        run(self.directory.path(), tool, &arguments);
    }

    fn dwo_paths(&self) -> Vec<PathBuf> {
        fs::read_dir(self.directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "dwo"))
            .collect()
    }

    pub fn dwo_files(&self) -> usize {
        self.dwo_paths().len()
    }

    pub fn remove_dwo_files(&self) {
        for path in self.dwo_paths() {
            fs::remove_file(path).unwrap();
        }
    }

    /// Packs the `.dwo` files into `program.dwp` and deletes them.
    pub fn package_dwo_files(&self) {
        run(
            self.directory.path(),
            "dwp",
            &["-e", "program", "-o", "program.dwp"],
        );
        self.remove_dwo_files();
    }

    /// Moves debug information that the program shares with a copy of itself to a third file.
    pub fn factor_out_with_dwz(&self) {
        let directory = self.directory.path();
        fs::copy(&self.path, directory.join("copy")).unwrap();
        let arguments = [
            "-m",
            "shared.debug",
            "-M",
            "./shared.debug",
            "program",
            "copy",
        ];
        run(directory, "dwz", &arguments);
        assert!(directory.join("shared.debug").exists());
    }

    /// Moves the debug information to `program.debug` and adds a link to it to the program.
    pub fn split_debug_file_beside(&self) -> PathBuf {
        let directory = self.directory.path();
        run(
            directory,
            "objcopy",
            &["--only-keep-debug", "program", "program.debug"],
        );
        self.tool("strip", &["--strip-all"]);
        self.tool("objcopy", &["--add-gnu-debuglink=program.debug"]);
        directory.join("program.debug")
    }

    /// Moves the debug information to a debug directory, by build-id, and returns that directory.
    pub fn install_debug_file(&self) -> PathBuf {
        let build_id = self.build_id().unwrap().to_string();
        let (first, rest) = build_id.split_at(2);
        let root = self.directory.path().join("debug");
        let below = root.join(".build-id").join(first);
        fs::create_dir_all(&below).unwrap();
        let target = below.join(format!("{rest}.debug"));
        let keep = ["--only-keep-debug", "program", target.to_str().unwrap()];
        run(self.directory.path(), "objcopy", &keep);
        self.tool("strip", &["--strip-all"]);
        root
    }
}
