//! Every move of an article, as pure functions of the article, what happened and the time.

use std::time::Duration;

use windlass_engine::Ladder;
use windlass_outside::news::Sentiment;

use crate::article::{Article, State, Step, Which};
use crate::reason::Reason;

/// How often things are tried, and after which delays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// How often a page is asked for.
    pub fetch_attempts_max: u32,
    /// How often a model may give an answer that is of no use.
    pub model_attempts_max: u32,
    /// The delays between tries; the last one repeats.
    pub ladder: Ladder,
}

impl Rules {
    fn attempts_max(&self, which: Which) -> u32 {
        match which {
            Which::Content => self.fetch_attempts_max,
            Which::Sentiment | Which::Summary => self.model_attempts_max,
        }
    }

    /// The delay after the first try.
    pub fn first_delay_ms(&self) -> i64 {
        self.delay_ms(1)
    }

    /// The delay after the `count`-th try.
    fn delay_ms(&self, count: u32) -> i64 {
        let rungs = self.ladder.rungs();
        let at = (count.max(1) as usize - 1).min(rungs.len().saturating_sub(1));
        rungs.get(at).map_or(0, |rung| i64::try_from(rung.ms()).unwrap_or(i64::MAX))
    }
}

/// What is to be done with an article now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Make the call of this step.
    Call(Which),
    /// Nothing before this moment.
    Wait {
        /// The moment.
        due_ms: i64,
    },
    /// Nothing any more: all steps have ended.
    Over,
}

/// What a call came to, when it came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It counts as an attempt; after the last one the step is left empty.
    Counts(Reason),
    /// It says nothing about the article, and costs no attempt; not before so long.
    Waits {
        /// What for.
        reason: Reason,
        /// How long somebody asked us to wait at least.
        at_least: Duration,
    },
    /// No further attempt can change it.
    Ends(Reason),
    /// Nobody is to blame: we were told to stop.
    GivenBack,
}

/// The members that a step's moves change, whatever its value is.
trait Slot {
    fn due(&self) -> Option<i64>;
    fn begin(&mut self);
    fn recover(&mut self, max: u32);
    fn fail(&mut self, fault: Fault, max: u32, rules: &Rules, now_ms: i64);
    fn hurry(&mut self);
}

impl<T> Slot for Step<T> {
    fn due(&self) -> Option<i64> {
        match self {
            Self::Open { due_ms, .. } => Some(*due_ms),
            Self::Done { .. } | Self::Empty { .. } => None,
        }
    }

    fn begin(&mut self) {
        if let Self::Open { attempts, calling, .. } = self {
            *attempts = attempts.saturating_add(1);
            *calling = true;
        }
    }

    fn recover(&mut self, max: u32) {
        let Self::Open { attempts, calling, .. } = self else { return };
        if !*calling {
            return;
        }
        *calling = false;
        if *attempts >= max {
            *self = Self::Empty { reason: Reason::crashed(), attempts: *attempts };
        }
    }

    fn fail(&mut self, fault: Fault, max: u32, rules: &Rules, now_ms: i64) {
        let Self::Open { attempts, parks, due_ms, reason, calling } = self else { return };
        *calling = false;
        match fault {
            Fault::GivenBack => *attempts = attempts.saturating_sub(1),
            Fault::Waits { reason: why, at_least } => {
                *attempts = attempts.saturating_sub(1);
                *parks = parks.saturating_add(1);
                let asked = i64::try_from(at_least.as_millis()).unwrap_or(i64::MAX);
                *due_ms = now_ms.saturating_add(rules.delay_ms(*parks).max(asked));
                *reason = Some(why);
            }
            Fault::Counts(why) if *attempts < max => {
                *due_ms = now_ms.saturating_add(rules.delay_ms(*attempts));
                *reason = Some(why);
            }
            Fault::Counts(why) | Fault::Ends(why) => {
                *self = Self::Empty { reason: why, attempts: *attempts };
            }
        }
    }

    fn hurry(&mut self) {
        if let Self::Open { due_ms, .. } = self {
            *due_ms = 0;
        }
    }
}

impl Article {
    /// What is to be done now. A step that waits does not hold back one that does not need it.
    pub fn next(&self, now_ms: i64) -> Next {
        let summary = if self.content.is_open() { None } else { self.summary.due() };
        let due = [
            (Which::Sentiment, self.sentiment.due()),
            (Which::Content, self.content.due()),
            (Which::Summary, summary),
        ];
        let mut first: Option<i64> = None;
        for (which, due_ms) in due {
            match due_ms {
                Some(due_ms) if due_ms <= now_ms => return Next::Call(which),
                Some(due_ms) => first = Some(first.map_or(due_ms, |first| first.min(due_ms))),
                None => {}
            }
        }
        first.map_or(Next::Over, |due_ms| Next::Wait { due_ms })
    }

    /// Takes it up again: calls that were under way when a process died have cost their attempt. A summary
    /// without a page has none to be made of.
    pub fn take_up(&mut self, rules: &Rules, now_ms: i64) {
        self.sentiment.recover(rules.model_attempts_max);
        self.content.recover(rules.fetch_attempts_max);
        self.summary.recover(rules.model_attempts_max);
        self.without_page(now_ms);
    }

    /// All open steps are due.
    pub fn hurry(&mut self) {
        self.sentiment.hurry();
        self.content.hurry();
        self.summary.hurry();
    }

    /// A call is about to be made: its attempt is counted.
    pub fn begin(&mut self, which: Which, now_ms: i64) {
        self.slot(which).begin();
        if !matches!(self.state, State::Current { .. }) {
            self.state = State::Current { since_ms: now_ms };
        }
    }

    /// The model has said what it means.
    pub fn meant(&mut self, value: Sentiment, now_ms: i64) {
        self.sentiment = Step::Done { value, attempts: self.sentiment.attempts() };
        self.moved(now_ms);
    }

    /// Its page is there.
    pub fn fetched(&mut self, now_ms: i64) {
        self.content = Step::Done { value: (), attempts: self.content.attempts() };
        self.processed_ms = Some(now_ms);
    }

    /// The text of its page is gone, so it is to be fetched again.
    pub fn unfetched(&mut self) {
        self.content = Step::open();
    }

    /// The model has said what its page says.
    pub fn summed_up(&mut self, value: String, now_ms: i64) {
        self.summary = Step::Done { value, attempts: self.summary.attempts() };
        self.moved(now_ms);
    }

    /// A call came to nothing.
    pub fn failed(&mut self, which: Which, fault: Fault, rules: &Rules, now_ms: i64) {
        let max = rules.attempts_max(which);
        self.slot(which).fail(fault, max, rules, now_ms);
        self.without_page(now_ms);
    }

    /// It is put back, to be tried again later.
    pub fn put_back(&mut self, now_ms: i64) {
        self.round = self.round.saturating_add(1);
        self.state = State::Later { since_ms: now_ms };
    }

    /// It is let go before anything came of it, as it was before it was taken.
    pub fn let_go(&mut self, was: State) {
        self.state = was;
    }

    /// All steps have ended.
    pub fn finish(&mut self, now_ms: i64) {
        let reasons = [self.content.reason(), self.summary.reason(), self.sentiment.reason()];
        let failed = reasons.into_iter().flatten().find(|reason| reason.is_failure());
        self.state = match failed {
            Some(reason) => State::Failed { at_ms: now_ms, reason: reason.clone() },
            None => State::Done { at_ms: now_ms },
        };
        self.moved(now_ms);
    }

    /// Nobody works on it any more.
    pub fn skip(&mut self, reason: Reason, now_ms: i64) {
        self.state = State::Skipped { at_ms: now_ms, reason };
        self.changed_ms = now_ms;
    }

    /// An operator takes it away.
    pub fn drop_out(&mut self, now_ms: i64) {
        self.state = State::Dropped { at_ms: now_ms };
        self.changed_ms = now_ms;
    }

    /// An operator wants it tried again: what has no value is to be done, from the first attempt on.
    pub fn revive(&mut self, now_ms: i64) {
        let fresh = Self::new(self.news.clone(), self.queued_ms);
        if self.sentiment.value().is_none() {
            self.sentiment = fresh.sentiment;
        }
        if self.summary.value().is_none() {
            self.content = fresh.content;
            self.summary = Step::open();
        }
        self.round = self.round.saturating_add(1);
        self.state = State::Pending;
        self.changed_ms = now_ms;
    }

    /// What is shown of it has changed.
    fn moved(&mut self, now_ms: i64) {
        self.processed_ms = Some(now_ms);
        self.changed_ms = now_ms;
    }

    fn without_page(&mut self, now_ms: i64) {
        if let (Step::Empty { reason, .. }, true) = (&self.content, self.summary.is_open()) {
            self.summary = Step::Empty { reason: reason.clone(), attempts: self.summary.attempts() };
            self.moved(now_ms);
        }
    }

    fn slot(&mut self, which: Which) -> &mut dyn Slot {
        match which {
            Which::Sentiment => &mut self.sentiment,
            Which::Content => &mut self.content,
            Which::Summary => &mut self.summary,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::news;

    fn rules() -> Rules {
        Rules { fetch_attempts_max: 2, model_attempts_max: 5, ladder: "1m 5m".parse().unwrap() }
    }

    fn away() -> Fault {
        Fault::Waits { reason: Reason::model_away("connect"), at_least: Duration::ZERO }
    }

    #[test]
    fn steps_come_in_their_order() {
        let mut article = Article::new(news(1), 0);
        assert_eq!(article.next(0), Next::Call(Which::Sentiment));
        article.begin(Which::Sentiment, 0);
        article.meant(Sentiment::Positive, 1);
        assert_eq!(article.next(1), Next::Call(Which::Content));
        article.begin(Which::Content, 1);
        article.fetched(2);
        assert_eq!(article.next(2), Next::Call(Which::Summary));
        article.begin(Which::Summary, 2);
        article.summed_up("Bitcoin rose.".to_owned(), 3);
        assert_eq!(article.next(3), Next::Over);
        article.finish(3);
        assert_eq!(article.state, State::Done { at_ms: 3 });
    }

    /// Defect 15 and 24, invariant (c): an outage of the model delays its own steps, costs no attempt, and its
    /// last rung repeats.
    #[test]
    fn a_model_that_is_away_delays_only_its_steps() {
        let mut article = Article::new(news(1), 0);
        let mut now = 0;
        for (count, delay) in [(1, 60_000), (2, 300_000), (3, 300_000), (4, 300_000)] {
            article.begin(Which::Sentiment, now);
            article.failed(Which::Sentiment, away(), &rules(), now);
            assert_eq!(article.sentiment.attempts(), 0);
            if count == 1 {
                assert_eq!(article.next(now), Next::Call(Which::Content), "the page needs no model");
                article.begin(Which::Content, now);
                article.fetched(now);
                article.begin(Which::Summary, now);
                article.failed(Which::Summary, away(), &rules(), now);
            }
            assert_eq!(article.sentiment.due(), Some(now + delay));
            now += delay;
        }
        assert_eq!(article.sentiment.value(), None, "unknown is not neutral");
    }

    /// Defect 6: what the last attempt brings is kept.
    #[test]
    fn the_last_attempt_may_succeed() {
        let mut article = Article::new(news(1), 0);
        article.begin(Which::Content, 0);
        article.failed(Which::Content, Fault::Counts(Reason::fetch("timeout")), &rules(), 0);
        assert_eq!(article.content.due(), Some(60_000));
        article.begin(Which::Content, 60_000);
        article.fetched(60_000);
        assert_eq!(article.content, Step::Done { value: (), attempts: 2 });
    }

    #[test]
    fn after_the_last_attempt_the_values_are_empty_and_the_reason_is_there() {
        let mut article = Article::new(news(1), 0);
        article.begin(Which::Sentiment, 0);
        article.meant(Sentiment::Negative, 0);
        for now in [0, 60_000] {
            article.begin(Which::Content, now);
            article.failed(Which::Content, Fault::Counts(Reason::fetch("status")), &rules(), now);
        }
        assert_eq!(article.next(60_000), Next::Over);
        article.finish(60_000);
        assert_eq!(article.state.reason().unwrap().as_str(), "fetch_failed: status");
        assert_eq!(article.summary.reason().unwrap().as_str(), "fetch_failed: status");
        assert_eq!(article.sentiment.value(), Some(&Sentiment::Negative), "what is known stays");
    }

    /// Defect 4: a call that kills its process has cost its attempt, and does so no more often than it may.
    #[test]
    fn a_call_that_kills_its_process_ends() {
        let mut article = Article::new(news(1), 0);
        for _ in 0..2 {
            article.take_up(&rules(), 0);
            article.begin(Which::Content, 0);
        }
        article.take_up(&rules(), 0);
        assert_eq!(article.content, Step::Empty { reason: Reason::crashed(), attempts: 2 });
        assert!(!article.summary.is_open());
    }

    #[test]
    fn an_operator_has_it_tried_again() {
        let mut article = Article::new(news(1), 0);
        article.begin(Which::Sentiment, 0);
        article.meant(Sentiment::Positive, 0);
        article.failed(Which::Content, Fault::Ends(Reason::fetch("robots")), &rules(), 0);
        article.finish(0);
        article.revive(9);
        assert_eq!(article.next(9), Next::Call(Which::Content), "what is known is not asked for again");
        assert_eq!((article.round, article.state.label()), (1, "pending"));
        let mut mismatch = Article::new(news(2), 0);
        mismatch.fetched(0);
        mismatch.failed(Which::Summary, Fault::Ends(Reason::mismatch()), &rules(), 0);
        mismatch.failed(Which::Sentiment, Fault::GivenBack, &rules(), 0);
        mismatch.sentiment = Step::Done { value: Sentiment::Neutral, attempts: 1 };
        mismatch.finish(0);
        assert_eq!(mismatch.state, State::Done { at_ms: 0 }, "a page about something else is no failure");
    }
}
