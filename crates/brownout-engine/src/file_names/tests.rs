//! How names change, and which paths that defines.

use super::*;

const POOL: FileId = FileId(0);
const OTHER: FileId = FileId(1);

fn identity(file: FileId) -> FileIdentity {
    FileIdentity {
        dev: 1,
        ino: u64::from(file.0),
    }
}

fn mapped(paths: &[(FileId, &str)]) -> FileNames {
    let mut names = FileNames::default();
    for &(file, path) in paths {
        names.mapped(file, identity(file), Path::new(path));
    }
    names
}

fn renamed<'a>(old: &'a str, new: &'a str) -> NameChange<'a> {
    NameChange::Renamed {
        old: Path::new(old),
        new: Path::new(new),
        replaced_unknown: false,
    }
}

fn linked(file: FileId, new: &str) -> NameChange<'_> {
    NameChange::Linked {
        file: identity(file),
        new: Path::new(new),
    }
}

fn unlinked(old: &str) -> NameChange<'_> {
    NameChange::Unlinked {
        old: Path::new(old),
    }
}

/// The paths that a change defines.
fn apply(names: &mut FileNames, change: NameChange<'_>) -> Vec<(FileId, PathBuf)> {
    let new = names.apply(change).into_iter();
    new.map(|new| (new.file, new.path)).collect()
}

#[test]
fn a_rename_changes_the_path_and_takes_it_from_the_file_that_had_it() {
    let mut names = mapped(&[(POOL, "/d/pool"), (OTHER, "/d/pool.tmp")]);
    assert_eq!(apply(&mut names, renamed("/d/x", "/d/y")), []);
    assert_eq!(
        apply(&mut names, renamed("/d/pool.tmp", "/d/pool")),
        [
            (POOL, "/d/pool (deleted)".into()),
            (OTHER, "/d/pool".into())
        ]
    );
    assert_eq!(names.named(Path::new("/d/pool")), Some(identity(OTHER)));
    assert_eq!(names.other_names().count(), 0);
}

#[test]
fn a_renamed_directory_takes_its_files_along() {
    let mut names = mapped(&[(POOL, "/d/a/b/pool"), (OTHER, "/d/ab")]);
    let moved = apply(&mut names, renamed("/d/a", "/d/c"));
    assert_eq!(moved, [(POOL, "/d/c/b/pool".into())]);
}

#[test]
fn exchanged_files_exchange_their_paths() {
    let mut names = mapped(&[(POOL, "/d/a"), (OTHER, "/d/b")]);
    let change = NameChange::Exchanged {
        old: Path::new("/d/a"),
        new: Path::new("/d/b"),
    };
    let expected = [(POOL, "/d/b".into()), (OTHER, "/d/a".into())];
    assert_eq!(apply(&mut names, change), expected);
}

#[test]
fn a_link_counts_once_the_first_name_is_gone() {
    let mut names = mapped(&[(POOL, "/d/pool.tmp")]);
    assert_eq!(apply(&mut names, linked(POOL, "/d/pool")), []);
    let other = names.other_names().next().map(|(_, path)| path.to_owned());
    assert_eq!(other, Some("/d/pool".into()));
    let expected = [(POOL, "/d/pool".into())];
    assert_eq!(apply(&mut names, unlinked("/d/pool.tmp")), expected);
    assert_eq!(names.other_names().count(), 0);
}

#[test]
fn a_file_without_a_name_gets_one() {
    let mut names = mapped(&[(POOL, "/d/#12 (deleted)")]);
    let expected = [(POOL, "/d/pool".into())];
    assert_eq!(apply(&mut names, linked(POOL, "/d/pool")), expected);
}

#[test]
fn an_unlinked_file_keeps_its_last_path() {
    let mut names = mapped(&[(POOL, "/d/pool")]);
    assert_eq!(apply(&mut names, unlinked("/d/pool")), []);
    assert_eq!(apply(&mut names, renamed("/d/a", "/d/b")), []);
}

#[test]
fn a_rename_between_names_of_one_file_does_nothing() {
    let mut names = mapped(&[(POOL, "/pm/a")]);
    let (a, b) = (Path::new("/pm/a"), Path::new("/pm/b"));
    let file = identity(POOL);
    names.apply(NameChange::Linked { file, new: b });
    let renamed = NameChange::Renamed {
        old: a,
        new: b,
        replaced_unknown: false,
    };
    assert_eq!(names.apply(renamed), []);
    assert_eq!(names.known().collect::<Vec<_>>(), [(file, a, 2)]);
}

#[test]
fn a_path_that_another_file_is_mapped_at_is_taken_at_the_next_change() {
    let mut names = mapped(&[(POOL, "/d/pool")]);
    assert_eq!(apply(&mut names, unlinked("/d/pool")), []);
    names.mapped(OTHER, identity(OTHER), Path::new("/d/pool"));
    let expected = [(POOL, "/d/pool (deleted)".into())];
    assert_eq!(apply(&mut names, renamed("/d/a", "/d/b")), expected);
    assert_eq!(names.named(Path::new("/d/pool")), Some(identity(OTHER)));
}

/// Looking at all files for each change, this would take minutes.
#[test]
fn a_change_looks_only_at_the_files_that_it_concerns() {
    let mut names = FileNames::default();
    const FILES: u32 = 20_000;
    for number in 0..FILES {
        let path = format!("/d/{number}.tmp");
        names.mapped(FileId(number), identity(FileId(number)), Path::new(&path));
    }
    for number in 0..FILES {
        let (old, new) = (format!("/d/{number}.tmp"), format!("/d/{number}"));
        let expected = [(FileId(number), PathBuf::from(&new))];
        assert_eq!(apply(&mut names, renamed(&old, &new)), expected);
    }
    assert_eq!(apply(&mut names, renamed("/d", "/e")).len(), FILES as usize);
}
