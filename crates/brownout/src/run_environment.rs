//! `environment.json`: the environment in which recoveries ran, so that `replay` can restore it.
//!
//! Environments contain secrets. The file can be read by its owner only, and variables whose names look like those of secrets, or whose
//! values are URLs with a password, are left out; their names are kept. For them, `replay` uses its own environment.
//!
//! Can miss: secrets under any other name.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::Path;
use std::{fs, io};

use brownout_recovery::path_text;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::output_directory::write_private_file;

/// The name of the file in a results directory.
pub const ENVIRONMENT: &str = "environment.json";

/// Parts of the names of variables that hold secrets.
const SECRETS: [&str; 10] = [
    "TOKEN",
    "SECRET",
    "PASS",
    "PWD",
    "KEY",
    "CREDENTIAL",
    "AUTH",
    "SESSION",
    "COOKIE",
    "DSN",
];
/// The shell's variables for directories.
const DIRECTORIES: [&str; 2] = ["PWD", "OLDPWD"];

/// The environment of a run. Names and values that are not UTF-8 are escaped as in [`path_text`].
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnvironment {
    variables: BTreeMap<String, String>,
    /// The names of variables that look like secrets.
    left_out: Vec<String>,
}

impl RunEnvironment {
    /// The environment of this process.
    pub fn current() -> Self {
        Self::of(std::env::vars_os())
    }

    fn of(all: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut environment = Self::default();
        for (name, value) in all {
            let (name, value) = (text(&name), text(&value));
            if is_secret(&name) || has_password(&value) {
                environment.left_out.push(name);
            } else {
                environment.variables.insert(name, value);
            }
        }
        environment.left_out.sort();
        environment
    }

    /// Writes the file, readable by its owner only.
    pub fn write(&self, directory: &Path) -> Result<(), Failure> {
        write_private_file(&directory.join(ENVIRONMENT), |out| {
            serde_json::to_writer_pretty(&mut *out, self)?;
            out.write_all(b"\n")
        })
    }

    /// Reads the file of a results directory; `None` if it has none.
    pub fn read(directory: &Path) -> Result<Option<Self>, Failure> {
        let path = directory.join(ENVIRONMENT);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Failure::ResultsFile { path, source }),
        };
        let parsed = serde_json::from_str(&text);
        parsed
            .map(Some)
            .map_err(|source| Failure::DamagedResults { path, source })
    }

    /// The variables of the run, and for those that were left out the values that they have now.
    pub fn restored(&self) -> Vec<(OsString, OsString)> {
        let variables = self.variables.iter();
        let mut restored: Vec<(OsString, OsString)> = variables
            .filter_map(|(name, value)| Some((os_text(name)?, os_text(value)?)))
            .collect();
        for name in self.left_out.iter().filter_map(|name| os_text(name)) {
            if let Some(value) = std::env::var_os(&name) {
                restored.push((name, value));
            }
        }
        restored
    }
}

fn is_secret(name: &str) -> bool {
    if DIRECTORIES.contains(&name) {
        return false;
    }
    let name = name.to_ascii_uppercase();
    SECRETS.iter().any(|part| name.contains(part))
}

/// Whether a value contains a URL of the form `scheme://user:password@host`; the user may be empty.
fn has_password(value: &str) -> bool {
    value.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        let user = authority.rsplit_once('@').map(|(user, _)| user);
        user.is_some_and(|user| user.contains(':'))
    })
}

fn text(text: &OsStr) -> String {
    path_text::to_text(Path::new(text))
}

fn os_text(text: &str) -> Option<OsString> {
    path_text::from_text(text).map(Into::into)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn secrets_are_named_and_left_out() {
        let odd = OsString::from_vec(vec![0xff, b'x']);
        let all = [
            ("POOL".into(), odd.clone()),
            ("GITHUB_TOKEN".into(), "t".into()),
            ("db_password".into(), "p".into()),
        ];
        let environment = RunEnvironment::of(all);
        assert_eq!(environment.left_out, ["GITHUB_TOKEN", "db_password"]);
        let root = tempfile::tempdir().unwrap();
        environment.write(root.path()).unwrap();
        let path = root.path().join(ENVIRONMENT);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let read = RunEnvironment::read(root.path()).unwrap().unwrap();
        assert_eq!(read, environment);
        assert!(read.restored().contains(&("POOL".into(), odd)));
    }

    #[test]
    fn names_and_values_that_look_like_secrets() {
        let names = ["PGPASS", "MYSQL_PWD", "HTTP_AUTH", "SESSION_ID", "cookie"];
        assert!(names.into_iter().all(is_secret));
        assert!(!["PWD", "OLDPWD", "PATH", "HOME"].into_iter().any(is_secret));
        for value in ["db://me:secret@host/x", "a redis://:secret@host"] {
            assert!(has_password(value), "{value}");
        }
        for value in ["http://host:80/a@b:c", "ssh://me@host:22", "me:x@host", ""] {
            assert!(!has_password(value), "{value}");
        }
        let all = [("DATABASE".into(), "db://me:secret@host/x".into())];
        assert_eq!(RunEnvironment::of(all).left_out, ["DATABASE"]);
    }

    #[test]
    fn results_without_an_environment_have_none() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(RunEnvironment::read(root.path()).unwrap(), None);
    }
}
