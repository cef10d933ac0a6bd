//! Paths of values as text: keys with dots between them, and `\.` for a dot in a key.

/// The keys of a path.
pub fn keys(path: &str) -> Vec<String> {
    let (mut keys, mut key) = (Vec::new(), String::new());
    let mut letters = path.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '.' => keys.push(std::mem::take(&mut key)),
            '\\' => key.push(letters.next().unwrap_or('\\')),
            letter => key.push(letter),
        }
    }
    keys.push(key);
    keys
}

/// The path of keys.
pub fn joined(keys: &[String]) -> String {
    keys.iter().map(|key| key.replace('\\', "\\\\").replace('.', "\\.")).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::{joined, keys};

    #[test]
    fn a_path_is_read_as_it_is_written() {
        for (path, expected) in [
            ("image.tag", vec!["image", "tag"]),
            (r"annotations.example\.com/a", vec!["annotations", "example.com/a"]),
            (r"a\\b", vec![r"a\b"]),
        ] {
            assert_eq!(keys(path), expected);
            assert_eq!(joined(&keys(path)), path);
        }
    }
}
