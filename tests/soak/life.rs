//! A life: the time from one world of all slots to its end, and what a slot has afterwards.
//!
//! A life begins with acts of the lasting slots on their own world, while the others wait for them; then all create a
//! world and act on it. A life of war ends with the death of a slot in the midst of things, which a new process replaces
//! in the next life; another one ends with the world.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use collect::config::Timeout;
use collect::store::FileStore;
use collect::{Call, CallOptions, Datatype, Target, World, WorldOptions};

use crate::figures::Notes;
use crate::reference::calls::barrier;
use crate::reference::values::mix;
use crate::{LASTING, SLOTS, acts, ranks, war};

/// Acts in a life, on the world of all slots and on that of the lasting ones.
const ACTS: u64 = 6;
const LASTING_ACTS: u64 = 6;

/// Numbers that look random, the same on all slots that throw as often.
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64, purpose: u64) -> Self {
        Self(mix(seed ^ mix(purpose)))
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = mix(self.0);
        (self.0 >> 16) % limit
    }

    pub(crate) fn index(&mut self, limit: usize) -> usize {
        usize::try_from(self.below(limit as u64)).unwrap()
    }
}

/// Lives until slot 0 says that the time is over.
pub(crate) fn live(duration: Duration) {
    let (slot, folder, begin) = (ranks::rank(), ranks::folder(), Instant::now());
    let mut notes = Notes::open(&folder, slot);
    let first = reached(&folder)[slot].map_or(0, |life| life + 1);
    let lasting = (slot < LASTING).then(|| {
        let store = FileStore::open(folder.join("lasting")).unwrap();
        World::create(&store, slot, LASTING, &named("lasting")).unwrap()
    });
    for life in first.. {
        fs::write(folder.join(format!("life.{slot}")), life.to_string()).unwrap();
        if let Some(world) = &lasting {
            let mut dice = Dice::new(life, 1);
            (0..LASTING_ACTS).for_each(|_| acts::any(world, &mut dice, None));
        }
        let store = folder.join(format!("store.{life}"));
        let is_last = pass(life, slot, &store, begin.elapsed() >= duration, &mut notes);
        notes.sample(life);
        if slot == 0 && life > 0 {
            fs::remove_dir_all(folder.join(format!("store.{}", life - 1))).unwrap();
        }
        if is_last {
            break;
        }
    }
    // The end of a link would be seen in the other slot's figures.
    lasting.iter().for_each(|world| barrier(world).unwrap());
}

/// The options of a world of this test.
pub(crate) fn named(name: &str) -> WorldOptions {
    WorldOptions { name: name.into(), ..ranks::options() }
}

/// One life, without what is before and after it. Whether it is the last.
fn pass(life: u64, slot: usize, store: &Path, is_late: bool, notes: &mut Notes) -> bool {
    // So that every slot dies with every rank, and each has links to others than before.
    let rank = (slot + life as usize) % SLOTS;
    let store = FileStore::open(store).unwrap();
    let options = WorldOptions { checksum: life % 3 == 2, ..named("all") };
    let world = World::create(&store, rank, SLOTS, &options).unwrap();
    let rank_of = |slot: usize| (slot + life as usize) % SLOTS;
    let is_last = told(&world, rank_of(0), is_late);
    let mut dice = Dice::new(life, 2);
    for _ in 0..ACTS {
        acts::any(&world, &mut dice, Some(&store));
    }
    if !is_last && life % 2 == 1 {
        let victim = LASTING + (life / 2) as usize % (SLOTS - LASTING);
        war::wage(&world, &mut dice, &store, rank_of(victim), notes);
    }
    is_last
}

/// What the root says.
fn told(world: &World, root: usize, word: bool) -> bool {
    let mut word = [u64::from(word)];
    let call = Call::Broadcast { buffer: Target::of(&mut word), datatype: Datatype::U64, root };
    world.run(&call, &CallOptions::default()).unwrap();
    word == [1]
}

/// An operation that is given so long.
pub(crate) fn within(limit: Duration) -> CallOptions {
    CallOptions { timeout: Timeout::After(limit), ..CallOptions::default() }
}

/// The life that each slot has reached.
pub(crate) fn reached(folder: &Path) -> [Option<u64>; SLOTS] {
    let read = |slot: usize| fs::read_to_string(folder.join(format!("life.{slot}"))).ok();
    std::array::from_fn(|slot| read(slot).and_then(|text| text.parse().ok()))
}
