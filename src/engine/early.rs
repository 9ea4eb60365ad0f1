//! Frames that came before their operation was called, or before their slice began.
//!
//! How many come early is a matter of timing, so all of an endpoint's stand in one vector, whose places are used again:
//! once it is as long as the most that ever waited, nothing allocates.
#![forbid(unsafe_code)]

use super::name::{Name, Table};
use crate::link::frame::Header;

/// Frames, and operations with such frames, for which there is room from the start.
const PLACES: usize = 512;

/// No place.
const NONE: u32 = u32::MAX;

/// A frame that waits.
#[derive(Debug)]
pub(super) struct Early {
    pub(super) peer: usize,
    pub(super) header: Header,
    pub(super) payload: Vec<u8>,
}

/// A place, and the one after it in its list.
#[derive(Debug)]
struct Place {
    early: Option<Early>,
    next: u32,
}

/// Frames in the order in which they came: the places of the first and the last one.
#[derive(Debug)]
pub(super) struct List {
    first: u32,
    last: u32,
}

/// Frames that wait, by world and operation.
#[derive(Debug)]
pub(super) struct Waitlist {
    lists: Table<(u64, Name), List>,
    places: Vec<Place>,
    /// The first empty place; the others follow it.
    empty: u32,
}

impl Waitlist {
    pub(super) fn new() -> Self {
        let mut lists = Table::default();
        lists.reserve(PLACES);
        Self { lists, places: Vec::with_capacity(PLACES), empty: NONE }
    }

    /// Keeps a frame behind those of its operation.
    pub(super) fn keep(&mut self, world: u64, name: Name, early: Early) {
        let place = self.place(early);
        match self.lists.get_mut(&(world, name)) {
            Some(list) => {
                self.places[list.last as usize].next = place;
                list.last = place;
            }
            None => {
                self.lists.insert((world, name), List { first: place, last: place });
            }
        }
    }

    fn place(&mut self, early: Early) -> u32 {
        if let Some(place) = self.places.get_mut(self.empty as usize) {
            let at = self.empty;
            self.empty = place.next;
            *place = Place { early: Some(early), next: NONE };
            return at;
        }
        self.places.push(Place { early: Some(early), next: NONE });
        u32::try_from(self.places.len() - 1).unwrap_or(NONE)
    }

    /// All that waits for one operation, to be taken out by [`Waitlist::next`]: what is kept since is another list.
    pub(super) fn take(&mut self, world: u64, name: &Name) -> Option<List> {
        self.lists.remove(&(world, *name))
    }

    /// Takes the first frame out of a list.
    pub(super) fn next(&mut self, list: &mut List) -> Option<Early> {
        let place = self.places.get_mut(list.first as usize)?;
        let early = place.early.take();
        let at = std::mem::replace(&mut list.first, place.next);
        place.next = std::mem::replace(&mut self.empty, at);
        early
    }

    /// An operation of a world for which something waits.
    pub(super) fn any_of(&self, world: u64) -> Option<Name> {
        self.lists.keys().find(|(of, _)| *of == world).map(|(_, name)| *name)
    }

    /// All that waits in a world.
    #[cfg(test)]
    pub(super) fn iter(&self, world: u64) -> impl Iterator<Item = &Early> {
        let mut frames = Vec::new();
        for (_, list) in self.lists.iter().filter(|((of, _), _)| *of == world) {
            let mut at = list.first;
            while let Some(place) = self.places.get(at as usize) {
                frames.extend(&place.early);
                at = place.next;
            }
        }
        frames.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::frame::{Class, Kind};

    fn early(peer: usize) -> Early {
        Early { peer, header: Header::control(Kind::Waiting, 0), payload: Vec::new() }
    }

    #[test]
    fn frames_of_an_operation_come_back_in_order_and_their_places_are_used_again() {
        let mut waiting = Waitlist::new();
        let names = [1, 2].map(|number| Name::numbered(Class::Ordered, number));
        for round in 0..3 {
            for peer in 0..10 {
                waiting.keep(7, names[peer % 2], early(round + peer));
            }
            assert_eq!(waiting.iter(7).count(), 10);
            for (at, name) in names.iter().enumerate() {
                let mut list = waiting.take(7, name).unwrap();
                let taken: Vec<usize> =
                    std::iter::from_fn(|| waiting.next(&mut list).map(|early| early.peer))
                        .collect();
                let right: Vec<usize> = (0..5).map(|k| round + 2 * k + at).collect();
                assert_eq!(taken, right);
            }
            assert_eq!((waiting.places.len(), waiting.any_of(7)), (10, None));
        }
    }
}
