//! Demangles symbol names.

/// Demangles a C++ or Rust symbol; returns any other name unchanged.
///
/// Rust is tried first because its legacy scheme is also valid C++ mangling, with a hash that only the Rust
/// demangler removes.
pub fn demangle(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    if name.starts_with("_Z") {
        let cpp = cpp_demangle::Symbol::new(name)
            .ok()
            .and_then(|symbol| symbol.demangle().ok());
        if let Some(cpp) = cpp {
            return cpp;
        }
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_demangled() {
        for (mangled, readable) in [
            ("main", "main"),
            ("_ZN4pool6insertEi", "pool::insert(int)"),
            ("_ZN4core3fmt5write17h01234567890abcdeE", "core::fmt::write"),
            ("_RNvCs15kBYyAo9fc_7mycrate7example", "mycrate::example"),
            ("_Z", "_Z"),
        ] {
            assert_eq!(demangle(mangled), readable);
        }
    }
}
