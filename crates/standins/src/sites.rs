//! Web sites with articles.

use std::collections::HashMap;
use std::io::Write;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::{DeflateEncoder, ZlibEncoder};

use crate::ask::{Answer, Ask};
use crate::server::{Server, Service};

/// A web site on one host. `/articles/N` is an article about report N, always the same; other paths are what
/// was put there. Without a `robots.txt` put there, there is none.
pub struct Sites {
    server: Server,
    pages: Arc<Mutex<HashMap<String, Answer>>>,
}

/// How a page is compressed on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Deflate in zlib's frame, as the standard says.
    Deflate,
    /// Deflate without a frame, as some servers have it.
    RawDeflate,
    /// Brotli.
    Brotli,
}

impl Sites {
    /// Starts it.
    pub async fn start() -> Self {
        let pages = Arc::<Mutex<HashMap<String, Answer>>>::default();
        Self { server: Server::start(Rules(pages.clone())).await, pages }
    }

    /// The address of a page.
    pub fn page(&self, path: &str) -> String {
        format!("{}{path}", self.server.url())
    }

    /// What goes into `FETCH_ALLOW_HOSTS`.
    pub fn host(&self) -> String {
        self.server.address().to_string()
    }

    /// Puts an answer at a path.
    pub fn put(&self, path: &str, answer: Answer) {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), answer);
    }

    /// Puts a page at a path.
    pub fn put_html(&self, path: &str, html: impl Into<Bytes>) {
        self.put(path, Answer::new(200, "text/html; charset=utf-8", html));
    }

    /// Puts a `robots.txt` there.
    pub fn robots(&self, text: &str) {
        self.put("/robots.txt", Answer::new(200, "text/plain", text.to_owned()));
    }

    /// The HTML of an article about a topic: a page as sites have it, with all that is around an article.
    pub fn article(topic: &str) -> String {
        let paragraph = |number: usize| {
            format!(
                "<p>Paragraph {number} about <b>{topic}</b>: the price moved again on Tuesday, traders said, and the \
                 market took note of it, because the figures that were published in the morning were better than \
                 expected &amp; nobody had asked for them.</p>"
            )
        };
        let paragraphs: String = (1..=6).map(paragraph).collect();
        format!(
            "<!DOCTYPE html><html><head><meta charset=\"utf-8\"><title>{topic} | The Paper</title>\
             <script>var tracking = '<p>not to be read</p>';</script><style>.ad {{ color: red }}</style></head><body>\
             <nav class=\"menu\"><ul><li><a href=\"/\">Home</a></li><li><a href=\"/markets\">Markets</a></li></ul></nav>\
             <div class=\"sidebar ad\"><p>Buy now, not to be read.</p></div>\
             <main><article><h1>{topic}</h1>{paragraphs}</article></main>\
             <div id=\"comments\"><p>A comment, not to be read.</p></div><footer><p>Imprint</p></footer></body></html>"
        )
    }

    /// A page that asks for money instead of showing an article.
    pub fn paywall() -> Answer {
        let html = "<html><head><title>Subscribe</title></head><body><main><h1>Subscribe to read</h1>\
                    <p>This article is for our readers with a subscription. Choose a plan to go on reading.</p>\
                    </main></body></html>";
        Answer::new(200, "text/html; charset=utf-8", html)
    }

    /// A page that keeps to no rule: nothing is closed, and what is closed was not open.
    pub fn malformed(topic: &str) -> Answer {
        let paragraphs: String = (1..=6)
            .map(|number| {
                format!(
                    "<p><b>Paragraph {number} about <i>{topic}</b>, as it was told, and \
                more of it,</div> than anybody <a href='x>asked for</i>, & so on<br> and on."
                )
            })
            .collect();
        Answer::new(200, "text/html", format!("<title>{topic}<p></title><div><table><article>{paragraphs}"))
    }

    /// An answer, compressed.
    pub fn packed(answer: Answer, packing: Packing) -> Answer {
        const FULL: &str = "memory takes what is written";
        let (name, body) = match packing {
            Packing::Deflate => {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(&answer.body).expect(FULL);
                ("deflate", encoder.finish().expect(FULL))
            }
            Packing::RawDeflate => {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(&answer.body).expect(FULL);
                ("deflate", encoder.finish().expect(FULL))
            }
            Packing::Brotli => {
                let (mut packed, how) =
                    (Vec::new(), brotli::enc::BrotliEncoderParams { quality: 5, ..Default::default() });
                brotli::BrotliCompress(&mut &answer.body[..], &mut packed, &how).expect(FULL);
                ("br", packed)
            }
        };
        Answer { body: body.into(), ..answer }.with("content-encoding", name)
    }
}

impl Deref for Sites {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

struct Rules(Arc<Mutex<HashMap<String, Answer>>>);

impl Service for Rules {
    fn answer(&self, ask: &Ask) -> Answer {
        let pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = pages.get(&ask.path) {
            return answer.clone();
        }
        match ask.path.strip_prefix("/articles/") {
            Some(number) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => {
                let html = Sites::article(&format!("Bitcoin report {number}"));
                Answer::new(200, "text/html; charset=utf-8", html)
            }
            _ => Answer::new(404, "text/html", "<html><body><p>There is no such page.</p></body></html>"),
        }
    }

    /// A `robots.txt` that was not put there is asked for by every polite client; scripts of faults speak of
    /// pages.
    fn is_aside(&self, ask: &Ask) -> bool {
        ask.path == "/robots.txt"
            && !self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key("/robots.txt")
    }
}
