//! Static models: the built-in one, and folders of others.
#![allow(clippy::unwrap_used)]
#![cfg(feature = "built-in-model")]

use std::path::Path;

use contexture_recall::embed::{EmbedError, Embedder, StaticModel, check};
use contexture_recall::vector::Vector;
use proptest::prelude::*;
use serde_json::{Value, json};

const ASSETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/static-256");

fn built_in(text: &str) -> Vec<f32> {
    StaticModel::built_in().embed(&[text]).unwrap().remove(0)
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn the_built_in_models_vectors_do_not_change() {
    let golden = std::fs::read(Path::new(ASSETS).join("golden.json")).unwrap();
    let golden: Vec<Value> = serde_json::from_slice(&golden).unwrap();
    assert_eq!(golden.len(), 4);
    for entry in golden {
        let vector = built_in(entry["text"].as_str().unwrap());
        assert_eq!(vector.len(), 256);
        for (got, expected) in vector.iter().zip(entry["first8"].as_array().unwrap()) {
            let expected = expected.as_f64().unwrap();
            assert!(
                (f64::from(*got) - expected).abs() <= 6e-6,
                "{got} {expected}"
            );
        }
    }
}

#[test]
fn similar_texts_have_similar_vectors() {
    let query = built_in("Where does Ana live now?");
    let near = dot(&query, &built_in("Ana moved to an apartment in Berlin."));
    let far = dot(
        &query,
        &built_in("The parser rejects empty request bodies."),
    );
    assert!(near > far + 0.1, "{near} {far}");
}

#[test]
fn the_folder_of_the_built_in_model_is_the_built_in_model() {
    let folder = StaticModel::load(Path::new(ASSETS)).unwrap();
    assert_eq!(folder.name(), StaticModel::built_in().name());
    let text = "Why does parseHttpRequest fail?";
    assert_eq!(folder.embed(&[text]).unwrap()[0], built_in(text));
}

#[test]
fn unknown_words_give_a_zero_vector() {
    assert!(built_in("").iter().all(|x| *x == 0.0));
    assert!(built_in(&"z".repeat(1_000_000)).iter().all(|x| *x == 0.0));
    assert!(StaticModel::built_in().embed(&[]).unwrap().is_empty());
}

#[test]
fn only_the_first_512_tokens_count() {
    let long = "lake ".repeat(512);
    assert_eq!(built_in(&long), built_in(&format!("{long} berlin")));
    assert_ne!(built_in("lake"), built_in("lake berlin"));
}

/// Writes a model of four tokens and two dimensions.
struct Folder {
    dir: tempfile::TempDir,
}

impl Folder {
    fn new() -> Self {
        let folder = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        folder.write("config.json", b"{\"normalize\": true}");
        folder.tokenizer("WordPiece");
        folder.tensors(&[(
            "embeddings",
            "F32",
            &[4, 2],
            floats(&[0., 0., 9., 9., 3., 0., 0., 4.]),
        )]);
        folder
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.dir.path().join(name), bytes).unwrap();
    }

    fn tokenizer(&self, kind: &str) {
        let json = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
            "normalizer": {"type": "BertNormalizer", "clean_text": true,
                "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": null, "decoder": null,
            "model": {"type": kind, "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 100,
                "vocab": {"[PAD]": 0, "[UNK]": 1, "sun": 2, "moon": 3}},
        });
        self.write("tokenizer.json", json.to_string().as_bytes());
    }

    fn tensors(&self, tensors: &[(&str, &str, &[usize], Vec<u8>)]) {
        let mut header = serde_json::Map::new();
        let mut data: Vec<u8> = Vec::new();
        for (name, kind, shape, bytes) in tensors {
            let start = data.len();
            data.extend(bytes);
            let described =
                json!({"dtype": kind, "shape": shape, "data_offsets": [start, data.len()]});
            header.insert((*name).to_owned(), described);
        }
        let header = Value::Object(header).to_string();
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.bytes());
        file.extend(data);
        self.write("model.safetensors", &file);
    }

    #[track_caller]
    fn check(&self, text: &str, expected: [f32; 2]) {
        let model = StaticModel::load(self.dir.path()).unwrap();
        assert_eq!(model.dimensions(), 2);
        let vector = model.embed(&[text]).unwrap().remove(0);
        assert!(
            vector
                .iter()
                .zip(expected)
                .all(|(a, b)| (a - b).abs() < 1e-6),
            "{text}: {vector:?} {expected:?}"
        );
    }

    /// Returns the error without the path of the folder.
    fn complaint(&self) -> String {
        let error = StaticModel::load(self.dir.path()).unwrap_err();
        let place = format!("{}/", self.dir.path().display());
        error.to_string().replace(&place, "")
    }
}

fn floats(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

#[test]
fn another_model_can_be_loaded() {
    let folder = Folder::new();
    folder.check("Sun", [1.0, 0.0]);
    folder.check("moon, sun", [0.6, 0.8]);
    folder.check("what?", [0.0, 0.0]);
    // The model does not split camel case: `sunMoon` is one unknown word.
    folder.check("sunMoon moon", [0.0, 1.0]);
}

#[test]
fn camel_case_is_split_when_the_configuration_says_so() {
    let folder = Folder::new();
    folder.write("config.json", b"{\"split_camel_case\": true}");
    folder.check("sunMoon", [0.6, 0.8]);
}

#[test]
fn all_tensor_types_weights_and_mappings_are_read() {
    let folder = Folder::new();
    let halves = [0_u16, 0, 0, 0, 0x4200, 0, 0, 0x4400];
    let halves = halves.iter().flat_map(|x| x.to_le_bytes()).collect();
    folder.tensors(&[("embeddings", "F16", &[4, 2], halves)]);
    folder.check("moon, sun", [0.6, 0.8]);

    folder.tensors(&[
        ("weights", "F32", &[4], floats(&[1.0, 1.0, 3.0, 2.0])),
        ("embeddings", "I8", &[4, 2], vec![0, 0, 0, 0, 1, 0, 0, 254]),
    ]);
    folder.check("moon, sun", [0.6, -0.8]);

    let mapping = [0_i64, 0, 1, 1]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    folder.tensors(&[
        ("embeddings", "F32", &[2, 2], floats(&[0.0, 0.0, 3.0, 4.0])),
        ("mapping", "I64", &[4], mapping),
        ("weights", "F32", &[4], floats(&[1.0, 1.0, 3.0, 2.0])),
    ]);
    folder.check("moon, sun", [0.6, 0.8]);
}

#[test]
fn a_token_limit_in_the_configuration_is_applied() {
    let folder = Folder::new();
    folder.write("config.json", b"{\"max_length\": 2}");
    // The limit counts two tokens, one of them unknown, like the Python
    // library.
    folder.check("x sun moon", [1.0, 0.0]);
    folder.write("config.json", b"{\"max_length\": null}");
    folder.check(&format!("{} moon", "x ".repeat(5000)), [0.0, 1.0]);
}

#[test]
fn errors_of_a_model_folder_are_reported() {
    let folder = Folder::new();
    let check = |expected: &str| assert_eq!(folder.complaint(), expected);

    let tensors: [(&str, &str, &[usize], Vec<u8>); 1] =
        [("embeddings", "F32", &[3, 2], floats(&[0.0; 6]))];
    folder.tensors(&tensors);
    check("model.safetensors: `embeddings` has 3 rows, but tokenizer.json has 4 tokens");
    folder.tensors(&[("embeddings", "F32", &[4, 2], floats(&[f32::NAN; 8]))]);
    check("model.safetensors: `embeddings` has NaN as component 0");
    folder.tensors(&[("embeddings", "F32", &[8], floats(&[0.0; 8]))]);
    check("model.safetensors: `embeddings` must have two sides, not the shape [8]");
    folder.tensors(&[("embeddings", "F32", &[9, 2], floats(&[0.0; 8]))]);
    check(
        "model.safetensors: gives the tensor `embeddings` 32 bytes, \
         which do not fit its shape [9, 2] of F32",
    );
    folder.tensors(&[]);
    check("model.safetensors: has no tensor `embeddings`");
    folder.write("model.safetensors", b"abc");
    check("model.safetensors: is too short to have a header");
    folder.write("model.safetensors", &[255; 100]);
    check("model.safetensors: says that its header has 18446744073709551615 bytes, but 92 follow");
    if cfg!(not(feature = "huggingface")) {
        folder.tokenizer("WordLevel");
        check(
            "tokenizer.json: is no plain WordPiece tokenizer (WordLevel); this program was built \
             without the feature `huggingface`, which reads others",
        );
    }
    folder.write("tokenizer.json", b"{");
    assert!(
        folder
            .complaint()
            .starts_with("tokenizer.json: is no tokenizer: EOF")
    );
    folder.write("config.json", b"[");
    assert!(
        folder
            .complaint()
            .starts_with("config.json: is no configuration: ")
    );
    std::fs::remove_file(folder.dir.path().join("config.json")).unwrap();
    assert!(
        folder
            .complaint()
            .starts_with("config.json: cannot be read: ")
    );
}

#[cfg(feature = "huggingface")]
#[test]
fn other_tokenizers_are_read() {
    let folder = Folder::new();
    folder.tokenizer("WordLevel");
    folder.check("moon, sun", [0.6, 0.8]);
}

#[test]
fn vectors_of_an_embedder_are_checked() {
    let said = |vectors: &[Vec<f32>], texts, dimensions| {
        check(vectors, texts, dimensions).map_err(|error| error.to_string())
    };
    assert_eq!(said(&[vec![0.0, 1.0]], 1, 2), Ok(()));
    assert_eq!(
        said(&[vec![0.0, 1.0]], 2, 2).unwrap_err(),
        "the embedder gave 1 vectors for 2 texts"
    );
    assert_eq!(
        said(&[vec![0.0, 1.0], vec![1.0]], 2, 2).unwrap_err(),
        "vector 1 has 1 components, but the model has 2"
    );
    for bad in [f32::NAN, f32::INFINITY] {
        assert_eq!(
            said(&[vec![0.0, bad]], 1, 2).unwrap_err(),
            "vector 0 has a component that is no number"
        );
    }
    let refused = |status| EmbedError::Refused {
        status,
        message: String::new(),
    };
    assert!(refused(429).is_temporary() && !refused(401).is_temporary());
}

#[test]
fn damaged_vectors_are_errors() {
    let bytes = Vector::quantise(&[0.6, 0.8]).to_bytes();
    assert!(Vector::from_bytes(&bytes, 2).is_some());
    assert_eq!(Vector::from_bytes(&bytes, 3), None);
    assert_eq!(Vector::from_bytes(&bytes[..3], 2), None);
    assert_eq!(Vector::from_bytes(&[0, 0, 192, 127, 1, 1], 2), None);
    assert_eq!(Vector::quantise(&[f32::NAN, 1.0]).to_floats(), [0.0, 0.0]);
}

proptest! {
    #[test]
    fn a_vector_has_length_one_or_zero(text in ".{0,80}") {
        let length = dot(&built_in(&text), &built_in(&text)).sqrt();
        prop_assert!(length == 0.0 || (length - 1.0).abs() < 1e-5, "{}", length);
    }

    #[test]
    fn rounding_keeps_the_product(
        a in prop::collection::vec(-1.0_f32..1.0, 20),
        b in prop::collection::vec(-1.0_f32..1.0, 20),
    ) {
        let unit = |v: Vec<f32>| {
            let length = dot(&v, &v).sqrt().max(1e-3);
            v.into_iter().map(|x| x / length).collect::<Vec<f32>>()
        };
        let (a, b) = (unit(a), unit(b));
        let (small_a, small_b) = (Vector::quantise(&a), Vector::quantise(&b));
        let exact = dot(&a, &b);
        prop_assert!((small_a.dot(&b) - exact).abs() < 0.01);
        prop_assert!((small_a.dot_rounded(&small_b) - exact).abs() < 0.02);
        prop_assert_eq!(Vector::from_bytes(&small_a.to_bytes(), 20), Some(small_a));
    }
}
