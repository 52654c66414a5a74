//! The job: a voice message, stage by stage.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use tracing::Instrument;
use windlass_engine::core::id::StepName;
use windlass_engine::core::json::{Json, STEP_BYTES_MAX};
use windlass_engine::world::{World, jittered};
use windlass_engine::{Context, Failure, Handler, StoreError};
use windlass_outside::objects::{Objects, ObjectsError};
use windlass_outside::openai::OpenAi;
use windlass_outside::twilio::Twilio;

use crate::gate::Gate;
use crate::message::Message;
use crate::meter::Meter;
use crate::names::Names;
use crate::people::People;
use crate::settings;
use crate::steps::audio::Stored;
use crate::steps::transcript::{Transcript, Unheard};
use crate::steps::{Staged, analysis, audio, document, transcript};
use crate::trouble::{Class, Trouble};

/// How long a rate limit lasts when the provider does not say.
const COOL_DOWN: Duration = Duration::from_secs(30);
/// How long a message waits that met a closed door. Nothing is claimed while it is closed, so that this need not
/// be long; and whoever opens it does not have to wait for the messages.
const DOOR_WAIT: Duration = Duration::from_secs(5);

/// A stage: the step that it is, its word in the table, and who must have done their work for it.
struct Stage {
    step: &'static str,
    word: &'static str,
    providers: &'static [&'static str],
}

const AUDIO: Stage =
    Stage { step: "audio", word: "AUDIO_STORED", providers: &["twilio", "objects", "database"] };
const TRANSCRIPT: Stage =
    Stage { step: "transcript", word: "TRANSCRIBED", providers: &["openai", "objects", "database"] };
const ANALYSIS: Stage = Stage { step: "analysis", word: "ANALYZED", providers: &["openai", "database"] };
const DOCUMENT: Stage = Stage { step: "document", word: "DOC_CREATED", providers: &["database"] };

/// The stage that shows that a provider works again which has refused a message there; none when no end of that stage
/// does, since it asks the provider only now and then.
fn opened_by(provider: &str, word: &str) -> Option<&'static str> {
    let stages = [&AUDIO, &TRANSCRIPT, &ANALYSIS, &DOCUMENT];
    let stage = stages.into_iter().find(|stage| stage.word == word && stage.providers.contains(&provider));
    stage.map(|stage| stage.word)
}

/// Works voice messages.
pub(crate) struct VoiceMessages {
    pub(crate) people: People,
    pub(crate) twilio: Twilio,
    pub(crate) openai: OpenAi,
    pub(crate) objects: Objects,
    pub(crate) settings: settings::OpenAi,
    /// How long a provider is left alone at most.
    pub(crate) cool_down_max: Duration,
    pub(crate) gate: Arc<Gate>,
    pub(crate) names: Arc<Names>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) world: Arc<dyn World>,
}

#[async_trait]
impl Handler for VoiceMessages {
    async fn run(&self, context: Context) -> Result<Option<Json>, Failure> {
        let sid = self.names.of(context.id()).unwrap_or_default();
        let span = tracing::info_span!("message", messageSid = sid, attempt = context.attempt());
        let work = AssertUnwindSafe(self.read_and_work(&context)).catch_unwind();
        match work.instrument(span).await {
            Ok(done) => done.map(|()| None),
            // What a panic says may hold anything; the hook has said where it was.
            Err(_) => Err(Failure::retry(Trouble::new(Class::Transient, "worker", "panic"))),
        }
    }
}

impl VoiceMessages {
    async fn read_and_work(&self, context: &Context) -> Result<(), Failure> {
        match Message::read(context) {
            Ok(message) => self.work(context, &message).await,
            Err(trouble) => Err(self.end(context, "RECEIVED", trouble).await),
        }
    }

    async fn work(&self, context: &Context, message: &Message) -> Result<(), Failure> {
        let last = StepName::new(DOCUMENT.step)?;
        if context.stored(&last).is_some() {
            return Ok(());
        }
        let stored = self
            .stage(context, &AUDIO, async || {
                let mut bound = self.people.bind(&message.sid).await?;
                bound.agency = bound.agency.or_else(|| message.agency.clone());
                audio::archive(&self.twilio, &self.objects, message, bound).await
            })
            .await?;
        let said =
            self.stage(context, &TRANSCRIPT, async || self.hear(context, message, &stored).await).await?;
        // Whoever stored it.
        if let Err(trouble) = said.is_something() {
            return Err(self.end(context, TRANSCRIPT.word, trouble).await);
        }
        let analyzed = self
            .stage(context, &ANALYSIS, async || analysis::analyze(&self.openai, &self.settings, &said).await)
            .await?;
        self.stage(context, &DOCUMENT, async || {
            let form = analyzed.form()?;
            // The row says to whom it was bound, also when a person did so. What an
            // earlier worker archived was never bound, and a person may have added
            // the patient of what nobody could bind.
            let bound = match stored.bound.agency.is_some() && stored.sha256.is_some() {
                true => stored.bound.clone(),
                false => self.people.bind(&message.sid).await?,
            };
            let heard = form.patient_id.as_deref();
            let known = self.people.believe(&message.sid, bound, heard).await?;
            document::compose(known, message, form, said.language.clone())
        })
        .await?;
        Ok(())
    }

    /// Has the note transcribed; one that the archive has lost is fetched again first.
    async fn hear(
        &self,
        context: &Context,
        message: &Message,
        stored: &Stored,
    ) -> Result<Transcript, Trouble> {
        let hear = async |stored: &Stored| {
            transcript::transcribe(&self.openai, &self.objects, &self.settings, stored).await
        };
        match hear(stored).await {
            Ok(said) => return Ok(said),
            Err(Unheard::Trouble(trouble)) => return Err(trouble),
            Err(Unheard::Gone) => {}
        }
        tracing::warn!("The archive has lost the note; fetching it again");
        let again = audio::restore(&self.twilio, &self.objects, message, stored).await?;
        // Where it is now is written down before it is believed, with a line of the audit.
        let unwritten = || Trouble::new(Class::Transient, "database", "archive_not_noted");
        let output = Json::from_value("the archive", &again, STEP_BYTES_MAX).map_err(|_| unwritten())?;
        let name = StepName::new(AUDIO.step).map_err(|_| unwritten())?;
        context.store_step(name, output).await.map_err(|_| unwritten())?;
        match hear(&again).await {
            Ok(said) => Ok(said),
            Err(Unheard::Trouble(trouble)) => Err(trouble),
            Err(Unheard::Gone) => Err(ObjectsError::Upstream.into()),
        }
    }

    /// One stage: what was stored before, or what `work` gives, stored.
    async fn stage<T, F, Fut>(&self, context: &Context, stage: &Stage, work: F) -> Result<T, Failure>
    where
        T: Staged,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, Trouble>>,
    {
        let began_ms = self.world.boot_ms();
        let (mut ran, mut ended) = (false, false);
        let value = context
            .step(stage.step, async || {
                ran = true;
                match work().await {
                    Ok(mut value) => {
                        value.audit().ms = Some(self.world.boot_ms() - began_ms);
                        Ok(value)
                    }
                    Err(trouble) => {
                        ended = true;
                        Err(self.end(context, stage.word, trouble).await)
                    }
                }
            })
            .await;
        let value = match value {
            // The stage was reached, and the database would never take it: it is said in our words.
            Err(Failure::Permanent { error }) if ran && !ended => {
                let refused = error.downcast_ref::<StoreError>();
                if let Some(error) = refused {
                    tracing::error!(job_id = %context.id(), %error, "The database will never take this stage");
                }
                let trouble = match refused {
                    // No message would be taken: the tables have to be put right.
                    Some(StoreError::Schema(_)) => Trouble::new(Class::Configuration, "database", "schema"),
                    _ => Trouble::new(Class::Permanent, "database", "refused"),
                };
                return Err(self.end(context, stage.word, trouble).await);
            }
            value => value?,
        };
        if ran {
            let ms = self.world.boot_ms() - began_ms;
            for provider in stage.providers {
                self.gate.open(provider, stage.word).await;
            }
            self.meter.stage(stage.word, ms);
            tracing::info!(stage = stage.word, durationMs = ms, "Stage {} complete", stage.word);
        }
        Ok(value)
    }

    /// What follows from a trouble.
    async fn end(&self, context: &Context, stage: &'static str, trouble: Trouble) -> Failure {
        self.meter.trouble(stage, &trouble);
        tracing::warn!(stage, reason = %trouble, attempt = context.attempt(), "Stage {stage} failed");
        let wait = trouble.delay(self.world.wall(), self.cool_down_max);
        match trouble.class {
            Class::Transient => match wait {
                Some(wait) => Failure::retry_after(trouble, wait),
                None => Failure::retry(trouble),
            },
            Class::Permanent | Class::NeedsHuman => Failure::permanent(trouble),
            Class::Configuration if self.gate.is_its_own(context.id(), &trouble, stage) => {
                Failure::permanent(Trouble { class: Class::Permanent, ..trouble })
            }
            Class::Configuration => {
                self.gate.close(&trouble, opened_by(trouble.provider, stage)).await;
                Failure::park(self.spread(DOOR_WAIT))
            }
            Class::RateLimit => {
                let wait = wait.unwrap_or(COOL_DOWN).max(Duration::from_secs(1));
                let cooling = context.cool_down(trouble.provider, wait).await;
                self.gate.cool(&trouble).await;
                match cooling {
                    Ok(()) | Err(Failure::Retry { .. } | Failure::Permanent { .. }) => {
                        Failure::park(self.spread(wait.min(DOOR_WAIT)))
                    }
                    Err(stopped) => stopped,
                }
            }
        }
    }

    /// Messages that wait together do not come back together.
    fn spread(&self, wait: Duration) -> Duration {
        let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX / 2);
        Duration::from_millis(jittered(&*self.world, ms))
    }
}
