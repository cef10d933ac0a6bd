//! Limits recursion: templates and values nest as deep as their author likes, but stacks of threads do not.
//!
//! Recursive functions call themselves through [`deeper`], which continues on a new piece of stack when the current
//! one is nearly used up. A process without deep nesting never pays for one.

use std::cell::Cell;

/// Stack that is free whenever something runs through [`deeper`]. Unoptimised code has large frames.
const RED_ZONE: usize = 256 << 10;
/// A new piece of stack. The memory is only reserved; unused memory costs nothing.
const SEGMENT: usize = 8 << 20;
/// Pieces at one time: 256 MiB. 1,001 nested includes, Helm's limit, need about 20 MiB in a debug build.
const MAX_SEGMENTS: u32 = 32;

thread_local! {
    static SEGMENTS: Cell<u32> = const { Cell::new(0) };
}

fn remaining() -> usize {
    stacker::remaining_stack().unwrap_or(usize::MAX)
}

/// Runs something that may call `deeper` again.
#[inline]
pub fn deeper<R>(run: impl FnOnce() -> R) -> R {
    if remaining() >= RED_ZONE { run() } else { on_new_segment(run) }
}

#[cold]
fn on_new_segment<R>(run: impl FnOnce() -> R) -> R {
    let segments = SEGMENTS.get();
    if segments == MAX_SEGMENTS {
        return run();
    }
    SEGMENTS.set(segments + 1);
    let result = stacker::grow(SEGMENT, run);
    SEGMENTS.set(segments);
    result
}

/// Whether there is no room for another level. Recursion that depends on foreign input must then stop with an error.
#[inline]
pub fn is_exhausted() -> bool {
    remaining() < RED_ZONE / 2
}

/// Whether so little is left that no further template should be started. The expressions that it evaluates before it
/// calls the next template need room, so that an endless recursion is reported where it happens.
#[inline]
pub fn is_short() -> bool {
    remaining() < RED_ZONE / 4 * 3
}
