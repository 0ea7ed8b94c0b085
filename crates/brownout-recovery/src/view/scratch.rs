//! The private tmpfs on which the view is built, and the change of root onto it.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags};

/// A directory to mount on; any will do, because the real one comes back into sight at once.
const FOOTHOLDS: [&str; 5] = ["/tmp", "/run", "/var", "/usr", "/"];

/// The private tmpfs. Only a descriptor leads to it once the new root is in place.
#[derive(Debug)]
pub struct Scratch {
    directory: OwnedFd,
}

impl Scratch {
    /// Makes a new tmpfs the root, with the real root at `old` in it.
    pub fn enter(size: Option<u64>) -> io::Result<Self> {
        // What is unmounted on the machine is to go here too; nothing done here is to be seen there.
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

    /// Where upper sides of layers are.
    pub fn layers(&self) -> PathBuf {
        self.inside("layers")
    }

    /// Where private directories are that show elsewhere.
    pub fn islands(&self) -> PathBuf {
        self.inside("islands")
    }

    /// Makes `root` the root of this process, over the scratch file system. Unlike a mere change of root this allows
    /// recovery to create namespaces of its own.
    pub fn leave_for_root(&self) -> io::Result<()> {
        rustix::process::chdir("/root")?;
        rustix::mount::mount_move(".", "/")?;
        rustix::process::chroot(".")?;
        rustix::process::chdir("/")?;
        Ok(())
    }

    /// Inodes that the file system has left.
    pub fn free_inodes(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstatfs(&self.directory)?.f_ffree)
    }
}

/// The processes of this namespace, or those of the machine where a container hides some of that.
pub fn mount_proc(mount_point: &Path, real: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    if rustix::mount::mount("proc", mount_point, "proc", flags, None).is_err() {
        rustix::mount::mount_bind_recursive(real, mount_point)?;
    }
    Ok(())
}
