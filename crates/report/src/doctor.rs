//! What is wrong, and what to do about it: for `windlass doctor` and for the top of the overview.

use std::collections::BTreeSet;

use serde::Serialize;
use windlass_engine::core::audit::{AuditFrom, FINDINGS_MAX};
use windlass_engine::core::error::StoreError;
use windlass_engine::core::id::{BudgetName, Kind, QueueName};
use windlass_engine::core::job::Job;
use windlass_engine::core::query::{JobFilter, QueueStatus, WORKER_ALIVE_MS, WorkerStatus};
use windlass_engine::core::state::{FailureReason, State, StateName};
use windlass_engine::core::store::{EpochStatus, Risk, Store};
use windlass_engine::core::time::{Span, Time};

use crate::address::encoded;
use crate::search::find;
use crate::waiting::{self, Waiting};
use crate::words::{agreeing, counted, number};

/// A lease that ran out this long ago should have been taken back.
const OVERDUE_MS: u64 = 30_000;
/// A job that could run waits too long after this.
const WAITING_MS: u64 = 300_000;
/// Where nobody works any more it is too long after this: a program may just be starting again. Where nobody ever did, it
/// is at once.
const ALONE_MS: u64 = 10_000;

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What, as a sentence.
    pub wrong: String,
    /// What to do, as a sentence.
    pub next: String,
    /// The command that does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Where the dashboard shows it.
    #[serde(skip)]
    pub link: Option<String>,
    /// A call of the API that does it: what it is called, and its path.
    #[serde(skip)]
    pub act: Option<(&'static str, String)>,
}

impl Finding {
    fn new(wrong: impl Into<String>, next: impl Into<String>) -> Self {
        Self { wrong: wrong.into(), next: next.into(), command: None, link: None, act: None }
    }

    fn command(mut self, command: String) -> Self {
        self.command = Some(command);
        self
    }

    fn link(mut self, link: String) -> Self {
        self.link = Some(link);
        self
    }
}

/// Looks at the newest queued jobs, and at so many running and failed ones at most.
pub async fn look(store: &dyn Store, jobs_max: usize) -> Result<Vec<Finding>, StoreError> {
    look_beside(store, &waiting::look(store, waiting::PAGES_MAX).await?, jobs_max).await
}

/// Looks at what else is wrong, where queued jobs were looked at.
pub async fn look_beside(
    store: &dyn Store,
    queued: &Waiting,
    jobs_max: usize,
) -> Result<Vec<Finding>, StoreError> {
    let (now, workers, queues) = tokio::try_join!(store.now(), store.workers(), store.queues())?;
    let alive: Vec<&WorkerStatus> =
        workers.iter().filter(|worker| now.ms_since(worker.seen_at) <= WORKER_ALIVE_MS).collect();
    let mut findings = Vec::new();
    let crew = Crew { now, known: &workers, alive: &alive };
    match alone(&queues, queued, &crew) {
        Some(finding) => findings.push(finding),
        None => {
            findings.extend(queues.iter().filter_map(|queue| slow(queue, queued, &crew)));
            unknown_kinds(queued, &alive, &mut findings);
        }
    }
    findings.extend(queues.iter().filter_map(overfull));
    unknown_budgets(store, queued, &mut findings).await?;
    findings.extend(overdue(&jobs_in(store, StateName::Running, jobs_max).await?, now));
    findings.extend(quarantined(&jobs_in(store, StateName::Failed, jobs_max).await?));
    Ok(findings)
}

/// What a change of the store's history holds back.
pub fn epoch_pause(status: &EpochStatus) -> Option<Risk> {
    let EpochStatus { epoch, paused_until } = status;
    let until = (*paused_until)?;
    let what = format!(
        "the store was restored or failed over at {} (epoch {}), and commits may be lost: jobs that somebody may still hold \
         by these wait until {until}",
        epoch.began_at, epoch.number
    );
    Some(Risk::new(
        what,
        "nothing has to be done; what is enqueued now starts at once, unless something counts it",
    ))
}

impl From<Risk> for Finding {
    /// A risk that is worth a place on top of the overview, as sentences.
    fn from(Risk { what, next }: Risk) -> Self {
        let sentence = |text: String| {
            let mut letters = text.chars();
            let first = letters.next().map(|letter| letter.to_ascii_uppercase());
            first.into_iter().chain(letters).collect::<String>()
        };
        Self::new(sentence(what), sentence(next))
    }
}

/// What contradicts itself in the store. It reads everything, and says after each bite how far it is: so much, of so much.
pub async fn audit(store: &dyn Store, mut so_far: impl FnMut(u64, u64)) -> Result<Vec<Finding>, StoreError> {
    let what_to_do = "this must never be; keep a copy of the store as it is, and report it";
    let (mut findings, mut from) = (Vec::new(), Some(AuditFrom::default()));
    while let Some(at) = from.filter(|_| findings.len() < FINDINGS_MAX) {
        let bite = store.audit_bite(at).await?;
        so_far(bite.done, bite.of);
        findings.extend(bite.findings.into_iter().map(|wrong| Finding::new(wrong, what_to_do)));
        from = bite.next;
    }
    Ok(findings)
}

async fn jobs_in(store: &dyn Store, state: StateName, jobs_max: usize) -> Result<Vec<Job>, StoreError> {
    find(store, &JobFilter { states: vec![state], ..JobFilter::default() }.into(), jobs_max).await
}

/// Who works, and who was heard of in the last hour.
struct Crew<'a> {
    now: Time,
    known: &'a [WorkerStatus],
    alive: &'a [&'a WorkerStatus],
}

impl Crew<'_> {
    /// Whether somebody works for a queue.
    fn serves(&self, queue: &QueueName) -> bool {
        self.alive.iter().any(|worker| worker.queues.contains(queue))
    }

    /// How long a job of a queue for which nobody works may be due before that is said.
    fn patience_ms(&self, queue: &QueueName) -> u64 {
        let known = self.known.iter().any(|worker| worker.queues.contains(queue));
        if known { ALONE_MS } else { 0 }
    }

    /// Whether a job of this queue waits for a worker.
    fn lacks(&self, queue: &QueueStatus) -> bool {
        let waits_ms = queue.oldest_due.map(|at| self.now.ms_since(at));
        !self.serves(&queue.name) && waits_ms.is_some_and(|ms| ms >= self.patience_ms(&queue.name))
    }
}

/// Nobody works at all, and jobs could run.
fn alone(queues: &[QueueStatus], queued: &Waiting, crew: &Crew<'_>) -> Option<Finding> {
    if !crew.alive.is_empty() || !queues.iter().any(|queue| crew.lacks(queue)) {
        return None;
    }
    let mut kinds = queued.kinds.iter();
    let example = kinds.clone().find(|(_, (_, due))| *due).or_else(|| kinds.next());
    let finding = Finding::new(format!("No worker is alive, and {}", due(queued)), "Start a worker");
    let finding = finding.link("/waiting".to_owned());
    Some(match example {
        Some(((queue, kind), _)) => finding.command(work(kind, queue)),
        None => finding,
    })
}

/// How many jobs wait that could run.
fn due(queued: &Waiting) -> String {
    let Waiting { due, queued, partly, .. } = queued;
    match due {
        due if *partly => format!("at least {} of {} queued jobs wait", number(*due), number(*queued)),
        due => format!("{} {}", jobs(*due), agreeing(*due, "waits", "wait")),
    }
}

/// So many jobs, in words.
fn jobs(count: u64) -> String {
    counted(count, "job")
}

fn work(kind: &Kind, queue: &QueueName) -> String {
    let queue = match queue.as_str() {
        "default" => String::new(),
        name => format!(" --queue {}", quoted(name)),
    };
    format!("windlass work --kind {}{queue} -- PROGRAM", quoted(kind.as_str()))
}

/// How to start a worker for a queue: for the kind of a job that is due in it, where one was looked at.
fn one_more(queue: &QueueStatus, queued: &Waiting) -> String {
    let mut due = queued.kinds.iter().filter(|((name, _), (_, due))| *name == queue.name && *due);
    match due.next() {
        Some(((_, kind), _)) => work(kind, &queue.name),
        None => format!("windlass work --kind KIND --queue {} -- PROGRAM", quoted(queue.name.as_str())),
    }
}

fn slow(queue: &QueueStatus, queued: &Waiting, crew: &Crew<'_>) -> Option<Finding> {
    let name = &queue.name;
    let waits_ms = crew.now.ms_since(queue.oldest_due?);
    let lacks = !queue.paused && crew.lacks(queue);
    if waits_ms <= WAITING_MS && !lacks {
        return None;
    }
    // In minutes, once there are some: a sentence that changed every second would be another each time.
    let waits = match waits_ms / 60_000 {
        0 => String::new(),
        minutes => format!(", the oldest due for {}", Span::from_ms(minutes * 60_000)),
    };
    let wrong = |why: &str| format!("The queue {name} has {}{waits}: {why}", jobs(queue.queued));
    let link = format!("/jobs?state=queued&queue={}", encoded(name.as_str()));
    Some(match (queue.paused, lacks) {
        (true, _) => Finding {
            act: Some(("Resume", format!("/v1/queues/{}/resume", encoded(name.as_str())))),
            ..Finding::new(wrong("it is paused"), "Resume it")
        }
        .command(format!("windlass queues resume {}", quoted(name.as_str())))
        .link(link),
        (false, true) => Finding::new(wrong("no live worker claims from it"), "Start a worker for it")
            .command(one_more(queue, queued))
            .link(link),
        (false, false) => {
            let full = queue.policy.limit.filter(|limit| queue.running >= u64::from(*limit));
            let command = match full {
                Some(limit) => {
                    format!("windlass queues set {} --limit {}", quoted(name.as_str()), u64::from(limit) * 2)
                }
                None => one_more(queue, queued),
            };
            let next = match full {
                Some(_) => "Its limit is reached: raise it, or let it wait",
                None => "Add workers or slots, or look at its budgets",
            };
            Finding::new(wrong("its workers do not keep up"), next).command(command).link(link)
        }
    })
}

fn overfull(queue: &QueueStatus) -> Option<Finding> {
    let limit = queue.policy.limit.filter(|limit| queue.running > u64::from(*limit))?;
    let wrong = format!("The queue {} runs {}, and its limit is {limit}", queue.name, jobs(queue.running));
    let next = "This passes when the limit was lowered just now; if it stays, it is a fault of ours";
    Some(Finding::new(wrong, next).link("/queues".to_owned()))
}

fn unknown_kinds(queued: &Waiting, alive: &[&WorkerStatus], findings: &mut Vec<Finding>) {
    let unknown = queued.kinds.iter().filter(|((queue, kind), _)| {
        let mut serving = alive.iter().filter(|worker| worker.queues.contains(queue)).peekable();
        let knows = |worker: &&WorkerStatus| worker.kinds.as_ref().is_none_or(|kinds| kinds.contains(kind));
        serving.peek().is_some() && !serving.any(knows)
    });
    findings.extend(unknown.map(|((queue, kind), (count, _))| {
        let wait = agreeing(*count, "waits", "wait");
        let wrong = format!(
            "{} of the kind {kind} {wait} in the queue {queue}, and no live worker knows that kind",
            jobs(*count)
        );
        let (link, place) = (encoded(kind.as_str()), encoded(queue.as_str()));
        let link = format!("/jobs?state=queued&kind={link}&queue={place}");
        Finding::new(wrong, "Start a worker that knows it, or cancel them")
            .command(work(kind, queue))
            .link(link)
    }));
}

async fn unknown_budgets(
    store: &dyn Store,
    queued: &Waiting,
    findings: &mut Vec<Finding>,
) -> Result<(), StoreError> {
    let named = &queued.budgets;
    if named.is_empty() {
        return Ok(());
    }
    let known: BTreeSet<BudgetName> =
        store.budgets().await?.into_iter().map(|status| status.budget.name).collect();
    findings.extend(named.iter().filter(|budget| !known.contains(*budget)).map(|budget| {
        let wrong = format!("Jobs name the budget {budget}, which nobody defined: it allows everything");
        let command = format!("windlass budgets set {} --per-second 10", quoted(budget.as_str()));
        Finding::new(wrong, "Define it").command(command).link("/budgets".to_owned())
    }));
    Ok(())
}

fn overdue(running: &[Job], now: Time) -> Option<Finding> {
    let is_overdue =
        |job: &&Job| job.lease().is_some_and(|lease| now.ms_since(lease.expires_at) > OVERDUE_MS);
    let overdue = running.iter().filter(is_overdue).count();
    (overdue > 0).then(|| {
        let wrong = format!(
            "{} ran out, and nobody took {} back",
            counted(overdue as u64, "lease"),
            agreeing(overdue as u64, "it", "them")
        );
        Finding::new(wrong, "Start a worker or a server: any takes them back within seconds")
            .link("/jobs?state=running".to_owned())
    })
}

fn quarantined(failed: &[Job]) -> Option<Finding> {
    let is_quarantined =
        |job: &&Job| matches!(job.state, State::Failed { reason: FailureReason::Quarantined, .. });
    let quarantined = failed.iter().filter(is_quarantined).count();
    (quarantined > 0).then(|| {
        let (count, are) = (jobs(quarantined as u64), agreeing(quarantined as u64, "is", "are"));
        let wrong = format!("{count} {are} quarantined: the workers were lost three times in a row");
        Finding::new(wrong, "Look at one, mend what kills its worker, then retry")
            .command("windlass retry --state failed --dry-run".to_owned())
            .link("/jobs?state=failed".to_owned())
    })
}

/// A name as a word for a shell.
pub fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@".contains(c);
    if name.chars().all(plain) { name.to_owned() } else { format!("'{}'", name.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use windlass_engine::core::epoch::Epoch;
    use windlass_engine::core::id::WorkerName;
    use windlass_engine::core::job::{JobSpec, NewJob, Start};
    use windlass_engine::core::json::Json;
    use windlass_engine::core::memory::MemoryStore;
    use windlass_engine::core::query::ListRequest;
    use windlass_engine::core::store::WorkerBeat;
    use windlass_engine::core::time::Clock;
    use windlass_engine::world::{Ids, SimWorld};

    use super::*;

    /// What is for later does not wait for a worker, though its queue counts it.
    #[tokio::test]
    async fn without_workers_what_is_due_is_counted() {
        let world = SimWorld::new(1);
        let store = MemoryStore::new(Arc::new(world.clone()));
        let job = |start| NewJob {
            id: Ids::new(&world).make(),
            spec: JobSpec::new(Kind::new("k").unwrap(), QueueName::default(), Json::null()),
            start,
        };
        let later = Start::At(world.wall().plus_ms(3_600_000));
        store.enqueue(vec![job(Start::Now), job(later), job(later)]).await.unwrap();
        let said = async |pages_max| {
            let waiting = waiting::look(&store, pages_max).await.unwrap();
            look_beside(&store, &waiting, 200).await.unwrap()[0].wrong.clone()
        };
        assert_eq!(said(100).await, "No worker is alive, and 1 job waits");
        store.enqueue((0..1_000).map(|_| job(Start::Now)).collect()).await.unwrap();
        assert_eq!(said(100).await, "No worker is alive, and 1,001 jobs wait");
        assert_eq!(said(2).await, "No worker is alive, and at least 400 of 1,003 queued jobs wait");
    }

    /// Who never had a worker is told so at once; who had one a moment ago is given time to start it again.
    #[tokio::test]
    async fn a_queue_without_a_worker_is_told_of_at_once() {
        let world = SimWorld::new(1);
        let store = MemoryStore::new(Arc::new(world.clone()));
        let job = |queue: &str| NewJob {
            id: Ids::new(&world).make(),
            spec: JobSpec::new(Kind::new("send").unwrap(), QueueName::new(queue).unwrap(), Json::null()),
            start: Start::Now,
        };
        let beat = async |queue: &str| {
            let (name, queues) = (WorkerName::new("w").unwrap(), vec![QueueName::new(queue).unwrap()]);
            let (kinds, version, host) = (None, None, None);
            let beat = WorkerBeat { name, queues, kinds, slots: 1, running: 0, version, host };
            store.beat(beat).await.unwrap();
        };
        let said = async || {
            let found = look(&store, 200).await.unwrap();
            found.into_iter().map(|finding| finding.wrong).collect::<Vec<_>>()
        };
        beat("mail").await;
        store.enqueue(vec![job("mail")]).await.unwrap();
        assert_eq!(said().await, [""; 0], "somebody works for it");
        store.enqueue(vec![job("film")]).await.unwrap();
        assert_eq!(said().await, ["The queue film has 1 job: no live worker claims from it"]);
        store.pause_queue(QueueName::new("film").unwrap(), true).await.unwrap();
        assert_eq!(said().await, [""; 0], "it was paused just now");
        store.pause_queue(QueueName::new("film").unwrap(), false).await.unwrap();
        store
            .delete_all(store.list(everything()).await.unwrap().jobs.iter().map(|job| job.id).collect())
            .await
            .unwrap();
        world.advance(WORKER_ALIVE_MS + 1);
        store.enqueue(vec![job("mail")]).await.unwrap();
        assert_eq!(said().await, [""; 0], "its worker may be starting again");
        world.advance(ALONE_MS);
        assert_eq!(said().await, ["No worker is alive, and 1 job waits"]);
    }

    fn everything() -> ListRequest {
        ListRequest { filter: JobFilter::default(), limit: 200, after: None }
    }

    #[test]
    fn a_pause_of_the_epoch_is_told_as_long_as_it_lasts() {
        let (instance, began_at) = (uuid::Uuid::nil(), Time::from_ms(0));
        let epoch = Epoch { number: 3, instance, floor: 1, began_at, first_seq: 1, lossy: true };
        assert!(epoch_pause(&EpochStatus { epoch, paused_until: None }).is_none());
        let paused = EpochStatus { epoch, paused_until: Some(Time::from_ms(60_000)) };
        let Finding { wrong, next, .. } = epoch_pause(&paused).unwrap().into();
        assert!(wrong.starts_with("The store was restored") && wrong.contains("(epoch 3)"), "{wrong}");
        assert!(wrong.ends_with("wait until 1970-01-01T00:01:00.000Z"), "{wrong}");
        assert!(next.starts_with("Nothing has to be done"), "{next}");
    }

    /// Whatever is said of a queue that is behind comes with the command for it.
    #[tokio::test]
    async fn a_queue_that_is_behind_has_a_command() {
        let world = SimWorld::new(1);
        let store = MemoryStore::new(Arc::new(world.clone()));
        let queue = QueueName::new("mail").unwrap();
        let spec = JobSpec::new(Kind::new("send").unwrap(), queue.clone(), Json::null());
        let jobs =
            (0..3).map(|_| NewJob { id: Ids::new(&world).make(), spec: spec.clone(), start: Start::Now });
        store.enqueue(jobs.collect()).await.unwrap();
        world.advance(WAITING_MS + 1);
        let heard = async |queues: Vec<QueueName>| {
            let name = WorkerName::new("w").unwrap();
            let (kinds, version, host) = (None, None, None);
            let beat = WorkerBeat { name, queues, kinds, slots: 1, running: 0, version, host };
            store.beat(beat).await.unwrap();
            look(&store, 200).await.unwrap().remove(0)
        };
        let away = heard(vec![QueueName::default()]).await;
        assert!(away.wrong.contains("no live worker claims from it"), "{away:?}");
        assert_eq!(away.command.as_deref(), Some("windlass work --kind send --queue mail -- PROGRAM"));
        let behind = heard(vec![queue.clone()]).await;
        assert!(behind.wrong.contains("do not keep up"), "{behind:?}");
        assert_eq!(behind.command, away.command);
        let now = store.now().await.unwrap();
        let mut full = store.queues().await.unwrap().remove(0);
        (full.policy.limit, full.running) = (Some(4), 4);
        let workers = store.workers().await.unwrap();
        let crew = Crew { now, known: &workers, alive: &[&workers[0]] };
        let full = slow(&full, &Waiting::default(), &crew).unwrap();
        assert_eq!(full.command.as_deref(), Some("windlass queues set mail --limit 8"), "{full:?}");
    }
}
