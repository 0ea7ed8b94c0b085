//! The private tmpfs on which the view is built, and the change of root onto it.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags};

/// Directories to mount on; any is suitable, because the mount is only visible for a moment.
const FOOTHOLDS: [&str; 5] = ["/tmp", "/run", "/var", "/usr", "/"];

/// The private tmpfs. It can only be reached through a descriptor once the new root is in place.
#[derive(Debug)]
pub struct Scratch {
    directory: OwnedFd,
}

impl Scratch {
    /// Makes a new tmpfs the root, with the real root at `old`.
    pub fn enter(size: Option<u64>) -> io::Result<Self> {
        // Unmounts on the machine apply here too; nothing done here is visible there.
        rustix::mount::mount_change(
            "/",
            MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC,
        )?;
        let options = match size {
            Some(size) => format!("mode=755,size={size}"),
            None => "mode=755".to_owned(),
        };
        let options = CString::new(options).expect("numbers and words hold no zero");
        let foothold = FOOTHOLDS
            .into_iter()
            .find(|directory| Path::new(directory).is_dir())
            .unwrap_or("/");
        rustix::mount::mount(
            "brownout",
            foothold,
            "tmpfs",
            MountFlags::NOSUID | MountFlags::NODEV,
            &*options,
        )?;
        rustix::process::chdir(foothold)?;
        for directory in ["old", "root", "layers", "proc", "islands"] {
            std::fs::create_dir(directory)?;
        }
        rustix::process::pivot_root(".", "old")?;
        rustix::process::chdir("/")?;
        mount_proc(Path::new("/proc"), Path::new("/old/proc"))?;
        rustix::mount::mount_bind("/root", "/root")?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open("/", flags, Mode::empty())?;
        Ok(Self { directory })
    }

    fn inside(&self, name: &str) -> PathBuf {
        PathBuf::from(format!(
            "/proc/self/fd/{}/{name}",
            self.directory.as_raw_fd()
        ))
    }

    /// The real root.
    pub fn old(&self) -> PathBuf {
        self.inside("old")
    }

    /// What becomes the root.
    pub fn root(&self) -> PathBuf {
        self.inside("root")
    }

    /// The directory of the upper layers.
    pub fn layers(&self) -> PathBuf {
        self.inside("layers")
    }

    /// The directory of private directories that are mounted elsewhere.
    pub fn islands(&self) -> PathBuf {
        self.inside("islands")
    }

    /// Makes `root` the root of this process, mounted over the scratch file system. Unlike `chroot` this allows recovery to
    /// create namespaces of its own.
    pub fn leave_for_root(&self) -> io::Result<()> {
        rustix::process::chdir("/root")?;
        rustix::mount::mount_move(".", "/")?;
        rustix::process::chroot(".")?;
        rustix::process::chdir("/")?;
        Ok(())
    }

    /// Free inodes of the file system.
    pub fn free_inodes(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstatfs(&self.directory)?.f_ffree)
    }
}

/// Mounts `/proc` of this namespace, or binds that of the machine if a container forbids a new one.
pub fn mount_proc(mount_point: &Path, real: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    if rustix::mount::mount("proc", mount_point, "proc", flags, None).is_err() {
        rustix::mount::mount_bind_recursive(real, mount_point)?;
    }
    Ok(())
}
