//! The sources of the target, as far as they are those that it was built from.
//!
//! A source that is newer than the program is refused: its lines may have moved. So is one whose line has another text than
//! the finding was identified by, which the caller notices because the finding has another id then.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use brownout_fix::{MacroDefinitions, RepairRefusal, SourceTree};
use brownout_report::Frame;

/// A file with what its macros mean.
pub struct ProgramSource {
    pub tree: SourceTree,
    pub macros: MacroDefinitions,
}

type Loaded = Result<Rc<ProgramSource>, RepairRefusal>;

/// The sources that frames name, each read once.
pub struct ProgramSources {
    /// The directory the target was started in: paths of frames may be relative to it.
    directory: PathBuf,
    files: RefCell<HashMap<String, Loaded>>,
}

impl ProgramSources {
    pub fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            files: RefCell::default(),
        }
    }

    /// The path of a frame's source on this machine.
    pub fn path(&self, file: &str) -> PathBuf {
        source_path(&self.directory, file)
    }

    /// The text of a source that was read, by its path on this machine. What repairs change refers to it, not to what the file has become.
    pub fn text(&self, path: &Path) -> Option<String> {
        let files = self.files.borrow();
        let mut read = files.values().flatten();
        let found = read.find(|source| Path::new(&source.tree.path) == path)?;
        Some(found.tree.text.clone())
    }

    /// The source of a frame, whether or not the program was built from it.
    pub fn any(&self, file: &str) -> Loaded {
        let mut files = self.files.borrow_mut();
        let loaded = files.entry(file.to_owned());
        loaded
            .or_insert_with(|| load(&self.path(file)).map(Rc::new))
            .clone()
    }

    /// The source of a frame, if the program was built from it.
    pub fn current(&self, frame: &Frame) -> Loaded {
        let file = frame.file.as_deref().ok_or(RepairRefusal::NoSource)?;
        let source = self.any(file)?;
        let modified = |path: &Path| fs::metadata(path).ok()?.modified().ok();
        let written = modified(&self.path(file));
        let built = modified(Path::new(&frame.module));
        match (written, built) {
            (Some(written), Some(built)) if written > built => Err(RepairRefusal::Stale {
                file: file.to_owned(),
                why: "it is newer than the program",
            }),
            _ => Ok(source),
        }
    }
}

/// The path of a frame's source on this machine, for a target that was started in `directory`.
pub fn source_path(directory: &Path, file: &str) -> PathBuf {
    let path: PathBuf = directory.join(file).components().collect();
    fs::canonicalize(&path).unwrap_or(path)
}

fn load(path: &Path) -> Result<ProgramSource, RepairRefusal> {
    let file = path.to_string_lossy().into_owned();
    let text = fs::read_to_string(path).map_err(|error| RepairRefusal::Unreadable {
        file: file.clone(),
        why: error.to_string(),
    })?;
    let tree = SourceTree::new(&file, text)?;
    let macros = MacroDefinitions::of(&tree, &|header, from| {
        let path = Path::new(from).parent()?.join(header);
        let text = fs::read_to_string(&path).ok()?;
        SourceTree::new(&path.to_string_lossy(), text).ok()
    });
    Ok(ProgramSource { tree, macros })
}
