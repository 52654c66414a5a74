//! A server that ends with the tests, however those end.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::eventually::eventually;

/// Watches over the server: asked to end, or when the tests have died, it
/// stops the server and takes the folder away.
const SCRIPT: &str = r#"
dir=$1; signal=$2; shift 2
"$@" >>"$dir/log" 2>&1 </dev/null & server=$!
trap 'end=1; kill -s $signal $server 2>/dev/null' TERM
while kill -0 $server 2>/dev/null; do wait $server; done
if [ "$end" ]; then rm -rf "$dir"; fi
"#;

/// The process that watches over one server.
#[derive(Default)]
pub(crate) struct Keeper {
    waiting: Mutex<Option<JoinHandle<()>>>,
    pid: Mutex<Option<u32>>,
}

impl Keeper {
    /// Starts a server. `start` is the beginning of its command: it must make
    /// what follows hear TERM when the thread that started it has died.
    /// Therefore a thread waits for it until it ends.
    pub(crate) fn start(&self, mut start: Command, dir: &Path, signal: &str, server: &Command) {
        start.args(["sh", "-c", SCRIPT, "keeper"]).arg(dir).arg(signal);
        start.arg(server.get_program()).args(server.get_args());
        start.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let (tell, told) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || {
            let mut child = start.spawn().expect("setpriv and sh start");
            tell.send(child.id()).expect("the starter waits for the id");
            drop(child.wait());
        });
        *lock(&self.pid) = told.recv().ok();
        *lock(&self.waiting) = Some(waiting);
    }

    /// The process that watches, while there is one.
    pub(crate) fn pid(&self) -> Option<u32> {
        *lock(&self.pid)
    }

    /// Waits until a server that was told to end has done so.
    pub(crate) async fn ended(&self) {
        eventually("the server's keeper ends after the server", async || {
            lock(&self.waiting).as_ref().is_none_or(JoinHandle::is_finished).then_some(())
        })
        .await;
        *lock(&self.pid) = None;
    }

    /// Ends the server, if it runs, and waits for that.
    pub(crate) fn end(&self) {
        if let Some(pid) = lock(&self.pid).take() {
            drop(Command::new("kill").arg(pid.to_string()).stderr(Stdio::null()).status());
        }
        if let Some(waiting) = lock(&self.waiting).take() {
            drop(waiting.join());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
