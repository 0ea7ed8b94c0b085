//! What the stores of statements are to, by example.

use super::*;

fn object(path: &str, code: &str, column: Option<u32>) -> Result<StoredObject, RepairRefusal> {
    let text = match path.ends_with(".rs") {
        true => format!("fn f() {{ unsafe  {{\n{code}\n}} }}\n"),
        false => format!(
            "struct s {{ int flag : 1, second : 3; int x; }};\nvoid f(void) {{\n{code}\n}}\n"
        ),
    };
    let line = if path.ends_with(".rs") { 2 } else { 3 };
    let source = SourceTree::new(path, text).unwrap();
    let statement = Statement::at(&source, line, column)?;
    let definitions = MacroDefinitions::of(&source, &|_, _| None);
    StoredObject::of(&statement, line, column, &definitions)
}

fn address(code: &str) -> String {
    object("x.c", code, None).unwrap().address
}

fn length(code: &str) -> Option<String> {
    object("x.c", code, None).unwrap().length
}

#[test]
fn the_address_of_an_assigned_expression_is_taken() {
    assert_eq!(address("p->x = 1;"), "&p->x");
    assert_eq!(address("a[i].b += 2;"), "&a[i].b");
    assert_eq!(address("p->n++;"), "&p->n");
    assert_eq!(address("*p = 1;"), "p");
    assert_eq!(address("(*p) = 1;"), "p");
    assert_eq!(address("*(p + 1) = 1;"), "(p + 1)");
}

#[test]
fn copies_have_a_pointer_and_a_length() {
    assert_eq!(address("memcpy(p->key, key, n + 1);"), "p->key");
    assert_eq!(
        length("memcpy(p->key, key, n + 1);").as_deref(),
        Some("n + 1")
    );
    assert_eq!(
        length("strcpy(p->key, key);").as_deref(),
        Some("strlen(p->key) + 1")
    );
    assert_eq!(
        length("__atomic_store_n(&p->x, 1, 0);").as_deref(),
        Some("sizeof(*(&p->x))")
    );
    assert_eq!(address("x = memset(q, 0, 8), 1;"), "q");
}

#[test]
fn the_column_selects_one_of_several_stores() {
    assert_eq!(
        object("x.c", "p->a = q->b = 1;", Some(6)).unwrap().address,
        "&p->a"
    );
    assert_eq!(
        object("x.c", "p->a = q->b = 1;", Some(13)).unwrap().address,
        "&q->b"
    );
    let refused = object("x.c", "p->a = 1, p->b = 1;", None).unwrap_err();
    assert!(
        matches!(refused, RepairRefusal::SeveralStores { .. }),
        "{refused}"
    );
}

#[test]
fn an_expression_with_an_effect_is_saved() {
    let object = object("x.c", "*p++ = 1;", Some(6)).unwrap();
    assert_eq!(object.place.as_deref(), Some("*p++"));
    assert!(object.saved.is_some());
}

#[test]
fn what_the_statement_changes_cannot_be_named_after_it() {
    let refused = object("x.c", "p->next = q, p = q;", Some(9)).unwrap_err();
    assert!(
        matches!(refused, RepairRefusal::Changes { .. }),
        "{refused}"
    );
    let refused = object("x.c", "memcpy(p++, q, 8);", None).unwrap_err();
    assert!(
        matches!(refused, RepairRefusal::Changes { .. }),
        "{refused}"
    );
}

#[test]
fn bit_fields_have_no_address() {
    for code in ["p->flag = 1;", "p->second = 1;"] {
        let refused = object("x.c", code, None).unwrap_err();
        assert!(
            matches!(refused, RepairRefusal::BitField { .. }),
            "{refused}"
        );
    }
}

#[test]
fn calls_of_other_functions_are_no_stores() {
    let refused = object("x.c", "update(p);", None).unwrap_err();
    assert!(
        matches!(refused, RepairRefusal::NoStore { .. }),
        "{refused}"
    );
}

#[test]
fn a_macro_before_a_store_is_no_factor() {
    let refused = object("x.c", "FOR_EACH(p) *p = 1;", None).unwrap_err();
    assert!(
        matches!(refused, RepairRefusal::NoStore { .. }),
        "{refused}"
    );
}

#[test]
fn a_variable_of_cpp_can_be_a_reference() {
    assert_eq!(
        object("x.cpp", "word += 1;", None).unwrap().address,
        "&word"
    );
    assert!(object("x.c", "word += 1;", None).is_err());
}

#[test]
fn methods_of_atomics_store_to_their_object() {
    assert_eq!(
        object("x.cpp", "p->n.store(1);", None).unwrap().address,
        "&p->n"
    );
    let through = object("x.cpp", "p->store(1);", None).unwrap();
    let found = (through.address.as_str(), through.length.as_deref());
    assert_eq!(found, ("p", Some("sizeof(*p)")));
}

#[test]
fn rust_stores_go_through_places_and_pointers() {
    let rust = |code| object("x.rs", code, None).unwrap();
    assert_eq!(rust("(*p).x = 1;").address, "&raw const (*p).x");
    assert_eq!(rust("*p = 1;").address, "p");
    assert_eq!(rust("p.write(1);").address, "p");
    assert_eq!(
        rust("pool[0].word[1] += 1;").address,
        "&raw const pool[0].word[1]"
    );
    assert_eq!(
        rust("head.store(1, Ordering::Release);").address,
        "head.as_ptr()"
    );
    assert_eq!(rust("std::ptr::write_volatile(p, 1);").address, "p");
}

#[test]
fn vector_and_atomic_instructions_store_at_their_first_argument() {
    assert_eq!(
        address("_mm_storeu_si128((__m128i *)p, v);"),
        "(__m128i *)p"
    );
    assert_eq!(length("_mm256_stream_si256(p, v);").as_deref(), Some("32"));
    assert_eq!(
        length("_mm_stream_si64(p, v);").as_deref(),
        Some("sizeof(*p)")
    );
    assert_eq!(
        address("__sync_bool_compare_and_swap(&p->x, 0, 1);"),
        "&p->x"
    );
    assert!(object("x.c", "y = __atomic_load_n(&p->x, 0);", None).is_err());
    assert_eq!(length("read(fd, p->buffer, n);").as_deref(), Some("n"));
}

#[test]
fn an_address_that_its_store_can_change_is_saved() {
    let is_saved = |code| object("x.c", code, None).unwrap().saved.is_some();
    assert!(is_saved("t[t[3].next].next = 5;"));
    assert!(is_saved("p->next->next = q;"));
    assert!(is_saved("p[p[0]] = 5;"));
    assert!(is_saved("t[t[3].next] = q;"));
    assert!(!is_saved("p->next->value = 5;"));
    assert!(!is_saved("log->entry[log->used] = 5;"));
    let refused = object("x.c", "memset(p, 0, p->length);", None).unwrap_err();
    assert!(matches!(refused, RepairRefusal::Changes { .. }));
    assert!(object("x.c", "memset(p, 0, sizeof(p->x));", None).is_ok());
}

#[test]
fn an_address_is_not_saved_where_the_order_of_evaluation_matters() {
    let is_refused = |code| {
        let object = object("x.cpp", code, Some(1));
        matches!(object, Err(RepairRefusal::Order { .. }))
    };
    assert!(is_refused("claim() = next_id();"));
    assert!(is_refused("base[used++] = used;"));
    assert!(is_refused("claim() = used;"));
    assert!(is_refused("*p++ = i++;"));
    assert!(!is_refused("claim() = 3;"));
    assert!(!is_refused("*p++ = i;"));
}
