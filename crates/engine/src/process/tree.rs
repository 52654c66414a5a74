//! Ending a program with all that it started.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Once};

use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};
use tokio::io::unix::AsyncFd;

use super::cgroup::{self, Group};
use super::keeper;
use super::spawn::{Started, awaitable, keepers};
use crate::signal::Brake;

/// The variable by which a process of ours is known, whatever it did to its group.
pub(super) const MARK: &str = "WINDLASS_MARK";

/// A running program. Dropped, it is killed with all that it started.
pub(super) struct Tree {
    child: Child,
    pid: Pid,
    pidfd: Arc<AsyncFd<OwnedFd>>,
    mark: String,
    group: Option<Group>,
    /// When its keeper started, in ticks since the start of the machine.
    started: u64,
    reaped: bool,
}

impl Tree {
    pub(super) fn new(started: Started, mark: String) -> io::Result<Self> {
        adopt_orphans();
        let Started { child, pid, pidfd, group } = started;
        let started = start_of(pid).unwrap_or_default();
        Ok(Self { child, pid, pidfd: Arc::new(awaitable(pidfd)?), mark, group, started, reaped: false })
    }

    pub(super) fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Asks the whole group to end.
    pub(super) fn terminate(&self) {
        // One that is gone already needs no asking.
        let _ = rustix::process::pidfd_send_signal(self.pidfd.get_ref(), keeper::ASK);
    }

    /// What holds the group still, and lets it go on.
    pub(super) fn brake(&self) -> Brake {
        // One that is gone already needs neither.
        let pidfd = self.pidfd.clone();
        Box::new(move |still| {
            let signal = if still { keeper::HOLD } else { keeper::GO_ON };
            let _ = rustix::process::pidfd_send_signal(pidfd.get_ref(), signal);
        })
    }

    /// Waits until the program has ended, and with it all that it started.
    pub(super) async fn exited(&self) -> io::Result<()> {
        let ready = self.pidfd.readable().await?;
        drop(ready);
        Ok(())
    }

    /// Ends what is left of the program and of all that it started, and reaps.
    pub(super) fn end(&mut self) -> io::Result<ExitStatus> {
        let _ = rustix::process::pidfd_send_signal(self.pidfd.get_ref(), keeper::END);
        // Dead, and not reaped: its name is still there.
        let dead = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let _ = rustix::process::waitid(WaitId::PidFd(self.pidfd.get_ref().as_fd()), dead);
        let was_killed =
            stat_of(self.pid).is_some_and(|stat| stat.name.as_bytes() == keeper::NAMES[0].to_bytes());
        let status = self.child.wait();
        self.reaped = true;
        keepers().forget(self.pid);
        // Should somebody have killed the keeper, we have inherited what it kept.
        if status.as_ref().is_ok_and(|status| status.signal() == Some(Signal::KILL.as_raw())) {
            if let Some(group) = &self.group {
                group.kill();
            }
            kill_marked(&self.mark);
        }
        if was_killed {
            end_adopted(self.started);
        }
        status
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if !self.reaped
            && let Err(error) = self.end()
        {
            tracing::error!(%error, pid = self.pid.as_raw_nonzero().get(), "could not end a program");
        }
    }
}

/// Makes the worker the parent of processes whose own parent ended, so that
/// they can be reaped here and leave no zombie.
fn adopt_orphans() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
            tracing::debug!(%error, "cannot adopt orphans; their own parent will");
        }
    });
}

/// Kills every process that carries the mark, until there is none. One that
/// forks while it is looked for is found the next time round.
fn kill_marked(mark: &str) {
    const ROUNDS_MAX: usize = 20;
    let wanted = format!("{MARK}={mark}");
    let mut killed = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let found = marked(|entry| entry == wanted.as_bytes());
        if found.is_empty() {
            break;
        }
        for (pid, pidfd) in found {
            kill_and_reap(pid, &pidfd);
            killed.push(pidfd);
        }
    }
    // One whose parent was killed after it has become ours only then.
    for pidfd in killed {
        reap(&pidfd);
    }
}

/// Ends what this process has adopted since then: the keeper of an attempt was killed, and all that it kept has become ours. What is
/// ours for another reason keeps an attempt, is in our own session and group, or is older. (Who was started by the worker's own program
/// meanwhile, into a group of its own, cannot be told from it, and ends, too.)
fn end_adopted(since: u64) {
    const ROUNDS_MAX: usize = 20;
    for _ in 0..ROUNDS_MAX {
        // Nobody becomes a keeper meanwhile.
        let keepers = keepers();
        let found = opened(|pid| !keepers.has(pid) && is_adopted(pid, since));
        if found.is_empty() {
            return;
        }
        for (pid, pidfd) in found {
            kill_and_reap(pid, &pidfd);
        }
    }
}

/// Whether a process is a child of this one, has left its session or group, and is not older than this.
fn is_adopted(pid: Pid, since: u64) -> bool {
    let me = rustix::process::getpid();
    let (Some(mine), Some(its)) = (stat_of(me), stat_of(pid)) else { return false };
    its.parent == me.as_raw_nonzero().get()
        && (its.group, its.session) != (mine.group, mine.session)
        && its.started >= since
}

/// Ends what an earlier worker process left behind when it was killed: every
/// worker process marks what it starts with its own number and start, and only
/// processes whose worker is gone are ended. Answers how many.
pub fn sweep_orphans() -> usize {
    let grouped = cgroup::sweep(owner_lives);
    if !finds_all_orphans() {
        tracing::info!(
            "control groups are not delegated to this process: should a worker and the keepers of its attempts be killed \
             together, programs that took off their mark could not be found"
        );
    }
    let orphans = marked(|entry| {
        let mark = entry.strip_prefix(MARK.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        mark.and_then(|mark| std::str::from_utf8(mark).ok()).is_some_and(|mark| !owner_lives(mark))
    });
    for (pid, pidfd) in &orphans {
        kill_and_reap(*pid, pidfd);
    }
    grouped + orphans.len()
}

/// Whether [`sweep_orphans`] finds everything, also what took off its mark: the system lets us make control groups.
pub fn finds_all_orphans() -> bool {
    cgroup::is_there()
}

/// A mark for the processes of one attempt: which worker process, and which of its attempts.
pub(super) fn new_mark(chance: u64) -> String {
    let me = rustix::process::getpid();
    let started = start_of(me).unwrap_or_default();
    format!("{}-{started}-{chance:016x}", me.as_raw_nonzero())
}

fn owner_lives(mark: &str) -> bool {
    let mut parts = mark.split('-');
    let pid = parts.next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    let started = parts.next().and_then(|started| started.parse::<u64>().ok());
    match (pid, started) {
        (Some(pid), Some(started)) => start_of(pid) == Some(started),
        // Not a mark that we wrote: leave it alone.
        _ => true,
    }
}

/// When a process started, in ticks since the start of the machine: with its
/// number this names it for good.
fn start_of(pid: Pid) -> Option<u64> {
    stat_of(pid).map(|stat| stat.started)
}

/// What the kernel says of a process, also of one that is dead and was not reaped.
struct Stat {
    name: String,
    parent: i32,
    group: i32,
    session: i32,
    started: u64,
}

fn stat_of(pid: Pid) -> Option<Stat> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name, in parentheses, may contain anything.
    let (before, rest) = stat.rsplit_once(") ")?;
    let name = before.split_once('(')?.1.to_owned();
    let rest: Vec<&str> = rest.split(' ').collect();
    let number = |at: usize| rest.get(at)?.parse().ok();
    let started = rest.get(19)?.parse().ok()?;
    Some(Stat { name, parent: number(1)?, group: number(2)?, session: number(3)?, started })
}

/// All processes but this one with an entry of their environment that `fits`.
fn marked(fits: impl Fn(&[u8]) -> bool) -> Vec<(Pid, OwnedFd)> {
    opened(|pid| {
        let environ = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(&fits)
    })
}

/// All processes but this one that `fits`, each with a handle on it.
fn opened(fits: impl Fn(Pid) -> bool) -> Vec<(Pid, OwnedFd)> {
    let me = rustix::process::getpid();
    let Ok(folders) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = folders
        .flatten()
        .filter_map(|folder| folder.file_name().to_str()?.parse().ok().and_then(Pid::from_raw));
    let mut found = Vec::new();
    for pid in pids.filter(|pid| *pid != me) {
        // The handle is taken first: what is read afterwards is of the same process.
        let Ok(pidfd) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { continue };
        if fits(pid) {
            found.push((pid, pidfd));
        }
    }
    found
}

fn kill_and_reap(pid: Pid, pidfd: &OwnedFd) {
    let _ = rustix::process::pidfd_send_signal(pidfd, Signal::KILL);
    tracing::warn!(pid = pid.as_raw_nonzero().get(), "ended a process that an attempt had left behind");
    reap(pidfd);
}

/// Reaps a killed process, when it is our child by adoption; else its parent does.
fn reap(pidfd: &OwnedFd) {
    let _ = rustix::process::waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
}
