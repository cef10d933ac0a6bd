//! The primary's disk is full.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::cluster::{DatabaseCluster, is_mysql};
use crate::writers::{Writers, lost};

/// A file system of its own, which goes with this value.
pub struct Disk(PathBuf);

impl Disk {
    pub fn new(at: PathBuf, megabytes: u32) -> Self {
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&at).status();
        assert!(mounted.expect("mount is there").success());
        Self(at)
    }

    /// Takes all room that is left.
    pub fn fill(&self) -> PathBuf {
        let path = self.0.join("filler");
        let mut file = File::create(&path).expect("it can be made");
        while file.write_all(&[1; 8 << 10]).is_ok() {}
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_stops_writes_and_loses_none() {
    let mut cluster = DatabaseCluster::new(3);
    // MySQL copies itself beside its data.
    let disk = Disk::new(cluster.members[0].folder.join("v"), if is_mysql() { 1000 } else { 400 });
    cluster.create().await;
    cluster.grow(3).await;
    let writers = Writers::start(&cluster.members[..1], 4).await;
    writers.more(100).await;
    let filler = disk.fill();
    let is_full = |problem: &Option<String>| problem.as_ref().is_some_and(|why| why.contains("its volume is full"));
    cluster.members[0].until("it says so", |state| is_full(&state.problem)).await;
    fs::remove_file(filler).unwrap();
    let (since, before) = (Instant::now(), writers.count());
    while writers.count() < before + 100 {
        assert!(since.elapsed() < Duration::from_secs(150), "writes go on when there is room again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    eprintln!("writes went on after {:.1?}", since.elapsed());
    let keys = writers.stop().await;
    let primary = cluster.members[0].until("it is well", |state| state.problem.is_none()).await;
    for member in &cluster.members {
        member.until("it has all", |state| state.has.contains(&primary.has)).await;
        assert_eq!(lost(member, &keys).await, Vec::<u64>::new(), "{}", member.name);
    }
}
