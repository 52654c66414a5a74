//! Reading the items of an RSS feed.

use crate::charset;
use crate::html;
use crate::time::moment;
use crate::xml::{Part, Xml, XmlError};

const DEPTH_MAX: usize = 32;
const ITEMS_MAX: usize = 1000;
/// One byte more than is looked at, so that a cut shows.
const FIELD_BYTES_MAX: usize = html::HTML_BYTES_MAX + 1;
const TITLE_BYTES_MAX: usize = 2 * 1024;
/// Longer than any address that a browser takes. A longer one is none: cut off, it would lead elsewhere.
const LINK_BYTES_MAX: usize = 64 * 1024;

/// One article of a feed. Fields that are missing or empty are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Item {
    /// The headline.
    pub title: Option<String>,
    /// The text of the description's first link, or all of its text.
    pub description: Option<String>,
    /// The address of the article: text from a stranger, checked by nobody.
    pub link: Option<String>,
    /// The name of the paper.
    pub source: Option<String>,
    /// The date, as it is written.
    pub published: Option<String>,
    /// The date in milliseconds since 1970 UTC, when it can be read.
    pub published_ms: Option<i64>,
    /// The text of the content, when the feed has any.
    pub content: Option<String>,
}

/// Why a feed was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer is not a feed: {0}")]
pub struct NotAFeed(&'static str);

impl From<XmlError> for NotAFeed {
    fn from(error: XmlError) -> Self {
        Self(match error {
            XmlError::Malformed => "it is not well-formed XML",
            XmlError::TooDeep => "its elements are nested too deeply",
        })
    }
}

/// The items of the first channel. A feed without items is a feed. The content
/// type that it came with may say in which encoding it is.
pub fn parse(bytes: &[u8], content_type: Option<&str>) -> Result<Vec<Item>, NotAFeed> {
    let text = charset::decode(bytes, content_type);
    let mut xml = Xml::new(text.trim_start_matches('\u{feff}').trim_start(), DEPTH_MAX);
    let (mut items, mut channels, mut is_rss) = (Vec::new(), 0, false);
    loop {
        match xml.next()? {
            Part::Over if is_rss => return Ok(items),
            Part::Over => return Err(NotAFeed("it has no rss element")),
            Part::Open(element) => match (xml.depth(), element.local_name().as_ref()) {
                (1, b"rss") => is_rss = true,
                (1, _) => return Err(NotAFeed("it has no rss element")),
                (2, b"channel") => channels += 1,
                (3, b"item") if channels == 1 => {
                    let item = item(&mut xml)?;
                    if items.len() < ITEMS_MAX {
                        items.push(item);
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }
}

fn item(xml: &mut Xml<'_>) -> Result<Item, XmlError> {
    let (outside, mut item) = (xml.depth() - 1, Item::default());
    while xml.depth() > outside {
        let Part::Open(element) = xml.next()? else { continue };
        match element.name().as_ref() {
            b"title" => item.title = field(xml, TITLE_BYTES_MAX)?,
            b"link" => {
                item.link = field(xml, LINK_BYTES_MAX + 1)?.filter(|link| link.len() <= LINK_BYTES_MAX);
            }
            b"source" => item.source = field(xml, TITLE_BYTES_MAX)?,
            b"pubDate" => date(xml, &mut item)?,
            // Beside `pubDate` it only says the same again.
            b"dc:date" if item.published_ms.is_none() => date(xml, &mut item)?,
            b"description" => {
                item.description = field(xml, FIELD_BYTES_MAX)?.and_then(|html| described(&html))
            }
            b"content:encoded" | b"content" => {
                item.content = field(xml, FIELD_BYTES_MAX)?.map(|html| spaced(&html::text(&html)));
            }
            _ => drop(xml.text(0)?),
        }
    }
    Ok(item)
}

fn field(xml: &mut Xml<'_>, bytes_max: usize) -> Result<Option<String>, XmlError> {
    let text = xml.text(bytes_max)?;
    let text = text.trim();
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

/// Google puts the headline into a link and the paper behind it.
fn described(html: &str) -> Option<String> {
    let text = html::first_link(html).unwrap_or_else(|| html::text(html));
    (!text.is_empty()).then_some(text)
}

fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn date(xml: &mut Xml<'_>, item: &mut Item) -> Result<(), XmlError> {
    item.published = field(xml, 100)?;
    item.published_ms = item.published.as_deref().and_then(moment);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(fields: &str) -> Item {
        let feed = format!("<rss><channel><title>no</title><item>{fields}</item></channel></rss>");
        parse(feed.as_bytes(), None).unwrap().remove(0)
    }

    #[test]
    fn the_fields_of_an_item() {
        let item = one("<title>A &amp; B</title><link>https://x.example/?a=1&b=2</link><guid>g</guid>\
             <pubDate>Tue, 02 Sep 2025 08:30:00 GMT</pubDate>\
             <description>&lt;a href=\"x\"&gt;Head &amp;amp; line&lt;/a&gt;&amp;nbsp;&lt;font&gt;Paper&lt;/font&gt;</description>\
             <source url=\"https://p.example\">Paper</source>\
             <content:encoded><![CDATA[<p>Some\n <b>text</b></p>]]></content:encoded>");
        let text = |text: &str| Some(text.to_owned());
        let expected = Item {
            title: text("A & B"),
            description: text("Head &amp; line"),
            link: text("https://x.example/?a=1&b=2"),
            source: text("Paper"),
            published: text("Tue, 02 Sep 2025 08:30:00 GMT"),
            published_ms: Some(1_756_801_800_000),
            content: text("Some text"),
        };
        assert_eq!(item, expected);
        assert_eq!(one("<title> </title><pubDate>soon</pubDate>").published_ms, None);
        let wrong_day = one("<pubDate>Mon, 02 Sep 2025 08:30:00 GMT</pubDate>");
        assert_eq!(wrong_day.published_ms, Some(1_756_801_800_000));
        assert_eq!(
            one("<description>just &lt;b&gt;text&lt;/b&gt;</description>").description,
            text("just text")
        );
    }

    #[test]
    fn dates_in_every_form() {
        const MS: i64 = 1_756_801_800_000;
        for (text, expected) in [
            ("Tue, 02 Sep 2025 08:30:00 GMT", Some(MS)),
            ("2 Sep 2025 10:30 +0200", Some(MS)),
            ("2025-09-02T08:30:00Z", Some(MS)),
            ("2025-09-02T10:30:00.000+02:00", Some(MS)),
            ("2025-09-02T08:30:00", Some(MS)),
            ("2025-09-02 08:30:00", Some(MS)),
            ("2025-09-02", Some(MS - 30_600_000)),
            ("soon", None),
            ("2025-13-02", None),
        ] {
            assert_eq!(one(&format!("<pubDate>{text}</pubDate>")).published_ms, expected, "{text}");
        }
        assert_eq!(one("<dc:date>2025-09-02T08:30:00Z</dc:date>").published_ms, Some(MS));
        let both = "<pubDate>2025-09-02T08:30:00Z</pubDate><dc:date>2020-01-01</dc:date>";
        assert_eq!(one(both).published_ms, Some(MS));
    }

    /// A link that was cut off would lead elsewhere.
    #[test]
    fn links_are_whole_or_not_there() {
        let long = format!("https://news.example/{}", "x".repeat(10_000));
        assert_eq!(one(&format!("<link>{long}</link>")).link, Some(long));
        let endless = format!("<link>https://news.example/{}</link>", "x".repeat(100_000));
        assert_eq!(one(&endless).link, None);
    }

    #[test]
    fn feeds_in_other_encodings() {
        let feed = b"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><rss><channel><item><title>\x93Caf\xe9\x94</title></item></channel></rss>";
        assert_eq!(parse(feed, None).unwrap()[0].title.as_deref(), Some("“Café”"));
        let bare = b"<rss><channel><item><title>Caf\xe9</title></item></channel></rss>";
        let typed = parse(bare, Some("application/rss+xml; charset=windows-1252")).unwrap();
        assert_eq!(typed[0].title.as_deref(), Some("Café"));
    }

    #[test]
    fn only_the_first_channel_counts() {
        let feed = "<rss><channel><item/></channel><channel><item/></channel></rss>";
        assert_eq!(parse(feed.as_bytes(), None).unwrap().len(), 1);
        assert_eq!(
            parse(b"\xef\xbb\xbf <?xml version=\"1.0\"?><rss><channel/></rss>", None).unwrap(),
            vec![]
        );
    }

    #[test]
    fn what_is_no_feed() {
        for (feed, why) in [
            ("", "it has no rss element"),
            ("<html><body>Our systems have detected unusual traffic</body></html>", "it has no rss element"),
            ("{\"json\": true}", "it has no rss element"),
            ("<rss><channel><item>", "it is not well-formed XML"),
            ("<rss><channel></rss>", "it is not well-formed XML"),
        ] {
            assert_eq!(parse(feed.as_bytes(), None).unwrap_err(), NotAFeed(why), "{feed}");
        }
        let deep = format!("<rss><channel><item>{}", "<a>".repeat(100_000));
        assert_eq!(parse(deep.as_bytes(), None).unwrap_err(), NotAFeed("its elements are nested too deeply"));
    }

    /// Fault 60: nested HTML in a description is text like any other.
    #[test]
    fn fault_60_a_description_of_nested_divs() {
        let bomb = format!("<description><![CDATA[{}]]></description>", "<div>".repeat(100_000));
        assert_eq!(one(&bomb).description, None);
    }

    #[test]
    fn items_are_bounded() {
        let feed = format!(
            "<rss><channel>{}</channel></rss>",
            "<item><title>x</title></item>".repeat(ITEMS_MAX + 5)
        );
        assert_eq!(parse(feed.as_bytes(), None).unwrap().len(), ITEMS_MAX);
    }
}
