//! The keeper: a process between the worker and a program, one for each
//! attempt. It is the reaper of all that the program starts (a "subreaper"):
//! whatever a descendant does to its group, its session or its environment, it
//! becomes the keeper's child when its own parent ends, and the keeper ends
//! last. It ends as the program did, so that the worker sees one process.
//!
//! It is forked from the worker and runs no program of its own, so everything
//! in this file is system calls on plain numbers: no memory is taken or freed,
//! nothing is locked, and from [`let_go_of_memory`] on nothing but code, this
//! thread's stack and its thread-local memory may be touched.

#![expect(unsafe_code, reason = "a forked process of a program with threads may only make system calls")]

use std::ffi::CStr;
use std::io;
use std::mem::zeroed;

use libc::{c_int, c_long, pid_t, sigset_t};
use rustix::process::Signal;

/// Asks a keeper to end all that is left of its attempt, and itself. The kernel asks so when the worker dies.
pub(super) const END: Signal = Signal::USR1;
/// Asks it to ask the program to end.
pub(super) const ASK: Signal = Signal::TERM;
/// Asks it to hold the program's group still.
pub(super) const HOLD: Signal = Signal::USR2;
/// Asks it to let the group go on.
pub(super) const GO_ON: Signal = Signal::CONT;

/// What a keeper is called as long as it keeps, and from when on it ends by itself: one that still has the first name when it is
/// dead was killed, and has left what it kept to the worker. No name is longer than fifteen letters.
pub(super) const NAMES: [&CStr; 2] = [c"windlass-keeper", c"windlass-ended"];

/// What a keeper listens to.
const HEARD: [c_int; 5] = [libc::SIGUSR1, libc::SIGTERM, libc::SIGCHLD, libc::SIGUSR2, libc::SIGCONT];
/// Between two looks for descendants that have not ended yet.
const LOOK_NS: i64 = 1_000_000;

/// Divides a forked process: answers in the one that becomes the program, and never in the other, its keeper.
///
/// # Safety
///
/// Only between fork and exec, where this process has one thread.
pub(super) unsafe fn stand_between(worker: pid_t) -> io::Result<()> {
    // SAFETY: system calls on plain numbers and on a set on this stack.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGUSR1);
        if libc::getppid() != worker {
            // The worker died before the line above took effect.
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        let mut heard: sigset_t = zeroed();
        libc::sigemptyset(&raw mut heard);
        for signal in HEARD {
            libc::sigaddset(&raw mut heard, signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &raw const heard, std::ptr::null_mut());
        let keeper = libc::getpid();
        match libc::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                libc::sigprocmask(libc::SIG_UNBLOCK, &raw const heard, std::ptr::null_mut());
                libc::setpgid(0, 0);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                match libc::getppid() == keeper {
                    true => Ok(()),
                    false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
                }
            }
            program => keep(program, &heard),
        }
    }
}

/// The life of a keeper.
unsafe fn keep(program: pid_t, heard: &sigset_t) -> ! {
    // SAFETY: as said above; the name is a constant that ends with a zero.
    unsafe {
        for signal in HEARD {
            libc::signal(signal, libc::SIG_DFL);
        }
        // Whoever of the two comes first.
        libc::setpgid(program, program);
        libc::syscall(libc::SYS_close_range, 0u32, u32::MAX, 0);
        libc::prctl(libc::PR_SET_NAME, NAMES[0].as_ptr());
        let_go_of_memory();
        let mut held_still = false;
        loop {
            while let Some((pid, status)) = reaped(program) {
                if pid == program {
                    end_all(program);
                    end_as(status);
                }
            }
            match libc::syscall(libc::SYS_rt_sigtimedwait, heard, 0usize, 0usize, 8usize) as c_int {
                libc::SIGTERM => {
                    libc::syscall(libc::SYS_kill, -program, libc::SIGTERM);
                    // One that is held still would not hear it. Whom somebody else has stopped stays so.
                    if held_still {
                        libc::syscall(libc::SYS_kill, -program, libc::SIGCONT);
                    }
                }
                libc::SIGUSR2 => {
                    held_still = true;
                    libc::syscall(libc::SYS_kill, -program, libc::SIGSTOP);
                }
                libc::SIGCONT => {
                    held_still = false;
                    libc::syscall(libc::SYS_kill, -program, libc::SIGCONT);
                }
                libc::SIGUSR1 => {
                    let status = end_all(program).unwrap_or(libc::SIGKILL);
                    end_as(status);
                }
                _ => {}
            }
        }
    }
}

/// A child that has ended, if there is one, with how. What is left of the program's group is killed before the program
/// is reaped: until then its number, which is also its group's, cannot be given to another.
unsafe fn reaped(program: pid_t) -> Option<(pid_t, c_int)> {
    let mut status: c_int = 0;
    // SAFETY: system calls on plain numbers and on what is on this stack, which the kernel has filled.
    unsafe {
        let mut info: libc::siginfo_t = zeroed();
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
        let found = libc::syscall(libc::SYS_waitid, libc::P_ALL, 0, &raw mut info, options, 0usize);
        let pid = if found == 0 { info.si_pid() } else { 0 };
        if pid == 0 {
            return None;
        }
        if pid == program {
            libc::syscall(libc::SYS_kill, -program, libc::SIGKILL);
        }
        libc::syscall(libc::SYS_wait4, pid, &raw mut status, libc::__WALL, 0usize);
        Some((pid, status))
    }
}

/// Kills children until there are none: those of a child that ended become children themselves. Answers how the
/// program ended, when it was among them.
unsafe fn end_all(program: pid_t) -> Option<c_int> {
    let mut ended = None;
    let pause = libc::timespec { tv_sec: 0, tv_nsec: LOOK_NS };
    // SAFETY: system calls on plain numbers and on what is on this stack.
    unsafe {
        loop {
            kill_children();
            while let Some((pid, status)) = reaped(program) {
                if pid == program {
                    ended = Some(status);
                }
            }
            let mut info: libc::siginfo_t = zeroed();
            let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
            let found = libc::syscall(libc::SYS_waitid, libc::P_ALL, 0, &raw mut info, options, 0usize);
            if found < 0 {
                // There are none.
                return ended;
            }
            libc::syscall(libc::SYS_nanosleep, &raw const pause, 0usize);
        }
    }
}

/// Kills all children of this process, as the kernel lists them.
unsafe fn kill_children() {
    // SAFETY: the name is a constant that ends with a zero, the buffer is on this stack.
    unsafe {
        let file = open(c"/proc/thread-self/children");
        let (mut buffer, mut pid) = ([0u8; 512], 0);
        loop {
            let got = libc::syscall(libc::SYS_read, file, buffer.as_mut_ptr(), buffer.len());
            if got <= 0 {
                break;
            }
            for byte in &buffer[..got as usize] {
                match byte {
                    b'0'..=b'9' => pid = pid * 10 + pid_t::from(byte - b'0'),
                    _ if pid > 0 => {
                        libc::syscall(libc::SYS_kill, pid, libc::SIGKILL);
                        pid = 0;
                    }
                    _ => {}
                }
            }
        }
        libc::syscall(libc::SYS_close, file);
    }
}

/// Ends this process as another ended.
unsafe fn end_as(status: c_int) -> ! {
    // SAFETY: system calls on plain numbers; the name is a constant that ends with a zero.
    unsafe {
        libc::syscall(libc::SYS_prctl, libc::PR_SET_NAME, NAMES[1].as_ptr());
        if libc::WIFSIGNALED(status) {
            let signal = libc::WTERMSIG(status);
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::syscall(libc::SYS_prlimit64, 0, libc::RLIMIT_CORE, &raw const none, 0usize);
            // The action of every signal but those heard is that of the worker: none of its code may run here.
            let action = [0u64; 4];
            libc::syscall(libc::SYS_rt_sigaction, signal, action.as_ptr(), 0usize, 8usize);
            let all = 0u64;
            libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const all, 0usize, 8usize);
            libc::syscall(libc::SYS_kill, libc::syscall(libc::SYS_getpid), signal);
        }
        loop {
            libc::syscall(libc::SYS_exit_group, libc::WEXITSTATUS(status));
        }
    }
}

/// Gives back the memory that was copied from the worker: every page that the worker writes to from now on would be
/// kept twice otherwise, for as long as the attempt runs.
unsafe fn let_go_of_memory() {
    // SAFETY: the ranges are what the kernel says that it has mapped, without those that are still needed.
    unsafe {
        let file = open(c"/proc/self/maps");
        let (mut buffer, mut line, mut length) = ([0u8; 2048], [0u8; 128], 0);
        let (here, mut file_ends) = (&raw const line as usize, 0);
        loop {
            let got = libc::syscall(libc::SYS_read, file, buffer.as_mut_ptr(), buffer.len());
            if got <= 0 {
                break;
            }
            for byte in &buffer[..got as usize] {
                if *byte != b'\n' {
                    // The names of files are longer, and these are left alone.
                    line[length.min(line.len() - 1)] = *byte;
                    length += 1;
                    continue;
                }
                if let Some((begin, end)) = unneeded(&line[..length.min(line.len())], here, &mut file_ends) {
                    libc::syscall(libc::SYS_madvise, begin, end - begin, libc::MADV_DONTNEED);
                }
                length = 0;
            }
        }
        libc::syscall(libc::SYS_close, file);
    }
}

/// The range of a line of the kernel's list of mappings, such as `5581a000-5583b000 rw-p 00000000 00:00 0 [heap]`,
/// when it is plain memory and does not hold `here`: the stack, and beside it what is local to this thread. What
/// follows a file without a gap are variables of a library, which the functions that copy memory look at.
fn unneeded(line: &[u8], here: usize, file_ends: &mut usize) -> Option<(usize, usize)> {
    let mut fields = line.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
    let (range, rights) = (fields.next()?, fields.next()?);
    let name = fields.nth(3);
    let dash = range.iter().position(|byte| *byte == b'-')?;
    let (begin, end) = (hex(&range[..dash])?, hex(&range[dash + 1..])?);
    let plain = match name {
        None => begin != *file_ends,
        Some(name) => name == b"[heap]",
    };
    if name.is_some_and(|name| name.first() == Some(&b'/')) {
        *file_ends = end;
    }
    (plain && rights == b"rw-p" && begin < end && !(begin..end).contains(&here)).then_some((begin, end))
}

fn hex(digits: &[u8]) -> Option<usize> {
    digits.iter().try_fold(0usize, |sum, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some((sum << 4) | digit as usize)
    })
}

unsafe fn open(name: &CStr) -> c_long {
    // SAFETY: the name ends with a zero.
    unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, name.as_ptr(), libc::O_RDONLY, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_memory_is_let_go_of_and_nothing_else() {
        let mut file_ends = 0;
        for (line, range) in [
            (
                "5581a000-5583b000 rw-p 00000000 00:00 0                 [heap]",
                Some((0x5581_a000, 0x5583_b000)),
            ),
            ("7f00-7f80 rw-p 00000000 00:00 0 ", Some((0x7f00, 0x7f80))),
            ("1000-3000 rw-p 00000000 00:00 0 ", None),
            ("7f80-8000 r-xp 00000000 08:01 77   /usr/bin/windlass", None),
            ("8000-8100 rw-p 00002000 08:01 77   /usr/lib/libc.so.6", None),
            ("8100-8200 rw-p 00000000 00:00 0 ", None),
            ("8200-8300 rw-p 00000000 00:00 0 ", Some((0x8200, 0x8300))),
            ("8300-8400 rw-s 00000000 00:00 0 ", None),
            ("7ffe000-7fff000 rw-p 00000000 00:00 0                   [stack]", None),
            ("", None),
            ("nonsense rw-p", None),
        ] {
            assert_eq!(unneeded(line.as_bytes(), 0x2000, &mut file_ends), range, "{line}");
        }
    }
}
