//! The shared libraries of a program: what its dynamic loader would load, as `ldd` lists it.
//!
//! The loader that the program names is asked with its option `--list`, which those of glibc and musl have. The program itself does
//! not run. Can miss: libraries that are loaded with `dlopen`, and all of them if the loader does not answer.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::Endianness;
use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader as _, ProgramHeader as _};

/// The directories whose libraries belong to the system, and may differ between the machines of a distributed test.
const OF_SYSTEM: [&str; 4] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"];

/// The libraries of the program with this content, if it is started in `directory`, without those of the system; none if it is linked
/// statically, or no ELF file.
pub fn shared_libraries(program: &Path, content: &[u8], directory: &Path) -> Vec<PathBuf> {
    let Some(loader) = loader(content) else {
        return Vec::new();
    };
    let listed = Command::new(loader)
        .arg("--list")
        .arg(program)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let text = listed.map_or_else(|_| Vec::new(), |output| output.stdout);
    let mut libraries = listed_paths(&String::from_utf8_lossy(&text));
    libraries.retain(|path| !OF_SYSTEM.iter().any(|system| path.starts_with(system)));
    libraries.sort();
    libraries
}

/// The dynamic loader that the program names.
fn loader(content: &[u8]) -> Option<PathBuf> {
    let header = FileHeader64::<Endianness>::parse(content).ok()?;
    let endian = header.endian().ok()?;
    let mut segments = header.program_headers(endian, content).ok()?.iter();
    let named = segments.find(|segment| segment.p_type(endian) == PT_INTERP)?;
    let path = named.data(endian, content).ok()?;
    let path = PathBuf::from(std::str::from_utf8(path).ok()?.trim_end_matches('\0'));
    // Another one might run the program.
    let name = path.file_name()?.to_str()?;
    let has_option = name.starts_with("ld-linux") || name.starts_with("ld-musl");
    (path.is_absolute() && has_option).then_some(path)
}

/// The paths in lines such as `libm.so.6 => /lib/libm.so.6 (0x7f…)` and `/lib64/ld-linux-x86-64.so.2 (0x7f…)`.
fn listed_paths(text: &str) -> Vec<PathBuf> {
    let paths = text.lines().filter_map(|line| {
        let found = line.split(" => ").last()?;
        let path = found.rsplit_once(" (")?.0.trim();
        path.starts_with('/').then(|| PathBuf::from(path))
    });
    paths.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_what_loaders_list() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibm.so.6 => /lib/libm.so.6 (0x00007f4d)\n\
                    \tlibgone.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f4e)\n";
        let expected = ["/lib/libm.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(listed_paths(text), expected);
    }

    #[test]
    fn what_is_no_program_has_no_libraries() {
        let path = Path::new("/no/such/program");
        assert_eq!(
            shared_libraries(path, b"#!/bin/sh\n", path),
            [] as [PathBuf; 0]
        );
        assert_eq!(shared_libraries(path, b"\x7fELF", path), [] as [PathBuf; 0]);
    }

    #[test]
    fn libraries_of_the_system_do_not_belong_to_a_program() {
        let program = std::env::current_exe().unwrap();
        let content = std::fs::read(&program).unwrap();
        let libraries = shared_libraries(&program, &content, Path::new("/"));
        let is_c_library =
            |path: &PathBuf| path.starts_with("/usr/lib") || path.starts_with("/lib");
        assert!(!libraries.iter().any(is_c_library), "{libraries:?}");
    }
}
