//! A model of a few hundred numbers, complete, to be damaged.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_embed::{LoadError, Model};

pub const HIDDEN: usize = 8;
pub const WIDE: usize = 12;
pub const WORDS: [&str; 9] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "toy", "##s", "recall", "of", "!"];
pub const POSITIONS: usize = 16;

/// The three files, before they are written.
pub struct Tiny {
    pub config: Value,
    pub tokenizer: Value,
    /// Names, shapes and numbers.
    pub tensors: Vec<(String, Vec<usize>, Vec<f32>)>,
}

impl Tiny {
    pub fn new() -> Tiny {
        Tiny { config: config(), tokenizer: tokenizer(), tensors: tensors() }
    }

    pub fn safetensors(&self) -> Vec<u8> {
        let mut header = json!({"__metadata__": {"format": "pt"}});
        let mut data = Vec::new();
        for (name, shape, numbers) in &self.tensors {
            let from = data.len();
            numbers.iter().for_each(|number| data.extend_from_slice(&number.to_le_bytes()));
            header[name] = json!({"dtype": "F32", "shape": shape, "data_offsets": [from, data.len()]});
        }
        with_header(&header.to_string(), &data)
    }

    pub fn write(&self) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.json"), self.config.to_string()).unwrap();
        fs::write(folder.path().join("tokenizer.json"), self.tokenizer.to_string()).unwrap();
        fs::write(folder.path().join("model.safetensors"), self.safetensors()).unwrap();
        folder
    }

    /// Why this is not loaded.
    pub fn refusal(&self) -> LoadError {
        Model::load(self.write().path()).expect_err("this model is loaded")
    }
}

pub fn with_header(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

/// Loads, and embeds if that went well. Neither may panic.
pub fn load_and_embed(folder: &Path) -> Option<Vec<Vec<f32>>> {
    Model::load(folder).ok()?.embed(&["toys!", "", "recall of a toy"]).ok()
}

fn config() -> Value {
    json!({
        "model_type": "bert", "hidden_size": HIDDEN, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": WIDE, "vocab_size": WORDS.len(), "max_position_embeddings": POSITIONS,
        "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu",
    })
}

fn tokenizer() -> Value {
    let mut vocab = json!({});
    for (id, word) in WORDS.iter().enumerate() {
        vocab[word] = json!(id);
    }
    json!({
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 3]},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocab},
    })
}

fn tensors() -> Vec<(String, Vec<usize>, Vec<f32>)> {
    let mut shapes = vec![
        ("embeddings.word_embeddings.weight".to_owned(), vec![WORDS.len(), HIDDEN]),
        ("embeddings.position_embeddings.weight".to_owned(), vec![POSITIONS, HIDDEN]),
        ("embeddings.token_type_embeddings.weight".to_owned(), vec![2, HIDDEN]),
    ];
    let mut linear = |name: &str, to: usize, from: Option<usize>| {
        shapes.push((format!("{name}.weight"), std::iter::once(to).chain(from).collect()));
        shapes.push((format!("{name}.bias"), vec![to]));
    };
    linear("embeddings.LayerNorm", HIDDEN, None);
    for part in ["self.query", "self.key", "self.value", "output.dense"] {
        linear(&format!("encoder.layer.0.attention.{part}"), HIDDEN, Some(HIDDEN));
    }
    linear("encoder.layer.0.attention.output.LayerNorm", HIDDEN, None);
    linear("encoder.layer.0.intermediate.dense", WIDE, Some(HIDDEN));
    linear("encoder.layer.0.output.dense", HIDDEN, Some(WIDE));
    linear("encoder.layer.0.output.LayerNorm", HIDDEN, None);
    let fill = |(name, shape): (String, Vec<usize>)| {
        let count = shape.iter().product::<usize>();
        let numbers = (0..count).map(|at| ((at * 7 + name.len()) % 11) as f32 / 7.0 - 0.6).collect();
        (name, shape, numbers)
    };
    shapes.into_iter().map(fill).collect()
}
