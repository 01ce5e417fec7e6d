//! The declarations of this crate against the installed header: drift of either side is found.

mod declared;
mod header;

use std::ffi::CString;
use std::fs;
use std::os::raw::{c_char, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

use header::Header;

fn installed() -> PathBuf {
    PathBuf::from(env!("PLAIT_INCLUDE"))
}

/// What stands in one list alone.
fn differences(ours: &[String], theirs: &[String]) -> Vec<String> {
    let extra = ours
        .iter()
        .filter(|line| !theirs.contains(line))
        .map(|line| format!("+ {line}"));
    let missing = theirs
        .iter()
        .filter(|line| !ours.contains(line))
        .map(|line| format!("- {line}"));
    extra.chain(missing).collect()
}

fn names(items: &[declared::Item]) -> Vec<String> {
    items.iter().map(|item| item.name.clone()).collect()
}

fn layout(header: &Header) -> Vec<String> {
    let mut numbers = header.numbers();
    numbers.retain(|line| line.starts_with("plait_"));
    differences(&declared::layout(), &numbers)
}

fn constants(header: &Header) -> Vec<String> {
    let mut numbers = header.numbers();
    numbers.retain(|line| line.starts_with("PLAIT_"));
    differences(&declared::constants(), &numbers)
}

fn declarations(header: &Header) -> Vec<String> {
    let mut found = differences(&names(&declared::functions()), &header.functions);
    found.extend(differences(&declared::opaque(), &header.opaque));
    found
}

fn types(header: &Header) -> Vec<String> {
    header.conflicts(&declared::functions(), &declared::structs())
}

#[test]
fn every_struct_has_the_headers_size_and_offsets() {
    let header = Header::read(&installed());
    assert!(header.structs.len() >= 11);
    assert_eq!(layout(&header), [""; 0]);
}

#[test]
fn every_constant_has_the_headers_value() {
    let header = Header::read(&installed());
    assert!(header.constants.len() >= 72);
    assert_eq!(constants(&header), [""; 0]);
}

#[test]
fn functions_and_opaque_types_are_those_of_the_header() {
    let header = Header::read(&installed());
    assert!(header.functions.len() >= 90 && header.opaque.len() >= 13);
    assert_eq!(declarations(&header), [""; 0]);
}

#[test]
fn signatures_and_types_of_fields_are_those_of_the_header() {
    let fields: usize = declared::structs()
        .iter()
        .map(|item| item.parts.len())
        .sum();
    assert!(fields >= 110);
    assert_eq!(types(&Header::read(&installed())), [""; 0]);
}

#[test]
fn the_library_has_every_function() {
    extern "C" {
        fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    }
    // SAFETY: the signature is that of the ABI. Without this call nothing would be linked.
    assert!(unsafe { plait_sys::plait_version() } >= plait_sys::PLAIT_API_VERSION);
    let is_missing = |name: &String| {
        let name = CString::new(name.as_str()).unwrap();
        // SAFETY: a null handle means all that is loaded; the name ends in NUL.
        unsafe { dlsym(ptr::null_mut(), name.as_ptr()) }.is_null()
    };
    let missing: Vec<String> = names(&declared::functions())
        .into_iter()
        .filter(is_missing)
        .collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn drift_of_the_header_is_found() {
    // Changes of the header, the part of this test that must find them, and what that part says.
    type Part = fn(&Header) -> Vec<String>;
    type Drift<'a> = (&'a [(&'a str, &'a str)], Part, &'a str);
    let swap = [
        ("double loss;", "double @;"),
        ("double lr;", "double loss;"),
        ("double @;", "double lr;"),
    ];
    let drifts: [Drift<'_>; 9] = [
        (&swap, layout, "- plait_metrics.lr 72"),
        (
            &[("double loss;", "double loss, loss2;")],
            layout,
            "- plait_metrics.loss2 80",
        ),
        (
            &[("double lr;", "int64_t lr;")],
            types,
            "plait_metrics.lr is no double",
        ),
        (
            &[("void* user;", "const void* user;")],
            types,
            "plait_host.user is no void*",
        ),
        (
            &[("PLAIT_STOPPED = 66", "PLAIT_STOPPED = 67")],
            constants,
            "- PLAIT_STOPPED 67",
        ),
        (
            &[("PLAIT_UNKNOWN = 2,", "PLAIT_UNKNOWN = 2, PLAIT_NEW = 9,")],
            constants,
            "- PLAIT_NEW 9",
        ),
        (
            &[("plait_code_name(int32_t", "plait_code_name(int64_t")],
            types,
            "plait_code_name",
        ),
        (
            &[("plait_op_cancel(", "plait_op_stop(")],
            declarations,
            "- plait_op_stop",
        ),
        (
            &[("struct plait_op plait_op;", "struct plait_op plait_job;")],
            declarations,
            "+ plait_op",
        ),
    ];
    for (number, (changes, part, says)) in drifts.into_iter().enumerate() {
        let include = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("drift_{number}"));
        fs::create_dir_all(include.join("plait")).unwrap();
        for name in ["plait/plait.h", "plait/plait_experimental.h"] {
            let mut text = fs::read_to_string(installed().join(name)).unwrap();
            for (from, to) in changes {
                assert!(name != "plait/plait.h" || text.contains(from), "{from}");
                text = text.replacen(from, to, 1);
            }
            fs::write(include.join(name), text).unwrap();
        }
        let found = part(&Header::read(&include));
        assert!(
            found.iter().any(|line| line.contains(says)),
            "{says}: {found:?}"
        );
    }
}
