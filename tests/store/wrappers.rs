//! Stores around stores, and stores by URL.

use std::net::SocketAddr;
use std::sync::Arc;

use collect::Error;
use collect::store::{self, CountingStore, HashStore, PrefixStore, Store, TcpServer};

use crate::{Directory, generous, soon};

#[test]
fn prefixes_have_no_key_in_common() {
    let inner: Arc<dyn Store> = Arc::new(HashStore::new());
    let prefix = |prefix| PrefixStore::new(inner.clone(), prefix).unwrap();
    let stores = ["a", "a/b", "a%2Fb", "a%", "b"].map(prefix);
    for (i, store) in stores.iter().enumerate() {
        for key in ["b/c", "c", "/", &"k".repeat(1024)] {
            assert_eq!(
                store.add(key, i64::try_from(i).unwrap() + 1, generous()).unwrap() - 1,
                i as i64
            );
        }
    }
    assert_eq!(inner.get("a/b/c", generous()).unwrap(), b"1");
    assert_eq!(inner.get("a%2Fb/c", generous()).unwrap(), b"2");
    let nested = PrefixStore::new(Arc::new(stores[0].clone()), "b").unwrap();
    assert_eq!(nested.get("c", generous()).unwrap(), b"1");
    for bad in ["", &"p".repeat(513), &"/".repeat(171)] {
        assert!(matches!(PrefixStore::new(inner.clone(), bad), Err(Error::InvalidArgument(_))));
    }
}

#[test]
fn operations_and_bytes_are_counted() {
    let store = CountingStore::new(Arc::new(HashStore::new()));
    store.set("k", b"12345", generous()).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| store.get("later", generous()).unwrap());
        assert!(store.get("never", soon()).is_err());
        store.set("later", b"123", generous()).unwrap();
        waiting.join().unwrap();
    });
    assert_eq!((store.operations(), store.bytes_read()), (4, 3));
    store.compare_and_set("k", None, b"", generous()).unwrap();
    store.clone().get("k", generous()).unwrap();
    store.add("n", 1, generous()).unwrap();
    store.delete("n", generous()).unwrap();
    assert_eq!((store.operations(), store.bytes_read()), (8, 13));
}

#[test]
fn urls_name_stores() {
    let directory = Directory::new();
    let path = directory.path().display();
    for url in [format!("file://{path}"), format!("file:{path}"), format!("file://localhost{path}")]
    {
        let store = store::open(&url, None, generous()).unwrap();
        store.add("opened", 1, generous()).unwrap();
        assert_eq!(store.description(), format!("file store {path}"));
    }
    assert_eq!(std::fs::read(directory.path().join("opened")).unwrap(), b"3");

    let token = Some(b"secret".to_vec());
    let server = TcpServer::start(SocketAddr::from(([127, 0, 0, 1], 0)), token.clone()).unwrap();
    for end in ["", "/"] {
        let url = format!("tcp://{}{end}", server.address());
        let store = store::open(&url, token.clone(), generous()).unwrap();
        store.add("opened", 1, generous()).unwrap();
    }
    for url in ["", "redis://x:1", "file:", "file://host/path", "tcp:x:1", "/tmp/x"] {
        let e = store::open(url, None, generous()).unwrap_err();
        assert!(matches!(&e, Error::InvalidArgument(_)), "{e}");
        assert!(e.to_string().contains("file:") && e.to_string().contains("tcp://"), "{e}");
    }
}
