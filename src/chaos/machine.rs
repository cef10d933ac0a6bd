//! Faults on the machine of a pod: its processes are stopped, its connections to the other members are cut, or its volume is
//! full. Needs root, Linux and the programs `kill` and `stat`; for the network `nsenter` and `nft`.

use super::ChaosError;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// The table of our rules in a pod's network namespace. It is deleted with the pod, if it is not removed before.
const TABLE: &str = "tillerman_chaos";
/// Where members talk to each other.
const PEER_PORT: u16 = 2380;

/// The processes on this machine of the pod with this uid; none when it is on another. The first one of the pod, which only holds its
/// namespaces, is identified by its name.
fn processes(uid: &str) -> Vec<(u32, bool)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_its = |id: &u32| fs::read_to_string(format!("/proc/{id}/cgroup")).is_ok_and(|text| is_of_pod(&text, uid));
    let holds = |id: u32| fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|comm| comm.trim() == "pause");
    ids.filter(is_its).map(|id| (id, holds(id))).collect()
}

/// Whether a process's control groups are those of a pod, as either driver of the kubelet names them.
fn is_of_pod(cgroup: &str, uid: &str) -> bool {
    !uid.is_empty()
        && (cgroup.contains(&format!("/pod{uid}")) || cgroup.contains(&format!("-pod{}.slice", uid.replace('-', "_"))))
}

/// Whether a pod is on this machine.
pub fn has(uid: &str) -> bool {
    !processes(uid).is_empty()
}

/// Stops the processes of a pod. An error says what is wrong.
pub fn pause(uid: &str) -> Result<(), ChaosError> {
    signal(uid, "STOP")
}

/// Lets them continue.
pub fn go_on(uid: &str) -> Result<(), ChaosError> {
    signal(uid, "CONT")
}

/// Each process is sent the signal by itself, so that one that has ended meanwhile, such as a probe, does not keep it from the others.
fn signal(uid: &str, signal: &str) -> Result<(), ChaosError> {
    processes(uid).into_iter().filter(|(_, holds)| !holds).try_for_each(|(id, _)| send(id, signal))
}

/// Sends a signal to a process; one that has ended needs none.
fn send(id: u32, signal: &str) -> Result<(), ChaosError> {
    let sent = run(Command::new("kill").args([&format!("-{signal}"), &id.to_string()]), "");
    if Path::new(&format!("/proc/{id}")).exists() { sent } else { Ok(()) }
}

/// Drops all packets between a pod and other members. Existing connections are not closed.
pub fn part(uid: &str) -> Result<(), ChaosError> {
    let drops = format!("tcp dport {PEER_PORT} drop; tcp sport {PEER_PORT} drop;");
    let chain = |hook: &str| format!("chain {hook} {{ type filter hook {hook} priority -300; {drops} }}");
    let rules = format!("{}table inet {TABLE} {{\n{}\n{}\n}}\n", none(), chain("input"), chain("output"));
    if in_network(uid, &rules)? { Ok(()) } else { Err("the pod has no network of its own on this machine".into()) }
}

/// Lets it pass again.
pub fn join(uid: &str) -> Result<(), ChaosError> {
    in_network(uid, &none()).map(drop)
}

/// No table, whether there was one or not.
fn none() -> String {
    format!("table inet {TABLE}\ndelete table inet {TABLE}\n")
}

/// Sets rules in the network namespace of a pod; whether it has one.
fn in_network(uid: &str, rules: &str) -> Result<bool, ChaosError> {
    let network = |id: &str| fs::read_link(format!("/proc/{id}/ns/net")).ok();
    let own = network("self");
    let mut of_pod = processes(uid);
    // The one that holds the namespaces lives as long as the pod.
    of_pod.sort_by_key(|(_, holds)| !holds);
    for (id, _) in of_pod {
        let id = id.to_string();
        // One that is just being started is still in the node's.
        if network(&id).is_none_or(|of| Some(of) == own) {
            continue;
        }
        match run(Command::new("nsenter").args(["-t", &id, "-n", "nft", "-f", "-"]), rules) {
            // It ended meanwhile.
            Err(_) if network(&id).is_none() => {}
            result => return result.map(|()| true),
        }
    }
    Ok(false)
}

/// Limit of the bytes that are written into a volume: more would take longer than a fault lasts.
const MOST: u64 = 4 << 30;
/// How much is written at once, and how much at the end.
const PIECES: [usize; 2] = [4 << 20, 4 << 10];

/// Fills a volume with a file that no folder has, so that its space is free again when this is dropped, however this
/// program ends.
#[derive(Clone)]
pub struct Filler(Arc<File>);

impl Filler {
    /// One for the volume that a pod has mounted there. It takes no space yet.
    ///
    /// Fails where others would run out of space, too; and where that would take long.
    pub fn new(uid: &str, folder: &str) -> Result<Self, ChaosError> {
        let folder = volume(uid, folder)?;
        let path = folder.join(format!(".tillerman-chaos-{}", std::process::id()));
        let wrong = |e: std::io::Error| format!("{}: {e}", path.display());
        let file = File::options().write(true).create_new(true).open(&path).map_err(wrong)?;
        fs::remove_file(&path).map_err(wrong)?;
        Ok(Self(Arc::new(file)))
    }

    /// Takes some of the space that is left; whether there may be more.
    pub fn fill(&self) -> Result<bool, ChaosError> {
        for size in PIECES {
            // A piece of which only a part has room is written in part.
            match (&*self.0).write(&vec![0; size]) {
                Ok(_) => return Ok(true),
                Err(error) if error.kind() == ErrorKind::StorageFull => {}
                Err(error) => return Err(format!("it cannot be filled: {error}").into()),
            }
        }
        Ok(false)
    }
}

/// The folder, as it is found from here, of a volume of its own size that a pod has mounted there.
pub fn volume(uid: &str, folder: &str) -> Result<PathBuf, ChaosError> {
    let of_pod = processes(uid).into_iter().filter(|(_, holds)| !holds);
    let mounts = |id: u32| fs::read_to_string(format!("/proc/{id}/mountinfo")).unwrap_or_default();
    let mut mounted = of_pod.filter_map(|(id, _)| Some((id, mount(&mounts(id), folder)?)));
    let (id, found) = mounted.next().ok_or_else(|| format!("no process on this machine has {folder} mounted"))?;
    let path = PathBuf::from(format!("/proc/{id}/root{folder}"));
    let own = fs::read_to_string("/proc/self/mountinfo").map_err(|e| format!("/proc/self/mountinfo: {e}"))?;
    let own: Vec<Mount> = OWN.iter().filter_map(|folder| mount(&own, folder)).collect();
    shared(&found, &own).map_or(Ok(()), Err)?;
    match free(&path)? {
        free if free > MOST => Err(format!("it has {} MiB free; the limit is {} MiB", free >> 20, MOST >> 20).into()),
        _ => Ok(path),
    }
}

/// Folders of whose filesystems a machine has need.
const OWN: [&str; 6] = ["/", "/var", "/var/lib", "/var/lib/kubelet", "/var/lib/containerd", "/tmp"];

/// The mount at a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    /// Which filesystem.
    device: String,
    /// Which folder of it.
    root: String,
}

/// The mount at a folder, by the text of `mountinfo` (proc(5)); the last one covers those before.
fn mount(text: &str, folder: &str) -> Option<Mount> {
    let line = |line: &str| {
        let mut words = line.split(' ').skip(2);
        let (device, root, at) = (words.next()?, words.next()?, words.next()?);
        (at == folder).then(|| Mount { device: device.into(), root: root.into() })
    };
    text.lines().rev().find_map(line)
}

/// Why others would run out of space when this is full.
fn shared(volume: &Mount, own: &[Mount]) -> Option<String> {
    if own.iter().any(|own| own.device == volume.device) {
        return Some("it is a folder of the node's own filesystem, which would be full for all its users".into());
    }
    (volume.root != "/")
        .then(|| format!("it is the folder {} of a filesystem, which would be full for others, too", volume.root))
}

/// How many bytes are free where a path is.
fn free(path: &Path) -> Result<u64, ChaosError> {
    let output =
        Command::new("stat").args(["-f", "-c", "%f %S"]).arg(path).output().map_err(|e| format!("stat: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(blocks)), Some(Ok(size))) => Ok(blocks.saturating_mul(size)),
        _ => Err(format!("stat: {}", String::from_utf8_lossy(&output.stderr).trim()).into()),
    }
}

fn run(command: &mut Command, input: &str) -> Result<(), ChaosError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let wrong = |e: std::io::Error| format!("{name}: {e}");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(wrong)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).map_err(wrong)?;
    }
    let output = child.wait_with_output().map_err(wrong)?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}

#[cfg(test)]
mod tests {
    use super::{Mount, has, is_of_pod, mount, send, shared};

    #[test]
    fn a_pods_processes_are_found_by_either_driver() {
        let uid = "0b6f4a3e-1c2d-4e5f-8a9b-0c1d2e3f4a5b";
        let plain = format!("5:memory:/kubepods/besteffort/pod{uid}/4f\n");
        let systemd = "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0b6f4a3e_1c2d_4e5f_8a9b_0c1d2e3f4a5b.slice/cri-1.scope\n";
        assert!(is_of_pod(&plain, uid) && is_of_pod(systemd, uid));
        for other in ["0::/user.slice\n", "0::/kubepods/pod0b6f4a3e\n", ""] {
            assert!(!is_of_pod(other, uid), "{other}");
        }
        assert!(!is_of_pod("0::/kubepods/pod/\n", ""), "a pod without a uid has none");
        assert!(!has(uid));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_that_has_ended_needs_no_signal() {
        let state = |id: u32| {
            let text = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
            text.rsplit(") ").next().unwrap().chars().next().unwrap()
        };
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        assert_eq!(send(ended.id(), "STOP"), Ok(()));
        let mut alive = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(send(alive.id(), "STOP"), Ok(()));
        while state(alive.id()) != 'T' {
            std::thread::yield_now();
        }
        assert!(
            send(alive.id(), "NONE").unwrap_err().to_string().contains("kill"),
            "one that is there and cannot be sent it"
        );
        alive.kill().unwrap();
        alive.wait().unwrap();
    }

    const MOUNTS: &str = "\
21 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 21 254:0 /pv/a /var/lib/etcd rw shared:1 - ext4 /dev/vda rw
41 21 0:52 / /data rw,relatime master:3 - tmpfs tmpfs rw,size=262144k
42 21 8:16 /volumes/b /shared rw - ext4 /dev/sdb rw
43 41 8:32 / /data rw - xfs /dev/sdc rw
";

    #[test]
    fn only_a_filesystem_of_its_own_is_filled() {
        let of = |folder| mount(MOUNTS, folder).unwrap();
        assert_eq!(of("/data"), Mount { device: "8:32".into(), root: "/".into() }, "the last covers the first");
        assert_eq!(mount(MOUNTS, "/dat"), None);
        let refused = |folder| shared(&of(folder), &[of("/")]);
        assert_eq!(refused("/data"), None);
        assert!(refused("/").unwrap().contains("the node's own"));
        assert!(refused("/var/lib/etcd").unwrap().contains("the node's own"));
        assert!(refused("/shared").unwrap().contains("/volumes/b"));
    }
}
