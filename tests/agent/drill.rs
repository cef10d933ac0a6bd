//! Drills: `tillerman-agent restore --check` restores the newest copy and the archive, and finds whatever would keep a restore from
//! succeeding.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cluster::{DatabaseCluster, is_mysql};
use crate::full::Disk;
use crate::seeding::fill;
use crate::stored::{Gateway, Shelf, alter, restore};
use crate::writers::Writers;

/// The checks of a good copy.
const ROWS: [&str; 2] =
    ["--check-row=SELECT 1 FROM app.t LIMIT 1", "--check-row=SELECT 1 FROM big.b HAVING COUNT(*) = 256"];

/// The files of a shelf: the only copy, and its logs in their order.
struct Files {
    copy: PathBuf,
    logs: Vec<PathBuf>,
    end: PathBuf,
}

impl Files {
    fn of(shelf: &Shelf, data: &str) -> Self {
        let copy = shelf.files("db_v").remove(0);
        let end = shelf.folder.join(format!("db_log_{}_end.json", &data[..12]));
        Self { copy, logs: shelf.files("db_log_"), end }
    }
}

fn record(path: &Path) -> PathBuf {
    PathBuf::from(path.display().to_string() + ".json")
}

/// Changes a field of a record.
fn edit(path: &Path, pointer: &str, value: Value) {
    let mut document: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    *document.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is in the record")) = value;
    fs::write(path, document.to_string()).unwrap();
}

fn cut(path: &Path, bytes: u64) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len() - bytes).unwrap();
}

/// A harm: its name, the function that does it, and a part of the message of the drill.
type Harm = (&'static str, fn(&Files), &'static str);

/// Harms of the stored files.
const HARMS: [Harm; 17] = [
    ("a bit of the copy is flipped", |files| alter(&files.copy), ""),
    ("the end of the copy is missing", |files| cut(&files.copy, 1000), "no good copy"),
    ("the copy is missing", |files| fs::remove_file(&files.copy).unwrap(), "no good copy"),
    ("the record of the copy is missing", |files| fs::remove_file(record(&files.copy)).unwrap(), "no good copy"),
    ("the record of the copy is not JSON", |files| fs::write(record(&files.copy), "{").unwrap(), "no good copy"),
    ("the copy was not read back", |files| edit(&record(&files.copy), "/state", "unverified".into()), "no good copy"),
    (
        "the digest is that of other bytes",
        |files| edit(&record(&files.copy), "/sha256", "0".repeat(64).into()),
        "is not what was stored",
    ),
    (
        "the copy is zeros",
        |files| {
            let size = fs::metadata(&files.copy).unwrap().len();
            fs::write(&files.copy, vec![0; usize::try_from(size).unwrap()]).unwrap();
        },
        "",
    ),
    (
        "the copy lacks writes that its record names",
        |files| {
            let end: Value = serde_json::from_slice(&fs::read(&files.end).unwrap()).unwrap();
            let has = end["has"].as_str().unwrap();
            let more = format!("{}900000", has.trim_end_matches(|c: char| c.is_ascii_digit()));
            edit(&record(&files.copy), "/position", more.into());
        },
        "and the restored data only",
    ),
    ("a bit of a log is flipped", |files| alter(&files.logs[1]), "is not what was stored"),
    ("the end of a log is missing", |files| cut(&files.logs[1], 40), "is not what was stored"),
    ("a log is missing", |files| fs::remove_file(&files.logs[1]).unwrap(), "is gone"),
    (
        "a log and its record are missing",
        |files| {
            fs::remove_file(&files.logs[1]).unwrap();
            fs::remove_file(record(&files.logs[1])).unwrap();
        },
        "gap",
    ),
    (
        "two logs are exchanged",
        |files| {
            let (first, second) = (fs::read(&files.logs[1]).unwrap(), fs::read(&files.logs[2]).unwrap());
            fs::write(&files.logs[1], second).unwrap();
            fs::write(&files.logs[2], first).unwrap();
        },
        "",
    ),
    (
        "the last log is missing",
        |files| {
            let last = files.logs.last().unwrap();
            fs::remove_file(last).unwrap();
            fs::remove_file(record(last)).unwrap();
        },
        "gap",
    ),
    ("the archive does not say where it ends", |files| fs::remove_file(&files.end).unwrap(), "no archive"),
    (
        "nothing is stored",
        |files| {
            for path in fs::read_dir(files.copy.parent().unwrap()).unwrap().flatten() {
                fs::remove_file(path.path()).unwrap();
            }
        },
        "no good copy",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_drill_passes_where_a_restore_succeeds_and_finds_each_of_25_harms() {
    let cluster = DatabaseCluster::with_primary(1).await;
    fill(&cluster, 16).await;
    let shelf = Shelf::of(&cluster);
    let writers = Writers::start(&cluster.members, 2).await;
    writers.more(50).await;
    shelf.copy(&[]).await;
    for _ in 0..3 {
        writers.more(50).await;
        shelf.archive().await;
    }
    writers.stop().await;
    shelf.archive().await;
    let safe = shelf.folder.with_file_name("safe");
    let copied = |from: &Path, to: &Path| {
        let _ = fs::remove_dir_all(to);
        assert!(Command::new("cp").arg("-r").args([from, to]).status().unwrap().success());
    };
    copied(&shelf.folder, &safe);
    let mut pod = DatabaseCluster::new(1);
    pod.member(0).environment = vec![("DATA", cluster.data.clone())];
    let sender = shelf.sender(&["--until=end"]);
    let drill = async |pod: &DatabaseCluster, rows: &[&str], sender: &[String]| {
        let done = restore(&pod.members[0], &[&["--check"], rows].concat(), sender).await;
        let left = fs::read_dir(pod.members[0].folder.join("v")).unwrap().flatten().map(|entry| entry.file_name());
        let left: Vec<_> = left.filter(|name| ["data", "arriving", "copying"].iter().any(|own| name == own)).collect();
        assert!(left.is_empty(), "{left:?}");
        done
    };
    let done = drill(&pod, &ROWS, &sender).await.unwrap_or_else(|why| panic!("{why}"));
    eprintln!("{done}");
    assert_eq!((&done["rows"], done["data"].is_null()), (&2.into(), true));
    assert!(
        done["replayed"].as_u64() > Some(100) && done["tables"].as_u64() > Some(20) && done["until"].is_string(),
        "{done}"
    );

    let mut found = 0;
    let mut finds = |name: &str, done: Result<Value, String>, expected: &str| {
        let why = done.expect_err(name);
        eprintln!("{name}: {}", why.trim().lines().last().unwrap_or_default());
        assert!(why.contains(expected), "{name}: {why}");
        found += 1;
    };
    for (name, harm, expected) in HARMS {
        copied(&safe, &shelf.folder);
        harm(&Files::of(&shelf, &cluster.data));
        finds(name, drill(&pod, &ROWS, &sender).await, expected);
    }
    for (name, version, expected) in [
        ("the copy is of a later version", if is_mysql() { "9.99.1" } else { "99.1.1-MariaDB" }, "which is newer than"),
        (
            "the copy is of the other database",
            if is_mysql() { "10.11.19-MariaDB" } else { "9.7.4" },
            "and the database here is",
        ),
    ] {
        copied(&safe, &shelf.folder);
        edit(&record(&Files::of(&shelf, &cluster.data).copy), "/headers/tillerman-version", version.into());
        finds(name, drill(&pod, &ROWS, &sender).await, expected);
    }
    copied(&safe, &shelf.folder);
    for (row, expected) in [
        ("--check-row=SELECT 1 FROM app.t WHERE id < 0", "check 1 returns no row"),
        ("--check-row=SELECT 1 FROM app.invoices LIMIT 1", "check 1: error 1146"),
    ] {
        finds(row, drill(&pod, &[row], &sender).await, expected);
    }
    let mut other = DatabaseCluster::new(1);
    other.member(0).environment = vec![("DATA", "other".into())];
    finds("the copy is of another cluster", drill(&other, &ROWS, &sender).await, "is of another cluster's data");
    let absent = vec![shelf.folder.join("absent").display().to_string()];
    finds("the program that sends is missing", drill(&pod, &ROWS, &absent).await, "cannot be started");
    let mut small = DatabaseCluster::new(1);
    small.member(0).environment = vec![("DATA", cluster.data.clone())];
    let disk = Disk::new(small.members[0].folder.join("v"), 60);
    finds("the volume is too small", drill(&small, &ROWS, &sender).await, "");
    drop(disk);
    let gateway = Gateway::start(&cluster.folder());
    let mut locked = Shelf::of(&cluster);
    locked.store = vec!["--store=s3://bucket/shop".to_owned(), format!("--s3-endpoint=http://127.0.0.1:{}", gateway.1)];
    pod.member(0)
        .environment
        .extend([("AWS_ACCESS_KEY_ID", "the-key".to_owned()), ("AWS_SECRET_ACCESS_KEY", "old".to_owned())]);
    finds("the key of the storage is an old one", drill(&pod, &ROWS, &locked.sender(&[])).await, "");
    assert_eq!(found, 25);
}
