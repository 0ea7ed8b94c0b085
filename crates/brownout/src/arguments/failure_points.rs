//! The options that say at which failure points crashes are tested.

use brownout_crash::Granularity;
use clap::{Args, ValueEnum};

/// Which failure points are tested.
#[derive(Clone, Debug, Default, Args)]
pub struct FailurePointArgs {
    /// Which events are failure points
    #[arg(long, value_enum)]
    pub granularity: Option<GranularityArg>,

    /// Test no crash before FUNCTION has returned for the first time
    ///
    /// FUNCTION is a name as for --op. Calls of pmemobj_create and pmemobj_open are always recorded; for other functions,
    /// `crash` needs a trace that was recorded with --watch FUNCTION.
    #[arg(long, value_name = "FUNCTION")]
    pub after: Option<String>,

    /// Also test crashes inside the creation of a pool
    ///
    /// By default, failure points inside functions that create pools, such as pmemobj_create, are counted but not tested:
    /// such a function need not survive a crash, because a program whose pool is incomplete creates it again.
    #[arg(long)]
    pub from_start: bool,

    /// Test only failure points with FUNCTION on the call stack
    ///
    /// FUNCTION is a name as for --op. This option, --in-file and --in-module can be given more than once: a failure point is
    /// tested if, of each of these options that is given, at least one value matches. A value that matches no failure point is
    /// an error.
    #[arg(long = "in-function", value_name = "FUNCTION")]
    pub functions: Vec<String>,

    /// Test only failure points with code of a source file that matches GLOB on the call stack
    #[arg(long = "in-file", value_name = "GLOB")]
    pub files: Vec<String>,

    /// Test only failure points with code of a module (the program or a library) that matches GLOB on the call stack
    #[arg(long = "in-module", value_name = "GLOB")]
    pub modules: Vec<String>,
}

impl FailurePointArgs {
    /// The options that are given.
    pub fn given(&self) -> impl Iterator<Item = &'static str> {
        let Self {
            granularity,
            after,
            from_start,
            functions,
            files,
            modules,
        } = self;
        let options = [
            ("--granularity", granularity.is_some()),
            ("--after", after.is_some()),
            ("--from-start", *from_start),
            ("--in-function", !functions.is_empty()),
            ("--in-file", !files.is_empty()),
            ("--in-module", !modules.is_empty()),
        ];
        let given = options.into_iter().filter(|(_, given)| *given);
        given.map(|(option, _)| option)
    }
}

/// Which events are failure points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GranularityArg {
    /// Flushes, fences and locked instructions
    Flush,
    /// Stores too
    Store,
}

impl From<GranularityArg> for Granularity {
    fn from(granularity: GranularityArg) -> Self {
        match granularity {
            GranularityArg::Flush => Self::Flush,
            GranularityArg::Store => Self::Store,
        }
    }
}
