//! Starting images: what is at the paths of the persistent files when the target starts.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use brownout_trace::replay::{Content, PAGE};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

/// Equal for equal images only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ImageId(pub u128);

impl fmt::Display for ImageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Serialize for ImageId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ImageId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = u128::from_str_radix(&text, 16);
        number.map(Self).map_err(serde::de::Error::custom)
    }
}

/// Where an image comes from. Images are a tree: that of an input has the image on which the input ran as its parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImageOrigin {
    /// There is no persistent file.
    Absent,
    /// The files that the user has at these paths.
    User,
    /// What the target left when it ran on `parent` with the input of a test case.
    Left { parent: ImageId, case: u64 },
    /// What a crash before an event of that run left.
    Crash {
        parent: ImageId,
        case: u64,
        event: u64,
    },
    /// Bytes of `parent` were solved for. No run may be able to leave that.
    Solved { parent: ImageId },
}

impl ImageOrigin {
    pub fn parent(&self) -> Option<ImageId> {
        match self {
            Self::Absent | Self::User => None,
            Self::Left { parent, .. } | Self::Crash { parent, .. } | Self::Solved { parent } => {
                Some(*parent)
            }
        }
    }
}

/// The content of all persistent files. A file that is not there, or that is not among them, does not exist.
#[derive(Clone, Debug, Default)]
pub struct StartImage {
    pub files: Arc<Vec<Option<Content>>>,
}

impl StartImage {
    pub fn new(mut files: Vec<Option<Content>>) -> Self {
        // Files at the end that do not exist do not count: the number of files may grow.
        while files.pop_if(|last| last.is_none()).is_some() {}
        Self {
            files: Arc::new(files),
        }
    }

    /// The files that are at these paths now.
    pub fn read(paths: &[PathBuf]) -> io::Result<Self> {
        let files: io::Result<Vec<_>> = paths.iter().map(|path| read_file(path)).collect();
        Ok(Self::new(files?))
    }

    /// Its identity; takes time proportional to its size.
    pub fn id(&self) -> ImageId {
        let files = self.files.iter();
        let digests = files.flat_map(|content| {
            let digest = content.as_ref().map_or(1, Content::digest);
            digest.to_le_bytes()
        });
        ImageId(xxh3_128(&digests.collect::<Vec<u8>>()))
    }

    /// The image with other bytes: the number of the file, the offset, and the byte.
    pub fn with_bytes(&self, bytes: &[(usize, u64, u8)]) -> Self {
        if bytes.is_empty() {
            return self.clone();
        }
        let mut files = self.files.to_vec();
        for &(file, offset, byte) in bytes {
            if let Some(Some(content)) = files.get_mut(file)
                && offset < content.len()
            {
                content.write(offset, &[byte]);
            }
        }
        Self::new(files)
    }

    /// The same image, which shares the pages that are equal with its parent.
    pub fn sharing_with(&self, parent: &Self) -> Self {
        let files = self.files.iter().enumerate().map(|(number, content)| {
            let content = content.as_ref()?;
            let known = parent.files.get(number).and_then(Option::as_ref);
            Some(known.map_or_else(|| content.clone(), |known| share(content, known)))
        });
        Self::new(files.collect())
    }
}

/// The content of a file, the holes of which take no time; `None` if there is no such file.
fn read_file(path: &Path) -> io::Result<Option<Content>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let len = file.metadata()?.len();
    let mut content = Content::default();
    content.resize(len);
    let mut buffer = vec![0; 64 * PAGE];
    let mut at = 0;
    while at < len {
        at = match seek(&file, SeekFrom::Data(at)) {
            Ok(start) => start,
            // There is only a hole behind.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = seek(&file, SeekFrom::Hole(at))?;
        while at < end {
            let most = buffer.len().min((end - at) as usize);
            match file.read_at(&mut buffer[..most], at)? {
                0 => return Ok(Some(content)),
                count => {
                    content.write(at, &buffer[..count]);
                    at += count as u64;
                }
            }
        }
    }
    Ok(Some(content))
}

/// Gives `content` the pages of `known` where both are equal.
fn share(content: &Content, known: &Content) -> Content {
    let mut shared = known.clone();
    shared.resize(content.len());
    let zeros = [0; PAGE];
    for number in shared.pages_unlike(content) {
        // A page of zeros may be stored or not.
        let [old, new] = [&shared, content].map(|content| content.page(number).unwrap_or(&zeros));
        if old != new {
            let new = *new;
            shared.write(number * PAGE as u64, &new);
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(len: u64, at: u64, byte: u8) -> Content {
        let mut content = Content::default();
        content.resize(len);
        content.write(at, &[byte]);
        content
    }

    #[test]
    fn missing_files_at_the_end_do_not_count() {
        let one = StartImage::new(vec![Some(content(4096, 0, 1))]);
        let padded = StartImage::new(vec![Some(content(4096, 0, 1)), None]);
        assert_eq!(one.id(), padded.id());
        assert_eq!(StartImage::new(vec![None]).id(), StartImage::default().id());
        let other = StartImage::new(vec![Some(content(4096, 0, 2))]);
        assert_ne!(one.id(), other.id());
    }

    #[test]
    fn a_large_file_with_holes_is_read_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        let file = File::create(&path).unwrap();
        file.set_len(1 << 40).unwrap();
        file.write_all_at(b"far", 1 << 39).unwrap();
        let image = StartImage::read(&[path, folder.path().join("absent")]).unwrap();
        let pool = image.files[0].as_ref().unwrap();
        let mut bytes = [0; 3];
        pool.read(1 << 39, &mut bytes);
        assert_eq!((pool.len(), &bytes), (1 << 40, b"far"));
        assert_eq!(image.files.len(), 1);
    }

    #[test]
    fn bytes_of_files_are_replaced_and_others_ignored() {
        let image = StartImage::new(vec![Some(content(64, 0, 1))]);
        let solved = image.with_bytes(&[(0, 3, 9), (0, 64, 9), (1, 0, 9)]);
        let mut expected = content(64, 0, 1);
        expected.write(3, &[9]);
        assert_eq!(solved.id(), StartImage::new(vec![Some(expected)]).id());
    }

    #[test]
    fn an_image_that_shares_pages_is_the_same_image() {
        let parent = StartImage::new(vec![Some(content(1 << 20, 5000, 1))]);
        let mut changed = content(1 << 20, 9000, 7);
        changed.write(1 << 19, b"far");
        let child = StartImage::new(vec![Some(changed), Some(content(64, 0, 3))]);
        let shared = child.sharing_with(&parent);
        assert_eq!(shared.id(), child.id());
        let grown = StartImage::new(vec![Some(content(3 << 20, 5000, 1))]);
        assert_eq!(grown.sharing_with(&parent).id(), grown.id());
        assert_eq!(parent.sharing_with(&grown).id(), parent.id());
    }
}
