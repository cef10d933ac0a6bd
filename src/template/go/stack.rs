//! How much of the thread's stack may be used: templates nest as deep as their author likes, threads do not.

use std::cell::Cell;

/// The stack of [`on_deep_stack`]: 1,001 nested includes, Helm's limit, need about 20 MiB in a debug build. The
/// memory is only reserved; what is not used costs nothing.
const DEEP: usize = 256 << 20;

/// What is used at most on a thread of unknown size: the main thread has 8 MiB, others 2 MiB. Unoptimised code
/// has larger frames, and a limit that a test meets only there would be of no use.
const SHALLOW: usize = 1 << 20;

thread_local! {
    /// The address at which the stack counts as used up; 0 when it is not known yet.
    static FLOOR: Cell<usize> = const { Cell::new(0) };
}

fn here() -> usize {
    let marker = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&marker)).addr()
}

/// Whether the thread has too little stack left to go deeper.
pub(super) fn is_exhausted() -> bool {
    FLOOR.with(|floor| floor.get() > here())
}

/// Whether so little is left that no further template should be started: what it evaluates before it calls the next
/// one should still find room, so that an endless recursion is reported where it happens.
pub(super) fn is_short() -> bool {
    FLOOR.with(|floor| floor.get().saturating_add(SHALLOW / 4) > here())
}

/// Measures the stack from here, if this is the outermost call into the engine on this thread.
pub(super) fn enter<R>(run: impl FnOnce() -> R) -> R {
    let outer = FLOOR.with(Cell::get);
    if outer != 0 {
        return run();
    }
    FLOOR.with(|floor| floor.set(here().saturating_sub(SHALLOW)));
    let result = run();
    FLOOR.with(|floor| floor.set(0));
    result
}

/// Runs something that parses or executes templates on a thread with a large stack.
///
/// On other threads templates work too, but only about 1 MiB of stack is used, and deeper nesting (some hundred
/// nested includes; fewer in a debug build) is an error where Helm allows 1,000. Values are not `Send`: make them
/// inside `run`.
///
/// # Errors
/// When the thread cannot be started.
pub fn on_deep_stack<R: Send>(run: impl FnOnce() -> R + Send) -> std::io::Result<R> {
    std::thread::scope(|scope| {
        let thread =
            std::thread::Builder::new().name("templates".into()).stack_size(DEEP).spawn_scoped(scope, || {
                // A quarter stays free for template functions and for dropping nested values.
                FLOOR.with(|floor| floor.set(here().saturating_sub(DEEP / 4 * 3)));
                run()
            })?;
        thread.join().map_err(|panic| std::panic::resume_unwind(panic))
    })
}
