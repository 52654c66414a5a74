//! The feed for feed readers: RSS 2.0 and JSON Feed 1.1.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::feed::{Feed, Item, Wish};
use crate::time::{iso, rfc2822};

const TITLE: &str = "Bitcoin News";
const ABOUT: &str = "News about Bitcoin, with what they mean and what they say.";

/// RSS. `home` is the address of the page.
pub fn rss(feed: &Feed, home: &str) -> String {
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<rss version=\"2.0\" xmlns:atom=\"http://www.w3.org/2005/Atom\">\
         <channel><title>{TITLE}</title><link>{home}</link><description>{ABOUT}</description>\
         <atom:link href=\"{home}feed.xml\" rel=\"self\" type=\"application/rss+xml\"/>",
        home = escaped(home)
    );
    if let Some(changed_ms) = feed.changed_ms {
        let _ = write!(text, "<lastBuildDate>{}</lastBuildDate>", rfc2822(changed_ms));
    }
    for item in feed.page(&Wish::default()).items {
        let news = &item.article.news;
        let _ = write!(
            text,
            "<item><title>{}</title><guid isPermaLink=\"false\">{}</guid><pubDate>{}</pubDate>",
            escaped(&news.title),
            escaped(&news.id),
            rfc2822(item.article.published_ms())
        );
        if let Some(link) = &news.link {
            let _ = write!(text, "<link>{}</link>", escaped(link));
        }
        if let Some(about) = about(item) {
            let _ = write!(text, "<description>{}</description>", escaped(about));
        }
        if let Some(sentiment) = item.article.sentiment.value() {
            let _ = write!(text, "<category>{}</category>", sentiment.as_str());
        }
        text.push_str("</item>");
    }
    text.push_str("</channel></rss>\n");
    text
}

/// JSON Feed.
pub fn json_feed(feed: &Feed, home: &str) -> Value {
    let item = |item: &&Item| {
        let news = &item.article.news;
        let mut all = json!({
            "id": news.id,
            "title": news.title,
            "content_text": about(item).unwrap_or_default(),
            "date_published": iso(item.article.published_ms()),
            "date_modified": iso(item.article.changed_ms),
        });
        let sentiment = item.article.sentiment.value().map(|value| json!([value.as_str()]));
        let author = news.source_name.as_ref().map(|name| match &news.source_url {
            Some(url) => json!([{"name": name, "url": url}]),
            None => json!([{"name": name}]),
        });
        let more = [
            ("external_url", news.link.as_ref().map(|link| json!(link))),
            ("image", news.image_url.as_ref().map(|image| json!(image))),
            ("tags", sentiment),
            ("authors", author),
        ];
        for (name, value) in more {
            if let Some(value) = value {
                all[name] = value;
            }
        }
        all
    };
    let items: Vec<Value> = feed.page(&Wish::default()).items.iter().map(item).collect();
    json!({
        "version": "https://jsonfeed.org/version/1.1",
        "title": TITLE,
        "description": ABOUT,
        "home_page_url": home,
        "feed_url": format!("{home}feed.json"),
        "items": items,
    })
}

/// What an article says, as far as anybody knows.
fn about(item: &Item) -> Option<&str> {
    item.article.summary.value().or(item.article.news.description.as_ref()).map(String::as_str)
}

/// Text within XML. What XML cannot hold is left out.
fn escaped(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => all.push_str("&amp;"),
            '<' => all.push_str("&lt;"),
            '>' => all.push_str("&gt;"),
            '"' => all.push_str("&quot;"),
            '\n' | '\t' => all.push(letter),
            letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => {}
            letter => all.push(letter),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    #[test]
    fn strangers_write_no_xml() {
        assert_eq!(super::escaped("<b a=\"1\">&\u{0}\u{ffff}x"), "&lt;b a=&quot;1&quot;&gt;&amp;x");
    }
}
