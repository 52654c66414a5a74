//! The stories that both providers of news have to tell.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

/// One story.
#[derive(Debug, Clone)]
pub struct Story {
    /// The provider's id, without the provider's name. APITube writes one of digits as a number.
    pub id: String,
    /// The headline.
    pub title: String,
    /// What it is about.
    pub description: String,
    /// Where it is; [`crate::Sites`] has pages to point to.
    pub link: String,
    /// When it was published, in seconds since 1970.
    pub published_s: i64,
    /// Members that are added to what the provider writes about it, or put in place of them.
    pub more: Value,
}

impl Story {
    /// A story made up from a number: always the same, a minute newer than the one before it.
    pub fn made_up(number: usize) -> Self {
        Self {
            id: (100_000 + number).to_string(),
            title: format!("Bitcoin report {number}"),
            description: format!("What report {number} says about Bitcoin."),
            link: format!("https://news.example/articles/{number}"),
            published_s: 1_767_182_400 + 60 * number as i64,
            more: json!({}),
        }
    }
}

#[derive(Debug)]
struct Inner {
    /// Oldest first.
    stories: Vec<Story>,
    page: usize,
    credits: Option<u64>,
}

/// What a provider knows, shared between the server and whoever changes it.
#[derive(Debug, Clone)]
pub(crate) struct Desk(Arc<Mutex<Inner>>);

impl Desk {
    pub(crate) fn new(page: usize) -> Self {
        Self(Arc::new(Mutex::new(Inner { stories: Vec::new(), page, credits: None })))
    }

    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn publish(&self, story: Story) {
        self.with(|desk| desk.stories.push(story));
    }

    pub(crate) fn page_size(&self, stories: usize) {
        self.with(|desk| desk.page = stories.max(1));
    }

    pub(crate) fn credits(&self, calls: u64) {
        self.with(|desk| desk.credits = Some(calls));
    }

    /// How many credits are left after this call; an error when there was none for it.
    pub(crate) fn spend(&self) -> Result<Option<u64>, ()> {
        self.with(|desk| match &mut desk.credits {
            None => Ok(None),
            Some(0) => Err(()),
            Some(left) => {
                *left -= 1;
                Ok(Some(*left))
            }
        })
    }

    /// The stories older than the first `older` ones, newest first, and how many are older than those.
    pub(crate) fn older_than(&self, older: Option<usize>) -> (Vec<Story>, usize) {
        self.with(|desk| {
            let end = older.unwrap_or(desk.stories.len()).min(desk.stories.len());
            let begin = end.saturating_sub(desk.page);
            (desk.stories[begin..end].iter().rev().cloned().collect(), begin)
        })
    }

    /// A page by its number, counted from the newest story there is now, and whether there is another.
    pub(crate) fn numbered(&self, page: usize) -> (Vec<Story>, bool) {
        self.with(|desk| {
            let newest_first = desk.stories.iter().rev();
            let first = page.saturating_sub(1).saturating_mul(desk.page);
            let stories: Vec<Story> = newest_first.skip(first).take(desk.page).cloned().collect();
            let more = desk.stories.len() > first.saturating_add(desk.page);
            (stories, more)
        })
    }
}

/// Puts members of one object into another.
pub(crate) fn merged(mut item: Value, more: &Value) -> Value {
    if let (Some(item), Some(more)) = (item.as_object_mut(), more.as_object()) {
        item.extend(more.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    item
}

/// The date and the time of day of a moment, in UTC.
pub(crate) fn civil(seconds: i64) -> (String, String) {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days since 1970 to a date, by eras of 400 years (Howard Hinnant's algorithm).
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let date = format!("{year:04}-{month:02}-{day:02}");
    (date, format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60))
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates() {
        let at = |seconds| {
            let (date, time) = super::civil(seconds);
            format!("{date} {time}")
        };
        assert_eq!(at(0), "1970-01-01 00:00:00");
        assert_eq!(at(951_827_696), "2000-02-29 12:34:56");
        assert_eq!(at(1_767_182_400), "2025-12-31 12:00:00");
        assert_eq!(at(-1), "1969-12-31 23:59:59");
    }
}
