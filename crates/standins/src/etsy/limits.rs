//! Calls of a second and of 24 hours, as Etsy counts: when they arrive.

use std::collections::HashMap;

use serde_json::json;

use crate::ask::{Answer, Ask};

const DAY_MS: u64 = 86_400_000;
const SECOND_MS: u64 = 1_000;

/// How a call is turned away that is one too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooMany {
    /// With `retry-after` and the four numbers.
    Told,
    /// With the four numbers only.
    WithoutRetryAfter,
    /// With nothing but the status.
    Bare,
    /// With a `retry-after` of a day, whatever limit it was.
    Huge,
}

/// A call that came.
#[derive(Debug, Clone)]
pub struct EtsyCall {
    /// When, by the clock of the stand-in.
    pub at_ms: u64,
    /// `GET /v3/application/…`
    pub what: String,
    /// The token that came with it.
    pub token: String,
    /// What was answered.
    pub status: u16,
}

pub(super) struct Limits {
    per_second: Option<u32>,
    per_day: Option<u32>,
    by_token: bool,
    pub(super) told: bool,
    pub(super) truncated: bool,
    pub(super) too_many: TooMany,
    /// Calls of the same app by somebody else, which stay in the day's count.
    pub(super) elsewhere: u32,
    pub(super) calls: Vec<EtsyCall>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            per_second: None,
            per_day: None,
            by_token: false,
            told: true,
            truncated: false,
            too_many: TooMany::Told,
            elsewhere: 0,
            calls: Vec::new(),
        }
    }
}

/// What is left after a call.
#[derive(Clone, Copy)]
pub(super) struct Left {
    second: u32,
    day: u32,
}

impl Limits {
    pub(super) fn set(&mut self, per_second: u32, per_day: u32, by_token: bool) {
        (self.per_second, self.per_day, self.by_token) = (Some(per_second), Some(per_day), by_token);
    }

    /// Writes a call down that is answered with this status.
    pub(super) fn note(&mut self, ask: &Ask, now_ms: u64, status: u16) {
        let (what, token) = (format!("{} {}", ask.method, ask.path), bearer(ask));
        self.calls.push(EtsyCall { at_ms: now_ms, what, token, status });
    }

    /// What is left when this call is counted, or how it is turned away. Seconds are looked at first.
    pub(super) fn admit(&self, ask: &Ask, now_ms: u64) -> Result<Left, Box<Answer>> {
        let within = |ms: u64| {
            let token = bearer(ask);
            let counted = self.calls.iter().rev().take_while(|call| now_ms - call.at_ms.min(now_ms) < ms);
            let counted = counted.filter(|call| call.status != 429);
            counted.filter(|call| !self.by_token || call.token == token).count() as u32
        };
        let second = within(SECOND_MS);
        // Without a limit nobody counts a day's calls.
        let day = if self.per_day.is_some() { within(DAY_MS) + self.elsewhere } else { 0 };
        let left = |limit: Option<u32>, used: u32| limit.unwrap_or(u32::MAX).saturating_sub(used);
        let left = Left { second: left(self.per_second, second), day: left(self.per_day, day) };
        if left.second == 0 {
            return Err(Box::new(self.turn_away("Exceeded per second rate limit", 1, left)));
        }
        if left.day == 0 {
            return Err(Box::new(self.turn_away("Exceeded daily rate limit", 3600, left)));
        }
        Ok(Left { second: left.second - 1, day: left.day - 1 })
    }

    fn turn_away(&self, error: &str, seconds: u64, left: Left) -> Answer {
        let answer = Answer::json(429, &json!({ "error": error }));
        match self.too_many {
            TooMany::Told => self.head(answer, left).with("retry-after", &seconds.to_string()),
            TooMany::WithoutRetryAfter => self.head(answer, left),
            TooMany::Bare => Answer::new(429, "text/plain", ""),
            TooMany::Huge => answer.with("retry-after", "86400"),
        }
    }

    /// Puts the four numbers on an answer, where there are limits and they are told.
    pub(super) fn head(&self, answer: Answer, left: Left) -> Answer {
        let (Some(per_second), Some(per_day), true) = (self.per_second, self.per_day, self.told) else {
            return answer;
        };
        let spelled = if self.truncated { "x-remaining-this-secon" } else { "x-remaining-this-second" };
        answer
            .with("x-limit-per-second", &per_second.to_string())
            .with(spelled, &left.second.to_string())
            .with("x-limit-per-day", &per_day.to_string())
            .with("x-remaining-today", &left.day.to_string())
    }
}

fn bearer(ask: &Ask) -> String {
    let value = ask.header("authorization").unwrap_or_default();
    value.trim_start_matches("Bearer ").to_owned()
}

/// The user of a token outlives its rotation.
fn owner(token: &str) -> &str {
    token.split_once('.').map_or(token, |(user, _)| user)
}

pub(super) fn most_within(calls: &[EtsyCall], ms: u64, by_token: bool) -> usize {
    let mut lanes: HashMap<&str, Vec<u64>> = HashMap::new();
    for call in calls.iter().filter(|call| call.status != 429) {
        let lane = if by_token { owner(&call.token) } else { "" };
        lanes.entry(lane).or_default().push(call.at_ms);
    }
    let mut most = 0;
    for mut times in lanes.into_values() {
        times.sort_unstable();
        let mut from = 0;
        for to in 0..times.len() {
            while times[to] - times[from] >= ms {
                from += 1;
            }
            most = most.max(to - from + 1);
        }
    }
    most
}
