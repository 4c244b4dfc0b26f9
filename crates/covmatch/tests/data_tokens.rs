//! Cleaned captions and token ids equal those of Python's re and Hugging Face's tokenizers
//! (python/goldens/data_tokens.py).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

use std::path::{Path, PathBuf};

use covmatch::data::caption::{MAX_WORDS, clean};
use covmatch::data::tokens::{MAX_TOKENS, Tokenizer};
use serde_json::Value;

fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens")
}

fn golden(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(goldens().join(name)).unwrap()).unwrap()
}

fn small_tokenizer() -> Tokenizer {
    Tokenizer::open(&goldens().join("data_vocab.txt")).unwrap()
}

fn numbers(value: &Value) -> Vec<i64> {
    match value {
        Value::Array(values) => values.iter().flat_map(numbers).collect(),
        value => vec![value.as_i64().unwrap()],
    }
}

fn ids(tokenizer: &Tokenizer, text: &str) -> Vec<i64> {
    tokenizer.ids(text).unwrap().into_iter().map(i64::from).collect()
}

#[test]
fn cleaned_captions_equal_those_of_the_protocols_regular_expressions() {
    let golden = golden("data_tokens.json");
    let strings = golden["strings"].as_array().unwrap();
    assert!(strings.len() >= 30);
    for row in strings {
        let text = row["text"].as_str().unwrap();
        assert_eq!(clean(text, MAX_WORDS), row["clean"].as_str().unwrap(), "{text:?}");
    }
}

#[test]
fn token_ids_equal_hugging_faces_on_tricky_strings() {
    let golden = golden("data_tokens.json");
    let tokenizer = small_tokenizer();
    for row in golden["strings"].as_array().unwrap() {
        let text = row["text"].as_str().unwrap();
        assert_eq!(ids(&tokenizer, text), numbers(&row["ids"]), "{text:?}");
        assert_eq!(ids(&tokenizer, &clean(text, MAX_WORDS)), numbers(&row["clean_ids"]), "{text:?} cleaned");
    }
}

#[test]
fn a_long_text_is_cut_to_512_tokens() {
    let golden = golden("data_tokens.json");
    let ours = ids(&small_tokenizer(), golden["long"]["text"].as_str().unwrap());
    assert_eq!(ours.len(), MAX_TOKENS);
    assert_eq!(ours, numbers(&golden["long"]["ids"]));
}

#[test]
fn a_batch_is_padded_to_its_longest_caption() {
    let golden = golden("data_tokens.json");
    let texts: Vec<_> = golden["batch"]["texts"].as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect();
    let batch = small_tokenizer().encode(&texts).unwrap();
    assert_eq!((batch.rows, batch.length), (texts.len(), golden["batch"]["ids"][0].as_array().unwrap().len()));
    assert_eq!(batch.ids, numbers(&golden["batch"]["ids"]));
    assert_eq!(batch.mask.iter().map(|&m| m as i64).collect::<Vec<_>>(), numbers(&golden["batch"]["mask"]));
}

#[test]
fn no_captions_are_an_empty_batch() {
    let batch = small_tokenizer().encode::<&str>(&[]).unwrap();
    assert_eq!((batch.rows, batch.length, batch.ids.len(), batch.mask.len()), (0, 0, 0, 0));
}

#[test]
fn a_file_that_is_no_tokenizer_is_named_with_the_cause() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Tokenizer::open(folder.path()).unwrap_err().to_string();
    assert!(missing.contains("vocab.txt"), "{missing}");

    let vocabulary = folder.path().join("vocab.txt");
    std::fs::write(&vocabulary, "[PAD]\n[UNK]\n[CLS]\ndog\n").unwrap();
    let incomplete = Tokenizer::open(folder.path()).unwrap_err().to_string();
    assert!(incomplete.contains("vocab.txt") && incomplete.contains("[SEP]"), "{incomplete}");

    let json = folder.path().join("tokenizer.json");
    std::fs::write(&json, "{\"version\": 1}").unwrap();
    let wrong = Tokenizer::open(folder.path()).unwrap_err().to_string();
    assert!(wrong.contains("tokenizer.json"), "{wrong}");
}

/// FNV-1a over each sequence's length and ids, as little-endian 32-bit integers.
fn digest<'a>(tokenizer: &Tokenizer, texts: impl Iterator<Item = std::borrow::Cow<'a, str>>) -> (String, usize) {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut tokens = 0;
    for text in texts {
        let ids = tokenizer.ids(&text).unwrap();
        tokens += ids.len();
        for byte in [ids.len() as u32].into_iter().chain(ids).flat_map(u32::to_le_bytes) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    (format!("{hash:016x}"), tokens)
}

#[test]
fn token_ids_of_all_flickr8k_captions_equal_hugging_faces() {
    let (Some(data), Some(models)) = (std::env::var_os("COVMATCH_FLICKR8K"), std::env::var_os("COVMATCH_MODELS"))
    else {
        println!("SKIPPED: set COVMATCH_FLICKR8K (folder of dataset_flickr8k.json) and COVMATCH_MODELS (of minilm-l6)");
        return;
    };
    let folder = Path::new(&models).join("minilm-l6");
    let json = std::fs::read(Path::new(&data).join("dataset_flickr8k.json")).unwrap();
    let annotations: Value = serde_json::from_slice(&json).unwrap();
    let captions: Vec<&str> = annotations["images"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|image| image["sentences"].as_array().unwrap())
        .map(|sentence| sentence["raw"].as_str().unwrap())
        .collect();

    let golden = golden("data_tokens_digest.json");
    assert_eq!(captions.len() as u64, golden["captions"].as_u64().unwrap());
    for file in ["tokenizer.json", "vocab.txt"] {
        let tokenizer = Tokenizer::open(&folder.join(file)).unwrap();
        let (raw, _) = digest(&tokenizer, captions.iter().map(|&text| text.into()));
        let (cleaned, tokens) = digest(&tokenizer, captions.iter().map(|&text| clean(text, MAX_WORDS).into()));
        assert_eq!(tokens as u64, golden["tokens"].as_u64().unwrap(), "{file}");
        assert_eq!(raw, golden["raw"].as_str().unwrap(), "{file}");
        assert_eq!(cleaned, golden["cleaned"].as_str().unwrap(), "{file}");
    }
}
