//! Makes cases: every instruction of a CPU, in forms and with operands chosen at random, and small programs for
//! each kind of control flow.

mod draft;
mod flow;
mod instruction;
mod special;

pub use flow::IMPOSSIBLE_TARGET;

use iced_x86::Code;

use crate::case::{Case, Cases};
use crate::cpu::Cpu;
use crate::layout::{ARENA_BYTES, Region};
use crate::state::Areas;
use draft::Draft;
use seeded_random::SeededRandom;

/// How often a case is tried with other operands before it is left out.
const TRIES: usize = 24;

/// Makes `count` cases for a CPU. The same seed gives the same cases on machines with the same vector state.
pub fn generate(seed: u64, count: usize, region: Region, cpu: &Cpu) -> Cases {
    let mut random = SeededRandom::new(seed);
    let areas = Areas::of_this_machine().limited_to(cpu.state());
    let mut arena = vec![0; ARENA_BYTES];
    random.fill(&mut arena);
    let mut codes: Vec<Code> = Code::values()
        .filter(|code| special::is_tested(*code) && cpu.has_instruction(*code))
        .collect();
    // Instructions that are rewritten or access memory come up more often than those that are only copied.
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
            let draft = Draft::new(&mut random, &areas, region, slot);
            Some(flow::case(draft, cpu.has_transactions()))
        } else {
            let length = if random.chance(75) {
                1
            } else {
                2 + random.below(3)
            };
            let chosen: Vec<Code> = next.by_ref().take(length as usize).copied().collect();
            straight(&mut random, &areas, region, slot, &chosen)
        };
        cases.extend(case);
    }
    Cases {
        region,
        arena,
        cases,
    }
}

/// A case of instructions one after the other; those that cannot be made are left out.
fn straight(
    random: &mut SeededRandom,
    areas: &Areas,
    region: Region,
    slot: usize,
    codes: &[Code],
) -> Option<Case> {
    let mut draft = Draft::new(random, areas, region, slot);
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
    flow::leave(&mut case, region);
    Some(case)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases(seed: u64, count: usize, region: Region, cpu: &str) -> Cases {
        generate(seed, count, region, &cpu.parse().unwrap())
    }

    #[test]
    fn a_seed_gives_the_same_cases_again() {
        for cpu in ["host", "v2", "v3", "v4"] {
            let make = |seed| cases(seed, 300, Region::High, cpu);
            let (a, b) = (make(7), make(7));
            assert_eq!(a.arena, b.arena);
            for (a, b) in a.cases.iter().zip(&b.cases) {
                assert_eq!(
                    (&a.code, a.gpr, &a.image, &a.patches),
                    (&b.code, b.gpr, &b.image, &b.patches)
                );
            }
            assert_ne!(a.cases[0].gpr, make(8).cases[0].gpr);
        }
    }

    /// What the engine rewrites on every CPU.
    const BASE: &[&str] = &[
        "Movsb_m8_m8",
        "Stosq_m64_RAX",
        "Cmpxchg16b_m128",
        "Bts_rm64_r64",
        "Fstp_m80fp",
        "Xsave64_mem",
        "Pushfq",
        "Pop_rm64",
        "Wrgsbase_r64",
        "jcc",
        "loop",
        "call memory",
        "jump memory",
        "return",
        "system call",
    ];
    const AVX2: &[&str] = &[
        "VEX_Vpgatherqq_ymm_vm64y_ymm",
        "VEX_Vmaskmovps_m256_ymm_ymm",
    ];
    const AVX512: &[&str] = &[
        "EVEX_Vpscatterdd_vm32z_k1_zmm",
        "EVEX_Vmovdqu8_zmmm512_k1z_zmm",
    ];
    const FLUSHES: &[&str] = &["Clwb_m8", "Movdir64b_r64_m512"];
    const TRANSACTION: &[&str] = &["transaction"];

    /// Asserts that cases of all `wanted` kinds are made for a CPU, and none of the `unwanted`.
    fn assert_kinds(cpu: &str, wanted: &[&[&str]], unwanted: &[&[&str]]) {
        let cases = cases(1, 12_000, Region::Low, cpu);
        let made = |kind: &str| cases.cases.iter().any(|case| case.title.contains(kind));
        for kind in wanted.concat() {
            assert!(made(kind), "{cpu}: no case for {kind}");
        }
        for kind in unwanted.concat() {
            assert!(!made(kind), "{cpu}: a case for {kind}");
        }
    }

    #[test]
    fn what_the_engine_rewrites_comes_up_on_the_host() {
        assert_kinds("host", &[BASE, AVX2, AVX512, FLUSHES, TRANSACTION], &[]);
        assert_kinds("host-rtm", &[BASE], &[TRANSACTION]);
    }

    #[test]
    fn transactions_come_up_on_cpus_that_have_them() {
        assert_kinds("v2+rtm", &[BASE, TRANSACTION], &[]);
    }

    #[test]
    fn transactions_are_executed_only_where_the_machine_has_them() {
        let cpu: Cpu = "v2+rtm".parse().unwrap();
        let here = cpu.on_this_machine().has_transactions();
        assert_eq!(here, std::is_x86_feature_detected!("rtm"));
    }

    #[test]
    fn a_level_limits_what_comes_up() {
        assert_kinds("v2", &[BASE], &[AVX2, AVX512, FLUSHES, TRANSACTION]);
        assert_kinds("v3", &[BASE, AVX2], &[AVX512, FLUSHES]);
        assert_kinds("v4+clwb+movdir", &[BASE, AVX2, AVX512, FLUSHES], &[]);
    }
}
