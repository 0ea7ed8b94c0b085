//! What may come in through dependencies: the licences and the source that `deny.toml` allows, from `cargo metadata`, so
//! that the check needs no other tool and is the same on every machine.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::shell::{cargo, root};

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// Wrappers of system calls beside rustix, which all crates use.
const SECOND_WRAPPERS: [&str; 1] = ["nix"];
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// What is wrong with the packages that the workspace depends on.
pub fn check() -> Result<Vec<String>> {
    let allowed = allowed_licences(&read("deny.toml")?)?;
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
    problems.extend(check_loader(
        &read("crates/brownout-engine/loader/Cargo.lock")?,
        &read("Cargo.lock")?,
    ));
    Ok(problems)
}

fn read(name: &str) -> Result<String> {
    std::fs::read_to_string(root().join(name)).with_context(|| name.to_owned())
}

/// `licenses.allow` of deny.toml.
fn allowed_licences(deny: &str) -> Result<Vec<String>> {
    let deny: toml::Table = deny.parse().context("deny.toml")?;
    let allow = deny
        .get("licenses")
        .and_then(|licences| licences.get("allow"))
        .and_then(toml::Value::as_array)
        .context("deny.toml: there is no licenses.allow")?;
    Ok(allow
        .iter()
        .filter_map(|licence| licence.as_str().map(str::to_owned))
        .collect())
}

/// What is wrong with one package of `cargo metadata`.
fn check_package(package: &Value, allowed: &[String]) -> Vec<String> {
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
        Some(CRATES_IO) => {}
        Some(source) => problems.push(format!(
            "{name} {version}: comes from {source}, not from crates.io"
        )),
    }
    let licence = text("license");
    if !is_allowed(licence, allowed) {
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

    fn allowed() -> Vec<String> {
        allowed_licences(
            "[licenses]\nallow = [\"MIT\", \"Apache-2.0\", \"Apache-2.0 WITH LLVM-exception\"]\n",
        )
        .unwrap()
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
            assert_eq!(is_allowed(expression, &allowed()), expected, "{expression}");
        }
    }

    #[test]
    fn a_package_needs_an_allowed_licence_and_source() {
        let problems = |licence: Value, source: Value| {
            let package =
                json!({"name": "a", "version": "1.0.0", "license": licence, "source": source});
            check_package(&package, &allowed()).len()
        };
        assert_eq!(problems(json!("MIT"), json!(CRATES_IO)), 0);
        assert_eq!(problems(json!("GPL-3.0"), json!(CRATES_IO)), 1);
        assert_eq!(problems(Value::Null, json!(CRATES_IO)), 1);
        assert_eq!(
            problems(json!("MIT"), json!("git+https://example.org/a")),
            1
        );
        assert_eq!(problems(json!("MIT"), Value::Null), 0);
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
