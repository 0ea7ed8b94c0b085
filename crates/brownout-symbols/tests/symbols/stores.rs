//! Tests of what stores change: the fields that each function of a program stores to, written by hand, whatever the optimisation.

use std::collections::BTreeSet;

use brownout_symbols::{
    AccessedPart, Callee, DataTypeId, DataTypes, FieldAt, FileOffset, PointerBase, PointerTypes,
    PointerValue, TypedModuleId,
};

use crate::compile::Program;

/// Stores must stay one a field, to be compared.
const LEVELS: [&[&str]; 3] = [
    &["-g", "-O0"],
    &["-g", "-O1"],
    &["-g", "-O2", "-fno-tree-vectorize"],
];

fn opened(program: &Program) -> (PointerTypes, TypedModuleId) {
    let mut pointers = PointerTypes::new();
    let module = pointers.add_module(&program.path, program.build_id().as_ref());
    (pointers, module)
}

/// The path to the largest field without fields of its own that starts at `offset`.
fn largest(types: &DataTypes, ty: DataTypeId, offset: u64) -> Vec<FieldAt> {
    let paths = [8, 4, 2, 1].map(|size| (size, types.path(ty, offset, size)));
    let is_whole = |(size, path): &(u64, Vec<FieldAt>)| {
        let last = path.last();
        last.is_some_and(|step| step.offset == offset && types.get(step.ty).size == *size)
    };
    let found = paths.into_iter().find(is_whole);
    found.map(|(_, path)| path).unwrap_or_default()
}

/// A field in words; elements of arrays whose index is unknown are `[]`.
fn field(types: &DataTypes, value: PointerValue) -> String {
    let PointerBase::Object(ty) = value.base else {
        return format!("{:?}", value.base);
    };
    let (mut name, ty, offset) = match types.part(ty, value.offset, value.stride) {
        Some(AccessedPart::At(offset)) => (types.get(ty).name.to_string(), ty, offset),
        Some(AccessedPart::InElement {
            array,
            element,
            within,
        }) => {
            let before = types.path(ty, array, 1);
            let array = before.iter().take_while(|step| step.ty != element);
            let array = array.filter_map(|step| step.name.as_deref());
            let array: Vec<&str> = array.collect();
            let name = format!("{}.{}[]", types.get(ty).name, array.join("."));
            (name, element, within)
        }
        None => return format!("{} at {}", types.get(ty).name, value.offset),
    };
    for step in largest(types, ty, offset) {
        match step.name {
            Some(member) => name.push_str(&format!(".{member}")),
            None => name.push_str(&format!("[{}]", step.index)),
        }
    }
    name
}

/// What the stores of a function change, those to its own frame left out.
fn stored(program: &Program, function: &str) -> BTreeSet<String> {
    let (mut pointers, module) = opened(program);
    let code = program.code(function);
    let code = *code.start()..*code.end();
    let values: Vec<PointerValue> = code
        .filter_map(|at| pointers.store(module, FileOffset(at)))
        .collect();
    assert_eq!(pointers.problems().count(), 0);
    let types = &pointers.types;
    values
        .into_iter()
        .map(|value| field(types, value))
        .collect()
}

#[test]
fn stores_of_c_functions_have_fields() {
    for options in LEVELS {
        let program = Program::compile("stores.c", options);
        let expected: [(&str, &[&str]); 11] = [
            ("plain", &["entry.key", "entry.valid"]),
            ("through_members", &["pair.second.key"]),
            ("at_end_of_list", &["node.next"]),
            ("in_slot", &["bucket.slots[].key"]),
            ("in_each", &["node.count"]),
            ("in_global", &["node.count", "bucket.lock"]),
            ("in_result", &["node.count"]),
            ("in_allocated", &["node.count"]),
            (
                "by_case",
                &[
                    "bucket.lock",
                    "bucket.slots[1].key",
                    "bucket.slots[1].valid",
                    "bucket.slots[1].value.number",
                    "bucket.tags[3]",
                    "bucket.tags[5]",
                ],
            ),
            ("by_copy", &[]),
            ("without_type", &["Parameter(0)"]),
        ];
        for (function, fields) in expected {
            let fields = fields.iter().map(|&field| field.to_owned()).collect();
            assert_eq!(
                stored(&program, function),
                fields,
                "{function} with {options:?}"
            );
        }
    }
}

#[test]
fn a_function_that_is_inlined_stores_to_the_object_of_its_caller() {
    let program = Program::compile("stores.c", LEVELS[2]);
    let found = stored(&program, "through_inlined");
    assert_eq!(found, BTreeSet::from(["pair.second.valid".to_owned()]));
}

#[test]
fn an_object_is_found_through_the_distance_of_another_register_to_it() {
    for options in &LEVELS[1..] {
        let program =
            Program::compile("stores.c", &[options, &["-finline-functions"][..]].concat());
        let found = stored(&program, "before_the_end");
        let expected = ["char *", "entry.key", "entry.valid"].map(str::to_owned);
        assert_eq!(found, BTreeSet::from(expected), "{options:?}");
    }
}

#[test]
fn arguments_of_calls_have_fields() {
    for options in LEVELS {
        let program = Program::compile("stores.c", options);
        let (mut pointers, module) = opened(&program);
        let mut copied = |function: &str| -> Vec<(String, String)> {
            let returns = program.code(function).filter_map(|at| {
                let callee = match pointers.callee(module, FileOffset(at)) {
                    Callee::Imported(name) => name.to_owned(),
                    Callee::Own(_) => "own".to_owned(),
                    Callee::Unknown => return None,
                };
                let value = pointers.argument(module, FileOffset(at), 0)?;
                Some((callee, field(&pointers.types, value)))
            });
            returns.collect()
        };
        let text = ("memcpy".to_owned(), "entry.value.text[4]".to_owned());
        let by_copy = copied("by_copy");
        // Optimised, the call is a jump.
        assert!(
            by_copy.is_empty() || by_copy == [text],
            "{by_copy:?} with {options:?}"
        );
        let passed = copied("passes_on");
        let second = ("own".to_owned(), "pair.second.key".to_owned());
        assert!(
            passed.is_empty() || passed == [second],
            "{passed:?} with {options:?}"
        );
        assert_eq!(options[1] == "-O2", by_copy.is_empty(), "{options:?}");
    }
}

#[test]
fn stores_of_cpp_methods_have_fields() {
    for options in LEVELS {
        let program = Program::compile("stores.cc", options);
        let leaf = "leaf<unsigned int>";
        let mut expected: BTreeSet<String> = ["keys[2]", "used", "versioned.version"]
            .map(|field| format!("{leaf}.{field}"))
            .into();
        if options[1] == "-O0" {
            // Not inlined, `advance` sees only its own class.
            expected.remove(&format!("{leaf}.versioned.version"));
            let found = stored(&program, "_ZN9versioned7advanceEv");
            assert_eq!(found, BTreeSet::from(["versioned.version".to_owned()]));
        }
        let found = stored(&program, "_ZN4leafIjE3addEj");
        assert_eq!(found, expected, "{options:?}");
        let used = "leaf<short unsigned int>.used".to_owned();
        for function in ["_Z12by_referenceR4leafItE", "_Z13by_identifierR6holder"] {
            let found = stored(&program, function);
            assert_eq!(
                found,
                BTreeSet::from([used.clone()]),
                "{function} with {options:?}"
            );
        }
    }
}

#[test]
fn stores_of_rust_functions_have_fields() {
    for level in ["-Copt-level=0", "-Copt-level=2"] {
        let program = Program::compile("stores.rs", &["-g", level]);
        for (function, field) in [
            ("set_key", "stores::Node.key"),
            ("set_end", "stores::Node.value.Range.end"),
            ("set_next", "stores::Node.next"),
        ] {
            let found = stored(&program, function);
            assert_eq!(
                found,
                BTreeSet::from([field.to_owned()]),
                "{function} with {level}"
            );
        }
    }
}

#[test]
fn a_stripped_program_relates_the_stores_of_a_function_to_its_parameters() {
    let program = Program::compile("stores.c", LEVELS[2]);
    program.tool("strip", &["--strip-all"]);
    let (mut pointers, module) = opened(&program);
    let values: Vec<PointerValue> = program
        .code("plain")
        .filter_map(|at| pointers.store(module, FileOffset(at)))
        .collect();
    let parameter = |offset| PointerValue {
        base: PointerBase::Parameter(0),
        offset,
        stride: 0,
    };
    assert_eq!(values, [parameter(0), parameter(32)]);
}

#[test]
fn an_argument_is_followed_through_a_jump_at_the_end_of_a_function() {
    // `passes_on` ends with a jump to `without_type`, so that the stack shows a call from `main`.
    let program = Program::compile("stores.c", LEVELS[2]);
    let (mut pointers, module) = opened(&program);
    let code = program.code("passes_on");
    let returns = program.code("main").find(|&at| {
        pointers.callee(module, FileOffset(at)) == Callee::Own(FileOffset(*code.start()))
    });
    let returns = FileOffset(returns.expect("main calls it"));
    let stores = FileOffset(*program.code("without_type").start());
    let passed = pointers
        .passed(module, returns, 0, (module, stores))
        .unwrap();
    assert_eq!(field(&pointers.types, passed), "pair.second.key");
}
