//! A generated program: objects of several types, operations on them, and places where a field is persisted too late or never.
//!
//! An object is valid if its last field is not zero; then all its fields must equal it, which recovery checks. Operations are right if each
//! field is durable before the next is stored.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use seeded_random::SeededRandom;

/// Objects of each type.
const OBJECTS: u64 = 2;
/// Calls of operations.
const CALLS: u64 = 6;
const OPERATIONS: [&str; 3] = ["insert", "replace", "erase"];

/// When a field is persisted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Persist {
    InTime,
    AtTheEnd,
    Never,
}

/// Writes programs.
pub struct Generator {
    random: SeededRandom,
    text: String,
}

impl Generator {
    /// The source of a program, which is its own recovery.
    pub fn program(seed: u64) -> String {
        let mut generator = Self {
            random: SeededRandom::new(seed),
            text: "#include \"recovery.h\"\n\n".to_owned(),
        };
        let types = 1 + generator.random.below(2);
        let fields: Vec<u64> = (0..types).map(|_| 1 + generator.random.below(3)).collect();
        for (ty, &fields) in (0..).zip(&fields) {
            generator.ty(ty, fields);
        }
        generator.main(&fields);
        generator.text
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn ty(&mut self, ty: u64, fields: u64) {
        self.line(&format!("struct type{ty} {{"));
        for field in 0..fields {
            // The first begins a line of its own, others may share it.
            let shares = field > 0 && self.random.once_in(4);
            let alignment = if shares { 8 } else { 64 };
            self.line(&format!(
                "  uint64_t f{field} __attribute__((aligned({alignment})));"
            ));
        }
        self.line("  uint64_t valid __attribute__((aligned(64)));\n};\n");
        for operation in OPERATIONS {
            let head =
                format!("static void {operation}{ty}(struct type{ty} *o, uint64_t value) {{");
            self.line(&head);
            let mut late = Vec::new();
            if operation != "insert" {
                self.field("valid", "0", &mut late);
            }
            if operation != "erase" {
                for field in 0..fields {
                    self.field(&format!("f{field}"), "value", &mut late);
                }
                self.field("valid", "value", &mut late);
            }
            for field in late {
                self.line(&format!("  PERSIST(o->{field});"));
            }
            self.line("  (void)value;\n}\n");
        }
    }

    fn field(&mut self, field: &str, value: &str, late: &mut Vec<String>) {
        self.line(&format!("  STORE(o->{field}, {value});"));
        let choices = [
            (6, Persist::InTime),
            (1, Persist::AtTheEnd),
            (1, Persist::Never),
        ];
        match self.random.weighted(&choices) {
            Persist::InTime => self.line(&format!("  PERSIST(o->{field});")),
            Persist::AtTheEnd => late.push(field.to_owned()),
            Persist::Never => {}
        }
    }

    fn main(&mut self, fields: &[u64]) {
        self.line("struct pool {");
        for ty in 0..fields.len() {
            self.line(&format!("  struct type{ty} objects{ty}[{OBJECTS}];"));
        }
        self.line("};\n\nint main(int argc, char **argv) {");
        self.line("  struct pool *pool = (struct pool *)map_pool(argv[1]);\n  if (argc > 2) {");
        for (ty, &fields) in fields.iter().enumerate() {
            for object in 0..OBJECTS {
                let mut holds = String::new();
                for field in 0..fields {
                    let name = format!("pool->objects{ty}[{object}]");
                    write!(holds, " && {name}.f{field} == {name}.valid")
                        .expect("a string can be written to");
                }
                self.line(&format!(
                    "    REQUIRE(!pool->objects{ty}[{object}].valid || (1{holds}));"
                ));
            }
        }
        self.line("    return 0;\n  }");
        let mut valid = BTreeSet::new();
        for call in 1..=CALLS {
            let ty = self.random.below(fields.len() as u64);
            let object = self.random.below(OBJECTS);
            // To insert what is there already would be another mistake.
            let operation = match valid.contains(&(ty, object)) {
                true => self.random.pick(&OPERATIONS[1..]),
                false => OPERATIONS[0],
            };
            match operation {
                "erase" => valid.remove(&(ty, object)),
                _ => valid.insert((ty, object)),
            };
            self.line(&format!(
                "  {operation}{ty}(&pool->objects{ty}[{object}], {call});"
            ));
        }
        self.line("  return 0;\n}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_program() {
        assert_eq!(Generator::program(3), Generator::program(3));
        assert_ne!(Generator::program(3), Generator::program(4));
    }

    #[test]
    fn some_fields_are_persisted_late_and_some_never() {
        let all: String = (0..20).map(Generator::program).collect();
        let count = |text: &str| all.matches(text).count();
        assert!(count("PERSIST(o->") < count("STORE(o->"));
    }
}
