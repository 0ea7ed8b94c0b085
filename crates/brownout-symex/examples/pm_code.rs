//! Analyses ELF files for operations on persistent memory, and prints what that costs: `pm_code FILE…`.

use std::path::Path;
use std::time::Instant;

use brownout_symex::{AnalysedFile, PmGuide, PmOperationKind as Kind};

fn main() {
    let mut guide = PmGuide::default();
    for (index, path) in std::env::args().skip(1).enumerate() {
        let started = Instant::now();
        let code =
            AnalysedFile::of_file(Path::new(&path), None).unwrap_or_else(|error| panic!("{error}"));
        let analysed = started.elapsed();
        let count = |kind| code.operations().iter().filter(|it| it.1 == kind).count();
        println!(
            "{path}: {} functions, {} instructions, {} calls, {} stores in {:.2} s",
            code.functions(),
            count(Kind::Instruction),
            count(Kind::Call),
            count(Kind::Store),
            analysed.as_secs_f64()
        );
        // Where a file is mapped does not matter here, as long as they do not overlap.
        guide.add_code(&code, (index as u64) << 40, &mut |_| false);
    }
    let started = Instant::now();
    guide.priority(0);
    println!("priorities in {:.2} s", started.elapsed().as_secs_f64());
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
    println!("{}", peak.unwrap_or("the peak of memory is not known"));
}
