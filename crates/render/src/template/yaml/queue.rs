//! A queue that is nearly always short, and often empty.

/// How many taken items are kept before the others are moved to the front.
const SLACK: usize = 64;

pub(super) struct Queue<T> {
    items: Vec<T>,
    /// How many of the items are taken.
    taken: usize,
}

impl<T: Default> Queue<T> {
    pub fn with_capacity(capacity: usize) -> Self {
        Self { items: Vec::with_capacity(capacity), taken: 0 }
    }

    pub fn len(&self) -> usize {
        self.items.len() - self.taken
    }

    pub fn is_empty(&self) -> bool {
        self.items.len() == self.taken
    }

    pub fn front(&self) -> Option<&T> {
        self.items.get(self.taken)
    }

    #[inline]
    pub fn push(&mut self, item: T) {
        self.items.push(item);
    }

    /// Puts an item in front of the one with this place.
    pub fn insert(&mut self, place: usize, item: T) {
        self.items.insert(self.taken + place, item);
    }

    /// Takes the first item; the default if there is none.
    #[inline]
    pub fn pop(&mut self) -> T {
        let Some(item) = self.items.get_mut(self.taken).map(std::mem::take) else { return T::default() };
        self.taken += 1;
        if self.is_empty() {
            self.items.clear();
            self.taken = 0;
        } else if self.taken >= SLACK && self.taken >= self.len() {
            self.items.drain(..self.taken);
            self.taken = 0;
        }
        item
    }
}
