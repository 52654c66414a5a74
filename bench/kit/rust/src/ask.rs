//! What the driver asks for.

use std::collections::HashMap;

use crate::Fault;

/// The arguments of one run.
#[derive(Debug)]
pub struct Ask {
    /// `setup`, `enqueue_one`, `enqueue_batch`, `drain`, `latency` or `steady`.
    pub measure: String,
    /// Where the server or the file is.
    pub url: String,
    options: HashMap<String, String>,
}

impl Ask {
    /// Reads `MEASURE --url URL [--NAME VALUE]…`.
    pub fn read(mut args: impl Iterator<Item = String>) -> Result<Self, Fault> {
        let measure = args.next().ok_or("say what to measure")?;
        let mut options = HashMap::new();
        while let Some(name) = args.next() {
            let name = name.strip_prefix("--").ok_or("options begin with --")?.to_owned();
            let value = args.next().ok_or_else(|| format!("--{name} needs a value"))?;
            options.insert(name, value);
        }
        let url = options.remove("url").ok_or("--url is missing")?;
        Ok(Self { measure, url, options })
    }

    /// An option as a number, or `default`.
    pub fn number(&self, name: &str, default: u64) -> u64 {
        self.text(name).and_then(|value| value.parse().ok()).unwrap_or(default)
    }

    /// An option as it was written.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }
}
