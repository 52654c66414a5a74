//! A disk whose fsync fails.

use crate::audit::audit;
use crate::crash_points::{Said, victim};
use windlass_testkit::needs;

/// Fault 12: an fsync that fails may have lost what it was to save, and the
/// next one would call that clean. So the store stops: no call after it is
/// answered with success, and what was answered before is there.
#[test]
fn fault_12_a_failed_fsync_stops_the_store() {
    if !needs::strace() {
        return;
    }
    let (mut failed_calls, mut at_close) = (0, 0);
    for at in 1.. {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("w.db");
        let said = victim(&path, 3, &format!("fsync,fdatasync:error=EIO:when={at}"));
        let Some(injected) = &said.injected else { break };
        let codes: Vec<&str> = said.lines.iter().map(Said::code).collect();
        match codes.iter().position(|code| *code != "ok") {
            // SQLite does not look at the fsync of a folder; ours, when a file is opened, is looked at.
            // When all calls are answered, the log is written back into the file: should that fail, the log stays.
            None => at_close += u32::from(injected.contains("w.db")),
            Some(_) if at_close > 0 => panic!("{at}: an fsync before {injected} failed, and nobody noticed"),
            Some(0) => {}
            Some(first) => {
                assert!(codes[first..].iter().all(|code| *code == "store_broken"), "{at}: {codes:?}");
                failed_calls += 1;
            }
        }
        said.check_acknowledged(&path, &at.to_string());
        // With a disk that works, the next start goes on from there.
        let after = victim(&path, 3, "none");
        assert_eq!(after.lines[0].code(), "ok", "{at}");
        audit(&path);
    }
    assert!(failed_calls >= 9, "fsync failed in {failed_calls} calls only");
    assert!(at_close <= 3, "{at_close} times nobody noticed");
}
