//! The feed as everybody sees it: built once for each change, kept in memory, and given out in pages.

use serde_json::Value;
use sha2::{Digest, Sha256};
use windlass_engine::Entry;
use windlass_outside::news::Sentiment;

use crate::article::Article;
use crate::documents::shown;

/// How many articles a page has when nothing is said, and at most.
pub const LIMIT_DEFAULT: usize = 50;
/// The most that a page may have.
pub const LIMIT_MAX: usize = 500;

/// The feed.
#[derive(Debug, Default)]
pub struct Feed {
    items: Vec<Item>,
    /// When what is shown last changed.
    pub changed_ms: Option<i64>,
}

/// An article in the feed.
#[derive(Debug)]
pub struct Item {
    /// The article.
    pub article: Article,
    /// As it is given out.
    json: String,
    /// What is searched.
    text: String,
}

/// Which articles are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// How many.
    pub limit: usize,
    /// Behind which.
    pub after: Option<Place>,
    /// Of which sentiment.
    pub sentiment: Option<Wanted>,
    /// With these words in it.
    pub words: Vec<String>,
}

impl Default for Wish {
    fn default() -> Self {
        Self { limit: LIMIT_DEFAULT, after: None, sentiment: None, words: Vec::new() }
    }
}

/// A sentiment that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// This one.
    Is(Sentiment),
    /// None that is known.
    Unknown,
}

/// A place in the feed. It stays what it is when articles come and go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    published_ms: i64,
    id: String,
}

/// A page of the feed.
pub struct Page<'f> {
    /// Its articles.
    pub items: Vec<&'f Item>,
    /// How many there are on all pages.
    pub total: usize,
    /// How many of each sentiment there are, whichever is wanted.
    pub counts: [usize; 3],
    /// Where the next page begins.
    pub next: Option<Place>,
}

impl Place {
    /// Reads a cursor.
    pub fn parse(text: &str) -> Option<Self> {
        let (ms, id) = text.split_once('~')?;
        Some(Self { published_ms: ms.parse().ok()?, id: id.to_owned() }).filter(|place| !place.id.is_empty())
    }

    /// As a cursor.
    pub fn text(&self) -> String {
        format!("{}~{}", self.published_ms, self.id)
    }
}

impl Wanted {
    /// Reads a word.
    pub fn parse(word: &str) -> Option<Self> {
        let all = [Sentiment::Positive, Sentiment::Negative, Sentiment::Neutral];
        match all.into_iter().find(|sentiment| sentiment.as_str() == word) {
            Some(sentiment) => Some(Self::Is(sentiment)),
            None => (word == "unknown").then_some(Self::Unknown),
        }
    }

    fn fits(self, sentiment: Option<&Sentiment>) -> bool {
        match self {
            Self::Is(wanted) => sentiment == Some(&wanted),
            Self::Unknown => sentiment.is_none(),
        }
    }
}

impl Feed {
    /// The feed of an index, which is in order.
    pub fn new(index: Vec<Entry<Article>>) -> Self {
        let items: Vec<Item> = index.into_iter().map(|entry| Item::new(entry.value)).collect();
        let changed_ms = items.iter().map(|item| item.article.changed_ms).max();
        Self { items, changed_ms }
    }

    /// The same, when an article was last taken away at this moment: that is a change of what is shown.
    #[must_use]
    pub fn since_taken(mut self, taken_ms: Option<i64>) -> Self {
        self.changed_ms = self.changed_ms.max(taken_ms);
        self
    }

    /// One article by its id, with or without its provider.
    pub fn find(&self, id: &str) -> Option<&Item> {
        let exact = self.items.iter().find(|item| item.article.id() == id);
        exact.or_else(|| self.items.iter().find(|item| crate::archive::bare(item.article.id()) == id))
    }

    /// A page.
    pub fn page(&self, wish: &Wish) -> Page<'_> {
        let mut counts = [0; 3];
        let mut total = 0;
        let mut items = Vec::new();
        let mut next = None;
        for item in self.items.iter().filter(|item| item.has(&wish.words)) {
            let sentiment = item.article.sentiment.value();
            if let Some(sentiment) = sentiment {
                counts[*sentiment as usize] += 1;
            }
            if wish.sentiment.is_some_and(|wanted| !wanted.fits(sentiment)) {
                continue;
            }
            total += 1;
            if !wish.after.as_ref().is_none_or(|after| item.is_behind(after)) {
                continue;
            }
            if items.len() < wish.limit {
                items.push(item);
            } else if next.is_none() {
                next = items.last().map(|last: &&Item| last.place());
            }
        }
        Page { items, total, counts, next }
    }

    /// A page as JSON.
    pub fn json(&self, wish: &Wish) -> String {
        let Page { items, total, counts, next } = self.page(wish);
        let mut text =
            String::with_capacity(256 + items.iter().map(|item| item.json.len() + 1).sum::<usize>());
        text.push_str("{\"articles\":[");
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            text.push_str(&item.json);
        }
        let changed = self.changed_ms.map_or_else(|| "null".to_owned(), |ms| ms.to_string());
        let [positive, negative, neutral] = counts;
        text.push_str(&format!(
            "],\"totalArticles\":{total},\"lastUpdatedExternal\":{changed},\"sentimentCounts\":\
             {{\"positive\":{positive},\"negative\":{negative},\"neutral\":{neutral}}}"
        ));
        if let Some(next) = next {
            text.push_str(&format!(",\"nextCursor\":{}", Value::from(next.text())));
        }
        text.push('}');
        text
    }
}

impl Item {
    fn new(article: Article) -> Self {
        let mut json = shown(&article);
        json.insert("status".to_owned(), Value::from(status(&article)));
        let news = &article.news;
        let summary = article.summary.value().map(String::as_str).unwrap_or_default();
        let text = [
            &news.title,
            news.description.as_deref().unwrap_or_default(),
            summary,
            news.source_name.as_deref().unwrap_or_default(),
        ];
        let text = text.join(" ").to_lowercase();
        Self { json: Value::Object(json).to_string(), text, article }
    }

    /// As it is given out.
    pub fn json(&self) -> &str {
        &self.json
    }

    fn place(&self) -> Place {
        Place { published_ms: self.article.published_ms(), id: self.article.id().to_owned() }
    }

    /// The order is by time and then by id, both from the other end.
    fn is_behind(&self, place: &Place) -> bool {
        (self.article.published_ms(), self.article.id()) < (place.published_ms, place.id.as_str())
    }

    fn has(&self, words: &[String]) -> bool {
        words.iter().all(|word| self.text.contains(word))
    }
}

/// Where an article is, in a word for readers.
fn status(article: &Article) -> &'static str {
    if article.state.is_over() { "done" } else { "processing" }
}

/// A word that changes when a body does.
pub fn etag(body: &[u8]) -> String {
    let digest = Sha256::digest(body);
    format!("W/\"{}\"", digest[..12].iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

#[cfg(test)]
mod tests {
    use windlass_engine::Time;
    use windlass_engine::core::id::RecordKey;

    use super::*;
    use crate::sample::news;

    fn feed(numbers: impl Iterator<Item = i64>) -> Feed {
        let entry = |number: i64| {
            let mut value = Article::new(news(number), 5);
            if number % 2 == 0 {
                value.meant(Sentiment::Positive, 7 + number);
            }
            let (key, sort) = (RecordKey::new(value.id()).unwrap(), value.published_ms());
            let (label, rev, written_at) = (None, 1, Time::MIN);
            Entry { key, value, sort, label, rev, written_at, expires_at: None }
        };
        Feed::new(numbers.map(entry).collect())
    }

    fn ids(page: &Page<'_>) -> Vec<String> {
        page.items.iter().map(|item| item.article.id().to_owned()).collect()
    }

    #[test]
    fn pages_follow_each_other_while_articles_come_in() {
        let first = feed((1..=5).rev());
        let page = first.page(&Wish { limit: 2, ..Wish::default() });
        assert_eq!(ids(&page), ["newsdata:5", "newsdata:4"]);
        let after = Place::parse(&page.next.unwrap().text());
        let second = feed((1..=9).rev());
        let page = second.page(&Wish { limit: 9, after, ..Wish::default() });
        assert_eq!(ids(&page), ["newsdata:3", "newsdata:2", "newsdata:1"]);
        assert_eq!((page.total, page.next), (9, None));
    }

    #[test]
    fn filters_and_counts() {
        let feed = feed((1..=5).rev());
        let wish = Wish { sentiment: Wanted::parse("positive"), ..Wish::default() };
        let page = feed.page(&wish);
        assert_eq!(
            (ids(&page), page.total, page.counts),
            (vec!["newsdata:4".into(), "newsdata:2".into()], 2, [2, 0, 0])
        );
        let unknown = feed.page(&Wish { sentiment: Wanted::parse("unknown"), ..Wish::default() });
        assert_eq!(unknown.total, 3);
        let words = vec!["report".to_owned(), "3".to_owned()];
        assert_eq!(feed.page(&Wish { words, ..Wish::default() }).total, 1);
        assert_eq!(Wanted::parse("bullish"), None);
    }

    /// Defect 17: nothing internal is given out, and the time is that of the data.
    #[test]
    fn only_what_is_for_everybody_is_given_out() {
        let feed = feed((1..=2).rev());
        let body: Value = serde_json::from_str(&feed.json(&Wish::default())).unwrap();
        let names: Vec<&String> = body["articles"][0].as_object().unwrap().keys().collect();
        for name in ["needsSentiment", "needsSummary", "contentTimeout", "extractedContent", "summaryError"] {
            assert!(!names.iter().any(|found| *found == name), "{name}");
        }
        assert_eq!(body["lastUpdatedExternal"], 9);
        assert_eq!(body["articles"][1]["sentiment"], Value::Null, "unknown is not neutral");
        let empty: Value = serde_json::from_str(&Feed::default().json(&Wish::default())).unwrap();
        assert_eq!((&empty["articles"], &empty["totalArticles"]), (&serde_json::json!([]), &0.into()));
    }
}
