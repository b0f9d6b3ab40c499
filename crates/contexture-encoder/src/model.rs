//! [`Encoder`]: a model that is ready to embed texts.
//!
//! The built-in model is loaded once per process, at its first use. A folder is
//! loaded for each [`Encoder::load`].

use std::fmt;
use std::path::Path;
#[cfg(feature = "built-in-model")]
use std::sync::{Arc, OnceLock};

use contexture_recall::embed::wordpiece::{Reading, Scratch};
use contexture_recall::{EmbedError, Embedder, ModelError};

use crate::folder::{Files, Model};
use crate::forward::Workspace;

/// A sentence encoder.
///
/// A text is split into WordPiece tokens, which pass through the layers of a
/// transformer. The mean of the result, or its first token, normalised to
/// length 1, is the text's vector. A text without a known token has a zero
/// vector.
pub struct Encoder {
    name: String,
    model: Model,
}

/// The name of the built-in model. A test compares it with the files.
#[cfg(feature = "built-in-model")]
const BUILT_IN: &str = "encoder-256@686fcb6dbaf0";

#[cfg(feature = "built-in-model")]
fn built_in_files() -> Files {
    macro_rules! asset {
        ($name:literal) => {
            include_bytes!(concat!("../assets/encoder-256/", $name))
                .as_slice()
                .into()
        };
    }
    Files {
        config: asset!("config.json"),
        tokenizer: contexture_recall::embed::built_in_tokenizer().into(),
        tensors: asset!("model.safetensors"),
        more: Default::default(),
    }
}

impl Encoder {
    /// Returns the built-in encoder, which is loaded once per process.
    #[cfg(feature = "built-in-model")]
    pub fn built_in() -> Arc<Self> {
        static ENCODER: OnceLock<Arc<Encoder>> = OnceLock::new();
        let load = || {
            let model = built_in_files().read(Path::new("built in"));
            Arc::new(Self {
                name: BUILT_IN.to_owned(),
                model: model.expect("the built-in encoder is valid, which a test checks"),
            })
        };
        ENCODER.get_or_init(load).clone()
    }

    /// Loads the encoder in `folder`.
    ///
    /// Its name is the folder's, with a hash of the files. Fails if a file is
    /// missing or invalid; the error names the file and the tensor.
    pub fn load(folder: &Path) -> Result<Self, ModelError> {
        let files = Files::of_folder(folder)?;
        let folder_name = folder.file_name().unwrap_or(folder.as_os_str());
        Ok(Self {
            name: format!("{}@{}", folder_name.to_string_lossy(), files.fingerprint()),
            model: files.read(folder)?,
        })
    }

    /// Returns the ids of the tokens of `text`, the first and the last special
    /// token included.
    pub fn token_ids(&self, text: &str) -> Vec<u32> {
        let mut scratch = Scratch::default();
        self.read(text, &mut scratch);
        scratch.ids
    }

    /// Returns the vector of tokens, normalised to length 1.
    ///
    /// Fails if an id is not a token of the model, if there are no ids, or more
    /// than the model reads.
    pub fn embed_tokens(&self, ids: &[u32]) -> Result<Vec<f32>, EmbedError> {
        let rows = self.model.network.tokens.rows;
        let bad = |message: String| EmbedError::Tokenizer { at: 0, message };
        if ids.is_empty() || ids.len() > self.model.most_tokens {
            let most = self.model.most_tokens;
            return Err(bad(format!(
                "there are {} tokens; the model reads 1 to {most}",
                ids.len()
            )));
        }
        if let Some(id) = ids.iter().find(|id| **id as usize >= rows) {
            return Err(bad(format!("token {id} is not one of the model's {rows}")));
        }
        self.vector(ids, 0, &mut Workspace::default())
    }

    fn read(&self, text: &str, scratch: &mut Scratch) {
        let reading = Reading {
            most: self.model.most_tokens - 2,
            unknown: self.model.unknown,
            split_camel_case: false,
        };
        self.model.tokenizer.read_text(text, reading, scratch);
        scratch.ids.insert(0, self.model.first);
        scratch.ids.push(self.model.last);
    }

    fn vector(&self, ids: &[u32], at: usize, work: &mut Workspace) -> Result<Vec<f32>, EmbedError> {
        let mut vector = self.model.network.forward(ids, work);
        let square: f64 = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
        if !square.is_finite() {
            return Err(EmbedError::NotFinite { at });
        }
        if square > 0.0 {
            let length = square.sqrt();
            for x in &mut vector {
                *x = (f64::from(*x) / length) as f32;
            }
        }
        Ok(vector)
    }
}

impl Embedder for Encoder {
    fn name(&self) -> &str {
        &self.name
    }

    fn dimensions(&self) -> usize {
        self.model.dimensions
    }

    fn is_local(&self) -> bool {
        true
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let (mut scratch, mut work) = (Scratch::default(), Workspace::default());
        let mut vectors = Vec::with_capacity(texts.len());
        for (at, text) in texts.iter().enumerate() {
            self.read(text, &mut scratch);
            vectors.push(match scratch.ids.len() {
                // The text has only the special tokens.
                ..=2 => vec![0.0; self.model.dimensions],
                _ => self.vector(&scratch.ids, at, &mut work)?,
            });
        }
        Ok(vectors)
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder")
            .field("name", &self.name)
            .field("dimensions", &self.model.dimensions)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "built-in-model"))]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_encoder_is_named_by_its_content_hash() {
        let files = built_in_files();
        assert_eq!(BUILT_IN, format!("encoder-256@{}", files.fingerprint()));
    }
}
