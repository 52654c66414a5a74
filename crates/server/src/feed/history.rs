//! What happened in each minute of the last day, by queue: for charts that are hours long.
//!
//! The counts are those of all events up to one position. Two servers of a store count the same events, so that of two
//! counts of one minute the greater is the one that knows more: they are put together by the maximum, however often
//! and in whatever order that is done.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_engine::core::event::{Event, Position, What};
use windlass_engine::core::id::QueueName;
use windlass_engine::core::time::Time;
use windlass_report::schema::Moment;

use super::spread::Spread;

/// How far back it goes.
pub(crate) const MINUTES: i64 = 24 * 60;
/// How many minutes are kept as one record.
pub(super) const BLOCK_MINUTES: i64 = 10;
/// How many queues of a minute are counted apart; further ones go into one.
const QUEUES_MAX: usize = 100;
/// Where further queues go.
const OTHERS: &str = "(others)";

/// How it went with a queue in a minute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Minute {
    enqueued: u64,
    completed: u64,
    failed: u64,
    retrying: u64,
    #[serde(skip_serializing_if = "Spread::is_empty")]
    wait_ms: Spread,
    #[serde(skip_serializing_if = "Spread::is_empty")]
    run_ms: Spread,
}

/// The minutes of a block that something happened in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Block(BTreeMap<i64, BTreeMap<QueueName, Minute>>);

/// The last day.
#[derive(Default)]
pub(crate) struct History {
    blocks: BTreeMap<i64, Block>,
    /// Those of which not all is written down.
    changed: BTreeSet<i64>,
    position: Option<Position>,
}

impl Minute {
    /// The count of an event; nothing when it is not counted.
    fn count_of(what: What) -> Option<fn(&mut Self) -> &mut u64> {
        match what {
            What::Enqueued => Some(|minute| &mut minute.enqueued),
            What::Completed => Some(|minute| &mut minute.completed),
            What::Failed => Some(|minute| &mut minute.failed),
            What::Retrying | What::Crashed => Some(|minute| &mut minute.retrying),
            _ => None,
        }
    }

    fn merge(&mut self, other: &Self) {
        let Self { enqueued, completed, failed, retrying, wait_ms, run_ms } = other;
        self.enqueued = self.enqueued.max(*enqueued);
        self.completed = self.completed.max(*completed);
        self.failed = self.failed.max(*failed);
        self.retrying = self.retrying.max(*retrying);
        self.wait_ms.merge(wait_ms);
        self.run_ms.merge(run_ms);
    }

    fn add(&mut self, other: &Self) {
        self.enqueued += other.enqueued;
        self.completed += other.completed;
        self.failed += other.failed;
        self.retrying += other.retrying;
        self.wait_ms.add(&other.wait_ms);
        self.run_ms.add(&other.run_ms);
    }

    /// What it says of the events that the charts of the last minutes count.
    pub(super) fn counts(&self) -> [(What, u64); 4] {
        [
            (What::Enqueued, self.enqueued),
            (What::Completed, self.completed),
            (What::Failed, self.failed),
            (What::Retrying, self.retrying),
        ]
    }
}

impl Block {
    fn queue(&mut self, minute: i64, queue: &QueueName) -> &mut Minute {
        let queues = self.0.entry(minute).or_default();
        let apart = queues.len() < QUEUES_MAX || queues.contains_key(queue);
        let queue = if apart { queue.clone() } else { QueueName::new(OTHERS).unwrap_or_default() };
        queues.entry(queue).or_default()
    }

    /// What somebody else has counted in the same minutes, who may know more.
    pub(super) fn merge(&mut self, other: &Self) {
        for (minute, queues) in &other.0 {
            for (queue, counted) in queues {
                self.queue(*minute, queue).merge(counted);
            }
        }
    }
}

fn minute_of(at: Time) -> i64 {
    at.ms().div_euclid(60_000)
}

impl History {
    /// Counts an event.
    pub(super) fn count(&mut self, event: &Event) {
        self.position = Some(event.position);
        let Some(count_of) = Minute::count_of(event.what) else { return };
        let minute = minute_of(event.at);
        let block = minute.div_euclid(BLOCK_MINUTES);
        *count_of(self.block(block).queue(minute, &event.queue)) += event.jobs.len() as u64;
        self.changed.insert(block);
    }

    /// Takes note of how long a job waited and ran that ended then.
    pub(super) fn sample(&mut self, queue: &QueueName, at: Time, wait_ms: u64, run_ms: u64) {
        let minute = minute_of(at);
        let block = minute.div_euclid(BLOCK_MINUTES);
        let counted = self.block(block).queue(minute, queue);
        counted.wait_ms.note(wait_ms);
        counted.run_ms.note(run_ms);
        self.changed.insert(block);
    }

    fn block(&mut self, block: i64) -> &mut Block {
        self.blocks.entry(block).or_default()
    }

    /// Learns what somebody counted, before it counts on itself.
    pub(super) fn learn(&mut self, block: i64, counted: &Block) {
        self.block(block).merge(counted);
    }

    /// Up to where events were counted.
    pub(super) fn position(&self) -> Option<Position> {
        self.position
    }

    /// The history of the events goes on there.
    pub(super) fn go_on_at(&mut self, position: Position) {
        self.position = Some(position);
    }

    /// What is to be written down; it counts as written until it is said not to be.
    pub(super) fn take_changed(&mut self) -> BTreeSet<i64> {
        std::mem::take(&mut self.changed)
    }

    /// These are not written down.
    pub(super) fn put_back(&mut self, blocks: BTreeSet<i64>) {
        self.changed.extend(blocks);
    }

    /// What was counted in a block.
    pub(super) fn of_block(&self, block: i64) -> Block {
        self.blocks.get(&block).cloned().unwrap_or_default()
    }

    /// Forgets what is older than it goes back.
    pub(super) fn forget(&mut self, now: Time) {
        let oldest = oldest_block(now);
        self.blocks.retain(|block, _| *block >= oldest);
        self.changed.retain(|block| *block >= oldest);
    }

    /// The counts of all queues of the minutes since then.
    pub(super) fn since(&self, at: Time) -> impl Iterator<Item = (i64, &Minute)> {
        let first = minute_of(at);
        let minutes = self.blocks.values().flat_map(|block| &block.0);
        let minutes = minutes.filter(move |(minute, _)| **minute >= first);
        minutes.flat_map(|(minute, queues)| queues.values().map(|counted| (*minute, counted)))
    }

    /// How it went in the span before `now`, with one queue or with all.
    pub(crate) fn points(&self, queue: Option<&QueueName>, span: Span, now: Time) -> HistoryView {
        let end = minute_of(now);
        let begin = end - span.minutes();
        let mut points = vec![Minute::default(); (span.minutes() / span.step_minutes()) as usize];
        let blocks = self.blocks.range(begin.div_euclid(BLOCK_MINUTES)..).map(|(_, block)| block);
        for (minute, queues) in blocks.flat_map(|block| block.0.range(begin..end)) {
            let point = &mut points[((minute - begin) / span.step_minutes()) as usize];
            match queue {
                Some(queue) => queues.get(queue).into_iter().for_each(|counted| point.add(counted)),
                None => queues.values().for_each(|counted| point.add(counted)),
            }
        }
        let jobs = |count: fn(&Minute) -> u64| points.iter().map(count).collect();
        HistoryView {
            from: Time::from_ms(begin * 60_000),
            step_seconds: span.step_minutes() as u64 * 60,
            enqueued: jobs(|point| point.enqueued),
            completed: jobs(|point| point.completed),
            failed: jobs(|point| point.failed),
            retrying: jobs(|point| point.retrying),
            wait_ms: points.iter().map(|point| point.wait_ms.p95()).collect(),
            run_ms: points.iter().map(|point| point.run_ms.p95()).collect(),
        }
    }
}

/// The oldest block of which something is shown.
pub(super) fn oldest_block(now: Time) -> i64 {
    (minute_of(now) - MINUTES).div_euclid(BLOCK_MINUTES)
}

/// How far a chart goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Span {
    Hour,
    SixHours,
    Day,
}

impl Span {
    pub(crate) const ALL: [Self; 3] = [Self::Hour, Self::SixHours, Self::Day];

    /// As it is asked for.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Hour => "1h",
            Self::SixHours => "6h",
            Self::Day => "24h",
        }
    }

    /// The span of a word.
    pub(crate) fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|span| span.as_str() == word)
    }

    pub(crate) fn minutes(self) -> i64 {
        match self {
            Self::Hour => 60,
            Self::SixHours => 360,
            Self::Day => MINUTES,
        }
    }

    /// How long one point of it stands for.
    fn step_minutes(self) -> i64 {
        match self {
            Self::Hour => 1,
            Self::SixHours => 5,
            Self::Day => 15,
        }
    }
}

/// How it went, for points of `step_seconds` from `from` on: how many jobs were accepted, completed, failed for good, and
/// failed with another attempt to come; and how long 95 of a hundred waited and ran at most, of those looked at.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "History")]
pub(crate) struct HistoryView {
    #[schemars(with = "Moment")]
    pub from: Time,
    pub step_seconds: u64,
    pub enqueued: Vec<u64>,
    pub completed: Vec<u64>,
    pub failed: Vec<u64>,
    pub retrying: Vec<u64>,
    pub wait_ms: Vec<Option<u64>>,
    pub run_ms: Vec<Option<u64>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_engine::core::id::JobId;

    fn event(minute: i64, queue: &str, what: What, jobs: usize, place: u64) -> Event {
        Event {
            position: Position { epoch: 1, place },
            at: Time::from_ms(minute * 60_000 + 59_999),
            what,
            queue: QueueName::new(queue).unwrap(),
            jobs: vec![JobId(uuid::Uuid::nil()); jobs],
            action: None,
        }
    }

    fn at(minute: i64) -> Time {
        Time::from_ms(minute * 60_000)
    }

    #[test]
    fn a_day_is_counted_by_queue() {
        let mut history = History::default();
        history.count(&event(1_000, "mail", What::Completed, 10, 1));
        history.count(&event(1_001, "bulk", What::Completed, 5, 2));
        history.count(&event(1_001, "mail", What::Crashed, 1, 3));
        // The minute that is not over is not shown.
        history.count(&event(1_060, "mail", What::Completed, 7, 4));
        let mail = QueueName::new("mail").unwrap();
        let hour = history.points(Some(&mail), Span::Hour, at(1_060));
        assert_eq!((hour.from, hour.completed.len(), hour.step_seconds), (at(1_000), 60, 60));
        assert_eq!((&hour.completed[..2], hour.retrying[1]), (&[10, 0][..], 1));
        assert_eq!(hour.completed.iter().sum::<u64>(), 10);
        let day = history.points(None, Span::Day, at(1_061));
        assert_eq!((day.completed.iter().sum::<u64>(), day.completed.len()), (22, 96));
        let six = history.points(None, Span::SixHours, at(1_001));
        assert_eq!((six.completed[71], six.completed.len()), (10, 72));
    }

    #[test]
    fn of_two_that_count_the_same_the_one_who_knows_more_is_right() {
        let (mut early, mut late) = (History::default(), History::default());
        for place in 1..=3 {
            let event = event(1_000, "mail", What::Completed, 2, place);
            late.count(&event);
            if place < 3 {
                early.count(&event);
            }
        }
        late.sample(&QueueName::new("mail").unwrap(), at(1_000), 3, 40);
        let mut both = early.of_block(100);
        both.merge(&late.of_block(100));
        assert_eq!(both, late.of_block(100));
        both.merge(&early.of_block(100));
        assert_eq!(both, late.of_block(100));
        early.learn(100, &both);
        let hour = early.points(None, Span::Hour, at(1_001));
        assert_eq!((hour.completed[59], hour.wait_ms[59], hour.run_ms[58]), (6, Some(3), None));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut history = History::default();
        for place in 0..2 * QUEUES_MAX {
            history.count(&event(1_000, &format!("q{place}"), What::Enqueued, 1, place as u64 + 1));
        }
        let block = history.of_block(100);
        assert_eq!(block.0[&1_000].len(), QUEUES_MAX + 1);
        let all = history.points(None, Span::Hour, at(1_001));
        assert_eq!(all.enqueued[59], 2 * QUEUES_MAX as u64);
        history.forget(at(1_000 + MINUTES + BLOCK_MINUTES));
        assert!(history.blocks.is_empty() && history.changed.is_empty());
    }

    #[test]
    fn blocks_survive_as_text() {
        let mut history = History::default();
        history.count(&event(1_000, "mail", What::Failed, 1, 1));
        history.sample(&QueueName::new("mail").unwrap(), at(1_000), 0, 70_000);
        let block = history.of_block(100);
        let text = serde_json::to_string(&block).unwrap();
        assert_eq!(serde_json::from_str::<Block>(&text).unwrap(), block, "{text}");
    }
}
