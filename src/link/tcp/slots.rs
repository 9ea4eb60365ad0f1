//! A table of connections under way, whose indices serve as epoll tokens.
#![forbid(unsafe_code)]

/// Values at stable indices; a freed index is used again.
#[derive(Debug)]
pub struct Slots<T> {
    entries: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// Stores a value, and returns its index.
    pub fn insert(&mut self, value: T) -> usize {
        if let Some(index) = self.free.pop() {
            self.entries[index] = Some(value);
            return index;
        }
        self.entries.push(Some(value));
        self.entries.len() - 1
    }

    /// The value there, if any.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&T> {
        self.entries.get(index)?.as_ref()
    }

    /// The value there, if any.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.entries.get_mut(index)?.as_mut()
    }

    /// Takes the value out.
    pub fn remove(&mut self, index: usize) -> Option<T> {
        let value = self.entries.get_mut(index)?.take()?;
        self.free.push(index);
        Some(value)
    }

    /// All values with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(|(index, entry)| Some((index, entry.as_ref()?)))
    }

    /// The lowest index whose value passes.
    pub fn find(&self, passes: impl Fn(&T) -> bool) -> Option<usize> {
        self.iter().find(|(_, value)| passes(value)).map(|(index, _)| index)
    }
}
