//! What every store does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use collect::Error;
use collect::store::{
    CountingStore, FileStore, HashStore, PrefixStore, Store, TcpServer, TcpStore,
};

use crate::{Directory, generous, soon};

const VALUE_MAX: usize = 16 << 20;

/// Runs a test on every kind of store. It gets two handles of one store.
fn for_each(test: impl Fn(&dyn Store, &dyn Store)) {
    let hash = HashStore::new();
    test(&hash, &hash.clone());

    let directory = Directory::new();
    let open = || FileStore::open(directory.path().join("store")).unwrap();
    test(&open(), &open());

    let server = TcpServer::start(SocketAddr::from(([127, 0, 0, 1], 0)), None).unwrap();
    let address = server.address().to_string();
    let connect = || TcpStore::connect(&address, None, generous()).unwrap();
    test(&connect(), &connect());

    let hash = Arc::new(HashStore::new());
    let prefix = || PrefixStore::new(hash.clone(), "a/%b").unwrap();
    test(&prefix(), &prefix());

    let counting = CountingStore::new(Arc::new(HashStore::new()));
    test(&counting, &counting.clone());
}

#[test]
fn a_key_holds_what_was_set_last_until_it_is_deleted() {
    for_each(|a, b| {
        a.set("k", b"1", generous()).unwrap();
        b.set("k", b"22", generous()).unwrap();
        assert_eq!(a.get("k", generous()).unwrap(), b"22");
        assert!(a.delete("k", generous()).unwrap());
        assert!(!b.delete("k", generous()).unwrap());
        let e = a.get("k", soon()).unwrap_err();
        assert!(matches!(&e, Error::TimedOut { text, .. } if text.contains("k\"")), "{e}");
    });
}

#[test]
fn a_get_of_a_key_that_is_there_needs_no_time() {
    for_each(|a, _| {
        a.set("k", b"v", generous()).unwrap();
        // A network store may need some: it is free to time out.
        match a.get("k", Instant::now()) {
            Ok(value) => assert_eq!(value, b"v"),
            Err(e) => assert!(matches!(e, Error::TimedOut { .. }), "{e}"),
        }
        assert_eq!(a.get("k", generous()).unwrap(), b"v");
    });
}

#[test]
fn a_get_waits_for_set_add_and_compare_and_set() {
    for_each(|a, b| {
        thread::scope(|scope| {
            let waiters = ["set", "add", "cas"].map(|key| {
                scope.spawn(move || (key, a.get(key, generous()).unwrap(), b.get(key, generous())))
            });
            // Whether the gets come first is open; both orders must do.
            assert!(b.get("absent", soon()).is_err());
            b.set("set", b"7", generous()).unwrap();
            assert_eq!(b.add("add", 7, generous()), Ok(7));
            assert_eq!(a.compare_and_set("cas", None, b"7", generous()), Ok(None));
            for waiter in waiters {
                let (key, first, second) = waiter.join().unwrap();
                assert_eq!(
                    (first.as_slice(), second.as_deref()),
                    (&b"7"[..], Ok(&b"7"[..])),
                    "{key}"
                );
            }
        });
    });
}

#[test]
fn adds_of_many_threads_are_all_counted() {
    for_each(|a, b| {
        thread::scope(|scope| {
            for i in 0..8 {
                let store = if i % 2 == 0 { a } else { b };
                scope.spawn(move || {
                    for _ in 0..200 {
                        store.add("sum", 1, generous()).unwrap();
                    }
                });
            }
        });
        assert_eq!(a.add("sum", -1, generous()), Ok(8 * 200 - 1));
        assert_eq!(a.get("sum", generous()).unwrap(), b"1599");
    });
}

#[test]
fn an_add_to_what_is_no_number_changes_nothing() {
    for_each(|a, _| {
        a.set("k", b"x1", generous()).unwrap();
        let e = a.add("k", 1, generous()).unwrap_err();
        assert!(matches!(&e, Error::Store(text) if text.contains("no number")), "{e}");
        assert_eq!(a.get("k", generous()).unwrap(), b"x1");
        a.set("k", i64::MAX.to_string().as_bytes(), generous()).unwrap();
        assert!(a.add("k", 1, generous()).is_err());
        assert_eq!(a.add("k", i64::MIN, generous()), Ok(-1));
    });
}

#[test]
fn a_compare_and_set_tells_what_was_there_and_sets_only_what_was_expected() {
    for_each(|a, b| {
        let cas = |expected: Option<&[u8]>, desired: &[u8]| {
            a.compare_and_set("k", expected, desired, generous()).unwrap()
        };
        assert_eq!(cas(Some(b"x"), b"y"), None);
        assert!(!b.delete("k", generous()).unwrap());
        assert_eq!(cas(None, b"1"), None);
        assert_eq!(cas(None, b"2"), Some(b"1".to_vec()));
        assert_eq!(cas(Some(b"3"), b"2"), Some(b"1".to_vec()));
        assert_eq!(cas(Some(b"1"), b""), Some(b"1".to_vec()));
        // An empty value is there.
        assert_eq!(cas(None, b"2"), Some(Vec::new()));
        assert_eq!(cas(Some(b""), b"2"), Some(Vec::new()));
        assert_eq!(b.get("k", generous()).unwrap(), b"2");
    });
}

#[test]
fn one_of_many_compare_and_sets_wins() {
    for_each(|a, b| {
        for round in 0..20 {
            let key = format!("round {round}");
            let key = key.as_str();
            let winners = thread::scope(|scope| {
                let threads = [0, 1, 2, 3, 4, 5, 6, 7_u8].map(|i| {
                    let store = if i % 2 == 0 { a } else { b };
                    scope.spawn(move || {
                        store.compare_and_set(key, None, &[i], generous()).unwrap().is_none()
                    })
                });
                threads.map(|thread| thread.join().unwrap())
            });
            assert_eq!(winners.iter().filter(|won| **won).count(), 1);
            let winner = winners.iter().position(|won| *won).unwrap();
            assert_eq!(a.get(key, generous()).unwrap(), [u8::try_from(winner).unwrap()]);
        }
    });
}

#[test]
fn values_are_any_bytes() {
    for_each(|a, b| {
        let all: Vec<u8> = (0..=255).collect();
        let large: Vec<u8> = (0..1_u32 << 18).flat_map(u32::to_le_bytes).collect();
        for value in [&[][..], &all, &large] {
            a.set("k", value, generous()).unwrap();
            assert!(b.get("k", generous()).unwrap() == value, "{} bytes", value.len());
            assert!(
                b.compare_and_set("k", Some(value), b"x", generous()).unwrap().unwrap() == value
            );
            assert_eq!(a.get("k", generous()).unwrap(), b"x");
        }
    });
}

#[test]
fn the_largest_value_is_kept_and_a_larger_one_refused() {
    for_each(|a, b| {
        let mut value = vec![0xa5; VALUE_MAX];
        a.set("k", &value, generous()).unwrap();
        assert!(b.get("k", generous()).unwrap() == value);
        value.push(0);
        for result in [
            a.set("k", &value, generous()),
            a.compare_and_set("k", None, &value, generous()).map(drop),
        ] {
            let e = result.unwrap_err();
            assert!(matches!(&e, Error::InvalidArgument(text) if text.contains("16777217")), "{e}");
        }
        // It can be expected: it is just not there.
        let held = b.compare_and_set("k", Some(&value), b"x", generous()).unwrap().unwrap();
        assert!(held == value[..VALUE_MAX]);
    });
}

#[test]
fn bad_keys_are_refused_by_every_call() {
    for_each(|a, _| {
        let long = "k".repeat(1025);
        for key in ["", &long] {
            let errors = [
                a.set(key, b"", generous()).unwrap_err(),
                a.get(key, generous()).unwrap_err(),
                a.add(key, 1, generous()).unwrap_err(),
                a.compare_and_set(key, None, b"", generous()).unwrap_err(),
                a.delete(key, generous()).unwrap_err(),
            ];
            for e in errors {
                assert!(matches!(e, Error::InvalidArgument(_)), "{e}");
            }
        }
    });
}

#[test]
fn odd_keys_are_different_keys() {
    let long = "é/".repeat(341);
    let longer = format!("{long}x");
    let keys = [
        "a/b",
        "a%2Fb",
        "a%2fb",
        "a",
        "A",
        "%",
        "%%",
        "..",
        ".",
        "/",
        "/etc/passwd",
        "../x",
        ".new",
        ".lock",
        "ключ",
        "鍵",
        "\0",
        "\n",
        " ",
        "a b",
        "~",
        "-",
        "%2E",
        &long,
        &longer,
    ];
    for_each(|a, b| {
        for key in keys {
            a.set(key, key.as_bytes(), generous()).unwrap();
        }
        for key in keys {
            assert_eq!(b.get(key, generous()).unwrap(), key.as_bytes());
            assert!(b.delete(key, generous()).unwrap(), "{key}");
        }
    });
}

#[test]
fn a_store_prints_no_values() {
    for_each(|a, _| {
        a.set("k", b"secret", generous()).unwrap();
        assert!(!format!("{a:?}").contains("secret"));
        assert!(a.description().contains("store"), "{}", a.description());
    });
}
