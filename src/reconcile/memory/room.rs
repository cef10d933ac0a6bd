//! The memory that large release records take at one time.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::bounds;
use crate::reconcile::error::Error;

/// Bytes of an unpacked record from which on it takes room.
const LARGE: usize = 1 << 20;
/// Bytes of the large records that all passes hold at one time. The largest one that can be read takes all of it.
const ROOM: usize = bounds::CHUNKS.bytes;
const KIB: usize = 1 << 10;

/// The room for large records. Everybody who can write Secrets in a namespace can make one for each of their releases.
pub struct Room(Arc<Semaphore>);

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ROOM / KIB)))
    }
}

impl Room {
    /// Takes room for a record. A pass does not wait for it, because it can hold room for another record.
    pub fn take(&self, bytes: usize) -> Result<Option<OwnedSemaphorePermit>, Error> {
        if bytes < LARGE {
            return Ok(None);
        }
        let room = u32::try_from(bytes.min(ROOM).div_ceil(KIB)).unwrap_or(u32::MAX);
        let taken = Arc::clone(&self.0).try_acquire_many_owned(room);
        let busy = |_| {
            Error::Busy(
                "large release records use all the memory that they are allowed; the operator tries again".into(),
            )
        };
        taken.map(Some).map_err(busy)
    }
}

#[cfg(test)]
mod tests {
    use super::{LARGE, ROOM, Room};
    use crate::reconcile::error::Error;

    #[test]
    fn large_records_have_room_one_after_the_other() {
        let room = Room::default();
        assert!(room.take(LARGE - 1).unwrap().is_none());
        let first = room.take(ROOM).unwrap();
        assert!(matches!(room.take(LARGE), Err(Error::Busy(_))));
        assert!(room.take(LARGE - 1).is_ok(), "small ones go on");
        drop(first);
        let halves = [room.take(ROOM / 2).unwrap(), room.take(ROOM / 2).unwrap()];
        assert!(room.take(LARGE).is_err());
        drop(halves);
        assert!(room.take(usize::MAX).is_ok_and(|taken| taken.is_some()));
    }
}
