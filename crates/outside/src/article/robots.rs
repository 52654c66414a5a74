//! What a `robots.txt` says to us (RFC 9309). Of what others have added to it, nothing is looked at.

use std::borrow::Cow;

use memchr::memmem;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// How much of a file is looked at.
pub(super) const ROBOTS_BYTES_MAX: usize = 512 * 1024;
/// How much of it is kept.
const RULES_MAX: usize = 1000;
const RULES_BYTES_MAX: usize = 32 * 1024;

/// The rules of one site for one agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Robots {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    allow: bool,
    pattern: String,
}

impl Robots {
    /// Reads the groups for `product`, or where there are none, those for everybody.
    pub(super) fn parse(text: &[u8], product: &str) -> Self {
        let text = String::from_utf8_lossy(&text[..text.len().min(ROBOTS_BYTES_MAX)]);
        let (mut ours, mut all) = (None, Self::default());
        // Whom the group speaks to; lines of agents one after another share the rules that follow.
        let (mut to_us, mut to_all, mut in_agents) = (false, false, false);
        for line in text.trim_start_matches('\u{feff}').lines() {
            let line = line.split('#').next().unwrap_or_default();
            let Some((name, value)) = line.split_once(':') else { continue };
            let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
            match name.as_str() {
                "user-agent" => {
                    if !in_agents {
                        (to_us, to_all, in_agents) = (false, false, true);
                    }
                    // `name/1.0` means `name`, as files in the wild have it.
                    let agent = value.split(['/', ' ']).next().unwrap_or_default();
                    to_all |= agent == "*";
                    if agent.eq_ignore_ascii_case(product) {
                        to_us = true;
                        ours.get_or_insert_with(Self::default);
                    }
                }
                "allow" | "disallow" => {
                    in_agents = false;
                    let rule = (name == "allow", value);
                    if to_us && let Some(ours) = &mut ours {
                        ours.add(rule);
                    }
                    if to_all {
                        all.add(rule);
                    }
                }
                // Crawl-delay, Sitemap and the like are no part of a group.
                _ => {}
            }
        }
        ours.unwrap_or(all)
    }

    fn add(&mut self, (allow, pattern): (bool, &str)) {
        // An empty path means nothing at all.
        if pattern.is_empty() || self.rules.len() == RULES_MAX {
            return;
        }
        let bytes: usize = self.rules.iter().map(|rule| rule.pattern.len()).sum();
        let pattern = encoded(pattern);
        if bytes + pattern.len() <= RULES_BYTES_MAX {
            self.rules.push(Rule { allow, pattern: pattern.into_owned() });
        }
    }

    /// Whether a path with its query may be asked for: the longest rule that fits decides, and of two that are
    /// as long, the kinder one.
    pub(super) fn allows(&self, path: &str) -> bool {
        let fitting = self.rules.iter().filter(|rule| fits(&rule.pattern, path));
        fitting.max_by_key(|rule| (rule.pattern.len(), rule.allow)).is_none_or(|rule| rule.allow)
    }
}

/// The spelling of a URL: what is not ASCII is written as its bytes.
fn encoded(pattern: &str) -> Cow<'_, str> {
    const ODD: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>');
    utf8_percent_encode(pattern, ODD).into()
}

/// Whether a pattern fits the beginning of a path; `*` is anything, and `$` is its end. The parts between the
/// stars are looked for from left to right, each where it comes first: the cost grows with the path alone.
fn fits(pattern: &str, path: &str) -> bool {
    let (pattern, to_the_end) = match pattern.strip_suffix('$') {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let mut parts = pattern.split('*');
    let Some(mut rest) = path.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(between) = last.replace(part) {
            match memmem::find(rest.as_bytes(), between.as_bytes())
                .and_then(|at| rest.get(at + between.len()..))
            {
                Some(after) => rest = after,
                None => return false,
            }
        }
    }
    match (last, to_the_end) {
        (None, true) => rest.is_empty(),
        (None, false) => true,
        (Some(last), true) => rest.ends_with(last),
        (Some(last), false) => memmem::find(rest.as_bytes(), last.as_bytes()).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(file: &str, expected: &[(&str, bool)]) {
        let robots = Robots::parse(file.as_bytes(), "windlass-news");
        for (path, allowed) in expected {
            assert_eq!(robots.allows(path), *allowed, "{path} by {file}");
        }
    }

    #[test]
    fn groups() {
        check("", &[("/", true)]);
        check("<html>not found</html>", &[("/", true)]);
        check("User-agent: *\nDisallow: /", &[("/", false), ("/a", false)]);
        check("User-agent: *\nDisallow:", &[("/a", true)]);
        check(
            "User-agent: *\nDisallow: /\n\nUser-agent: Windlass-News/1.0 # us\nDisallow: /x",
            &[("/a", true), ("/x", false)],
        );
        check(
            "User-agent: windlass-news\nUser-agent: b\nDisallow: /a\nUser-agent: c\nDisallow: /b",
            &[("/a", false), ("/b", true)],
        );
        check(
            "User-agent: windlass-news\nDisallow: /a\nUser-agent: windlass-news\nDisallow: /b",
            &[("/a", false), ("/b", false)],
        );
        check("User-agent: windlass\nDisallow: /", &[("/a", true)]);
        check("Disallow: /", &[("/a", true)]);
        check(
            "\u{feff}user-AGENT:*\r\nDISALLOW:/a\r\nSitemap: x\r\nDisallow: /b",
            &[("/a", false), ("/b", false)],
        );
    }

    #[test]
    fn the_longest_rule_decides() {
        check(
            "User-agent: *\nDisallow: /a\nAllow: /a/b",
            &[("/a", false), ("/a/c", false), ("/a/b/c", true)],
        );
        check("User-agent: *\nDisallow: /a\nAllow: /a", &[("/a", true)]);
        check(
            "User-agent: *\nDisallow: /*.pdf$\nDisallow: /x*y*z",
            &[
                ("/a.pdf", false),
                ("/a.pdf?x", true),
                ("/b/a.pdf.pdf", false),
                ("/x-y-z", false),
                ("/x1y2z3", false),
                ("/xz", true),
                ("/axyz", true),
            ],
        );
        check("User-agent: *\nDisallow: /exact$", &[("/exact", false), ("/exactly", true)]);
        check("User-agent: *\nDisallow: /grün\nDisallow: /*?", &[("/gr%C3%BCn", false), ("/a?b", false)]);
        check("User-agent: *\nDisallow: *", &[("/", false)]);
    }

    /// What a stranger writes costs no more than it is long.
    #[test]
    fn files_without_end() {
        let stars = format!("User-agent: *\nDisallow: /{}b", "*a".repeat(10_000));
        let robots = Robots::parse(stars.as_bytes(), "x");
        assert!(robots.allows(&format!("/{}", "a".repeat(8_000))));
        let many = format!(
            "User-agent: *\n{}",
            "Disallow: /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n".repeat(100_000)
        );
        let robots = Robots::parse(many.as_bytes(), "x");
        assert!(robots.rules.len() <= RULES_MAX);
    }
}
