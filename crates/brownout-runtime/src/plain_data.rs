//! Types that are nothing but their bytes.

/// A type any bytes of which are a valid value, and whose values have no padding. Implemented for structures by
/// [`plain_data!`](macro@crate::plain_data).
///
/// # Safety
/// Every pattern of `size_of::<Self>()` bytes must be a valid value, and every byte of a value must be
/// initialised.
pub unsafe trait PlainData: Copy + 'static {
    /// The bytes of the value.
    fn as_bytes(&self) -> &[u8] {
        // SAFETY: the implementor promises that all bytes are initialised.
        unsafe { core::slice::from_raw_parts((&raw const *self).cast(), size_of::<Self>()) }
    }
}

// SAFETY: integers have no padding and no invalid values.
unsafe impl PlainData for u8 {}
// SAFETY: as above.
unsafe impl PlainData for u16 {}
// SAFETY: as above.
unsafe impl PlainData for u32 {}
// SAFETY: as above.
unsafe impl PlainData for u64 {}
// SAFETY: as above.
unsafe impl PlainData for i32 {}
// SAFETY: arrays have no padding beyond that of their elements, which have none.
unsafe impl<T: PlainData, const N: usize> PlainData for [T; N] {}

/// Implements [`PlainData`] for a structure. All its fields must be named, each once, with their types: the compiler
/// checks that they are plain and leave no padding.
#[macro_export]
macro_rules! plain_data {
    ($structure:path { $($field:tt: $type:ty),+ $(,)? }) => {
        const _: () = {
            const fn is_plain<T: $crate::plain_data::PlainData>() -> usize {
                size_of::<T>()
            }
            assert!(0 $(+ is_plain::<$type>())+ == size_of::<$structure>());
            let _ = |value: &$structure| { $(let _: $type = value.$field;)+ };
            // A pattern lists every field exactly once.
            let _ = |$structure { $($field: _),+ }: $structure| {};
        };
        // SAFETY: checked above: these are all the fields, they are plain, have these types, and fill the structure.
        unsafe impl $crate::plain_data::PlainData for $structure {}
    };
}

plain_data!(brownout_ring::ProcessStart {
    pid: u32,
    parent_pid: u32,
    parent: u32,
    origin: u32,
});
plain_data!(brownout_ring::ModuleMapping {
    len: u64,
    file_offset: u64,
});
plain_data!(brownout_ring::FileAt {
    dev: u64,
    ino: u64,
    offset: u64,
});
plain_data!(brownout_ring::Map {
    file: brownout_ring::FileAt,
    len: u64,
    file_len: u64,
    prot: u32,
    map_flags: u32,
    facts: u32,
    pad: u32,
});
plain_data!(brownout_ring::FileUse {
    file: brownout_ring::FileAt,
    len: u64,
});
plain_data!(brownout_ring::Sync {
    file: brownout_ring::FileAt,
    len: u64,
});

#[cfg(test)]
mod tests {
    use super::PlainData;

    #[test]
    fn the_bytes_of_a_structure_are_those_of_its_fields() {
        let module = brownout_ring::ModuleMapping {
            len: 1,
            file_offset: 0x0203,
        };
        assert_eq!(
            module.as_bytes(),
            [1, 0, 0, 0, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 0, 0]
        );
    }
}
