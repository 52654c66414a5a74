//! Whether a recording names another patient than the one whom its message is bound to.
//!
//! Nothing is decided here about whom the note is about: that stays as it was bound. But nobody should have to find
//! out by chance that the voice says another name.

use serde_json::{Value, json};

use crate::people::Bound;

/// How what is spoken stands to the patient whom the note is bound to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    /// Nobody is named, or the same.
    Fits,
    /// Somebody is named, and nobody can tell here whether it is the same.
    CannotTell,
    /// Another is named.
    Contradicts,
}

/// Words before names that say nothing about who it is.
const TITLES: [&str; 18] = [
    "herr",
    "herrn",
    "frau",
    "fr",
    "hr",
    "dr",
    "prof",
    "mr",
    "mrs",
    "ms",
    "miss",
    "mister",
    "bay",
    "bayan",
    "hanim",
    "bey",
    "patient",
    "patientin",
];

/// Compares what is spoken with the patient whom a note is bound to.
pub(crate) fn compare(bound: &Bound, id: Option<&str>, name: Option<&str>) -> Spoken {
    let Some(patient) = bound.patient.as_deref() else { return Spoken::Fits };
    let said = |text: Option<&str>| text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    let other_id = said(id).is_some_and(|id| plain(&id) != plain(patient));
    let name = match (bound.patient_name.as_deref(), said(name)) {
        (_, None) => Spoken::Fits,
        (None, Some(_)) => Spoken::CannotTell,
        (Some(own), Some(name)) => names(own, &name),
    };
    if other_id { Spoken::Contradicts } else { name }
}

/// The contradiction as the document shows it.
pub(crate) fn shown(bound: &Bound, written: Option<&str>, id: Option<&str>, name: Option<&str>) -> Value {
    let mut shown = json!({
        "boundPatientId": bound.patient,
        "boundPatientName": bound.patient_name,
        "spokenPatientId": id,
        "spokenPatientName": name,
    });
    if let Some(written) = written {
        shown["writtenPatientName"] = json!(written);
    }
    shown
}

/// The alert that the session or the text which bound the message names another than its id means.
pub(crate) fn written_alert(bound: &Bound, written: &str) -> Value {
    let own = bound.patient_name.as_deref().unwrap_or("?");
    let id = bound.patient.as_deref().unwrap_or("?");
    json!({
        "type": "patient_contradiction",
        "severity": "critical",
        "description": format!(
            "Widerspruch: die Kennung {id} gehört {own}, geschrieben steht {written}. Bitte klären, um wen es geht. / \
             Contradiction: the id {id} is {own}'s, but the name written with it is {written}. Find out whom it is about."
        ),
    })
}

/// The alert that goes with it, in the words of the people who read it, and in English.
pub(crate) fn alert(spoken: &Spoken, bound: &Bound, id: Option<&str>, name: Option<&str>) -> Option<Value> {
    let pair = |name: Option<&str>, id: Option<&str>| match (name, id) {
        (Some(name), Some(id)) => format!("{name} ({id})"),
        (one, other) => one.or(other).unwrap_or("?").to_owned(),
    };
    let own = pair(bound.patient_name.as_deref(), bound.patient.as_deref());
    let other = pair(name, id);
    match spoken {
        Spoken::Fits => None,
        Spoken::CannotTell => Some(json!({
            "type": "patient_unverified",
            "severity": "low",
            "description": format!(
                "Die Aufnahme nennt {other}; zugeordnet ist sie {own}. Bitte prüfen. / \
                 The recording names {other}; it is bound to {own}. Please check."
            ),
        })),
        Spoken::Contradicts => Some(json!({
            "type": "patient_contradiction",
            "severity": "critical",
            "description": format!(
                "Widerspruch: zugeordnet ist die Aufnahme {own}, gesprochen wird von {other}. Bitte klären, um wen es geht. / \
                 Contradiction: the recording is bound to {own}, but names {other}. Find out whom it is about."
            ),
        })),
    }
}

fn names(own: &str, spoken: &str) -> Spoken {
    let (own, spoken) = (words(own), words(spoken));
    if own.is_empty() || spoken.is_empty() {
        return Spoken::CannotTell;
    }
    let latin = |words: &[Word]| words.iter().all(|word| word.written.is_ascii());
    if latin(&own) != latin(&spoken) {
        // One of them is in another script.
        return Spoken::CannotTell;
    }
    match spoken.iter().all(|word| own.iter().any(|own| word.is(own))) {
        true => Spoken::Fits,
        false => Spoken::Contradicts,
    }
}

/// A word of a name, in small letters and without accents, in the two ways in which an umlaut is written where there is
/// none: Müller is Mueller, and to those who leave out the dots Muller.
struct Word {
    written: String,
    plain: String,
}

impl Word {
    fn new(word: &str) -> Self {
        Self { written: folded(word, true), plain: folded(word, false) }
    }

    /// Mueller and Muller are not taken for one: neither of them has an umlaut.
    fn is(&self, other: &Self) -> bool {
        let same = |a: &str, b: &str| a == b || is_initial(a, b) || is_initial(b, a);
        same(&self.written, &other.written) || same(&self.plain, &other.plain)
    }
}

fn is_initial(short: &str, long: &str) -> bool {
    short.chars().count() == 1 && long.starts_with(short)
}

/// The words of a name, without titles.
fn words(name: &str) -> Vec<Word> {
    let words = name.split(|letter: char| !letter.is_alphanumeric() && !is_mark(letter)).map(Word::new);
    words.filter(|word| !word.written.is_empty() && !TITLES.contains(&word.written.as_str())).collect()
}

/// An accent that stands behind its letter, as some systems write ü: u and the two dots.
fn is_mark(letter: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&letter)
}

fn folded(word: &str, with_e: bool) -> String {
    let mut out = String::new();
    for letter in word.to_lowercase().chars() {
        match letter {
            'ä' | 'ö' | 'ü' => {
                out.push(match letter {
                    'ä' => 'a',
                    'ö' => 'o',
                    _ => 'u',
                });
                out.extend(with_e.then_some('e'));
            }
            // The dots of an umlaut that is written in two parts.
            '\u{308}' if out.ends_with(['a', 'o', 'u']) => out.extend(with_e.then_some('e')),
            letter if is_mark(letter) => {}
            'ß' => out.push_str("ss"),
            'é' | 'è' | 'ê' | 'ë' => out.push('e'),
            'á' | 'à' | 'â' | 'å' | 'ã' => out.push('a'),
            'í' | 'ì' | 'î' | 'ï' | 'ı' => out.push('i'),
            'ó' | 'ò' | 'ô' | 'õ' | 'ø' => out.push('o'),
            'ú' | 'ù' | 'û' => out.push('u'),
            'ç' | 'ć' | 'č' => out.push('c'),
            'ş' | 'ś' | 'š' => out.push('s'),
            'ğ' => out.push('g'),
            'ñ' | 'ń' => out.push('n'),
            'ł' => out.push('l'),
            'ż' | 'ź' | 'ž' => out.push('z'),
            other => out.push(other),
        }
    }
    out
}

/// An id without what speech adds or drops.
fn plain(id: &str) -> String {
    let id: String = id.chars().filter(|letter| letter.is_alphanumeric()).collect();
    id.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(own: Option<&str>, id: Option<&str>, name: Option<&str>, expected: Spoken) {
        let bound =
            Bound { patient: Some("P-1".into()), patient_name: own.map(str::to_owned), ..Bound::default() };
        assert_eq!(compare(&bound, id, name), expected, "{own:?} {id:?} {name:?}");
    }

    #[test]
    fn who_is_named() {
        let own = Some("Erika Müller");
        for name in ["Erika", "Frau Müller", "Frau Mueller", "ERIKA MÜLLER", "E. Müller", " müller, erika "]
        {
            check(own, None, Some(name), Spoken::Fits);
        }
        for name in ["Muller", "Frau Mu\u{308}ller", "erika mu\u{308}ller"] {
            check(own, None, Some(name), Spoken::Fits);
        }
        for (own, name) in [("Erika Muller", "Frau Müller"), ("Yagmur", "Yağmur"), ("Jo\u{308}rg", "Joerg")]
        {
            check(Some(own), None, Some(name), Spoken::Fits);
        }
        for (own, name) in [("Erika Möller", "Frau Müller"), ("Erika Mueller", "Frau Muller")] {
            check(Some(own), None, Some(name), Spoken::Contradicts);
        }
        for name in ["Otto Müller", "Frau Schmidt", "Erika Meier", "Erik Müller"] {
            check(own, None, Some(name), Spoken::Contradicts);
        }
        check(Some("Erika M."), None, Some("Erika Mustermann"), Spoken::Fits);
        check(Some("Erika M."), None, Some("Erika Schmidt"), Spoken::Contradicts);
        check(own, None, Some("إريكا"), Spoken::CannotTell);
        check(None, None, Some("Otto"), Spoken::CannotTell);
        check(own, None, None, Spoken::Fits);
        check(own, Some(" "), Some(""), Spoken::Fits);
        check(own, Some("p1"), None, Spoken::Fits);
        check(own, Some("P2"), Some("Erika"), Spoken::Contradicts);
        check(None, Some("P2"), None, Spoken::Contradicts);
        let nobody = Bound::default();
        assert_eq!(compare(&nobody, Some("P2"), Some("Otto")), Spoken::Fits, "there is nobody to contradict");
    }
}
