//! How far the updater has come: a high-water mark that moves only when nothing was left out above it.
//!
//! A scan begins at the newest page and goes back until it meets the mark. One that ended early stays open: the
//! next begins at the newest page again, and when it meets where the open one began, it goes on where that one
//! stopped. So no article between two marks is left out, however often a scan is cut off.

use serde::{Deserialize, Serialize};
use windlass_outside::news::{Cursor, NewsPage};

/// How many ids a mark has: providers take articles away, and one of these will be left.
const MARK_IDS_MAX: usize = 10;
/// So often a page with nothing on it is taken for a provider's slip; then for the end of its archive.
const EMPTY_ENDS_MAX: u8 = 3;
/// Articles that are so much older than a mark are behind it, whatever became of its ids.
const BEHIND_MS: i64 = 3_600_000;

/// How far the updater has come with one provider.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Scan {
    /// Everything from here back was seen, or was never wanted.
    pub mark: Option<Mark>,
    /// A scan that has not come to the mark yet.
    pub open: Option<Open>,
    /// How often in a row a run ended at a page with nothing on it, before it came to the mark.
    #[serde(default)]
    empty_ends: u8,
}

/// A place among the articles: the newest ones at some time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    ids: Vec<String>,
    /// When the oldest of them was published.
    oldest_ms: Option<i64>,
}

/// A scan on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// Where it began.
    top: Mark,
    /// The page that it comes to next.
    next: Cursor,
    /// How many articles it has passed.
    passed: usize,
    /// An earlier scan whose beginning it has not met yet.
    behind: Option<Gap>,
    /// The next run goes on here at once: the last one had no page left for it.
    first: bool,
}

/// Where an earlier scan began, and where it stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Gap {
    top: Mark,
    next: Cursor,
    passed: usize,
}

/// One run over the pages.
#[derive(Debug, Clone)]
pub struct Run {
    scan: Scan,
    /// What was open before: met, the run jumps to its end.
    behind: Option<Gap>,
    begun: bool,
    stored_max: usize,
}

/// Where a run goes from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// To the page of this cursor; nothing is the first page.
    Page(Option<Cursor>),
    /// Nowhere: everything back to the mark was seen.
    Done,
}

impl Scan {
    /// Begins a run. Of articles older than the newest `stored_max` nobody will hear, so no scan goes further.
    pub fn begin(self, stored_max: usize) -> (Run, Way) {
        let gap = |open: &Open| Gap { top: open.top.clone(), next: open.next.clone(), passed: open.passed };
        if let Some(open) = self.open.as_ref().filter(|open| open.first) {
            let way = Way::Page(Some(open.next.clone()));
            let behind = open.behind.clone();
            return (Run { scan: self, behind, begun: true, stored_max }, way);
        }
        let behind = self.open.as_ref().map(gap);
        (Run { scan: self, behind, begun: false, stored_max }, Way::Page(None))
    }
}

impl Run {
    /// Takes a page: where to go from here. [`Run::scan`] is then what must be stored with its articles.
    pub fn take(&mut self, page: &NewsPage) -> Way {
        let top = match (&self.scan.open, self.begun) {
            (Some(open), true) => open.top.clone(),
            _ => Mark::of(page),
        };
        let before = match (&self.scan.open, self.begun) {
            (Some(open), true) => open.passed,
            _ => 0,
        };
        self.begun = true;
        let at_mark = self.scan.mark.as_ref().is_some_and(|mark| mark.is_met(page));
        let (mut next, mut passed, mut first) = (page.next.clone(), before + page.articles.len(), false);
        if self.is_slip(page) {
            let kept = |gap: Gap| Open {
                top: gap.top,
                next: gap.next,
                passed: gap.passed,
                behind: None,
                first: false,
            };
            self.scan.open = self.behind.take().map(kept);
            self.scan.empty_ends += 1;
            return Way::Done;
        }
        if !at_mark && let Some(gap) = self.behind.take_if(|gap| gap.top.is_met(page)) {
            // What the earlier scan has passed is not counted again.
            passed = gap.top.passed_before(page, before) + gap.passed;
            (next, first) = (Some(gap.next), true);
        }
        match next.filter(|_| !at_mark && passed < self.stored_max) {
            Some(next) => {
                let behind = self.behind.clone();
                self.scan.open = Some(Open { top, next: next.clone(), passed, behind, first });
                Way::Page(Some(next))
            }
            None => {
                self.scan =
                    Scan { mark: Some(top).filter(|top| !top.ids.is_empty()), open: None, empty_ends: 0 };
                Way::Done
            }
        }
    }

    /// A page with nothing on it and nothing behind it, before the mark was met. Providers answer so when they
    /// stumble; the mark stays where it is, and the next run looks again.
    fn is_slip(&self, page: &NewsPage) -> bool {
        let ends = page.articles.is_empty() && page.next.is_none();
        ends && self.scan.mark.is_some() && self.scan.empty_ends < EMPTY_ENDS_MAX
    }

    /// The cursor leads nowhere any more: what is open is found again from the newest page on, without jumps.
    pub fn lost(&mut self) -> Way {
        self.behind = None;
        self.begun = false;
        self.scan.open = None;
        Way::Page(None)
    }

    /// How far it is.
    pub fn scan(&self) -> &Scan {
        &self.scan
    }
}

impl Mark {
    fn of(page: &NewsPage) -> Self {
        let newest = page.articles.iter().take(MARK_IDS_MAX);
        let ids = newest.clone().map(|article| article.id.clone()).collect();
        Self { ids, oldest_ms: newest.filter_map(|article| article.published_ms).min() }
    }

    /// How many articles come before it, of which `before` were on earlier pages. The first of its ids may have been
    /// on one of those.
    fn passed_before(&self, page: &NewsPage, before: usize) -> usize {
        let place =
            |(at, id): (usize, &String)| Some((at, self.ids.iter().position(|of_mark| of_mark == id)?));
        let met = page.articles.iter().map(|article| &article.id).enumerate().find_map(place);
        met.map_or(before + page.articles.len(), |(at, in_mark)| (before + at).saturating_sub(in_mark))
    }

    /// Whether a page has come to it. One of its articles is not enough: providers lift old ones up again. So what
    /// follows that one must not be newer; and should nothing follow, the next page tells.
    fn is_met(&self, page: &NewsPage) -> bool {
        let no_newer = |at: usize| {
            let (own, rest) = (page.articles[at].published_ms, &page.articles[at + 1..]);
            let follows = !rest.is_empty() || page.next.is_none();
            follows && rest.iter().all(|article| own.is_none() || article.published_ms <= own)
        };
        let has_one =
            (0..page.articles.len()).any(|at| self.ids.contains(&page.articles[at].id) && no_newer(at));
        let newest_ms = page.articles.iter().filter_map(|article| article.published_ms).max();
        let is_behind = || match (self.oldest_ms, newest_ms) {
            (Some(mark), Some(newest)) => newest < mark - BEHIND_MS,
            _ => false,
        };
        has_one || is_behind()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::sample::news;

    const SIZE: usize = 3;

    /// The page that begins with the article before the `older`-th; its cursor is a place in the archive.
    fn page(newest: i64, older: Option<i64>) -> NewsPage {
        let from = older.unwrap_or(newest);
        let numbers: Vec<i64> = (1..=from).rev().take(SIZE).collect();
        let rest = from - numbers.len() as i64;
        let next = (rest > 0).then(|| Cursor::try_from(rest.to_string()).unwrap());
        let articles = numbers.into_iter().map(news).collect();
        NewsPage { articles, next, skipped: 0, calls_left: None }
    }

    /// One run of at most so many pages; answers how many it took.
    fn run(scan: &mut Scan, newest: i64, pages_max: usize, stored: &mut BTreeSet<String>) -> usize {
        // As many as there are: whoever counts one twice stops too early.
        let (mut run, mut way) = scan.clone().begin(usize::try_from(newest).unwrap());
        let mut pages = 0;
        while let Way::Page(cursor) = way {
            if pages == pages_max {
                break;
            }
            let older = cursor.map(|cursor| cursor.as_str().parse().unwrap());
            let page = page(newest, older);
            pages += 1;
            way = run.take(&page);
            stored.extend(page.articles.iter().map(|article| article.id.clone()));
            *scan = run.scan().clone();
        }
        pages
    }

    #[test]
    fn a_scan_ends_at_its_mark() {
        let (mut scan, mut stored) = (Scan::default(), BTreeSet::new());
        assert_eq!(run(&mut scan, 9, 15, &mut stored), 3);
        assert_eq!(run(&mut scan, 9, 15, &mut stored), 1, "nothing new costs one page");
        assert_eq!(run(&mut scan, 13, 15, &mut stored), 2);
        assert_eq!(stored.len(), 13);
        assert!(scan.open.is_none());
    }

    /// An article of the mark that comes up again among newer ones is not the mark.
    #[test]
    fn an_article_that_is_lifted_up_is_no_mark() {
        let mark = Mark::of(&page(9, None));
        let lifted = |numbers: [i64; 3]| NewsPage { articles: numbers.map(news).into(), ..page(30, None) };
        assert!(!mark.is_met(&lifted([30, 9, 29])) && !mark.is_met(&lifted([30, 29, 9])));
        assert!(mark.is_met(&lifted([10, 9, 8])) && mark.is_met(&lifted([30, 9, 7])));
    }

    /// A page with nothing on it moves no mark; the next run fetches what it hid.
    #[test]
    fn an_empty_page_is_a_slip() {
        let (mut scan, mut stored) = (Scan::default(), BTreeSet::new());
        run(&mut scan, 9, 15, &mut stored);
        let mark = scan.mark.clone();
        let nothing = NewsPage { articles: Vec::new(), next: None, ..page(1, None) };
        for at_once in [true, false] {
            let (mut slipped, _) = scan.clone().begin(100);
            if !at_once {
                slipped.take(&page(30, None));
            }
            assert_eq!(slipped.take(&nothing), Way::Done);
            scan = slipped.scan().clone();
            assert_eq!(scan.mark, mark);
        }
        run(&mut scan, 30, 15, &mut stored);
        assert_eq!(stored.len(), 30);
        // For ever, it is the end of the archive.
        for _ in 0..=EMPTY_ENDS_MAX {
            let (mut slipped, _) = scan.clone().begin(100);
            slipped.take(&page(90, None));
            slipped.take(&nothing);
            scan = slipped.scan().clone();
        }
        assert_eq!(scan.mark, Some(Mark::of(&page(90, None))));
    }

    /// Defect 12: a scan that is cut off leaves no gap, also with one page a run.
    #[test]
    fn a_gap_is_filled_next_time() {
        for pages_max in [1, 2, 4] {
            let (mut scan, mut stored) = (Scan::default(), BTreeSet::new());
            run(&mut scan, 3, 15, &mut stored);
            let mut runs = 0;
            while stored.len() < 30 {
                run(&mut scan, 30, pages_max, &mut stored);
                runs += 1;
                assert!(runs < 40, "{pages_max}: {} of 30", stored.len());
            }
        }
    }

    #[test]
    fn nothing_older_than_what_is_kept_is_asked_for() {
        let (mut open, way) = Scan::default().begin(5);
        assert_eq!(way, Way::Page(None));
        assert!(matches!(open.take(&page(100, None)), Way::Page(Some(_))));
        assert_eq!(open.take(&page(100, Some(97))), Way::Done);
    }

    #[test]
    fn a_mark_whose_articles_are_gone_is_met_by_its_time() {
        let mark = Mark::of(&page(1_000, None));
        let old = NewsPage { articles: vec![news(900)], ..page(900, None) };
        assert!(mark.is_met(&old) && !mark.is_met(&page(1_100, None)));
    }

    proptest! {
        /// Whatever comes in between runs and however short they are: once a run is not cut off, nothing is missing.
        #[test]
        fn no_gap_is_ever_left(runs in proptest::collection::vec((0i64..20, 1usize..4), 1..12)) {
            let (mut scan, mut stored, mut newest) = (Scan::default(), BTreeSet::new(), 1);
            for (more, pages_max) in runs {
                newest += more;
                run(&mut scan, newest, pages_max, &mut stored);
            }
            run(&mut scan, newest, 1_000, &mut stored);
            run(&mut scan, newest, 1_000, &mut stored);
            prop_assert!(scan.open.is_none());
            prop_assert_eq!(stored.len() as i64, newest);
        }
    }
}
