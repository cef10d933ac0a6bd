//! Backups of etcd, with real members of etcd 3.5 and 3.6, their etcdutl, and servers that speak as S3, Azure's and Google's storage do.

mod clouds;
mod damage;
mod drill;
mod etcd;
mod google;
mod program;
mod proxy;
mod restore;
mod round;
mod s3;
mod secrets;
