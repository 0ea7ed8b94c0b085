//! What may come in through dependencies: the licences and the sources that `deny.toml` allows, so that the check needs no other
//! tool and is the same on every machine. Packages of the workspace are those of `cargo metadata`; those of other workspaces, which may
//! not be there yet, are those of their lock files.
//!
//! What it can miss: the licences of packages that only another workspace uses, because a lock file does not have them.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::shell::{cargo, root};

/// The registry that is allowed if `deny.toml` names none, as for `cargo deny`.
const CRATES_IO: &str = "https://github.com/rust-lang/crates.io-index";
/// The lock files of the workspaces beside this one.
const OTHER_LOCKS: [&str; 2] = [
    "crates/brownout-engine/loader/Cargo.lock",
    "fuzz/Cargo.lock",
];
/// Wrappers of system calls beside rustix, which all crates use.
const SECOND_WRAPPERS: [&str; 1] = ["nix"];
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// What is wrong with the packages that the workspace depends on.
pub fn check() -> Result<Vec<String>> {
    let allowed = Allowed::parse(&read("deny.toml")?)?;
    let output = cargo(&[
        "metadata",
        "--format-version",
        "1",
        "--filter-platform",
        PLATFORM,
    ])?
    .output()
    .context("cannot run cargo")?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        bail!("cargo metadata: {}", message.trim());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata lists no packages")?;
    let mut problems: Vec<String> = packages
        .iter()
        .flat_map(|package| check_package(package, &allowed))
        .collect();
    for lock in OTHER_LOCKS {
        let found = check_sources(&read(lock)?, &allowed.sources)?;
        problems.extend(found.map(|problem| format!("{lock}: {problem}")));
    }
    problems.extend(check_loader(
        &read("crates/brownout-engine/loader/Cargo.lock")?,
        &read("Cargo.lock")?,
    ));
    Ok(problems)
}

fn read(name: &str) -> Result<String> {
    std::fs::read_to_string(root().join(name)).with_context(|| name.to_owned())
}

/// What deny.toml allows.
struct Allowed {
    /// `licenses.allow`.
    licences: Vec<String>,
    sources: AllowedSources,
}

impl Allowed {
    fn parse(deny: &str) -> Result<Allowed> {
        let deny: toml::Table = deny.parse().context("deny.toml")?;
        let licences = list(&deny, "licenses", "allow");
        Ok(Allowed {
            licences: licences.context("deny.toml: there is no licenses.allow")?,
            sources: AllowedSources::parse(&deny)?,
        })
    }
}

/// `[sources]` of deny.toml: where packages may come from.
struct AllowedSources {
    /// The addresses of registries.
    registries: Vec<String>,
    /// The addresses of git repositories.
    repositories: Vec<String>,
}

impl AllowedSources {
    fn parse(deny: &toml::Table) -> Result<AllowedSources> {
        for key in ["unknown-registry", "unknown-git"] {
            let level = deny.get("sources").and_then(|sources| sources.get(key));
            if level.and_then(toml::Value::as_str) != Some("deny") {
                bail!("deny.toml: sources.{key} is not \"deny\"");
            }
        }
        let registries = list(deny, "sources", "allow-registry");
        Ok(AllowedSources {
            registries: registries.unwrap_or_else(|| vec![CRATES_IO.to_owned()]),
            repositories: list(deny, "sources", "allow-git").unwrap_or_default(),
        })
    }

    /// Whether a package may come from here: a source as cargo writes it.
    fn allow(&self, source: &str) -> bool {
        let is_in = |known: &[String], address: &str| known.iter().any(|one| one == address);
        match source.split_once('+') {
            Some(("registry", address)) => is_in(&self.registries, address),
            Some(("sparse", address)) => {
                is_in(&self.registries, address) || is_in(&self.registries, source)
            }
            Some(("git", address)) => {
                let address = address.split(['?', '#']).next().unwrap_or(address);
                is_in(&self.repositories, address)
            }
            _ => false,
        }
    }
}

/// A list of strings in a section of deny.toml, if it is there.
fn list(deny: &toml::Table, section: &str, key: &str) -> Option<Vec<String>> {
    let values = deny.get(section)?.get(key)?.as_array()?.iter();
    Some(
        values
            .filter_map(|value| value.as_str().map(str::to_owned))
            .collect(),
    )
}

/// The packages of a lock file that come from elsewhere.
fn check_sources<'a>(
    lock: &str,
    allowed: &'a AllowedSources,
) -> Result<impl Iterator<Item = String> + 'a> {
    let lock: toml::Table = lock.parse().context("a lock file")?;
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let packages = packages.cloned().unwrap_or_default().into_iter();
    Ok(packages.filter_map(|package| {
        let text = |field: &str| package.get(field).and_then(toml::Value::as_str);
        // Our own have none.
        let source = text("source").filter(|source| !allowed.allow(source))?;
        let (name, version) = (text("name")?, text("version")?);
        Some(foreign(name, version, source))
    }))
}

fn foreign(name: &str, version: &str, source: &str) -> String {
    format!("{name} {version}: comes from {source}, which is not in the lists of deny.toml")
}

/// What is wrong with one package of `cargo metadata`.
fn check_package(package: &Value, allowed: &Allowed) -> Vec<String> {
    let text = |field: &str| package[field].as_str().unwrap_or_default();
    let (name, version) = (text("name"), text("version"));
    let mut problems = Vec::new();
    match package["source"].as_str() {
        // Our own.
        None => {
            let is_published = package["publish"]
                .as_array()
                .is_none_or(|to| !to.is_empty());
            for dependency in package["dependencies"].as_array().into_iter().flatten() {
                let other = dependency["name"].as_str().unwrap_or_default();
                if SECOND_WRAPPERS.contains(&other) {
                    problems.push(format!("{name}: depends on {other}; use rustix"));
                }
                // Cargo leaves such a dependency out of what it publishes.
                let is_left_out = dependency["kind"] == "dev" && dependency["path"].is_string();
                if dependency["req"] == "*" && is_published && !is_left_out {
                    problems.push(format!("{name}: depends on {other} without a version"));
                }
            }
        }
        Some(source) if allowed.sources.allow(source) => {}
        Some(source) => problems.push(foreign(name, version, source)),
    }
    let licence = text("license");
    if !is_allowed(licence, &allowed.licences) {
        let licence = if licence.is_empty() { "none" } else { licence };
        problems.push(format!(
            "{name} {version}: its licence ({licence}) is not in the list of deny.toml"
        ));
    }
    problems
}

/// Whether an SPDX expression can be met with allowed licences alone.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        // The way to write OR before SPDX.
        .replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    let met = any_of(&mut rest, allowed);
    met == Some(true) && rest.is_empty()
}

/// `A OR B OR …`; nothing if the expression cannot be read.
fn any_of(words: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let mut met = all_of(words, allowed)?;
    while let ["OR", rest @ ..] = *words {
        *words = rest;
        met |= all_of(words, allowed)?;
    }
    Some(met)
}

/// `A AND B AND …`
fn all_of(words: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let mut met = one(words, allowed)?;
    while let ["AND", rest @ ..] = *words {
        *words = rest;
        met &= one(words, allowed)?;
    }
    Some(met)
}

/// A licence, with an exception perhaps, or an expression in parentheses.
fn one(words: &mut &[&str], allowed: &[String]) -> Option<bool> {
    match *words {
        ["(", rest @ ..] => {
            *words = rest;
            let met = any_of(words, allowed)?;
            let [")", rest @ ..] = *words else {
                return None;
            };
            *words = rest;
            Some(met)
        }
        [licence, "WITH", exception, rest @ ..] => {
            *words = rest;
            Some(allowed.contains(&format!("{licence} WITH {exception}")))
        }
        [licence, rest @ ..] => {
            *words = rest;
            Some(allowed.iter().any(|known| known == licence))
        }
        [] => None,
    }
}

/// The loader has a lock file of its own: it must agree with that of the workspace.
fn check_loader(loader: &str, workspace: &str) -> Vec<String> {
    let workspace = locked(workspace);
    locked(loader)
        .into_iter()
        .filter(|package| package.0 != "brownout-loader" && !workspace.contains(package))
        .map(|(name, version)| {
            format!("crates/brownout-engine/loader/Cargo.lock: {name} {version} is not what Cargo.lock has")
        })
        .collect()
}

/// Names and versions in a lock file.
fn locked(lock: &str) -> Vec<(String, String)> {
    let lock: toml::Table = lock.parse().unwrap_or_default();
    let packages = lock.get("package").and_then(toml::Value::as_array);
    packages
        .into_iter()
        .flatten()
        .filter_map(|package| {
            let text = |field: &str| Some(package.get(field)?.as_str()?.to_owned());
            Some((text("name")?, text("version")?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const DENY: &str = "[licenses]\nallow = [\"MIT\", \"Apache-2.0\", \"Apache-2.0 WITH LLVM-exception\"]\n\n\
        [sources]\nunknown-registry = \"deny\"\nunknown-git = \"deny\"\nallow-git = [\"https://example.org/b\"]\n";

    fn allowed() -> Allowed {
        Allowed::parse(DENY).unwrap()
    }

    #[test]
    fn licences_are_read_as_expressions() {
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("MIT OR GPL-3.0", true),
            ("MIT AND GPL-3.0", false),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0 OR (MIT AND Apache-2.0)", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", false),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("MIT WITH LLVM-exception", false),
            ("", false),
            ("(MIT", false),
        ] {
            assert_eq!(
                is_allowed(expression, &allowed().licences),
                expected,
                "{expression}"
            );
        }
    }

    #[test]
    fn a_package_needs_an_allowed_licence_and_source() {
        let problems = |licence: Value, source: Value| {
            let package =
                json!({"name": "a", "version": "1.0.0", "license": licence, "source": source});
            check_package(&package, &allowed()).len()
        };
        let crates_io = || json!(format!("registry+{CRATES_IO}"));
        assert_eq!(problems(json!("MIT"), crates_io()), 0);
        assert_eq!(problems(json!("GPL-3.0"), crates_io()), 1);
        assert_eq!(problems(Value::Null, crates_io()), 1);
        for (source, expected) in [
            ("git+https://example.org/a", 1),
            ("git+https://example.org/b?branch=main#0123", 0),
            ("registry+https://example.org/index", 1),
        ] {
            assert_eq!(problems(json!("MIT"), json!(source)), expected, "{source}");
        }
        assert_eq!(problems(json!("MIT"), Value::Null), 0);
    }

    #[test]
    fn sources_are_those_that_deny_toml_lists() {
        let registry = DENY.replace(
            "[sources]",
            "[sources]\nallow-registry = [\"https://example.org/index\"]",
        );
        let sources = Allowed::parse(&registry).unwrap().sources;
        assert!(sources.allow("registry+https://example.org/index"));
        assert!(!sources.allow(&format!("registry+{CRATES_IO}")));
        assert!(Allowed::parse(&DENY.replace("unknown-git = \"deny\"", "")).is_err());
    }

    #[test]
    fn the_packages_of_a_lock_file_have_allowed_sources() {
        let lock = "[[package]]\nname = \"own\"\nversion = \"0.0.0\"\n\n\
                    [[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"git+https://example.org/a#01\"\n";
        let allowed = allowed().sources;
        let found: Vec<String> = check_sources(lock, &allowed).unwrap().collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("a 1.0.0"), "{found:?}");
    }

    #[test]
    fn our_own_packages_name_versions() {
        let package = json!({"name": "a", "version": "1.0.0", "license": "MIT", "source": null,
            "dependencies": [{"name": "b", "req": "*"}, {"name": "c", "req": "^1"}]});
        assert_eq!(check_package(&package, &allowed()).len(), 1);
        let mut unpublished = package.clone();
        unpublished["publish"] = json!([]);
        assert_eq!(check_package(&unpublished, &allowed()).len(), 0);
        let for_tests = json!({"name": "a", "version": "1.0.0", "license": "MIT", "source": null,
            "dependencies": [{"name": "b", "req": "*", "kind": "dev", "path": "/b"}]});
        assert_eq!(check_package(&for_tests, &allowed()).len(), 0);
    }

    #[test]
    fn one_crate_wraps_system_calls() {
        let package = json!({"name": "a", "version": "1.0.0", "license": "MIT", "source": null,
            "dependencies": [{"name": "nix", "req": "^0.30"}, {"name": "rustix", "req": "^1"}]});
        assert_eq!(check_package(&package, &allowed()).len(), 1);
    }

    #[test]
    fn the_loader_is_locked_to_the_versions_of_the_workspace() {
        let lock = |version: &str| {
            format!(
                "[[package]]\nname = \"brownout-loader\"\nversion = \"0\"\n\n[[package]]\nname = \"a\"\nversion = \"{version}\"\n"
            )
        };
        assert!(check_loader(&lock("1.0.0"), &lock("1.0.0")).is_empty());
        assert_eq!(check_loader(&lock("1.0.0"), &lock("1.0.1")).len(), 1);
    }
}
