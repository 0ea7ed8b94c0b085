//! The mappings of a process as `/proc` lists them.

use crate::instruments::unwind::CodeMap;
use crate::translator::space::ModuleAt;

pub struct MappedRange {
    pub start: u64,
    pub end: u64,
    pub readable: bool,
    executable: bool,
    /// Where the first byte of its file is mapped.
    base: Option<u64>,
}

pub struct Mappings(Vec<MappedRange>);

pub fn hex(text: &str) -> u64 {
    u64::from_str_radix(text, 16).expect("a hexadecimal number")
}

impl Mappings {
    /// Of the process with that name in `/proc`.
    pub fn of(process: &str) -> Self {
        let text = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("mappings");
        let mut file = (String::new(), 0);
        let parse = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (start, end) = fields[0].split_once('-').expect("a range");
            let (start, offset) = (hex(start), hex(fields[2]));
            let path = fields.get(5).copied().unwrap_or_default();
            if path != file.0 || offset == 0 {
                file = (path.to_owned(), start.wrapping_sub(offset));
            }
            let base = (!path.is_empty()).then_some(file.1);
            let [readable, executable] = ['r', 'x'].map(|right| fields[1].contains(right));
            MappedRange {
                start,
                end: hex(end),
                readable,
                executable,
                base,
            }
        };
        Self(text.lines().map(parse).collect())
    }

    pub fn at(&self, addr: u64) -> Option<&MappedRange> {
        self.0.iter().find(|m| (m.start..m.end).contains(&addr))
    }

    fn code_at(&self, pc: u64) -> Option<&MappedRange> {
        self.at(pc).filter(|m| m.executable)
    }
}

impl CodeMap for Mappings {
    fn epoch(&self) -> u32 {
        // Executables and libraries all map their code before the first event.
        1
    }

    fn module_at(&self, pc: u64) -> Option<ModuleAt> {
        let base = self.code_at(pc)?.base?;
        Some(ModuleAt {
            base,
            generation: 1,
        })
    }

    fn is_code(&self, pc: u64) -> bool {
        self.code_at(pc).is_some()
    }
}
