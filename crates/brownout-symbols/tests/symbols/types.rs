//! Tests of data types: fields by offset, with the expected fields written by hand.

use brownout_symbols::{AccessedPart, DataTypeId, DataTypes};

use crate::compile::Program;

/// The field with all of `size` bytes at `offset` of a type, as it would be written in C.
fn field(types: &DataTypes, ty: DataTypeId, offset: u64, size: u64) -> String {
    let steps = types.path(ty, offset, size).into_iter();
    let steps = steps.map(|step| match step.name {
        Some(name) if name.is_empty() => String::new(),
        Some(name) => format!(".{name}"),
        None => format!("[{}]", step.index),
    });
    steps.collect()
}

fn of(program: &Program) -> (DataTypes, brownout_symbols::TypedModuleId) {
    let mut types = DataTypes::new();
    let module = types.add_module(&program.path, program.build_id().as_ref());
    (types, module)
}

fn check_c(program: &Program) {
    let (mut types, module) = of(program);
    let bucket = types.named(module, "bucket");
    assert!(types.problems().is_empty(), "{:?}", types.problems());
    let bucket = bucket.expect("the struct is described");
    assert_eq!(types.get(bucket).size, 128);
    let expected = [
        (0, 8, ".header.lock"),
        (8, 1, ".header.label[0]"),
        (8, 8, ".header.label"),
        (0, 16, ".header"),
        (16, 8, ".slots[0].key"),
        (48, 8, ".slots[2].key"),
        (56, 8, ".slots[2].number"),
        (60, 4, ".slots[2].halves.high"),
        (48, 16, ".slots[2]"),
        (48, 32, ".slots"),
        (80, 4, ".matrix[0][0]"),
        (80 + 16, 4, ".matrix[1][1]"),
        (104, 1, ".first"),
        (105, 1, ".second"),
        (112, 8, ".next"),
        (128 + 5, 1, ".tail[5]"),
        (12, 8, ""),
    ];
    for (offset, size, name) in expected {
        assert_eq!(
            field(&types, bucket, offset, size),
            name,
            "{size} bytes at {offset}"
        );
    }
    let next = types.path(bucket, 112, 8)[0].ty;
    assert_eq!(types.pointee(next), Some(bucket));
    let opaque = types.path(bucket, 120, 8)[0].ty;
    assert_eq!(types.pointee(opaque), None);
    assert_eq!(&*types.get(opaque).name, "elsewhere *");
    let slot = types.named(module, "slot").unwrap();
    assert!(types.contains(bucket, 48, slot));
    assert!(!types.contains(bucket, 56, slot));
    // A struct with a flexible array at its end is no element of an array, even if the stride fits.
    let byte = types.path(bucket, 133, 1)[1].ty;
    let tail = AccessedPart::InElement {
        array: 128,
        element: byte,
        within: 0,
    };
    assert_eq!(types.part(bucket, 128, 128), Some(tail));
    assert_eq!(types.part(bucket, 48, 0), Some(AccessedPart::At(48)));
    assert_eq!(types.part(slot, 24, 0), Some(AccessedPart::At(8)));
    assert_eq!(types.part(slot, -8, 16), Some(AccessedPart::At(8)));
    assert_eq!(types.part(slot, -8, 0), None);
    let within = AccessedPart::InElement {
        array: 16,
        element: slot,
        within: 8,
    };
    assert_eq!(types.part(bucket, 24, 16), Some(within));
    let header = types.path(bucket, 0, 16)[0].ty;
    assert_eq!(&*types.get(header).name, "header_t");
}

#[test]
fn fields_of_c_structs_are_found_by_offset() {
    for options in [
        &["-g", "-O0"][..],
        &["-g", "-O2"],
        &["-gdwarf-4", "-O0"],
        &["-gdwarf-4", "-fdebug-types-section", "-O0"],
        &["-gdwarf-5", "-fdebug-types-section", "-O0"],
        &["-g", "-gsplit-dwarf", "-O0"],
    ] {
        println!("{options:?}");
        check_c(&Program::compile("types.c", options));
    }
}

#[test]
fn debug_information_in_another_file_is_found() {
    let program = Program::compile("types.c", &["-g", "-O0"]);
    program.split_debug_file_beside();
    check_c(&program);
}

#[test]
fn classes_have_base_classes_and_template_arguments() {
    for options in [["-g", "-O0"], ["-g", "-O2"]] {
        let program = Program::compile("types.cc", &options);
        let (mut types, module) = of(&program);
        let mut named = |name| types.named(module, name).expect(name);
        let leaf = named("store::leaf<unsigned int, 4>");
        let other = named("store::leaf<long unsigned int, 2>");
        assert_ne!(leaf, other);
        let expected = [
            (8, 8, ".store::base.version"),
            (16, 4, ".keys[0]"),
            (28, 4, ".keys[3]"),
            (32, 8, ".sibling"),
            (44, 4, ".at.column"),
        ];
        for (offset, size, name) in expected {
            assert_eq!(field(&types, leaf, offset, size), name);
        }
        let sibling = types.path(leaf, 32, 8)[0].ty;
        assert_eq!(types.pointee(sibling), Some(leaf));
        let position = types.path(leaf, 40, 8)[0].ty;
        assert!(
            types
                .get(position)
                .name
                .ends_with("leaf<unsigned int, 4>::position")
        );
    }
}

#[test]
fn the_variants_of_a_rust_enumeration_overlap() {
    for level in ["-Copt-level=0", "-Copt-level=2"] {
        let program = Program::compile("types.rs", &["-g", level]);
        let (mut types, module) = of(&program);
        let node = types
            .named(module, "types::Node")
            .expect("the struct is described");
        assert_eq!(types.get(node).size, 8 + 24 + 8 + 8);
        let expected = [
            (0, 8, ".key"),
            (8, 24, ".value"),
            (24, 8, ".value.Range.end"),
            (32, 8, ".next"),
            (44, 4, ".pair.__1"),
        ];
        for (offset, size, name) in expected {
            assert_eq!(field(&types, node, offset, size), name);
        }
        let first = field(&types, node, 16, 8);
        assert!(
            [".value.Number.__0", ".value.Range.start"].contains(&&*first),
            "{first}"
        );
        let next = types.path(node, 32, 8)[0].ty;
        assert_eq!(types.pointee(next), Some(node));
    }
}

#[test]
fn the_same_type_in_two_modules_is_one() {
    let (one, two) = (
        Program::compile("types.c", &["-g", "-O0"]),
        Program::compile("types.c", &["-gdwarf-4", "-O2"]),
    );
    let (mut types, first) = of(&one);
    let second = types.add_module(&two.path, two.build_id().as_ref());
    assert_ne!(first, second);
    let found = types.named(first, "bucket");
    assert!(found.is_some());
    assert_eq!(types.named(second, "bucket"), found);
    assert_eq!(types.named(second, "nothing"), None);
}
