//! Ranks as threads that join through a store in memory.

mod silence;

use std::collections::BTreeMap;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::record::Record;
use super::*;
use crate::link::tcp::{MeshOptions, TcpMesh};
use crate::link::{Event, Mesh};

/// A store in memory that counts.
#[derive(Debug, Default)]
struct Memory {
    keys: Mutex<BTreeMap<String, Vec<u8>>>,
    changed: Condvar,
    operations: Mutex<usize>,
    bytes_read: Mutex<usize>,
    /// How long the deletions were allowed to take.
    deletions: Mutex<Vec<Duration>>,
}

impl Memory {
    fn count(&self) {
        *self.operations.lock() += 1;
    }
}

impl Store for Memory {
    fn set(&self, key: &str, value: &[u8], _: Instant) -> Result<(), Error> {
        self.count();
        self.keys.lock().insert(key.into(), value.to_vec());
        self.changed.notify_all();
        Ok(())
    }

    fn get(&self, key: &str, deadline: Instant) -> Result<Vec<u8>, Error> {
        self.count();
        let mut keys = self.keys.lock();
        loop {
            if let Some(value) = keys.get(key) {
                *self.bytes_read.lock() += value.len();
                return Ok(value.clone());
            }
            if self.changed.wait_until(&mut keys, deadline).timed_out() {
                return Err(Error::timed_out(format!("no key \"{key}\"")));
            }
        }
    }

    fn add(&self, _: &str, _: i64, _: Instant) -> Result<i64, Error> {
        Err(Error::Unsupported("not needed here".into()))
    }

    fn compare_and_set(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        desired: &[u8],
        _: Instant,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.count();
        let mut keys = self.keys.lock();
        let held = keys.get(key).cloned();
        if held.as_deref() == expected {
            keys.insert(key.into(), desired.to_vec());
            self.changed.notify_all();
        }
        Ok(held)
    }

    fn delete(&self, key: &str, deadline: Instant) -> Result<bool, Error> {
        self.count();
        self.deletions.lock().push(deadline.saturating_duration_since(Instant::now()));
        Ok(self.keys.lock().remove(key).is_some())
    }

    fn description(&self) -> String {
        "memory store".into()
    }
}

fn options(rank: usize, size: usize) -> JoinOptions {
    JoinOptions {
        name: "train".into(),
        rank,
        size,
        options_hash: [1; 32],
        rules: Rules::default(),
        deadline: Instant::now() + Duration::from_secs(20),
        listen: ListenOptions { address: "127.0.0.1".into(), port: 0 },
        token: Vec::new(),
    }
}

fn within(options: JoinOptions, milliseconds: u64) -> JoinOptions {
    JoinOptions { deadline: Instant::now() + Duration::from_millis(milliseconds), ..options }
}

fn join_all(store: &Memory, all: Vec<JoinOptions>) -> Vec<Result<Joined, Error>> {
    thread::scope(|scope| {
        let threads: Vec<_> =
            all.into_iter().map(|options| scope.spawn(move || join(store, &options))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn errors(results: Vec<Result<Joined, Error>>) -> Vec<String> {
    results.into_iter().map(|result| result.unwrap_err().to_string()).collect()
}

/// Makes meshes of what the ranks took away, and lets each pair exchange a byte.
fn talk(all: Vec<Joined>) {
    let size = all.len();
    thread::scope(|scope| {
        for joined in all {
            scope.spawn(move || {
                let own = joined.identity.rank;
                let Joined { identity, listener, addresses, links, .. } = joined;
                let options = MeshOptions { identity, listener, addresses, links, silence: None };
                let mut mesh = TcpMesh::new(options).unwrap();
                let others: Vec<usize> = (0..size).filter(|&rank| rank != own).collect();
                others.iter().for_each(|&peer| mesh.dial(peer));
                let (mut up, mut events) = (0, Vec::new());
                while up < others.len() {
                    events.clear();
                    mesh.poll(Some(Duration::from_secs(20)), &mut events).unwrap();
                    assert!(!events.iter().any(|event| matches!(event, Event::Down(..))));
                    up += events.iter().filter(|event| matches!(event, Event::Up(_))).count();
                }
                for &peer in &others {
                    assert_eq!(mesh.write(peer, &[IoSlice::new(&[own as u8])]).unwrap(), 1);
                }
                for &peer in &others {
                    let mut byte = [0];
                    while mesh.read(peer, &mut [IoSliceMut::new(&mut byte)]).is_err() {
                        mesh.poll(Some(Duration::from_secs(20)), &mut events).unwrap();
                    }
                    assert_eq!(usize::from(byte[0]), peer);
                }
            });
        }
    });
}

#[test]
fn ranks_join_with_one_store_operation_each() {
    for size in [1, 2, 3, 24] {
        let store = Memory::default();
        let all = join_all(&store, (0..size).map(|rank| options(rank, size)).collect());
        let all: Vec<Joined> = all.into_iter().map(Result::unwrap).collect();
        let operations = *store.operations.lock();
        assert_eq!(operations, if size == 1 { 0 } else { size - 1 + 2 });
        let bytes_each = *store.bytes_read.lock() / (size - 1).max(1);
        assert!(bytes_each < 1024, "{bytes_each} bytes read by each member");
        assert!(store.keys.lock().is_empty());
        assert!(all.iter().all(|joined| joined.world_id() == all[0].world_id()));
        assert!(all.iter().all(|joined| joined.identity.key == all[0].identity.key));
        for (rank, joined) in all.iter().enumerate() {
            assert_eq!(joined.links.len(), if rank == 0 { size - 1 } else { 1 });
            assert_eq!(
                (joined.hosts.local_rank(rank), joined.hosts.local_size(rank)),
                (rank, size)
            );
        }
        if size <= 3 {
            talk(all);
        }
    }
}

#[test]
fn ranks_join_over_ipv6_and_over_every_address() {
    for address in ["::1", ""] {
        if std::net::TcpListener::bind("[::1]:0").is_err() && address == "::1" {
            eprintln!("skipped: this host has no IPv6");
            continue;
        }
        let store = Memory::default();
        let listen = ListenOptions { address: address.into(), port: 0 };
        let all = (0..3).map(|rank| JoinOptions { listen: listen.clone(), ..options(rank, 3) });
        talk(join_all(&store, all.collect()).into_iter().map(Result::unwrap).collect());
    }
}

#[test]
fn missing_ranks_are_named_on_every_rank_that_came() {
    let store = Memory::default();
    let all = [0, 1, 4].map(|rank| within(options(rank, 6), 600)).to_vec();
    for error in errors(join_all(&store, all)) {
        assert!(error.contains("3 of 6 ranks have not come"), "{error}");
        assert!(error.contains(": 2, 3, 5;"), "{error}");
    }
    assert!(store.keys.lock().is_empty(), "a failed run leaves its record");
}

#[test]
fn a_member_without_rank_0_says_so() {
    let store = Memory::default();
    let error = errors(join_all(&store, vec![within(options(1, 2), 100)])).remove(0);
    assert!(error.contains("waited for rank 0") && error.contains("memory store"), "{error}");
}

#[test]
fn ranks_that_disagree_hear_of_both_sides() {
    for (stranger, text) in [
        (options(2, 5), "rank 2 says that it has 5 ranks, rank 0 says 3"),
        (options(4, 5), "rank 4 says that it has 5 ranks, rank 0 says 3"),
        (JoinOptions { options_hash: [2; 32], ..options(2, 3) }, "hash 02020202"),
    ] {
        let store = Memory::default();
        let all = vec![options(0, 3), options(1, 3), stranger];
        for error in join_all(&store, all).into_iter().map(Result::unwrap_err) {
            assert!(matches!(&error, Error::Mismatch(told) if told.contains(text)), "{error}");
        }
    }
}

/// Rules called `source`, which rank 0 gives to all.
fn rules(hash: u64, source: &str, text: &str) -> Rules {
    Rules { hash, source: source.into(), text: text.into() }
}

#[test]
fn rank_0_gives_its_rules_to_all() {
    let first = || JoinOptions { rules: rules(7, "a file", "all rules"), ..options(0, 3) };
    let same = || JoinOptions { rules: rules(7, "the options", ""), ..options(2, 3) };
    let store = Memory::default();
    let joined = join_all(&store, vec![first(), options(1, 3), same()]);
    let exchanged = exchange_all(vec![first(), options(1, 3), same()]);
    for joined in joined.into_iter().chain(exchanged) {
        assert_eq!(joined.unwrap().rules, "all rules");
    }
    let other = || JoinOptions { rules: rules(8, "the options", ""), ..options(2, 3) };
    let joined = join_all(&store, vec![first(), options(1, 3), other()]);
    let exchanged = exchange_all(vec![first(), options(1, 3), other()]);
    for error in errors(joined.into_iter().chain(exchanged).collect()) {
        let text = "rank 2 chooses algorithms by the options, rank 0 by a file";
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn a_rank_that_comes_twice_is_refused_and_the_first_stays() {
    let store = Memory::default();
    let barrier = Barrier::new(3);
    thread::scope(|scope| {
        let start = |rank| {
            let (store, barrier) = (&store, &barrier);
            scope.spawn(move || {
                let result = join(store, &options(rank, 3));
                if let Err(error) = &result {
                    let told = error.to_string();
                    assert!(told.contains("rank 1 has joined from 127.0.0.1"), "{told}");
                    barrier.wait(); // Only one of the twins comes here, before the last rank starts.
                }
                result
            })
        };
        let all = [start(0), start(1), start(1)];
        scope.spawn(|| barrier.wait());
        barrier.wait();
        let last = start(2).join().unwrap();
        let results: Vec<_> = all.map(|thread| thread.join().unwrap()).into();
        let refused = results.iter().filter(|result| result.is_err()).count();
        assert_eq!(refused, 1);
        let mut joined: Vec<Joined> = results.into_iter().flatten().collect();
        joined.push(last.unwrap());
        talk(joined);
    });
}

fn stale_record(address: SocketAddr) -> Vec<u8> {
    let entry = Entry { host: host_identity(), addresses: vec![address] };
    Record { run: [5; 16], secret: [6; 32], size: 2, entry }.write()
}

#[test]
fn a_stale_record_is_replaced_and_members_wait_for_that() {
    // Nobody there; somebody else there; no record at all.
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let other_address = other.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok((mut stream, _)) = other.accept() {
            let _ = std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let nobody = "127.0.0.1:1".parse().unwrap();
    for stale in
        [stale_record(nobody), stale_record(other_address), b"garbage".to_vec(), Vec::new()]
    {
        let store = Memory::default();
        store.keys.lock().insert("collect/train".into(), stale);
        thread::scope(|scope| {
            let member = scope.spawn(|| join(&store, &options(1, 2)));
            while *store.operations.lock() == 0 {
                std::hint::spin_loop(); // until the member has read the stale record
            }
            let root = join(&store, &options(0, 2)).unwrap();
            talk(vec![root, member.join().unwrap().unwrap()]);
        });
        assert!(store.keys.lock().is_empty());
    }
}

#[test]
fn a_silent_writer_is_taken_for_dead() {
    let silent = Listener::bind(&options(0, 2).listen).unwrap(); // Accepts in the kernel only.
    let store = Memory::default();
    let record = stale_record(silent.addresses().unwrap()[0]);
    store.keys.lock().insert("collect/train".into(), record);
    let all = join_all(&store, vec![options(0, 2), options(1, 2)]);
    talk(all.into_iter().map(Result::unwrap).collect());
}

#[test]
fn a_stale_record_that_nobody_replaces_is_named() {
    let store = Memory::default();
    let record = stale_record("127.0.0.1:1".parse().unwrap());
    store.keys.lock().insert("collect/train".into(), record);
    let error = errors(join_all(&store, vec![within(options(1, 2), 100)])).remove(0);
    assert!(error.contains("stale") && error.contains("127.0.0.1:1"), "{error}");
}

#[test]
fn a_second_run_of_a_living_world_is_refused() {
    let store = Memory::default();
    thread::scope(|scope| {
        let first = scope.spawn(|| join(&store, &options(0, 2)));
        while store.keys.lock().is_empty() {
            std::hint::spin_loop();
        }
        let error = join(&store, &options(0, 2)).unwrap_err();
        let told = matches!(&error, Error::Store(text) if text.contains("already serves a run"));
        assert!(told, "{error}");
        let member = join(&store, &options(1, 2)).unwrap();
        talk(vec![first.join().unwrap().unwrap(), member]);
    });
}

#[test]
fn who_has_another_token_does_not_come_in() {
    let store = Memory::default();
    let stranger = JoinOptions { token: b"guess".to_vec(), ..within(options(1, 2), 400) };
    let all = join_all(&store, vec![within(options(0, 2), 400), stranger]);
    let all = errors(all);
    assert!(all[0].contains("1 of 2 ranks have not come"), "{}", all[0]);
    assert!(all[1].contains("not reached") || all[1].contains("waited"), "{}", all[1]);
}

#[test]
fn strangers_do_not_disturb_a_gathering() {
    let store = Memory::default();
    thread::scope(|scope| {
        let root = scope.spawn(|| join(&store, &options(0, 2)));
        let record = store.get("collect/train", Instant::now() + Duration::from_secs(5)).unwrap();
        let target = Record::read(&record).unwrap().entry.addresses[0];
        let strangers: Vec<_> = (0..300)
            .map(|round: u32| {
                let mut stranger = std::net::TcpStream::connect(target).unwrap();
                if round.is_multiple_of(2) {
                    let _ = std::io::Write::write_all(&mut stranger, &[round as u8; 100]);
                }
                stranger
            })
            .collect();
        let member = join(&store, &options(1, 2)).unwrap();
        talk(vec![root.join().unwrap().unwrap(), member]);
        drop(strangers);
    });
}

/// An allgather among threads.
fn exchange_all(all: Vec<JoinOptions>) -> Vec<Result<Joined, Error>> {
    let (barrier, values) = (Barrier::new(all.len()), Mutex::new(BTreeMap::new()));
    thread::scope(|scope| {
        let run = |options: JoinOptions| {
            let (barrier, values) = (&barrier, &values);
            scope.spawn(move || {
                let mut exchange = |bytes: &[u8]| {
                    values.lock().insert(options.rank, bytes.to_vec());
                    barrier.wait();
                    Ok(values.lock().values().cloned().collect())
                };
                join_with(&mut exchange, &options)
            })
        };
        let threads: Vec<_> = all.into_iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn the_callers_own_allgather_serves_as_well() {
    let all = exchange_all((0..4).map(|rank| options(rank, 4)).collect());
    let all: Vec<Joined> = all.into_iter().map(Result::unwrap).collect();
    assert!(all.iter().all(|joined| joined.links.is_empty()));
    talk(all);
    let differing = JoinOptions { options_hash: [2; 32], ..options(1, 2) };
    for error in errors(exchange_all(vec![options(0, 2), differing])) {
        assert!(error.contains("hash 02020202") && error.contains("hash 01010101"), "{error}");
    }
    let error = join_with(&mut |_| Ok(vec![Vec::new(); 2]), &options(0, 2)).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
}

#[test]
fn bad_arguments_are_the_callers_mistake() {
    let store = Memory::default();
    let nameless = JoinOptions { name: String::new(), ..options(0, 2) };
    for bad in [nameless, options(2, 2), options(0, 0), options(0, SIZE_MAX + 1)] {
        assert!(matches!(join(&store, &bad), Err(Error::InvalidArgument(_))));
    }
}
