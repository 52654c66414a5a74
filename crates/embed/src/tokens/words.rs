//! Cuts a text into words, letter by letter.

use std::str::Chars;

use super::letters::{Letters, Role};

/// The words of a text, one after the other, in one buffer.
pub(super) struct Words<'a> {
    letters: &'a Letters,
    rest: Chars<'a>,
    chars_max: usize,
    /// What a letter became and has not been taken yet.
    waiting: Vec<(char, Role)>,
    word: String,
    chars: usize,
}

impl<'a> Words<'a> {
    /// Words of more than `chars_max` letters are seen, and not kept.
    pub(super) fn new(letters: &'a Letters, text: &'a str, chars_max: usize) -> Words<'a> {
        Words { letters, rest: text.chars(), chars_max, waiting: Vec::new(), word: String::new(), chars: 0 }
    }

    /// Goes to the next word; false at the end.
    pub(super) fn advance(&mut self) -> bool {
        self.word.clear();
        self.chars = 0;
        loop {
            let Some((letter, role)) = self.next_letter() else { return self.chars > 0 };
            match role {
                Role::Part => self.push(letter),
                Role::Space if self.chars > 0 => return true,
                Role::Space => {}
                Role::Alone if self.chars > 0 => {
                    self.waiting.push((letter, role));
                    return true;
                }
                Role::Alone => {
                    self.push(letter);
                    return true;
                }
            }
        }
    }

    /// The word, unless it is too long.
    pub(super) fn word(&self) -> Option<&str> {
        (self.chars <= self.chars_max).then_some(&self.word)
    }

    fn push(&mut self, letter: char) {
        self.chars += 1;
        if self.chars <= self.chars_max {
            self.word.push(letter);
        }
    }

    fn next_letter(&mut self) -> Option<(char, Role)> {
        while self.waiting.is_empty() {
            let letter = self.rest.next()?;
            self.letters.each(letter, |letter, role| self.waiting.push((letter, role)));
            self.waiting.reverse();
        }
        self.waiting.pop()
    }
}
