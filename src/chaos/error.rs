//! The error of this folder.

/// Why a fault cannot be injected or undone, or its effects cannot be recorded, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ChaosError(String);

macro_rules! sentences {
    ($($cause:ty),+ $(,)?) => {$(
        impl From<$cause> for ChaosError {
            fn from(cause: $cause) -> Self {
                Self(cause.to_string())
            }
        }
    )+};
}
sentences!(
    &str,
    String,
    etcd_client::Error,
    kube::Error,
    serde_json::Error,
    std::num::TryFromIntError,
    tokio::task::JoinError,
);
