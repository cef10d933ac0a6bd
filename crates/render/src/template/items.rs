//! The elements of a Go slice, and the array that they are a part of.
//!
//! Go lets a slice be sliced beyond its length, up to the end of its array: the size of the room follows from the way
//! the slice was made ([`Room`]), and its content is zero, or the elements of the slice of which this one is a part.

use super::value::{Elem, List, Map, MapType, Str, Value, Waste, drop_later};
use std::cell::OnceCell;
use std::rc::Rc;

/// The elements of a slice, shared. A `[]uint8` holds its bytes, and makes elements of them only for those who ask for
/// elements.
#[derive(Clone, Default)]
pub struct Items(Rc<Elements>);

#[derive(Default)]
struct Elements {
    bytes: Option<Str>,
    values: OnceCell<Vec<Value>>,
    room: Room,
    rare: OnceCell<Box<Rare>>,
}

/// The rare kinds of slices.
enum Rare {
    /// A part of another slice's array.
    Part { of: Items, from: usize, length: usize },
    /// An array that has changed since it was made.
    Changed(Order),
}

/// The elements of an array after a change, and after the next.
struct Order {
    values: Vec<Value>,
    next: OnceCell<Box<Order>>,
}

impl Order {
    fn last(&self) -> &Self {
        let mut order = self;
        while let Some(next) = order.next.get() {
            order = next;
        }
        order
    }
}

impl Drop for Order {
    fn drop(&mut self) {
        let mut next = self.next.take();
        while let Some(mut order) = next {
            next = order.next.take();
        }
    }
}

/// How a slice was made, which decides how many elements its array has room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Room {
    /// For the elements only.
    #[default]
    Exact,
    /// One element after the other was added to an empty slice with room for so many.
    Grown(usize),
    /// The elements behind the first so many were added at once to a slice without room.
    Added(usize),
    /// For so many.
    For(usize),
}

impl Room {
    /// Go's `cap`.
    fn capacity(self, length: usize, elem: Elem) -> usize {
        match self {
            Self::Grown(start) => {
                let mut capacity = start;
                while capacity < length {
                    capacity = grow(capacity, capacity + 1, elem);
                }
                capacity
            }
            Self::Added(first) if first < length => grow(first, length, elem),
            Self::Exact | Self::Added(_) => length,
            Self::For(capacity) => capacity.max(length),
        }
    }
}

/// The sizes of Go's small allocations, in bytes (`internal/runtime/gc/sizeclasses.go`).
const SIZES: [usize; 67] = [
    8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 288, 320, 352, 384, 416, 448, 480,
    512, 576, 640, 704, 768, 896, 1024, 1152, 1280, 1408, 1536, 1792, 2048, 2304, 2688, 3072, 3200, 3456, 4096, 4864,
    5376, 6144, 6528, 6784, 6912, 8192, 9472, 9728, 10240, 10880, 12288, 13568, 14336, 16384, 18432, 19072, 20480,
    21760, 24576, 27264, 28672, 32768,
];

/// The room of a larger array, as Go's `append` takes it (`growslice`, and `roundupsize` of the allocator).
fn grow(capacity: usize, wanted: usize, elem: Elem) -> usize {
    const PAGE: usize = 8192;
    const HEADER: usize = 8;
    const LARGEST: usize = 32768;
    let (size, has_pointers) = match elem {
        Elem::Any | Elem::Str => (16, true),
        Elem::Int => (8, false),
        Elem::Byte => (1, false),
        Elem::Object(name) => (if name.starts_with("[]") { 24 } else { 8 }, true),
    };
    let count = match capacity {
        _ if wanted > 2 * capacity => wanted,
        0..256 => 2 * capacity,
        _ => {
            let mut count = capacity;
            while count < wanted {
                count += (count + 3 * 256) / 4;
            }
            count
        }
    };
    let bytes = count.saturating_mul(size);
    let header = if has_pointers && bytes > 512 { HEADER } else { 0 };
    let given = if bytes > LARGEST - HEADER {
        bytes.div_ceil(PAGE) * PAGE
    } else {
        SIZES.iter().find(|&&class| class >= bytes + header).map_or(bytes, |class| class - header)
    };
    given / size
}

/// The zero of a slice's elements.
fn zero(elem: Elem) -> Value {
    match elem {
        Elem::Str => Value::str(""),
        Elem::Int => Value::int(0),
        Elem::Object("map[string]interface {}") => Value::Map(Map::nil(MapType::Any)),
        Elem::Object("[]interface {}") => Value::List(List::nil(Elem::Any)),
        Elem::Any | Elem::Byte | Elem::Object(_) => Value::Nil,
    }
}

impl Items {
    fn new(bytes: Option<Str>, values: OnceCell<Vec<Value>>, room: Room, rare: OnceCell<Box<Rare>>) -> Self {
        Self(Rc::new(Elements { bytes, values, room, rare }))
    }
    /// The elements of a `[]uint8`.
    pub fn of_bytes(bytes: impl Into<Str>) -> Self {
        Self::new(Some(bytes.into()), OnceCell::new(), Room::Exact, OnceCell::new())
    }
    /// Elements in an array with room for more.
    pub fn with_room(values: Vec<Value>, room: Room) -> Self {
        Self::new(None, OnceCell::from(values), room, OnceCell::new())
    }
    /// A copy with as much room, whose elements are these.
    #[must_use]
    pub fn copied(&self, elem: Elem, values: Vec<Value>) -> Self {
        let room = match self.0.rare.get().map(|rare| &**rare) {
            Some(Rare::Part { .. }) => Room::For(self.capacity(elem)),
            _ => self.0.room,
        };
        Self::with_room(values, room)
    }
    /// The bytes, if it was made of them.
    pub fn bytes(&self) -> Option<&Str> {
        self.0.bytes.as_ref()
    }
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.0.bytes.as_ref().map_or_else(|| self.values().len(), Str::len)
    }
    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Go's `cap`: up to where the slice can be sliced.
    pub fn capacity(&self, elem: Elem) -> usize {
        match self.0.rare.get().map(|rare| &**rare) {
            Some(Rare::Part { of, from, .. }) => of.capacity(elem).saturating_sub(*from),
            _ => self.0.room.capacity(self.len(), elem),
        }
    }
    /// Go's `slice[from:to]`, which reaches up to the capacity and shares the array; `None` beyond it.
    pub fn part(&self, elem: Elem, from: usize, to: usize) -> Option<Self> {
        if from > to || to > self.capacity(elem) {
            return None;
        }
        if let Some(bytes) = self.bytes() {
            return Some(Self::of_bytes(bytes.bytes().get(from..to)?));
        }
        let (whole, start) = self.place();
        let (from, to) = (start + from, start + to);
        if to > whole.array().len() {
            let mut values = whole.array().to_vec();
            values.resize(to, zero(elem));
            whole.change(values);
        }
        let part = Rare::Part { of: whole.clone(), from, length: to - from };
        Some(Self::new(None, OnceCell::new(), Room::Exact, OnceCell::from(Box::new(part))))
    }
    /// The slice whose array it shares, and where in it it starts.
    fn place(&self) -> (&Self, usize) {
        match self.0.rare.get().map(|rare| &**rare) {
            Some(Rare::Part { of, from, .. }) => (of, *from),
            _ => (self, 0),
        }
    }
    /// Number of elements of the array that it is a part of, which [`Self::sort`] copies.
    pub fn array_len(&self) -> usize {
        self.place().0.array().len()
    }
    /// Sorts strings in place: every holder of the slice or of parts of its array sees it.
    pub fn sort(&self) {
        let text = |value: &Value| if let Value::Str(s) = value { s.clone() } else { "".into() };
        if self.is_sorted_by_key(text) {
            return;
        }
        let (whole, from) = self.place();
        let mut values = whole.array().to_vec();
        values[from..from + self.len()].sort_by_cached_key(text);
        whole.change(values);
    }
    /// Replaces the elements of the array. Elements that were handed out before stay as they are.
    fn change(&self, values: Vec<Value>) {
        let new = Order { values, next: OnceCell::new() };
        match self.0.rare.get().map(|rare| &**rare) {
            None => drop(self.0.rare.set(Box::new(Rare::Changed(new)))),
            Some(Rare::Changed(order)) => drop(order.last().next.set(Box::new(new))),
            // A part is never a part of a part.
            Some(Rare::Part { .. }) => {}
        }
    }
    /// Whether two are the same in memory.
    pub fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
    /// Whether nobody else holds it.
    pub(super) fn is_unshared(&self) -> bool {
        Rc::strong_count(&self.0) == 1
    }
    /// Adds an element, on a copy if others share the slice. For code that builds a slice.
    pub fn push(&mut self, value: Value) {
        let room = self.0.room;
        let mut values = match Rc::get_mut(&mut self.0) {
            Some(own) if own.bytes.is_none() && own.rare.get().is_none() => own.values.take().unwrap_or_default(),
            _ => self.to_vec(),
        };
        values.push(value);
        *self = Self::with_room(values, room);
    }
    fn values(&self) -> &[Value] {
        match self.0.rare.get().map(|rare| &**rare) {
            None => self.made(),
            Some(Rare::Part { of, from, length }) => of.array().get(*from..from + length).unwrap_or_default(),
            Some(Rare::Changed(order)) => &order.last().values[..self.made().len()],
        }
    }
    /// The elements that it was made with.
    fn made(&self) -> &[Value] {
        self.0.values.get_or_init(|| {
            let bytes = self.0.bytes.as_ref().map_or(&[][..], |s| s.bytes());
            bytes.iter().map(|b| Value::Int(super::value::IntType::Uint8, i64::from(*b))).collect()
        })
    }
    /// The elements, and those after them that were requested.
    fn array(&self) -> &[Value] {
        match self.0.rare.get().map(|rare| &**rare) {
            Some(Rare::Changed(order)) => &order.last().values,
            _ => self.values(),
        }
    }
}

impl std::ops::Deref for Items {
    type Target = [Value];
    fn deref(&self) -> &[Value] {
        self.values()
    }
}

impl From<Vec<Value>> for Items {
    fn from(values: Vec<Value>) -> Self {
        Self::with_room(values, Room::Exact)
    }
}

impl FromIterator<Value> for Items {
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> Self {
        Vec::from_iter(values).into()
    }
}

impl Drop for Elements {
    fn drop(&mut self) {
        if let Some(values) = self.values.take() {
            drop_later(Waste::List(values));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Elem, Items, Room};
    use crate::template::value::Value;

    #[test]
    fn the_room_of_a_slice_is_what_helm_was_seen_to_have() {
        // (length, room) of lists that Helm 4.3.1 let be sliced so far and no further.
        let grown = [(1, 1), (3, 4), (5, 8), (9, 16), (17, 32), (32, 32), (33, 71), (40, 71)];
        let ints = [(1, 1), (3, 4), (5, 8), (17, 32), (33, 64), (40, 64)];
        let appended = [(1, 1), (2, 2), (3, 4), (4, 6), (13, 24), (16, 30), (20, 39), (32, 63), (33, 71), (40, 79)];
        let prepended = [(1, 1), (2, 2), (16, 16), (17, 18), (33, 35), (40, 43)];
        let found = [(1, 10), (10, 10), (11, 20), (20, 20), (32, 43), (40, 43)];
        for (length, room) in grown {
            assert_eq!(Room::Grown(0).capacity(length, Elem::Any), room, "{length}");
        }
        for (length, room) in ints {
            assert_eq!(Room::Grown(0).capacity(length, Elem::Int), room, "{length}");
        }
        for (length, room) in appended {
            assert_eq!(Room::Added(length - 1).capacity(length, Elem::Any), room, "{length}");
        }
        for (length, room) in prepended {
            assert_eq!(Room::Added(1).capacity(length, Elem::Any), room, "{length}");
        }
        for (length, room) in found {
            assert_eq!(Room::Grown(10).capacity(length, Elem::Str), room, "{length}");
        }
    }

    fn shown(items: &Items) -> String {
        items.iter().map(|item| if let Value::Str(s) = item { s.text().into_owned() } else { "?".into() }).collect()
    }

    #[test]
    fn a_part_reaches_to_the_end_of_the_array_and_is_sorted_with_it() {
        let letters = |text: &str| text.chars().map(|c| Value::str(c.to_string())).collect::<Vec<_>>();
        let all = Items::with_room(letters("dcba"), Room::For(6));
        let part = all.part(Elem::Str, 1, 3).expect("it is within");
        assert_eq!((shown(&part).as_str(), part.capacity(Elem::Str)), ("cb", 5));
        assert_eq!(part.part(Elem::Str, 0, 5).map(|beyond| shown(&beyond)).as_deref(), Some("cba"));
        assert!(part.part(Elem::Str, 0, 6).is_none());
        assert_eq!((part.len(), part.array_len()), (2, 6));
        part.sort();
        assert_eq!((shown(&all).as_str(), shown(&part).as_str()), ("dbca", "bc"));
        all.part(Elem::Str, 0, 6).expect("it is within").sort();
        assert_eq!((shown(&all).as_str(), shown(&part).as_str()), ("ab", "a"));
        let all = Items::with_room(letters("dcba"), Room::For(6));
        let part = all.part(Elem::Str, 1, 3).expect("it is within");
        all.sort();
        assert_eq!((shown(&all).as_str(), shown(&part).as_str()), ("abcd", "bc"));
    }
}
