//! System calls that rustix does not have. This is the only file of xtask that uses libc.

use std::io;
use std::time::Duration;

/// Processor time of all children that have been waited for.
pub fn children_time() -> io::Result<Duration> {
    // SAFETY: all fields are numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a `rusage` of this function, which the call fills in.
    if unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let duration = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    Ok(duration(usage.ru_utime) + duration(usage.ru_stime))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_time_of_a_child_counts_once_it_has_ended() {
        let before = children_time().unwrap();
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done";
        let status = Command::new("/bin/sh").args(["-c", script]).status();
        assert!(status.unwrap().success());
        assert!(children_time().unwrap() > before);
    }
}
