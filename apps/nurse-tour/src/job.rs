//! The job: a voice message, stage by stage.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::Pool;
use futures::FutureExt;
use tracing::Instrument;
use windlass::core::id::StepName;
use windlass::core::json::Json;
use windlass::world::{World, jittered};
use windlass::{Context, Failure, Handler};
use windlass_outside::objects::Objects;
use windlass_outside::openai::OpenAi;
use windlass_outside::twilio::Twilio;

use crate::gate::Gate;
use crate::message::Message;
use crate::meter::Meter;
use crate::people;
use crate::settings;
use crate::steps::{Staged, analysis, audio, document, transcript};
use crate::trouble::{Class, Trouble};

/// How long a rate limit lasts when the provider does not say.
const COOL_DOWN: Duration = Duration::from_secs(30);
/// How long a message waits whose provider does not accept our credentials.
const CONFIGURATION_WAIT: Duration = Duration::from_secs(60);

/// A stage: the step that it is, its word in the table, and who must have done their work for it.
struct Stage {
    step: &'static str,
    word: &'static str,
    providers: &'static [&'static str],
}

const AUDIO: Stage = Stage { step: "audio", word: "AUDIO_STORED", providers: &["twilio", "objects"] };
const TRANSCRIPT: Stage =
    Stage { step: "transcript", word: "TRANSCRIBED", providers: &["openai", "objects"] };
const ANALYSIS: Stage = Stage { step: "analysis", word: "ANALYZED", providers: &["openai"] };
const DOCUMENT: Stage = Stage { step: "document", word: "DOC_CREATED", providers: &[] };

/// Works voice messages.
pub(crate) struct VoiceMessages {
    pub(crate) pool: Pool,
    pub(crate) twilio: Twilio,
    pub(crate) openai: OpenAi,
    pub(crate) objects: Objects,
    pub(crate) settings: settings::OpenAi,
    pub(crate) gate: Arc<Gate>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) world: Arc<dyn World>,
}

#[async_trait]
impl Handler for VoiceMessages {
    async fn run(&self, context: Context) -> Result<Option<Json>, Failure> {
        let message = match Message::read(&context) {
            Ok(message) => message,
            Err(trouble) => return Err(self.end(&context, "RECEIVED", trouble).await),
        };
        let span = tracing::info_span!("message", messageSid = message.sid, attempt = context.attempt());
        let work = AssertUnwindSafe(self.work(&context, &message)).catch_unwind();
        match work.instrument(span).await {
            Ok(done) => done.map(|()| None),
            // What a panic says may hold anything; the hook has said where it was.
            Err(_) => Err(Failure::retry(Trouble::new(Class::Transient, "worker", "panic"))),
        }
    }
}

impl VoiceMessages {
    async fn work(&self, context: &Context, message: &Message) -> Result<(), Failure> {
        let last = StepName::new(DOCUMENT.step)?;
        if context.stored(&last).is_some() {
            return Ok(());
        }
        let stored = self
            .stage(context, &AUDIO, async || {
                let mut bound = people::bind(&self.pool, &message.sid).await?;
                bound.agency = bound.agency.or_else(|| message.agency.clone());
                audio::archive(&self.twilio, &self.objects, message, bound).await
            })
            .await?;
        let said = self
            .stage(context, &TRANSCRIPT, async || {
                transcript::transcribe(&self.openai, &self.objects, &self.settings, &stored).await
            })
            .await?;
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
                false => people::bind(&self.pool, &message.sid).await?,
            };
            let heard = form.patient_id.as_deref();
            let (bound, document) = people::believe(&self.pool, &message.sid, bound, heard).await?;
            document::compose(document, message, bound, form, said.language.clone())
        })
        .await?;
        Ok(())
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
            Err(Failure::Permanent { .. }) if ran && !ended => {
                let trouble = Trouble::new(Class::Permanent, "database", "refused");
                return Err(self.end(context, stage.word, trouble).await);
            }
            value => value?,
        };
        if ran {
            let ms = self.world.boot_ms() - began_ms;
            for provider in stage.providers {
                self.gate.open(provider);
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
        let wait = trouble.delay(self.world.wall());
        match trouble.class {
            Class::Transient => match wait {
                Some(wait) => Failure::retry_after(trouble, wait),
                None => Failure::retry(trouble),
            },
            Class::Permanent | Class::NeedsHuman => Failure::permanent(trouble),
            Class::Configuration => {
                self.gate.close(&trouble);
                Failure::park(self.spread(CONFIGURATION_WAIT))
            }
            Class::RateLimit => {
                let wait = wait.unwrap_or(COOL_DOWN).max(Duration::from_secs(1));
                match context.cool_down(trouble.provider, wait).await {
                    Ok(()) | Err(Failure::Retry { .. } | Failure::Permanent { .. }) => {
                        Failure::park(self.spread(wait))
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
