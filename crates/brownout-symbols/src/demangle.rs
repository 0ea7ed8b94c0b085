//! Names as their authors wrote them, from the names linkers see.

/// Demangles a C++ or Rust symbol; any other name comes back as it is.
///
/// Rust is tried first because its older scheme is also valid C++ mangling, but with a hash that
/// only Rust's demangler knows to drop.
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
    fn names_become_readable() {
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
