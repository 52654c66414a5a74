//! What BERT's normaliser makes of a letter.
//!
//! The kinds of letters are those of `unicode_categories`, which is old, on purpose: it is what the tokenizer
//! asks that models are trained and published with, so every letter comes out as it does there. Newer tables
//! differ on 693 of the 1,112,064.

use unicode_categories::UnicodeCategories;
use unicode_normalization::char::decompose_canonical;

/// Which of its parts the normaliser of a model has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Letters {
    /// Drops control characters and makes all white space a space.
    pub(super) clean: bool,
    /// Makes each Chinese character a word.
    pub(super) chinese: bool,
    /// Drops accents.
    pub(super) strip_accents: bool,
    pub(super) lower: bool,
}

/// What a letter does to the word that it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Belongs to it.
    Part,
    /// Ends it.
    Space,
    /// Ends it, and is a word of its own.
    Alone,
}

impl Letters {
    /// Gives the letters that come out of one letter, each with its role.
    pub(super) fn each(&self, letter: char, mut give: impl FnMut(char, Role)) {
        if letter.is_ascii_alphanumeric() {
            return give(if self.lower { letter.to_ascii_lowercase() } else { letter }, Role::Part);
        }
        if self.clean && is_dropped(letter) {
            return;
        }
        let chinese = self.chinese && is_chinese(letter);
        if chinese {
            give(' ', Role::Space);
        }
        // Marks keep no order among themselves here, because those that have one are dropped or unknown.
        if self.strip_accents {
            decompose_canonical(letter, |part| {
                if !part.is_mark_nonspacing() {
                    self.lowered(part, &mut give);
                }
            });
        } else {
            self.lowered(letter, &mut give);
        }
        if chinese {
            give(' ', Role::Space);
        }
    }

    fn lowered(&self, letter: char, give: &mut impl FnMut(char, Role)) {
        if self.lower {
            letter.to_lowercase().for_each(|lower| give(lower, role(lower)));
        } else {
            give(letter, role(letter));
        }
    }
}

fn role(letter: char) -> Role {
    if letter.is_whitespace() {
        Role::Space
    } else if letter.is_ascii_punctuation() || letter.is_punctuation() {
        Role::Alone
    } else {
        Role::Part
    }
}

/// Control characters are dropped, except for those that are white space to everybody.
fn is_dropped(letter: char) -> bool {
    match letter {
        '\t' | '\n' | '\r' => false,
        '\0' | '\u{fffd}' => true,
        _ => letter.is_other(),
    }
}

/// The blocks that BERT calls Chinese. Kana and Hangul are not among them.
fn is_chinese(letter: char) -> bool {
    matches!(
        letter,
        '\u{4e00}'..='\u{9fff}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{20000}'..='\u{2a6df}'
            | '\u{2a700}'..='\u{2b73f}'
            | '\u{2b740}'..='\u{2b81f}'
            | '\u{2b920}'..='\u{2ceaf}'
            | '\u{f900}'..='\u{faff}'
            | '\u{2f800}'..='\u{2fa1f}'
    )
}
