//! Writing a `multipart/form-data` body as a stream.

use std::io;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};

use crate::safe_http::Body;

/// A form with text fields and one file at its end.
pub(crate) struct Form {
    boundary: String,
    head: String,
}

impl Form {
    /// A form. Nobody who wrote the file may know its boundary, else the file
    /// could hold fields of its own.
    pub(crate) fn new(boundary: String) -> Self {
        Self { boundary, head: String::new() }
    }

    /// Adds a text field. Names are ours, values may be anybody's.
    pub(crate) fn text(mut self, name: &str, value: &str) -> Self {
        let boundary = &self.boundary;
        self.head +=
            &format!("--{boundary}\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        self
    }

    /// The content type and the body, with the file as its last part. `file`
    /// gives exactly `bytes` bytes.
    pub(crate) fn file(
        self,
        file_name: &str,
        content_type: &str,
        bytes: u64,
        file: BoxStream<'static, io::Result<Bytes>>,
    ) -> (String, Body) {
        let Self { boundary, mut head } = self;
        head += &format!(
            "--{boundary}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{file_name}\"\r\n\
             content-type: {content_type}\r\n\r\n"
        );
        let tail = format!("\r\n--{boundary}--\r\n");
        let all = (head.len() + tail.len()) as u64 + bytes;
        let once = |text: String| stream::iter([Ok(Bytes::from(text))]);
        let body = Body::stream(all, once(head).chain(file).chain(once(tail)));
        (format!("multipart/form-data; boundary={boundary}"), body)
    }
}
