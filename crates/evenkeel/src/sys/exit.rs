//! The end of the process.

use crate::sync::OnceLock;

/// The process that wants it, and the one function that is called; C knows no other argument.
static HOOK: OnceLock<(u32, fn())> = OnceLock::new();

/// Has a function called when the process exits, by a return from `main` or by
/// `std::process::exit`. It must not panic. Only the first call counts. A child that was forked
/// does not call it: it has none of the threads, and any lock may be held for ever.
pub(crate) fn call_at_exit(hook: fn()) {
    extern "C" fn call() {
        if let Some((process, hook)) = HOOK.get()
            && *process == std::process::id()
        {
            hook();
        }
    }
    if HOOK.set((std::process::id(), hook)).is_ok() {
        // SAFETY: `call` is a function of this program, which is loaded until the process exits; it
        // does not unwind, as its hook does not panic. A refusal, for want of memory, means that it
        // is not called.
        let _ = unsafe { libc::atexit(call) };
    }
}
