//! Makes cases: every instruction that the processor may know, in forms and with operands chosen at
//! random, and small programs for each kind of control flow.

mod draft;
mod flow;
mod instruction;
mod special;

pub use flow::IMPOSSIBLE_TARGET;

use iced_x86::Code;

use crate::case::{Case, Cases};
use crate::layout::{ARENA_BYTES, Place};
use crate::random::Random;
use crate::state::Areas;
use draft::Draft;

/// How often a case is tried with other operands before it is left out.
const TRIES: usize = 24;

/// Makes `count` cases. The same seed gives the same cases on machines with the same vector state.
pub fn generate(seed: u64, count: usize, place: Place) -> Cases {
    let mut random = Random::new(seed);
    let areas = Areas::of_this_machine();
    let mut arena = vec![0; ARENA_BYTES];
    random.fill(&mut arena);
    let mut codes: Vec<Code> = Code::values()
        .filter(|code| special::is_tested(*code))
        .collect();
    // Whatever is rewritten or touches memory comes up more often than what is only copied.
    let twice: Vec<Code> = codes
        .iter()
        .copied()
        .filter(|code| instruction::may_use_memory(*code))
        .collect();
    codes.extend_from_slice(&twice);
    codes.extend_from_slice(&twice);
    random.shuffle(&mut codes);

    let mut cases = Vec::with_capacity(count);
    let mut next = codes.iter().cycle();
    while cases.len() < count {
        let slot = cases.len();
        let case = if random.chance(12) {
            Some(flow::case(Draft::new(&mut random, &areas, place, slot)))
        } else {
            let length = if random.chance(75) {
                1
            } else {
                2 + random.below(3)
            };
            let chosen: Vec<Code> = next.by_ref().take(length as usize).copied().collect();
            straight(&mut random, &areas, place, slot, &chosen)
        };
        cases.extend(case);
    }
    Cases {
        place,
        arena,
        cases,
    }
}

/// A case of instructions one after the other; those that cannot be made are left out.
fn straight(
    random: &mut Random,
    areas: &Areas,
    place: Place,
    slot: usize,
    codes: &[Code],
) -> Option<Case> {
    let mut draft = Draft::new(random, areas, place, slot);
    for code in codes {
        if codes.len() > 1 && special::stands_alone(*code) || draft.known(draft::RSP).is_none() {
            continue;
        }
        for _ in 0..TRIES {
            if draft.attempt(|draft| instruction::append(draft, *code)) {
                break;
            }
        }
    }
    let mut case = draft.case;
    if case.lengths.is_empty() {
        return None;
    }
    case.title = codes
        .iter()
        .map(|code| format!("{code:?}"))
        .collect::<Vec<_>>()
        .join(", ");
    flow::leave(&mut case, place);
    Some(case)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_cases_again() {
        let (a, b) = (generate(7, 300, Place::High), generate(7, 300, Place::High));
        assert_eq!(a.arena, b.arena);
        for (a, b) in a.cases.iter().zip(&b.cases) {
            assert_eq!(
                (&a.code, a.gpr, &a.image, &a.patches),
                (&b.code, b.gpr, &b.image, &b.patches)
            );
        }
        assert_ne!(a.cases[0].gpr, generate(8, 1, Place::High).cases[0].gpr);
    }

    #[test]
    fn what_the_engine_rewrites_comes_up() {
        let cases = generate(1, 12_000, Place::Low);
        let titles: Vec<&str> = cases.cases.iter().map(|case| case.title.as_str()).collect();
        for wanted in [
            "Movsb_m8_m8",
            "Stosq_m64_RAX",
            "Cmpxchg16b_m128",
            "Bts_rm64_r64",
            "EVEX_Vpscatterdd_vm32z_k1_zmm",
            "VEX_Vpgatherqq_ymm_vm64y_ymm",
            "EVEX_Vmovdqu8_zmmm512_k1z_zmm",
            "Fstp_m80fp",
            "Xsave64_mem",
            "Clwb_m8",
            "Movdir64b_r64_m512",
            "Pushfq",
            "Pop_rm64",
            "Wrgsbase_r64",
            "jcc",
            "loop",
            "call memory",
            "jump memory",
            "return",
            "transaction",
            "system call",
        ] {
            assert!(
                titles.iter().any(|title| title.contains(wanted)),
                "no case for {wanted}"
            );
        }
    }
}
