//! A server that a demo has left behind which was killed: it would keep its data, and the next demo from them.

use std::path::Path;
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};
use windlass_engine::world::World;

/// How long it may take to end, in looks of a tenth of a second.
const LOOKS_MAX: usize = 100;
const LOOK_MS: u64 = 100;

/// Ends the process that a file in a folder of data names, if it works on these data.
pub async fn end(data: &Path, file: &str, world: &Arc<dyn World>) {
    let Some(pid) = named(data, file) else { return };
    // Both Postgres and mongod end in order.
    if kill_process(pid, Signal::INT).is_err() {
        return;
    }
    for _ in 0..LOOKS_MAX {
        if !works_on(pid, data) {
            return;
        }
        world.sleep_ms(LOOK_MS).await;
    }
}

/// Its number, when it is alive and no other program has it by now.
fn named(data: &Path, file: &str) -> Option<Pid> {
    let text = std::fs::read_to_string(data.join(file)).ok()?;
    let pid = Pid::from_raw(text.lines().next()?.trim().parse().ok()?)?;
    works_on(pid, data).then_some(pid)
}

fn works_on(pid: Pid, data: &Path) -> bool {
    let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    let data = data.as_os_str().as_encoded_bytes();
    line.split(|byte| *byte == 0).any(|word| word == data)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use windlass_engine::world::RealWorld;

    use super::*;

    #[tokio::test]
    async fn only_who_works_on_the_data_is_ended() {
        let world: Arc<dyn World> = Arc::new(RealWorld::new());
        let folder = tempfile::tempdir().unwrap();
        let (own, other) = (folder.path().join("own"), folder.path().join("other"));
        std::fs::create_dir_all(&own).unwrap();
        let server = "while :; do sleep 0.05; done";
        let start =
            |data: &Path| Command::new("sh").args(["-c", server, "server"]).arg(data).spawn().unwrap();
        let (mut left, mut innocent) = (start(&own), start(&other));
        std::fs::write(own.join("pid"), format!("{}\nmore\n", innocent.id())).unwrap();
        end(&own, "pid", &world).await;
        assert!(innocent.try_wait().unwrap().is_none(), "it works on other data");
        std::fs::write(own.join("pid"), format!("{}\n", left.id())).unwrap();
        let reaped = tokio::task::spawn_blocking(move || left.wait().unwrap());
        end(&own, "pid", &world).await;
        assert!(!reaped.await.unwrap().success());
        end(&own, "nothing", &world).await;
        innocent.kill().unwrap();
        innocent.wait().unwrap();
    }
}
