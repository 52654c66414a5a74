//! Reads `tokenizer.json`.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;

use super::letters::Letters;
use super::{Pieces, Tokenizer};
use crate::error::LoadError;
use crate::file::ModelFile;

/// The largest vocabularies of BERT models take a quarter of this.
const TOKENIZER_BYTES_MAX: u64 = 16 << 20;
const WORD_CHARS_MAX: usize = 1000;
const SPECIAL_MAX: usize = 64;

#[derive(Deserialize)]
struct TokenizerJson {
    #[serde(default)]
    added_tokens: Vec<Added>,
    normalizer: Normalizer,
    pre_tokenizer: Kind,
    post_processor: PostProcessor,
    model: WordPiece,
}

#[derive(Deserialize)]
struct Kind {
    r#type: String,
}

#[derive(Deserialize)]
struct Added {
    id: u32,
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    normalized: bool,
}

#[derive(Deserialize)]
struct Normalizer {
    r#type: String,
    clean_text: bool,
    handle_chinese_chars: bool,
    strip_accents: Option<bool>,
    lowercase: bool,
}

/// What is put around a text. Both kinds say the same of a BERT model.
#[derive(Deserialize)]
#[serde(tag = "type")]
enum PostProcessor {
    BertProcessing { cls: (String, u32), sep: (String, u32) },
    TemplateProcessing { single: Vec<Part>, special_tokens: HashMap<String, Special> },
}

#[derive(Deserialize)]
enum Part {
    SpecialToken { id: String },
    Sequence {},
}

#[derive(Deserialize)]
struct Special {
    ids: Vec<u32>,
}

#[derive(Deserialize)]
struct WordPiece {
    /// Older files leave it out.
    #[serde(default)]
    r#type: Option<String>,
    unk_token: String,
    continuing_subword_prefix: String,
    max_input_chars_per_word: usize,
    vocab: HashMap<String, u32>,
}

pub(super) fn read(folder: &Path, vocabulary: usize) -> Result<Tokenizer, LoadError> {
    let (json, path) =
        ModelFile::open(folder, "tokenizer.json", TOKENIZER_BYTES_MAX)?.json::<TokenizerJson>()?;
    build(json, vocabulary).map_err(|reason| LoadError::Unusable { path, reason })
}

fn build(json: TokenizerJson, vocabulary: usize) -> Result<Tokenizer, String> {
    let TokenizerJson { added_tokens, normalizer, pre_tokenizer, post_processor, model } = json;
    let kinds = [
        (normalizer.r#type.as_str(), "BertNormalizer"),
        (pre_tokenizer.r#type.as_str(), "BertPreTokenizer"),
        (model.r#type.as_deref().unwrap_or("WordPiece"), "WordPiece"),
    ];
    if let Some((_, wanted)) = kinds.iter().find(|(found, wanted)| found != wanted) {
        return Err(format!("it is not the tokenizer of a BERT model: it has no {wanted}"));
    }
    let (first, last) = ends(&post_processor)?;
    let special = added_tokens.into_iter().map(special).collect::<Result<Vec<_>, _>>()?;
    if special.len() > SPECIAL_MAX {
        return Err(format!("it has more than {SPECIAL_MAX} added tokens"));
    }
    let ids = model.vocab.values().chain(special.iter().map(|(_, id)| id)).chain([&first, &last]);
    if ids.into_iter().any(|id| *id as usize >= vocabulary) {
        return Err(format!("it has tokens beyond the {vocabulary} that config.json speaks of"));
    }
    let letters = Letters {
        clean: normalizer.clean_text,
        chinese: normalizer.handle_chinese_chars,
        strip_accents: normalizer.strip_accents.unwrap_or(normalizer.lowercase),
        lower: normalizer.lowercase,
    };
    Ok(Tokenizer { letters, pieces: pieces(model)?, special, first, last })
}

/// The tokens before and after every text.
fn ends(processor: &PostProcessor) -> Result<(u32, u32), String> {
    match processor {
        PostProcessor::BertProcessing { cls: (_, first), sep: (_, last) } => Ok((*first, *last)),
        PostProcessor::TemplateProcessing { single, special_tokens } => {
            let [Part::SpecialToken { id: first }, Part::Sequence {}, Part::SpecialToken { id: last }] =
                &single[..]
            else {
                return Err("its template is not one token, the text, one token".to_owned());
            };
            let id = |name: &String| match special_tokens.get(name).map(|special| &special.ids[..]) {
                Some([id]) => Ok(*id),
                _ => Err("its template speaks of a token that it does not have".to_owned()),
            };
            Ok((id(first)?, id(last)?))
        }
    }
}

fn special(added: Added) -> Result<(String, u32), String> {
    let Added { id, content, single_word, lstrip, rstrip, normalized } = added;
    if content.is_empty() || single_word || lstrip || rstrip || normalized {
        return Err(format!("its added token {id} is of a kind that is not supported"));
    }
    Ok((content, id))
}

fn pieces(model: WordPiece) -> Result<Pieces, String> {
    let WordPiece {
        r#type: _,
        unk_token,
        continuing_subword_prefix: prefix,
        max_input_chars_per_word,
        vocab,
    } = model;
    if prefix.is_empty() || max_input_chars_per_word > WORD_CHARS_MAX {
        return Err(format!("pieces need a prefix, and words an end within {WORD_CHARS_MAX} letters"));
    }
    let unknown = *vocab.get(&unk_token).ok_or("its vocabulary has no token for what is unknown")?;
    let bytes_max = vocab.keys().map(String::len).max().unwrap_or(0);
    let go_on =
        vocab.iter().filter_map(|(piece, id)| Some((piece.strip_prefix(&prefix)?.to_owned(), *id))).collect();
    Ok(Pieces { begin: vocab, go_on, bytes_max, unknown, word_chars_max: max_input_chars_per_word })
}
