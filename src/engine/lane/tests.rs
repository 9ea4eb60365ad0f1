//! A lane over a mesh on which no peer ever answers: what several operations end with, and what a bug leaves.
#![forbid(unsafe_code)]

use std::io::{self, IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use super::super::members::Members;
use super::super::request::Request;
use super::super::world::Health;
use super::*;
use crate::link::Event;
use crate::plan::{Algorithm, Collective, Shape, build};

/// Longer than any test may take.
const DEADLINE: Duration = Duration::from_secs(60);

const WORLD: u64 = 7;

/// A world that is not there.
const NOWHERE: u64 = 8;

#[derive(Debug, Default)]
struct Bell {
    is_rung: Mutex<bool>,
    rung: Condvar,
}

impl Wake for Bell {
    fn wake(&self) {
        *self.is_rung.lock() = true;
        self.rung.notify_all();
    }
}

/// Peers never answer. To dial one panics if that is planted.
#[derive(Debug)]
struct Silence {
    bell: Arc<Bell>,
    panics: Arc<AtomicBool>,
    began: Instant,
}

impl Mesh for Silence {
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap()
    }

    fn dial(&mut self, _: usize) {
        assert!(!self.panics.load(Ordering::Relaxed), "planted");
    }

    fn read(&mut self, _: usize, _: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn has_ended(&self, _: usize) -> bool {
        false
    }

    fn write(&mut self, _: usize, _: &[IoSlice<'_>]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn shutdown(&mut self, _: usize) {}

    fn give_up(&mut self, _peer: usize) {}

    fn trouble(&self, _peer: usize) -> Option<String> {
        None
    }

    fn close(&mut self, _: usize) {}

    fn may_come_up(&self, _: usize) -> bool {
        false
    }

    fn poll(&mut self, limit: Option<Duration>, _: &mut Vec<Event>) -> Result<(), Error> {
        let mut is_rung = self.bell.is_rung.lock();
        if !*is_rung {
            match limit {
                Some(limit) => drop(self.bell.rung.wait_for(&mut is_rung, limit)),
                None => self.bell.rung.wait(&mut is_rung),
            }
        }
        *is_rung = false;
        Ok(())
    }

    fn waker(&self) -> Arc<dyn Wake> {
        Arc::clone(&self.bell) as Arc<dyn Wake>
    }

    fn address(&self, _: usize) -> String {
        "nowhere".into()
    }
}

/// One of the two ranks of a world.
struct Rank {
    lane: Arc<Lane>,
    panics: Arc<AtomicBool>,
    program: Arc<Program>,
    members: Arc<Members>,
}

impl Rank {
    fn new() -> Self {
        let panics = Arc::new(AtomicBool::new(false));
        let bell = Arc::default();
        let mesh = Silence { bell, panics: Arc::clone(&panics), began: Instant::now() };
        let members = Arc::new(Members::new(vec![0, 1]));
        let root = Registration {
            id: WORLD,
            health: Arc::new(Health::new("silent".into())),
            rank: 0,
            members: Arc::clone(&members),
            checksum: false,
        };
        let limits = Limits { linger_ns: 1, ..Limits::default() };
        let settings =
            Settings { size: 2, wait: Wait::Block, fits: true, limits, is_interruptible: false };
        let shape = Shape {
            collective: Collective::Barrier,
            algorithm: Algorithm::Dissemination,
            size: 2,
            rank: 0,
            root: 0,
            in_place: false,
            buffers: 1,
            degree: 0,
        };
        let program = Arc::new(Program::new(build(&shape).unwrap()));
        let lane = Lane::start(Box::new(mesh), &settings, root).unwrap();
        Self { lane, panics, program, members }
    }

    /// Starts barriers in these worlds, as one.
    fn start(&self, worlds: &[u64]) -> Request {
        let completion = self.lane.submit_many(worlds.len(), |at, spare| {
            let (program, members) = (Arc::clone(&self.program), Arc::clone(&self.members));
            let mut operation = spare.unwrap_or_else(|| Operation::blank(program, members));
            operation.world = worlds[at];
            operation.program = Arc::clone(&self.program);
            (operation.count, operation.slice_count) = (1, 1);
            operation.lend_tokens();
            operation
        });
        self.lane.prod();
        Request::new(Arc::clone(&self.lane), completion)
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        self.lane.close();
    }
}

fn aborted(text: &str) -> Error {
    Error::Aborted(text.into())
}

#[test]
fn several_operations_end_with_the_last_and_with_the_first_error() {
    let rank = Rank::new();
    let request = rank.start(&[WORLD, NOWHERE, WORLD]);
    let (told, end) = mpsc::channel();
    request.on_complete(move |result| told.send(result).unwrap()).unwrap();
    assert_eq!(rank.start(&[NOWHERE]).wait(), Err(aborted("the world has been destroyed")));
    assert_eq!(request.outcome(), None, "two are under way");
    assert!(end.try_recv().is_err());
    rank.lane.fail(WORLD, aborted("enough"));
    let first = Err(aborted("the world has been destroyed"));
    assert_eq!(request.wait_for(Some(DEADLINE)), Some(first.clone()));
    assert_eq!(end.recv_timeout(DEADLINE), Ok(first));
}

#[test]
fn no_operation_has_ended_at_once() {
    let rank = Rank::new();
    assert_eq!(rank.start(&[]).outcome(), Some(Ok(())));
    // The same completion, perhaps, with more to do.
    for _ in 0..2 * PREPARED {
        assert_eq!(rank.start(&[WORLD]).outcome(), None);
    }
}

#[test]
fn callbacks_are_left_to_nobody_else_when_the_endpoint_closes() {
    let rank = Rank::new();
    let (request, ended) = (rank.start(&[WORLD]), rank.start(&[]));
    let (told, end) = mpsc::channel();
    request.on_complete(move |result| told.send(result).unwrap()).unwrap();
    drop(request);
    drop(rank);
    assert!(matches!(end.try_recv(), Ok(Err(Error::Aborted(_)))), "it ran before the thread ended");
    let late = ended.on_complete(|_| panic!("there is no thread for it"));
    assert!(matches!(late, Err(Error::Aborted(_))), "{late:?}");
}

#[test]
fn an_operation_that_a_bug_loses_ends_for_all_who_wait() {
    let rank = Rank::new();
    rank.panics.store(true, Ordering::Relaxed);
    let request = rank.start(&[WORLD, WORLD]);
    let (told, end) = mpsc::channel();
    request.on_complete(move |result| told.send(result).unwrap()).unwrap();
    let result = end.recv_timeout(DEADLINE).unwrap();
    assert!(matches!(result, Err(Error::Internal(_))), "{result:?}");
    assert_eq!(request.outcome(), Some(result));
    assert_eq!(Request::wait_any(&[&request], None), Some(0));
    // The lane is broken, and still calls back.
    let (told, end) = mpsc::channel();
    let late = rank.start(&[WORLD, WORLD]);
    late.on_complete(move |result| told.send(result).unwrap()).unwrap();
    let result = end.recv_timeout(DEADLINE).unwrap();
    assert!(
        matches!(&result, Err(Error::Internal(text)) if text.contains("planted")),
        "{result:?}"
    );
}

#[test]
fn an_operation_lost_while_it_is_waited_for_ends_for_all_who_wait() {
    let (rank, other) = (Rank::new(), Rank::new());
    // Under way on two lanes, of which one breaks when the next operation comes.
    let requests = [other.start(&[WORLD]), rank.start(&[NOWHERE, NOWHERE])];
    assert_eq!(Request::wait_any(&[&requests[0]], Some(Duration::from_millis(1))), None);
    rank.panics.store(true, Ordering::Relaxed);
    let lost = rank.start(&[WORLD]);
    let at = Request::wait_any(&[&requests[0], &lost], Some(DEADLINE));
    assert_eq!(at, Some(1));
    assert_eq!(requests[1].wait(), Err(aborted("the world has been destroyed")));
}
