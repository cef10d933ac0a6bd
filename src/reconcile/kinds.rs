//! The kinds of custom resources that the operator serves, by their numbers.

use std::sync::{Arc, PoisonError, RwLock};

use super::charts::Served;

/// The kinds. One that was added stays, so that its number means the same while the operator runs.
#[derive(Default)]
pub struct Kinds(RwLock<Vec<Arc<Served>>>);

impl Kinds {
    /// Adds a kind; its number, from 0.
    pub fn add(&self, served: Served) -> usize {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.push(Arc::new(served));
        all.len() - 1
    }

    /// Puts a kind in the place of one of the same group, version and kind.
    pub fn replace(&self, kind: usize, served: Served) {
        self.0.write().unwrap_or_else(PoisonError::into_inner)[kind] = Arc::new(served);
    }

    /// The kind with a number that [`Kinds::add`] gave.
    ///
    /// # Panics
    /// If there is none: numbers are made by [`Kinds::add`] alone.
    pub fn get(&self, kind: usize) -> Arc<Served> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)[kind])
    }

    /// All kinds, in the order of their numbers.
    pub fn all(&self) -> Vec<Arc<Served>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}
