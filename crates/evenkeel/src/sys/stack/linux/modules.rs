//! The program and the libraries that it has loaded, with what is needed to find the callers of
//! their functions.

use std::ffi::CStr;
use std::ops::Range;

use super::super::{LoadedObject, Module};
use super::copy::copy_memory;

/// How a header says where the table is that it belongs to: four bytes, relative to themselves.
const RELATIVE: u8 = 0x1b;
/// The largest table that is copied. That of a program of 500 MB has about so much.
const TABLE_MAX: u64 = 64 << 20;

/// What the loader says of the program or of a library.
struct Loaded {
    name: String,
    base: u64,
    headers: Vec<libc::Elf64_Phdr>,
}

/// All that are loaded now. One without tables is left out.
pub(crate) fn modules() -> Vec<Module> {
    let mut loaded: Vec<Loaded> = Vec::new();
    // SAFETY: the callback gets the pointer that is passed here, to a vector that outlives the call
    // and that nothing else uses meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut loaded).cast()) };
    // Only now, as others cannot load libraries, nor unwind, while the loader is in its call. What
    // is unloaded meanwhile cannot be copied any more, or `changes` tells it.
    loaded.into_iter().filter_map(read).collect()
}

/// All that are loaded now, without their tables.
pub(crate) fn objects() -> Vec<LoadedObject> {
    let mut objects = Vec::new();
    // SAFETY: as above.
    unsafe { libc::dl_iterate_phdr(Some(note_object), (&raw mut objects).cast()) };
    objects
}

/// How often libraries have been loaded and unloaded: [`modules`] may differ if it does.
pub(crate) fn changes() -> u64 {
    let mut changes = 0_u64;
    // SAFETY: as above.
    unsafe { libc::dl_iterate_phdr(Some(count), (&raw mut changes).cast()) };
    changes
}

unsafe extern "C" fn count(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    changes: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: the loader passes a live structure, and the pointer that `changes` gave it.
    unsafe { *changes.cast::<u64>() = (*info).dlpi_adds + (*info).dlpi_subs };
    // One says it all.
    1
}

unsafe extern "C" fn note(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    loaded: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: the loader passes a live structure, and the pointer that `modules` gave it.
    let (info, loaded) = unsafe { (&*info, &mut *loaded.cast::<Vec<Loaded>>()) };
    // SAFETY: as above.
    let (name, headers) = unsafe { (name_of(info), headers_of(info)) };
    loaded.push(Loaded {
        name,
        base: info.dlpi_addr,
        headers: headers.to_vec(),
    });
    0
}

unsafe extern "C" fn note_object(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    objects: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: the loader passes a live structure, and the pointer that `objects` gave it.
    let (info, objects) = unsafe { (&*info, &mut *objects.cast::<Vec<LoadedObject>>()) };
    // SAFETY: as above.
    let (name, headers) = unsafe { (name_of(info), headers_of(info)) };
    let loaded = headers
        .iter()
        .filter(|header| header.p_type == libc::PT_LOAD);
    objects.push(LoadedObject {
        name,
        base: info.dlpi_addr,
        parts: loaded.map(|header| range(info.dlpi_addr, header)).collect(),
    });
    0
}

/// # Safety
///
/// The loader has passed this structure to the callback under way.
unsafe fn headers_of(info: &libc::dl_phdr_info) -> &[libc::Elf64_Phdr] {
    match info.dlpi_phdr.is_null() {
        true => &[],
        // SAFETY: the structure names so many headers.
        false => unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) },
    }
}

/// # Safety
///
/// As above.
unsafe fn name_of(info: &libc::dl_phdr_info) -> String {
    if info.dlpi_name.is_null() {
        return String::new();
    }
    // SAFETY: the loader's names end with a zero, and live during the call.
    let name = unsafe { CStr::from_ptr(info.dlpi_name) };
    name.to_string_lossy().into_owned()
}

fn range(base: u64, header: &libc::Elf64_Phdr) -> Range<u64> {
    let start = base.wrapping_add(header.p_vaddr);
    start..start.saturating_add(header.p_memsz)
}

fn read(loaded: Loaded) -> Option<Module> {
    let Loaded {
        name,
        base,
        headers,
    } = loaded;
    let range = |header| range(base, header);
    let of_type = |wanted| headers.iter().filter(move |header| header.p_type == wanted);
    let loaded = || of_type(libc::PT_LOAD).map(range);
    let memory = loaded().map(|part| part.start).min()?..loaded().map(|part| part.end).max()?;
    let index = of_type(libc::PT_GNU_EH_FRAME).map(range).next()?;
    let (table_index, head) = (copied(index.clone())?, index.start);
    // The version, three encodings, and where the table is.
    let &[_, RELATIVE, _, _, a, b, c, d, ..] = table_index.as_slice() else {
        return None;
    };
    let offset = i64::from(i32::from_le_bytes([a, b, c, d]));
    let start = (head + 4).checked_add_signed(offset)?;
    let within = loaded().find(|part| part.contains(&start))?;
    let table = start..within.end;
    Some(Module {
        name,
        memory,
        base,
        frames: copied(table.clone())?,
        frames_at: table,
        index: table_index,
        index_at: index,
    })
}

fn copied(range: Range<u64>) -> Option<Vec<u8>> {
    let len = range.end.checked_sub(range.start)?;
    if len > TABLE_MAX {
        return None;
    }
    let mut bytes = vec![0; len as usize];
    let mut done = 0;
    while done < bytes.len() {
        match copy_memory(range.start + done as u64, &mut bytes[done..]) {
            0 => return None,
            copied => done += copied,
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_and_its_libraries_are_found_with_their_tables() {
        let modules = modules();
        let here = note as *const () as u64;
        let own = modules.iter().filter(|it| it.memory.contains(&here));
        assert_eq!(own.count(), 1, "{:?}", modules.len());
        assert!(modules.iter().all(|it| !it.frames.is_empty()));
        assert_eq!(changes(), changes());
    }
}
