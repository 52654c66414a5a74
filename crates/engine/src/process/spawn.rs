//! Starting a process so that it cannot outlive the worker.
//!
//! The kernel kills a child when the *thread* that started it ends, so all
//! children are started by one thread that lives as long as the process.

#![expect(unsafe_code, reason = "what a child does between fork and exec cannot be said otherwise")]

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::process::{Pid, PidfdFlags, Resource, Rlimit};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

use super::cgroup::Group;
use super::command::Limits;
use super::keeper;

/// A program that was started, as its keeper: a process that ends as the program does, after all that it started;
/// and a handle on it that its number's reuse cannot fool.
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) pid: Pid,
    pub(super) pidfd: OwnedFd,
    pub(super) group: Option<Group>,
}

/// The keepers that were started and not waited for. A number counts as often as it was given.
pub(super) struct Keepers(BTreeMap<i32, usize>);

impl Keepers {
    pub(super) fn has(&self, pid: Pid) -> bool {
        self.0.contains_key(&pid.as_raw_nonzero().get())
    }

    /// One was waited for: its number may have been given to another since.
    pub(super) fn forget(&mut self, pid: Pid) {
        if let Some(count) = self.0.get_mut(&pid.as_raw_nonzero().get()) {
            *count -= 1;
        }
        self.0.retain(|_, count| *count > 0);
    }
}

/// The keepers of this process. None is started while somebody looks at them.
pub(super) fn keepers() -> MutexGuard<'static, Keepers> {
    static KEEPERS: Mutex<Keepers> = Mutex::new(Keepers(BTreeMap::new()));
    KEEPERS.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Order {
    command: Command,
    limits: Limits,
    group: Option<Group>,
    answer: oneshot::Sender<io::Result<Started>>,
}

/// Starts `command` in a process group of its own, with a keeper, both in a control group when there is one.
pub(super) async fn spawn(command: Command, limits: Limits, group: Option<Group>) -> io::Result<Started> {
    let (answer, started) = oneshot::channel();
    let order = Order { command, limits, group, answer };
    spawner()?.send(order).map_err(|_| io::Error::other("the thread that starts processes is gone"))?;
    started.await.map_err(|_| io::Error::other("the thread that starts processes is gone"))?
}

fn spawner() -> io::Result<&'static mpsc::Sender<Order>> {
    static SPAWNER: OnceLock<Result<mpsc::Sender<Order>, String>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, taken) = mpsc::channel::<Order>();
        let thread = std::thread::Builder::new().name("windlass-spawner".into());
        let started = thread.spawn(move || {
            for order in taken {
                let started = start(order.command, order.limits, order.group);
                if let Err(Ok(orphan)) = order.answer.send(started) {
                    // Nobody waits for it any more.
                    end_unwanted(orphan);
                }
            }
        });
        started.map(|_| orders).map_err(|error| error.to_string())
    });
    spawner.as_ref().map_err(|error| io::Error::other(error.clone()))
}

fn start(mut command: Command, limits: Limits, group: Option<Group>) -> io::Result<Started> {
    let worker = rustix::process::getpid().as_raw_nonzero().get();
    command.process_group(0);
    let door = group.as_ref().map(Group::door);
    // SAFETY: between fork and exec only system calls are made, and no memory
    // is taken or freed: `limits` and `door` are plain numbers, and the group is open until the program has started.
    unsafe {
        command.pre_exec(move || {
            join(door);
            keeper::stand_between(worker)?;
            limit(Resource::Core, Some(0))?;
            limit(Resource::As, limits.memory_bytes)?;
            limit(Resource::Cpu, limits.cpu_seconds)?;
            limit(Resource::Nofile, limits.open_files)?;
            limit(Resource::Fsize, limits.file_bytes)?;
            close_inherited();
            Ok(())
        });
    }
    let mut keepers = keepers();
    let child = command.spawn()?;
    let pid = Pid::from_child(&child);
    *keepers.0.entry(pid.as_raw_nonzero().get()).or_default() += 1;
    drop(keepers);
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    Ok(Started { child, pid, pidfd, group })
}

/// Joins a control group. Without it the attempt is kept by its keeper alone.
fn join(door: Option<RawFd>) {
    if let Some(door) = door {
        // SAFETY: a system call with plain numbers and a constant.
        unsafe { libc::write(door, c"0".as_ptr().cast(), 1) };
    }
}

fn limit(resource: Resource, value: Option<u64>) -> io::Result<()> {
    if let Some(value) = value {
        let limit = Rlimit { current: Some(value), maximum: Some(value) };
        rustix::process::setrlimit(resource, limit)?;
    }
    Ok(())
}

/// Marks every descriptor beyond stderr to be closed by exec, so that nothing
/// that the worker or its libraries opened reaches the program.
fn close_inherited() {
    // SAFETY: a system call with plain numbers. Where the kernel lacks it, the
    // descriptors that Rust opened are closed by exec anyway.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
    }
}

/// Makes the end of a process something that can be awaited.
pub(super) fn awaitable(pidfd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is owned, so it is open, stays open as long as the
    // result lives, and is always the same.
    let registered = unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) };
    registered.map_err(io::Error::from)
}

fn end_unwanted(mut started: Started) {
    let killed = rustix::process::kill_process(started.pid, keeper::END);
    if killed.is_ok() {
        // It was killed, so it ends; waiting leaves no zombie.
        let _ = started.child.wait();
        keepers().forget(started.pid);
    }
}
