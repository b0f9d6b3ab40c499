//! Reads a model's folder: our own format, or BERT's.
//!
//! Every shape is checked against the configuration before anything is
//! multiplied, and an error names the file and the tensor.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use contexture_recall::ModelError;
use contexture_recall::embed::fingerprint;
use contexture_recall::embed::tensors::{self, Tensor};
use contexture_recall::embed::wordpiece::{NotRead, WordPiece};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::exponential::Activation;
use crate::forward::{Layer, Network, Norm, Pooling};
use crate::matrix::{Matrix, Table, Weights};

pub(crate) const CONFIG: &str = "config.json";
pub(crate) const TOKENIZER: &str = "tokenizer.json";
pub(crate) const TENSORS: &str = "model.safetensors";
const POOLING: &str = "1_Pooling/config.json";
const SENTENCES: &str = "sentence_bert_config.json";
const MODULES: &str = "modules.json";

/// The format name in the configuration of our own models.
const OURS: &str = "contexture-encoder-1";

/// The files of a model.
pub(crate) struct Files {
    pub(crate) config: Cow<'static, [u8]>,
    pub(crate) tokenizer: Cow<'static, [u8]>,
    pub(crate) tensors: Cow<'static, [u8]>,
    /// The optional files, by name.
    pub(crate) more: BTreeMap<&'static str, Vec<u8>>,
}

/// The content of the files that is needed.
pub(crate) struct Model {
    pub(crate) network: Network,
    pub(crate) tokenizer: WordPiece,
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// The maximum number of tokens of a text, special tokens included.
    pub(crate) most_tokens: usize,
    /// True if unknown words become the unknown token.
    pub(crate) unknown: bool,
    pub(crate) dimensions: usize,
}

/// Returns true when the folder's `config.json` describes a transformer.
///
/// A folder of a Model2Vec model has a configuration without layers. A missing
/// or broken file returns false; loading the folder then reports the error.
pub fn is_encoder(folder: &Path) -> bool {
    let config = std::fs::read(folder.join(CONFIG)).ok();
    let config: Option<Value> = config.and_then(|json| serde_json::from_slice(&json).ok());
    config.is_some_and(|config| config["format"] == OURS || config["num_hidden_layers"].is_u64())
}

impl Files {
    pub(crate) fn of_folder(folder: &Path) -> Result<Self, ModelError> {
        let read = |name: &str| ModelError::read_file(&folder.join(name));
        let mut more = BTreeMap::new();
        for name in [POOLING, SENTENCES, MODULES] {
            if folder.join(name).exists() {
                more.insert(name, read(name)?);
            }
        }
        Ok(Self {
            config: read(CONFIG)?.into(),
            tokenizer: read(TOKENIZER)?.into(),
            tensors: read(TENSORS)?.into(),
            more,
        })
    }

    /// Returns a short hash of all files.
    pub(crate) fn fingerprint(&self) -> String {
        let mut files: Vec<&[u8]> = vec![&self.config, &self.tokenizer, &self.tensors];
        files.extend(self.more.values().map(Vec::as_slice));
        fingerprint(&files)
    }

    /// Reads the model; `folder` is for errors.
    pub(crate) fn read(&self, folder: &Path) -> Result<Model, ModelError> {
        let in_config = |message: String| ModelError::new(folder.join(CONFIG), message);
        let config: Value = json(folder, CONFIG, &self.config)?;
        let parts = tensors::read(&self.tensors)
            .map_err(|message| ModelError::new(folder.join(TENSORS), message))?;
        let tensors = Tensors {
            folder,
            file: &self.tensors,
            parts,
        };
        let (tokenizer, ids) = match WordPiece::read(&self.tokenizer) {
            Ok((tokenizer, vocabulary)) => (tokenizer, vocabulary.ids),
            Err(NotRead::Broken(message)) => {
                return Err(ModelError::new(folder.join(TOKENIZER), message));
            }
            Err(NotRead::Other(kind)) => {
                let message = format!(
                    "is not a WordPiece tokenizer with BERT's normalizer ({kind}), which an \
                     encoder must have"
                );
                return Err(ModelError::new(folder.join(TOKENIZER), message));
            }
        };
        let tokenizer = Tokenizer {
            folder,
            tokenizer,
            ids,
        };
        if config["format"] == OURS {
            let config = json(folder, CONFIG, &self.config)?;
            return ours(config, &tensors, tokenizer).map_err(|error| error.or(in_config));
        }
        if config.get("format").is_some() {
            let format = &config["format"];
            return Err(in_config(format!(
                "has the format {format}; this version reads \"{OURS}\" and BERT"
            )));
        }
        match config["model_type"].as_str() {
            Some("bert") => {}
            kind => {
                let kind = kind.map_or("no model_type".to_owned(), |kind| {
                    format!("model_type \"{kind}\"")
                });
                return Err(in_config(format!(
                    "has {kind}; encoders of the type \"bert\" are supported"
                )));
            }
        }
        let config = json(folder, CONFIG, &self.config)?;
        let around = CompanionFiles::read(folder, self)?;
        bert(config, &around, &tensors, tokenizer).map_err(|error| error.or(in_config))
    }
}

fn json<T: DeserializeOwned>(folder: &Path, name: &str, bytes: &[u8]) -> Result<T, ModelError> {
    serde_json::from_slice(bytes)
        .map_err(|error| ModelError::new(folder.join(name), format!("is invalid: {error}")))
}

/// An error in the configuration, or in another file of the folder.
enum FolderError {
    Config(String),
    Other(ModelError),
}

impl FolderError {
    fn or(self, in_config: impl Fn(String) -> ModelError) -> ModelError {
        match self {
            FolderError::Config(message) => in_config(message),
            FolderError::Other(error) => error,
        }
    }
}

impl From<ModelError> for FolderError {
    fn from(error: ModelError) -> Self {
        FolderError::Other(error)
    }
}

struct Tokenizer<'f> {
    folder: &'f Path,
    tokenizer: WordPiece,
    ids: usize,
}

impl Tokenizer<'_> {
    fn error(&self, message: String) -> ModelError {
        ModelError::new(self.folder.join(TOKENIZER), message)
    }

    /// Fails when there are more tokens than rows.
    fn check_rows(&self, rows: usize) -> Result<(), ModelError> {
        match self.ids > rows {
            true => Err(self.error(format!(
                "has {} tokens, but the model has rows for {rows}: it belongs to another model",
                self.ids
            ))),
            false => Ok(()),
        }
    }

    fn id(&self, token: &str) -> Result<u32, ModelError> {
        let id = self.tokenizer.id(token);
        id.ok_or_else(|| self.error(format!("has no token `{token}`")))
    }

    fn check_id(&self, token: &str, expected: u32) -> Result<u32, ModelError> {
        match self.id(token)? {
            id if id == expected => Ok(id),
            id => Err(self.error(format!(
                "gives `{token}` the id {id}, but {CONFIG} says {expected}: it belongs to \
                 another model"
            ))),
        }
    }
}

/// The tensors of a file, by name.
struct Tensors<'f> {
    folder: &'f Path,
    file: &'f Cow<'static, [u8]>,
    parts: BTreeMap<String, Tensor<'f>>,
}

impl Tensors<'_> {
    fn error(&self, name: &str, message: &str) -> ModelError {
        let message = format!("tensor `{name}` {message}");
        ModelError::new(self.folder.join(TENSORS), message)
    }

    fn has(&self, name: &str) -> bool {
        self.parts.contains_key(name)
    }

    fn get(&self, name: &str, shape: &[usize]) -> Result<&Tensor<'_>, ModelError> {
        let tensor = self.parts.get(name);
        let tensor = tensor.ok_or_else(|| self.error(name, "is missing"))?;
        if tensor.shape != shape {
            let message = format!(
                "has the shape {:?}, but {CONFIG} asks for {shape:?}",
                tensor.shape
            );
            return Err(self.error(name, &message));
        }
        Ok(tensor)
    }

    /// Returns the numbers of a tensor, all of them finite.
    fn numbers(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, ModelError> {
        let numbers = self.get(name, shape)?.floats();
        numbers.map_err(|why| self.error(name, &why))
    }

    /// Returns `NAME.weight` as a matrix, with `NAME.bias` if it has one.
    fn matrix(&self, name: &str, shape: [usize; 2], bias: bool) -> Result<Matrix, ModelError> {
        let bias = match bias {
            true => self.numbers(&format!("{name}.bias"), &shape[..1])?,
            false => vec![0.0; shape[0]],
        };
        Ok(Matrix::new(shape, self.weights(name, shape)?, bias))
    }

    /// Returns `NAME.weight` as a lookup table.
    fn table(&self, name: &str, shape: [usize; 2]) -> Result<Table, ModelError> {
        Ok(Table::new(shape, self.weights(name, shape)?))
    }

    fn weights(&self, name: &str, shape: [usize; 2]) -> Result<Weights, ModelError> {
        let name = format!("{name}.weight");
        let tensor = self.get(&name, &shape)?;
        if tensor.kind != "I8" {
            return Ok(Weights::Fractions(self.numbers(&name, &shape)?));
        }
        let scales = self.numbers(&format!("{name}.scale"), &shape[..1])?;
        if tensor.bytes.contains(&0x80) {
            return Err(self.error(&name, "has -128 in it; bytes go from -127 to 127"));
        }
        let at = tensor.start..tensor.start + tensor.bytes.len();
        let bytes = match self.file {
            // A slice of a built-in file is not copied.
            Cow::Borrowed(all) => Cow::Borrowed(&all[at]),
            Cow::Owned(all) => Cow::Owned(all[at].to_vec()),
        };
        Ok(Weights::Bytes { bytes, scales })
    }

    fn norm(&self, name: &str, size: usize) -> Result<Norm, ModelError> {
        Ok(Norm {
            weight: self.numbers(&format!("{name}.weight"), &[size])?,
            bias: self.numbers(&format!("{name}.bias"), &[size])?,
        })
    }
}

#[derive(Deserialize)]
struct OurConfig {
    vocab: usize,
    embedding: usize,
    hidden: usize,
    layers: usize,
    heads: usize,
    ffn: usize,
    positions: usize,
    max_tokens: usize,
    output: usize,
    activation: String,
    layer_norm_eps: f32,
    cls_id: u32,
    sep_id: u32,
    unk_id: u32,
}

fn ours(
    config: OurConfig,
    tensors: &Tensors<'_>,
    tokenizer: Tokenizer<'_>,
) -> Result<Model, FolderError> {
    let hidden = config.hidden;
    check_sizes(hidden, config.heads, config.max_tokens, config.positions)?;
    let activation = activation(&config.activation)?;
    tokenizer.check_rows(config.vocab)?;
    let first = tokenizer.check_id("[CLS]", config.cls_id)?;
    let last = tokenizer.check_id("[SEP]", config.sep_id)?;
    if tokenizer.tokenizer.unknown() != config.unk_id {
        return Err(tokenizer
            .error(format!(
                "has the unknown token {}, but {CONFIG} says {}: it belongs to another model",
                tokenizer.tokenizer.unknown(),
                config.unk_id
            ))
            .into());
    }
    let up = tensors.has("up.weight");
    let size = if up { config.embedding } else { hidden };
    let layer = |i: usize| -> Result<Layer, ModelError> {
        Ok(Layer {
            attention: tensors.matrix(&format!("qkv.{i}"), [3 * hidden, hidden], true)?,
            joined: tensors.matrix(&format!("o.{i}"), [hidden, hidden], true)?,
            after_attention: tensors.norm(&format!("l1.{i}"), hidden)?,
            wide: tensors.matrix(&format!("f1.{i}"), [config.ffn, hidden], true)?,
            narrow: tensors.matrix(&format!("f2.{i}"), [hidden, config.ffn], true)?,
            after_wide: tensors.norm(&format!("l2.{i}"), hidden)?,
        })
    };
    let network = Network {
        hidden,
        heads: config.heads,
        activation,
        epsilon: config.layer_norm_eps,
        tokens: tensors.table("emb", [config.vocab, size])?,
        up: match up {
            true => Some(tensors.matrix("up", [hidden, size], false)?),
            false => None,
        },
        positions: tensors.numbers("pos.weight", &[config.positions, hidden])?,
        start: tensors.norm("ln", hidden)?,
        layers: (0..config.layers).map(layer).collect::<Result<_, _>>()?,
        pooling: Pooling::Mean,
        head: Some(tensors.matrix("head", [config.output, hidden], false)?),
    };
    Ok(Model {
        network,
        tokenizer: tokenizer.tokenizer,
        first,
        last,
        most_tokens: config.max_tokens,
        unknown: false,
        dimensions: config.output,
    })
}

#[derive(Deserialize)]
struct BertConfig {
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    max_position_embeddings: usize,
    vocab_size: usize,
    #[serde(default)]
    type_vocab_size: usize,
    #[serde(default = "gelu")]
    hidden_act: String,
    #[serde(default = "epsilon")]
    layer_norm_eps: f32,
    #[serde(default)]
    position_embedding_type: Option<String>,
}

fn gelu() -> String {
    "gelu".to_owned()
}

fn epsilon() -> f32 {
    1e-12
}

/// The settings in the files next to a BERT model.
struct CompanionFiles {
    pooling: Pooling,
    most_tokens: Option<usize>,
}

impl CompanionFiles {
    fn read(folder: &Path, files: &Files) -> Result<Self, ModelError> {
        #[derive(Deserialize)]
        struct Modes {
            #[serde(default)]
            pooling_mode_cls_token: bool,
            #[serde(default)]
            pooling_mode_mean_tokens: bool,
        }
        #[derive(Deserialize)]
        struct Sentences {
            max_seq_length: Option<usize>,
        }
        #[derive(Deserialize)]
        struct Module {
            r#type: String,
        }
        if let Some(bytes) = files.more.get(MODULES) {
            let modules: Vec<Module> = json(folder, MODULES, bytes)?;
            let known = ["Transformer", "Pooling", "Normalize"];
            let other = modules.iter().find(|module| {
                let name = module.r#type.rsplit('.').next().unwrap_or_default();
                !known.contains(&name)
            });
            if let Some(other) = other {
                let message = format!(
                    "has a module of the type {}; {} are supported",
                    other.r#type,
                    known.join(", ")
                );
                return Err(ModelError::new(folder.join(MODULES), message));
            }
        }
        let pooling = match files.more.get(POOLING) {
            None => Pooling::Mean,
            Some(bytes) => {
                let modes: Modes = json(folder, POOLING, bytes)?;
                match (modes.pooling_mode_cls_token, modes.pooling_mode_mean_tokens) {
                    (false, true) => Pooling::Mean,
                    (true, false) => Pooling::First,
                    _ => {
                        let message = "must set one of pooling_mode_mean_tokens and \
                                       pooling_mode_cls_token; others are not supported";
                        return Err(ModelError::new(folder.join(POOLING), message));
                    }
                }
            }
        };
        let most_tokens = match files.more.get(SENTENCES) {
            None => None,
            Some(bytes) => json::<Sentences>(folder, SENTENCES, bytes)?.max_seq_length,
        };
        Ok(Self {
            pooling,
            most_tokens,
        })
    }
}

fn bert(
    config: BertConfig,
    around: &CompanionFiles,
    tensors: &Tensors<'_>,
    tokenizer: Tokenizer<'_>,
) -> Result<Model, FolderError> {
    let (hidden, positions) = (config.hidden_size, config.max_position_embeddings);
    let most_tokens = around.most_tokens.unwrap_or(positions).min(positions);
    check_sizes(hidden, config.num_attention_heads, most_tokens, positions)?;
    match config.position_embedding_type.as_deref() {
        None | Some("absolute") => {}
        Some(other) => {
            return Err(FolderError::Config(format!(
                "has position_embedding_type \"{other}\"; \"absolute\" is supported"
            )));
        }
    }
    let activation = activation(&config.hidden_act)?;
    tokenizer.check_rows(config.vocab_size)?;
    let (first, last) = (tokenizer.id("[CLS]")?, tokenizer.id("[SEP]")?);
    let prefix = match tensors.has("bert.embeddings.word_embeddings.weight") {
        true => "bert.",
        false => "",
    };
    let at = |name: &str| format!("{prefix}{name}");
    let mut rows = tensors.numbers(
        &at("embeddings.position_embeddings.weight"),
        &[positions, hidden],
    )?;
    if config.type_vocab_size > 0 {
        // Every token of a text has the first type.
        let name = at("embeddings.token_type_embeddings.weight");
        let types = tensors.numbers(&name, &[config.type_vocab_size, hidden])?;
        for row in rows.chunks_exact_mut(hidden) {
            for (x, y) in row.iter_mut().zip(&types) {
                *x += y;
            }
        }
    }
    let layer = |i: usize| -> Result<Layer, ModelError> {
        let at = |name: &str| format!("{prefix}encoder.layer.{i}.{name}");
        let (mut weights, mut bias) = (Vec::new(), Vec::new());
        for part in ["query", "key", "value"] {
            let name = at(&format!("attention.self.{part}"));
            weights.extend(tensors.numbers(&format!("{name}.weight"), &[hidden, hidden])?);
            bias.extend(tensors.numbers(&format!("{name}.bias"), &[hidden])?);
        }
        let wide = config.intermediate_size;
        Ok(Layer {
            attention: Matrix::new([3 * hidden, hidden], Weights::Fractions(weights), bias),
            joined: tensors.matrix(&at("attention.output.dense"), [hidden, hidden], true)?,
            after_attention: tensors.norm(&at("attention.output.LayerNorm"), hidden)?,
            wide: tensors.matrix(&at("intermediate.dense"), [wide, hidden], true)?,
            narrow: tensors.matrix(&at("output.dense"), [hidden, wide], true)?,
            after_wide: tensors.norm(&at("output.LayerNorm"), hidden)?,
        })
    };
    let network = Network {
        hidden,
        heads: config.num_attention_heads,
        activation,
        epsilon: config.layer_norm_eps,
        tokens: tensors.table(
            &at("embeddings.word_embeddings"),
            [config.vocab_size, hidden],
        )?,
        up: None,
        positions: rows,
        start: tensors.norm(&at("embeddings.LayerNorm"), hidden)?,
        layers: (0..config.num_hidden_layers)
            .map(layer)
            .collect::<Result<_, _>>()?,
        pooling: around.pooling,
        head: None,
    };
    Ok(Model {
        network,
        tokenizer: tokenizer.tokenizer,
        first,
        last,
        most_tokens,
        unknown: true,
        dimensions: hidden,
    })
}

fn activation(name: &str) -> Result<Activation, FolderError> {
    match name {
        "gelu_tanh" | "gelu_new" | "gelu_pytorch_tanh" => Ok(Activation::GeluTanh),
        "gelu" => Ok(Activation::GeluErf),
        "relu" => Ok(Activation::Relu),
        other => Err(FolderError::Config(format!(
            "has the activation \"{other}\"; gelu, gelu_new and relu are supported"
        ))),
    }
}

/// The largest hidden size: sums of byte products must fit into 32 bits with
/// enough precision.
const MOST_HIDDEN: usize = 65_536;

fn check_sizes(
    hidden: usize,
    heads: usize,
    most_tokens: usize,
    positions: usize,
) -> Result<(), FolderError> {
    if hidden == 0 || hidden > MOST_HIDDEN || heads == 0 || !hidden.is_multiple_of(heads) {
        return Err(FolderError::Config(format!(
            "has the hidden size {hidden} and {heads} attention heads; the size must be a \
             multiple of the heads, and at most {MOST_HIDDEN}"
        )));
    }
    if most_tokens < 3 || most_tokens > positions {
        return Err(FolderError::Config(format!(
            "reads {most_tokens} tokens of a text with {positions} positions; it must be from 3 \
             to the number of positions"
        )));
    }
    Ok(())
}
