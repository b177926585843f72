//! What can go wrong, and how it reads.

use crate::types::CompactError;

/// Why a call did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The backend refused or failed, and said why.
    #[error("{0}")]
    Compact(CompactError),
    /// The backend could not be loaded, or broke in the middle of a call. The
    /// session is whole; the next call starts a new instance.
    #[error("the compaction backend cannot be used: {0:#}")]
    Backend(wasmtime::Error),
}

impl From<CompactError> for Error {
    fn from(error: CompactError) -> Self {
        Self::Compact(error)
    }
}
