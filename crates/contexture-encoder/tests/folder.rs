//! Folders of BERT-type models: a tiny valid one, and broken ones.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;

use contexture_encoder::{Encoder, is_encoder};
use contexture_recall::Embedder as _;
use serde_json::{Value, json};
use tempfile::TempDir;

const HIDDEN: usize = 8;
const WIDE: usize = 12;
const WORDS: [&str; 8] = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "pump", "fuse", "##s", "red",
];

/// A model in memory that a test changes before it is written.
struct Tiny {
    config: Value,
    tokenizer: Value,
    tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
    more: Vec<(&'static str, Value)>,
}

impl Tiny {
    fn new() -> Self {
        let mut seed = 1_u32;
        let mut numbers = |count: usize| -> Vec<f32> {
            (0..count)
                .map(|_| {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (seed >> 8) as f32 / (1 << 24) as f32 - 0.5
                })
                .collect()
        };
        let mut tensors = BTreeMap::new();
        let mut put = |name: &str, shape: &[usize]| {
            let numbers = numbers(shape.iter().product());
            tensors.insert(name.to_owned(), (shape.to_vec(), numbers));
        };
        put("embeddings.word_embeddings.weight", &[WORDS.len(), HIDDEN]);
        put("embeddings.position_embeddings.weight", &[16, HIDDEN]);
        put("embeddings.token_type_embeddings.weight", &[2, HIDDEN]);
        put("embeddings.LayerNorm.weight", &[HIDDEN]);
        put("embeddings.LayerNorm.bias", &[HIDDEN]);
        for layer in 0..2 {
            let mut dense = |name: &str, out: usize, into: usize| {
                put(
                    &format!("encoder.layer.{layer}.{name}.weight"),
                    &[out, into],
                );
                put(&format!("encoder.layer.{layer}.{name}.bias"), &[out]);
            };
            for part in ["query", "key", "value"] {
                dense(&format!("attention.self.{part}"), HIDDEN, HIDDEN);
            }
            dense("attention.output.dense", HIDDEN, HIDDEN);
            dense("intermediate.dense", WIDE, HIDDEN);
            dense("output.dense", HIDDEN, WIDE);
            for name in ["attention.output.LayerNorm", "output.LayerNorm"] {
                put(&format!("encoder.layer.{layer}.{name}.weight"), &[HIDDEN]);
                put(&format!("encoder.layer.{layer}.{name}.bias"), &[HIDDEN]);
            }
        }
        let vocabulary: BTreeMap<&str, usize> = WORDS
            .iter()
            .enumerate()
            .map(|(i, word)| (*word, i))
            .collect();
        Self {
            config: json!({
                "model_type": "bert", "hidden_size": HIDDEN, "num_hidden_layers": 2,
                "num_attention_heads": 2, "intermediate_size": WIDE,
                "max_position_embeddings": 16, "vocab_size": WORDS.len(), "type_vocab_size": 2,
                "hidden_act": "gelu", "layer_norm_eps": 1e-12,
            }),
            tokenizer: json!({
                "added_tokens": [],
                "normalizer": {"type": "BertNormalizer", "clean_text": true,
                    "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
                "pre_tokenizer": {"type": "BertPreTokenizer"},
                "model": {"type": "WordPiece", "unk_token": "[UNK]",
                    "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                    "vocab": vocabulary},
            }),
            tensors,
            more: Vec::new(),
        }
    }

    fn write(&self) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        };
        put("config.json", self.config.to_string().as_bytes());
        put("tokenizer.json", self.tokenizer.to_string().as_bytes());
        put("model.safetensors", &self.safetensors());
        for (name, value) in &self.more {
            put(name, value.to_string().as_bytes());
        }
        folder
    }

    fn safetensors(&self) -> Vec<u8> {
        let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
        for (name, (shape, numbers)) in &self.tensors {
            let start = data.len();
            data.extend(numbers.iter().flat_map(|x| x.to_le_bytes()));
            let offsets = [start, data.len()];
            header.insert(
                name.clone(),
                json!({"dtype": "F32", "shape": shape, "data_offsets": offsets}),
            );
        }
        let header = Value::Object(header).to_string();
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[track_caller]
    fn fails(&self, expected: &[&str]) {
        let folder = self.write();
        fails(folder.path(), expected);
    }
}

#[track_caller]
fn fails(folder: &Path, expected: &[&str]) {
    let error = Encoder::load(folder).unwrap_err().to_string();
    for part in expected {
        assert!(error.contains(part), "{error} lacks {part}");
    }
}

/// A reference forward pass, in plain loops of double precision.
fn reference(tiny: &Tiny, ids: &[usize], first_token: bool) -> Vec<f64> {
    let get =
        |name: &str| -> Vec<f64> { tiny.tensors[name].1.iter().map(|x| f64::from(*x)).collect() };
    let times = |name: &str, x: &[Vec<f64>]| -> Vec<Vec<f64>> {
        let (w, b) = (get(&format!("{name}.weight")), get(&format!("{name}.bias")));
        let row = |r: usize, x: &Vec<f64>| {
            let columns = x.len();
            b[r] + (0..columns).map(|c| w[r * columns + c] * x[c]).sum::<f64>()
        };
        x.iter()
            .map(|x| (0..b.len()).map(|r| row(r, x)).collect())
            .collect()
    };
    let norm = |name: &str, x: Vec<f64>| -> Vec<f64> {
        let (w, b) = (get(&format!("{name}.weight")), get(&format!("{name}.bias")));
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
        let part = (variance + 1e-12).sqrt();
        (0..x.len())
            .map(|i| (x[i] - mean) / part * w[i] + b[i])
            .collect()
    };
    let add = |a: &[Vec<f64>], b: &[Vec<f64>]| -> Vec<Vec<f64>> {
        let sum = |(a, b): (&Vec<f64>, &Vec<f64>)| a.iter().zip(b).map(|(a, b)| a + b).collect();
        a.iter().zip(b).map(sum).collect()
    };
    // The error function as a series.
    let erf = |x: f64| {
        let (mut term, mut sum) = (x, x);
        for n in 1..60 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    };
    let words = get("embeddings.word_embeddings.weight");
    let positions = get("embeddings.position_embeddings.weight");
    let types = get("embeddings.token_type_embeddings.weight");
    let mut x: Vec<Vec<f64>> = Vec::new();
    for (at, id) in ids.iter().enumerate() {
        let sum = |i: usize| words[id * HIDDEN + i] + positions[at * HIDDEN + i] + types[i];
        x.push(norm("embeddings.LayerNorm", (0..HIDDEN).map(sum).collect()));
    }
    let width = HIDDEN / 2;
    for layer in 0..2 {
        let at = |name: &str| format!("encoder.layer.{layer}.{name}");
        let [q, k, v] =
            ["query", "key", "value"].map(|part| times(&at(&format!("attention.self.{part}")), &x));
        let mut mixed = vec![vec![0.0; HIDDEN]; ids.len()];
        for head in 0..2 {
            let part = head * width..(head + 1) * width;
            for i in 0..ids.len() {
                let score = |j: usize| {
                    let dot: f64 = part.clone().map(|c| q[i][c] * k[j][c]).sum();
                    (dot / (width as f64).sqrt()).exp()
                };
                let scores: Vec<f64> = (0..ids.len()).map(score).collect();
                let all: f64 = scores.iter().sum();
                for c in part.clone() {
                    mixed[i][c] = (0..ids.len()).map(|j| scores[j] / all * v[j][c]).sum();
                }
            }
        }
        let out = times(&at("attention.output.dense"), &mixed);
        let after = |name: &str, x: Vec<Vec<f64>>| -> Vec<Vec<f64>> {
            x.into_iter().map(|x| norm(&at(name), x)).collect()
        };
        x = after("attention.output.LayerNorm", add(&x, &out));
        let mut wide = times(&at("intermediate.dense"), &x);
        for y in wide.iter_mut().flatten() {
            *y *= 0.5 * (1.0 + erf(*y / 2_f64.sqrt()));
        }
        let out = times(&at("output.dense"), &wide);
        x = after("output.LayerNorm", add(&x, &out));
    }
    let pooled: Vec<f64> = match first_token {
        true => x[0].clone(),
        false => (0..HIDDEN)
            .map(|i| x.iter().map(|x| x[i]).sum::<f64>() / x.len() as f64)
            .collect(),
    };
    let length = pooled.iter().map(|x| x * x).sum::<f64>().sqrt();
    pooled.iter().map(|x| x / length).collect()
}

fn check(tiny: &Tiny, text: &str, ids: &[u32], first_token: bool) {
    let folder = tiny.write();
    assert!(is_encoder(folder.path()));
    let encoder = Encoder::load(folder.path()).unwrap();
    assert_eq!(encoder.token_ids(text), ids);
    assert_eq!(encoder.dimensions(), HIDDEN);
    let vector = encoder.embed(&[text]).unwrap().remove(0);
    let ids: Vec<usize> = ids.iter().map(|id| *id as usize).collect();
    let expected = reference(tiny, &ids, first_token);
    for (ours, theirs) in vector.iter().zip(&expected) {
        assert!(
            (f64::from(*ours) - theirs).abs() < 1e-5,
            "{vector:?} {expected:?}"
        );
    }
}

#[test]
fn a_bert_folder_gives_the_vectors_of_the_plain_forward_pass() {
    check(
        &Tiny::new(),
        "Red pumps, fuse!",
        &[2, 7, 4, 6, 1, 5, 1, 3],
        false,
    );
}

#[test]
fn pooling_is_as_the_folder_says() {
    let mut tiny = Tiny::new();
    let pooling = json!({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false});
    tiny.more.push(("1_Pooling/config.json", pooling));
    check(&tiny, "red pump", &[2, 7, 4, 3], true);
    tiny.more[0].1 = json!({"pooling_mode_max_tokens": true});
    tiny.fails(&["1_Pooling", "pooling_mode_mean_tokens"]);
}

#[test]
fn the_length_is_as_the_folder_says() {
    let mut tiny = Tiny::new();
    tiny.more
        .push(("sentence_bert_config.json", json!({"max_seq_length": 4})));
    check(&tiny, "red pump red pump", &[2, 7, 4, 3], false);
    // Without the file, the limit is the number of positions.
    tiny.more.clear();
    let folder = tiny.write();
    let encoder = Encoder::load(folder.path()).unwrap();
    assert_eq!(encoder.token_ids(&"red ".repeat(99)).len(), 16);
}

#[test]
fn tensors_may_have_the_prefix_bert() {
    let tiny = Tiny::new();
    let mut prefixed = Tiny::new();
    let named = |(name, tensor)| (format!("bert.{name}"), tensor);
    prefixed.tensors = prefixed.tensors.into_iter().map(named).collect();
    let embed = |tiny: &Tiny| {
        let folder = tiny.write();
        Encoder::load(folder.path())
            .unwrap()
            .embed(&["red pump"])
            .unwrap()
    };
    assert_eq!(embed(&tiny), embed(&prefixed));
}

#[test]
fn the_name_changes_with_every_file() {
    let name = |tiny: &Tiny| {
        let folder = tiny.write();
        let name = Encoder::load(folder.path()).unwrap().name().to_owned();
        name.rsplit('@').next().unwrap().to_owned()
    };
    let mut tiny = Tiny::new();
    let first = name(&tiny);
    assert_eq!(first, name(&tiny));
    tiny.more
        .push(("sentence_bert_config.json", json!({"max_seq_length": 4})));
    assert_ne!(first, name(&tiny));
}

#[test]
fn a_missing_file_is_named() {
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        let folder = Tiny::new().write();
        std::fs::remove_file(folder.path().join(name)).unwrap();
        fails(folder.path(), &[name, "cannot be read"]);
    }
}

#[test]
fn a_wrong_shape_names_the_tensor() {
    let name = "encoder.layer.1.output.dense.weight";
    let mut tiny = Tiny::new();
    tiny.tensors.get_mut(name).unwrap().0 = vec![WIDE, HIDDEN];
    tiny.fails(&["model.safetensors", name, "[12, 8]", "[8, 12]"]);
    tiny.tensors.remove(name);
    tiny.fails(&["model.safetensors", name, "missing"]);
    let mut tiny = Tiny::new();
    tiny.config["num_hidden_layers"] = json!(3);
    tiny.fails(&["model.safetensors", "encoder.layer.2.", "missing"]);
}

#[test]
fn a_number_that_is_not_finite_names_the_tensor() {
    for bad in [f32::NAN, f32::INFINITY] {
        let name = "encoder.layer.0.attention.self.key.bias";
        let mut tiny = Tiny::new();
        tiny.tensors.get_mut(name).unwrap().1[3] = bad;
        tiny.fails(&["model.safetensors", name, "component 3"]);
    }
}

#[test]
fn a_truncated_file_is_refused_at_every_length() {
    let tiny = Tiny::new();
    let folder = tiny.write();
    let whole = tiny.safetensors();
    for length in (0..whole.len()).step_by(97) {
        std::fs::write(folder.path().join("model.safetensors"), &whole[..length]).unwrap();
        fails(folder.path(), &["model.safetensors"]);
    }
}

#[test]
fn a_vocabulary_of_another_model_is_refused() {
    let mut tiny = Tiny::new();
    tiny.tokenizer["model"]["vocab"]["cellar"] = json!(8);
    tiny.fails(&["tokenizer.json", "9 tokens", "8", "another model"]);
    let mut tiny = Tiny::new();
    tiny.tokenizer["model"]["vocab"]
        .as_object_mut()
        .unwrap()
        .remove("[CLS]");
    tiny.fails(&["tokenizer.json", "[CLS]"]);
    let mut tiny = Tiny::new();
    tiny.tokenizer["model"]["type"] = json!("Unigram");
    tiny.fails(&["tokenizer.json", "WordPiece", "Unigram"]);
}

#[test]
fn a_configuration_that_cannot_be_used_says_why() {
    for (field, value, expected) in [
        ("num_attention_heads", json!(3), "multiple of the heads"),
        ("num_attention_heads", json!(0), "multiple of the heads"),
        ("hidden_act", json!("swish"), "swish"),
        ("position_embedding_type", json!("rotary"), "rotary"),
        ("model_type", json!("xlm-roberta"), "xlm-roberta"),
        ("hidden_size", json!("many"), "invalid"),
        ("max_position_embeddings", json!(2), "positions"),
    ] {
        let mut tiny = Tiny::new();
        tiny.config[field] = value;
        tiny.fails(&["config.json", expected]);
    }
    let mut tiny = Tiny::new();
    let module = json!([{"type": "sentence_transformers.models.Dense"}]);
    tiny.more.push(("modules.json", module));
    tiny.fails(&["modules.json", "Dense"]);
}
