//! The functions of a C library that is linked into the target, recognised by name.

const COPY_FUNCTIONS: [&str; 13] = [
    "memcpy", "memmove", "memset", "mempcpy", "memccpy", "bcopy", "bzero", "strcpy", "strncpy",
    "stpcpy", "stpncpy", "strcat", "strncat",
];

const LOCK_PREFIXES: [&str; 3] = ["pthread_", "sem_", "lll_lock_"];

/// Whether a function in the target belongs to a linked C library and copies, fills or locks on behalf of its caller.
///
/// If the source file is unknown, the name decides. If it is known, only names that are reserved for the library count.
pub fn is_linked_c_library(function: &str, source: Option<&str>) -> bool {
    let locks = |name: &str| LOCK_PREFIXES.iter().any(|lock| name.starts_with(lock));
    match function.strip_prefix("__") {
        Some(reserved) => {
            // Variants for specific processors, such as `__memmove_avx_unaligned_erms`.
            let reserved = reserved.trim_start_matches('_');
            COPY_FUNCTIONS.iter().any(|name| reserved.starts_with(name)) || locks(reserved)
        }
        None => source.is_none() && (COPY_FUNCTIONS.contains(&function) || locks(function)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_user_may_define_count_only_without_a_source() {
        assert!(is_linked_c_library("memcpy", None));
        assert!(!is_linked_c_library("memcpy", Some("/src/mem.c")));
        assert!(is_linked_c_library(
            "__memmove_evex_unaligned_erms",
            Some("x.S")
        ));
        assert!(is_linked_c_library("___pthread_mutex_lock", None));
        assert!(!is_linked_c_library("memory_put", None));
        assert!(!is_linked_c_library("memcpy_all", None));
    }
}
