//! Where the pages get their data from. The pages do not know of clusters: they take documents, as commands print them with `-o json`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch::Receiver;

use super::address::{ReleaseName, ReleaseScreen, Subject};

/// Why a page cannot be shown, as a sentence.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct PageError(pub String);

impl From<String> for PageError {
    fn from(sentence: String) -> Self {
        Self(sentence)
    }
}

/// An answer, or why there is none.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, PageError>> + Send + 'a>>;

/// All releases.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    /// Their rows, as `tillerman list -o json` prints them.
    pub rows: Vec<Arc<Value>>,
    /// What a reader must know about the rows, such as kinds that cannot be listed.
    pub notes: Vec<String>,
    /// Their namespace; `None` for all.
    pub namespace: Option<String>,
    /// The number of the last change. [`PageSource::follow`] counts further.
    pub version: u64,
}

/// What a screen of a release shows.
#[derive(Clone, Debug, Default)]
pub struct ReleaseData {
    /// The row of the release, as `tillerman list -o json` prints it.
    pub summary: Value,
    /// The screens that have something to show beside those of every release.
    pub further: Vec<ReleaseScreen>,
    /// The document of the screen.
    pub document: Value,
    /// Notes about the document.
    pub notes: Vec<String>,
    /// The number of the last change of the release.
    pub version: u64,
}

/// What a page about the cluster shows.
#[derive(Clone, Debug, Default)]
pub struct ClusterData {
    /// The document of the page.
    pub document: Value,
    /// Its namespace; `None` for all.
    pub namespace: Option<String>,
    /// The number of the last change that it contains, of a page that is kept up to date.
    pub version: u64,
}

/// Provides the data of the pages. It is read when a page is requested, and only then.
pub trait PageSource: Send + Sync + 'static {
    /// All releases.
    fn fleet(&self) -> Answer<'_, Fleet>;
    /// The document of a screen of a release.
    fn release(&self, name: ReleaseName, screen: ReleaseScreen) -> Answer<'_, ReleaseData>;
    /// The checks of the cluster and of the operator.
    fn operator(&self) -> Answer<'_, ClusterData>;
    /// The roll-outs of charts.
    fn rollouts(&self) -> Answer<'_, ClusterData>;
    /// The numbers of the changes of a subject. Dropping the receiver ends the interest.
    fn follow(&self, subject: Subject) -> Answer<'_, Receiver<u64>>;
}
