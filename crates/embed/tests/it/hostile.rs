//! Models that are missing, damaged or made to do harm: an error, and never a panic or a huge allocation.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_embed::{LoadError, Model};

use crate::tiny::{HIDDEN, Tiny, WORDS, load_and_embed, with_header};

const FILES: [&str; 3] = ["config.json", "tokenizer.json", "model.safetensors"];

#[test]
fn the_tiny_model_works() {
    let folder = Tiny::new().write();
    let vectors = load_and_embed(folder.path()).expect("three vectors");
    assert!(vectors.iter().all(|vector| vector.len() == HIDDEN));
    assert_ne!(vectors[0], vectors[2]);
}

#[test]
fn a_missing_file_is_named_with_what_to_put_where() {
    for file in FILES {
        let folder = Tiny::new().write();
        fs::remove_file(folder.path().join(file)).unwrap();
        let error = Model::load(folder.path()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&format!("has no {file}: put {}", FILES[0])), "{text}");
        assert!(text.contains(&folder.path().display().to_string()), "{text}");
        assert_eq!((error.code(), error.is_transient()), ("model_missing", false));
    }
    let error = Model::load("/nowhere/at/all".as_ref()).unwrap_err();
    assert!(matches!(error, LoadError::Missing { file: "config.json", .. }));
}

#[test]
fn a_file_that_is_none_is_refused_without_waiting() {
    for file in FILES {
        let folder = Tiny::new().write();
        let path = folder.path().join(file);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_unusable(folder.path(), "not a file");
        fs::remove_dir(&path).unwrap();
        symlink("/dev/zero", &path).unwrap();
        assert_unusable(folder.path(), "not a file");
        fs::remove_file(&path).unwrap();
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_unusable(folder.path(), "not a file");
    }
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    for file in FILES {
        let folder = Tiny::new().write();
        // As long as three gigabytes, and empty.
        fs::File::create(folder.path().join(file)).unwrap().set_len(3 << 30).unwrap();
        assert_unusable(folder.path(), "is the most that is read");
    }
}

fn assert_unusable(folder: &std::path::Path, why: &str) {
    let error = Model::load(folder).unwrap_err();
    assert!(matches!(error, LoadError::Unusable { .. }), "{error}");
    assert!(error.to_string().contains(why), "{error}");
}

#[test]
fn a_file_cut_off_anywhere_is_an_error() {
    let whole = Tiny::new().safetensors();
    let folder = Tiny::new().write();
    for length in (0..whole.len()).step_by(11).chain([whole.len() - 1]) {
        fs::write(folder.path().join("model.safetensors"), &whole[..length]).unwrap();
        assert!(Model::load(folder.path()).is_err(), "cut off after {length} bytes");
    }
}

#[test]
fn a_config_beyond_its_limits_is_refused() {
    let wrong = [
        ("hidden_size", json!(0)),
        ("hidden_size", json!(7)),
        ("hidden_size", json!(u64::MAX)),
        ("hidden_size", json!(-8)),
        ("hidden_size", json!(4097)),
        ("num_hidden_layers", json!(0)),
        ("num_hidden_layers", json!(2)),
        ("num_hidden_layers", json!(1_000_000_000)),
        ("num_attention_heads", json!(0)),
        ("num_attention_heads", json!(3)),
        ("intermediate_size", json!(13)),
        ("intermediate_size", json!(0)),
        ("vocab_size", json!(0)),
        ("vocab_size", json!(WORDS.len() - 1)),
        ("vocab_size", json!(WORDS.len() + 1)),
        ("vocab_size", json!(4_000_000_000u64)),
        ("max_position_embeddings", json!(2)),
        ("max_position_embeddings", json!(17)),
        ("type_vocab_size", json!(0)),
        ("layer_norm_eps", json!(0.0)),
        ("layer_norm_eps", json!(1e-300)),
        ("layer_norm_eps", json!("small")),
        ("hidden_act", json!("relu")),
        ("model_type", json!("gpt2")),
        ("position_embedding_type", json!("relative_key")),
    ];
    for (field, value) in wrong {
        let mut tiny = Tiny::new();
        tiny.config[field] = value.clone();
        let error = tiny.refusal();
        assert!(matches!(error, LoadError::Unusable { .. }), "{field} = {value}: {error}");
    }
}

#[test]
fn what_sentence_transformers_keeps_beside_a_model_is_heeded() {
    let folder = Tiny::new().write();
    let beside = folder.path().join("sentence_bert_config.json");
    assert_eq!(Model::load(folder.path()).unwrap().tokens_max(), 16);
    fs::write(&beside, r#"{"max_seq_length": 5}"#).unwrap();
    assert_eq!(Model::load(folder.path()).unwrap().tokens_max(), 5);
    for wrong in ["{\"max_seq_length\": 17}", "{\"max_seq_length\": 2}", "3", ""] {
        fs::write(&beside, wrong).unwrap();
        assert!(Model::load(folder.path()).is_err(), "{wrong}");
    }
    fs::remove_file(&beside).unwrap();
    fs::create_dir(folder.path().join("1_Pooling")).unwrap();
    fs::write(folder.path().join("1_Pooling/config.json"), r#"{"pooling_mode_mean_tokens": false}"#).unwrap();
    assert_unusable(folder.path(), "the mean of its tokens");
}

#[test]
fn a_tokenizer_of_another_kind_or_model_is_refused() {
    let wrong: [(&str, Value); 9] = [
        ("/model/type", json!("BPE")),
        ("/model/unk_token", json!("<unk>")),
        ("/model/continuing_subword_prefix", json!("")),
        ("/model/max_input_chars_per_word", json!(u64::MAX)),
        ("/model/vocab", json!({"[UNK]": 1, "beyond": WORDS.len()})),
        ("/model/vocab", json!({})),
        ("/normalizer/type", json!("NFKC")),
        ("/pre_tokenizer/type", json!("ByteLevel")),
        ("/post_processor/sep", json!(["[SEP]", WORDS.len()])),
    ];
    for (field, value) in wrong {
        let mut tiny = Tiny::new();
        *tiny.tokenizer.pointer_mut(field).unwrap() = value.clone();
        let error = tiny.refusal();
        assert!(matches!(error, LoadError::Unusable { .. }), "{field} = {value}: {error}");
    }
}

#[test]
fn a_header_that_lies_is_refused() {
    let name = "embeddings.word_embeddings.weight";
    let wrong = [
        ("dtype", json!("F16")),
        ("shape", json!([WORDS.len() * HIDDEN])),
        ("shape", json!([HIDDEN, WORDS.len()])),
        ("shape", json!([u64::MAX, 8])),
        ("data_offsets", json!([0, 0])),
        ("data_offsets", json!([288, 0])),
        ("data_offsets", json!([u64::MAX - 287, 0])),
        ("data_offsets", json!([1u64 << 40, (1u64 << 40) + 288])),
        ("data_offsets", json!([0, 292])),
    ];
    let tiny = Tiny::new();
    let whole = tiny.safetensors();
    let length = u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    let folder = tiny.write();
    for (field, value) in wrong {
        let mut header: Value = serde_json::from_slice(&whole[8..8 + length]).unwrap();
        header[name][field] = value.clone();
        fs::write(
            folder.path().join("model.safetensors"),
            with_header(&header.to_string(), &whole[8 + length..]),
        )
        .unwrap();
        let error = Model::load(folder.path()).unwrap_err();
        assert!(error.to_string().contains(name), "{field} = {value}: {error}");
    }
    for length in [u64::MAX, 1 << 40, 1 << 20] {
        let lie = [&length.to_le_bytes(), &whole[8..]].concat();
        fs::write(folder.path().join("model.safetensors"), lie).unwrap();
        assert_unusable(folder.path(), "header");
    }
    let deep = with_header(&"[".repeat(100_000), &[]);
    fs::write(folder.path().join("model.safetensors"), deep).unwrap();
    assert_unusable(folder.path(), "header");
}

#[test]
fn numbers_that_are_none_are_refused() {
    for bad in [f32::NAN, f32::INFINITY] {
        let mut tiny = Tiny::new();
        tiny.tensors.last_mut().unwrap().2[3] = bad;
        assert!(tiny.refusal().to_string().contains("numbers that are none"));
    }
    // Numbers that are, and whose products are not.
    let mut tiny = Tiny::new();
    tiny.tensors.iter_mut().for_each(|(_, _, numbers)| numbers.iter_mut().for_each(|number| *number *= 1e38));
    let error = Model::load(tiny.write().path()).unwrap().embed(&["toy", "toys"]).unwrap_err();
    assert_eq!((error.code(), error.is_transient()), ("not_finite", false));
}

/// What is wrong with a file may stand in it a million times; the message stays short.
#[test]
fn a_message_does_not_repeat_the_file() {
    let mut tiny = Tiny::new();
    tiny.config["hidden_act"] = json!("canary".repeat(10_000));
    let text = tiny.refusal().to_string();
    assert!(!text.contains("canary") && text.len() < 500, "{text}");
    tiny = Tiny::new();
    tiny.config["hidden_size"] = json!("canary".repeat(10_000));
    let text = tiny.refusal().to_string();
    assert!(!text.contains("canary") && text.len() < 500, "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Bytes changed anywhere: an error, or vectors, or no vectors.
    #[test]
    fn damage_never_panics(file in 0..3usize, changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..4)) {
        let folder = Tiny::new().write();
        let path = folder.path().join(FILES[file]);
        let mut bytes = fs::read(&path).unwrap();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        fs::write(&path, bytes).unwrap();
        load_and_embed(folder.path());
    }
}
