//! `[[oracle]]` in `brownout.toml`: requirements that are specific to one program.
//!
//! ```toml
//! [[oracle]]
//! id = "head-only-in-append"
//! summary = "the head of the log moves only in log_append"
//! stores = { file = "*.log", offset = "0x0..0x40" }
//! only-inside = ["log_append", "log_create"]
//!
//! [[oracle]]
//! id = "entry-before-head"
//! summary = "an entry is persistent before the head points to it"
//! persisted = { offset = "0x40.." }
//! before = { offset = "0..8" }
//!
//! [[oracle]]
//! id = "sealed"
//! summary = "a sealed log is not written"
//! category = "atomicity"
//! stores = { offset = "0x40.." }
//! never-after = { offset = "8..16", value = 1 }
//! ```
//!
//! Stores are selected by `file` (a pattern as for `--pm`), `offset` (a byte range of the file), `function`
//! (patterns, one of which matches a function on the stack), `source` (`"log.c:10-20"`, lines of which one is on the
//! stack) and `value` (the content of the bytes at that time). `severity` defaults to `bug` and `category` to
//! `ordering`.

use std::ops::{Range, RangeInclusive};
use std::path::Path;

use brownout_lint::oracle::{Declared, Demand, FunctionPattern, Oracle, Region};
use brownout_report::{Category, RuleInfo, RulePolicy, Severity};
use brownout_trace::selection::Patterns;
use serde::Deserialize;

/// An oracle as written in the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct OracleKeys {
    id: String,
    summary: String,
    #[serde(default = "bug")]
    severity: Severity,
    #[serde(default = "ordering")]
    category: Category,
    stores: Option<RegionKeys>,
    only_inside: Option<Vec<String>>,
    persisted: Option<RegionKeys>,
    before: Option<RegionKeys>,
    never_after: Option<RegionKeys>,
}

fn bug() -> Severity {
    Severity::Bug
}

fn ordering() -> Category {
    Category::Ordering
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RegionKeys {
    file: Option<String>,
    offset: Option<String>,
    function: Vec<String>,
    source: Option<String>,
    value: Option<u64>,
}

/// A validated oracle, from which one [`Oracle`] is created per linted trace.
#[derive(Clone, Debug)]
pub struct OracleSpec {
    rule: &'static RuleInfo,
    demand: Demand,
}

impl OracleSpec {
    pub fn rule(&self) -> &'static RuleInfo {
        self.rule
    }

    pub fn oracle(&self) -> Box<dyn Oracle> {
        Box::new(Declared::new(self.rule, self.demand.clone()))
    }
}

impl OracleKeys {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The oracle, or an error message. Relative file patterns are relative to `directory`.
    pub(super) fn spec(&self, directory: &Path) -> Result<OracleSpec, String> {
        let id_is_usable = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if self.id.is_empty() || !self.id.bytes().all(id_is_usable) {
            return Err(format!(
                "invalid oracle id `{}`: use only letters, digits and hyphens",
                self.id
            ));
        }
        if brownout_lint::rule(&self.id).is_some() {
            return Err(format!(
                "oracle id `{}` is already the id of a built-in rule",
                self.id
            ));
        }
        let demand = self
            .demand(directory)
            .map_err(|why| format!("oracle `{}`: {why}", self.id))?;
        // Leaked once per process; rules live as long as the process.
        let kept = |text: &str| -> &'static str { String::leak(text.to_owned()) };
        let rule = Box::leak(Box::new(RuleInfo {
            id: kept(&self.id),
            severity: self.severity,
            category: self.category,
            pedantic: false,
            policy: RulePolicy::NONE,
            summary: kept(&self.summary),
            explanation: explanation(&demand),
        }));
        Ok(OracleSpec { rule, demand })
    }

    fn demand(&self, directory: &Path) -> Result<Demand, String> {
        let forms = [
            self.only_inside.is_some(),
            self.before.is_some() || self.persisted.is_some(),
            self.never_after.is_some(),
        ];
        if forms.into_iter().filter(|&form| form).count() != 1 {
            let why = "needs exactly one of: `stores` with `only-inside`; `persisted` with `before`; `stores` with `never-after`";
            return Err(why.to_owned());
        }
        let region = |keys: &Option<RegionKeys>, name: &str| match keys {
            Some(keys) => keys.region(directory),
            None => Err(format!("`{name}` is missing")),
        };
        if let Some(functions) = &self.only_inside {
            return Ok(Demand::OnlyInside {
                stores: region(&self.stores, "stores")?,
                functions: patterns(functions),
            });
        }
        if self.never_after.is_some() {
            return Ok(Demand::NeverAfter {
                stores: region(&self.stores, "stores")?,
                mark: region(&self.never_after, "never-after")?,
            });
        }
        if self.stores.is_some() {
            return Err("`stores` cannot be combined with `persisted` and `before`".to_owned());
        }
        let first = region(&self.persisted, "persisted")?;
        if first.value.is_some() {
            return Err("`persisted` cannot have a `value`".to_owned());
        }
        Ok(Demand::PersistedBefore {
            first,
            then: region(&self.before, "before")?,
        })
    }
}

/// What `brownout explain` says about an oracle.
fn explanation(demand: &Demand) -> &'static str {
    match demand {
        Demand::OnlyInside { .. } => {
            "A requirement of this program, declared in its brownout.toml: stores to the bytes of `stores` are allowed only inside the \
             functions of `only-inside`.\n\n## Fix\n\nLet one of these functions make the store, or add the function that makes it \
             to the list."
        }
        Demand::PersistedBefore { .. } => {
            "A requirement of this program, declared in its brownout.toml: when the bytes of `before` are stored, a crash can no longer \
             lose stores to the bytes of `persisted`.\n\n## Fix\n\nFlush the bytes of `persisted` and execute a fence, or sync \
             them, before the store that the finding shows."
        }
        Demand::NeverAfter { .. } => {
            "A requirement of this program, declared in its brownout.toml: there is no store to the bytes of `stores` while the bytes \
             of `never-after` have the given value.\n\n## Fix\n\nMake the store before the value is set, or after it is reset."
        }
    }
}

fn patterns(functions: &[String]) -> Vec<FunctionPattern> {
    functions.iter().map(FunctionPattern::new).collect()
}

impl RegionKeys {
    fn region(&self, directory: &Path) -> Result<Region, String> {
        let files = self.file.iter().map(Into::into).collect::<Vec<_>>();
        let offset = self.offset.as_deref().map(offsets).transpose()?;
        if self.value.is_some() && offset.is_none() {
            return Err("`value` needs an `offset`".to_owned());
        }
        Ok(Region {
            files: Patterns::new(&files, directory).map_err(|error| error.to_string())?,
            offset: offset.unwrap_or(0..u64::MAX),
            functions: patterns(&self.function),
            source: self.source.as_deref().map(source).transpose()?,
            value: self.value,
        })
    }
}

/// `0x40..0x80`, `64..`, with the end left out.
fn offsets(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("invalid offset `{text}`: expected a range such as 0x40..0x80 or 64..");
    let (start, end) = text.split_once("..").ok_or_else(wrong)?;
    let start = number(start).ok_or_else(wrong)?;
    let end = match end.trim() {
        "" => u64::MAX,
        end => number(end).ok_or_else(wrong)?,
    };
    if start >= end {
        return Err(format!("invalid offset `{text}`: the range is empty"));
    }
    Ok(start..end)
}

fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// `log.c:10-20`, `log.c:10`.
fn source(text: &str) -> Result<(String, RangeInclusive<u32>), String> {
    let wrong =
        || format!("invalid source `{text}`: expected lines such as log.c:10-20 or log.c:10");
    let (file, lines) = text.rsplit_once(':').ok_or_else(wrong)?;
    let (first, last) = lines.split_once('-').unwrap_or((lines, lines));
    let first: u32 = first.trim().parse().map_err(|_| wrong())?;
    let last: u32 = last.trim().parse().map_err(|_| wrong())?;
    if file.is_empty() || first > last {
        return Err(wrong());
    }
    Ok((file.to_owned(), first..=last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> Result<OracleSpec, String> {
        let keys: OracleKeys = toml::from_str(text).map_err(|error| error.to_string())?;
        keys.spec(Path::new("/home/u/kv"))
    }

    const HEAD: &str = "id = 'x'\nsummary = 's'\n";

    fn wrong(rest: &str) -> String {
        spec(&format!("{HEAD}{rest}")).unwrap_err()
    }

    #[test]
    fn each_form_is_parsed() {
        let only =
            "stores = { offset = '0x10..0x20', source = 'a/log.c:3-4' }\nonly-inside = ['f*']";
        let only = spec(&format!("{HEAD}{only}")).unwrap();
        assert_eq!(only.rule().severity, Severity::Bug);
        let Demand::OnlyInside { stores, functions } = only.demand else {
            panic!("wrong kind of demand");
        };
        assert_eq!((stores.offset, functions.len()), (0x10..0x20, 1));
        assert_eq!(stores.source, Some(("a/log.c".to_owned(), 3..=4)));

        let before =
            "severity = 'warning'\npersisted = { file = '*.log' }\nbefore = { offset = '8..' }";
        let before = spec(&format!("{HEAD}{before}")).unwrap();
        assert_eq!(before.rule().severity, Severity::Warning);
        let Demand::PersistedBefore { then, .. } = before.demand else {
            panic!("wrong kind of demand");
        };
        assert_eq!(then.offset, 8..u64::MAX);

        let after = "stores = {}\nnever-after = { offset = '0..8', value = 1 }";
        let after = spec(&format!("{HEAD}{after}")).unwrap();
        assert!(matches!(after.demand, Demand::NeverAfter { mark, .. } if mark.value == Some(1)));
    }

    #[test]
    fn mistakes_are_reported() {
        assert!(wrong("stores = {}").contains("oracle `x`: needs exactly one of"));
        assert!(wrong("only-inside = ['f']").contains("`stores` is missing"));
        assert!(wrong("persisted = {}").contains("`before` is missing"));
        assert!(
            wrong("stores = {}\npersisted = {}\nbefore = {}").contains("cannot be combined with")
        );
        let offset = |text: &str| {
            wrong(&format!(
                "stores = {{ offset = '{text}' }}\nonly-inside = []"
            ))
        };
        assert!(offset("8").contains("expected a range such as"));
        assert!(offset("0x8..8").contains("the range is empty"));
        assert!(offset("-1..8").contains("expected a range such as"));
        assert!(wrong("stores = { source = 'log.c' }\nonly-inside = []").contains("log.c:10-20"));
        assert!(wrong("stores = { value = 1 }\nonly-inside = []").contains("needs an `offset`"));
        assert!(wrong("store = {}").contains("unknown field `store`"));
        let taken = spec("id = 'missing-flush'\nsummary = 's'\nstores = {}\nonly-inside = []");
        assert!(
            taken
                .unwrap_err()
                .contains("already the id of a built-in rule")
        );
        let blank = spec("id = 'a b'\nsummary = 's'\nstores = {}\nonly-inside = []");
        assert!(
            blank
                .unwrap_err()
                .contains("use only letters, digits and hyphens")
        );
    }
}
