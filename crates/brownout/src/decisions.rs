//! What the user has decided about findings: suppressions and a baseline.

use std::fs;
use std::io::Write as _;

use brownout_report::{Baseline, Report, Sources, Suppressions};

use crate::console::Console;
use crate::failure::Failure;
use crate::output_directory::write_file;
use crate::rules;
use crate::settings::Settings;

/// Suppressions and a baseline, read before the target runs so that mistakes in them are reported at once.
pub struct Decisions {
    suppressions: Suppressions,
    baseline: Option<Baseline>,
}

impl Decisions {
    pub fn read(settings: &Settings) -> Result<Self, Failure> {
        let mut suppressions = Suppressions::default();
        for path in &settings.suppressions {
            let text = fs::read_to_string(path).map_err(|source| Failure::Decision {
                path: path.clone(),
                source,
            })?;
            suppressions
                .add(path, &text)
                .map_err(|source| Failure::Suppressions {
                    path: path.clone(),
                    source,
                })?;
        }
        check_rules(&suppressions, settings)?;
        let baseline = settings.baseline.as_ref().map(|path| {
            let text = fs::read_to_string(path).map_err(|source| Failure::Decision {
                path: path.clone(),
                source,
            })?;
            Baseline::parse(&text).map_err(|source| Failure::Baseline {
                path: path.clone(),
                source,
            })
        });
        Ok(Self {
            suppressions,
            baseline: baseline.transpose()?,
        })
    }

    /// Removes suppressed and known findings from a report that is not the last of the run.
    pub fn apply_for_now(&self, report: &mut Report) {
        report.suppress(&mut self.suppressions.clone(), &Sources::on_disk());
        if let Some(baseline) = &self.baseline {
            report.compare_with(baseline, &Sources::on_disk());
        }
    }

    /// Removes suppressed and known findings from the report, and writes a baseline if requested. Only writing can fail.
    pub fn apply(
        mut self,
        report: &mut Report,
        settings: &Settings,
        console: &Console,
    ) -> Result<(), Failure> {
        report.suppress(&mut self.suppressions, &Sources::on_disk());
        for unused in self.suppressions.unused() {
            console.remark(format_args!(
                "{}:{}: unused suppression: {}",
                unused.origin.file.display(),
                unused.origin.line,
                unused.reason
            ));
        }
        let written = settings.write_baseline.as_ref().map_or(Ok(()), |path| {
            let text = Baseline::of(report.findings(), &Sources::on_disk()).to_text();
            write_file(path, |out| out.write_all(text.as_bytes()))
        });
        if let Some(baseline) = &self.baseline {
            report.compare_with(baseline, &Sources::on_disk());
        }
        written
    }
}

/// A suppression of a rule that does not exist would hide nothing, which the user would notice late.
fn check_rules(suppressions: &Suppressions, settings: &Settings) -> Result<(), Failure> {
    let rules = rules::all().into_iter().map(|rule| rule.id);
    let oracles = settings.oracles.iter().map(|oracle| oracle.rule().id);
    let known: Vec<&str> = rules.chain(oracles).collect();
    match suppressions.without_rule(&known) {
        None => Ok(()),
        Some((origin, rule)) => Err(Failure::SuppressedRule {
            path: origin.file.clone(),
            line: origin.line,
            near: rules::nearest(rule),
            rule: rule.to_owned(),
        }),
    }
}
