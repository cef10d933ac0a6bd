//! The budget of a rendering: its limits, and the rest.
//!
//! [`Limits`] bound the time and the memory of a rendering whatever its templates do. The engine counts a step for
//! each statement, command and iteration; functions count what they do beyond that through [`work`] and [`make`]. A
//! budget belongs to the thread that renders, so that nested calls need not pass it on. Once a limit is reached,
//! every further charge is refused. So the rendering ends even where an error is swallowed (`toYaml`).
//!
//! Steps are handed out in slices. Between two slices the budget checks its [`Stop`], so another thread can end a
//! rendering that is past its time. The check costs nothing on the path that every step takes.

use super::function::FnError;
use super::value::Value;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The limits of a rendering.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Statements, commands and iterations of all templates together, and the work of functions in pieces of about the
    /// same length: an element visited, a schema applied, 128 bytes of text read. A step takes some 50 ns.
    pub steps: Option<u64>,
    /// Bytes of output that may be held at one time, counting nested includes.
    pub output: usize,
    /// Bytes of texts, lists and maps that may be allocated, even if they are soon dropped: an upper bound of the memory that
    /// values take beyond those of the chart and the user.
    pub memory: Option<u64>,
}

impl Default for Limits {
    /// No limit of steps and of memory, as Helm has none; 256 MiB of output, which no API server would take.
    fn default() -> Self {
        Self { steps: None, output: 256 << 20, memory: None }
    }
}

/// Ends what runs within a budget, from any thread.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From now on everything that asks the budget is refused.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Steps between two checks of the [`Stop`]: less than a millisecond.
const SLICE: u64 = 8192;
/// Bytes of text that one step reads.
const BYTES_A_STEP: usize = 128;
/// Bytes that an element of a list takes, and an entry of a map.
const ELEMENT: usize = 32;
const ENTRY: usize = 80;
/// Bytes that a node of a document takes.
const NODE: usize = 128;

/// A limit that has been reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Spent {
    /// [`Limits::steps`]
    #[error("template took more than {0} steps")]
    Steps(u64),
    /// [`Limits::memory`]
    #[error("template made more than {0} bytes of values")]
    Memory(u64),
    /// The [`Stop`] was used.
    #[error("template was stopped, because it took too long")]
    Stopped,
}

impl From<Spent> for FnError {
    fn from(spent: Spent) -> Self {
        Self::Message(spent.to_string())
    }
}

impl From<Spent> for String {
    fn from(spent: Spent) -> Self {
        spent.to_string()
    }
}

/// The rest.
#[derive(Clone, Debug)]
pub struct Budget {
    /// The rest of the slice.
    steps: u64,
    /// The rest outside of the slice.
    reserve: u64,
    memory: u64,
    limits: (u64, u64),
    spent: Option<Spent>,
    stop: Option<Stop>,
    is_running: bool,
}

impl Budget {
    /// Nothing is counted.
    const NONE: Self = Self {
        steps: u64::MAX,
        reserve: 0,
        memory: u64::MAX,
        limits: (u64::MAX, u64::MAX),
        spent: None,
        stop: None,
        is_running: false,
    };

    /// Everything that the limits allow.
    pub fn new(limits: Limits) -> Self {
        let (steps, memory) = (limits.steps.unwrap_or(u64::MAX), limits.memory.unwrap_or(u64::MAX));
        Self { steps, reserve: 0, memory, limits: (steps, memory), spent: None, stop: None, is_running: true }
    }

    /// The same, and it ends as soon as it is stopped.
    #[must_use]
    pub fn until(mut self, stop: Option<&Stop>) -> Self {
        if let Some(stop) = stop {
            self.reserve += std::mem::take(&mut self.steps);
            self.stop = Some(stop.clone());
        }
        self
    }

    /// Whether a limit has been reached.
    pub fn is_spent(&self) -> bool {
        self.spent.is_some()
    }

    /// Runs a function within the budget. Within another budget the outer one continues: the outermost counts.
    pub fn run<R>(&mut self, run: impl FnOnce() -> R) -> R {
        struct Running<'b>(&'b mut Budget);
        impl Drop for Running<'_> {
            fn drop(&mut self) {
                *self.0 = Budget::swap(Budget::NONE);
            }
        }
        if RUNNING.get() {
            return run();
        }
        Self::swap(self.clone());
        let running = Running(self);
        let result = run();
        drop(running);
        result
    }

    /// Makes this the thread's budget, and returns the previous one.
    fn swap(new: Self) -> Self {
        Self {
            steps: STEPS.replace(new.steps),
            reserve: RESERVE.replace(new.reserve),
            memory: MEMORY.replace(new.memory),
            limits: LIMITS.replace(new.limits),
            spent: SPENT.replace(new.spent),
            stop: STOP.replace(new.stop),
            is_running: RUNNING.replace(new.is_running),
        }
    }
}

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(u64::MAX) };
    static RESERVE: Cell<u64> = const { Cell::new(0) };
    static MEMORY: Cell<u64> = const { Cell::new(u64::MAX) };
    static LIMITS: Cell<(u64, u64)> = const { Cell::new((u64::MAX, u64::MAX)) };
    static SPENT: Cell<Option<Spent>> = const { Cell::new(None) };
    static STOP: RefCell<Option<Stop>> = const { RefCell::new(None) };
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

#[cold]
fn refuse(spent: Spent) -> Spent {
    STEPS.set(0);
    RESERVE.set(0);
    MEMORY.set(0);
    let first = SPENT.get().unwrap_or(spent);
    SPENT.set(Some(first));
    first
}

/// Whether the running rendering was stopped.
pub fn is_stopped() -> bool {
    STOP.with_borrow(|stop| stop.as_ref().is_some_and(Stop::is_stopped))
}

/// Takes steps.
#[inline]
pub fn work(steps: u64) -> Result<(), Spent> {
    match STEPS.get().checked_sub(steps) {
        Some(left) => {
            STEPS.set(left);
            Ok(())
        }
        None => next_slice(steps),
    }
}

/// Takes steps that the slice has not.
#[cold]
fn next_slice(steps: u64) -> Result<(), Spent> {
    if STOP.with_borrow(|stop| stop.as_ref().is_some_and(Stop::is_stopped)) {
        return Err(refuse(Spent::Stopped));
    }
    // The limit is a u64, and both are parts of it.
    let left = STEPS.get() + RESERVE.get();
    let Some(left) = left.checked_sub(steps) else { return Err(refuse(Spent::Steps(LIMITS.get().0))) };
    let slice = left.min(SLICE);
    STEPS.set(slice);
    RESERVE.set(left - slice);
    Ok(())
}

/// Takes the steps of something done so often.
pub fn work_of(count: usize) -> Result<(), Spent> {
    work(u64::try_from(count).unwrap_or(u64::MAX))
}

/// Takes memory.
#[inline]
pub fn make(bytes: usize) -> Result<(), Spent> {
    match MEMORY.get().checked_sub(bytes as u64) {
        Some(left) => {
            MEMORY.set(left);
            Ok(())
        }
        None => Err(refuse(Spent::Memory(LIMITS.get().1))),
    }
}

/// Checks whether there is memory for a value under construction, which is counted when it is complete.
#[inline]
pub fn room(bytes: usize) -> Result<(), Spent> {
    if bytes as u64 <= MEMORY.get() { Ok(()) } else { Err(refuse(Spent::Memory(LIMITS.get().1))) }
}

/// The limit of this thread's budget that was reached first.
pub fn spent() -> Option<Spent> {
    SPENT.get()
}

/// Writing a value into a text of this many bytes.
#[inline]
pub fn write(written: usize) -> Result<(), Spent> {
    work(1)?;
    room(written)
}

/// Reading a text and making values of it: a fourth of its bytes are words, of 64 bytes each.
pub fn parse(text: &[u8]) -> Result<(), Spent> {
    work_of(text.len() / 4)?;
    make(text.len().saturating_mul(16))
}

/// The texts that a call is given.
#[inline]
pub fn read(args: &[Value]) -> Result<(), Spent> {
    let bytes: usize = args.iter().map(|arg| if let Value::Str(s) = arg { s.len() } else { 0 }).sum();
    if bytes < BYTES_A_STEP { Ok(()) } else { work_of(bytes / BYTES_A_STEP) }
}

/// The result of a call, if it is new: nobody else holds it.
#[inline]
pub fn made(value: &Value) -> Result<(), Spent> {
    match value {
        Value::Str(s) if s.is_unshared() => make(s.len()),
        Value::List(list) if list.items.is_unshared() => match list.items.bytes() {
            Some(bytes) => make(bytes.len()),
            None => elements(list.items.len()),
        },
        Value::Map(map) if map.is_unshared() => entries(map.len()),
        _ => Ok(()),
    }
}

/// A node of a YAML document: its memory while it is read, and that of its value.
#[inline]
pub fn node() -> Result<(), Spent> {
    make(NODE)
}

/// The memory that this many nodes are charged with.
pub fn nodes(count: usize) -> u64 {
    count.saturating_mul(NODE) as u64
}

/// Elements of a new list.
pub fn elements(count: usize) -> Result<(), Spent> {
    work_of(count / 4)?;
    make(count.saturating_mul(ELEMENT))
}

/// Entries of a new map.
pub fn entries(count: usize) -> Result<(), Spent> {
    work_of(count / 2)?;
    make(count.saturating_mul(ENTRY))
}

#[cfg(test)]
mod tests {
    use super::{Budget, Limits, Spent, Stop, make, work};

    fn budget(steps: u64, memory: u64) -> Budget {
        Budget::new(Limits { steps: Some(steps), memory: Some(memory), ..Limits::default() })
    }

    #[test]
    fn what_is_left_is_kept_between_runs() {
        let mut budget = budget(3, 10);
        assert_eq!(budget.run(|| work(2)), Ok(()));
        assert_eq!(budget.run(|| work(2)), Err(Spent::Steps(3)));
        assert_eq!(work(u64::MAX), Ok(()), "outside of a run nothing is counted");
    }

    #[test]
    fn the_first_limit_that_was_reached_is_named_for_ever() {
        let mut budget = budget(3, 10);
        budget.run(|| {
            assert_eq!(make(11), Err(Spent::Memory(10)));
            assert_eq!(work(1), Err(Spent::Memory(10)));
        });
        assert_eq!(budget.run(|| work(1)), Err(Spent::Memory(10)));
    }

    #[test]
    fn another_thread_can_stop_what_runs() {
        let stop = Stop::default();
        let mut running = Budget::new(Limits::default()).until(Some(&stop));
        let far = stop.clone();
        let (ready, wait) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            wait.recv().unwrap();
            far.stop();
        });
        let spent = running.run(|| {
            ready.send(()).unwrap();
            loop {
                if let Err(spent) = work(1) {
                    break spent;
                }
            }
        });
        other.join().unwrap();
        assert_eq!(spent, Spent::Stopped);
        assert_eq!(running.run(|| make(1)), Err(Spent::Stopped), "and nothing continues");
    }

    #[test]
    fn slices_add_up_to_the_limit() {
        let mut running = budget(3 * super::SLICE, 10).until(Some(&Stop::default()));
        let count = running.run(|| (0..100 * super::SLICE).take_while(|_| work(1).is_ok()).count());
        assert_eq!(count as u64, 3 * super::SLICE);
        assert_eq!(running.run(|| work(1)), Err(Spent::Steps(3 * super::SLICE)));
        let mut running = budget(3 * super::SLICE, 10).until(Some(&Stop::default()));
        assert_eq!(running.run(|| work(3 * super::SLICE)), Ok(()), "also at once");
    }

    #[test]
    fn a_panic_ends_the_budget_of_the_thread() {
        let mut budget = budget(3, 10);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            budget.run(|| std::panic::resume_unwind(Box::new(())));
        }));
        assert!(result.is_err());
        assert_eq!(work(4), Ok(()));
    }
}
