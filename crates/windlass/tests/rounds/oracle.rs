//! What the world outside of the store knows: who was told that a job is accepted, which attempts began, and when each of
//! them moved. It is judged when the round is over, against what the store has then.
//!
//! An attempt that is held still does not move. So two may be under way at once as long as they do not move at once:
//! each is a row of stretches in which it moved, and stretches are what must not overlap.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use windlass::core::event::What;
use windlass::core::job::{Entry, Job};
use windlass::core::time::Clock;
use windlass::world::RealWorld;
use windlass::{JobId, StateName, Time};

/// How many may run at once of the queue with a limit, and of the budget with slots.
pub const AT_ONCE: usize = 2;
/// How many of the budget with seconds may start in any second.
pub const PER_SECOND: usize = 3;
/// How many of the budget with a day may start in any 24 hours: in all.
pub const PER_DAY: usize = 12;
/// Two moves that are further apart are no stretch: whoever moved may have been held still in between.
const STRETCH_GAP_MS: u64 = 500;

/// What the load is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sort {
    Plain,
    Long,
    Keyed,
    Limited,
    Slots,
    Second,
    Day,
    Tick,
}

impl Sort {
    pub const ENQUEUED: [Self; 7] =
        [Self::Plain, Self::Long, Self::Keyed, Self::Limited, Self::Slots, Self::Second, Self::Day];

    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    pub fn of(job: &Job) -> Self {
        let kind = job.spec.kind.as_str();
        let all = Self::ENQUEUED.into_iter().chain([Self::Tick]);
        all.into_iter().find(|sort| sort.name() == kind).expect("a job of the load")
    }
}

/// A moment in the order of what the oracle heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

/// Moves that follow each other closely.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    from: u64,
    to: u64,
    last_ms: u64,
}

/// An attempt, as the handler saw it.
#[derive(Debug)]
struct Attempt {
    job: JobId,
    fence: u64,
    sort: Sort,
    key: Option<String>,
    /// When it was claimed, by the store's clock.
    claimed_at: Time,
    moves: Vec<Stretch>,
}

#[derive(Default)]
struct Seen {
    heard: u64,
    attempts: Vec<Attempt>,
    known: HashMap<(JobId, u64), usize>,
    /// Jobs whose enqueue was answered, and when.
    accepted: HashMap<JobId, u64>,
    /// Jobs whose step was said to be durable, and when.
    steps: HashMap<JobId, u64>,
    /// Of these the step was run again; whether it had been stored in a commit that is lost is known at the end.
    steps_again: Vec<(JobId, u64)>,
    /// Attempts whose handler has come to its end, and when.
    ended: HashMap<(JobId, u64), u64>,
    lost: HashSet<(JobId, u64)>,
    wrong: Vec<String>,
}

impl Seen {
    fn next(&mut self) -> u64 {
        self.heard += 1;
        self.heard
    }
}

/// What the store has when the round is over.
pub struct Left {
    pub jobs: HashMap<JobId, Job>,
    /// Fences below this are of before the last cut of history.
    pub floor: u64,
    /// Which commits may be lost; nothing where none are.
    pub lost: Option<Lost>,
}

/// The commits of these moments may be lost.
#[derive(Debug, Clone, Copy)]
pub struct Lost {
    pub from: Moment,
    pub to: Moment,
}

impl Left {
    /// Whether what was answered at this moment must be there.
    fn keeps(&self, at: u64) -> bool {
        self.lost.is_none_or(|lost| at < lost.from.0)
    }
}

/// Hears everything.
#[derive(Default)]
pub struct Oracle {
    clock: RealWorld,
    seen: Mutex<Seen>,
}

impl Oracle {
    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn now_ms(&self) -> u64 {
        self.clock.boot_ms()
    }

    pub fn now(&self) -> Moment {
        Moment(self.seen().next())
    }

    /// An enqueue was answered.
    pub fn accepted(&self, jobs: impl Iterator<Item = JobId>) {
        let mut seen = self.seen();
        let at = seen.next();
        seen.accepted.extend(jobs.map(|job| (job, at)));
    }

    /// How many attempts have begun.
    pub fn begun(&self) -> usize {
        self.seen().attempts.len()
    }

    /// An attempt begins.
    pub fn begins(&self, job: &Job) {
        let mut seen = self.seen();
        let at = seen.attempts.len();
        if seen.known.insert((job.id, job.fence), at).is_some() {
            seen.wrong.push(format!("{} was given twice with fence {}", job.id, job.fence));
        }
        seen.attempts.push(Attempt {
            job: job.id,
            fence: job.fence,
            sort: Sort::of(job),
            key: job.spec.key.as_ref().map(|key| key.to_string()),
            claimed_at: job.started_at.expect("a job that is claimed has started"),
            moves: Vec::new(),
        });
        drop(seen);
        self.moves(job);
    }

    /// It moves: its handler was let run.
    pub fn moves(&self, job: &Job) {
        let now_ms = self.now_ms();
        let mut seen = self.seen();
        let (at, known) = (seen.next(), seen.known[&(job.id, job.fence)]);
        let moves = &mut seen.attempts[known].moves;
        match moves.last_mut().filter(|last| now_ms - last.last_ms <= STRETCH_GAP_MS) {
            Some(last) => (last.to, last.last_ms) = (at, now_ms),
            None => moves.push(Stretch { from: at, to: at, last_ms: now_ms }),
        }
    }

    /// The body of its step is run.
    pub fn runs_step(&self, job: &Job) {
        let mut seen = self.seen();
        if let Some(stored) = seen.steps.remove(&job.id) {
            seen.steps_again.push((job.id, stored));
        }
    }

    /// Its step is said to be durable.
    pub fn has_step(&self, job: &Job) {
        let mut seen = self.seen();
        let at = seen.next();
        seen.steps.entry(job.id).or_insert(at);
    }

    /// Its handler has come to its end.
    pub fn ends(&self, job: &Job) {
        let mut seen = self.seen();
        let at = seen.next();
        seen.ended.insert((job.id, job.fence), at);
    }

    /// Its worker was told that the lease is lost.
    pub fn loses(&self, job: JobId, fence: u64) {
        self.seen().lost.insert((job, fence));
    }

    /// All leases that were ever given.
    pub fn leases(&self) -> Vec<(JobId, u64)> {
        self.seen().known.keys().copied().collect()
    }

    /// What was wrong, in sentences.
    pub fn judge(&self, left: &Left) -> Vec<String> {
        let seen = self.seen();
        let mut wrong = seen.wrong.clone();
        let again = seen.steps_again.iter().filter(|(_, stored)| left.keeps(*stored));
        wrong.extend(again.map(|(job, _)| format!("the step of {job} was stored, and was run again")));
        wrong.extend(missing(&seen, left));
        wrong.extend(left.jobs.values().filter_map(|job| unhealthy(&seen, left, job)));
        wrong.extend(at_once(&seen));
        wrong.extend(windows(&seen, left));
        wrong
    }
}

/// Jobs that were accepted, not in a commit that may be lost, and are not there.
fn missing(seen: &Seen, left: &Left) -> Vec<String> {
    let gone = seen.accepted.iter().filter(|(id, at)| left.keeps(**at) && !left.jobs.contains_key(*id));
    gone.map(|(id, _)| format!("{id} was accepted and is gone")).collect()
}

/// A job of a healthy handler that is not completed once, or was thought to have crashed or failed.
fn unhealthy(seen: &Seen, left: &Left, job: &Job) -> Option<String> {
    // Whoever was answered too late to begin gives the job back. An end in a commit that is lost is known to nobody.
    let may_be = |entry: &Entry| match entry.what {
        What::Released => true,
        What::Crashed => {
            let ended = seen.ended.get(&(job.id, entry.fence));
            ended.zip(left.lost).is_some_and(|(ended, lost)| *ended < lost.to.0)
        }
        _ => false,
    };
    if let Some(entry) = job.history.iter().find(|entry| !may_be(entry)) {
        return Some(format!("{} is healthy, and has a history: {entry:?}", job.id));
    }
    match job.state.name() {
        StateName::Queued if Sort::of(job) == Sort::Day => None,
        StateName::Completed if seen.lost.contains(&(job.id, job.fence)) => {
            Some(format!("{} was completed by another than its last holder", job.id))
        }
        StateName::Completed => None,
        name => Some(format!("{} is {name} with fence {}", job.id, job.fence)),
    }
}

/// More that moved at once than may: of a job, of a key, of the queue with a limit, of the budget with slots.
fn at_once(seen: &Seen) -> Vec<String> {
    let mut groups: BTreeMap<String, (usize, Vec<Stretch>)> = BTreeMap::new();
    for attempt in &seen.attempts {
        let Attempt { job, sort, key, moves, .. } = attempt;
        let many = matches!(sort, Sort::Limited | Sort::Slots).then(|| (sort.name(), AT_ONCE));
        let key = key.as_ref().map(|key| (format!("the key {key}"), 1));
        for (group, most) in [(job.to_string(), 1)].into_iter().chain(many).chain(key) {
            groups.entry(group).or_insert((most, Vec::new())).1.extend(moves);
        }
    }
    let most_at_once = |stretches: &[Stretch]| {
        let count = |at: u64| stretches.iter().filter(|other| other.from <= at && at <= other.to).count();
        stretches.iter().map(|stretch| count(stretch.from)).max().unwrap_or(0)
    };
    let over = groups.into_iter().filter_map(|(group, (most, stretches))| {
        let found = most_at_once(&stretches);
        (found > most).then(|| format!("{found} attempts of {group} moved at once, and {most} may"))
    });
    over.collect()
}

/// Windows of budgets in which more started than may. What lost commits had spent of a day is not known to anybody.
fn windows(seen: &Seen, left: &Left) -> Vec<String> {
    let mut wrong = Vec::new();
    let of = |sort: Sort| seen.attempts.iter().filter(move |attempt| attempt.sort == sort);
    let mut starts: Vec<i64> = of(Sort::Second).map(|attempt| attempt.claimed_at.ms()).collect();
    starts.sort_unstable();
    for window in starts.windows(PER_SECOND + 1) {
        let length = window[PER_SECOND] - window[0];
        if length < 1_000 {
            wrong.push(format!("{} started within {length} ms, {PER_SECOND} may in a second", window.len()));
        }
    }
    let is_lost = |attempt: &&Attempt| {
        let began = attempt.moves.first().map(|first| first.from);
        began.is_some_and(|began| !left.keeps(began)) && attempt.fence < left.floor
    };
    let (all, lost) = (of(Sort::Day).count(), of(Sort::Day).filter(is_lost).count());
    if all > PER_DAY + lost {
        wrong.push(format!("{all} started in a day, {lost} of them in lost commits; {PER_DAY} may"));
    }
    wrong
}

/// The oracle can say no: each of these is one thing that must not be.
#[cfg(test)]
mod tests {
    use super::*;
    use windlass::core::job::JobSpec;
    use windlass::core::state::State;
    use windlass::{JobRequest, world::new_id};

    fn job(sort: Sort, claimed_ms: i64) -> Job {
        let request = JobRequest::<serde_json::Value>::new(&sort.name(), 0).id(new_id(&RealWorld::new()));
        let new = request.key("one").build().expect("a job");
        let spec = JobSpec { key: new.spec.key.clone().filter(|_| sort == Sort::Keyed), ..new.spec };
        Job {
            id: new.id,
            seq: 1,
            spec,
            rank: 0,
            created_at: Time::from_ms(0),
            run_at: Time::from_ms(0),
            state: State::Completed { ended_at: Time::from_ms(1), result: None },
            attempt: 1,
            crashes: 0,
            fence: 1,
            retries: 0,
            started_at: Some(Time::from_ms(claimed_ms)),
            worker: None,
            progress: None,
            steps: Vec::new(),
            history: Vec::new(),
        }
    }

    fn judged(oracle: &Oracle, jobs: &[Job]) -> Vec<String> {
        let jobs = jobs.iter().map(|job| (job.id, job.clone())).collect();
        oracle.judge(&Left { jobs, floor: 0, lost: None })
    }

    fn check(what: &str, wrong: &[String]) {
        assert!(wrong.iter().any(|found| found.contains(what)), "{what}: {wrong:?}");
    }

    #[test]
    fn what_is_given_twice_or_gone_or_crashed_is_found() {
        let (oracle, mut one) = (Oracle::default(), job(Sort::Plain, 0));
        oracle.begins(&one);
        assert_eq!(judged(&oracle, &[one.clone()]), Vec::<String>::new());
        oracle.begins(&one);
        oracle.accepted([one.id].into_iter());
        oracle.has_step(&one);
        oracle.runs_step(&one);
        let wrong = judged(&oracle, &[]);
        for what in ["given twice", "is gone", "was run again"] {
            check(what, &wrong);
        }
        let (at, what) = (Time::from_ms(9), What::Crashed);
        let entry = Entry { at, what, attempt: 1, fence: 1, worker: None, started_at: None, error: None };
        one.history.push(entry);
        check("has a history", &judged(&oracle, &[one.clone()]));
        one.history.clear();
        oracle.loses(one.id, 1);
        check("by another", &judged(&oracle, &[one]));
    }

    #[test]
    fn what_moves_at_once_is_found() {
        for (sort, most) in [(Sort::Keyed, 1), (Sort::Limited, AT_ONCE), (Sort::Slots, AT_ONCE)] {
            let oracle = Oracle::default();
            let jobs: Vec<Job> = (0..=most).map(|_| job(sort, 0)).collect();
            jobs.iter().for_each(|job| oracle.begins(job));
            // They have begun one after the other; the first goes on while the last is under way.
            assert_eq!(judged(&oracle, &jobs), Vec::<String>::new());
            jobs.iter().for_each(|job| oracle.moves(job));
            check("moved at once", &judged(&oracle, &jobs));
        }
    }

    #[test]
    fn windows_that_are_over_are_found() {
        for (sort, most, apart_ms) in [(Sort::Second, PER_SECOND, 300), (Sort::Day, PER_DAY, 60_000)] {
            let oracle = Oracle::default();
            let jobs: Vec<Job> = (0..=most as i64).map(|n| job(sort, n * apart_ms)).collect();
            jobs[1..].iter().for_each(|job| oracle.begins(job));
            assert_eq!(judged(&oracle, &jobs), Vec::<String>::new());
            oracle.begins(&jobs[0]);
            check("started", &judged(&oracle, &jobs));
        }
    }
}
