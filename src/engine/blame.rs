//! Blame: who it is that everybody waits for.
//!
//! An operation that has waited for a while asks the ranks that it waits for where they are ([`Kind::Ping`]); each
//! answers, and again whenever its answer changes ([`Kind::Pong`]), with whom it blames itself. So the news of the one
//! that is late travels along the chain of those that wait, hop by hop, before the first deadline passes. Here is what an
//! operation knows of that; `core/blame` sends and takes the frames.
//!
//! [`Kind::Ping`]: crate::link::frame::Kind::Ping
//! [`Kind::Pong`]: crate::link::frame::Kind::Pong
#![forbid(unsafe_code)]

use std::cmp::Reverse;

use crate::link::frame::Header;

/// The longest time before an operation asks for the first time, in nanoseconds.
const PATIENCE_NS: u64 = 1_000_000_000;

/// How often those that have asked are told something new between two questions: opinions that change one another do not
/// fill the links.
const NEWS_MAX: u32 = 4;

/// Why a rank is at fault. The greater one outweighs the smaller one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    /// It has not called the operation. `detail`: how many ordered operations of the world it has called.
    Absent = 1,
    /// It has said for a while that it is through, and nothing comes; or it hears nothing from the one who blames it,
    /// or answers nothing though it can be heard.
    Mute = 2,
    /// It has not answered. `detail`: for how many nanoseconds.
    Silent = 3,
}

/// A rank at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Culprit {
    /// Its endpoint.
    pub(super) peer: u32,
    pub(super) why: Why,
    pub(super) detail: u64,
    /// Ranks that have passed the news on. News that go round in a circle die of it.
    pub(super) hops: u32,
}

impl Culprit {
    /// Whether it is the same rank for the same reason.
    fn is_same(&self, other: &Self) -> bool {
        (self.peer, self.why) == (other.peer, other.why)
    }

    /// The worse one; of equal ones that which is nearer.
    pub(super) fn worse(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        let weight = |it: &Self| (it.why, Reverse(it.hops), Reverse(it.peer));
        a.into_iter().chain(b).max_by_key(weight)
    }

    /// Whether the rank that says so has itself had no answer.
    pub(super) fn is_seen_silent(&self) -> bool {
        self.why == Why::Silent && self.hops == 1
    }

    /// As the next rank hears of it.
    fn passed_on(self) -> Self {
        Self { hops: self.hops.saturating_add(1), ..self }
    }
}

/// Where a rank is with an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// It has called it, and waits itself.
    Running = 1,
    /// It has not called it.
    Absent = 2,
    /// It is through.
    Over = 3,
}

/// What a rank says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) progress: Progress,
    /// Ordered operations of the world that it has called.
    pub(super) called: u64,
    /// Whom it blames.
    pub(super) culprit: Option<Culprit>,
}

impl Answer {
    /// Writes it into the header of a Pong.
    pub(super) fn write(&self, header: &mut Header) {
        header.slice = self.progress as u32;
        header.fingerprint.count = self.called;
        header.ordinal = self.culprit.map_or(u32::MAX, |culprit| culprit.peer);
        header.message = self.culprit.map_or(0, |culprit| culprit.why as u64);
        header.offset = self.culprit.map_or(0, |culprit| culprit.detail);
        header.fingerprint.root = self.culprit.map_or(0, |culprit| culprit.passed_on().hops);
    }

    /// Reads it; numbers that say nothing known are no answer.
    pub(super) fn read(header: &Header) -> Option<Self> {
        let progress = match header.slice {
            1 => Progress::Running,
            2 => Progress::Absent,
            3 => Progress::Over,
            _ => return None,
        };
        let why = match header.message {
            1 => Some(Why::Absent),
            2 => Some(Why::Mute),
            3 => Some(Why::Silent),
            _ => None,
        };
        let (peer, detail, hops) = (header.ordinal, header.offset, header.fingerprint.root);
        let culprit = why.map(|why| Culprit { peer, why, detail, hops });
        Some(Self { progress, called: header.fingerprint.count, culprit })
    }
}

/// A question to one rank.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question {
    pub(super) peer: u32,
    /// Since when it has not been answered.
    pub(super) asked_at: Option<u64>,
    pub(super) answer: Option<Answer>,
    /// Since when it says that it is through.
    over_since: Option<u64>,
}

impl Question {
    /// Takes the answer.
    pub(super) fn take(&mut self, answer: Answer, now: u64) {
        self.asked_at = None;
        self.answer = Some(answer);
        let is_over = answer.progress == Progress::Over;
        self.over_since = is_over.then_some(self.over_since.unwrap_or(now));
    }
}

/// What an operation knows of those that it waits for, and who waits for it.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// When it asks next.
    pub(super) ask_at: Option<u64>,
    began_at: u64,
    /// The least time between two questions.
    interval: u64,
    pub(super) questions: Vec<Question>,
    /// Who has asked it.
    pub(super) askers: Vec<u32>,
    /// Whom the askers know of.
    told: Option<Culprit>,
    /// News that may yet be told before the next question.
    news_left: u32,
}

/// Ranks of whom a new operation has room to know.
const ROOM: usize = 32;

impl Watch {
    /// Room for a world of `size`.
    pub(super) fn with_room(size: usize) -> Self {
        let room = size.min(ROOM);
        let (questions, askers) = (Vec::with_capacity(room), Vec::with_capacity(room));
        Self { questions, askers, ..Self::default() }
    }

    /// The operation begins.
    pub(super) fn begin(&mut self, now: u64, timeout_ns: Option<u64>, heartbeat_ns: u64) {
        let most = heartbeat_ns.min(PATIENCE_NS);
        let patience = timeout_ns.map_or(most, |limit| (limit / 4).min(most));
        self.began_at = now;
        self.interval = (patience / 2).max(1);
        self.ask_at = Some(now.saturating_add(patience));
        self.news_left = NEWS_MAX;
    }

    /// It is over.
    pub(super) fn clear(&mut self) {
        self.ask_at = None;
        self.questions.clear();
        self.askers.clear();
        self.told = None;
    }

    /// Sets the time of the next question: the longer it has waited, the rarer, and at least one in `most`.
    pub(super) fn reschedule(&mut self, now: u64, most: u64) {
        let waited = now.saturating_sub(self.began_at);
        let pause = (waited / 8).clamp(self.interval, most.max(self.interval));
        self.ask_at = Some(now.saturating_add(pause));
        self.news_left = NEWS_MAX;
    }

    /// This process has slept for so long: nobody is to blame for that time.
    pub(super) fn excuse(&mut self, slept: u64) {
        for question in &mut self.questions {
            for since in [&mut question.asked_at, &mut question.over_since] {
                *since = since.map(|since| since.saturating_add(slept));
            }
        }
    }

    /// The question to a peer.
    pub(super) fn question(&mut self, peer: u32) -> &mut Question {
        let at = self.questions.iter().position(|question| question.peer == peer);
        let at = at.unwrap_or_else(|| {
            self.questions.push(Question { peer, asked_at: None, answer: None, over_since: None });
            self.questions.len() - 1
        });
        &mut self.questions[at]
    }

    /// Whether a question that was asked at that time should have been answered by now.
    pub(super) fn is_overdue(&self, asked_at: u64, now: u64) -> bool {
        now.saturating_sub(asked_at) >= self.interval / 2
    }

    /// Whether such a question has not been answered for so long that a slow link is no reason for it.
    pub(super) fn is_long_overdue(&self, asked_at: u64, now: u64) -> bool {
        now.saturating_sub(asked_at) >= self.interval.saturating_mul(4)
    }

    /// Notes who has asked.
    pub(super) fn add_asker(&mut self, peer: u32) {
        if !self.askers.contains(&peer) {
            self.askers.push(peer);
        }
    }

    /// Whether those who have asked must be told of this culprit now, and notes that they are.
    pub(super) fn is_news(&mut self, culprit: Option<Culprit>) -> bool {
        let is_same = match (self.told, culprit) {
            (None, None) => true,
            (Some(old), Some(new)) => old.is_same(&new),
            _ => false,
        };
        let is_told = !is_same && self.news_left > 0;
        if is_told {
            self.told = culprit;
            self.news_left -= 1;
        }
        is_told
    }

    /// For how long a rank has said that it is through, if that is too long for its bytes to be under way.
    pub(super) fn is_over_for_long(&self, question: &Question, now: u64) -> bool {
        question.over_since.is_some_and(|since| self.is_overdue(since, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::frame::Kind;

    fn culprit(peer: u32, why: Why) -> Option<Culprit> {
        Some(Culprit { peer, why, detail: 5, hops: 0 })
    }

    #[test]
    fn answers_come_back() {
        for progress in [Progress::Running, Progress::Absent, Progress::Over] {
            for culprit in [None, culprit(3, Why::Silent), culprit(0, Why::Absent)] {
                let answer = Answer { progress, called: 7, culprit };
                let mut header = Header::control(Kind::Pong, 1);
                answer.write(&mut header);
                let header = Header::decode(&header.encode()).unwrap();
                let heard = culprit.map(Culprit::passed_on);
                assert_eq!(Answer::read(&header), Some(Answer { culprit: heard, ..answer }));
            }
        }
        assert_eq!(Answer::read(&Header::control(Kind::Pong, 1)), None);
    }

    #[test]
    fn the_worse_culprit_counts() {
        let (absent, silent) = (culprit(1, Why::Absent), culprit(2, Why::Silent));
        assert_eq!(Culprit::worse(absent, silent), silent);
        assert_eq!(Culprit::worse(silent, absent), silent);
        assert_eq!(Culprit::worse(culprit(4, Why::Absent), absent), absent);
        let far = absent.map(Culprit::passed_on);
        assert_eq!(Culprit::worse(culprit(4, Why::Absent), far), culprit(4, Why::Absent));
        assert_eq!(Culprit::worse(None, absent), absent);
    }

    #[test]
    fn an_operation_asks_in_good_time_and_ever_more_rarely() {
        let mut watch = Watch::default();
        watch.begin(1_000, Some(800), u64::MAX);
        assert_eq!(watch.ask_at, Some(1_200));
        watch.reschedule(1_200, 500);
        assert_eq!(watch.ask_at, Some(1_300));
        watch.begin(0, None, u64::MAX);
        assert_eq!(watch.ask_at, Some(PATIENCE_NS));
        let mut questions = 0;
        while watch.ask_at.unwrap() < 600 * PATIENCE_NS {
            let now = watch.ask_at.unwrap();
            watch.reschedule(now, 10 * PATIENCE_NS);
            assert!(watch.ask_at.unwrap() <= now + 10 * PATIENCE_NS);
            questions += 1;
        }
        assert!(questions < 100, "{questions} questions in ten minutes");
    }

    #[test]
    fn the_time_in_which_this_process_slept_does_not_count() {
        let mut watch = Watch::default();
        watch.begin(0, Some(800), u64::MAX);
        watch.question(3).asked_at = Some(200);
        assert!(watch.is_overdue(200, 1_000));
        watch.excuse(790);
        let asked_at = watch.question(3).asked_at.unwrap();
        assert!(!watch.is_overdue(asked_at, 1_000));
    }

    #[test]
    fn the_same_culprit_is_no_news() {
        let mut watch = Watch::default();
        watch.begin(0, None, u64::MAX);
        assert!(!watch.is_news(None));
        assert!(watch.is_news(culprit(1, Why::Absent)));
        assert!(!watch.is_news(Some(Culprit { peer: 1, why: Why::Absent, detail: 9, hops: 2 })));
        assert!(watch.is_news(culprit(1, Why::Silent)));
        assert!(watch.is_news(None));
        assert!(watch.is_news(culprit(2, Why::Absent)));
        assert!(!watch.is_news(None), "there were {NEWS_MAX} before");
        watch.reschedule(PATIENCE_NS, PATIENCE_NS);
        assert!(watch.is_news(None), "nobody has been told that yet");
    }
}
