//! The program's side: for a binary of ours that runs as a job's process.

use std::collections::HashMap;
use std::io::{Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_core::id::StepName;
use windlass_core::json::{Json, PROGRESS_BYTES_MAX, RESULT_BYTES_MAX, STEP_BYTES_MAX};

use super::protocol::{Word, write};
use crate::failure::Failure;

/// What a process knows of the job that it runs for.
///
/// ```no_run
/// use windlass_engine::process::Inside;
///
/// # fn main() -> Result<(), windlass_engine::Failure> {
/// let Some(job) = Inside::read()? else { return Ok(()) };
/// let bytes: u64 = job.step("download", || Ok(512))?;
/// job.result(&serde_json::json!({ "bytes": bytes }))?;
/// # Ok(())
/// # }
/// ```
pub struct Inside {
    payload: Json,
    attempt: u32,
    steps: HashMap<StepName, Json>,
}

impl Inside {
    /// Reads payload and steps; nothing when this process does not run for a job.
    pub fn read() -> Result<Option<Self>, Failure> {
        let Ok(attempt) = std::env::var("WINDLASS_ATTEMPT") else { return Ok(None) };
        let attempt = attempt.parse().map_err(|_| Failure::permanent("WINDLASS_ATTEMPT is not a number"))?;
        let mut payload = Vec::new();
        std::io::stdin().read_to_end(&mut payload)?;
        let payload = Json::payload(payload)?;
        let steps = match std::env::var_os("WINDLASS_STEPS") {
            Some(path) => serde_json::from_slice(&std::fs::read(path)?)?,
            None => HashMap::new(),
        };
        Ok(Some(Self { payload, attempt, steps }))
    }

    /// The payload as a type.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        self.payload.read().map_err(|error| Failure::permanent(format!("the payload does not fit: {error}")))
    }

    /// Which attempt this is, counted from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Runs a step and says what it gave, or gives what it gave before.
    pub fn step<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let name = StepName::new(name)?;
        if let Some(output) = self.steps.get(&name) {
            return Ok(output.read()?);
        }
        let value = work()?;
        let output = Json::from_value("the step's output", &value, STEP_BYTES_MAX)?;
        say(&Word::Step { name, output })?;
        Ok(value)
    }

    /// Says how far it is.
    pub fn progress<T: Serialize + ?Sized>(&self, progress: &T) -> Result<(), Failure> {
        say(&Word::Progress(Json::from_value("progress", progress, PROGRESS_BYTES_MAX)?))
    }

    /// Says what the job gives.
    pub fn result<T: Serialize + ?Sized>(&self, result: &T) -> Result<(), Failure> {
        say(&Word::Result(Json::from_value("the result", result, RESULT_BYTES_MAX)?))
    }

    /// Says how it failed, and answers the code to exit with.
    pub fn exit_code(ended: Result<(), Failure>) -> i32 {
        let (word, code) = match ended {
            Ok(()) => return 0,
            Err(failure @ Failure::Permanent { .. }) => {
                (Word::Error(failure.to_string()), super::EXIT_PERMANENT)
            }
            Err(failure @ Failure::Retry { after, .. }) => {
                if let Some(after) = after {
                    let _ = say(&Word::RetryAfter(span(after)));
                }
                (Word::Error(failure.to_string()), 1)
            }
            Err(Failure::Park { after, .. }) => (Word::Park(span(after)), 75),
            Err(Failure::Canceled | Failure::Released | Failure::LeaseLost) => return 143,
        };
        // Should nobody listen, the code says enough.
        let _ = say(&word);
        code
    }
}

fn span(duration: std::time::Duration) -> windlass_core::time::Span {
    windlass_core::time::Span::from_ms(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

fn say(word: &Word) -> Result<(), Failure> {
    let mut line = write(word)?;
    line.push('\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(line.as_bytes())?;
    stdout.flush()?;
    Ok(())
}
