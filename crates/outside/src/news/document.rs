//! Articles as documents of before have them: the members of NewsData's articles, with ids that name no provider.

use serde_json::Value;

use super::article::NewsArticle;
use super::field;
use super::{apitube, newsdata};

/// The providers whose names may stand before an id.
const PROVIDERS: [&str; 2] = [newsdata::NAME, apitube::NAME];

/// The article of such a document; nothing when it has no id or no title.
pub fn document(item: &Value) -> Option<NewsArticle> {
    let id = [&item["article_id"], &item["id"], &item["link"]].into_iter().find_map(document_id)?;
    let article = newsdata::article(item)?;
    Some(NewsArticle { id, sentiment: apitube::worded(&item["sentiment"]), ..article })
}

/// An id of such a document: text or a number, with its provider before it or without.
pub fn document_id(value: &Value) -> Option<String> {
    let with_provider = value.as_str().and_then(|text| text.split_once(':'));
    match with_provider.filter(|(provider, _)| PROVIDERS.contains(provider)) {
        Some((provider, id)) => field::id(provider, &[&Value::from(id)]),
        None => field::plain_id(&[value]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::news::Sentiment;

    #[test]
    fn ids_of_before() {
        for (value, expected) in [
            (json!("abc"), Some("abc")),
            (json!(12345), Some("12345")),
            (json!("newsdata:abc"), Some("newsdata:abc")),
            (json!("apitube:7"), Some("apitube:7")),
            (json!(""), None),
            (json!(null), None),
        ] {
            assert_eq!(document_id(&value).as_deref(), expected, "{value}");
        }
        let link = document_id(&json!("https://paper.example/a?b")).unwrap();
        assert!(link.starts_with("sha256-"), "{link}");
    }

    #[test]
    fn articles_of_before() {
        let item = json!({"article_id": "abc", "title": "T", "sentiment": "positive", "category": "crypto"});
        let article = document(&item).unwrap();
        assert_eq!((article.id.as_str(), article.sentiment), ("abc", Some(Sentiment::Positive)));
        assert_eq!(article.category, ["crypto"]);
        assert_eq!(document(&json!({"title": "without an id"})), None);
    }
}
