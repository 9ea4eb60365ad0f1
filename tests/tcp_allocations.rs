//! Reading, writing, polling and waking allocate nothing once links are up. Alone in its file: it counts allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::TcpStream;
use std::time::Duration;

use collect::link::handshake::{Identity, Key};
use collect::link::tcp::listener::{ListenOptions, Listener};
use collect::link::tcp::socket::Socket;
use collect::link::tcp::{MeshOptions, TcpMesh};
use collect::link::{Event, Mesh};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is the system allocator's; only a counter without destructor is added.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn mesh(rank: usize, stream: TcpStream) -> TcpMesh {
    let run = [1; 16];
    let identity = Identity { key: Key::new(b"x", &run), run, rank, size: 2 };
    let links = vec![(1 - rank, Socket::new(stream).unwrap())];
    let (listener, addresses, silence) = (None, Vec::new(), None);
    TcpMesh::new(MeshOptions { identity, listener, addresses, links, silence }).unwrap()
}

#[test]
fn a_link_in_use_allocates_nothing() {
    let front = Listener::bind(&ListenOptions { address: "127.0.0.1".into(), port: 0 }).unwrap();
    let there = TcpStream::connect(front.addresses().unwrap()[0]).unwrap();
    let (here, _) = front.accept().unwrap();
    let (mut zero, mut one) = (mesh(0, here), mesh(1, there));
    let (data, mut room) = (vec![7; 200_000], vec![0; 100_000]);
    let mut events: Vec<Event> = Vec::with_capacity(1024);
    let waker = zero.waker();
    let mut moved = 0;
    let mut round = || {
        waker.wake();
        match zero.write(1, &[IoSlice::new(&data), IoSlice::new(&data)]) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
        events.clear();
        zero.poll(Some(Duration::ZERO), &mut events).unwrap();
        one.poll(Some(Duration::from_micros(100)), &mut events).unwrap();
        match one.read(0, &mut [IoSliceMut::new(&mut room)]) {
            Ok(count) => moved += count,
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    };
    (0..10).for_each(|_| round());
    let before = ALLOCATIONS.with(Cell::get);
    (0..500).for_each(|_| round());
    assert_eq!(ALLOCATIONS.with(Cell::get), before);
    assert!(moved > 10_000_000, "{moved} bytes: the link was hardly in use");
}
