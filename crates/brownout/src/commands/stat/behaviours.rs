//! `brownout stat --behaviours`: the types of persistent objects, and how the stores of a run change them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Write};

use brownout_crash::object_types::{FieldId, ObjectId, StoreTypes, TypeId, TypedShare};
use brownout_crash::{RecordedRun, update_statistics};
use brownout_model::Profile;
use serde_json::{Value, json};

use super::update_behaviours;
use crate::arguments::{Format, StatArgs};
use crate::console::{self, Console};
use crate::crash_test::{CrashSymbols, CrashTestMonitor, PointFilters, scope};
use crate::exit_code::ExitCode;
use crate::failure::{Failure, sentence};
use crate::quantity::number_of;
use crate::terminal_text::OneLine;
use crate::trace_file::TraceFile;

pub fn run(arguments: &StatArgs, console: &Console) -> Result<ExitCode, Failure> {
    let mut trace = TraceFile::open(&arguments.trace)?;
    let selection = trace.select(&arguments.selection.patterns, console)?;
    let code = trace.report_missing(console);
    if selection.is_empty() {
        console.warn("nothing persistent was seen; select files with --pm");
    }
    let mut monitor = CrashTestMonitor::new(None, console);
    monitor.begin_reading(trace.events());
    let run = RecordedRun::new(trace.path(), selection);
    let mut symbols = CrashSymbols::new(&trace.header().cwd, PointFilters::new(&arguments.points)?);
    let scope = scope(&arguments.points);
    let profile = Profile::default();
    let (statistics, read) = update_statistics(&run, &scope, profile, &mut symbols, &mut monitor)?;
    drop(monitor);
    let types = &statistics.types;
    let frequent = Frequent::of(types, arguments.top);
    let mut out = console::results();
    match arguments.format {
        Format::Human => print_text(types, &frequent, &mut out)
            .and_then(|()| update_behaviours::print(&statistics, arguments.top, &mut out)),
        Format::Json => {
            let behaviours = update_behaviours::json(&statistics, arguments.top);
            print_json(types, &frequent, behaviours, &mut out)
        }
    }
    .and_then(|()| out.flush())
    .map_err(Failure::Output)?;
    for problem in read.problems() {
        console.warn(sentence(problem));
    }
    Ok(code)
}

/// The types and fields that most stores change.
struct Frequent {
    /// With the numbers of stores and objects.
    types: Vec<(TypeId, u64, u64)>,
    fields: Vec<(FieldId, u64)>,
}

impl Frequent {
    fn of(types: &StoreTypes, top: usize) -> Self {
        let mut objects: HashMap<TypeId, (u64, HashSet<ObjectId>)> = HashMap::new();
        let mut fields: BTreeMap<FieldId, u64> = BTreeMap::new();
        for (_, store) in types.typed() {
            let (stores, known) = objects.entry(store.ty).or_default();
            *stores += 1;
            known.insert(store.object);
            *fields.entry(store.field).or_default() += 1;
        }
        let counted = objects.into_iter();
        let mut found: Vec<(TypeId, u64, u64)> = counted
            .map(|(ty, (stores, objects))| (ty, stores, objects.len() as u64))
            .collect();
        found.sort_by_key(|&(ty, stores, _)| (Reverse(stores), ty));
        found.truncate(top);
        let mut fields: Vec<(FieldId, u64)> = fields.into_iter().collect();
        fields.sort_by_key(|&(field, stores)| (Reverse(stores), field));
        fields.truncate(top);
        Self {
            types: found,
            fields,
        }
    }
}

/// How the types of stores were determined, in words.
fn sources(share: &TypedShare) -> [(&'static str, u64); 4] {
    [
        ("debug information", share.debug_info),
        ("allocation", share.allocation),
        ("pattern of accesses", share.structural),
        ("none", share.none),
    ]
}

fn print_text(types: &StoreTypes, frequent: &Frequent, out: &mut impl Write) -> io::Result<()> {
    let share = types.share_typed();
    let stores = share.stores();
    writeln!(out, "{} to persistent files", number_of(stores, "store"))?;
    writeln!(out, "\nType known from")?;
    for (name, count) in sources(&share) {
        let percent = count as f64 * 100.0 / stores.max(1) as f64;
        writeln!(out, "  {count:>10}  {percent:5.1} %  {name}")?;
    }
    if !frequent.types.is_empty() {
        writeln!(out, "\nMost frequent types")?;
    }
    for &(ty, stores, objects) in &frequent.types {
        let name = OneLine(types.names.type_name(ty).into());
        let objects = number_of(objects, "object");
        match types.names.size(ty) {
            0 => writeln!(out, "  {stores:>10}  {name}  ({objects})")?,
            size => writeln!(out, "  {stores:>10}  {name}  ({objects} of {size} B)")?,
        }
    }
    if !frequent.fields.is_empty() {
        writeln!(out, "\nMost frequent fields")?;
    }
    for &(field, stores) in &frequent.fields {
        let name = types.names.field_name(field);
        writeln!(out, "  {stores:>10}  {}", OneLine(name.as_str().into()))?;
    }
    Ok(())
}

fn print_json(
    types: &StoreTypes,
    frequent: &Frequent,
    behaviours: Value,
    out: &mut impl Write,
) -> io::Result<()> {
    let share = types.share_typed();
    let listed = frequent.types.iter().map(|&(ty, stores, objects)| {
        json!({
            "name": types.names.type_name(ty),
            "size": types.names.size(ty),
            "stores": stores,
            "objects": objects,
        })
    });
    let fields = frequent
        .fields
        .iter()
        .map(|&(field, stores)| json!({ "name": types.names.field_name(field), "stores": stores }));
    let shown = json!({
        "stores": share.stores(),
        "typed_by": {
            "debug_info": share.debug_info,
            "allocation": share.allocation,
            "structure": share.structural,
            "none": share.none,
        },
        "types": listed.collect::<Vec<_>>(),
        "fields": fields.collect::<Vec<_>>(),
        "update_behaviours": behaviours,
    });
    writeln!(out, "{shown:#}")
}
