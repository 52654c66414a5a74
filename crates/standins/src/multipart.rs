//! Reading a `multipart/form-data` body.

use bytes::Bytes;

/// One part of a form.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) file_name: Option<String>,
    pub(crate) content: Bytes,
}

/// The parts of a body; `None` when it is not well formed.
pub(crate) fn parse(content_type: &str, body: &Bytes) -> Option<Vec<Part>> {
    let boundary = content_type.strip_prefix("multipart/form-data; boundary=")?.trim_matches('"');
    let line = format!("--{boundary}");
    let mut rest = body.clone();
    strip(&mut rest, line.as_bytes())?;
    let mut parts = Vec::new();
    while strip(&mut rest, b"--").is_none() {
        strip(&mut rest, b"\r\n")?;
        let head = take_until(&mut rest, b"\r\n\r\n")?;
        let content = take_until(&mut rest, format!("\r\n{line}").as_bytes())?;
        let head = std::str::from_utf8(&head).ok()?.to_owned();
        parts.push(Part {
            name: quoted(&head, " name=\"")?,
            file_name: quoted(&head, "filename=\""),
            content,
        });
    }
    Some(parts)
}

fn strip(rest: &mut Bytes, prefix: &[u8]) -> Option<()> {
    rest.starts_with(prefix).then(|| *rest = rest.slice(prefix.len()..))
}

fn take_until(rest: &mut Bytes, mark: &[u8]) -> Option<Bytes> {
    let at = memchr::memmem::find(rest, mark)?;
    let taken = rest.slice(..at);
    *rest = rest.slice(at + mark.len()..);
    Some(taken)
}

fn quoted(head: &str, before: &str) -> Option<String> {
    let from = head.find(before)? + before.len();
    let length = head[from..].find('"')?;
    Some(head[from..from + length].to_owned())
}
