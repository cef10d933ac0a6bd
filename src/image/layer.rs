//! Files as an archive that is the same wherever it is made.

use super::{Blob, ImageError, fail};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::BTreeMap;

/// The type of a layer.
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// The longest path of a file, which is Linux's.
const PATH_LIMIT: usize = 4095;

/// A layer of an image.
#[derive(Clone, Debug)]
pub struct Layer {
    /// The compressed archive.
    pub blob: Blob,
    /// The digest of the archive before it was compressed.
    pub diff_id: String,
}

impl Layer {
    /// The archive before it was compressed.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn tar(&self) -> std::io::Result<Vec<u8>> {
        let mut tar = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(self.blob.data.as_slice()), &mut tar)?;
        Ok(tar)
    }
}

/// The entry at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Directory { mode: u32, owner: (u64, u64) },
    File { data: Vec<u8>, mode: u32 },
    Link { target: String },
}

const FOLDER: Node = Node::Directory { mode: 0o755, owner: (0, 0) };

/// The files of a layer by their paths, which begin without `/`.
#[derive(Clone, Debug, Default)]
pub struct Tree(BTreeMap<String, Node>);

impl Tree {
    /// Adds a file of root.
    ///
    /// # Errors
    /// If the path cannot be in an image, or something else is there.
    pub fn file(&mut self, path: &str, data: Vec<u8>, mode: u32) -> Result<(), ImageError> {
        self.add(path, Node::File { data, mode })
    }

    /// Adds a directory, or says the mode and the owner (user and group) of one that is there.
    ///
    /// # Errors
    /// As [`Tree::file`].
    pub fn directory(&mut self, path: &str, mode: u32, owner: (u64, u64)) -> Result<(), ImageError> {
        self.add(path, Node::Directory { mode, owner })
    }

    /// Adds a symbolic link.
    ///
    /// # Errors
    /// As [`Tree::file`].
    pub fn link(&mut self, path: &str, target: &str) -> Result<(), ImageError> {
        self.add(path, Node::Link { target: target.to_owned() })
    }

    fn add(&mut self, path: &str, node: Node) -> Result<(), ImageError> {
        check(path)?;
        for (end, _) in path.match_indices('/') {
            match self.0.entry(path[..end].to_owned()).or_insert(FOLDER) {
                Node::Directory { .. } => {}
                _ => return fail(format!("{:?} would be both a file and a directory", &path[..end])),
            }
        }
        match self.0.insert(path.to_owned(), node) {
            None => Ok(()),
            Some(Node::Directory { .. }) if matches!(self.0[path], Node::Directory { .. }) => Ok(()),
            Some(_) => fail(format!("{path:?} would be in the image twice")),
        }
    }

    /// The archive, sorted by path, with all files of one time in seconds since 1970.
    ///
    /// # Errors
    /// If a path is too long.
    pub fn layer(&self, epoch: u64) -> Result<Layer, ImageError> {
        let tar = self.tar(epoch).map_err(|e| ImageError(e.to_string()))?;
        let diff_id = super::digest(&tar);
        // Without a name and a time, gzip's header is the same everywhere.
        let mut gzip = GzEncoder::new(Vec::with_capacity(tar.len() / 2), Compression::default());
        let data = std::io::Write::write_all(&mut gzip, &tar).and_then(|()| gzip.finish());
        let data = data.map_err(|e| ImageError(e.to_string()))?;
        Ok(Layer { blob: Blob::new(LAYER, data), diff_id })
    }

    /// The archive before it is compressed.
    pub(super) fn tar(&self, epoch: u64) -> std::io::Result<Vec<u8>> {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, node) in &self.0 {
            let mut header = tar::Header::new_ustar();
            header.set_mtime(epoch);
            // An empty field is not a number.
            header.set_uid(0);
            header.set_gid(0);
            match node {
                Node::Directory { mode, owner } => {
                    header.set_entry_type(tar::EntryType::Directory);
                    header.set_mode(*mode);
                    header.set_uid(owner.0);
                    header.set_gid(owner.1);
                    header.set_size(0);
                    tar.append_data(&mut header, format!("{path}/"), std::io::empty())?;
                }
                Node::File { data, mode } => {
                    header.set_entry_type(tar::EntryType::Regular);
                    header.set_mode(*mode);
                    header.set_size(data.len() as u64);
                    tar.append_data(&mut header, path, data.as_slice())?;
                }
                Node::Link { target } => {
                    header.set_entry_type(tar::EntryType::Symlink);
                    header.set_mode(0o777);
                    header.set_size(0);
                    tar.append_link(&mut header, path, target)?;
                }
            }
        }
        tar.into_inner()
    }
}

/// Refuses a path that leads elsewhere, that a runtime would take for something else, or that no terminal should see.
fn check(path: &str) -> Result<(), ImageError> {
    let refuse = |why: &str| fail(format!("the file {path:?} cannot be in an image: {why}"));
    if path.len() > PATH_LIMIT {
        return fail(format!("a file whose path has {} bytes cannot be in an image", path.len()));
    }
    if path.contains(char::is_control) {
        return refuse("its name has control characters");
    }
    for part in path.split('/') {
        match part {
            "" => return refuse("its path is absolute or has an empty part"),
            "." | ".." => return refuse("its path has . or .. in it"),
            // In a layer such a file deletes the one of that name (OCI image specification, "Whiteouts").
            part if part.starts_with(".wh.") => return refuse("names that begin with .wh. delete files of images"),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Tree;
    use std::io::Read as _;

    /// Each entry: path, mode, owner and content.
    fn entries(tree: &Tree) -> Vec<(String, u32, u64, String)> {
        let tar = tree.layer(0).unwrap().tar().unwrap();
        let mut archive = tar::Archive::new(tar.as_slice());
        let read = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            let path = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
            assert_eq!(entry.header().mtime().unwrap(), 0);
            (path, entry.header().mode().unwrap(), entry.header().uid().unwrap(), text)
        };
        archive.entries().unwrap().map(read).collect()
    }

    #[test]
    fn entries_are_sorted_and_directories_come_before_what_is_in_them() {
        let mut tree = Tree::default();
        tree.file("b/c/d", b"x".to_vec(), 0o644).unwrap();
        tree.file("a", b"y".to_vec(), 0o755).unwrap();
        tree.directory("b", 0o775, (1001, 0)).unwrap();
        tree.link("b/link", "c/d").unwrap();
        let entry = |path: &str, mode, owner, text: &str| (path.to_owned(), mode, owner, text.to_owned());
        let wanted = [
            entry("a", 0o755, 0, "y"),
            entry("b/", 0o775, 1001, ""),
            entry("b/c/", 0o755, 0, ""),
            entry("b/c/d", 0o644, 0, "x"),
            entry("b/link", 0o777, 0, ""),
        ];
        assert_eq!(entries(&tree), wanted);
    }

    #[test]
    fn the_order_in_which_files_are_added_has_no_influence() {
        let names = ["a", "b/c", "b/d", &format!("b/{}", "e".repeat(150))];
        let made = |names: &mut dyn Iterator<Item = &&str>| {
            let mut tree = Tree::default();
            names.for_each(|name| tree.file(name, name.as_bytes().to_vec(), 0o644).unwrap());
            tree.layer(0).unwrap().blob
        };
        assert_eq!(made(&mut names.iter()), made(&mut names.iter().rev()));
    }

    #[test]
    fn hostile_paths_are_refused() {
        let message = |path: &str| Tree::default().file(path, Vec::new(), 0o644).unwrap_err().0;
        for (path, why) in [
            ("/etc/passwd", "absolute"),
            ("a//b", "empty part"),
            ("a/", "empty part"),
            ("", "empty part"),
            ("../a", ". or .."),
            ("a/../../b", ". or .."),
            ("a/./b", ". or .."),
            ("a/.wh.etc", ".wh."),
            (".wh..wh..opq", ".wh."),
            ("a\u{1b}[2J", "control characters"),
            ("a\nb", "control characters"),
        ] {
            assert!(message(path).contains(why), "{path:?}: {}", message(path));
        }
        assert!(message(&"a/".repeat(3000)).contains("6000 bytes"));
        let mut tree = Tree::default();
        tree.file("a", Vec::new(), 0o644).unwrap();
        assert!(tree.file("a/b", Vec::new(), 0o644).unwrap_err().0.contains("both a file and a directory"));
        assert!(tree.file("a", Vec::new(), 0o644).unwrap_err().0.contains("twice"));
    }
}
