//! Tests of the built-in encoder.
#![allow(clippy::unwrap_used)]
#![cfg(feature = "built-in-model")]

use contexture_encoder::Encoder;
use contexture_recall::Embedder as _;
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    text: String,
    ids: Vec<u32>,
    first8: Vec<f32>,
}

fn embed(text: &str) -> Vec<f32> {
    Encoder::built_in().embed(&[text]).unwrap().remove(0)
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn vectors_are_those_of_the_reference() {
    let golden = include_str!("../assets/encoder-256/golden.json");
    let golden: Vec<Golden> = serde_json::from_str(golden).unwrap();
    assert_eq!(golden.len(), 12);
    let encoder = Encoder::built_in();
    let mut furthest = 0.0_f32;
    for Golden { text, ids, first8 } in golden {
        assert_eq!(encoder.token_ids(&text), ids, "{text}");
        let vector = encoder.embed_tokens(&ids).unwrap();
        assert_eq!(vector.len(), 256);
        for (ours, theirs) in vector.iter().zip(&first8) {
            furthest = furthest.max((ours - theirs).abs());
        }
        assert!(furthest < 2e-4, "{text}: {furthest}");
        if ids.len() > 2 {
            assert_eq!(embed(&text), vector, "{text}");
        }
    }
}

/// Another order of additions would fail here. It would make stored vectors
/// differ between machines in their last bits.
#[test]
fn a_vector_has_the_same_bits_everywhere() {
    let vector = embed("The cellar pump starts by itself.");
    let bits: Vec<u32> = vector[..4].iter().map(|x| x.to_bits()).collect();
    assert_eq!(bits, [3195849008, 3168026892, 1026207004, 1033693045]);
}

#[test]
fn meaning_is_found_without_a_shared_word() {
    let query = embed("What is she allergic to?");
    let near = dot(&query, &embed("I can't have dairy."));
    let far = dot(&query, &embed("The parser rejects empty request bodies."));
    assert!(near > far + 0.1, "{near} {far}");
}

#[test]
fn a_text_without_a_known_token_is_a_zero_vector() {
    for text in ["", "  \n", "\u{200b}", "\u{e000}\u{e001}"] {
        assert_eq!(embed(text), vec![0.0; 256], "{text:?}");
    }
}

#[test]
fn a_megabyte_of_text_is_read_to_its_limit() {
    let long = "memory pump ".repeat(100_000);
    assert_eq!(Encoder::built_in().token_ids(&long).len(), 256);
    assert!((dot(&embed(&long), &embed(&long)) - 1.0).abs() < 1e-4);
}

#[test]
fn tokens_that_the_model_does_not_have_are_an_error() {
    let encoder = Encoder::built_in();
    let error = encoder
        .embed_tokens(&[2, 40_000, 3])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("40000") && error.contains("27971"),
        "{error}"
    );
    assert!(encoder.embed_tokens(&[]).is_err());
    assert!(encoder.embed_tokens(&[5; 257]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_has_a_vector_of_length_one_or_zero(text in ".{0,80}") {
        let vector = embed(&text);
        let length = dot(&vector, &vector);
        prop_assert!((length - 1.0).abs() < 1e-4 || length == 0.0, "{}", length);
    }

    #[test]
    fn a_text_has_the_same_vector_alone_and_among_others(
        texts in prop::collection::vec("[a-z ]{0,40}", 1..6),
    ) {
        let all: Vec<&str> = texts.iter().map(String::as_str).collect();
        let vectors = Encoder::built_in().embed(&all).unwrap();
        for (text, vector) in texts.iter().zip(&vectors) {
            prop_assert_eq!(&embed(text), vector);
        }
    }
}
