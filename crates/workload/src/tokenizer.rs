//! Counting tokens without a network: vocabularies built into the program, and `tokenizer.json`
//! files.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tiktoken_rs::CoreBPE;

use crate::error::WorkloadError;
use crate::read::read_bounded;

/// The names that [`Tokenizer::open`] knows without a file.
pub const BUILTIN_NAMES: &str = "cl100k_base, o200k_base";

/// The largest `tokenizer.json` that is read. The largest in use (Gemma's) has about 35 MB.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Turns text into token ids and back. No special tokens are added. Text that spells one
/// (`<|endoftext|>`) is plain text to a builtin vocabulary, and what the file says to a file.
#[derive(Debug)]
pub struct Tokenizer(Kind);

#[derive(Debug)]
enum Kind {
    Builtin(Builtin),
    File(Box<File>),
}

/// A vocabulary that is part of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Builtin {
    /// `cl100k_base`: GPT-3.5 and GPT-4.
    Cl100k,
    /// `o200k_base`: GPT-4o and later; its ranks are those of gpt-oss, too.
    O200k,
}

struct File {
    path: PathBuf,
    model: tokenizers::Tokenizer,
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl From<Builtin> for Tokenizer {
    fn from(builtin: Builtin) -> Self {
        Self(Kind::Builtin(builtin))
    }
}

impl Tokenizer {
    /// The tokenizer that `name` means: a builtin one (`cl100k_base`, `o200k_base`), a
    /// `tokenizer.json` file, or a directory that holds one. A builtin vocabulary is not built
    /// before it is first used.
    ///
    /// # Errors
    /// When the file is missing or is no tokenizer. Nothing is ever downloaded.
    pub fn open(name: &str) -> Result<Self, WorkloadError> {
        match name {
            "cl100k_base" => Ok(Builtin::Cl100k.into()),
            "o200k_base" => Ok(Builtin::O200k.into()),
            _ => Self::file(Path::new(name)),
        }
    }

    /// Loads a `tokenizer.json` of Hugging Face's form, or the one in the directory `path`.
    /// Truncation and padding that it may ask for are switched off: they would falsify counts.
    ///
    /// # Errors
    /// When the file is missing, larger than 256 MiB or no tokenizer.
    pub fn file(path: &Path) -> Result<Self, WorkloadError> {
        let path = if path.is_dir() {
            path.join("tokenizer.json")
        } else {
            path.to_owned()
        };
        let error = |problem: String, remedy| {
            Err(WorkloadError::Tokenizer {
                name: path.display().to_string(),
                problem,
                remedy,
            })
        };
        let bytes = match read_bounded(&path, FILE_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(cause) => return error(cause.to_string(), REMEDY),
        };
        let mut model = match tokenizers::Tokenizer::from_bytes(&bytes) {
            Ok(model) => model,
            Err(cause) => return error(format!("not a tokenizer.json: {cause}"), REMEDY),
        };
        model.with_padding(None);
        if let Err(cause) = model.with_truncation(None) {
            return error(cause.to_string(), REMEDY);
        }
        Ok(Self(Kind::File(Box::new(File { path, model }))))
    }

    /// The builtin's name, or the path of the file.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.0 {
            Kind::Builtin(builtin) => builtin.name().to_owned(),
            Kind::File(file) => file.path.display().to_string(),
        }
    }

    /// The builtin vocabulary that this is, if it is one.
    #[must_use]
    pub fn builtin(&self) -> Option<Builtin> {
        match self.0 {
            Kind::Builtin(builtin) => Some(builtin),
            Kind::File(_) => None,
        }
    }

    /// The number of tokens of `text`.
    ///
    /// # Errors
    /// When a file's model cannot represent the text and has no token for the unknown.
    pub fn count(&self, text: &str) -> Result<u32, WorkloadError> {
        let count = match &self.0 {
            Kind::Builtin(builtin) => builtin.core().count_ordinary(text),
            Kind::File(file) => file.encoding(text)?.len(),
        };
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// The token ids of `text`.
    ///
    /// # Errors
    /// When a file's model cannot represent the text and has no token for the unknown.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, WorkloadError> {
        match &self.0 {
            Kind::Builtin(builtin) => Ok(builtin.core().encode_ordinary(text)),
            Kind::File(file) => Ok(file.encoding(text)?.get_ids().to_vec()),
        }
    }

    /// The text of token ids.
    ///
    /// # Errors
    /// When an id is not in the vocabulary, or the tokens' bytes are not UTF-8 (half a character).
    pub fn decode(&self, tokens: &[u32]) -> Result<String, WorkloadError> {
        let result = match &self.0 {
            Kind::Builtin(builtin) => builtin
                .core()
                .decode(tokens)
                .map_err(|cause| cause.to_string()),
            Kind::File(file) => file.text(tokens),
        };
        result.map_err(|problem| WorkloadError::Tokenizer {
            name: self.name(),
            problem,
            remedy: "decode only ids that this tokenizer has given",
        })
    }
}

const REMEDY: &str = "give a tokenizer.json file, a directory that holds one, or the name of a \
                      builtin tokenizer (cl100k_base, o200k_base)";

impl File {
    fn text(&self, tokens: &[u32]) -> Result<String, String> {
        // The library leaves unknown ids out of the text.
        if let Some(id) = tokens
            .iter()
            .find(|id| self.model.id_to_token(**id).is_none())
        {
            return Err(format!("no token has the id {id}"));
        }
        self.model
            .decode(tokens, false)
            .map_err(|cause| cause.to_string())
    }

    fn encoding(&self, text: &str) -> Result<tokenizers::Encoding, WorkloadError> {
        self.model
            .encode_fast(text, false)
            .map_err(|cause| WorkloadError::Tokenizer {
                name: self.path.display().to_string(),
                problem: cause.to_string(),
                remedy: "use the tokenizer of the model that is served, or a builtin one",
            })
    }
}

impl Builtin {
    fn name(self) -> &'static str {
        match self {
            Self::Cl100k => "cl100k_base",
            Self::O200k => "o200k_base",
        }
    }

    /// The vocabulary, built when it is first needed: that takes some 100 ms, during which a run
    /// could have been on the wire.
    fn core(self) -> &'static CoreBPE {
        static CL100K: OnceLock<CoreBPE> = OnceLock::new();
        static O200K: OnceLock<CoreBPE> = OnceLock::new();
        let built = "the vocabulary is part of the program and is built by every test run";
        match self {
            Self::Cl100k => CL100K.get_or_init(|| tiktoken_rs::cl100k_base().expect(built)),
            Self::O200k => O200K.get_or_init(|| tiktoken_rs::o200k_base().expect(built)),
        }
    }
}
