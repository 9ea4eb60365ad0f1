//! Requests: callbacks, descriptors, waits for several. Both ranks of a world are here, and waits have no time-out: what
//! is lost hangs, and then the test fails by its deadline.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ranks;

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Barrier};
use std::thread::{self, ThreadId};
use std::time::Duration;

use collect::config::{Timeout, Wait};
use collect::store::HashStore;
use collect::{Call, CallOptions, Error, ForkOptions, Request, Waited, World, WorldOptions};

type Outcome = Result<(), Error>;

/// What is too short for anything to happen.
const SHORT: Duration = Duration::from_millis(1);

fn options(wait: Wait) -> WorldOptions {
    WorldOptions { wait, timeout: Timeout::Never, ..ranks::options() }
}

/// Both ranks of a world, in this process; their first barrier has made the link.
fn pair(wait: Wait) -> [World; 2] {
    pair_of(&options(wait))
}

fn pair_of(options: &WorldOptions) -> [World; 2] {
    let store = HashStore::new();
    thread::scope(|scope| {
        let create = |rank| {
            let store = &store;
            scope.spawn(move || {
                let world = World::create(store, rank, 2, options).unwrap();
                barrier(&world).unwrap();
                world
            })
        };
        [0, 1].map(create).map(|thread| thread.join().unwrap())
    })
}

fn start(world: &World) -> Request {
    world.start(&Call::Barrier, &CallOptions::default()).unwrap()
}

fn barrier(world: &World) -> Outcome {
    world.run(&Call::Barrier, &CallOptions::default())
}

/// Runs what must not hang.
fn in_time(body: impl FnOnce() + Send + 'static) {
    let (done, end) = mpsc::channel();
    let thread = thread::spawn(move || {
        body();
        done.send(()).unwrap();
    });
    let ended = end.recv_timeout(ranks::DEADLINE);
    assert_ne!(ended, Err(mpsc::RecvTimeoutError::Timeout), "it hangs");
    thread.join().unwrap();
}

/// A callback that tells what it was called with.
fn tell(to: &Sender<Outcome>) -> impl FnOnce(Outcome) + Send + 'static {
    let to = to.clone();
    move |outcome| to.send(outcome).unwrap()
}

fn told(by: &Receiver<Outcome>) -> Outcome {
    by.recv_timeout(ranks::DEADLINE).expect("nobody calls back")
}

/// Who has called back, and about what.
type Calls = Vec<(usize, ThreadId, Option<String>)>;

fn note(
    number: usize,
    to: &Sender<(usize, ThreadId, Option<String>)>,
) -> impl FnOnce(Outcome) + Send + 'static {
    let to = to.clone();
    move |outcome| {
        outcome.unwrap();
        let thread = thread::current();
        to.send((number, thread.id(), thread.name().map(str::to_owned))).unwrap();
    }
}

#[test]
fn callbacks_run_once_on_one_thread_in_order_of_completion() {
    in_time(|| {
        let [one, other] = pair(Wait::Block);
        let (to, by) = mpsc::channel();
        for number in 0..300 {
            let request = start(&one);
            match number % 3 {
                // Before the end, and of a request that goes at once.
                0 => {
                    request.on_complete(note(number, &to)).unwrap();
                    drop(request);
                    barrier(&other).unwrap();
                }
                // Perhaps at the end.
                1 => {
                    let far = start(&other);
                    request.on_complete(note(number, &to)).unwrap();
                    far.wait().unwrap();
                    request.wait().unwrap();
                }
                // After the end.
                _ => {
                    barrier(&other).unwrap();
                    request.wait().unwrap();
                    request.on_complete(note(number, &to)).unwrap();
                }
            }
            // The next ends after this one.
            let both = [start(&one), start(&other)];
            Request::wait_all(&both.each_ref(), None).unwrap().unwrap();
        }
        drop(to);
        let calls: Calls = by.iter().collect();
        assert_eq!(calls.len(), 300);
        assert!(calls.iter().map(|call| call.0).eq(0..300), "the order of completion");
        assert!(calls.iter().all(|call| call.1 == calls[0].1), "one thread");
        assert!(calls.iter().all(|call| call.2.as_deref() == Some("collect")), "the library's");
    });
}

#[test]
fn callbacks_of_one_request_run_in_the_order_in_which_they_were_asked_for() {
    in_time(|| {
        let [one, other] = pair(Wait::Block);
        let request = start(&one);
        let (to, by) = mpsc::channel();
        (0..10).for_each(|number| request.on_complete(note(number, &to)).unwrap());
        barrier(&other).unwrap();
        request.wait().unwrap();
        (10..20).for_each(|number| request.on_complete(note(number, &to)).unwrap());
        drop(to);
        assert!(by.iter().map(|call| call.0).eq(0..20));
    });
}

#[test]
fn callbacks_from_many_threads_each_run_once() {
    const THREADS: usize = 8;
    const EACH: usize = 200;
    in_time(|| {
        let worlds = pair(Wait::Block);
        let (to, by) = mpsc::channel();
        let forks: Vec<[World; 2]> = (0..THREADS).map(|_| fork(&worlds)).collect();
        thread::scope(|scope| {
            let threads = forks.iter().enumerate().map(|(thread, [one, other])| {
                let to = &to;
                scope.spawn(move || {
                    for number in 0..EACH {
                        let requests = [start(one), start(other)];
                        let number = thread * EACH + number;
                        requests[0].on_complete(note(number, to)).unwrap();
                        // The last of each is waited for: the others are under way at once.
                        if number % EACH == EACH - 1 {
                            requests.iter().for_each(|request| request.wait().unwrap());
                        }
                    }
                })
            });
            ranks::join(threads.collect());
        });
        drop(to);
        let mut numbers: Vec<usize> = by.iter().map(|call| call.0).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..THREADS * EACH), "each once");
    });
}

/// A fork of both ranks.
fn fork([one, other]: &[World; 2]) -> [World; 2] {
    thread::scope(|scope| {
        let other = scope.spawn(|| other.fork(&ForkOptions::default()).unwrap());
        [one.fork(&ForkOptions::default()).unwrap(), other.join().unwrap()]
    })
}

/// A caller drives all the time, as it waits for what does not come; callbacks run all the same.
fn callbacks_run_beside_a_caller(wait: Wait) {
    let worlds = pair(wait);
    let forks = fork(&worlds);
    let [one, other] = &worlds;
    thread::scope(|scope| {
        let waiting = scope.spawn(|| barrier(&forks[0]).unwrap());
        for _ in 0..50 {
            let (to, by) = mpsc::channel();
            let requests = [start(one), start(other)];
            requests.iter().for_each(|request| request.on_complete(tell(&to)).unwrap());
            assert_eq!([told(&by), told(&by)], [Ok(()), Ok(())]);
        }
        barrier(&forks[1]).unwrap();
        waiting.join().unwrap();
    });
}

#[test]
fn callbacks_run_while_a_caller_sleeps_in_the_poll() {
    in_time(|| callbacks_run_beside_a_caller(Wait::Block));
}

#[test]
fn callbacks_run_while_a_caller_spins() {
    in_time(|| callbacks_run_beside_a_caller(Wait::Spin));
}

#[test]
fn callbacks_are_told_of_an_abort() {
    in_time(|| {
        let [one, other] = pair(Wait::Block);
        let (to, by) = mpsc::channel();
        start(&one).on_complete(tell(&to)).unwrap();
        other.abort("enough").unwrap();
        let outcome = told(&by);
        assert!(matches!(&outcome, Err(Error::Aborted(text)) if text.contains("enough")));
    });
}

#[test]
fn callbacks_run_before_the_last_handle_of_a_world_is_gone() {
    in_time(|| {
        let [one, other] = pair(Wait::Block);
        let (to, by) = mpsc::channel();
        let request = start(&one);
        request.on_complete(tell(&to)).unwrap();
        drop(one);
        assert!(matches!(by.try_recv(), Ok(Err(Error::Aborted(_)))));
        let late = request.on_complete(|_| panic!("nobody is left to call it"));
        assert!(matches!(late, Err(Error::Aborted(_))), "{late:?}");
        drop(other);
    });
}

/// Starts a barrier whose callback starts the next one.
fn chain(world: World, left: usize, to: Sender<Outcome>) {
    let request = start(&world);
    let go_on = move |outcome: Outcome| match outcome {
        Ok(()) if left > 1 => chain(world, left - 1, to),
        outcome => to.send(outcome).unwrap(),
    };
    request.on_complete(go_on).unwrap();
}

#[test]
fn callbacks_start_the_next_operation() {
    in_time(|| {
        let worlds = pair(Wait::Block);
        let (to, by) = mpsc::channel();
        worlds.iter().for_each(|world| chain(world.clone(), 100, to.clone()));
        assert_eq!([told(&by), told(&by)], [Ok(()), Ok(())]);
    });
}

/// A barrier of one rank ends as it is started, so there is always one callback more.
#[test]
fn an_endless_chain_of_callbacks_delays_nobody() {
    in_time(|| {
        let worlds = pair(Wait::Block);
        let alone = ForkOptions { members: Some(vec![0]), ..ForkOptions::default() };
        let solo = worlds[0].fork(&alone).unwrap();
        let (to, by) = mpsc::channel();
        chain(solo.clone(), usize::MAX, to);
        // Both ranks leave all driving to the background threads.
        for _ in 0..50 {
            let (to, by) = mpsc::channel();
            for world in &worlds {
                start(world).on_complete(tell(&to)).unwrap();
            }
            assert_eq!([told(&by), told(&by)], [Ok(()), Ok(())]);
        }
        solo.abort("enough").unwrap();
        // The chain ends with it, or finds that the next barrier cannot start.
        let end = by.recv_timeout(ranks::DEADLINE);
        assert!(matches!(
            end,
            Ok(Err(Error::Aborted(_))) | Err(mpsc::RecvTimeoutError::Disconnected)
        ));
    });
}

#[test]
fn the_last_handle_may_go_in_a_callback() {
    in_time(|| {
        let worlds = pair(Wait::Block);
        let (to, by) = mpsc::channel();
        for world in worlds {
            let (to, request) = (to.clone(), start(&world));
            let go = move |outcome| {
                drop(world);
                to.send(outcome).unwrap();
            };
            request.on_complete(go).unwrap();
        }
        assert_eq!([told(&by), told(&by)], [Ok(()), Ok(())]);
    });
}

#[test]
fn a_callback_that_panics_ends_nothing_else() {
    in_time(|| {
        let [one, other] = pair(Wait::Block);
        let (to, by) = mpsc::channel();
        let request = start(&one);
        request.on_complete(|_| panic!("planted")).unwrap();
        request.on_complete(tell(&to)).unwrap();
        barrier(&other).unwrap();
        assert_eq!(told(&by), Ok(()));
        let requests = [start(&one), start(&other)];
        assert_eq!(Request::wait_all(&requests.each_ref(), None), Some(Ok(())));
    });
}

/// Whether a descriptor becomes readable.
fn is_readable(fd: BorrowedFd<'_>, limit: Duration) -> bool {
    let limit = i32::try_from(limit.as_millis()).unwrap();
    let mut entry = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which lives through the call.
    let ready = unsafe { libc::poll(&raw mut entry, 1, limit) };
    assert!(ready >= 0);
    ready == 1
}

#[test]
fn a_descriptor_is_readable_from_the_end_on() {
    in_time(|| {
        let [one, other] = pair(Wait::Block);
        for _ in 0..200 {
            let request = start(&one);
            assert!(!is_readable(request.eventfd().unwrap(), Duration::ZERO));
            let far = start(&other);
            assert!(is_readable(request.eventfd().unwrap(), ranks::DEADLINE));
            assert_eq!(request.outcome(), Some(Ok(())));
            let (again, flags) = (request.eventfd().unwrap().as_raw_fd(), libc::F_GETFD);
            assert_eq!(again, request.eventfd().unwrap().as_raw_fd());
            // SAFETY: the call takes no pointer.
            assert_eq!(unsafe { libc::fcntl(again, flags) }, libc::FD_CLOEXEC);
            far.wait().unwrap();
            // After the end.
            assert!(is_readable(far.eventfd().unwrap(), Duration::ZERO));
        }
    });
}

#[test]
fn one_thread_waits_for_many_descriptors() {
    in_time(|| {
        let worlds = pair(Wait::Block);
        let forks: Vec<[World; 2]> = (0..8).map(|_| fork(&worlds)).collect();
        let requests: Vec<Request> = forks.iter().map(|[one, _]| start(one)).collect();
        let readable = || {
            let is_readable =
                |request: &&Request| is_readable(request.eventfd().unwrap(), Duration::ZERO);
            requests.iter().filter(is_readable).count()
        };
        for (ended, [_, other]) in forks.iter().enumerate() {
            assert_eq!(readable(), ended);
            barrier(other).unwrap();
            assert!(is_readable(requests[ended].eventfd().unwrap(), ranks::DEADLINE));
        }
    });
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// In processes of its own, where nobody else opens descriptors.
#[test]
fn descriptors_are_closed_with_their_requests() {
    let name = "descriptors_are_closed_with_their_requests";
    ranks::processes(name, 2, &options(Wait::Block), &|world: &World| {
        barrier(world).unwrap();
        let before = descriptors();
        for round in 0..500 {
            let request = start(world);
            assert!(is_readable(request.eventfd().unwrap(), ranks::DEADLINE));
            drop(request);
            assert_eq!(descriptors(), before, "round {round}");
        }
        // Also before their operations have ended.
        let requests: Vec<Request> = (0..100).map(|_| start(world)).collect();
        assert!(requests.iter().all(|request| request.eventfd().is_ok()));
        drop(requests);
        assert_eq!(descriptors(), before);
        barrier(world).unwrap();
    });
}

/// Waits for any of two of different endpoints, and lets the second end; then for the first.
#[test]
fn the_first_of_two_endpoints_is_found() {
    in_time(|| {
        let (here, there) = (pair(Wait::Block), pair(Wait::Block));
        for round in 0..200 {
            let requests = [start(&here[0]), start(&there[0])];
            let pending = requests.each_ref();
            if round % 50 == 0 {
                assert_eq!(Request::wait_any(&pending, Some(SHORT)), None);
            }
            thread::scope(|scope| {
                let far = scope.spawn(|| {
                    if round % 50 == 0 {
                        // By then the waiting thread has sent its notices, and nothing but a wake ends its poll.
                        thread::sleep(Duration::from_millis(100));
                    }
                    barrier(&there[1]).unwrap();
                });
                assert_eq!(Request::wait_any(&pending, None), Some(1));
                far.join().unwrap();
                let near = scope.spawn(|| barrier(&here[1]).unwrap());
                assert_eq!(Request::wait_any(&pending[..1], None), Some(0));
                near.join().unwrap();
            });
            assert_eq!(Request::wait_all(&pending, None), Some(Ok(())));
        }
    });
}

#[test]
fn the_first_of_two_operations_of_one_world_is_found() {
    in_time(|| {
        let worlds = pair(Wait::Block);
        let forks = fork(&worlds);
        for _ in 0..200 {
            let requests = [start(&worlds[0]), start(&forks[0])];
            // The same one twice.
            let pending = [&requests[0], &requests[1], &requests[1], &requests[0]];
            thread::scope(|scope| {
                let far = scope.spawn(|| barrier(&forks[1]).unwrap());
                assert_eq!(Request::wait_any(&pending, None), Some(1));
                far.join().unwrap();
            });
            barrier(&worlds[1]).unwrap();
            assert_eq!(Request::wait_any(&[&requests[0]; 2], None), Some(0));
            assert_eq!(Request::wait_all(&pending, None), Some(Ok(())));
        }
    });
}

#[test]
fn many_threads_wait_for_the_same_requests() {
    in_time(|| {
        let (here, there) = (pair(Wait::Block), pair(Wait::Block));
        for _ in 0..50 {
            let requests = Arc::new([start(&here[0]), start(&there[0])]);
            let began = Arc::new(Barrier::new(5));
            let wait = |number: usize| {
                let (requests, began) = (Arc::clone(&requests), Arc::clone(&began));
                thread::spawn(move || {
                    began.wait();
                    let [one, other] = &*requests;
                    let pending = if number < 2 { [one, other] } else { [other, one] };
                    let first = Request::wait_any(&pending, None).unwrap();
                    assert!(std::ptr::eq(pending[first], other) || one.outcome().is_some());
                    one.wait().unwrap();
                })
            };
            let threads: Vec<_> = (0..4).map(wait).collect();
            began.wait();
            barrier(&there[1]).unwrap();
            barrier(&here[1]).unwrap();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
    });
}

#[test]
fn waits_for_none_end_at_once() {
    assert_eq!(Request::wait_any(&[], None), None);
    assert_eq!(Request::wait_all(&[], None), Some(Ok(())));
}

#[test]
fn a_wait_for_all_ends_with_its_limit_or_with_the_first_error() {
    in_time(|| {
        let (here, there) = (pair(Wait::Block), pair(Wait::Block));
        let requests = [start(&here[0]), start(&there[0]), start(&here[0])];
        let all = requests.each_ref();
        assert_eq!(Request::wait_all(&all, Some(SHORT)), None);
        barrier(&here[1]).unwrap();
        assert_eq!(Request::wait_all(&all, Some(SHORT)), None);
        there[1].abort("the second").unwrap();
        here[1].abort("the third").unwrap();
        let outcome = Request::wait_all(&all, None).unwrap();
        assert!(matches!(&outcome, Err(Error::Aborted(text)) if text.contains("the second")));
        assert_eq!(requests[0].outcome(), Some(Ok(())));
        assert!(requests[2].outcome().unwrap().is_err());
        assert_eq!(Request::wait_any(&all, None), Some(0));
        assert_eq!(requests[0].source(), None, "a barrier receives no message");
    });
}

/// Sends this thread a signal now and then, until it is dropped; a handler runs that does nothing.
struct Pest {
    done: Option<Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Pest {
    fn new() -> Self {
        extern "C" fn handle(_: libc::c_int) {}
        let handler = handle as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler does nothing, so it may run anywhere; nobody else here uses the signal.
        unsafe { libc::signal(libc::SIGUSR2, handler) };
        // SAFETY: takes nothing.
        let target = unsafe { libc::pthread_self() };
        let (done, end) = mpsc::channel();
        let thread = thread::spawn(move || {
            while end.recv_timeout(SHORT) == Err(mpsc::RecvTimeoutError::Timeout) {
                // SAFETY: the thread lives: it joins this one.
                unsafe { libc::pthread_kill(target, libc::SIGUSR2) };
            }
        });
        Self { done: Some(done), thread: Some(thread) }
    }
}

impl Drop for Pest {
    fn drop(&mut self) {
        self.done.take();
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn signals_end_waits_only_where_the_world_and_the_call_say_so() {
    in_time(|| {
        let plain = pair(Wait::Block);
        let worlds = pair_of(&WorldOptions { interruptible: true, ..options(Wait::Block) });
        let forks = fork(&worlds);
        let requests = [start(&plain[0]), start(&worlds[0]), start(&forks[0])];
        let [one, other, third] = requests.each_ref();
        assert_eq!(other.wait_unless_interrupted(Some(SHORT)), Waited::InProgress);
        let pest = Pest::new();
        assert_eq!(other.wait_unless_interrupted(None), Waited::Interrupted);
        assert_eq!(third.wait_unless_interrupted(None), Waited::Interrupted, "a fork is alike");
        assert_eq!(Request::wait_any_unless_interrupted(&[one, other], None), Waited::Interrupted);
        assert_eq!(Request::wait_all_unless_interrupted(&[other, one], None), Waited::Interrupted);
        // Long enough for several signals.
        let slice = Some(SHORT * 20);
        assert_eq!(one.wait_unless_interrupted(slice), Waited::InProgress);
        assert_eq!(other.wait_for(slice), None);
        assert_eq!(Request::wait_any(&[other], slice), None);
        assert_eq!(Request::wait_all(&[other], slice), None);
        barrier(&forks[1]).unwrap();
        third.wait().unwrap();
        assert_eq!(Request::wait_any_unless_interrupted(&[one, third], None), Waited::Ended(1));
        assert_eq!(other.outcome(), None, "what was interrupted goes on");
        drop(pest);
        barrier(&worlds[1]).unwrap();
        barrier(&plain[1]).unwrap();
        let all = Request::wait_all_unless_interrupted(&[one, other, third], None);
        assert_eq!(all, Waited::Ended(Ok(())));
    });
}
