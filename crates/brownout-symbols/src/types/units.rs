//! The units of a module's debug information, parsed when they are needed: those of the file, of its `dwz` supplement and of split
//! units.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use addr2line::SplitDwarfLoad;
use brownout_libraries::is_library_module;
use gimli::{AttributeValue, DebugTypeSignature, Dwarf, Unit, UnitHeader, UnitType};

use super::unit_index::UnitIndex;
use crate::ModuleProblem;
use crate::debug_files::DebugDirectories;
use crate::dwarf::{self, DebugReader, SplitUnits};
use crate::elf::ElfFile;

/// The units of a module.
pub(crate) struct Units {
    split: SplitUnits,
    is_library: bool,
    slots: Vec<Slot>,
    /// Units by where their headers are, for each file.
    offsets: [Vec<(usize, u32)>; 2],
    /// Type units, with the offset of the type in the unit.
    signatures: HashMap<DebugTypeSignature, (u32, usize)>,
    /// Code of units, sorted; `None` until first needed.
    code: Option<Vec<(Range<u64>, u32)>>,
    /// Types that are defined in a unit by name; `None` until first needed.
    definitions: Option<HashMap<Arc<str>, (u32, usize)>>,
}

/// Which file a unit is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Main,
    Supplement,
}

struct Slot {
    holder: Holder,
    dwarf: Arc<Dwarf<DebugReader>>,
    header: UnitHeader<DebugReader>,
    parsed: Option<Arc<ParsedUnit>>,
}

type UnitInFile = (Arc<Dwarf<DebugReader>>, Unit<DebugReader>);

/// A unit with the sections that it refers to.
pub(crate) struct ParsedUnit {
    pub(crate) dwarf: Arc<Dwarf<DebugReader>>,
    pub(crate) unit: Unit<DebugReader>,
    pub(crate) index: UnitIndex,
    holder: Holder,
}

impl Units {
    /// `None` if neither the module nor its debug file has DWARF.
    pub(super) fn load(
        module: &ElfFile,
        debug_file: Option<&ElfFile>,
        directories: &DebugDirectories,
    ) -> Result<Option<Self>, ModuleProblem> {
        let Some(main) = dwarf::load(module, debug_file, directories)? else {
            return Ok(None);
        };
        let mut paths = vec![module.path()];
        paths.extend(debug_file.map(ElfFile::path));
        let mut units = Self {
            split: SplitUnits::beside(&paths),
            is_library: module.path().file_name().is_some_and(|name| {
                let name = name.to_string_lossy();
                is_library_module(&name)
            }),
            slots: Vec::new(),
            offsets: [Vec::new(), Vec::new()],
            signatures: HashMap::new(),
            code: None,
            definitions: None,
        };
        let damaged = |source| dwarf::damaged(module.path(), source);
        units.add_all(&Arc::new(main)).map_err(damaged)?;
        Ok(Some(units))
    }

    fn add_all(&mut self, main: &Arc<Dwarf<DebugReader>>) -> gimli::Result<()> {
        let mut files = vec![(Holder::Main, main.clone())];
        files.extend(main.sup.clone().map(|file| (Holder::Supplement, file)));
        for (holder, dwarf) in files {
            let mut headers = dwarf.units();
            while let Some(header) = headers.next()? {
                self.add(holder, &dwarf, header);
            }
            let mut headers = dwarf.type_units();
            while let Some(header) = headers.next()? {
                self.add(holder, &dwarf, header);
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        holder: Holder,
        dwarf: &Arc<Dwarf<DebugReader>>,
        header: UnitHeader<DebugReader>,
    ) {
        let number = u32::try_from(self.slots.len()).expect("fewer than 2³² units");
        if let UnitType::Type {
            type_signature,
            type_offset,
        }
        | UnitType::SplitType {
            type_signature,
            type_offset,
        } = header.type_()
        {
            self.signatures
                .insert(type_signature, (number, type_offset.0));
        }
        if let Some(at) = header.debug_info_offset() {
            self.offsets[holder as usize].push((at.0, number));
        }
        self.slots.push(Slot {
            holder,
            dwarf: dwarf.clone(),
            header,
            parsed: None,
        });
    }

    /// A unit; of a split unit the part in its `.dwo` file.
    pub(crate) fn unit(&mut self, number: u32) -> gimli::Result<Arc<ParsedUnit>> {
        let slot = &mut self.slots[number as usize];
        if let Some(parsed) = &slot.parsed {
            return Ok(parsed.clone());
        }
        let skeleton = slot.dwarf.unit(slot.header.clone())?;
        let (dwarf, unit) = match self.split.part(&slot.dwarf, &skeleton)? {
            Some(found) => found,
            None => (slot.dwarf.clone(), skeleton),
        };
        let parsed = Arc::new(ParsedUnit {
            index: UnitIndex::of(&dwarf, &unit)?,
            dwarf,
            unit,
            holder: slot.holder,
        });
        slot.parsed = Some(parsed.clone());
        Ok(parsed)
    }

    /// The unit and the offset in it that an attribute of `from`, which is unit `number`, refers to.
    pub(crate) fn follow(
        &self,
        number: u32,
        from: &ParsedUnit,
        value: &AttributeValue<DebugReader>,
    ) -> Option<(u32, usize)> {
        match value {
            AttributeValue::UnitRef(offset) => Some((number, offset.0)),
            AttributeValue::DebugInfoRef(at) => self.entry(from.holder, at.0),
            AttributeValue::DebugInfoRefSup(at) => self.entry(Holder::Supplement, at.0),
            AttributeValue::DebugTypesRef(signature) => self.signatures.get(signature).copied(),
            _ => None,
        }
    }

    fn entry(&self, holder: Holder, at: usize) -> Option<(u32, usize)> {
        let units = &self.offsets[holder as usize];
        let after = units.partition_point(|&(start, _)| start <= at);
        let (start, number) = *units.get(after.checked_sub(1)?)?;
        Some((number, at - start))
    }

    /// The unit with the code at `address`.
    pub(crate) fn unit_at(&mut self, address: u64) -> gimli::Result<Option<u32>> {
        if self.code.is_none() {
            self.code = Some(self.code_of_units()?);
        }
        let code = self.code.as_deref().unwrap_or_default();
        let after = code.partition_point(|(range, _)| range.start <= address);
        let found = code[..after].iter().rev().take(8);
        let mut containing = found.filter(|(range, _)| range.contains(&address));
        Ok(containing.next().map(|&(_, number)| number))
    }

    fn code_of_units(&self) -> gimli::Result<Vec<(Range<u64>, u32)>> {
        let mut code = Vec::new();
        for (number, slot) in (0..).zip(&self.slots) {
            // Supplements and type units have no code.
            if slot.holder == Holder::Supplement || !is_compilation(&slot.header) {
                continue;
            }
            let unit = slot.dwarf.unit(slot.header.clone())?;
            let mut ranges = slot.dwarf.unit_ranges(&unit)?;
            while let Some(range) = ranges.next()? {
                if range.begin < range.end {
                    code.push((range.begin..range.end, number));
                }
            }
        }
        code.sort_by_key(|(range, _)| range.start);
        Ok(code)
    }

    /// The unit and offset of the definition of a type, by its name with namespaces. That needs all units of the module, so it is
    /// not done for libraries that brownout knows: what they hide from their callers is not in persistent memory.
    pub(crate) fn definition(&mut self, name: &str) -> gimli::Result<Option<(u32, usize)>> {
        if self.definitions.is_none() {
            let mut definitions = HashMap::new();
            let units = if self.is_library { 0 } else { self.slots.len() };
            for number in 0..units as u32 {
                let unit = self.unit(number)?;
                for (name, &offset) in &unit.index.definitions {
                    definitions.entry(name.clone()).or_insert((number, offset));
                }
            }
            self.definitions = Some(definitions);
        }
        let definitions = self.definitions.as_ref();
        Ok(definitions.and_then(|known| known.get(name).copied()))
    }
}

fn is_compilation(header: &UnitHeader<DebugReader>) -> bool {
    matches!(
        header.type_(),
        UnitType::Compilation | UnitType::Skeleton(_)
    )
}

impl SplitUnits {
    /// The part of a split unit in its own file; `None` if the unit is not split or its file is missing.
    fn part(
        &self,
        parent: &Arc<Dwarf<DebugReader>>,
        skeleton: &Unit<DebugReader>,
    ) -> gimli::Result<Option<UnitInFile>> {
        let (Some(dwo_id), Some(name)) = (skeleton.dwo_id, skeleton.dwo_name()?) else {
            return Ok(None);
        };
        let load = SplitDwarfLoad {
            dwo_id,
            comp_dir: skeleton.comp_dir.clone(),
            path: Some(parent.attr_string(skeleton, name)?),
            parent: parent.clone(),
        };
        let Some(dwarf) = self.load(&load)? else {
            return Ok(None);
        };
        let mut units = dwarf.units();
        while let Some(header) = units.next()? {
            let mut unit = dwarf.unit(header)?;
            if unit.dwo_id == Some(dwo_id) {
                unit.copy_relocated_attributes(skeleton);
                return Ok(Some((dwarf, unit)));
            }
        }
        Ok(None)
    }
}
