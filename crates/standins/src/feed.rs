//! RSS as Google News writes it.

use std::fmt::Write;

/// One item of a feed.
#[derive(Debug, Clone)]
pub struct FeedItem {
    /// The headline.
    pub title: String,
    /// The address of the article.
    pub link: String,
    /// The HTML of the description.
    pub description: String,
    /// The name of the paper.
    pub source: String,
    /// The date, as RFC 822 has it.
    pub date: String,
}

impl FeedItem {
    /// An item made up from a topic and a number: always the same for the same two.
    pub fn made_up(topic: &str, number: usize) -> Self {
        let link = format!("https://news.example/articles/{}-{number}", slug(topic));
        let title = format!("{topic}: report {number}");
        Self {
            description: format!(
                "<a href=\"{link}\" target=\"_blank\">{title}</a>&nbsp;&nbsp;<font color=\"#6f6f6f\">Paper {number}</font>"
            ),
            source: format!("Paper {number}"),
            date: format!("Tue, {:02} Sep 2025 08:30:00 GMT", number % 28 + 1),
            title,
            link,
        }
    }
}

/// A feed with these items.
pub fn feed(title: &str, items: &[FeedItem]) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>");
    xml.push_str("<rss version=\"2.0\" xmlns:media=\"http://search.yahoo.com/mrss/\"><channel>");
    let _ = write!(xml, "<generator>NFE/5.0</generator><title>{}</title>", escape(title));
    for item in items {
        let _ = write!(
            xml,
            "<item><title>{}</title><link>{}</link><guid isPermaLink=\"false\">{}</guid><pubDate>{}</pubDate>\
             <description>{}</description><source url=\"https://paper.example\">{}</source></item>",
            escape(&item.title),
            escape(&item.link),
            escape(&slug(&item.link)),
            escape(&item.date),
            escape(&item.description),
            escape(&item.source),
        );
    }
    xml.push_str("</channel></rss>");
    xml
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn slug(text: &str) -> String {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}
