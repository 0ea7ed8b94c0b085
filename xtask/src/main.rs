//! `cargo xtask`: all checks, tests and benchmarks of the project. People and continuous integration run the same
//! commands.

#![deny(unsafe_code)]

mod all_checks;
mod architecture;
mod args;
mod bench;
mod checkout_copy;
mod compare;
mod corpus;
mod cpu;
mod differential;
mod exactness;
mod exploration;
mod fuzz;
mod fuzzing;
mod guide;
mod parallel;
mod programs;
mod recall;
mod repairs;
mod setup;
mod shell;
mod signal_names;
mod soak;
mod solving;
#[expect(unsafe_code, reason = "it wraps what rustix does not have")]
mod sys;
mod test_directory;
mod tidy;
mod transparency;
mod wrapper;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::args::Args;

const USAGE: &str = "\
cargo xtask COMMAND [OPTIONS]

  setup [--all]         install the Debian packages that `test` needs (--all: that every command needs)
  test                  everything that must pass: format, tidy, clippy, documentation, unit tests, packages, the
                        diffs of CONTRIBUTING.md, neutral code without x86-64, a bounded fuzz run, the core of
                        differential, transparency, exactness, the corpus and repairs, 40 cases of exploration, and what
                        depends on CPU features once more as on CPUs of x86-64-v2, v3 and v4
  ci                    setup, then test
  tidy                  what no other tool checks of the sources, documents and dependencies
  package               every published crate builds from what its package holds
  guide                 the diffs in CONTRIBUTING.md apply and compile
  architecture          what is not under `arch/` compiles without x86-64
  fuzz [--iterations N] [--libfuzzer [--seconds N]]
                        feed broken traces to the reader
  transparency          programs behave under `brownout record` as they do natively
  exactness             the trace replayed over the initial files gives the final files
      options of both:  --core  --filter TEXT  --runs N  --jobs N  --keep  --allow-missing  --list
                        --brownout PATH (instead of building it)  --wrapper 'CMD ARGS' (instead of recording)
                        --schedule SEED (run threads in its order)
                        --cpu CPU (run as on a CPU of x86-64-v2, v3 or v4: v2, v3+rtm, v4+clwb, …)
  soak                  long-running programs do not grow under `brownout record`
      options:          --minutes N  --filter TEXT  --jobs N  --brownout PATH
  differential          generated instructions do what they do natively
      options:          --core  --seed N  --cases N  --jobs N  --brownout PATH  --cpu CPU (make cases for it)
                        --symbolic (symbolic replay computes what the processor does)  --core  --seed N  --cases N
  exploration           `crash --strategy exhaustive` sees what recovery does natively on every crash image
      options:          --cases N  --seed N  --only CASE  --jobs N  --keep  --brownout PATH
  corpus                brownout reports exactly the findings that are written on the programs' lines
      options:          --core (two builds of each variant)  --filter TEXT  --jobs N  --list  --brownout PATH
                        --native (without brownout)  --dir DIR (programs of your own)
  repairs               `brownout fix` repairs the programs in tests/repairs as well as their authors
      options:          --core (one build of each)  --filter TEXT  --jobs N  --brownout PATH
  fuzzing               how soon `brownout fuzz` finds the mistakes in the stores of tests/fuzzing
      options:          --runs N (campaigns of each store)  --time-limit SECONDS  --filter TEXT  --jobs N  --brownout PATH
  solving               how soon `brownout symex` finds the mistakes behind the conditions of tests/solving, beside `brownout fuzz`
      options:          --time-limit SECONDS  --filter TEXT  --search ORDER  --no-fuzz  --jobs N  --brownout PATH
  recall                the share of the bugs that `exhaustive` finds in generated programs that `representative` finds
      options:          --cases N  --seed N  --only CASE  --jobs N  --brownout PATH
  bench engine          what recording costs, as a multiple of native
      options:          --runs N  --only NAME  --loads  --no-others  --brownout PATH  --wrapper 'CMD ARGS'
  bench lint            how fast traces are linted, and in how much memory
  bench crash           how fast recoveries are tried, against bare fork and exec
  bench explore         how fast processes fork and recoveries are explored, against native
  bench fix             how long `brownout fix` takes from findings to proven patches, and how fast a repaired program is
  bench fuzz            executions a second by copies of the target, against fork and exec
  bench race            what recording for races costs, and how fast they are found, in how much memory
  bench represent       how fast the update behaviours of a long run are found, and in how much memory; how soon
                        `auto` and `prefix` find the first bug of programs of the corpus
      options of these: --runs N  --brownout PATH
                        crash: --jobs N   explore: --only NAME   fix: --lines N (inputs of at most so many lines)
                        represent: --only steps|first-bug  --time-limit SECONDS
";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut args = Args::from_env();
    let Some(command) = args.positional() else {
        print!("{USAGE}");
        return Ok(());
    };
    match command.as_str() {
        "setup" => setup::run(args),
        "test" => all_checks::test(args),
        "ci" => all_checks::ci(args),
        "tidy" => tidy::run(args),
        "package" => all_checks::package(args),
        "guide" => guide::run(args),
        "architecture" => architecture::run(args),
        "fuzz" => fuzz::run(args),
        "fuzzing" => fuzzing::run(args),
        "solving" => solving::run(args),
        "transparency" => transparency::run(args),
        "exactness" => exactness::run(args),
        "soak" => soak::run(args),
        "differential" => differential::run(args),
        "exploration" => exploration::run(args),
        "corpus" => corpus::run(args),
        "repairs" => repairs::run(args),
        "recall" => recall::run(args),
        "bench" => bench::run(args),
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            Ok(())
        }
        other => bail!("unknown command {other:?}; `cargo xtask help` lists the commands"),
    }
}
