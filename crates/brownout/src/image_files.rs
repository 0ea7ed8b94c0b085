//! Checks where rebuilt files may be written: below a directory that the user chooses, without overwriting files and
//! without following symbolic links.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::failure::Failure;

/// The path below `directory` for the image of the file recorded as `path`.
pub fn image_path(directory: &Path, path: &Path) -> Result<PathBuf, Failure> {
    let refuse = || Failure::ImagePath {
        path: path.to_owned(),
    };
    let below_root = path.strip_prefix("/").map_err(|_| refuse())?;
    let plain = |component| matches!(component, Component::Normal(_));
    if below_root.as_os_str().is_empty() || !below_root.components().all(plain) {
        return Err(refuse());
    }
    Ok(directory.join(below_root))
}

/// Checks that `image` can be written safely: it does not exist, and no directory between `directory` and it is a
/// symbolic link.
pub fn check_free(directory: &Path, image: &Path) -> Result<(), Failure> {
    if fs::symlink_metadata(image).is_ok() {
        return Err(Failure::ImageExists {
            path: image.to_owned(),
        });
    }
    let between = image
        .ancestors()
        .skip(1)
        .take_while(|ancestor| *ancestor != directory);
    for ancestor in between {
        if fs::symlink_metadata(ancestor).is_ok_and(|metadata| metadata.is_symlink()) {
            return Err(Failure::ImageThroughLink {
                path: ancestor.to_owned(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn paths_that_leave_the_directory_are_rejected() {
        let out = Path::new("/out");
        assert_eq!(
            image_path(out, Path::new("/a/b")).unwrap(),
            Path::new("/out/a/b")
        );
        for path in ["relative", "/../etc/passwd", "/a/../../b", "/", ""] {
            assert!(image_path(out, Path::new(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn existing_files_and_symbolic_links_are_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join("own");
        fs::create_dir(&own).unwrap();
        symlink(&own, directory.path().join("link")).unwrap();
        fs::write(directory.path().join("file"), "").unwrap();
        let check = |name: &str| check_free(directory.path(), &directory.path().join(name));
        assert!(check("free/deep/pool").is_ok());
        assert!(matches!(check("file"), Err(Failure::ImageExists { .. })));
        assert!(matches!(check("link"), Err(Failure::ImageExists { .. })));
        assert!(matches!(
            check("link/pool"),
            Err(Failure::ImageThroughLink { .. })
        ));
    }
}
