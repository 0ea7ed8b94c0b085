//! The starting images of a campaign, each once, as changes of their parents: in memory and on disk (PMFuzz §4.5, §4.6).
//!
//! An image on disk is a file with its origin and the pages in which it differs from its parent. Roots differ from nothing. When the files
//! take more than the limit, images that a run has left are evicted, those first that have no children and were used least recently: their
//! files lose the pages and keep the origin, from which the campaign builds the image again by running the input of the test case on the
//! parent. An image whose parent is evicted can be read again when the parent was built. In memory are the images that were used most
//! recently; others are read when they are needed. Unlike PMFuzz, which compresses images, this store keeps what they change.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use brownout_trace::replay::{Content, PAGE};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::error::FuzzError;
use crate::image::{ImageId, ImageOrigin, StartImage};

/// The folder of images in the results directory.
const FOLDER: &str = "images";
const SUFFIX: &str = "image";
const VERSION: u32 = 2;
/// Images in memory may have changed so many bytes of their parents.
const MOST_MEMORY: u64 = 1 << 30;

#[derive(Debug)]
struct StoredImage {
    origin: ImageOrigin,
    /// Its content, if it is in memory.
    image: Option<StartImage>,
    /// Whether its file has no pages.
    is_evicted: bool,
    /// Bytes of its file.
    size: u64,
    /// Images that come from it and are not evicted.
    children: u32,
    last_used: u64,
    times_used: u64,
}

/// All starting images.
#[derive(Debug)]
pub struct ImageStore {
    folder: PathBuf,
    images: FxHashMap<ImageId, StoredImage>,
    /// In the order in which they were found.
    order: Vec<ImageId>,
    disk: u64,
    limit: u64,
    /// Bytes that the images in memory have changed, and how many may be.
    memory: u64,
    memory_limit: u64,
    clock: u64,
    evicted: u64,
}

#[derive(Serialize, Deserialize)]
struct ImageFile {
    version: u32,
    origin: ImageOrigin,
    /// Whether the pages are all that there are: the parent was evicted.
    is_whole: bool,
    /// For each file the length and the pages that differ from those of the parent; `None` if there is no such file.
    /// All of it is `None` if the image is evicted.
    changes: Option<Vec<Option<FileChanges>>>,
}

#[derive(Serialize, Deserialize)]
struct FileChanges {
    len: u64,
    pages: Vec<(u64, Vec<u8>)>,
}

impl ImageStore {
    /// A store in a results directory, whose files take at most `limit` bytes.
    pub fn create(out: &Path, limit: u64) -> Result<Self, FuzzError> {
        let folder = out.join(FOLDER);
        fs::create_dir_all(&folder).map_err(|source| FuzzError::Write {
            path: folder.clone(),
            source,
        })?;
        Ok(Self {
            folder,
            images: FxHashMap::default(),
            order: Vec::new(),
            disk: 0,
            limit,
            memory: 0,
            memory_limit: MOST_MEMORY,
            clock: 0,
            evicted: 0,
        })
    }

    /// Reads the images of an earlier campaign.
    pub fn load(&mut self) -> Result<(), FuzzError> {
        let mut waiting: Vec<(ImageId, ImageFile, u64)> = Vec::new();
        let entries = fs::read_dir(&self.folder).map_err(|source| FuzzError::Read {
            path: self.folder.clone(),
            source,
        })?;
        for path in entries.flatten().map(|entry| entry.path()) {
            let name = path.file_stem().and_then(|name| name.to_str());
            let is_image = path.extension().is_some_and(|suffix| suffix == SUFFIX);
            let id = name.and_then(|name| u128::from_str_radix(name, 16).ok());
            if let Some(id) = id.filter(|_| is_image) {
                let (file, size) = read(&path)?;
                waiting.push((ImageId(id), file, size));
            }
        }
        // Parents first. What has no parent, because its file was removed, is not used.
        loop {
            let before = waiting.len();
            let mut later = Vec::new();
            for (id, file, size) in waiting {
                let parent = file.origin.parent();
                if parent.is_none_or(|parent| self.images.contains_key(&parent)) {
                    self.restore(id, file, size)?;
                } else {
                    later.push((id, file, size));
                }
            }
            if later.is_empty() || later.len() == before {
                return Ok(());
            }
            waiting = later;
        }
    }

    fn restore(&mut self, id: ImageId, file: ImageFile, size: u64) -> Result<(), FuzzError> {
        let is_evicted = file.changes.is_none();
        let image = self.content(id, &file)?;
        self.insert(id, file.origin, (image, is_evicted), size);
        self.forget_beyond_limit(id);
        Ok(())
    }

    /// The content of an image, given its file; `None` if it or an image that it comes from is evicted.
    fn content(&mut self, id: ImageId, file: &ImageFile) -> Result<Option<StartImage>, FuzzError> {
        let Some(changes) = &file.changes else {
            return Ok(None);
        };
        let parent = match file.origin.parent() {
            Some(parent) if !file.is_whole => self.image(parent)?,
            _ => Some(StartImage::default()),
        };
        let image = parent.map(|parent| apply(changes, &parent));
        match image {
            Some(image) if image.id() != id => Err(FuzzError::Malformed {
                path: self.path(id),
                why: "its content is not that of its name".to_owned(),
            }),
            image => Ok(image),
        }
    }

    fn insert(
        &mut self,
        id: ImageId,
        origin: ImageOrigin,
        (image, is_evicted): (Option<StartImage>, bool),
        size: u64,
    ) {
        if !is_evicted {
            self.count_child(&origin, 1);
        }
        self.disk += size;
        self.memory += image.as_ref().map_or(0, |_| size);
        self.clock += 1;
        self.order.push(id);
        let stored = StoredImage {
            origin,
            image,
            is_evicted,
            size,
            children: 0,
            last_used: self.clock,
            times_used: 0,
        };
        self.images.insert(id, stored);
    }

    /// Adds an image, unless it is known. Returns its identity and whether it is new.
    pub fn add(
        &mut self,
        origin: ImageOrigin,
        image: &StartImage,
    ) -> Result<(ImageId, bool), FuzzError> {
        let id = image.id();
        if let Some(known) = self.images.get(&id) {
            if known.is_evicted {
                self.put_back(id, image)?;
            }
            return Ok((id, false));
        }
        let (shared, file) = self.file(origin, image)?;
        let size = self.write(id, &file)?;
        self.insert(id, file.origin, (Some(shared), false), size);
        self.evict(id)?;
        self.forget_beyond_limit(id);
        Ok((id, true))
    }

    /// Keeps an image again that was evicted and is built anew. It is written again, too: a process that continues the campaign needs it.
    pub fn put_back(&mut self, id: ImageId, image: &StartImage) -> Result<(), FuzzError> {
        let Some(origin) = self.origin(id).cloned() else {
            return Ok(());
        };
        let (shared, file) = self.file(origin, image)?;
        let size = self.write(id, &file)?;
        self.clock += 1;
        if self.images.get(&id).is_some_and(|known| known.is_evicted) {
            self.count_child(&file.origin, 1);
        }
        if let Some(known) = self.images.get_mut(&id) {
            self.disk = self.disk.saturating_sub(known.size) + size;
            if known.image.is_some() {
                self.memory = self.memory.saturating_sub(known.size);
            }
            self.memory += size;
            known.size = size;
            known.image = Some(shared);
            known.is_evicted = false;
            known.last_used = self.clock;
        }
        self.evict(id)?;
        self.forget_beyond_limit(id);
        Ok(())
    }

    fn count_child(&mut self, origin: &ImageOrigin, change: i32) {
        if let Some(parent) = origin.parent().and_then(|id| self.images.get_mut(&id)) {
            parent.children = parent.children.saturating_add_signed(change);
        }
    }

    /// What the file of an image holds, and the image, which shares pages with its parent.
    fn file(
        &mut self,
        origin: ImageOrigin,
        image: &StartImage,
    ) -> Result<(StartImage, ImageFile), FuzzError> {
        let parent = match origin.parent() {
            Some(parent) => self.image(parent)?,
            None => None,
        };
        let is_whole = parent.is_none();
        let parent = parent.unwrap_or_default();
        let shared = image.sharing_with(&parent);
        let file = ImageFile {
            version: VERSION,
            origin,
            is_whole,
            changes: Some(changes(&shared, &parent)),
        };
        Ok((shared, file))
    }

    fn path(&self, id: ImageId) -> PathBuf {
        self.folder.join(format!("{id}.{SUFFIX}"))
    }

    fn write(&self, id: ImageId, file: &ImageFile) -> Result<u64, FuzzError> {
        let path = self.path(id);
        let bytes = postcard::to_stdvec(file).map_err(|error| FuzzError::Malformed {
            path: path.clone(),
            why: error.to_string(),
        })?;
        write_atomically(&path, &bytes)?;
        Ok(bytes.len() as u64)
    }

    /// Removes the pages of images until the limit is kept: first of those from which none comes. `used` stays, and so do roots and solved
    /// images.
    fn evict(&mut self, used: ImageId) -> Result<(), FuzzError> {
        while self.disk > self.limit {
            let candidates = self.images.iter().filter(|(id, image)| {
                // What cannot be built again by running the target stays.
                let is_built = matches!(
                    image.origin,
                    ImageOrigin::Left { .. } | ImageOrigin::Crash { .. }
                );
                is_built && !image.is_evicted && **id != used
            });
            let oldest = candidates.min_by_key(|(_, image)| (image.children > 0, image.last_used));
            let Some((&id, image)) = oldest else {
                return Ok(());
            };
            let origin = image.origin.clone();
            let file = ImageFile {
                version: VERSION,
                origin: origin.clone(),
                is_whole: false,
                changes: None,
            };
            let size = self.write(id, &file)?;
            self.evicted += 1;
            self.count_child(&origin, -1);
            if let Some(image) = self.images.get_mut(&id) {
                if image.image.take().is_some() {
                    self.memory = self.memory.saturating_sub(image.size);
                }
                self.disk = self.disk.saturating_sub(image.size) + size;
                image.size = size;
                image.is_evicted = true;
            }
        }
        Ok(())
    }

    /// Whether images that cannot be built again take more than the limit.
    pub fn exceeds_limit(&self) -> bool {
        self.disk > self.limit
    }

    /// Forgets the content of images that can be read again, until the limit of memory is kept. `used` stays.
    fn forget_beyond_limit(&mut self, used: ImageId) {
        while self.memory > self.memory_limit {
            let in_memory = self.images.iter_mut();
            let in_memory = in_memory.filter(|(id, image)| image.image.is_some() && **id != used);
            let Some((_, oldest)) = in_memory.min_by_key(|(_, image)| image.last_used) else {
                return;
            };
            oldest.image = None;
            self.memory = self.memory.saturating_sub(oldest.size);
        }
    }

    /// The content of an image; `None` if it, or an image that it comes from, is evicted, or it is not known.
    pub fn image(&mut self, id: ImageId) -> Result<Option<StartImage>, FuzzError> {
        match self.images.get(&id) {
            None => return Ok(None),
            Some(known) if known.is_evicted => return Ok(None),
            Some(known) => {
                if let Some(image) = &known.image {
                    return Ok(Some(image.clone()));
                }
            }
        }
        let (file, size) = read(&self.path(id))?;
        let content = self.content(id, &file)?;
        if let (Some(content), Some(known)) = (&content, self.images.get_mut(&id)) {
            known.image = Some(content.clone());
            self.memory += size;
            self.forget_beyond_limit(id);
        }
        Ok(content)
    }

    /// Notes that an image is used, and returns its content.
    pub fn take(&mut self, id: ImageId) -> Result<Option<StartImage>, FuzzError> {
        self.clock += 1;
        if let Some(image) = self.images.get_mut(&id) {
            image.last_used = self.clock;
            image.times_used += 1;
        }
        self.image(id)
    }

    pub fn origin(&self, id: ImageId) -> Option<&ImageOrigin> {
        self.images.get(&id).map(|image| &image.origin)
    }

    /// How often an image was used.
    pub fn times_used(&self, id: ImageId) -> u64 {
        self.images.get(&id).map_or(0, |image| image.times_used)
    }

    /// All images, in the order in which they were found.
    pub fn ids(&self) -> &[ImageId] {
        &self.order
    }

    /// Bytes on disk.
    pub fn disk(&self) -> u64 {
        self.disk
    }

    /// How many images were evicted.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }
}

fn changes(image: &StartImage, parent: &StartImage) -> Vec<Option<FileChanges>> {
    let files = image.files.iter().enumerate().map(|(number, content)| {
        let content = content.as_ref()?;
        let nothing = Content::default();
        let known = parent.files.get(number).and_then(Option::as_ref);
        let unlike = content.pages_unlike(known.unwrap_or(&nothing));
        let zeros = [0; PAGE];
        let pages = unlike.into_iter().map(|number| {
            let bytes = content.page(number).unwrap_or(&zeros);
            (number, bytes.to_vec())
        });
        Some(FileChanges {
            len: content.len(),
            pages: pages.collect(),
        })
    });
    files.collect()
}

fn apply(changes: &[Option<FileChanges>], parent: &StartImage) -> StartImage {
    let files = changes.iter().enumerate().map(|(number, changes)| {
        let changes = changes.as_ref()?;
        let known = parent.files.get(number).and_then(Option::as_ref);
        let mut content = known.cloned().unwrap_or_default();
        content.resize(changes.len);
        for (number, bytes) in &changes.pages {
            content.write(number.saturating_mul(PAGE as u64), bytes);
        }
        Some(content)
    });
    StartImage::new(files.collect())
}

fn read(path: &Path) -> Result<(ImageFile, u64), FuzzError> {
    let bytes = fs::read(path).map_err(|source| FuzzError::Read {
        path: path.to_owned(),
        source,
    })?;
    let malformed = |why: String| FuzzError::Malformed {
        path: path.to_owned(),
        why,
    };
    let file: ImageFile =
        postcard::from_bytes(&bytes).map_err(|error| malformed(error.to_string()))?;
    match file.version {
        VERSION => Ok((file, bytes.len() as u64)),
        other => Err(malformed(format!(
            "it has version {other}; this brownout reads version {VERSION}"
        ))),
    }
}

/// Writes a file so that it is there completely or not at all, also if this process is killed.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), FuzzError> {
    let failed = |source| FuzzError::Write {
        path: path.to_owned(),
        source,
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".brownout-")
        .suffix(".tmp")
        .tempfile_in(folder)
        .map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(len: u64, writes: &[(u64, u8)]) -> StartImage {
        let mut content = Content::default();
        content.resize(len);
        for &(at, byte) in writes {
            content.write(at, &[byte]);
        }
        StartImage::new(vec![Some(content)])
    }

    fn left(parent: ImageId) -> ImageOrigin {
        ImageOrigin::Left { parent, case: 1 }
    }

    #[test]
    fn images_are_kept_once_and_read_again_as_they_were() {
        let out = tempfile::tempdir().unwrap();
        let mut store = ImageStore::create(out.path(), u64::MAX).unwrap();
        let none = StartImage::default();
        let (root, _) = store.add(ImageOrigin::Absent, &none).unwrap();
        let one = image(1 << 20, &[(0, 1), (9000, 2)]);
        let (first, is_new) = store.add(left(root), &one).unwrap();
        assert!(is_new);
        assert_eq!(store.add(left(root), &one).unwrap(), (first, false));
        let two = image(2 << 20, &[(0, 1), (9001, 2), (1 << 20, 3)]);
        let (second, _) = store.add(left(first), &two).unwrap();
        let mut again = ImageStore::create(out.path(), u64::MAX).unwrap();
        again.load().unwrap();
        assert_eq!(again.ids().len(), 3);
        assert_eq!(again.image(second).unwrap().unwrap().id(), second);
        assert_eq!(again.origin(second), Some(&left(first)));
        assert_eq!(again.disk(), store.disk());
    }

    #[test]
    fn an_image_costs_what_it_changes() {
        let out = tempfile::tempdir().unwrap();
        let mut store = ImageStore::create(out.path(), u64::MAX).unwrap();
        let pages: Vec<(u64, u8)> = (0..200).map(|page| (page * 4096, 7)).collect();
        let (first, _) = store
            .add(ImageOrigin::User, &image(1 << 20, &pages))
            .unwrap();
        let before = store.disk();
        let mut changed = pages.clone();
        changed.push((5, 9));
        store.add(left(first), &image(1 << 20, &changed)).unwrap();
        assert!(
            store.disk() - before < 2 * 4096,
            "{}",
            store.disk() - before
        );
    }

    #[test]
    fn images_without_children_are_evicted_and_keep_their_origin() {
        let out = tempfile::tempdir().unwrap();
        let mut store = ImageStore::create(out.path(), 20_000).unwrap();
        let (root, _) = store
            .add(ImageOrigin::User, &image(4096, &[(0, 1)]))
            .unwrap();
        let mut ids = Vec::new();
        for number in 0..10 {
            let child = image(4096, &[(0, 1), (number, 2)]);
            ids.push(store.add(left(root), &child).unwrap().0);
        }
        assert!(store.disk() <= 20_000);
        assert!(store.evicted() > 0 && store.image(ids[0]).unwrap().is_none());
        assert!(store.image(root).unwrap().is_some());
        assert!(store.image(ids[9]).unwrap().is_some());
        let mut again = ImageStore::create(out.path(), 20_000).unwrap();
        again.load().unwrap();
        assert_eq!(again.origin(ids[0]), Some(&left(root)));
        assert!(again.image(ids[0]).unwrap().is_none());
    }

    #[test]
    fn images_with_children_are_evicted_and_what_comes_from_them_is_read_when_they_are_back() {
        let out = tempfile::tempdir().unwrap();
        let mut store = ImageStore::create(out.path(), 14_000).unwrap();
        let one = |number: u64| image(1 << 16, &[(0, 1), (4096 * number, 2)]);
        let (root, _) = store.add(ImageOrigin::User, &one(0)).unwrap();
        let (first, _) = store.add(left(root), &one(1)).unwrap();
        let mut chain = vec![(root, one(0)), (first, one(1))];
        for number in 2..8 {
            let parent = chain.last().unwrap().0;
            // A chain of which every image but the last has a child.
            let (id, is_new) = store.add(left(parent), &one(number)).unwrap();
            assert!(is_new);
            chain.push((id, one(number)));
            assert!(store.disk() <= 14_000 && !store.exceeds_limit(), "{number}");
        }
        assert!(store.image(first).unwrap().is_none(), "it has a child");
        // The campaign builds them again, one after the other.
        for (id, image) in &chain {
            if store.image(*id).unwrap().is_none() {
                store.put_back(*id, image).unwrap();
            }
            assert_eq!(store.image(*id).unwrap().unwrap().id(), *id);
        }
        let mut again = ImageStore::create(out.path(), 14_000).unwrap();
        again.load().unwrap();
        assert_eq!((again.disk(), again.ids().len()), (store.disk(), 8));
    }

    #[test]
    fn images_that_cannot_be_built_again_stay_and_it_is_known_that_they_exceed_the_limit() {
        let out = tempfile::tempdir().unwrap();
        let mut store = ImageStore::create(out.path(), 1000).unwrap();
        let user = image(4096, &[(0, 1)]);
        let (root, _) = store.add(ImageOrigin::User, &user).unwrap();
        assert!(store.exceeds_limit() && store.image(root).unwrap().is_some());
    }

    #[test]
    fn images_that_are_not_in_memory_are_read() {
        let out = tempfile::tempdir().unwrap();
        let mut store = ImageStore::create(out.path(), u64::MAX).unwrap();
        store.memory_limit = 10_000;
        let mut parent = store
            .add(ImageOrigin::Absent, &StartImage::default())
            .unwrap()
            .0;
        let mut ids = Vec::new();
        for number in 0..20 {
            let child = image(1 << 20, &[(0, 1), (4096 * number, 2)]);
            parent = store.add(left(parent), &child).unwrap().0;
            ids.push(parent);
        }
        let held = |store: &ImageStore| {
            let images = store.images.values();
            images.filter(|image| image.image.is_some()).count()
        };
        assert!(held(&store) <= 3 && store.memory <= 10_000);
        for id in ids {
            assert_eq!(store.take(id).unwrap().unwrap().id(), id);
            assert!(held(&store) <= 3, "{}", held(&store));
        }
    }

    #[test]
    fn a_damaged_image_is_an_error_that_names_its_file() {
        let out = tempfile::tempdir().unwrap();
        let mut store = ImageStore::create(out.path(), u64::MAX).unwrap();
        let (id, _) = store
            .add(ImageOrigin::User, &image(4096, &[(0, 1)]))
            .unwrap();
        let path = out.path().join(FOLDER).join(format!("{id}.image"));
        let mut bytes = fs::read(&path).unwrap();
        bytes.truncate(bytes.len() / 2);
        fs::write(&path, bytes).unwrap();
        let mut again = ImageStore::create(out.path(), u64::MAX).unwrap();
        let error = again.load().unwrap_err();
        assert!(
            error.to_string().contains(&format!("{id}.image")),
            "{error}"
        );
    }
}
