//! Enqueueing inside a transaction of the caller's own, in the words of the
//! library: a job or a request for one.
//!
//! What this deliberately does not do: it begins and ends no transaction, and
//! gives no handle to wait by. The job is not there yet; when it is,
//! [`Client::result`](crate::Client::result) knows it by its id.

#[cfg(feature = "postgres")]
pub mod postgres {
    //! By a transaction of tokio-postgres.

    use windlass_engine::{Enqueued, JobRequest, StoreError};
    use windlass_postgres::tokio_postgres::GenericClient;

    /// Enqueues a job inside `transaction`: it is there if that commits, and was
    /// never there if it does not. Workers are called by the commit.
    ///
    /// It is a transaction of [tokio-postgres](super::super::postgres::tokio_postgres),
    /// or a connection inside of one, to the database of a store that was opened
    /// before. What is wrong with the job itself is said before anything is
    /// asked, and the transaction goes on; what the store refuses fails the
    /// transaction, as any error of Postgres.
    ///
    /// ```no_run
    /// # use windlass::prelude::*;
    /// use windlass::postgres::{enqueue_in, tokio_postgres::Client as Sql};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Welcome { user: String }
    /// # impl Job for Welcome { const KIND: &'static str = "welcome"; type Output = (); }
    ///
    /// async fn sign_up(sql: &mut Sql, user: String) -> Result<(), Box<dyn std::error::Error>> {
    ///     let transaction = sql.transaction().await?;
    ///     transaction.execute("INSERT INTO users VALUES ($1)", &[&user]).await?;
    ///     enqueue_in(&transaction, Welcome { user }).await?;
    ///     Ok(transaction.commit().await?)
    /// }
    /// ```
    pub async fn enqueue_in<O>(
        transaction: &impl GenericClient,
        job: impl Into<JobRequest<O>>,
    ) -> Result<Enqueued, StoreError> {
        let new = job.into().build()?;
        super::only(windlass_postgres::enqueue_in(transaction, &[new]).await?)
    }

    /// Enqueues jobs inside `transaction`, all or none, and answers in their
    /// order. As [`enqueue_in`] otherwise.
    pub async fn enqueue_many_in<O, R: Into<JobRequest<O>>>(
        transaction: &impl GenericClient,
        jobs: impl IntoIterator<Item = R>,
    ) -> Result<Vec<Enqueued>, StoreError> {
        let new = JobRequest::build_all(jobs)?;
        windlass_postgres::enqueue_in(transaction, &new).await
    }
}

#[cfg(feature = "sqlite")]
pub mod sqlite {
    //! By a transaction of rusqlite.

    use windlass_engine::{Enqueued, JobRequest, StoreError};
    use windlass_sqlite::rusqlite::Transaction;

    /// Enqueues a job inside `transaction`: it is there if that commits, and was
    /// never there if it does not. Workers find it within a second.
    ///
    /// It is a transaction of [rusqlite](super::super::sqlite::rusqlite) on the
    /// file of a store that was opened before; your own tables live beside its.
    /// Begin it with `TransactionBehavior::Immediate`, so that it cannot find out
    /// half-way that another is writing. A job that is refused leaves nothing
    /// behind, and the transaction goes on.
    ///
    /// ```no_run
    /// # use windlass::prelude::*;
    /// use windlass::sqlite::{enqueue_in, rusqlite};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Welcome { user: String }
    /// # impl Job for Welcome { const KIND: &'static str = "welcome"; type Output = (); }
    ///
    /// fn sign_up(sql: &mut rusqlite::Connection, user: String) -> Result<(), Box<dyn std::error::Error>> {
    ///     let transaction = sql.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    ///     transaction.execute("INSERT INTO users VALUES (?1)", [&user])?;
    ///     enqueue_in(&transaction, Welcome { user })?;
    ///     Ok(transaction.commit()?)
    /// }
    /// ```
    pub fn enqueue_in<O>(
        transaction: &Transaction<'_>,
        job: impl Into<JobRequest<O>>,
    ) -> Result<Enqueued, StoreError> {
        let new = job.into().build()?;
        super::only(windlass_sqlite::enqueue_in(transaction, &[new])?)
    }

    /// Enqueues jobs inside `transaction`, all or none, and answers in their
    /// order. As [`enqueue_in`] otherwise.
    pub fn enqueue_many_in<O, R: Into<JobRequest<O>>>(
        transaction: &Transaction<'_>,
        jobs: impl IntoIterator<Item = R>,
    ) -> Result<Vec<Enqueued>, StoreError> {
        let new = JobRequest::build_all(jobs)?;
        windlass_sqlite::enqueue_in(transaction, &new)
    }
}

/// The answer for the one job that was given.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
fn only(
    answers: Vec<windlass_engine::Enqueued>,
) -> Result<windlass_engine::Enqueued, windlass_engine::StoreError> {
    let broken = || windlass_engine::StoreError::Broken("an enqueue gave no answer".into());
    answers.into_iter().next().ok_or_else(broken)
}
