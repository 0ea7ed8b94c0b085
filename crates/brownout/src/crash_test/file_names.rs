//! Names of persistent files under which a crash test may not find them.

use brownout_crash::PersistentFiles;

use crate::trace_file::TraceFile;

/// What crash images cannot show of the names of persistent files, and whether the recovery command leaves open which of
/// their names it uses; one sentence each.
pub fn unshown_names(trace: &TraceFile, files: &PersistentFiles, command: &str) -> Vec<String> {
    let mut sentences = trace.notes().unshown_names(trace.persistent_files());
    let renamed = files.renamed().first().filter(|_| command.contains("{pm"));
    if let Some((earlier, now)) = renamed {
        let (earlier, now) = (earlier.display(), now.display());
        sentences.push(format!(
            "{{pm}} in the recovery command stands for {now}; until the program renamed the file, it was {earlier}, and \
             crash images of that time have it there only; write the path that recovery uses instead of {{pm}}"
        ));
    }
    sentences
}
