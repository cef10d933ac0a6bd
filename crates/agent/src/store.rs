//! The files that an agent keeps beside the data. Each file is replaced as a whole, so that after a crash it is the old
//! or the new one.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::contract::At;

/// The largest file that is read.
const LIMIT: u64 = 64 << 10;
/// The name of both files.
const NAME: &str = "tillerman.json";

/// The folders of a volume. The data is a folder of its own, so that it can be renamed in as a whole.
#[derive(Clone, Debug)]
pub struct Volume(PathBuf);

impl Volume {
    /// The volume at a path.
    pub fn new(root: &Path) -> Self {
        Self(root.to_owned())
    }
    /// The folder of the volume.
    pub fn root(&self) -> &Path {
        &self.0
    }
    /// The data of the database.
    pub fn data(&self) -> PathBuf {
        self.0.join("data")
    }
    /// Data that is being created or copied.
    pub fn arriving(&self) -> PathBuf {
        self.0.join("arriving")
    }
    /// Data that is being removed.
    pub fn leaving(&self) -> PathBuf {
        self.0.join("leaving")
    }

    /// The state that is needed while the data is copied to another member.
    pub fn copying(&self) -> PathBuf {
        self.0.join("copying")
    }

    /// Temporary files of the database's programs, which name them by the numbers of their processes: members in containers of one host
    /// may have the same.
    pub fn temporary(&self) -> PathBuf {
        self.0.join("tmp")
    }

    /// Makes an empty folder of temporary files.
    pub fn clear_temporary(&self) -> io::Result<()> {
        let folder = self.temporary();
        remove(&folder)?;
        fs::create_dir(&folder).map_err(|error| in_file(&folder, &error))
    }

    /// Removes what a crash left of data that was being created, copied or removed.
    pub fn sweep(&self) -> io::Result<()> {
        for folder in [self.arriving(), self.leaving(), self.copying()] {
            remove(&folder)?;
        }
        Ok(())
    }

    /// Moves the data away and removes it. A crash leaves all of it or none.
    pub fn discard(&self) -> io::Result<()> {
        remove(&self.leaving())?;
        match fs::rename(self.data(), self.leaving()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        sync_folder(&self.0)?;
        remove(&self.leaving())
    }

    /// Makes what has arrived the data. It is on the disk before it has that name.
    pub fn adopt(&self, identity: &Identity) -> io::Result<()> {
        let arriving = self.arriving();
        write(&arriving.join(NAME), identity)?;
        sync_all(&arriving)?;
        fs::rename(&arriving, self.data())?;
        sync_folder(&self.0)
    }

    /// The existing data. `files` are names that data of the database has.
    pub fn found(&self, files: &[&str]) -> io::Result<FoundData> {
        let data = self.data();
        match read::<Identity>(&data.join(NAME))? {
            Some(identity) if is_identity(&identity.data) => return Ok(FoundData::Ours(identity)),
            Some(_) => return Ok(FoundData::Foreign(format!("{} has no identity of data", data.join(NAME).display()))),
            None => {}
        }
        // Data that lies in the volume itself was put there by another program.
        for folder in [&data, &self.0] {
            for name in files {
                if folder.join(name).exists() {
                    let message =
                        "is data of a database without the agent's file; move it away, or restore from a backup";
                    return Ok(FoundData::Foreign(format!("{} {message}", folder.display())));
                }
            }
        }
        let is_used = match fs::read_dir(&data) {
            Ok(mut entries) => entries.next().is_some(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(in_file(&data, &error)),
        };
        if is_used {
            return Ok(FoundData::Foreign(format!("{} is neither empty nor the agent's", data.display())));
        }
        Ok(FoundData::Nothing)
    }

    /// Writes the identity of the data again.
    pub fn identify(&self, identity: &Identity) -> io::Result<()> {
        write(&self.data().join(NAME), identity)
    }
    /// The last order that was obeyed.
    pub fn obeyed(&self) -> io::Result<Obeyed> {
        Ok(read(&self.0.join(NAME))?.unwrap_or_default())
    }
    /// Stores what is obeyed.
    pub fn obey(&self, obeyed: &Obeyed) -> io::Result<()> {
        write(&self.0.join(NAME), obeyed)
    }
}

/// The data of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundData {
    /// None.
    Nothing,
    /// Data with the agent's file.
    Ours(Identity),
    /// Something else, with a sentence about it.
    Foreign(String),
}

/// The identity of the data: a file within the data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Identity {
    /// The identity, which all members of a cluster share.
    pub data: String,
    /// A copy whose position the database does not know yet.
    pub arrived: Option<Arrived>,
    /// The request by which it was copied, as it was sent.
    pub seeded: Option<String>,
    /// It has writes that no other member has, and cannot take them back.
    pub diverged: bool,
    /// The version of the database that wrote it last; `None` if it is not known.
    pub version: Option<String>,
    /// [`MemberState::continues`](super::contract::MemberState::continues) of the next start. It is stored after the database
    /// has ended in order, and removed before the database starts.
    pub continues: Vec<String>,
}

/// The folder of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Arrived {
    /// The state of the donor's binary log before the copy.
    pub before: String,
    /// The position of the copy; `None` if its tables say it, as those of a replica do.
    pub position: Option<String>,
}

/// The last order that the agent obeyed: a file beside the data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Obeyed {
    /// The highest epoch.
    pub epoch: u64,
    /// The highest number in it.
    pub number: u64,
    /// It has been primary since it last followed another member, with this number of acknowledgements.
    pub promoted: Option<u32>,
}

impl Obeyed {
    /// The last order.
    pub fn at(&self) -> At {
        At { epoch: self.epoch, number: Some(self.number) }
    }

    /// Notes an order. One without a number leaves that of its epoch.
    pub fn note(&mut self, at: At) {
        if at.epoch > self.epoch {
            (self.epoch, self.number) = (at.epoch, 0);
        }
        self.number = self.number.max(at.number.unwrap_or_default());
    }
}

/// Whether a text is an identity of data, which names files and is part of URLs.
pub fn is_identity(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(in_file(path, &error)),
    };
    let mut text = Vec::new();
    file.take(LIMIT).read_to_end(&mut text).map_err(|error| in_file(path, &error))?;
    serde_json::from_slice(&text).map(Some).map_err(|error| in_file(path, &io::Error::from(error)))
}

fn in_file(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn write<T: Serialize>(path: &Path, content: &T) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new).map_err(|error| in_file(&new, &error))?;
    file.write_all(&serde_json::to_vec(content)?)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    sync_folder(path.parent().unwrap_or(path))
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(|error| in_file(folder, &error)),
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn sync_all(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            sync_all(&entry.path())?;
        } else if kind.is_file() {
            File::open(entry.path())?.sync_all()?;
        }
    }
    sync_folder(folder)
}

#[cfg(test)]
mod tests {
    use super::{FoundData, Identity, Obeyed, Volume, is_identity};
    use std::fs;
    use std::path::PathBuf;

    struct Folder(PathBuf);
    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("tillerman-store-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }
    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn data_is_found_whole_or_not_at_all() {
        let folder = Folder::new("found");
        let volume = Volume::new(&folder.0);
        assert_eq!(volume.found(&["ibdata1", "mysql"]).unwrap(), FoundData::Nothing);
        fs::create_dir(folder.0.join("lost+found")).unwrap();
        fs::create_dir(volume.arriving()).unwrap();
        fs::write(volume.arriving().join("ibdata1"), "half").unwrap();
        assert_eq!(volume.found(&["ibdata1", "mysql"]).unwrap(), FoundData::Nothing);
        let identity = Identity { data: "d-1".into(), ..Identity::default() };
        volume.adopt(&identity).unwrap();
        volume.sweep().unwrap();
        assert_eq!(volume.found(&["ibdata1", "mysql"]).unwrap(), FoundData::Ours(identity));
        volume.discard().unwrap();
        assert_eq!(volume.found(&["ibdata1", "mysql"]).unwrap(), FoundData::Nothing);
        fs::create_dir_all(volume.data().join("mysql")).unwrap();
        assert!(matches!(volume.found(&["ibdata1", "mysql"]).unwrap(), FoundData::Foreign(_)));
        volume.discard().unwrap();
        fs::write(folder.0.join("ibdata1"), "").unwrap();
        assert!(matches!(volume.found(&["ibdata1", "mysql"]).unwrap(), FoundData::Foreign(_)));
    }

    #[test]
    fn what_is_obeyed_is_kept_and_a_broken_file_is_an_error() {
        let folder = Folder::new("obeyed");
        let volume = Volume::new(&folder.0);
        assert_eq!(volume.obeyed().unwrap(), Obeyed::default());
        let obeyed = Obeyed { epoch: 7, number: 9, promoted: Some(1) };
        volume.obey(&obeyed).unwrap();
        assert_eq!(volume.obeyed().unwrap(), obeyed);
        fs::write(folder.0.join("tillerman.json"), "{").unwrap();
        assert!(volume.obeyed().is_err());
        assert!(is_identity("0a-9Z") && !is_identity("") && !is_identity("a/b") && !is_identity(&"a".repeat(65)));
    }
}
