//! What a file says, done.

use std::sync::Arc;

use anyhow::Context;
use windlass_engine::Worker;
use windlass_engine::core::store::Store;
use windlass_server::{Secret, Settings, Token};

use super::{CommandKind, Config, NamedToken};

impl Config {
    /// Sets the queues, budgets and schedules that the file names.
    pub async fn apply(&self, store: &dyn Store) -> anyhow::Result<()> {
        for (name, policy) in &self.queues {
            store.put_queue(name.clone(), policy.clone()).await.with_context(|| format!("queues.{name}"))?;
        }
        for (name, policy) in &self.budgets {
            store.put_budget(name.clone(), *policy).await.with_context(|| format!("budgets.{name}"))?;
        }
        for (name, policy) in &self.schedules {
            let set = store.put_schedule(name.clone(), policy.clone()).await;
            set.with_context(|| format!("schedules.{name}"))?;
        }
        Ok(())
    }

    /// The settings of a server, with the token that may do everything.
    pub fn settings(&self, token: Option<String>) -> anyhow::Result<Settings> {
        let tokens = self.tokens.iter().map(NamedToken::token).collect::<anyhow::Result<Vec<Token>>>()?;
        Ok(Settings {
            token: token.filter(|token| !token.is_empty()).map(Secret::new),
            tokens,
            allowed_hosts: self.allowed_hosts.clone(),
            https: self.https,
            sensitive_kinds: self.sensitive_kinds.clone(),
            ..Settings::default()
        })
    }

    /// One worker for each kind that a program runs.
    pub fn workers(self, store: &Arc<dyn Store>) -> Vec<Worker> {
        let worker = |CommandKind { kind, queues, slots, command }| {
            Worker::new(store.clone())
                // The server keeps house already.
                .housekeeping(false)
                .slots(usize::from(slots))
                .queues(queues.iter().map(|queue| queue.as_str()))
                .handle_command(kind.as_str(), command)
        };
        self.commands.into_iter().map(worker).collect()
    }
}

impl NamedToken {
    fn token(&self) -> anyhow::Result<Token> {
        let Self { name, variable, role } = self;
        let text = std::env::var(variable).ok().filter(|text| !text.is_empty());
        let text = text.with_context(|| {
            format!("tokens.{name} is to be found in the variable {variable}, which is not set; set it, or take the token out of the file")
        })?;
        Ok(Token { name: name.clone(), hash: Secret::new(text).hash(), role: role.clone(), expires_at: None })
    }
}
