//! Which jobs a verb is for: ids, as short as one likes, or all that fit a filter.

use std::collections::BTreeSet;
use std::str::FromStr;

use clap::Args;
use windlass_engine::core::error::Invalid;
use windlass_engine::core::id::JobId;
use windlass_engine::core::job::Job;
use windlass_engine::core::query::{JobFilter, ListRequest, PAGE_MAX};
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::Store;
use windlass_report::search::find;

use super::filter::FilterArgs;
use crate::output::{cut, table};

/// How many jobs one call looks at, when it is given a filter.
const MATCHES_MAX: usize = 100_000;
/// The fewest digits of a short id.
const DIGITS_MIN: usize = 4;
/// How many pages of jobs are searched for a short id.
const PAGES_MAX: usize = 200;
/// How many jobs are named when a short id could mean several.
const NAMED_MAX: usize = 10;

/// An id as people say it: the whole of it, or its beginning or end.
#[derive(Debug, Clone)]
pub struct ShortId(String);

impl FromStr for ShortId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let digits: String = text.trim_start_matches('…').chars().filter(|c| *c != '-').collect();
        let fits = digits.chars().all(|c| c.is_ascii_hexdigit()) && (DIGITS_MIN..=32).contains(&digits.len());
        match fits {
            true => Ok(Self(digits.to_ascii_lowercase())),
            false => Err(Invalid::new(
                "id",
                format!("is neither a job's id nor {DIGITS_MIN} or more digits from its beginning or end"),
            )),
        }
    }
}

/// Why a short id names no job.
#[derive(Debug, thiserror::Error)]
pub enum Unnamed {
    /// Nobody has it.
    #[error("there is no job {0}; `windlass jobs` lists them")]
    Nobody(String),
    /// Several have it.
    #[error("{id} could be any of these; say more digits:\n{list}")]
    Several {
        /// What was said.
        id: String,
        /// Whom it could mean.
        list: String,
    },
    /// There are too many jobs to know.
    #[error(
        "{id} was looked for among {looked} jobs that have these digits somewhere, and there are more; give the whole id"
    )]
    Unsure {
        /// What was said.
        id: String,
        /// How many were looked at.
        looked: usize,
    },
}

/// What a search has found.
struct Search {
    found: Vec<Job>,
    /// How many jobs have the digits somewhere.
    looked: usize,
    /// Whether there was nothing more to look at.
    is_whole: bool,
}

impl ShortId {
    /// The job that is meant. A whole id is taken at its word.
    pub async fn resolve(&self, store: &dyn Store) -> anyhow::Result<JobId> {
        if self.0.len() == 32
            && let Ok(id) = self.0.parse()
        {
            return Ok(id);
        }
        let Search { found, looked, is_whole } = self.search(store, PAGES_MAX).await?;
        match found.as_slice() {
            [] | [_] if !is_whole => Err(Unnamed::Unsure { id: self.0.clone(), looked }.into()),
            [job] => Ok(job.id),
            [] => Err(Unnamed::Nobody(self.0.clone()).into()),
            several => {
                let row = |job: &Job| {
                    vec![job.id.to_string(), job.state.name().to_string(), cut(job.spec.kind.as_str(), 40)]
                };
                let rows: Vec<Vec<String>> = several.iter().take(NAMED_MAX).map(row).collect();
                let list = table(&["id", "state", "kind"], &rows);
                Err(Unnamed::Several { id: self.0.clone(), list }.into())
            }
        }
    }

    /// Jobs that are named so, by a search of so many pages for each way in which the digits may stand in an id.
    async fn search(&self, store: &dyn Store, pages_max: usize) -> anyhow::Result<Search> {
        let mut search = Search { found: Vec::new(), looked: 0, is_whole: true };
        for text in self.texts() {
            let filter = JobFilter { text: Some(text), ..JobFilter::default() };
            let mut after = None;
            for _ in 0..pages_max {
                let page = store.list(ListRequest { filter: filter.clone(), limit: PAGE_MAX, after }).await?;
                search.looked += page.jobs.len();
                for job in page.jobs.into_iter().filter(|job| self.names(job.id)) {
                    if !search.found.iter().any(|known| known.id == job.id) {
                        search.found.push(job);
                    }
                }
                after = page.next;
                if after.is_none() || search.found.len() > NAMED_MAX {
                    break;
                }
            }
            search.is_whole &= after.is_none();
        }
        Ok(search)
    }

    /// What to search for. Stores search in ids as they are written, with dashes: the longest stretch without one is
    /// enough, and of few digits it is the same from the beginning and from the end.
    fn texts(&self) -> BTreeSet<String> {
        let longest = |text: &str| text.split('-').max_by_key(|part| part.len()).unwrap_or("").to_owned();
        BTreeSet::from([longest(&dashed(&self.0)), longest(&dashed_from_end(&self.0))])
    }

    fn names(&self, id: JobId) -> bool {
        let digits = id.to_string().replace('-', "");
        digits.starts_with(&self.0) || digits.ends_with(&self.0)
    }
}

/// Digits with the dashes of an id that begins so.
fn dashed(digits: &str) -> String {
    let dash = |at: usize| [8, 12, 16, 20].contains(&at);
    digits.char_indices().flat_map(|(at, c)| dash(at).then_some('-').into_iter().chain([c])).collect()
}

/// Digits with the dashes of an id that ends so.
fn dashed_from_end(digits: &str) -> String {
    let missing = 32 - digits.len();
    dashed(&format!("{}{digits}", "0".repeat(missing)))
        .chars()
        .skip(dashed(&"0".repeat(missing)).len())
        .collect()
}

/// Jobs by their ids, or all that fit.
#[derive(Debug, Clone, Args)]
pub struct WhichArgs {
    /// The jobs' ids, or the last digits of each
    #[arg(value_name = "ID", add = crate::names::jobs())]
    pub ids: Vec<ShortId>,
    #[command(flatten)]
    pub filter: FilterArgs,
}

impl WhichArgs {
    /// The ids, oldest first where they were found by a filter: in `states` when no state is said, and of those that
    /// `fit` alone.
    pub async fn resolve(
        &self,
        store: &dyn Store,
        states: &[StateName],
        fit: impl Fn(StateName) -> bool,
    ) -> anyhow::Result<Vec<JobId>> {
        anyhow::ensure!(
            self.ids.is_empty() != self.filter.is_empty(),
            "name jobs by their ids, or all that fit a filter such as --state {}, and not both",
            states[0]
        );
        let mut ids = Vec::new();
        for id in &self.ids {
            ids.push(id.resolve(store).await?);
        }
        if !self.ids.is_empty() {
            return Ok(ids);
        }
        let mut wanted = self.filter.resolve(store).await?;
        if wanted.filter.states.is_empty() {
            wanted.filter.states = states.to_vec();
        }
        let mut jobs = find(store, &wanted, MATCHES_MAX).await?;
        jobs.retain(|job| fit(job.state.name()));
        Ok(jobs.iter().rev().map(|job| job.id).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use windlass_engine::core::id::{Kind, QueueName};
    use windlass_engine::core::job::{JobSpec, NewJob, Start};
    use windlass_engine::core::json::Json;
    use windlass_engine::core::memory::MemoryStore;
    use windlass_engine::world::{Ids, SimWorld};

    use super::*;
    use windlass_report::words::short_id;

    const ID: &str = "0198c0de-1234-7000-8000-0123456789ab";

    #[test]
    fn beginnings_and_ends_name_a_job() {
        let id: JobId = ID.parse().unwrap();
        for (text, named) in [
            ("0198c0de", true),
            ("0198C0DE-1234", true),
            ("456789ab", true),
            ("…456789ab", true),
            ("8000-0123456789ab", true),
            (ID, true),
            ("c0de", false),
            ("456789aa", false),
        ] {
            assert_eq!(text.parse::<ShortId>().unwrap().names(id), named, "{text}");
        }
        for text in ["abc", "", "xyz1", "0198c0de-1234-7000-8000-0123456789ab0"] {
            assert!(text.parse::<ShortId>().is_err(), "{text}");
        }
        assert!(short_id(id).parse::<ShortId>().unwrap().names(id), "what is shown names it");
    }

    #[test]
    fn few_digits_are_searched_for_once() {
        let texts = |text: &str| text.parse::<ShortId>().unwrap().texts().len();
        assert_eq!((texts("456789ab"), texts("0198c0de1234")), (1, 2));
    }

    /// Nobody is taken for the only one, or said not to be there, while there is more to look at.
    #[tokio::test]
    async fn a_search_that_gives_up_says_so() {
        let world = SimWorld::new(1);
        let store = MemoryStore::new(Arc::new(world.clone()));
        let id: ShortId = "456789ab".parse().unwrap();
        let payload = Json::new("payload", br#""456789ab""#, 100).unwrap();
        let spec = JobSpec::new(Kind::new("k").unwrap(), QueueName::default(), payload);
        let job = |id: JobId| NewJob { id, spec: spec.clone(), start: Start::Now };
        let many = (0..PAGE_MAX).map(|_| job(Ids::new(&world).make())).collect();
        store.enqueue(many).await.unwrap();
        store.enqueue(vec![job(ID.parse().unwrap())]).await.unwrap();
        let search = id.search(&store, 1).await.unwrap();
        assert_eq!((search.found.len(), search.looked, search.is_whole), (1, PAGE_MAX as usize, false));
        let search = id.search(&store, 2).await.unwrap();
        assert_eq!((search.found.len(), search.looked, search.is_whole), (1, PAGE_MAX as usize + 1, true));
        assert_eq!(id.resolve(&store).await.unwrap().to_string(), ID);
    }

    #[test]
    fn what_is_searched_for_stands_in_the_id() {
        let digits = ID.replace('-', "");
        for length in DIGITS_MIN..32 {
            assert!(ID.contains(&dashed(&digits[..length])), "{length}");
            assert!(ID.contains(dashed_from_end(&digits[32 - length..]).trim_start_matches('-')), "{length}");
        }
    }
}
