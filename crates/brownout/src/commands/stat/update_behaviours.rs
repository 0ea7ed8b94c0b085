//! The part of `brownout stat --behaviours` about update behaviours: objects, their updates, and which of these represent all others.

use std::io::{self, Write};

use brownout_crash::{RepresentativeStatistics, UpdateStatistics};
use serde_json::{Value, json};

use crate::quantity::number_of;
use crate::terminal_text::OneLine;

/// Prints it as text.
pub fn print(statistics: &UpdateStatistics, top: usize, out: &mut impl Write) -> io::Result<()> {
    let names = &statistics.types.names;
    let groups = statistics.representatives.len() as u64;
    writeln!(
        out,
        "\n{} of {}; {}",
        number_of(statistics.behaviours, "update behaviour"),
        number_of(statistics.instances, "object"),
        match groups {
            1 => "1 represents all others".to_owned(),
            groups => format!("{groups} represent all others"),
        }
    )?;
    if statistics.behaviours > 0 {
        writeln!(out, "\n  updates   objects    groups  type")?;
    }
    for known in statistics.by_type.iter().take(top) {
        writeln!(
            out,
            "{:>9} {:>9} {:>9}  {}",
            known.behaviours,
            known.instances,
            known.groups,
            OneLine(names.type_name(known.ty).into())
        )?;
    }
    if groups > 0 {
        writeln!(out, "\nRepresentatives")?;
    }
    for known in statistics.representatives.iter().take(top) {
        let pairs = number_of(known.ordered_pairs, "ordered pair");
        writeln!(
            out,
            "{:>9}  {}  ({pairs}, event {})",
            known.members,
            OneLine(fields(known).as_str().into()),
            known.event
        )?;
    }
    Ok(())
}

/// What a representative updates.
fn fields(known: &RepresentativeStatistics) -> String {
    let mut text = known.fields.join(", ");
    let more = known.stores.saturating_sub(known.fields.len() as u64);
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

/// The same for programs.
pub fn json(statistics: &UpdateStatistics, top: usize) -> Value {
    let names = &statistics.types.names;
    let by_type = statistics.by_type.iter().take(top).map(|known| {
        json!({
            "name": names.type_name(known.ty),
            "objects": known.instances,
            "updates": known.behaviours,
            "groups": known.groups,
            "largest": known.largest,
        })
    });
    let representatives = statistics.representatives.iter().take(top).map(|known| {
        json!({
            "type": names.type_name(known.ty),
            "fields": known.fields,
            "stores": known.stores,
            "ordered_pairs": known.ordered_pairs,
            "members": known.members,
            "event": known.event,
        })
    });
    let durations = &statistics.durations;
    json!({
        "seconds": {
            "order": durations.order.as_secs_f64(),
            "types": durations.types.as_secs_f64(),
            "groups": durations.groups.as_secs_f64(),
        },
        "objects": statistics.instances,
        "updates": statistics.behaviours,
        "groups": statistics.representatives.len(),
        "types": by_type.collect::<Vec<_>>(),
        "representatives": representatives.collect::<Vec<_>>(),
    })
}
