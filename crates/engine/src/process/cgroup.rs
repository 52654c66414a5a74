//! A control group for each attempt, where the system lets this process make some (cgroup v2, delegated): the kernel knows
//! who belongs to one, whatever a process does to its parents, its session or its environment. It is what is left when
//! worker and keeper were both killed; as long as one of them lives, nobody needs it.
//!
//! Groups bound nothing here: no controller is switched on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What the folder of a group of ours begins with; the mark of its attempt follows.
const PREFIX: &str = "windlass-";
/// How systemd tells that a group was given away.
const DELEGATED: [&str; 2] = ["user.delegate", "trusted.delegate"];

/// The group of an attempt. Dropped, it is taken away once nobody is in it.
pub(super) struct Group {
    folder: PathBuf,
    members: File,
}

impl Group {
    /// A group with this mark; nothing where groups are not ours to make.
    pub(super) fn new(mark: &str) -> Option<Self> {
        let folder = home()?.join(format!("{PREFIX}{mark}"));
        fs::create_dir(&folder).ok()?;
        let members = OpenOptions::new().write(true).open(folder.join("cgroup.procs"));
        match members {
            // A kernel before 5.14 cannot end a group at once.
            Ok(members) if folder.join("cgroup.kill").exists() => Some(Self { folder, members }),
            _ => {
                remove(&folder);
                None
            }
        }
    }

    /// Where a process writes `0` to join it.
    pub(super) fn door(&self) -> RawFd {
        self.members.as_raw_fd()
    }

    /// Ends everybody in it.
    pub(super) fn kill(&self) {
        if let Err(error) = kill(&self.folder) {
            tracing::warn!(%error, group = %self.folder.display(), "could not end what an attempt had left behind");
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

/// Whether attempts have groups here.
pub(super) fn is_there() -> bool {
    home().is_some()
}

/// Ends what is left in the groups of workers that are gone, and takes those groups away. Answers how many processes were ended.
pub(super) fn sweep(owner_lives: impl Fn(&str) -> bool) -> usize {
    let Some(folders) = home().and_then(|home| fs::read_dir(home).ok()) else { return 0 };
    let mut ended = 0;
    for folder in folders.flatten() {
        let name = folder.file_name();
        let Some(mark) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        if owner_lives(mark) {
            continue;
        }
        let members = fs::read_to_string(folder.path().join("cgroup.procs")).unwrap_or_default();
        let left = members.lines().count();
        match kill(&folder.path()) {
            Ok(()) => ended += left,
            Err(error) if left > 0 => {
                tracing::warn!(%error, left, "could not end what an earlier worker had left behind; end it by hand");
            }
            Err(_) => {}
        }
        if left > 0 {
            tracing::warn!(left, "ended what an attempt of an earlier worker had left behind");
        }
        remove(&folder.path());
    }
    ended
}

fn kill(folder: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).open(folder.join("cgroup.kill"))?.write_all(b"1")
}

/// Whoever was killed is in its group until it has ended: the folder is asked for again, not for long. What stays is taken
/// away by the next worker.
fn remove(folder: &Path) {
    const TRIES_MAX: usize = 200;
    for _ in 0..TRIES_MAX {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => std::thread::yield_now(),
            _ => return,
        }
    }
}

/// The group of this process, when it was given to us.
fn home() -> Option<&'static Path> {
    static HOME: OnceLock<Option<PathBuf>> = OnceLock::new();
    HOME.get_or_init(find_home).as_deref()
}

fn find_home() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let folder = mount_point(&mounts)?.join(own.trim_start_matches('/'));
    // At its own root is who lives in a container, or where nobody manages groups.
    let given = own == "/" || DELEGATED.iter().any(|name| is_one(&folder, name));
    let writable = rustix::fs::access(&folder, rustix::fs::Access::WRITE_OK).is_ok();
    (given && writable).then_some(folder)
}

fn is_one(folder: &Path, name: &str) -> bool {
    let mut value = [0; 8];
    rustix::fs::getxattr(folder, name, &mut value[..]).is_ok_and(|bytes| value.get(..bytes) == Some(b"1"))
}

/// Where the second version of groups is mounted: the fifth field of the line whose type, behind a dash, says so.
fn mount_point(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        kind.starts_with("cgroup2 ").then(|| place.split(' ').nth(4).map(PathBuf::from))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_version_is_found_among_the_mounts() {
        let unified = "24 1 0:22 / /proc rw - proc proc rw\n30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw";
        let hybrid = "31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n40 30 0:36 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
        for (mounts, place) in
            [(unified, Some("/sys/fs/cgroup")), (hybrid, Some("/sys/fs/cgroup/unified")), ("", None)]
        {
            assert_eq!(mount_point(mounts).as_deref(), place.map(Path::new));
        }
    }

    /// Whoever is in the group of a worker that is gone is ended, and the group with it; others are left alone.
    #[test]
    fn groups_of_workers_that_are_gone_are_swept() {
        if !is_there() {
            eprintln!("control groups are not delegated here: nothing to sweep");
            return;
        }
        let marks = ["gone", "lives"].map(|who| format!("test-{}-{who}", std::process::id()));
        let groups = marks.clone().map(|mark| Group::new(&mark).expect("a group"));
        let mut sleepers = groups.each_ref().map(|group| {
            let sleeper = std::process::Command::new("sleep").arg("600").spawn().expect("a program");
            (&group.members).write_all(sleeper.id().to_string().as_bytes()).expect("joins");
            sleeper
        });
        let mine = |mark: &str| !mark.starts_with(&format!("test-{}-", std::process::id()));
        assert_eq!(sweep(|mark| mine(mark) || mark.ends_with("lives")), 1);
        assert!(!sleepers[0].wait().expect("an end").success());
        assert!(sleepers[1].try_wait().expect("a look").is_none());
        groups[1].kill();
        assert!(!sleepers[1].wait().expect("an end").success());
        let folders = groups.each_ref().map(|group| group.folder.clone());
        drop(groups);
        assert!(folders.iter().all(|folder| !folder.exists()));
    }
}
