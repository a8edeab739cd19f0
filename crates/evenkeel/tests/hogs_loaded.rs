//! Hogs in libraries that are loaded while the program runs: plugins, for example.
#![cfg(all(
    feature = "hog-stacks",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(evenkeel_preempt, evenkeel_tsan))
))]
#![allow(
    unsafe_code,
    reason = "a library is loaded, and a function of it called"
)]

#[path = "support/scratch.rs"]
mod scratch;

use std::ffi::{CString, c_long, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use evenkeel::runtime::{Builder, Runtime};
use scratch::Scratch;

/// How long the names may take to come.
const LIMIT: Duration = Duration::from_secs(60);

/// A library with one function, whose name is `NAME::computes` as Rust writes it in symbols.
fn source(name: &str) -> String {
    let symbol = symbol(name);
    format!(
        r#"
#include <time.h>
static volatile long sum;
void computes(long ns) __asm__("{symbol}");
void computes(long ns) {{
    struct timespec began, now;
    clock_gettime(CLOCK_MONOTONIC, &began);
    do {{
        for (int i = 0; i < 1000; i++) sum += i;
        clock_gettime(CLOCK_MONOTONIC, &now);
    }} while ((now.tv_sec - began.tv_sec) * 1000000000L + now.tv_nsec - began.tv_nsec < ns);
}}
"#
    )
}

fn symbol(name: &str) -> String {
    format!("_ZN{}{name}8computes17h0123456789abcdefE", name.len())
}

/// `None` if the machine has no compiler for C.
fn build(scratch: &Scratch, name: &str) -> Option<PathBuf> {
    let (source_path, library) = (scratch.path(format!("{name}.c")), scratch.path("plugin.so"));
    std::fs::write(&source_path, source(name)).unwrap();
    // Another file in its place: the old one may still be mapped.
    let _ = std::fs::remove_file(&library);
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-o"]);
    match cc.arg(&library).arg(&source_path).status() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        status => {
            assert!(status.unwrap().success(), "cc fails");
            Some(library)
        }
    }
}

struct Library(*mut c_void);

impl Library {
    fn load(path: &Path) -> Self {
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: the library was built by this test, and has no code that runs when it is loaded.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "dlopen fails");
        Self(handle)
    }

    fn function(&self, name: &str) -> extern "C" fn(c_long) {
        let symbol = CString::new(symbol(name)).unwrap();
        // SAFETY: the handle is that of a library that is loaded.
        let function = unsafe { libc::dlsym(self.0, symbol.as_ptr()) };
        assert!(!function.is_null(), "dlsym fails");
        // SAFETY: the source says that it is one of this type.
        unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(c_long)>(function) }
    }

    fn unload(self) {
        // SAFETY: no code of the library runs, and its function is not called again.
        assert_eq!(unsafe { libc::dlclose(self.0) }, 0);
    }
}

/// In how many polls the library's function was found.
fn found(runtime: &Runtime, name: &str) -> u64 {
    let name = format!("{name}::computes");
    let functions = runtime.stats().hog_functions.into_iter();
    let of_it = functions.filter(|row| row.function == name || row.callee.as_ref() == Some(&name));
    of_it.map(|row| row.count).sum()
}

/// Calls the function in polls that are too long, until it names them.
#[track_caller]
fn assert_named(runtime: &Runtime, name: &str, library: &Library) {
    let function = library.function(name);
    let began = Instant::now();
    while found(runtime, name) == 0 {
        let rows = runtime.stats().hog_functions;
        assert!(began.elapsed() < LIMIT, "no {name} among {rows:#?}");
        let task = runtime.spawn(async move { function(50_000_000) });
        runtime.block_on(task).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The second library takes the place of the first, in the file system and probably in memory.
#[test]
fn functions_of_libraries_that_come_and_go_have_their_names() {
    let scratch = Scratch::new("loaded");
    let runtime = Builder::new().workers(1).build().unwrap();
    let Some(path) = build(&scratch, "first") else {
        eprintln!("not checked: there is no compiler for C on this machine");
        return;
    };
    // The names of the program are known before the library comes.
    let own = runtime.spawn(async {
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(60) {}
    });
    runtime.block_on(own).unwrap();
    let began = Instant::now();
    while runtime.stats().hog_functions.is_empty() {
        assert!(began.elapsed() < LIMIT, "nothing has a name");
        std::thread::sleep(Duration::from_millis(10));
    }
    let first = Library::load(&path);
    assert_named(&runtime, "first", &first);
    first.unload();
    let of_first = found(&runtime, "first");
    let path = build(&scratch, "other").unwrap();
    let other = Library::load(&path);
    assert_named(&runtime, "other", &other);
    other.unload();
    // Polls of the first may have been named late, but none of the second has its name.
    assert!(found(&runtime, "first") >= of_first);
    runtime.shutdown(LIMIT).unwrap();
}
