//! Against the tokenizers library, whose answers `tests/reference/make.py` wrote down.

use serde::Deserialize;

use super::Tokenizer;

const VOCABULARY: usize = 30_522;
const TOKENS_MAX: usize = 256;
const BLOCK: u32 = 4096;

#[derive(Deserialize)]
struct Reference {
    texts: Vec<Text>,
    letters: Vec<String>,
}

#[derive(Deserialize)]
struct Text {
    text: String,
    tokens: Vec<u32>,
}

fn reference() -> Reference {
    serde_json::from_str(include_str!("../../tests/reference/tokens.json")).unwrap()
}

fn tokenizer() -> Tokenizer {
    Tokenizer::read(&windlass_testkit::model::folder(), VOCABULARY).unwrap()
}

#[test]
fn texts_are_cut_as_elsewhere() {
    let tokenizer = tokenizer();
    let texts = reference().texts;
    assert!(texts.len() > 300);
    for Text { text, tokens } in texts {
        assert_eq!(tokenizer.tokens(&text, TOKENS_MAX), tokens, "{text:?}");
    }
}

/// All 1,112,064 letters that there can be, between an `a` and a `b`.
#[test]
fn every_letter_is_taken_as_elsewhere() {
    let tokenizer = tokenizer();
    for (block, wanted) in (0..).zip(reference().letters) {
        let letters = (block * BLOCK..(block + 1) * BLOCK).filter_map(char::from_u32);
        let found = letters.fold(0xcbf2_9ce4_8422_2325, |digest: u64, letter| {
            let tokens = tokenizer.tokens(&format!("a{letter}b"), TOKENS_MAX);
            tokens
                .iter()
                .flat_map(|token| token.to_le_bytes())
                .fold(digest, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
        });
        assert_eq!(format!("{found:016x}"), wanted, "one of the letters from U+{:04X} on", block * BLOCK);
    }
}

#[test]
fn the_last_token_is_there_however_short_it_must_be() {
    let tokenizer = tokenizer();
    assert_eq!(tokenizer.tokens("one two three", 3), [101, 2028, 102]);
    // One word of many pieces, cut in its middle.
    assert_eq!(tokenizer.tokens("pneumonoultramicroscopicsilicovolcanoconiosis", 5).len(), 5);
}

/// Megabytes of one word, of spaces, of marks, and of special words that never end.
#[test]
fn hostile_texts_cost_little() {
    let tokenizer = tokenizer();
    for (piece, length) in
        [("x", 3), (" ", 2), ("\u{301}", 2), ("[SEP", TOKENS_MAX), ("[SEP]", TOKENS_MAX), ("[", TOKENS_MAX)]
    {
        assert_eq!(tokenizer.tokens(&piece.repeat(1_000_000), TOKENS_MAX).len(), length, "{piece:?}");
    }
}
