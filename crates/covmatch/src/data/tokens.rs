//! Token ids of captions: BERT's uncased WordPiece.
//!
//! `[CLS] pieces [SEP]`, cut to [`MAX_TOKENS`], padded with `[PAD]` to the longest caption of the list; the mask is 1
//! on tokens and 0 on padding. Settings of a `tokenizer.json` for padding and truncation are replaced by these.

use std::path::Path;

use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::processors::bert::BertProcessing;
use tokenizers::{AddedToken, TruncationParams};

use super::DataError;

/// The most tokens of a caption, `[CLS]` and `[SEP]` included: BERT's number of positions.
pub const MAX_TOKENS: usize = 512;

const SPECIAL: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

/// Token ids of `n` captions, padded to the longest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenBatch {
    /// Number of captions, `n`.
    pub rows: usize,
    /// Tokens of the longest caption, `l`.
    pub length: usize,
    /// `[n, l]`
    pub ids: Vec<i64>,
    /// `[n, l]`: 1 on tokens, 0 on padding.
    pub mask: Vec<f32>,
}

/// Turns captions into token ids.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    padding: i64,
    path: String,
}

impl Tokenizer {
    /// Reads a `tokenizer.json`, a `vocab.txt` with bert-base-uncased's settings, or whichever of the two the folder
    /// `path` holds.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let json = path.join("tokenizer.json");
        let file = match path.is_dir() {
            true if json.is_file() => json,
            true => path.join("vocab.txt"),
            false => path.to_owned(),
        };
        let path = file.display().to_string();
        let bytes = std::fs::read(&file).map_err(|cause| DataError::Read { path: path.clone(), cause })?;
        match file.extension().is_some_and(|extension| extension == "json") {
            true => Self::new(path, tokenizers::Tokenizer::from_bytes(&bytes)),
            false => Self::from_vocabulary(&path, &bytes),
        }
    }

    /// A vocabulary of one token a line with bert-base-uncased's settings; `name` is what errors call it.
    pub fn from_vocabulary(name: &str, bytes: &[u8]) -> Result<Self, DataError> {
        Self::new(name.to_owned(), from_vocabulary(bytes))
    }

    fn new(path: String, inner: tokenizers::Result<tokenizers::Tokenizer>) -> Result<Self, DataError> {
        match inner.and_then(with_protocol_settings) {
            Ok((inner, padding)) => Ok(Self { inner, padding, path }),
            Err(cause) => Err(DataError::Tokenizer { path, cause: cause.to_string() }),
        }
    }

    /// Number of tokens of the vocabulary.
    pub fn vocabulary_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// Token ids of one caption, with `[CLS]` and `[SEP]`.
    pub fn ids(&self, caption: &str) -> Result<Vec<u32>, DataError> {
        let encoding = self.inner.encode_fast(caption, true);
        let encoding =
            encoding.map_err(|cause| DataError::Tokenizer { path: self.path.clone(), cause: cause.to_string() })?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Token ids of `captions`, padded to the longest of them.
    pub fn encode<S: AsRef<str>>(&self, captions: &[S]) -> Result<TokenBatch, DataError> {
        let ids = captions.iter().map(|caption| self.ids(caption.as_ref())).collect::<Result<Vec<_>, _>>()?;
        let length = ids.iter().map(Vec::len).max().unwrap_or(0);
        let mut batch = TokenBatch {
            rows: ids.len(),
            length,
            ids: vec![self.padding; ids.len() * length],
            mask: vec![0.0; ids.len() * length],
        };
        for (row, ids) in ids.iter().enumerate() {
            for (column, &id) in ids.iter().enumerate() {
                batch.ids[row * length + column] = i64::from(id);
                batch.mask[row * length + column] = 1.0;
            }
        }
        Ok(batch)
    }
}

/// `tokenizer` with the protocol's truncation and no padding of its own, and the id of `[PAD]`.
fn with_protocol_settings(mut tokenizer: tokenizers::Tokenizer) -> tokenizers::Result<(tokenizers::Tokenizer, i64)> {
    tokenizer.with_padding(None);
    tokenizer.with_truncation(Some(TruncationParams { max_length: MAX_TOKENS, ..Default::default() }))?;
    let padding = tokenizer.token_to_id("[PAD]").ok_or("it has no [PAD] token")?;
    Ok((tokenizer, i64::from(padding)))
}

/// bert-base-uncased's pipeline around a vocabulary of one token a line.
fn from_vocabulary(bytes: &[u8]) -> tokenizers::Result<tokenizers::Tokenizer> {
    let vocabulary = WordPiece::read_bytes(bytes)?;
    let id = |token: &str| vocabulary.get(token).copied().ok_or_else(|| format!("it has no {token} token"));
    for token in SPECIAL {
        id(token)?;
    }
    let brackets = BertProcessing::new(("[SEP]".into(), id("[SEP]")?), ("[CLS]".into(), id("[CLS]")?));
    let model = WordPiece::builder().vocab(vocabulary).unk_token("[UNK]".into()).build()?;

    let mut tokenizer = tokenizers::Tokenizer::new(model);
    // clean_text, CJK characters as words, accents stripped because lower-cased
    tokenizer.with_normalizer(Some(BertNormalizer::new(true, true, None, true)))?;
    tokenizer.with_pre_tokenizer(Some(BertPreTokenizer));
    tokenizer.with_post_processor(Some(brackets));
    tokenizer.add_special_tokens(SPECIAL.map(|token| AddedToken::from(token, true)))?;
    Ok(tokenizer)
}
