//! The content of an image, as SPDX 2.3 in JSON: of the two formats the one that is an ISO standard (5962), and that
//! `BuildKit` and Kubernetes' own releases use.
//!
//! A program holds the `Cargo.lock` that it was built with, as text. So the crates of any program are listed, those of another platform or
//! version too, and not those of the program that makes the image. `Cargo.lock` names also crates that only tests or other platforms need.

use super::elf::Platform;
use crate::chart::Chart;
use memchr::memmem;
use serde_json::{Value, json};

/// The crates that this program was built with. It is in the program because `lock` uses it.
const LOCK: &str = include_str!("../../Cargo.lock");
/// Bytes of a `Cargo.lock`; ours has 130 KiB.
const LOCK_LIMIT: usize = 4 << 20;
/// The name that our package has in it.
const OURS: &str = "tillerman";

/// A package of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name in the document: letters, digits, `-` and `.`.
    id: String,
    pub name: String,
    /// Its version, or nothing.
    pub version: String,
    /// An SPDX expression, if it is known.
    licence: Option<&'static str>,
    /// Its SHA-256 sum in hexadecimal digits, if it is known.
    checksum: Option<String>,
    /// Where package managers have it, as a package URL.
    url: Option<String>,
    /// Its type, in SPDX's words.
    purpose: &'static str,
    /// Where it lies in the image.
    comment: String,
    /// The identifier of what contains it.
    parent: Option<String>,
}

/// A program and its crates; the program is the first.
pub fn program(data: &[u8], platform: &Platform) -> Vec<Package> {
    let crates = lock(data);
    let ours = crates.iter().find(|entry| entry.name == OURS);
    let id = format!("Program-{}", identifier(&platform.to_string()));
    let mut packages = vec![Package {
        id: id.clone(),
        name: OURS.to_owned(),
        version: ours.map(|entry| entry.version.clone()).unwrap_or_default(),
        licence: ours.map(|_| env!("CARGO_PKG_LICENSE")),
        checksum: Some(super::digest(data).trim_start_matches("sha256:").to_owned()),
        url: None,
        purpose: "APPLICATION",
        comment: format!("/{}, for {platform}", super::PROGRAM),
        parent: None,
    }];
    packages.extend(crates.iter().filter(|entry| entry.name != OURS).map(|entry| Package {
        id: format!("Crate-{}-{}", identifier(&entry.name), identifier(&entry.version)),
        name: entry.name.clone(),
        version: entry.version.clone(),
        licence: None,
        checksum: (!entry.checksum.is_empty()).then(|| entry.checksum.clone()),
        url: Some(format!("pkg:cargo/{}@{}", entry.name, entry.version.replace('+', "%2B"))),
        purpose: "LIBRARY",
        comment: String::new(),
        parent: Some(id.clone()),
    }));
    packages
}

/// A chart, which lies at a path in the image, and the charts below it.
pub fn charts(chart: &Chart, at: &str) -> Vec<Package> {
    let mut packages = Vec::new();
    add(&mut packages, chart, at, None);
    packages
}

fn add(packages: &mut Vec<Package>, chart: &Chart, at: &str, parent: Option<&str>) {
    let metadata = &chart.metadata;
    let id = match parent {
        None => format!("Chart-{}", identifier(at)),
        Some(parent) => format!("{parent}-{}-{}", packages.len(), identifier(&metadata.name)),
    };
    packages.push(Package {
        id: id.clone(),
        name: metadata.name.clone(),
        version: metadata.version.clone(),
        licence: None,
        checksum: None,
        url: None,
        purpose: "OTHER",
        comment: if parent.is_none() { format!("the Helm chart in {at}") } else { "a Helm chart".to_owned() },
        parent: parent.map(str::to_owned),
    });
    for below in &chart.dependencies {
        add(packages, below, at, Some(&id));
    }
}

/// A document of packages, made at a time in seconds since 1970.
pub fn document(name: &str, packages: &[Package], epoch: u64) -> Vec<u8> {
    let reference = |id: &str| format!("SPDXRef-{id}");
    let relation = |from: &str, kind: &str, to: &str| json!({"spdxElementId": reference(from), "relationshipType": kind, "relatedSpdxElement": reference(to)});
    let relations = packages.iter().map(|package| match &package.parent {
        None => relation("DOCUMENT", "DESCRIBES", &package.id),
        Some(parent) => relation(parent, "CONTAINS", &package.id),
    });
    let relations: Vec<Value> = relations.collect();
    let packages: Vec<Value> = packages.iter().map(Package::json).collect();
    // A document with other contents has another address. The address need not be reachable.
    let content = super::digest(json!([name, packages, relations, epoch]).to_string().as_bytes());
    let document = json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": name,
        "documentNamespace": format!("https://tillerman.dev/sbom/{}", content.trim_start_matches("sha256:")),
        "creationInfo": {
            "created": super::time(epoch),
            "creators": [concat!("Tool: tillerman-", env!("CARGO_PKG_VERSION"))],
        },
        "packages": packages,
        "relationships": relations,
    });
    document.to_string().into_bytes()
}

impl Package {
    fn json(&self) -> Value {
        let mut json = json!({
            "SPDXID": format!("SPDXRef-{}", self.id),
            "name": self.name,
            "downloadLocation": "NOASSERTION",
            "filesAnalyzed": false,
            "licenseConcluded": "NOASSERTION",
            "licenseDeclared": self.licence.unwrap_or("NOASSERTION"),
            "copyrightText": "NOASSERTION",
            "primaryPackagePurpose": self.purpose,
        });
        if !self.version.is_empty() {
            json["versionInfo"] = self.version.as_str().into();
        }
        if let Some(checksum) = &self.checksum {
            json["checksums"] = json!([{"algorithm": "SHA256", "checksumValue": checksum}]);
        }
        if let Some(url) = &self.url {
            json["externalRefs"] =
                json!([{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": url}]);
        }
        if !self.comment.is_empty() {
            json["comment"] = self.comment.as_str().into();
        }
        json
    }
}

/// A text with only the characters that identifiers of SPDX have.
fn identifier(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect()
}

/// An entry of a `Cargo.lock`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Locked {
    name: String,
    version: String,
    checksum: String,
}

/// The packages of the `Cargo.lock` that a program holds; none when it holds none.
fn lock(program: &[u8]) -> Vec<Locked> {
    let ours = std::hint::black_box(LOCK);
    let first = ours.lines().next().unwrap_or_default();
    let texts = memmem::find_iter(program, first.as_bytes()).map(|at| {
        let rest = &program[at..];
        read_lock(&rest[..rest.len().min(LOCK_LIMIT)])
    });
    texts.max_by_key(Vec::len).unwrap_or_default()
}

/// Reads lines as long as they are of a `Cargo.lock`; other data follows without a border.
fn read_lock(data: &[u8]) -> Vec<Locked> {
    let mut found: Vec<Locked> = Vec::new();
    let lines = data.split(|byte| *byte == b'\n').map_while(|line| std::str::from_utf8(line).ok());
    for line in lines {
        let value = |key: &str| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"');
        let known = line.is_empty()
            || line.starts_with("# ")
            || line.starts_with("version = ")
            || line.starts_with(" \"") && line.ends_with("\",")
            || matches!(line, "dependencies = [" | "]");
        if line == "[[package]]" {
            found.push(Locked::default());
        } else if let (Some(entry), Some(text)) = (found.last_mut(), value("name")) {
            text.clone_into(&mut entry.name);
        } else if let (Some(entry), Some(text)) = (found.last_mut(), value("version")) {
            text.clone_into(&mut entry.version);
        } else if let (Some(entry), Some(text)) = (found.last_mut(), value("checksum")) {
            text.clone_into(&mut entry.checksum);
        } else if !known && value("source").is_none() {
            break;
        }
    }
    found.retain(|entry| !entry.name.is_empty() && !entry.version.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::{LOCK, document, program};
    use crate::image::elf::Platform;
    use serde_json::Value;

    const AMD64: Platform = Platform { architecture: "amd64", variant: None };

    #[test]
    fn the_crates_of_a_program_are_read_out_of_it_between_other_data() {
        let data = [b"\x7fELF\xff\xfe rodata ", LOCK.as_bytes(), b"dangling\xff]] name = \"no\""].concat();
        let packages = program(&data, &AMD64);
        assert_eq!((&*packages[0].name, &*packages[0].version), ("tillerman", env!("CARGO_PKG_VERSION")));
        assert!(packages.len() == LOCK.matches("[[package]]").count(), "{}", packages.len());
        assert!(packages.iter().any(|package| package.name == "serde_json" && package.url.is_some()));
        let is_ours = |name: &str| name == "tillerman" || name.starts_with("tillerman-");
        assert!(packages.iter().all(|package| is_ours(&package.name) || package.checksum.is_some()));
    }

    #[test]
    fn a_program_that_says_nothing_is_listed_alone() {
        let packages = program(b"\x7fELF", &AMD64);
        assert_eq!((packages.len(), &*packages[0].version), (1, ""));
    }

    #[test]
    fn a_document_has_what_spdx_requires_and_each_identifier_once() {
        let packages = program(LOCK.as_bytes(), &AMD64);
        let document: Value = serde_json::from_slice(&document("x", &packages, 0)).unwrap();
        assert_eq!((&document["spdxVersion"], &document["dataLicense"]), (&"SPDX-2.3".into(), &"CC0-1.0".into()));
        assert_eq!(document["creationInfo"]["created"], "1970-01-01T00:00:00Z");
        let packages = document["packages"].as_array().unwrap();
        let mut ids: Vec<&str> = packages.iter().map(|package| package["SPDXID"].as_str().unwrap()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), packages.len());
        assert_eq!(document["relationships"].as_array().unwrap().len(), packages.len());
    }
}
