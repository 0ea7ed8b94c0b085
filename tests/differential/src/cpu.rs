//! The CPU that cases are made for: which instructions they may use and which state they start with.
//!
//! A CPU is written as a level of the x86-64 ABI with features added or removed: `v3`, `v4-clwb`, `v2+rtm`. One machine
//! can thereby make the cases of several. `host` is all that iced-x86 knows, whether this machine has it or not: an
//! instruction that it lacks must raise the same signal under the engine as natively.
//!
//! What it can miss: the cases are executed by this machine, so a feature that it lacks is only tested as a fault.

use std::fmt::Debug;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use iced_x86::{Code, CpuidFeature};

use CpuidFeature::*;

/// What every CPU has that the engine runs on: x86-64-v2, FSGSBASE and XSAVE.
const V2: &[CpuidFeature] = &[
    INTEL8086,
    INTEL186,
    INTEL286,
    INTEL386,
    INTEL486,
    X64,
    CLFSH,
    CMOV,
    CMPXCHG16B,
    CPUID,
    CX8,
    FPU,
    FPU287,
    FPU387,
    FSGSBASE,
    FXSR,
    MMX,
    MSR,
    MULTIBYTENOP,
    PAUSE,
    POPCNT,
    PREFETCHW,
    SEP,
    SSE,
    SSE2,
    SSE3,
    SSE4_1,
    SSE4_2,
    SSSE3,
    SYSCALL,
    TSC,
    XSAVE,
];
/// What x86-64-v3 adds.
const V3: &[CpuidFeature] = &[
    AVX, AVX2, BMI1, BMI2, F16C, FMA, LZCNT, MOVBE, XSAVEC, XSAVEOPT,
];
/// What x86-64-v4 adds.
const V4: &[CpuidFeature] = &[AVX512BW, AVX512CD, AVX512DQ, AVX512F, AVX512VL];

/// Components of the extended state: x87 and SSE, then with AVX, then with AVX-512.
const STATE_V2: u64 = 0x03;
const STATE_V3: u64 = 0x07;
const STATE_V4: u64 = 0xe7;

/// A set of CPU features.
#[derive(Clone, Debug)]
pub struct Cpu {
    /// The features of the level; everything if absent.
    level: Option<Vec<CpuidFeature>>,
    state: u64,
    added: Vec<CpuidFeature>,
    removed: Vec<CpuidFeature>,
}

impl Cpu {
    /// State components that cases may start with.
    pub fn state(&self) -> u64 {
        self.state
    }

    /// Whether cases with this instruction are made.
    pub fn has_instruction(&self, code: Code) -> bool {
        code.cpuid_features()
            .iter()
            .all(|feature| self.allows(*feature))
    }

    /// Whether cases may begin transactions.
    pub fn has_transactions(&self) -> bool {
        self.allows(RTM)
    }

    /// This CPU as the machine can execute its cases: without transactions if the machine has none.
    pub fn on_this_machine(mut self) -> Cpu {
        if !std::is_x86_feature_detected!("rtm") {
            self.removed.push(RTM);
        }
        self
    }

    fn allows(&self, feature: CpuidFeature) -> bool {
        let in_level = |level: &Vec<CpuidFeature>| level.contains(&feature);
        !self.removed.contains(&feature)
            && (self.added.contains(&feature) || self.level.as_ref().is_none_or(in_level))
    }
}

impl FromStr for Cpu {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Cpu> {
        let end = text.find(['+', '-']).unwrap_or(text.len());
        let (level, mut rest) = text.split_at(end);
        let (level, state) = match level {
            "v2" => (Some(V2.to_vec()), STATE_V2),
            "v3" => (Some([V2, V3].concat()), STATE_V3),
            "v4" => (Some([V2, V3, V4].concat()), STATE_V4),
            "host" => (None, STATE_V4),
            _ => bail!(
                "there is no CPU `{text}`; give v2, v3, v4 or host, then +FEATURE or -FEATURE"
            ),
        };
        let mut cpu = Cpu {
            level,
            state,
            added: Vec::new(),
            removed: Vec::new(),
        };
        while !rest.is_empty() {
            let (sign, tail) = rest.split_at(1);
            let end = tail.find(['+', '-']).unwrap_or(tail.len());
            let named = features(&tail[..end])
                .with_context(|| format!("there is no CPU feature `{}`", &tail[..end]))?;
            let list = if sign == "+" {
                &mut cpu.added
            } else {
                &mut cpu.removed
            };
            list.extend(named);
            rest = &tail[end..];
        }
        Ok(cpu)
    }
}

/// The features with this name, in which case does not count; `amx` and `movdir` are families.
fn features(name: &str) -> Option<Vec<CpuidFeature>> {
    Some(match name {
        "amx" => vec![AMX_TILE, AMX_INT8, AMX_BF16],
        "movdir" => vec![MOVDIRI, MOVDIR64B],
        _ => {
            let is_named = |feature: &dyn Debug| format!("{feature:?}").eq_ignore_ascii_case(name);
            vec![CpuidFeature::values().find(|feature| is_named(feature))?]
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_holds_the_lower_ones() {
        let has = |cpu: &str, code: Code| cpu.parse::<Cpu>().unwrap().has_instruction(code);
        for (cpu, sse, avx, avx512) in [
            ("v2", true, false, false),
            ("v3", true, true, false),
            ("v4", true, true, true),
            ("host", true, true, true),
        ] {
            assert_eq!(has(cpu, Code::Movups_xmmm128_xmm), sse);
            assert_eq!(has(cpu, Code::VEX_Vmovups_ymmm256_ymm), avx);
            assert_eq!(has(cpu, Code::EVEX_Vmovdqu8_zmmm512_k1z_zmm), avx512);
        }
    }

    #[test]
    fn features_are_added_and_removed() {
        let has = |cpu: &str, code: Code| cpu.parse::<Cpu>().unwrap().has_instruction(code);
        assert!(!has("v4", Code::Clwb_m8));
        assert!(has("v4+clwb", Code::Clwb_m8));
        assert!(has("host", Code::Clwb_m8));
        assert!(!has("host-movdir-clwb", Code::Clwb_m8));
        assert!(!has("host-movdir-clwb", Code::Movdir64b_r64_m512));
    }

    #[test]
    fn unknown_names_are_refused() {
        let refusal = |cpu: &str| cpu.parse::<Cpu>().unwrap_err().to_string();
        assert!(refusal("v5").contains("no CPU `v5`"));
        assert!(refusal("v3+sparkle").contains("no CPU feature `sparkle`"));
    }
}
