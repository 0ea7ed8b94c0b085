//! The table `[sync]` of `brownout.toml`: the target's own locks (HawkSet §4).
//!
//! ```toml
//! [sync]
//! acquire = ["ticket_lock"]
//! acquire-shared = ["table_read_lock"]
//! release = ["ticket_unlock", { function = "table_unlock", argument = 1 }]
//! try = [{ function = "ticket_try_lock", success = [1] }]
//! try-shared = [{ function = "table_try_read", argument = 1, success = [0] }]
//! ```
//!
//! A function is named as for `--watch`. `argument` is the index of the argument that is the address of the lock, 0 unless given.
//! `success` are the results, as 32-bit numbers, with which a function has acquired the lock.

use brownout_libraries::LockFunction;
use brownout_names::FunctionPattern;
use brownout_race::CustomLock;
use serde::Deserialize;

/// Arguments in registers.
pub(super) const MAX_ARGUMENT: u8 = 5;

/// The keys of the table, all optional.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct SyncKeys {
    acquire: Vec<LockKeys>,
    acquire_shared: Vec<LockKeys>,
    release: Vec<LockKeys>,
    r#try: Vec<LockKeys>,
    try_shared: Vec<LockKeys>,
}

/// A function, alone or with what is special about it.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected the name of a function, or a table with `function`, `argument` and `success`"
)]
enum LockKeys {
    Name(String),
    Table(LockTable),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockTable {
    function: String,
    #[serde(default)]
    argument: u8,
    #[serde(default)]
    success: Vec<i64>,
}

impl LockKeys {
    fn table(&self) -> LockTable {
        match self {
            LockKeys::Table(table) => table.clone(),
            LockKeys::Name(function) => LockTable {
                function: function.clone(),
                argument: 0,
                success: Vec::new(),
            },
        }
    }
}

impl SyncKeys {
    /// The functions, or what is wrong with them.
    pub fn locks(&self) -> Result<Vec<CustomLock>, String> {
        let mut locks = Vec::new();
        let lists = [
            (&self.acquire, LockFunction::Exclusive, false),
            (&self.acquire_shared, LockFunction::Shared, false),
            (&self.release, LockFunction::Release, false),
            (&self.r#try, LockFunction::Exclusive, true),
            (&self.try_shared, LockFunction::Shared, true),
        ];
        for (functions, operation, tries) in lists {
            for table in functions.iter().map(LockKeys::table) {
                locks.push(lock(&table, operation, tries)?);
            }
        }
        Ok(locks)
    }
}

fn lock(table: &LockTable, operation: LockFunction, tries: bool) -> Result<CustomLock, String> {
    let name = &table.function;
    if name.is_empty() {
        return Err("a function of [sync] has no name".to_owned());
    }
    if table.argument > MAX_ARGUMENT {
        return Err(format!(
            "`{name}`: argument {} is not recorded; the last one is {MAX_ARGUMENT}",
            table.argument
        ));
    }
    if tries && table.success.is_empty() {
        return Err(format!(
            "`{name}`: a function that tries needs `success`, the results with which it has acquired the lock"
        ));
    }
    if operation == LockFunction::Release && !table.success.is_empty() {
        return Err(format!(
            "`{name}`: a function that releases a lock has no `success`"
        ));
    }
    let mut success = Vec::new();
    for &value in &table.success {
        let narrow = i32::try_from(value).map(|value| value as u32);
        let narrow = narrow.or_else(|_| u32::try_from(value));
        let narrow =
            narrow.map_err(|_| format!("`{name}`: success {value} has more than 32 bits"))?;
        success.push(narrow);
    }
    Ok(CustomLock {
        function: FunctionPattern::new(name),
        operation,
        argument: table.argument,
        success,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locks(text: &str) -> Result<Vec<CustomLock>, String> {
        let keys: SyncKeys = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        keys.locks()
    }

    #[test]
    fn functions_are_named_alone_or_with_arguments() {
        let found = locks(
            r#"acquire = ["lock"]
               release = [{ function = "unlock", argument = 1 }]
               try = [{ function = "try_lock", success = [1, -1] }]"#,
        )
        .unwrap();
        let short: Vec<_> = found
            .iter()
            .map(|lock| (lock.function.text(), lock.operation, lock.argument))
            .collect();
        assert_eq!(
            short,
            [
                ("lock", LockFunction::Exclusive, 0),
                ("unlock", LockFunction::Release, 1),
                ("try_lock", LockFunction::Exclusive, 0),
            ]
        );
        assert_eq!(found[2].success, [1, u32::MAX]);
    }

    #[test]
    fn mistakes_are_named() {
        let why = locks(r#"try = ["try_lock"]"#).unwrap_err();
        assert!(why.contains("needs `success`"), "{why}");
        let why = locks(r#"acquire = [{ function = "f", argument = 6 }]"#).unwrap_err();
        assert!(why.contains("argument 6"), "{why}");
        let why = locks(r#"release = [{ function = "f", success = [0] }]"#).unwrap_err();
        assert!(why.contains("has no `success`"), "{why}");
        assert!(locks(r#"aquire = ["f"]"#).is_err());
        assert!(locks("acquire = [7]").is_err());
    }
}
