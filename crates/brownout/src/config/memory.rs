//! The table `[memory]` of `brownout.toml`: the target's own allocators of persistent memory.
//!
//! ```toml
//! [memory]
//! allocate = [{ function = "slab_alloc", size = 0 }, { function = "new_node", bytes = 64 }]
//! ```
//!
//! A function is named as for `--watch`, and returns the address of what it has allocated. The size is the argument with the index `size`,
//! or always `bytes`.

use brownout_libraries::AllocatedSize;
use brownout_names::FunctionPattern;
use brownout_race::CustomAllocator;
use serde::Deserialize;

use super::sync::MAX_ARGUMENT;

/// The keys of the table, all optional.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct MemoryKeys {
    allocate: Vec<AllocateTable>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AllocateTable {
    function: String,
    size: Option<u8>,
    bytes: Option<u64>,
}

impl MemoryKeys {
    /// The functions, or what is wrong with them.
    pub fn allocators(&self) -> Result<Vec<CustomAllocator>, String> {
        self.allocate.iter().map(AllocateTable::allocator).collect()
    }
}

impl AllocateTable {
    fn allocator(&self) -> Result<CustomAllocator, String> {
        let name = &self.function;
        if name.is_empty() {
            return Err("a function of [memory] has no name".to_owned());
        }
        let size = match (self.size, self.bytes) {
            (Some(argument), None) if argument > MAX_ARGUMENT => {
                return Err(format!(
                    "`{name}`: argument {argument} is not recorded; the last one is {MAX_ARGUMENT}"
                ));
            }
            (Some(argument), None) => AllocatedSize::Argument(argument),
            (None, Some(bytes @ 1..)) => AllocatedSize::Bytes(bytes),
            (None, Some(0)) => return Err(format!("`{name}`: `bytes` is 0")),
            _ => {
                return Err(format!(
                    "`{name}`: an allocator needs either `size`, the index of the argument that is the size, or `bytes`"
                ));
            }
        };
        Ok(CustomAllocator {
            function: FunctionPattern::new(name),
            size,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocators(text: &str) -> Result<Vec<CustomAllocator>, String> {
        let keys: MemoryKeys = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        keys.allocators()
    }

    #[test]
    fn the_size_is_an_argument_or_always_the_same() {
        let found = allocators(
            r#"allocate = [{ function = "slab_alloc", size = 1 }, { function = "new_node", bytes = 64 }]"#,
        )
        .unwrap();
        let sizes: Vec<_> = found
            .iter()
            .map(|allocator| (allocator.function.text(), allocator.size))
            .collect();
        let argument = AllocatedSize::Argument(1);
        let bytes = AllocatedSize::Bytes(64);
        assert_eq!(sizes, [("slab_alloc", argument), ("new_node", bytes)]);
    }

    #[test]
    fn mistakes_are_named() {
        for (keys, expected) in [
            ("", "needs either `size`"),
            (", size = 0, bytes = 8", "needs either `size`"),
            (", size = 6", "argument 6"),
            (", bytes = 0", "`bytes` is 0"),
        ] {
            let why = allocators(&format!("allocate = [{{ function = 'f' {keys} }}]"));
            let why = why.unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }
}
