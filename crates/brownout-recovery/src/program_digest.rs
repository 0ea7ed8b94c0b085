//! A digest of the programs that a recovery starts, so that results of different builds of them are not mixed.
//!
//! Can miss: programs that the command finds by `PATH`, and those that a script starts.

use std::path::{Path, PathBuf};

use crate::Recovery;

/// Files with these endings are programs even if they are not executable: an interpreter is given their names.
const SCRIPTS: [&str; 6] = ["sh", "py", "pl", "rb", "js", "lua"];

/// The digest of all programs that the commands name by their paths; empty if there are none.
pub fn program_digest(recovery: &Recovery) -> String {
    let commands = [Some(&recovery.command), recovery.client.as_ref()];
    let programs = commands
        .into_iter()
        .flatten()
        .flat_map(|command| programs(command, &recovery.directory));
    let contents: Vec<Vec<u8>> = programs
        .filter_map(|program| std::fs::read(program).ok())
        .collect();
    if contents.is_empty() {
        return String::new();
    }
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    for content in contents {
        hash.update(&content.len().to_le_bytes());
        hash.update(&content);
    }
    format!("{:032x}", hash.digest128())
}

fn programs(command: &str, directory: &Path) -> Vec<PathBuf> {
    // A command that is no list of words is refused elsewhere.
    let words = shell_words::split(command).unwrap_or_default().into_iter();
    let paths = words
        .filter(|word| word.contains('/') || is_script(Path::new(word)))
        .map(|word| directory.join(word));
    paths.filter(|path| is_program(path)).collect()
}

fn is_script(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| SCRIPTS.contains(&extension))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let is_executable = |file: std::fs::Metadata| {
        file.is_file() && (file.permissions().mode() & 0o111 != 0 || is_script(path))
    };
    path.metadata().is_ok_and(is_executable)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn another_program_has_another_digest_and_a_pool_has_none() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        let digest = |command: &str| program_digest(&Recovery::new(command, directory.path()));
        write("check.sh", "exit 0");
        write("pool", "a");
        let before = digest("sh check.sh ./pool");
        assert_eq!(before, digest("sh check.sh"));
        write("pool", "b");
        assert_eq!(before, digest("sh check.sh ./pool"));
        write("check.sh", "exit 1");
        assert_ne!(before, digest("sh check.sh ./pool"));
        assert_eq!(digest("true"), "");
    }
}
