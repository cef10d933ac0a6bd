//! Data in an annotation, packed: JSON, gzip, base64.

use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Limit of the bytes that an annotation unpacks to.
const MAX_DECODED: u64 = 4 << 20;

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
    let mut json = Vec::new();
    GzDecoder::new(packed.as_slice()).take(MAX_DECODED).read_to_end(&mut json).ok()?;
    serde_json::from_slice(&json).ok()
}
