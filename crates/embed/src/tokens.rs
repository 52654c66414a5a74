//! From a text to the numbers that a BERT model knows its tokens by.
//!
//! An own reading of `tokenizer.json`, for BERT's kind only: clean, lower and split the text into words, then
//! cut each word into the longest pieces that the vocabulary has. It stops at the last token that is
//! wanted, so a text of any length costs no more memory than a short one.

mod definition;
mod letters;
#[cfg(test)]
mod tests;
mod words;

use std::collections::HashMap;
use std::path::Path;

use crate::error::LoadError;
use letters::Letters;
use words::Words;

/// Cuts texts into tokens.
pub(crate) struct Tokenizer {
    letters: Letters,
    pieces: Pieces,
    /// Words that stand for one token wherever they appear, such as `[SEP]`.
    special: Vec<(String, u32)>,
    first: u32,
    last: u32,
}

/// The vocabulary.
struct Pieces {
    /// Pieces that begin a word.
    begin: HashMap<String, u32>,
    /// Pieces that go on with a word, without their prefix.
    go_on: HashMap<String, u32>,
    /// The longest piece.
    bytes_max: usize,
    unknown: u32,
    /// Longer words are unknown as a whole.
    word_chars_max: usize,
}

impl Tokenizer {
    /// Reads `tokenizer.json`; every token of it must be one of the model's `vocabulary`.
    pub(crate) fn read(folder: &Path, vocabulary: usize) -> Result<Tokenizer, LoadError> {
        definition::read(folder, vocabulary)
    }

    /// The tokens of a text: at most `tokens_max`, with the first and the last that the model expects.
    pub(crate) fn tokens(&self, text: &str, tokens_max: usize) -> Vec<u32> {
        let mut tokens = vec![self.first];
        let most = tokens_max - 1;
        let mut rest = text;
        while tokens.len() < most && !rest.is_empty() {
            let (before, special) = self.next_special(rest);
            self.words_of(&rest[..before], &mut tokens, most);
            let Some((length, token)) = special else { break };
            tokens.push(token);
            rest = &rest[before + length..];
        }
        tokens.truncate(most);
        tokens.push(self.last);
        tokens
    }

    /// Where the next special word begins; its length and token.
    fn next_special(&self, text: &str) -> (usize, Option<(usize, u32)>) {
        let starts = |at: usize| {
            let here = self.special.iter().filter(|(word, _)| text[at..].starts_with(word));
            here.max_by_key(|(word, _)| word.len())
        };
        let heads = |letter| self.special.iter().any(|(word, _)| word.starts_with(letter));
        let found = text
            .char_indices()
            .filter(|(_, letter)| heads(*letter))
            .find_map(|(at, _)| Some((at, starts(at)?)));
        match found {
            Some((at, (word, token))) => (at, Some((word.len(), *token))),
            None => (text.len(), None),
        }
    }

    fn words_of(&self, text: &str, tokens: &mut Vec<u32>, most: usize) {
        let mut words = Words::new(&self.letters, text, self.pieces.word_chars_max);
        while tokens.len() < most && words.advance() {
            match words.word() {
                Some(word) => self.pieces.cut(word, tokens),
                None => tokens.push(self.pieces.unknown),
            }
        }
    }
}

impl Pieces {
    /// The longest piece first, then the longest that goes on from there; or unknown, if that is not possible.
    fn cut(&self, word: &str, tokens: &mut Vec<u32>) {
        let before = tokens.len();
        let mut rest = word;
        let mut known = &self.begin;
        while !rest.is_empty() {
            let Some((length, token)) = self.longest(known, rest) else {
                tokens.truncate(before);
                tokens.push(self.unknown);
                return;
            };
            tokens.push(token);
            rest = &rest[length..];
            known = &self.go_on;
        }
    }

    fn longest(&self, known: &HashMap<String, u32>, word: &str) -> Option<(usize, u32)> {
        let most = word.floor_char_boundary(self.bytes_max);
        let ends = word[..most].char_indices().rev().map(|(at, letter)| at + letter.len_utf8());
        ends.into_iter().find_map(|end| Some((end, *known.get(&word[..end])?)))
    }
}
