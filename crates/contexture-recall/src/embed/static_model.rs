//! Static embeddings: a vector for each token, and a text is their mean.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
#[cfg(feature = "built-in-model")]
use std::sync::{Arc, OnceLock};

use serde::Deserialize;

use super::tensors;
use super::wordpiece::{NotRead, Reading, Scratch, WordPiece};
use super::{EmbedError, Embedder};

/// A static model in the layout of Model2Vec: a folder with `config.json`,
/// `tokenizer.json` and `model.safetensors`.
///
/// A text is split into tokens. The vectors of its tokens, times their weights,
/// are added, and the sum is normalised to length 1. Unknown tokens are
/// ignored. A text without a known token has a zero vector.
///
/// The vectors of another model equal those of the Python library `model2vec`,
/// normalised to length 1 even if its configuration does not ask for it. With
/// `"split_camel_case": true` in the configuration, as in the built-in model,
/// `parseHttp` is read as `parse Http`. Only known tokens then count against
/// the token limit.
pub struct StaticModel {
    name: String,
    dimensions: usize,
    rows: Rows,
    /// The weight of each token; `None` when all are 1.
    weights: Option<Vec<f32>>,
    /// The row of each token; `None` when it is the token's id.
    mapping: Option<Vec<u32>>,
    tokenizer: Tokens,
    reading: Reading,
    /// The maximum number of characters that are read, so that a long text
    /// costs no more than its used part.
    most_characters: usize,
}

enum Rows {
    Whole(Cow<'static, [u8]>),
    Fractions(Vec<f32>),
}

enum Tokens {
    WordPiece(Box<WordPiece>),
    #[cfg(feature = "huggingface")]
    HuggingFace {
        tokenizer: Box<tokenizers::Tokenizer>,
        unknown: Option<u32>,
    },
}

/// The error of loading a model, with the file.
#[derive(Debug)]
pub struct ModelError {
    path: PathBuf,
    message: String,
    source: Option<std::io::Error>,
}

impl ModelError {
    /// Returns an error about a file. `message` continues after the file's
    /// name.
    pub fn new(path: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
            source: None,
        }
    }

    /// Reads a file of a model.
    pub fn read_file(path: &Path) -> Result<Vec<u8>, Self> {
        std::fs::read(path).map_err(|source| Self {
            path: path.to_owned(),
            message: format!("cannot be read: {source}"),
            source: Some(source),
        })
    }

    /// Returns the file at fault.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.message)
    }
}

impl std::error::Error for ModelError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.json";
const TENSORS: &str = "model.safetensors";

/// The default for the maximum number of tokens of a text.
const MOST_TOKENS: usize = 512;

#[derive(Deserialize)]
struct Config {
    // Present but null means that there is no limit.
    #[serde(default, deserialize_with = "present")]
    max_length: Option<Option<usize>>,
    #[serde(default)]
    split_camel_case: bool,
}

fn present<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<Option<usize>>, D::Error> {
    Option::<usize>::deserialize(d).map(Some)
}

/// The files of a model.
struct Files {
    config: Cow<'static, [u8]>,
    tokenizer: Cow<'static, [u8]>,
    tensors: Cow<'static, [u8]>,
}

impl Files {
    /// Returns a short hash of the files.
    fn fingerprint(&self) -> String {
        fingerprint(&[&self.config, &self.tokenizer, &self.tensors])
    }
}

/// Returns a short hash of some files.
pub fn fingerprint(files: &[&[u8]]) -> String {
    let mut hasher = blake3::Hasher::new();
    for file in files {
        hasher.update(&(file.len() as u64).to_le_bytes());
        hasher.update(file);
    }
    hasher.finalize().to_hex()[..12].to_owned()
}

/// Returns the built-in `tokenizer.json`. Other models with the same vocabulary
/// share it.
#[cfg(feature = "built-in-model")]
pub fn built_in_tokenizer() -> &'static [u8] {
    include_bytes!("../../assets/static-256/tokenizer.json")
}

/// The name of the built-in model. A test compares it with the files.
#[cfg(feature = "built-in-model")]
const BUILT_IN: &str = "static-256@93f1ba7a53d9";

#[cfg(feature = "built-in-model")]
fn built_in_files() -> Files {
    macro_rules! asset {
        ($name:literal) => {
            Cow::Borrowed(include_bytes!(concat!("../../assets/static-256/", $name)).as_slice())
        };
    }
    Files {
        config: asset!("config.json"),
        tokenizer: Cow::Borrowed(built_in_tokenizer()),
        tensors: asset!("model.safetensors"),
    }
}

impl StaticModel {
    /// Returns the built-in model, which is loaded once per process.
    #[cfg(feature = "built-in-model")]
    pub fn built_in() -> Arc<Self> {
        static MODEL: OnceLock<Arc<StaticModel>> = OnceLock::new();
        let load = || {
            let model = Self::read(Path::new("built in"), built_in_files(), BUILT_IN.to_owned());
            Arc::new(model.expect("the built-in model is whole, which a test holds"))
        };
        MODEL.get_or_init(load).clone()
    }

    /// Loads the model in `folder`.
    ///
    /// Its name is the folder's, with a hash of the files.
    pub fn load(folder: &Path) -> Result<Self, ModelError> {
        let read = |name: &str| ModelError::read_file(&folder.join(name)).map(Cow::Owned);
        let files = Files {
            config: read(CONFIG)?,
            tokenizer: read(TOKENIZER)?,
            tensors: read(TENSORS)?,
        };
        let folder_name = folder.file_name().unwrap_or(folder.as_os_str());
        let name = format!("{}@{}", folder_name.to_string_lossy(), files.fingerprint());
        Self::read(folder, files, name)
    }

    fn read(folder: &Path, files: Files, name: String) -> Result<Self, ModelError> {
        let in_config = |message| ModelError::new(folder.join(CONFIG), message);
        let in_tensors = |message| ModelError::new(folder.join(TENSORS), message);
        let config: Config = serde_json::from_slice(&files.config)
            .map_err(|error| in_config(format!("is no configuration: {error}")))?;
        let (tokenizer, tokens, median) = read_tokenizer(folder, &files.tokenizer)?;

        let parts = tensors::read(&files.tensors).map_err(in_tensors)?;
        let embeddings = parts
            .get("embeddings")
            .or_else(|| parts.get("embedding.weight"))
            .ok_or_else(|| in_tensors("has no tensor `embeddings`".to_owned()))?;
        let &[height, dimensions] = embeddings.shape.as_slice() else {
            let shape = &embeddings.shape;
            let message = format!("`embeddings` must have two sides, not the shape {shape:?}");
            return Err(in_tensors(message));
        };
        if dimensions == 0 {
            return Err(in_tensors("`embeddings` has no components".to_owned()));
        }
        let rows = if embeddings.kind == "I8" {
            Rows::Whole(match &files.tensors {
                // A slice of a built-in file is not copied.
                Cow::Borrowed(all) => {
                    let end = embeddings.start + embeddings.bytes.len();
                    Cow::Borrowed(&all[embeddings.start..end])
                }
                Cow::Owned(_) => Cow::Owned(embeddings.bytes.to_vec()),
            })
        } else {
            let floats = embeddings.floats();
            Rows::Fractions(floats.map_err(|why| in_tensors(format!("`embeddings` {why}")))?)
        };
        let mapping = match parts.get("mapping") {
            None => None,
            Some(tensor) => {
                let mapping = tensor.wholes();
                Some(mapping.map_err(|why| in_tensors(format!("`mapping` {why}")))?)
            }
        };
        let weights = match parts.get("weights") {
            None => None,
            Some(tensor) => {
                let weights = tensor.floats();
                Some(weights.map_err(|why| in_tensors(format!("`weights` {why}")))?)
            }
        };
        let enough = |what: &str, has: usize| {
            if has < tokens {
                let message =
                    format!("`{what}` has {has} rows, but {TOKENIZER} has {tokens} tokens");
                return Err(in_tensors(message));
            }
            Ok(())
        };
        match &mapping {
            None => enough("embeddings", height)?,
            Some(mapping) => {
                enough("mapping", mapping.len())?;
                if let Some(row) = mapping.iter().find(|row| **row as usize >= height) {
                    let message =
                        format!("`mapping` names row {row}, but `embeddings` has {height}");
                    return Err(in_tensors(message));
                }
            }
        }
        if let Some(weights) = &weights {
            enough("weights", weights.len())?;
        }
        let most = config.max_length.unwrap_or(Some(MOST_TOKENS));
        let ours = config.split_camel_case;
        Ok(Self {
            name,
            dimensions,
            rows,
            weights,
            mapping,
            tokenizer,
            reading: Reading {
                most: most.unwrap_or(usize::MAX),
                unknown: !ours,
                split_camel_case: ours,
            },
            most_characters: most
                .filter(|_| !ours)
                .map_or(usize::MAX, |most| most.saturating_mul(median)),
        })
    }

    /// Writes the ids of the known tokens of `text`, up to the limit.
    fn tokenise(&self, text: &str, scratch: &mut Scratch) -> Result<(), String> {
        let text = match text.char_indices().nth(self.most_characters) {
            Some((end, _)) if text.len() > self.most_characters => &text[..end],
            _ => text,
        };
        match &self.tokenizer {
            Tokens::WordPiece(wordpiece) => {
                wordpiece.read_text(text, self.reading, scratch);
                if self.reading.unknown {
                    scratch.ids.retain(|id| *id != wordpiece.unknown());
                }
            }
            #[cfg(feature = "huggingface")]
            Tokens::HuggingFace { tokenizer, unknown } => {
                let encoding = tokenizer
                    .encode_fast(text, false)
                    .map_err(|error| error.to_string())?;
                scratch.ids.clear();
                let ids = encoding.get_ids().iter().take(self.reading.most);
                scratch.ids.extend(ids.filter(|id| Some(**id) != *unknown));
            }
        }
        Ok(())
    }

    /// Adds the row of a token to `sum`.
    fn add(&self, id: u32, sum: &mut [f32]) {
        let row = match &self.mapping {
            None => id as usize,
            Some(mapping) => mapping[id as usize] as usize,
        };
        let weight = match &self.weights {
            None => 1.0,
            Some(weights) => weights[id as usize],
        };
        let at = row * self.dimensions..(row + 1) * self.dimensions;
        match &self.rows {
            Rows::Whole(bytes) => {
                for (sum, byte) in sum.iter_mut().zip(&bytes[at]) {
                    *sum += weight * f32::from(*byte as i8);
                }
            }
            Rows::Fractions(numbers) => {
                for (sum, number) in sum.iter_mut().zip(&numbers[at]) {
                    *sum += weight * number;
                }
            }
        }
    }
}

impl Embedder for StaticModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn is_local(&self) -> bool {
        true
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut scratch = Scratch::default();
        let mut vectors = Vec::with_capacity(texts.len());
        for (at, text) in texts.iter().enumerate() {
            self.tokenise(text, &mut scratch)
                .map_err(|message| EmbedError::Tokenizer { at, message })?;
            let mut vector = vec![0.0; self.dimensions];
            for id in &scratch.ids {
                self.add(*id, &mut vector);
            }
            let square: f64 = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
            if !square.is_finite() {
                return Err(EmbedError::NotFinite { at });
            }
            if square > 0.0 {
                let length = square.sqrt();
                for component in &mut vector {
                    *component = (f64::from(*component) / length) as f32;
                }
            }
            vectors.push(vector);
        }
        Ok(vectors)
    }
}

impl fmt::Debug for StaticModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticModel")
            .field("name", &self.name)
            .field("dimensions", &self.dimensions)
            .finish_non_exhaustive()
    }
}

/// Returns a tokenizer, the number of its ids, and the median length of a
/// token.
fn read_tokenizer(folder: &Path, json: &[u8]) -> Result<(Tokens, usize, usize), ModelError> {
    let wrong = |message: String| ModelError::new(folder.join(TOKENIZER), message);
    match WordPiece::read(json) {
        Ok((wordpiece, vocabulary)) => Ok((
            Tokens::WordPiece(Box::new(wordpiece)),
            vocabulary.ids,
            vocabulary.median,
        )),
        Err(NotRead::Broken(message)) => Err(wrong(message)),
        Err(NotRead::Other(kind)) => other_tokenizer(&kind, json).map_err(wrong),
    }
}

#[cfg(not(feature = "huggingface"))]
fn other_tokenizer(kind: &str, _json: &[u8]) -> Result<(Tokens, usize, usize), String> {
    Err(format!(
        "is no plain WordPiece tokenizer ({kind}); \
         this program was built without the feature `huggingface`, which reads others"
    ))
}

#[cfg(feature = "huggingface")]
fn other_tokenizer(_kind: &str, json: &[u8]) -> Result<(Tokens, usize, usize), String> {
    #[derive(Deserialize)]
    struct File {
        model: Model,
    }
    #[derive(Deserialize)]
    struct Model {
        unk_token: Option<String>,
        unk_id: Option<u32>,
    }
    let bad = |error: &dyn fmt::Display| format!("is no tokenizer: {error}");
    let file: File = serde_json::from_slice(json).map_err(|error| bad(&error))?;
    let mut tokenizer = tokenizers::Tokenizer::from_bytes(json).map_err(|error| bad(&error))?;
    tokenizer
        .with_truncation(None)
        .map_err(|error| bad(&error))?;
    tokenizer.with_padding(None);
    let unknown = match file.model.unk_token {
        Some(token) => tokenizer.token_to_id(&token),
        None => file.model.unk_id,
    };
    let vocabulary = tokenizer.get_vocab(true);
    let ids = vocabulary.values().max().map_or(0, |id| *id as usize + 1);
    let mut lengths: Vec<usize> = vocabulary.keys().map(|t| t.chars().count()).collect();
    let median = super::wordpiece::median(&mut lengths);
    let tokenizer = Tokens::HuggingFace {
        tokenizer: Box::new(tokenizer),
        unknown,
    };
    Ok((tokenizer, ids, median))
}

#[cfg(all(test, feature = "built-in-model"))]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_model_is_named_by_its_content_hash() {
        let files = built_in_files();
        assert_eq!(BUILT_IN, format!("static-256@{}", files.fingerprint()));
    }
}
