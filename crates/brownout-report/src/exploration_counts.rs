//! What an exploration has run and what it has saved, as rows of a table.

use crate::{Covered, ExplorationCoverage};

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
            (self.equal_bytes, "alternative stores with equal bytes"),
            (
                self.refinement,
                "other bytes that earlier reads of the same lines exclude",
            ),
        ];
        rows.extend(saved.map(|(count, what)| (format!("saved: {what}"), count.to_string())));
        if !self.is_exhaustive() {
            let boundaries = [
                (self.every_store, "every store present"),
                (
                    self.fewest_stores,
                    "every store lost that a crash there can lose",
                ),
            ];
            rows.extend(boundaries.map(|(covered, what)| {
                let Covered { tried, of } = covered;
                (
                    format!("crash times tried with {what}"),
                    format!("{tried} of {of}"),
                )
            }));
        }
        rows.push((
            "crash states (one recovery each without exploration)".to_owned(),
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

    #[test]
    fn if_something_is_missing_it_is_counted_what_was_tried_everywhere() {
        let coverage = ExplorationCoverage {
            crash_times: Covered::new(2, 9),
            every_store: Covered::new(9, 9),
            fewest_stores: Covered::new(5, 9),
            ..ExplorationCoverage::default()
        };
        let rows = coverage.counts();
        let numbers: Vec<&str> = rows.iter().map(|(_, number)| number.as_str()).collect();
        assert_eq!(numbers[5..7], ["9 of 9", "5 of 9"]);
    }
}
