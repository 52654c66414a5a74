//! The real model, against vectors and rankings of sentence-transformers (`tests/reference/make.py`).

use std::num::NonZero;

use serde::Deserialize;
use windlass_embed::Model;

#[derive(Deserialize)]
struct Reference {
    texts: Vec<Text>,
    articles: Vec<String>,
    rankings: Vec<Ranking>,
}

#[derive(Deserialize)]
struct Text {
    text: String,
    vector: Vec<f32>,
}

#[derive(Deserialize)]
struct Ranking {
    keyword: String,
    order: Vec<usize>,
    scores: Vec<f32>,
}

fn reference() -> Reference {
    serde_json::from_str(include_str!("../reference/vectors.json")).unwrap()
}

fn model() -> Model {
    Model::load(&windlass_testkit::model::folder()).unwrap()
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn farthest(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn vectors_are_those_of_sentence_transformers() {
    let model = model();
    let texts = reference().texts;
    assert!(texts.len() >= 30);
    let asked: Vec<&str> = texts.iter().map(|text| text.text.as_str()).collect();
    let found = model.embed(&asked).unwrap();
    assert_eq!((model.dims(), model.tokens_max()), (384, 256));
    for (Text { text, vector }, found) in texts.iter().zip(&found) {
        let start: String = text.chars().take(40).collect();
        assert!(farthest(vector, found) < 1e-5, "{start:?} is off by {}", farthest(vector, found));
        assert!(dot(vector, found) > 0.99999, "{start:?}");
        assert!((dot(found, found) - 1.0).abs() < 1e-5, "{start:?} has not the length one");
    }
}

#[test]
fn rankings_are_those_of_sentence_transformers() {
    let model = model();
    let Reference { articles, rankings, .. } = reference();
    let articles: Vec<&str> = articles.iter().map(String::as_str).collect();
    let articles = model.embed(&articles).unwrap();
    for Ranking { keyword, order, scores } in rankings {
        let vector = model.embed(&[&keyword]).unwrap().remove(0);
        let found: Vec<f32> = articles.iter().map(|article| dot(article, &vector)).collect();
        assert!(farthest(&found, &scores) < 1e-5, "{keyword}");
        let mut ranking: Vec<usize> = (0..found.len()).collect();
        ranking.sort_by(|a, b| found[*b].total_cmp(&found[*a]));
        assert_eq!(ranking, order, "{keyword}");
    }
}

/// A text's vector is its own: neither its neighbours nor the number of threads matter.
#[test]
fn company_changes_nothing() {
    let texts = reference().texts;
    let asked: Vec<&str> = texts.iter().map(|text| text.text.as_str()).collect();
    let many: Vec<&str> = asked.iter().copied().cycle().take(3 * asked.len()).collect();
    let one = model().with_threads(NonZero::new(1).unwrap());
    let together = model().with_threads(NonZero::new(3).unwrap()).embed(&many).unwrap();
    for (at, text) in asked.iter().enumerate() {
        let alone = one.embed(&[text]).unwrap().remove(0);
        for round in 0..3 {
            assert!(farthest(&alone, &together[round * asked.len() + at]) < 1e-6);
        }
    }
}

#[test]
fn no_texts_are_no_vectors() {
    assert_eq!(model().embed(&[]).unwrap(), Vec::<Vec<f32>>::new());
}
