//! The rows that a new database needs before a job can run.

use rusqlite::params;
use windlass_engine::core::time::Time;

use super::{Database, DatabaseError, moment};

/// Somebody who categorizes, by the names that the other programs look for.
pub(crate) struct Categorizer {
    pub name: &'static str,
    pub description: &'static str,
    /// The model and its type, for those that have one.
    pub model: Option<(&'static str, &'static str)>,
}

impl Database {
    /// Makes the entries that are missing, all or none; what is there is kept.
    /// Answers what was made, for people.
    pub(crate) fn first_rows(
        &mut self,
        categorizers: &[Categorizer],
        prompt: &str,
        now: Time,
    ) -> Result<Vec<String>, DatabaseError> {
        let mut made = Vec::new();
        let missing = categorizers.iter().map(|one| Ok((one, self.categorizer(one.name)?.is_none())));
        let missing: Vec<(&Categorizer, bool)> = missing.collect::<Result<_, DatabaseError>>()?;
        let has_prompt = self.prompt()?.is_some();
        let now = moment(now);
        let transaction = self.transaction()?;
        for (Categorizer { name, description, model }, _) in missing.iter().filter(|(_, missing)| *missing) {
            let (model, kind) = model.unzip();
            transaction.execute(
                include_str!("../../sql/intelligence_add.sql"),
                params![name, description, model, kind, now],
            )?;
            transaction.execute(include_str!("../../sql/categorizer_add.sql"), params![name, now])?;
            made.push(format!("the artificial intelligence {name}, which categorizes articles"));
        }
        if !has_prompt {
            transaction.execute(include_str!("../../sql/prompt_add.sql"), params![prompt, now])?;
            made.push("the prompt of the state assigner".to_owned());
        }
        let states = transaction.execute(include_str!("../../sql/states_add.sql"), params![now])?;
        if states > 0 {
            made.push(format!("{states} states"));
        }
        transaction.commit()?;
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut database = Database::open(&folder.path().join("news.db")).unwrap();
        let one = [Categorizer { name: "One", description: "x", model: Some(("m", "t")) }];
        let mut fill = || database.first_rows(&one, "Where?", Time::from_ms(0)).unwrap();
        assert_eq!(fill().len(), 3);
        assert_eq!(fill().len(), 0, "what is there is kept");
        assert_eq!(database.prompt().unwrap().unwrap().text, "Where?");
        assert!(database.categorizer("One").unwrap().is_some());
        assert_eq!(database.state("texas").unwrap(), database.state("TX").unwrap());
        assert!(database.state("District of Columbia").unwrap().is_some());
    }
}
