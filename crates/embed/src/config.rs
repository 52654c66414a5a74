//! What `config.json` says about the model, held against limits before anybody computes with it.

use std::path::Path;

use serde::Deserialize;

use crate::error::LoadError;
use crate::file::ModelFile;

const CONFIG_BYTES_MAX: u64 = 1 << 20;
/// What sentence-transformers takes for the MiniLM models.
const TOKENS_MAX_DEFAULT: usize = 256;
/// `[CLS]`, `[SEP]` and something between them.
const TOKENS_MIN: usize = 3;

/// The shape of a BERT model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    pub(crate) hidden: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) intermediate: usize,
    pub(crate) vocabulary: usize,
    pub(crate) positions: usize,
    pub(crate) types: usize,
    pub(crate) epsilon: f32,
    /// The longest text that the model is given, in tokens.
    pub(crate) tokens_max: usize,
}

#[derive(Deserialize)]
struct ConfigJson {
    model_type: String,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    vocab_size: usize,
    max_position_embeddings: usize,
    type_vocab_size: usize,
    layer_norm_eps: f64,
    hidden_act: String,
    #[serde(default)]
    position_embedding_type: Option<String>,
}

/// What sentence-transformers keeps beside a model.
#[derive(Deserialize)]
struct SentenceJson {
    #[serde(default)]
    max_seq_length: Option<usize>,
}

/// How the vectors of the tokens become one; older and newer programs write it differently.
#[derive(Deserialize)]
struct PoolingJson {
    #[serde(default)]
    pooling_mode_mean_tokens: Option<bool>,
    #[serde(default)]
    pooling_mode: Option<String>,
}

impl Config {
    /// Reads `config.json`, and what sentence-transformers wrote beside it, if it did.
    pub(crate) fn read(folder: &Path) -> Result<Config, LoadError> {
        let file = ModelFile::open(folder, "config.json", CONFIG_BYTES_MAX)?;
        let (json, path) = file.json::<ConfigJson>()?;
        let unusable = |reason| LoadError::Unusable { path: path.clone(), reason };
        let mut config = Config::check(json).map_err(unusable)?;
        if let Some(file) = ModelFile::open_optional(folder, "sentence_bert_config.json", CONFIG_BYTES_MAX)? {
            let (json, path) = file.json::<SentenceJson>()?;
            let wanted = json.max_seq_length.unwrap_or(config.tokens_max);
            if wanted < TOKENS_MIN || wanted > config.positions {
                let reason = format!(
                    "max_seq_length is {wanted}, and the model has positions for {TOKENS_MIN} to {}",
                    config.positions
                );
                return Err(LoadError::Unusable { path, reason });
            }
            config.tokens_max = wanted;
        }
        if let Some(file) = ModelFile::open_optional(folder, "1_Pooling/config.json", CONFIG_BYTES_MAX)? {
            let (json, path) = file.json::<PoolingJson>()?;
            if json.pooling_mode_mean_tokens == Some(false)
                || json.pooling_mode.is_some_and(|mode| mode != "mean")
            {
                let reason = "the model was not trained for the mean of its tokens".to_owned();
                return Err(LoadError::Unusable { path, reason });
            }
        }
        Ok(config)
    }

    fn check(json: ConfigJson) -> Result<Config, String> {
        if json.model_type != "bert" {
            return Err("model_type is not \"bert\"".to_owned());
        }
        if json.hidden_act != "gelu" {
            return Err("hidden_act is not \"gelu\"".to_owned());
        }
        if json.position_embedding_type.is_some_and(|kind| kind != "absolute") {
            return Err("position_embedding_type is not \"absolute\"".to_owned());
        }
        let epsilon = json.layer_norm_eps as f32;
        if !(epsilon > 0.0 && epsilon < 1.0) {
            return Err("layer_norm_eps is not between 0 and 1".to_owned());
        }
        let config = Config {
            hidden: within("hidden_size", json.hidden_size, 1, 4096)?,
            layers: within("num_hidden_layers", json.num_hidden_layers, 1, 64)?,
            heads: within("num_attention_heads", json.num_attention_heads, 1, 256)?,
            intermediate: within("intermediate_size", json.intermediate_size, 1, 16_384)?,
            vocabulary: within("vocab_size", json.vocab_size, 1, 1 << 20)?,
            positions: within("max_position_embeddings", json.max_position_embeddings, TOKENS_MIN, 8192)?,
            types: within("type_vocab_size", json.type_vocab_size, 1, 16)?,
            epsilon,
            tokens_max: TOKENS_MAX_DEFAULT.min(json.max_position_embeddings),
        };
        if !config.hidden.is_multiple_of(config.heads) {
            return Err("hidden_size is no multiple of num_attention_heads".to_owned());
        }
        Ok(config)
    }
}

fn within(name: &str, value: usize, least: usize, most: usize) -> Result<usize, String> {
    if (least..=most).contains(&value) {
        Ok(value)
    } else {
        Err(format!("{name} is {value}, and only {least} to {most} is supported"))
    }
}
