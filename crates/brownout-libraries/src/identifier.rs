//! Identifiers of persistent objects: what libraries use in place of pointers, which change from run to run.

use crate::table::LIBRARIES;

/// An identifier: a struct with the offset of an object in its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectIdentifier {
    /// The name of the struct in debug information.
    pub ty: &'static str,
    /// Its member that is the offset of the object in the file of the pool.
    pub offset: &'static str,
    /// A member beside the identifier that is never used and only says what it identifies: a pointer to the type. In C++, a
    /// template argument says that.
    pub typed_by: &'static str,
    /// Functions that return the address of the object, given an identifier in two registers.
    pub conversions: &'static [&'static str],
}

/// The identifier with this type name.
pub fn object_identifier(type_name: &str) -> Option<&'static ObjectIdentifier> {
    identifiers().find(|identifier| identifier.ty == type_name)
}

/// Whether a function returns the address of the object that its first two arguments identify.
pub fn converts_identifier(function: &str) -> bool {
    identifiers().any(|identifier| identifier.conversions.contains(&function))
}

fn identifiers() -> impl Iterator<Item = &'static ObjectIdentifier> {
    LIBRARIES
        .iter()
        .filter_map(|library| library.identifier.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_of_libpmemobj_are_known() {
        let known = object_identifier("pmemoid").unwrap();
        assert_eq!((known.offset, known.typed_by), ("off", "_type"));
        assert_eq!(object_identifier("entry"), None);
        assert!(converts_identifier("pmemobj_direct"));
        assert!(!converts_identifier("pmemobj_root"));
    }
}
