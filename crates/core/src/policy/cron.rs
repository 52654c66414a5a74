//! Cron lines, and what they mean when the clocks change.
//!
//! A line that names hours runs by the clock on the wall: a time that the
//! clocks jump over is run once, at the end of the gap, and a time that they
//! show twice is run once, the first time. A line with `*` for the hour runs by
//! real time: every minute or hour that passes, over both changes.

use croner::{Cron, JobType};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};

use crate::error::Invalid;
use crate::time::Time;

/// No change of the clocks is longer than this.
const CHANGE_HOURS_MAX: i64 = 25;

/// A cron line in a time zone.
pub struct CronLine {
    cron: Cron,
    zone: TimeZone,
}

impl CronLine {
    /// Reads a line of five fields, or six with seconds in front, and an IANA zone.
    pub fn new(line: &str, zone: &str) -> Result<Self, Invalid> {
        let fields = line.split_whitespace().count();
        if line.len() > 256 || (!line.starts_with('@') && !(5..=6).contains(&fields)) {
            let why = format!("{line:?} must have 5 fields, or 6 with seconds in front");
            return Err(Invalid::new("cron", why));
        }
        let cron = line
            .parse()
            .map_err(|error| Invalid::new("cron", format!("{line:?} cannot be read: {error}")))?;
        let zone = jiff::tz::TimeZoneDatabase::bundled().get(zone).map_err(|_| {
            Invalid::new("zone", format!("{zone:?} is not an IANA time zone such as Europe/Berlin"))
        })?;
        Ok(Self { cron, zone })
    }

    /// The first run after `after`.
    pub fn next_after(&self, after: Time) -> Option<Time> {
        let after = Timestamp::from_millisecond(after.ms()).ok()?;
        let run = match self.by_real_time() {
            true => self.next_real(after),
            false => self.next_on_the_wall(after),
        };
        run.map(|run| Time::from_ms(run.as_millisecond()))
    }

    /// The newest run at or before `at`.
    pub fn newest_at(&self, at: Time) -> Option<Time> {
        let at = Timestamp::from_millisecond(at.ms()).ok()?;
        let run = match self.by_real_time() {
            true => self.newest_real(at),
            false => self.newest_on_the_wall(at),
        };
        run.map(|run| Time::from_ms(run.as_millisecond()))
    }

    fn by_real_time(&self) -> bool {
        self.cron.determine_job_type() == JobType::IntervalWildcard
    }

    fn next_on_the_wall(&self, after: Timestamp) -> Option<Timestamp> {
        let mut civil =
            self.zone.to_datetime(after).checked_sub(jiff::Span::new().hours(CHANGE_HOURS_MAX)).ok()?;
        loop {
            civil = self.cron.find_next_occurrence(&civil, false).ok()?;
            let moment = self.moment(civil)?;
            if moment > after {
                return Some(moment);
            }
        }
    }

    fn newest_on_the_wall(&self, at: Timestamp) -> Option<Timestamp> {
        let mut civil =
            self.zone.to_datetime(at).checked_add(jiff::Span::new().hours(CHANGE_HOURS_MAX)).ok()?;
        loop {
            civil = self.cron.find_previous_occurrence(&civil, false).ok()?;
            let moment = self.moment(civil)?;
            if moment <= at {
                return Some(moment);
            }
        }
    }

    /// When the clocks on the wall show `civil`: the first time, or at the end
    /// of the gap when they never do.
    fn moment(&self, civil: DateTime) -> Option<Timestamp> {
        match self.zone.to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(civil).ok(),
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(civil).ok(),
            AmbiguousOffset::Gap { before, .. } => {
                let inside = before.to_timestamp(civil).ok()?;
                let just_after = inside.checked_add(jiff::SignedDuration::from_millis(1)).ok()?;
                self.zone.preceding(just_after).next().map(|change| change.timestamp())
            }
        }
    }

    /// Between two changes of the clocks real time and wall time go together.
    fn next_real(&self, after: Timestamp) -> Option<Timestamp> {
        let (mut from, mut inclusive) = (after, false);
        loop {
            let offset = self.zone.to_offset(from);
            let civil = self.cron.find_next_occurrence(&offset.to_datetime(from), inclusive).ok()?;
            let run = offset.to_timestamp(civil).ok()?;
            match self.zone.following(from).next().map(|change| change.timestamp()) {
                Some(change) if change <= run => (from, inclusive) = (change, true),
                _ => return Some(run),
            }
        }
    }

    fn newest_real(&self, at: Timestamp) -> Option<Timestamp> {
        let mut to = at;
        loop {
            let offset = self.zone.to_offset(to);
            let civil = self.cron.find_previous_occurrence(&offset.to_datetime(to), true).ok()?;
            let run = offset.to_timestamp(civil).ok()?;
            let just_after = to.checked_add(jiff::SignedDuration::from_millis(1)).ok()?;
            match self.zone.preceding(just_after).next().map(|change| change.timestamp()) {
                Some(change) if run < change => {
                    to = change.checked_sub(jiff::SignedDuration::from_millis(1)).ok()?
                }
                _ => return Some(run),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Time {
        text.parse().unwrap()
    }

    fn runs(cron: &str, zone: &str, from: &str, to: &str) -> Vec<String> {
        let line = CronLine::new(cron, zone).unwrap();
        let mut at = time(from);
        let mut found = Vec::new();
        while let Some(next) = line.next_after(at).filter(|next| *next <= time(to)) {
            found.push(next.to_string());
            at = next;
        }
        found
    }

    /// Fault 47: the stated rule for both changes of the clocks.
    #[test]
    fn fault_47_daylight_saving() {
        // Berlin 2026: 02:00 becomes 03:00 on 29 March, 03:00 becomes 02:00 on 25 October.
        assert_eq!(
            runs("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z"),
            ["2026-03-29T01:00:00.000Z", "2026-03-30T00:30:00.000Z"]
        );
        assert_eq!(
            runs("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z"),
            ["2026-10-25T00:30:00.000Z", "2026-10-26T01:30:00.000Z"]
        );
        // Every hour runs every real hour, over both changes.
        for day in ["2026-03-29", "2026-10-25"] {
            let found =
                runs("0 * * * *", "Europe/Berlin", &format!("{day}T00:00:00Z"), &format!("{day}T06:00:00Z"));
            assert_eq!(found.len(), 6, "{day}: {found:?}");
        }
    }

    /// Fault 47: in every zone, over five years, a daily line runs exactly once
    /// per local day, in order.
    #[test]
    fn fault_47_every_zone_once_a_day() {
        let mut checked = 0;
        for name in jiff::tz::TimeZoneDatabase::bundled().available() {
            let name = name.as_str();
            // Five lines that fall into the usual hours of a change; a zone gets one of them.
            let cron = ["30 0 * * *", "30 1 * * *", "30 2 * * *", "30 3 * * *", "0 0 * * *"][checked % 5];
            let line = CronLine::new(cron, name).unwrap();
            let (mut at, end) = (time("2024-01-01T12:00:00Z"), time("2028-12-31T12:00:00Z"));
            let mut last_day = None;
            while let Some(next) = line.next_after(at).filter(|next| *next < end) {
                assert!(next > at, "{name} stands still at {next}");
                let moment = Timestamp::from_millisecond(next.ms()).unwrap();
                let day = line.zone.to_datetime(moment).date();
                if let Some(last) = last_day {
                    let gap = jiff::civil::Date::until(last, day).unwrap().get_days();
                    assert!(gap == 1, "{name} {cron}: {last} then {day}");
                }
                last_day = Some(day);
                at = next;
            }
            checked += 1;
        }
        assert!(checked > 400, "{checked} zones");
    }

    /// Looking back finds the same runs as looking ahead.
    #[test]
    fn back_and_ahead_agree() {
        for zone in ["Europe/Berlin", "Africa/Cairo", "Australia/Lord_Howe", "America/Havana", "UTC"] {
            for cron in ["*/7 * * * *", "30 2 * * *", "*/20 0-3 * * *", "0 0 1 * *", "15 3 * * SUN"] {
                let line = CronLine::new(cron, zone).unwrap();
                for start in ["2026-03-27T00:00:00Z", "2026-10-23T00:00:00Z", "2026-04-03T00:00:00Z"] {
                    let mut at = time(start);
                    for _ in 0..700 {
                        let next = line.next_after(at).unwrap();
                        assert_eq!(line.newest_at(next), Some(next), "{zone} {cron} {next}");
                        let before = line.newest_at(next.plus_ms(-1)).unwrap();
                        assert!(before <= at, "{zone} {cron}: {before} lies between {at} and {next}");
                        at = next;
                    }
                }
            }
        }
    }
}
