//! The mounts of this process.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags};

/// A mount that can be reached by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    id: u64,
    pub mount_point: PathBuf,
    pub file_system: String,
    pub is_read_only: bool,
}

/// All mounts that can be reached by their paths.
#[derive(Debug, Default)]
pub struct Mounts(Vec<Mount>);

impl Mounts {
    /// Reads the mounts of this process.
    pub fn read() -> io::Result<Self> {
        let table = std::fs::read("/proc/self/mountinfo")?;
        let mut mounts: Vec<Mount> = table
            .split(|&byte| byte == b'\n')
            .filter_map(parse)
            .collect();
        mounts.retain(is_on_top);
        Ok(Self(mounts))
    }

    /// The mounts below a directory, not at it.
    pub fn below(&self, directory: &Path) -> impl Iterator<Item = &Mount> {
        self.0.iter().filter(move |mount| {
            mount.mount_point != directory && mount.mount_point.starts_with(directory)
        })
    }

    /// The mount that a path is on.
    pub fn of(&self, path: &Path) -> Option<&Mount> {
        self.0
            .iter()
            .filter(|mount| path.starts_with(&mount.mount_point))
            .max_by_key(|mount| mount.mount_point.components().count())
    }
}

/// Whether a mount can be reached: others may be mounted over it, or over a directory above it.
fn is_on_top(mount: &Mount) -> bool {
    rustix::fs::statx(
        CWD,
        &mount.mount_point,
        AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT,
        StatxFlags::MNT_ID,
    )
    // A mount that cannot be examined is assumed to be reachable.
    .map_or(true, |status| status.stx_mnt_id == mount.id)
}

/// One line: number, parent, device, root, mount point, options, optional fields, `-`, file system, source, options.
fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let id = str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let mount_point = unescape(fields.nth(3)?);
    let options = fields.next()?;
    let file_system = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some(Mount {
        id,
        mount_point: PathBuf::from(OsString::from_vec(mount_point)),
        file_system: String::from_utf8_lossy(file_system).into_owned(),
        is_read_only: options
            .split(|&byte| byte == b',')
            .any(|option| option == b"ro"),
    })
}

/// Spaces and other special characters are written as a backslash and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|digits| {
            byte == b'\\' && digits.iter().all(|digit| (b'0'..=b'7').contains(digit))
        });
        if let Some(digits) = digits {
            let code = digits
                .iter()
                .fold(0_u32, |code, digit| code * 8 + u32::from(digit - b'0'));
            bytes.push(code as u8);
            rest = &after[3..];
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_place_file_system_and_whether_it_can_be_written() {
        let line = br"36 35 98:0 /mnt1 /mnt/with\040space ro,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue";
        let mount = parse(line).unwrap();
        assert_eq!(mount.id, 36);
        assert_eq!(mount.mount_point, Path::new("/mnt/with space"));
        assert_eq!(mount.file_system, "ext3");
        assert!(mount.is_read_only);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn the_root_is_mounted_and_so_is_proc() {
        let mounts = Mounts::read().unwrap();
        assert_eq!(
            mounts.of(Path::new("/")).unwrap().mount_point,
            Path::new("/")
        );
        assert_eq!(
            mounts.of(Path::new("/proc/self/maps")).unwrap().file_system,
            "proc"
        );
        assert!(
            mounts
                .below(Path::new("/"))
                .any(|mount| mount.mount_point == Path::new("/proc"))
        );
    }
}
