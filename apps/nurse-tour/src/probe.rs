//! Whether the providers accept us, asked in ways that cost nothing.
//!
//! Only a refusal that leaves no doubt counts; whatever else may be wrong, the first message finds out.

use std::time::Duration;

use tokio::time::timeout;
use windlass_outside::objects::Objects;
use windlass_outside::openai::OpenAi;
use windlass_outside::twilio::Twilio;

use crate::settings;
use crate::trouble::{Class, Trouble};

/// How long an answer may take. No answer is no refusal.
const PROBE_TIME: Duration = Duration::from_secs(10);

/// Asks the providers.
#[derive(Clone)]
pub(crate) struct Probe {
    pub(crate) twilio: Twilio,
    pub(crate) openai: OpenAi,
    pub(crate) objects: Objects,
    pub(crate) settings: settings::OpenAi,
}

impl Probe {
    /// What the providers say against us, all of it.
    pub(crate) async fn all(&self) -> Vec<Trouble> {
        let (twilio, openai, objects) =
            tokio::join!(self.one("twilio"), self.one("openai"), self.one("objects"));
        [twilio, openai, objects].into_iter().flatten().collect()
    }

    /// What a provider says against us.
    pub(crate) async fn one(&self, provider: &str) -> Option<Trouble> {
        let asked = timeout(PROBE_TIME, async {
            match provider {
                "twilio" => self.twilio.probe().await.map_err(Trouble::from),
                "openai" => self.models().await,
                "objects" => self.objects.probe().await.map_err(Trouble::from),
                _ => Ok(()),
            }
        });
        let refused = asked.await.ok().and_then(Result::err);
        refused.filter(|trouble| trouble.class == Class::Configuration)
    }

    async fn models(&self) -> Result<(), Trouble> {
        for model in [&self.settings.transcribe_model, &self.settings.analysis_model] {
            self.openai.probe(model).await?;
        }
        Ok(())
    }
}
