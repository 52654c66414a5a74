//! `windlass nurse-tour status`

use windlass_app::output::{plain, print_json, table};
use windlass_app::{AppError, Exit, Host, say};

use super::database;
use crate::status::{Latency, Status};

/// Shows how things stand.
pub(crate) async fn run(host: &Host) -> Result<Exit, AppError> {
    let status = Status::read(&database(host)?.0, true).await?;
    if host.json {
        print_json(&status)?;
        return Ok(Exit::DONE);
    }
    let rows = |list: Vec<[String; 3]>| list.into_iter().map(Vec::from).collect::<Vec<_>>();
    let queue = status.queue.iter().map(|one| [one.status.clone(), one.stage.clone(), one.count.to_string()]);
    say!("{}\n", table(&["status", "stage", "messages"], &rows(queue.collect())));
    let oldest = status.oldest_waiting_s.map_or("nothing is due".to_owned(), |s| format!("{s:.0} s"));
    say!("oldest waiting: {oldest}\nin flight: {}\nexpired locks: {}", status.in_flight, status.expired);
    for one in &status.cooling {
        if one.for_s <= 0.0 {
            say!(
                "one message at a time: {} no longer wants to be left alone, and the next message tries it ({})",
                one.provider,
                plain(&one.why)
            );
            continue;
        }
        say!(
            "claiming stopped for all workers: {} wants to be left alone for {:.0} s more ({}); `resume` lifts it",
            one.provider,
            one.for_s,
            plain(&one.why)
        );
    }
    for one in &status.stopped {
        say!(
            "claiming stopped for {}: {}; it tries again in {:.0} s, or at once after `resume`",
            plain(&one.worker),
            plain(&one.why),
            one.again_s
        );
    }
    if !status.failed.is_empty() {
        let failed = status.failed.iter().map(|one| {
            let example = plain(&one.example);
            vec![one.status.clone(), one.reason.clone(), one.count.to_string(), example]
        });
        let failed: Vec<Vec<String>> = failed.collect();
        say!("\n{}", table(&["over as", "reason", "messages", "one of them"], &failed));
    }
    if !status.stages.is_empty() {
        let ms = |ms: f64| format!("{ms:.0} ms");
        let stage = |one: &Latency| {
            vec![
                one.stage.clone(),
                one.count.to_string(),
                ms(one.p50_ms),
                ms(one.p95_ms),
                ms(one.max_ms as f64),
            ]
        };
        let stages: Vec<Vec<String>> = status.stages.iter().map(stage).collect();
        say!("\n{}", table(&["stage (24 h)", "count", "p50", "p95", "max"], &stages));
    }
    Ok(Exit::DONE)
}
