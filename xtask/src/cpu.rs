//! The CPU that tests run as: one machine stands in for several by leaving out what they lack.
//!
//! A CPU is written as in `tests/differential/src/cpu.rs`: a level of the x86-64 ABI and what it has besides, `v3+rtm`.
//! Our own programs ask `cpu_has` of `tests/programs/check.h`, the C library reads its tunables, libpmem its variables;
//! here the variables for all of them are made.
//!
//! What it can miss: CPUID cannot be altered, so a program that asks it directly sees this machine. What this machine
//! lacks cannot be added; a notice names it.

use std::arch::x86_64::{__cpuid_count, CpuidResult};

use anyhow::{Context, Result, bail};

use crate::args::Args;

/// The CPUs that `cargo xtask test` runs as, besides this machine itself.
pub const MASKS: [&str; 5] = [
    "v2",
    "v3+rtm",
    "v3+clflushopt+clwb",
    "v4+clflushopt",
    "v4+rtm+amx+clflushopt+clwb+movdir",
];

/// What may be added to a level.
const EXTRAS: [&str; 5] = ["rtm", "amx", "clflushopt", "clwb", "movdir"];

/// Names that the C library has for what a level adds.
const HWCAPS_V3: &[&str] = &[
    "AVX", "AVX2", "BMI1", "BMI2", "F16C", "FMA", "LZCNT", "MOVBE", "XSAVE", "XSAVEC",
];
const HWCAPS_V4: &[&str] = &["AVX512F", "AVX512BW", "AVX512CD", "AVX512DQ", "AVX512VL"];

/// A CPU to run as; this machine if it has no level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    text: String,
    level: Option<u32>,
    extras: Vec<&'static str>,
}

impl Cpu {
    /// Takes `--cpu CPU`.
    pub fn from_args(args: &mut Args) -> Result<Cpu> {
        match args.value("--cpu")? {
            Some(text) => {
                let cpu = Cpu::parse(&text)?;
                let missing = cpu.missing(__cpuid_count(7, 0));
                if !missing.is_empty() {
                    println!(
                        "notice: this machine lacks {}, which the CPU {text} has: not tested",
                        missing.join(", ")
                    );
                }
                Ok(cpu)
            }
            None => Ok(Cpu::default()),
        }
    }

    /// What this CPU has and the machine with these features (leaf 7 of CPUID) lacks.
    fn missing(&self, machine: CpuidResult) -> Vec<&'static str> {
        let has = |word: u32, bit: u32| word & 1 << bit != 0;
        let of_levels = [
            (3, "avx2", has(machine.ebx, 5)),
            (4, "avx512f", has(machine.ebx, 16)),
        ];
        let of_levels = of_levels
            .into_iter()
            .filter(|(level, ..)| self.level.is_some_and(|own| own >= *level))
            .map(|(_, name, here)| (name, here));
        let extras = [
            ("rtm", has(machine.ebx, 11)),
            ("amx", has(machine.edx, 24)),
            ("clflushopt", has(machine.ebx, 23)),
            ("clwb", has(machine.ebx, 24)),
            ("movdir", has(machine.ecx, 27) && has(machine.ecx, 28)),
        ];
        let extras = extras
            .into_iter()
            .filter(|(name, _)| self.extras.contains(name));
        let all = of_levels.chain(extras);
        all.filter(|(_, here)| !here)
            .map(|(name, _)| name)
            .collect()
    }

    fn parse(text: &str) -> Result<Cpu> {
        let mut words = text.split('+');
        let level = match words.next() {
            Some("v2") => 2,
            Some("v3") => 3,
            Some("v4") => 4,
            Some("host") if text == "host" => return Ok(Cpu::default()),
            _ => bail!("there is no CPU `{text}`; give v2, v3, v4 or host"),
        };
        let known = |word: &str| EXTRAS.into_iter().find(|extra| *extra == word);
        let extras = words
            .map(|word| known(word).with_context(|| format!("there is no CPU feature `{word}`")))
            .collect::<Result<_>>()?;
        Ok(Cpu {
            text: text.to_owned(),
            level: Some(level),
            extras,
        })
    }

    /// What `tests/differential` calls this CPU.
    pub fn name(&self) -> &str {
        if self.level.is_some() {
            &self.text
        } else {
            "host"
        }
    }

    /// Variables under which programs run as on this CPU.
    pub fn environment(&self) -> Vec<(String, String)> {
        let Some(level) = self.level else {
            return Vec::new();
        };
        let has = |extra: &str| self.extras.contains(&extra);
        let mut lacking: Vec<&str> = Vec::new();
        if level < 3 {
            lacking.extend(HWCAPS_V3);
        }
        if level < 4 {
            lacking.extend(HWCAPS_V4);
        }
        if !has("rtm") {
            lacking.push("RTM");
        }
        let hwcaps: Vec<String> = lacking.iter().map(|name| format!("-{name}")).collect();
        let mut variables = vec![
            ("BROWNOUT_TEST_CPU", self.text.clone()),
            (
                "GLIBC_TUNABLES",
                format!("glibc.cpu.hwcaps={}", hwcaps.join(",")),
            ),
            ("PMEM_AVX", u32::from(level >= 3).to_string()),
            ("PMEM_AVX512F", u32::from(level >= 4).to_string()),
        ];
        for (feature, variable) in [
            ("clwb", "PMEM_NO_CLWB"),
            ("clflushopt", "PMEM_NO_CLFLUSHOPT"),
            ("movdir", "PMEM_NO_MOVDIR64B"),
        ] {
            if !has(feature) {
                variables.push((variable, "1".to_owned()));
            }
        }
        variables
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}

/// Which flushes that a fence must follow this machine has.
pub struct Flushes {
    pub clwb: bool,
    pub clflushopt: bool,
}

impl Flushes {
    pub fn of_this_machine() -> Flushes {
        const CLFLUSHOPT: u32 = 1 << 23;
        const CLWB: u32 = 1 << 24;
        let features = __cpuid_count(7, 0).ebx;
        Flushes {
            clwb: features & CLWB != 0,
            clflushopt: features & CLFLUSHOPT != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(cpu: &str, name: &str) -> Option<String> {
        let environment = Cpu::parse(cpu).unwrap().environment();
        environment
            .into_iter()
            .find_map(|(found, value)| (found == name).then_some(value))
    }

    #[test]
    fn the_masks_are_known_and_differ() {
        let cpus: Vec<Cpu> = MASKS.map(|mask| Cpu::parse(mask).unwrap()).to_vec();
        for (index, cpu) in cpus.iter().enumerate() {
            assert!(!cpus[..index].contains(cpu));
        }
    }

    #[test]
    fn what_a_cpu_lacks_is_taken_away() {
        let hwcaps = |cpu| variable(cpu, "GLIBC_TUNABLES").unwrap();
        assert!(hwcaps("v2").contains("-AVX2,") && hwcaps("v2").contains("-AVX512F,"));
        assert!(!hwcaps("v3").contains("-AVX2,") && hwcaps("v3").contains("-AVX512F,"));
        assert!(hwcaps("v4").contains("-RTM") && !hwcaps("v4+rtm").contains("-RTM"));
        assert_eq!(variable("v4", "PMEM_NO_CLWB").as_deref(), Some("1"));
        assert_eq!(variable("v4+clwb", "PMEM_NO_CLWB"), None);
        assert_eq!(variable("v2", "PMEM_AVX").as_deref(), Some("0"));
    }

    #[test]
    fn what_the_machine_lacks_is_named() {
        let missing = |cpu: &str, ebx| {
            let machine = CpuidResult {
                eax: 0,
                ebx,
                ecx: 0,
                edx: 0,
            };
            Cpu::parse(cpu).unwrap().missing(machine)
        };
        let (avx2, rtm, avx512f) = (1 << 5, 1 << 11, 1 << 16);
        assert_eq!(missing("v3+rtm", avx2), ["rtm"]);
        assert_eq!(missing("v3+rtm", avx2 | rtm), [""; 0]);
        assert_eq!(missing("v4+amx", avx2), ["avx512f", "amx"]);
        assert_eq!(missing("v4+movdir", avx2 | avx512f), ["movdir"]);
        assert_eq!(missing("v2", 0), [""; 0]);
        assert_eq!(missing("host", 0), [""; 0]);
    }

    #[test]
    fn every_extra_can_be_missing() {
        let machine = CpuidResult {
            eax: 0,
            ebx: 0,
            ecx: 0,
            edx: 0,
        };
        let cpu = Cpu::parse(&format!("v2+{}", EXTRAS.join("+"))).unwrap();
        assert_eq!(cpu.missing(machine), EXTRAS);
    }

    #[test]
    fn this_machine_is_left_as_it_is() {
        assert!(Cpu::default().environment().is_empty());
        assert_eq!(Cpu::parse("host").unwrap().name(), "host");
    }

    #[test]
    fn unknown_cpus_are_refused() {
        for text in ["v5", "host+rtm", "v3+sparkle", ""] {
            assert!(Cpu::parse(text).is_err(), "{text}");
        }
    }
}
