//! Articles for tests.

use windlass_outside::news::NewsArticle;

/// An article made up from a number: always the same, a minute newer than the one before it.
pub(crate) fn news(number: i64) -> NewsArticle {
    NewsArticle {
        id: format!("newsdata:{number}"),
        title: format!("Bitcoin report {number}"),
        description: Some(format!("What report {number} says.")),
        link: Some(format!("https://news.example/articles/{number}")),
        published: None,
        published_ms: Some(1_767_182_400_000 + 60_000 * number),
        source_id: Some("paper".to_owned()),
        source_name: Some("The Paper".to_owned()),
        source_url: Some("https://paper.example/".to_owned()),
        source_icon: None,
        image_url: None,
        language: Some("english".to_owned()),
        country: vec!["us".to_owned()],
        category: vec!["crypto".to_owned()],
        sentiment: None,
    }
}
