//! A program as the operator configured it, and how its attempts are run.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use windlass_core::error::Invalid;
use windlass_core::job::Job;
use windlass_core::json::Json;

use super::EXIT_PERMANENT;
use super::cgroup::Group;
use super::output::{Lines, OnLine, Pipe, Tail, read_tail};
use super::protocol::{LINE_BYTES_MAX, Line, Word, read};
use super::spawn::spawn;
use super::tree::{MARK, Tree, new_mark};
use crate::context::Context;
use crate::failure::Failure;
use crate::handler::Handler;
use crate::signal::Stop;

/// What of the worker's own environment a program gets unless more is allowed.
const INHERITED: [&str; 7] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR"];
/// How long the pipes of a program that has ended are read on: something that
/// left its group may hold them open for ever.
const DRAIN_MS: u64 = 1_000;
/// The longest time between SIGTERM and SIGKILL for a program whose lease is lost.
const LOST_GRACE_MS: u64 = 1_000;

/// A program that jobs may be run with.
#[derive(Debug, Clone)]
pub struct Command {
    argv: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    inherited: Vec<String>,
    folder: Option<PathBuf>,
    grace: Option<Duration>,
    pass_stderr: bool,
    on_line: Option<OnLine>,
    limits: Limits,
}

/// Bounds on what a program may use; nothing means the worker's own.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// Bytes of address space.
    pub memory_bytes: Option<u64>,
    /// Seconds of processor time.
    pub cpu_seconds: Option<u64>,
    /// Open files.
    pub open_files: Option<u64>,
    /// Bytes of the largest file that it may write.
    pub file_bytes: Option<u64>,
}

impl Command {
    /// A program and its arguments. There is no shell in between.
    pub fn new<S: Into<OsString>>(argv: impl IntoIterator<Item = S>) -> Result<Self, Invalid> {
        let argv: Vec<OsString> = argv.into_iter().map(Into::into).collect();
        if argv.first().is_none_or(|program| program.is_empty()) {
            return Err(Invalid::new("command", "has no program"));
        }
        let inherited = INHERITED.map(str::to_owned).to_vec();
        Ok(Self {
            argv,
            env: Vec::new(),
            inherited,
            folder: None,
            grace: None,
            pass_stderr: false,
            on_line: None,
            limits: Limits::default(),
        })
    }

    /// This same binary with other arguments; see [`super::Inside`] for its side of it.
    pub fn this_binary<S: Into<OsString>>(arguments: impl IntoIterator<Item = S>) -> std::io::Result<Self> {
        let mut argv = vec![std::env::current_exe()?.into_os_string()];
        argv.extend(arguments.into_iter().map(Into::into));
        Self::new(argv).map_err(std::io::Error::other)
    }

    /// Sets a variable of the program's environment.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Hands on a variable of the worker's environment.
    pub fn inherit(mut self, name: &str) -> Self {
        self.inherited.push(name.to_owned());
        self
    }

    /// The folder that it runs in.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// The time between SIGTERM and SIGKILL, when it is to be shorter than the worker's.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// Shows what the program writes to stderr on the worker's own, as it comes.
    pub fn pass_stderr(mut self, pass: bool) -> Self {
        self.pass_stderr = pass;
        self
    }

    /// Hears every line that the program writes, but for those that are meant for the worker.
    pub fn on_line(mut self, hear: impl Fn(&Job, Pipe, &str) + Send + Sync + 'static) -> Self {
        self.on_line = Some(OnLine(Arc::new(hear)));
        self
    }

    fn hear(&self, context: &Context, pipe: Pipe, line: &str) {
        context.log(line);
        if let Some(OnLine(hear)) = &self.on_line {
            hear(context.job(), pipe, line);
        }
    }

    /// Bounds on what it may use.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    fn prepare(&self, context: &Context, mark: &str, steps: Option<&StepsFile>) -> std::process::Command {
        let job = context.job();
        let mut command = std::process::Command::new(&self.argv[0]);
        command.args(&self.argv[1..]).env_clear();
        for name in &self.inherited {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
            .env("WINDLASS_JOB_ID", job.id.to_string())
            .env("WINDLASS_KIND", job.spec.kind.as_str())
            .env("WINDLASS_FENCE", job.fence.to_string())
            .env("WINDLASS_ATTEMPT", job.attempt.to_string())
            .env(MARK, mark);
        if let Some(parent) = context.traceparent() {
            command.env("TRACEPARENT", parent.as_str());
        }
        if let Some(steps) = steps {
            command.env("WINDLASS_STEPS", &steps.0);
        }
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// Runs jobs with a program.
pub struct CommandHandler {
    command: Command,
}

impl CommandHandler {
    /// A handler that gives the program the worker's grace to end, unless the command says otherwise.
    pub fn new(command: Command) -> Self {
        Self { command }
    }
}

#[async_trait]
impl Handler for CommandHandler {
    async fn run(&self, context: Context) -> Result<Option<Json>, Failure> {
        let mark = new_mark(context.chance());
        let steps = StepsFile::of(&context, &mark)?;
        let command = self.command.prepare(&context, &mark, steps.as_ref());
        let started = spawn(command, self.command.limits, Group::new(&mark)).await.map_err(|error| {
            let program = self.command.argv[0].to_string_lossy();
            Failure::retry(format!("cannot start {program}: {error}"))
        })?;
        let mut tree = Tree::new(started, mark)?;
        context.set_brake(Some(tree.brake()));
        let mut said = Said::default();
        let tail = Mutex::new(Tail::default());
        let (stdin, stdout, stderr) = pipes(&mut tree)?;
        let mut lines = Lines::new(stdout, LINE_BYTES_MAX);
        let feed = feed(stdin, context.payload());
        let errors = read_tail(stderr, &tail, self.command.pass_stderr, |line| {
            self.command.hear(&context, Pipe::Err, line);
        });
        tokio::pin!(feed, errors);
        let mut open = Open { feed: true, lines: true, errors: true };
        {
            let grace = self.stop_politely(&context, &tree);
            tokio::pin!(grace);
            loop {
                tokio::select! {
                    ended = tree.exited() => break ended?,
                    () = &mut grace => break,
                    () = &mut feed, if open.feed => open.feed = false,
                    () = &mut errors, if open.errors => open.errors = false,
                    line = lines.next(), if open.lines => match line {
                        Some(line) => said.hear(&self.command, &context, &line).await?,
                        None => open.lines = false,
                    },
                }
            }
        }
        context.set_brake(None);
        let status = tree.end()?;
        let rest = async {
            while let Some(line) = lines.next().await {
                said.hear(&self.command, &context, &line).await?;
            }
            if open.errors {
                errors.await;
            }
            Ok::<(), Failure>(())
        };
        tokio::select! {
            heard = rest => heard?,
            () = context.world().sleep_ms(DRAIN_MS) => {}
        }
        let tail = tail.lock().unwrap_or_else(std::sync::PoisonError::into_inner).text();
        said.verdict(&context, status, tail)
    }
}

impl CommandHandler {
    /// When the handler is told to stop: SIGTERM to the group, then time. Done when that is over.
    async fn stop_politely(&self, context: &Context, tree: &Tree) {
        let stop = context.stopping().await;
        tree.terminate();
        let own_ms = self.command.grace.map(|grace| u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
        let grace_ms = own_ms.unwrap_or_else(|| context.grace_ms());
        // Another may have the job already: there is no time for more than an end in order.
        let grace_ms = if stop == Stop::LeaseLost { grace_ms.min(LOST_GRACE_MS) } else { grace_ms };
        context.world().sleep_ms(grace_ms).await;
    }
}

/// Which pipes are still open.
struct Open {
    feed: bool,
    lines: bool,
    errors: bool,
}

fn pipes(tree: &mut Tree) -> std::io::Result<(ChildStdin, ChildStdout, ChildStderr)> {
    let child = tree.child_mut();
    let missing = || std::io::Error::other("a pipe to the program is missing");
    Ok((
        ChildStdin::from_std(child.stdin.take().ok_or_else(missing)?)?,
        ChildStdout::from_std(child.stdout.take().ok_or_else(missing)?)?,
        ChildStderr::from_std(child.stderr.take().ok_or_else(missing)?)?,
    ))
}

/// Gives the payload. A program that does not read it may have no need of it.
async fn feed(mut stdin: ChildStdin, payload: &Json) {
    let _ = stdin.write_all(payload.as_str().as_bytes()).await;
    let _ = stdin.shutdown().await;
}

/// What a program has said so far.
#[derive(Default)]
struct Said {
    result: Option<Json>,
    retry_after: Option<Duration>,
    park: Option<Duration>,
    error: Option<String>,
}

impl Said {
    async fn hear(&mut self, command: &Command, context: &Context, line: &str) -> Result<(), Failure> {
        match read(line) {
            Line::Word(Word::Progress(progress)) => context.progress(&progress).await?,
            Line::Word(Word::Step { name, output }) => context.store_step(name, output).await?,
            Line::Word(Word::Result(result)) => self.result = Some(result),
            Line::Word(Word::RetryAfter(span)) => self.retry_after = Some(Duration::from_millis(span.ms())),
            Line::Word(Word::Park(span)) => self.park = Some(Duration::from_millis(span.ms())),
            Line::Word(Word::Error(error)) => self.error = Some(error),
            Line::Garbled(why) => {
                tracing::warn!(job_id = %context.id(), why, "a line of the program cannot be read")
            }
            Line::Output(_) => command.hear(context, Pipe::Out, line),
        }
        Ok(())
    }

    fn verdict(self, context: &Context, status: ExitStatus, tail: String) -> Result<Option<Json>, Failure> {
        let error = self.error.unwrap_or(tail);
        let error = if error.is_empty() { status.to_string() } else { format!("{status}: {error}") };
        if status.success() {
            return match self.park {
                Some(after) => Err(Failure::park(after)),
                None => Ok(self.result),
            };
        }
        // A program that ends badly after it was told to stop ends because of that.
        context.goes_on()?;
        match (self.park, status.code()) {
            (Some(after), _) => Err(Failure::park(after)),
            (None, Some(EXIT_PERMANENT)) => Err(Failure::permanent(error)),
            (None, _) => Err(Failure::Retry { error: error.into(), after: self.retry_after }),
        }
    }
}

/// The stored steps in a file for the program, gone with the attempt.
struct StepsFile(PathBuf);

impl StepsFile {
    fn of(context: &Context, mark: &str) -> std::io::Result<Option<Self>> {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let steps = context.stored_steps();
        if steps.is_empty() {
            return Ok(None);
        }
        let path = std::env::temp_dir().join(format!("windlass-steps-{mark}.json"));
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let file_of = Self(path);
        file.write_all(&serde_json::to_vec(&steps)?)?;
        Ok(Some(file_of))
    }
}

impl Drop for StepsFile {
    fn drop(&mut self) {
        // Should it be gone already, so much the better.
        let _ = std::fs::remove_file(&self.0);
    }
}
