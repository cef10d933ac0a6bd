//! Data in an annotation, packed: JSON, gzip, base64.

use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bounds::{self, Bounds, Measure};

/// Bytes that are unpacked before they are measured.
const PIECE: u64 = 64 << 10;

/// Why something cannot be unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnzipError {
    /// It is not gzip.
    NotGzip,
    /// It is over a limit, in a sentence.
    OverLimit(String),
}

/// Unpacks JSON. It is measured piece by piece, so a text that is over a limit takes no more memory than that limit.
///
/// # Errors
/// See [`UnzipError`].
pub fn unzip(gzip: &[u8], limits: Bounds) -> Result<Vec<u8>, UnzipError> {
    let (mut json, mut measure) = (Vec::new(), Measure::default());
    let mut reader = GzDecoder::new(gzip);
    loop {
        let read = reader.by_ref().take(PIECE).read_to_end(&mut json).map_err(|_| UnzipError::NotGzip)?;
        if read == 0 {
            return Ok(json);
        }
        measure.read(&json[json.len() - read..]);
        limits
            .text(&json)
            .and_then(|()| limits.measured(&measure))
            .map_err(|why| UnzipError::OverLimit(why.to_string()))?;
    }
}

/// Encodes as the text of an annotation of at most `limit` bytes. The error is a sentence about `what`, a plural.
pub fn encode(value: &impl Serialize, what: &str, limit: usize) -> Result<String, String> {
    let json = serde_json::to_vec(value).map_err(|e| e.to_string())?;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::new(6));
    let packed = gzip.write_all(&json).and_then(|()| gzip.finish()).map_err(|e| e.to_string())?;
    let text = BASE64.encode(packed);
    if text.len() > limit {
        return Err(format!("the {what} take {} bytes; the limit is {limit}", text.len()));
    }
    Ok(text)
}

/// Reads what [`encode`] wrote; `None` for anything else.
pub fn decode<T: DeserializeOwned>(text: &str) -> Option<T> {
    let packed = BASE64.decode(text).ok()?;
    serde_json::from_slice(&unzip(&packed, bounds::PACKED).ok()?).ok()
}
