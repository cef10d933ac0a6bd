//! For which machines a program is, read out of its ELF header (System V ABI, `elf(5)`).

use super::{ImageError, fail};
use serde_json::{Value, json};
use std::fmt;

/// An operating system, which is Linux, and a processor, in the words of OCI (which are Go's `GOARCH`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Platform {
    /// The processor.
    pub architecture: &'static str,
    /// Which of them, where there are incompatible ones.
    pub variant: Option<&'static str>,
}

impl Platform {
    /// As in configs and indexes.
    pub fn json(&self) -> Value {
        let mut json = json!({"architecture": self.architecture, "os": "linux"});
        if let Some(variant) = self.variant {
            json["variant"] = variant.into();
        }
        json
    }

    /// That of the running program, if images are made for it.
    pub fn here() -> Option<Self> {
        MACHINES.iter().map(|machine| &machine.platform).find(|p| p.architecture == here()).cloned()
    }
}

/// The running program's processor in Go's words.
fn here() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "linux/{}", self.architecture)?;
        self.variant.map_or(Ok(()), |variant| write!(f, "/{variant}"))
    }
}

struct Machine {
    /// `e_machine`.
    number: u16,
    is_64: bool,
    is_little: bool,
    platform: Platform,
}

const fn machine(
    number: u16,
    is_64: bool,
    is_little: bool,
    architecture: &'static str,
    variant: Option<&'static str>,
) -> Machine {
    Machine { number, is_64, is_little, platform: Platform { architecture, variant } }
}

/// The machines that Kubernetes has nodes of.
const MACHINES: &[Machine] = &[
    machine(3, false, true, "386", None),
    machine(21, true, true, "ppc64le", None),
    machine(22, true, false, "s390x", None),
    machine(40, false, true, "arm", Some("v7")),
    machine(62, true, true, "amd64", None),
    machine(183, true, true, "arm64", None),
    machine(243, true, true, "riscv64", None),
];

/// A program header that names the dynamic linker.
const PT_INTERP: u64 = 3;
/// How a static program is made.
const ADVICE: &str =
    "an image needs a static program for Linux: one of a release or of `make build`, with --program FILE";

/// The platform of a program.
///
/// # Errors
/// If it is not a static program for Linux; `name` is what the message calls it.
pub fn platform(name: &str, data: &[u8]) -> Result<Platform, ImageError> {
    let Some(header) = Header::read(data) else {
        return fail(format!("{name} is not a program for Linux (ELF); {ADVICE}"));
    };
    let Some(machine) = header.machine() else {
        return fail(format!(
            "{name} is for a machine that Kubernetes nodes do not have (ELF machine {})",
            header.number
        ));
    };
    // 0 means System V, which Linux's programs have, 3 means Linux. 2 is an executable file, 3 one at any address.
    if ![0, 3].contains(&header.system) || ![2, 3].contains(&header.kind) {
        return fail(format!(
            "{name} is not a program for Linux (ELF system {}, type {}); {ADVICE}",
            header.system, header.kind
        ));
    }
    match header.linkage(data) {
        Linkage::Static => Ok(machine.platform.clone()),
        Linkage::Dynamic(linker) => {
            fail(format!("{name} needs the dynamic linker {linker}, which is not in the image; {ADVICE}"))
        }
        Linkage::Unknown => fail(format!("{name} is cut off: its program headers are missing; {ADVICE}")),
    }
}

/// The interpreter that a program needs to start.
enum Linkage {
    /// Nothing.
    Static,
    /// A program with this path.
    Dynamic(String),
    /// The file is too short for its headers.
    Unknown,
}

/// The fields of the header that matter.
struct Header {
    is_64: bool,
    is_little: bool,
    system: u8,
    kind: u16,
    number: u16,
    /// Where the program headers are, the size of one, and how many there are.
    headers: (u64, u16, u16),
}

/// An unsigned number of some bytes.
fn number(data: &[u8], at: u64, size: u64, is_little: bool) -> Option<u64> {
    let from = usize::try_from(at).ok()?;
    let to = usize::try_from(at.checked_add(size)?).ok()?;
    let bytes = data.get(from..to)?;
    let join = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    Some(if is_little { bytes.iter().rev().fold(0, join) } else { bytes.iter().fold(0, join) })
}

impl Header {
    fn read(data: &[u8]) -> Option<Self> {
        if !data.starts_with(b"\x7fELF") {
            return None;
        }
        let is_64 = matches!(data.get(4)?, 2);
        let is_little = matches!(data.get(5)?, 1);
        let short = |at: u64| number(data, at, 2, is_little).and_then(|n| u16::try_from(n).ok());
        let (at, size, sizes) = if is_64 { (32, 8, 54) } else { (28, 4, 42) };
        let headers = (number(data, at, size, is_little)?, short(sizes)?, short(sizes + 2)?);
        Some(Self { is_64, is_little, system: *data.get(7)?, kind: short(16)?, number: short(18)?, headers })
    }

    fn machine(&self) -> Option<&'static Machine> {
        MACHINES.iter().find(|m| (m.number, m.is_64, m.is_little) == (self.number, self.is_64, self.is_little))
    }

    fn linkage(&self, data: &[u8]) -> Linkage {
        let (start, size, count) = self.headers;
        for index in 0..u64::from(count) {
            let at = start.saturating_add(index * u64::from(size));
            match number(data, at, 4, self.is_little) {
                None => return Linkage::Unknown,
                Some(kind) if kind == PT_INTERP => {
                    return self.linker(data, at).map_or(Linkage::Unknown, Linkage::Dynamic);
                }
                Some(_) => {}
            }
        }
        Linkage::Static
    }

    /// The path that the program header at a place leads to.
    fn linker(&self, data: &[u8], at: u64) -> Option<String> {
        let (offset, length, width) = if self.is_64 { (8, 32, 8) } else { (4, 16, 4) };
        let from = number(data, at.checked_add(offset)?, width, self.is_little)?;
        let length = number(data, at.checked_add(length)?, width, self.is_little)?;
        let path = data.get(usize::try_from(from).ok()?..usize::try_from(from.checked_add(length)?).ok()?)?;
        let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
        // Linux has paths of 4096 bytes, and a message is for people.
        Some(String::from_utf8_lossy(&path[..path.len().min(200)]).escape_debug().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::platform;
    use crate::image::tests::program;

    #[test]
    fn a_static_program_is_for_the_machine_in_its_header() {
        for (machine, wanted) in [(62, "linux/amd64"), (183, "linux/arm64"), (243, "linux/riscv64")] {
            assert_eq!(platform("x", &program(machine, None)).unwrap().to_string(), wanted);
        }
    }

    #[test]
    fn what_is_no_static_program_for_linux_is_refused_with_what_to_do() {
        let message = |data: &[u8]| platform("x", data).unwrap_err().0;
        let dynamic = message(&program(62, Some("/lib64/ld-linux-x86-64.so.2")));
        assert!(dynamic.contains("needs the dynamic linker /lib64/ld-linux-x86-64.so.2, which"), "{dynamic}");
        assert!(dynamic.contains("make build"), "{dynamic}");
        for other in [&b"\xcf\xfa\xed\xfe"[..], b"MZ", b"#!/bin/sh\n", b"", b"\x7fELF"] {
            assert!(message(other).starts_with("x is not a program for Linux (ELF); "), "{}", message(other));
        }
        let mut foreign = program(62, None);
        foreign[7] = 9;
        assert!(message(&foreign).starts_with("x is not a program for Linux (ELF system 9, type 2)"));
        assert!(message(&program(8, None)).contains("no machine that Kubernetes has nodes of (ELF machine 8)"));
    }

    #[test]
    fn a_program_that_is_cut_anywhere_makes_no_panic() {
        let whole = program(62, Some("/lib/ld"));
        for length in 0..whole.len() {
            assert!(platform("x", &whole[..length]).is_err());
        }
        let mut wild = program(62, Some("/lib/ld"));
        wild[32..40].fill(0xff);
        assert!(platform("x", &wild).unwrap_err().0.starts_with("x is cut off"));
    }
}
