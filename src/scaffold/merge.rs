//! Merges a file that was generated before, may have been edited since, and is generated again.

/// The action on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It is as generated, or is gone as it should be.
    Same,
    /// It is new.
    Created,
    /// Nobody had edited it: it is as generated now.
    Updated,
    /// It was edited, and the generated text changed elsewhere in it: it has both changes.
    Merged,
    /// The edit and the change are at the same place: both are there, between markers.
    Conflict,
    /// It was edited, and the generated text did not change.
    Kept,
    /// It existed and was not generated, or is not a text: it stays as it is.
    NotOurs,
    /// It is no longer generated, and nobody had edited it.
    Removed,
    /// It is no longer generated, but was edited: it stays.
    Left,
    /// It was deleted by hand, and is not created again.
    Deleted,
}

/// Decides what becomes of a file: as it was generated last (`base`), as it is (`ours`), and as it is generated now (`new`). The
/// content is what to write; an outcome without one writes nothing, and only [`Outcome::Removed`] deletes.
pub fn merge(base: Option<&[u8]>, ours: Option<&[u8]>, new: Option<&[u8]>) -> (Outcome, Option<Vec<u8>>) {
    match (base, ours, new) {
        (_, Some(ours), Some(new)) if ours == new => (Outcome::Same, None),
        (_, None, None) => (Outcome::Same, None),
        (None, None, Some(new)) => (Outcome::Created, Some(new.to_vec())),
        (Some(_), None, Some(_)) => (Outcome::Deleted, None),
        (None, Some(_), _) => (Outcome::NotOurs, None),
        (Some(base), Some(ours), None) if base == ours => (Outcome::Removed, None),
        (Some(_), Some(_), None) => (Outcome::Left, None),
        (Some(base), Some(ours), Some(new)) if base == ours => (Outcome::Updated, Some(new.to_vec())),
        (Some(base), Some(_), Some(new)) if base == new => (Outcome::Kept, None),
        (Some(base), Some(ours), Some(new)) => texts(base, ours, new),
    }
}

fn texts(base: &[u8], ours: &[u8], new: &[u8]) -> (Outcome, Option<Vec<u8>>) {
    let [Ok(base), Ok(ours), Ok(new)] = [base, ours, new].map(std::str::from_utf8) else {
        return (Outcome::NotOurs, None);
    };
    match diffy::merge(base, ours, new) {
        // The edit was the change that came.
        Ok(text) if text == ours => (Outcome::Kept, None),
        Ok(text) => (Outcome::Merged, Some(text.into_bytes())),
        Err(text) => (Outcome::Conflict, Some(named(&text).into_bytes())),
    }
}

/// The markers of a conflict, with the words of this program.
fn named(text: &str) -> String {
    let line = |line: &str| match line.trim_end() {
        "<<<<<<< ours" => "<<<<<<< edited\n".to_owned(),
        "||||||| original" => "||||||| generated before\n".to_owned(),
        ">>>>>>> theirs" => ">>>>>>> generated now\n".to_owned(),
        _ => line.to_owned(),
    };
    text.split_inclusive('\n').map(line).collect()
}

/// A file that nobody knows the origin of, with the lines that came in one place between `before` and `new`: at the marker of
/// kubebuilder, or at the end. `None` if there are other changes.
pub fn with_added(before: &[u8], ours: &[u8], new: &[u8]) -> Option<Vec<u8>> {
    let [before, ours, new] = [before, ours, new].map(|text| std::str::from_utf8(text).ok());
    let (before, ours, new) = (before?, ours?, new?);
    let (old, fresh): (Vec<&str>, Vec<&str>) =
        (before.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let first = old.iter().zip(&fresh).take_while(|(a, b)| a == b).count();
    let last = old[first..].iter().rev().zip(fresh[first..].iter().rev()).take_while(|(a, b)| a == b).count();
    if first + last != old.len() || fresh.len() <= old.len() {
        return None;
    }
    let added = fresh[first..fresh.len() - last].concat();
    if ours.contains(&added) {
        return Some(ours.as_bytes().to_vec());
    }
    let is_marker = |line: &str| line.trim_start_matches(['#', ' ']).starts_with("+kubebuilder:scaffold:");
    let marker = ours.split_inclusive('\n').find(|line| is_marker(line)).and_then(|line| ours.find(line));
    let (head, tail) = ours.split_at(marker.unwrap_or(ours.trim_end().len()));
    let newline = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    Some(format!("{head}{newline}{added}{}", tail.trim_start_matches('\n')).into_bytes())
}

/// Whether a text has the markers of a conflict.
pub fn has_conflict(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'\n').any(|line| line == b">>>>>>> generated now")
}

#[cfg(test)]
mod tests {
    use super::Outcome::{Conflict, Created, Deleted, Kept, Left, Merged, NotOurs, Removed, Same, Updated};
    use super::{has_conflict, merge, with_added};

    #[test]
    fn a_line_is_added_to_a_file_of_others_at_its_marker_or_at_the_end() {
        let added = |ours: &str| {
            let text = with_added(b"list:\n- a\n# end\n", ours.as_bytes(), b"list:\n- a\n- b\n# end\n")?;
            Some(String::from_utf8(text).unwrap())
        };
        for (ours, want) in [
            (
                "# theirs\nlist:\n- a\n#+kubebuilder:scaffold:x\n",
                "# theirs\nlist:\n- a\n- b\n#+kubebuilder:scaffold:x\n",
            ),
            ("list:\n- a\n\n", "list:\n- a\n- b\n"),
            ("list:\n- a", "list:\n- a\n- b\n"),
            ("list:\n- a\n- b\n", "list:\n- a\n- b\n"),
        ] {
            assert_eq!(added(ours).as_deref(), Some(want));
        }
        assert_eq!(with_added(b"a\nb\n", b"x\n", b"c\nb\n"), None);
    }

    #[test]
    fn each_case_of_a_file_has_its_outcome() {
        let (a, b, both) = ("1\n2\n3\n4\n5\n", "1\n2\n3\n4\nfive\n", "one\n2\n3\n4\nfive\n");
        let edited = "one\n2\n3\n4\n5\n";
        for (base, ours, new, outcome, written) in [
            (None, None, Some(a), Created, Some(a)),
            (None, Some(b), Some(a), NotOurs, None),
            (None, Some(a), Some(a), Same, None),
            (None, Some(a), None, NotOurs, None),
            (Some(a), Some(a), Some(a), Same, None),
            (Some(a), Some(a), Some(b), Updated, Some(b)),
            (Some(a), Some(edited), Some(a), Kept, None),
            (Some(a), Some(edited), Some(b), Merged, Some(both)),
            (Some(a), Some(both), Some(b), Kept, None),
            (Some(a), Some(b), Some(b), Same, None),
            (Some(a), None, Some(b), Deleted, None),
            (Some(a), None, None, Same, None),
            (Some(a), Some(a), None, Removed, None),
            (Some(a), Some(edited), None, Left, None),
        ] {
            let bytes = |text: Option<&'static str>| text.map(str::as_bytes);
            let found = merge(bytes(base), bytes(ours), bytes(new));
            assert_eq!(found, (outcome, written.map(|text| text.as_bytes().to_vec())), "{base:?} {ours:?} {new:?}");
        }
    }

    #[test]
    fn a_conflict_is_marked_and_has_both_texts() {
        let (outcome, text) = merge(Some(b"a\nb\nc\n"), Some(b"a\nmine\nc\n"), Some(b"a\ntheirs\nc\n"));
        let text = text.unwrap();
        assert_eq!(outcome, Conflict);
        assert_eq!(
            String::from_utf8_lossy(&text),
            "a\n<<<<<<< edited\nmine\n||||||| generated before\nb\n=======\ntheirs\n>>>>>>> generated now\nc\n"
        );
        assert!(has_conflict(&text) && !has_conflict(b"a >>>>>>> generated now\n"));
    }

    #[test]
    fn what_is_no_text_is_not_merged() {
        assert_eq!(merge(Some(b"\xff1"), Some(b"\xff2"), Some(b"\xff3")), (NotOurs, None));
    }
}
