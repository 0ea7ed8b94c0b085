//! What an exploration has run and what it has saved, as rows of a table.

use crate::ExplorationCoverage;

impl ExplorationCoverage {
    /// What was counted: a description and a number each.
    pub fn counts(&self) -> Vec<(String, String)> {
        let mut rows = vec![
            ("recoveries run".to_owned(), self.executions.to_string()),
            (
                "of these, copies that share the start of an earlier one".to_owned(),
                self.copies.to_string(),
            ),
        ];
        let anew = self.run_anew.iter();
        rows.extend(anew.map(|(reason, count)| {
            let what = format!("of these, run from the beginning because {reason}");
            (what, count.to_string())
        }));
        let remembered = (self.remembered > 0).then(|| {
            let what = "saved: known from explorations of other recordings (--memory)";
            (what.to_owned(), self.remembered.to_string())
        });
        rows.extend(remembered);
        let saved = [
            (
                self.known_paths,
                "known from a recovery that has read the same bytes",
            ),
            (
                self.equal_bytes,
                "other stores that show recovery the same bytes",
            ),
            (
                self.refinement,
                "other bytes that earlier reads of the same lines exclude",
            ),
        ];
        rows.extend(saved.map(|(count, what)| (format!("saved: {what}"), count.to_string())));
        rows.push((
            "states that a crash can leave, of which each would be a recovery".to_owned(),
            format!("10^{:.1}", self.states_log10),
        ));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_was_counted_has_a_row() {
        let coverage = ExplorationCoverage {
            executions: 14,
            copies: 9,
            run_anew: [("it is a server".to_owned(), 2)].into(),
            remembered: 6,
            known_paths: 35,
            equal_bytes: 3,
            refinement: 4,
            states_log10: 3.21,
            ..ExplorationCoverage::default()
        };
        let rows = coverage.counts();
        let numbers: Vec<&str> = rows.iter().map(|(_, number)| number.as_str()).collect();
        assert_eq!(numbers, ["14", "9", "2", "6", "35", "3", "4", "10^3.2"]);
        assert!(rows[2].0.ends_with("because it is a server"));
    }
}
