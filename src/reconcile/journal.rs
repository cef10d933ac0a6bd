//! The operator's current work, in a file that outlives its process.
//!
//! An input that ends the process (by all its memory, by a fault that cannot be caught) is still there when the next process starts, and
//! would end that one too, for everybody. So the operator notes before each piece of work what it works on, and removes the note
//! afterwards. A process that starts finds the notes of the one that was ended:
//!
//! - What was being worked on at one end is a suspect. Suspects are worked on one at a time, so the next end names the one that is guilty.
//!   A suspect that was worked on again and again for a minute without an end is a suspect no longer.
//! - What was being worked on at two ends is set aside until its input changes, and reported.
//!
//! A note is lost with the machine, which is harmless. Nothing is written at rest.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::release::digest::Hasher;

/// Pieces of work that can be noted at one time. Further work is not noted.
const NOTES: usize = 256;
/// Bytes of a note in the file.
const BYTES: usize = 512;
/// Ends of the process after which an input is set aside.
const ENDS: u32 = 2;
/// The pause after which a suspect tries to begin again while the operator works on another suspect.
pub const PAUSE: Duration = Duration::from_secs(1);
/// How long a suspect stays one after this process began to work on it.
const TRIAL: Duration = Duration::from_secs(60);
/// How long a piece of work takes before it counts as one that hangs when the process is stopped.
const HANGS: Duration = Duration::from_secs(60);

/// The journal of an operator. Without a file it does nothing.
#[derive(Clone, Debug, Default)]
pub struct Journal(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    file: File,
    notes: Mutex<Vec<Option<Note>>>,
    /// For the suspect that is worked on.
    alone: Arc<Semaphore>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Note {
    /// The subject of the work, such as `Web.example.com shop/web`.
    subject: String,
    /// A digest of its input.
    input: String,
    /// How often the process ended while it worked on this.
    ends: u32,
    /// Since when this process works on it.
    runs: Option<Instant>,
    /// When this process began to work on it for the first time.
    tried: Option<Instant>,
    /// Is different for each piece of work on one subject.
    number: u64,
}

/// Whether a piece of work can begin.
#[derive(Debug)]
pub enum Begun {
    /// It can. The value has to live until the work has ended.
    Goes(Working),
    /// It is a suspect, and the operator works on another suspect. It can begin later.
    Waits,
    /// The process was ended twice while it worked on this input.
    SetAside,
}

/// A piece of work that was noted.
#[derive(Debug, Default)]
pub struct Working(Option<Noted>);

#[derive(Debug)]
struct Noted {
    inner: Arc<Inner>,
    /// The place of the note, and its number.
    at: usize,
    number: u64,
    /// Held by a suspect.
    _alone: Option<OwnedSemaphorePermit>,
}

tokio::task_local! {
    /// The work of a task. Work that it starts on other threads holds it too, because such a thread can outlive the
    /// task.
    static CURRENT: Arc<Working>;
}

/// Runs a task that is a noted piece of work.
pub async fn during<F: Future>(working: Working, task: F) -> F::Output {
    CURRENT.scope(Arc::new(working), task).await
}

/// The work of this task. A thread that the task starts has to hold it to its end.
pub fn current() -> Option<Arc<Working>> {
    CURRENT.try_with(Arc::clone).ok()
}

impl Drop for Working {
    fn drop(&mut self) {
        let Some(Noted { inner, at, number, .. }) = &self.0 else { return };
        let mut notes = inner.lock();
        if notes[*at].as_ref().is_none_or(|note| note.number != *number) {
            return; // The next piece of work on the same subject has begun.
        }
        // The work may have ended before it reached the suspected step, such as a pass that waits for the caches.
        let suspect = notes[*at].clone().filter(Note::is_on_trial).map(|note| Note { runs: None, ..note });
        inner.write(&mut notes, *at, suspect);
    }
}

impl Journal {
    /// Opens the journal in a folder, and reads what the process before left in it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn open(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join("journal");
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut bytes = Vec::new();
        (&mut file).take((NOTES * BYTES) as u64).read_to_end(&mut bytes)?;
        let mut notes: Vec<Option<Note>> = bytes.chunks(BYTES).map(Note::read).collect();
        notes.resize(NOTES, None);
        let inner = Inner { file, notes: Mutex::default(), alone: Arc::new(Semaphore::new(1)) };
        for (at, note) in notes.clone().into_iter().enumerate() {
            inner.write(&mut notes, at, note);
        }
        *inner.lock() = notes;
        Ok(Self(Some(Arc::new(inner))))
    }

    /// Begins to work on a subject with an input.
    pub fn begin(&self, subject: &str, input: &str) -> Begun {
        let Some(inner) = &self.0 else { return Begun::Goes(Working::default()) };
        let mut notes = inner.lock();
        inner.absolve(&mut notes);
        let known = notes.iter().position(|note| note.as_ref().is_some_and(|note| note.subject == subject));
        let ends =
            known.and_then(|at| notes[at].as_ref()).filter(|note| note.input == input).map_or(0, |note| note.ends);
        if ends >= ENDS {
            return Begun::SetAside;
        }
        let alone = match Arc::clone(&inner.alone).try_acquire_owned() {
            Ok(alone) if ends > 0 => Some(alone),
            Err(_) if ends > 0 => return Begun::Waits,
            _ => None,
        };
        let Some(at) = known.or_else(|| notes.iter().position(Option::is_none)) else {
            return Begun::Goes(Working::default());
        };
        let now = Instant::now();
        let tried =
            known.and_then(|at| notes[at].as_ref()).filter(|_| ends > 0).and_then(|note| note.tried).unwrap_or(now);
        let (subject, input) = (subject.to_owned(), input.to_owned());
        let number = notes[at].as_ref().map_or(0, |note| note.number + 1);
        inner.write(&mut notes, at, Some(Note { subject, input, ends, runs: Some(now), tried: Some(tried), number }));
        Begun::Goes(Working(Some(Noted { inner: Arc::clone(inner), at, number, _alone: alone })))
    }

    /// Begins as soon as no other suspect is being worked on. `None` if the input is set aside.
    pub async fn begin_in_turn(&self, subject: &str, input: &str) -> Option<Working> {
        loop {
            match self.begin(subject, input) {
                Begun::Goes(working) => return Some(working),
                Begun::SetAside => return None,
                Begun::Waits => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Forgets a subject that no longer exists.
    pub fn forget(&self, subject: &str) {
        let Some(inner) = &self.0 else { return };
        let mut notes = inner.lock();
        let is_it = |note: &Option<Note>| note.as_ref().is_some_and(|n| n.subject == subject && n.runs.is_none());
        if let Some(at) = notes.iter().position(is_it) {
            inner.write(&mut notes, at, None);
        }
    }

    /// Notes that the process ends for another reason than its work. Work that hangs is still suspected.
    pub fn settle(&self) {
        let Some(inner) = &self.0 else { return };
        let mut notes = inner.lock();
        for at in 0..notes.len() {
            let Some(note) = notes[at].clone() else { continue };
            if note.runs.is_some_and(|since| since.elapsed() < HANGS) {
                let suspect = (note.ends > 0).then_some(Note { runs: None, ..note });
                inner.write(&mut notes, at, suspect);
            }
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Vec<Option<Note>>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes suspects that were worked on for long enough without an end.
    fn absolve(&self, notes: &mut [Option<Note>]) {
        let is_over = |note: &Note| note.runs.is_none() && note.tried.is_some() && !note.is_on_trial();
        for at in 0..notes.len() {
            if notes[at].as_ref().is_some_and(is_over) {
                self.write(notes, at, None);
            }
        }
    }

    /// Replaces a note. The page cache keeps what is written when the process ends, so nothing is waited for.
    fn write(&self, notes: &mut [Option<Note>], at: usize, note: Option<Note>) {
        let text = note.as_ref().map(Note::text).unwrap_or_default();
        notes[at] = note;
        let mut bytes = text.into_bytes();
        bytes.resize(BYTES - 1, b' ');
        bytes.push(b'\n');
        if let Err(error) = self.file.write_all_at(&bytes, (at * BYTES) as u64) {
            tracing::warn!(%error, "the journal cannot be written");
        }
    }
}

impl Note {
    fn text(&self) -> String {
        let state = if self.runs.is_some() { "runs" } else { "ended" };
        format!("{state} {} {} {}", self.ends, self.input, self.subject)
    }

    fn is_on_trial(&self) -> bool {
        (1..ENDS).contains(&self.ends) && self.tried.is_some_and(|since| since.elapsed() < TRIAL)
    }

    /// Reads a note of an earlier process. The work during which it ended is suspected.
    fn read(bytes: &[u8]) -> Option<Self> {
        let text = str::from_utf8(bytes).ok()?.trim();
        let mut words = text.splitn(4, ' ');
        let (state, ends) = (words.next()?, words.next()?.parse::<u32>().ok()?);
        let (input, subject) = (words.next()?.to_owned(), words.next()?.to_owned());
        Some(Self {
            subject,
            input,
            ends: ends.saturating_add(u32::from(state == "runs")),
            runs: None,
            tried: None,
            number: 0,
        })
    }
}

/// A subject: words without spaces at their ends, cut to the size of a note, with a digest of the rest.
pub fn subject(parts: &[&str]) -> String {
    const MOST: usize = 300;
    let text = parts.join(" ");
    if text.len() <= MOST && !text.contains('\n') { text } else { input([text]) }
}

/// A digest of an input.
pub fn input<T: AsRef<str>>(parts: impl IntoIterator<Item = T>) -> String {
    let mut hasher = Hasher::default();
    for part in parts {
        hasher.text(part.as_ref());
    }
    hasher.finish_short(16)
}

#[cfg(test)]
mod tests {
    use super::{Begun, Journal};

    fn folder(name: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("tillerman-journal-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        folder
    }

    fn goes(begun: Begun) -> super::Working {
        match begun {
            Begun::Goes(working) => working,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_two_processes_ended_with_is_set_aside_until_it_changes() {
        let folder = folder("two");
        let open = || Journal::open(&folder).unwrap();
        // Both are worked on when the first process ends; a third one has ended well.
        let journal = open();
        drop(journal.begin("c", "1"));
        std::mem::forget((goes(journal.begin("a", "1")), goes(journal.begin("b", "1"))));
        let journal = open();
        let innocent = goes(journal.begin("b", "1"));
        assert!(matches!(journal.begin("a", "1"), Begun::Waits), "suspects are worked on one at a time");
        drop((goes(journal.begin("c", "1")), innocent));
        // Work that ends before it comes to the harmful step proves nothing.
        drop(goes(journal.begin("a", "1")));
        std::mem::forget(goes(journal.begin("a", "1")));
        let journal = open();
        assert!(matches!(journal.begin("a", "1"), Begun::SetAside));
        drop((goes(journal.begin("b", "1")), goes(journal.begin("c", "1"))));
        assert!(matches!(open().begin("a", "1"), Begun::SetAside), "it stays so after a further start");
        drop(goes(open().begin("a", "2")));
        drop(goes(open().begin("a", "1")));
    }

    #[test]
    fn an_end_for_another_reason_makes_nobody_a_suspect() {
        let folder = folder("reason");
        let journal = Journal::open(&folder).unwrap();
        std::mem::forget(goes(journal.begin("a", "1")));
        journal.settle();
        let journal = Journal::open(&folder).unwrap();
        let _a = goes(journal.begin("a", "1"));
        let _b = goes(journal.begin("b", "1"));
        let none = Journal::default();
        let _c = (goes(none.begin("a", "1")), goes(none.begin("a", "1")));
    }

    #[test]
    fn a_thread_that_outlives_its_work_does_not_end_the_note_of_the_next() {
        let folder = folder("outlives");
        let journal = Journal::open(&folder).unwrap();
        let first = goes(journal.begin("a", "1"));
        std::mem::forget(goes(journal.begin("a", "1")));
        drop(first);
        let _again = goes(Journal::open(&folder).unwrap().begin("a", "1"));
        let ends = std::fs::read_to_string(folder.join("journal")).unwrap();
        assert!(ends.starts_with("runs 1 "), "{ends}");
    }

    #[test]
    fn more_work_than_notes_goes_on_without() {
        let folder = folder("more");
        let journal = Journal::open(&folder).unwrap();
        let all: Vec<_> = (0..super::NOTES + 10).map(|n| goes(journal.begin(&n.to_string(), "1"))).collect();
        drop(all);
        journal.forget("unknown");
        let _ = goes(journal.begin("a", "1"));
    }
}
