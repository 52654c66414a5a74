//! Moments as other people write them.

/// A date as e-mails have it, or as ISO 8601 has it, in milliseconds since 1970; one without a zone is UTC.
pub(crate) fn moment(text: &str) -> Option<i64> {
    // The day of the week says nothing that the date does not say better.
    const PARSER: jiff::fmt::rfc2822::DateTimeParser =
        jiff::fmt::rfc2822::DateTimeParser::new().relaxed_weekday(true);
    let zoned = || PARSER.parse_timestamp(text).ok().or_else(|| text.parse::<jiff::Timestamp>().ok());
    let civil = || {
        let civil = text.parse::<jiff::civil::DateTime>().ok()?;
        civil.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    };
    Some(zoned().or_else(civil)?.as_millisecond())
}
