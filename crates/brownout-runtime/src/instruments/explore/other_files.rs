//! Reports that an explored process uses files whose content, or existence, a crash does not decide: what it does then depends on more than
//! the explored bytes, and what is known about it is only good for as long as these files stay as they are.
//!
//! Files of the system do not count, nor do those that the dynamic linker opens before the program starts.
//!
//! What it can miss: files below a directory of the system that belong to the program under test.

use super::STATE;
use crate::arch::instruments::pm::syscalls;
use crate::instruments::other_inputs;
use crate::instruments::pm::kernel::stat_at;
use crate::sys::linux;
use crate::target_memory::read_cstr;
use crate::wire;
use brownout_ring::input;

/// Directories whose files are the system's.
const OF_SYSTEM: &[&[u8]] = &[
    b"/usr/", b"/lib/", b"/lib64/", b"/etc/", b"/proc/", b"/sys/", b"/dev/",
];
/// Those of their files that are not the same in each run.
const RANDOM: &[&[u8]] = &[b"/dev/random", b"/dev/urandom"];

const LONGEST_PATH: usize = 4096;

/// Reports the file that a call opens or looks up, if it is another one than the explored files.
pub fn note(nr: u32, args: &[u64; 6]) {
    if !other_inputs::is_reporting() {
        return;
    }
    let Some((directory, path)) = named(nr, args) else {
        return;
    };
    let text = read_cstr(path, LONGEST_PATH).unwrap_or_default();
    let text = text.strip_suffix(b"\0").unwrap_or(&text);
    if text.is_empty() {
        // It is about a descriptor, which was reported when it was opened.
        return;
    }
    if RANDOM.contains(&text) {
        wire::note_input(input::RANDOM);
    } else if !is_of_system(text) && !is_explored(directory, path) {
        wire::note_input(input::FILES);
    }
}

/// The directory and the path that a call is given.
pub(crate) fn named(nr: u32, args: &[u64; 6]) -> Option<(i32, u64)> {
    match nr {
        linux::__NR_openat
        | linux::__NR_newfstatat
        | linux::__NR_statx
        | linux::__NR_faccessat
        | linux::__NR_faccessat2
        | linux::__NR_readlinkat => Some((args[0] as i32, args[1])),
        linux::__NR_statfs | linux::__NR_chdir => Some((linux::AT_FDCWD, args[0])),
        _ if syscalls::OPENS.contains(&nr) || syscalls::LOOKS_UP.contains(&nr) => {
            Some((linux::AT_FDCWD, args[0]))
        }
        _ => None,
    }
}

fn is_of_system(path: &[u8]) -> bool {
    // A path that goes up may lead anywhere.
    let goes_up = path.split(|&byte| byte == b'/').any(|name| name == b"..");
    !goes_up && OF_SYSTEM.iter().any(|known| path.starts_with(known))
}

fn is_explored(directory: i32, path: u64) -> bool {
    let Some(stat) = stat_at((directory, path), 0) else {
        return false;
    };
    STATE.lock().file_of(stat.st_dev, stat.st_ino).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_system_are_found_by_their_path() {
        let of_system = ["/usr/lib/libc.so.6", "/etc/localtime", "/proc/self/maps"];
        assert!(of_system.iter().all(|path| is_of_system(path.as_bytes())));
        let others = ["/home/usr/pool", "usr/pool", "/usrlocal", "/usr/../pool"];
        assert!(!others.iter().any(|path| is_of_system(path.as_bytes())));
    }
}
