//! The real programs that are run, by kind. A run is added by adding a line to one of these tables.

mod builds;
mod languages;
mod servers;
mod shells;
mod stress;
mod tools;

use super::case::Case;

pub fn cases() -> impl Iterator<Item = &'static Case> {
    [
        shells::CASES,
        tools::CASES,
        languages::CASES,
        builds::CASES,
        servers::CASES,
        stress::CASES,
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crate::setup::package_of;

    #[test]
    fn names_are_unique() {
        let mut seen = HashSet::new();
        super::cases()
            .for_each(|case| assert!(seen.insert(case.name), "{} is there twice", case.name));
    }

    #[test]
    fn there_are_sixty_runs_and_setup_knows_their_packages() {
        assert!(super::cases().count() >= 60);
        for name in super::cases().flat_map(|case| case.needs) {
            assert!(
                package_of(name).is_some(),
                "no package is known to bring {name}"
            );
        }
    }
}
