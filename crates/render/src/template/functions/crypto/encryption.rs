//! `encryptAES` and `decryptAES`: AES-256 in CBC mode, the key being the password's first 32 bytes.

use super::super::encoding;
use super::inputs::{Random, string};
use crate::template::function::{Context, FnResult};
use crate::template::value::Value;
use aes::Aes256;
use aes::cipher::{Array, BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};

const BLOCK: usize = 16;

#[expect(clippy::unnecessary_wraps, reason = "the type of a template function")]
pub fn encrypt(ctx: &Context, args: &[Value]) -> FnResult {
    let plain = string(args, 1);
    if plain.is_empty() {
        return Ok("".into());
    }
    // PKCS 7: a full block is padded with a second block.
    let padding = BLOCK - plain.len() % BLOCK;
    let padding = vec![u8::try_from(padding).expect("at most a block"); padding];
    let iv = Random(ctx).bytes::<BLOCK>();
    let mut text = [&iv, plain, &padding].concat();
    let mut mode = cbc::Encryptor::<Aes256>::new(&key(args).into(), &iv.into());
    for block in text[BLOCK..].as_chunks_mut::<BLOCK>().0 {
        mode.encrypt_block(Array::cast_from_core_mut(block));
    }
    Ok(encoding::encode(&text).into())
}

/// sprig does not check decrypted data; the messages are those of Go's panics.
pub fn decrypt(_: &Context, args: &[Value]) -> FnResult {
    let encoded = string(args, 1);
    if encoded.is_empty() {
        return Ok("".into());
    }
    let mut text = encoding::decode(encoded)?;
    if text.len() < BLOCK {
        // The first slice expression may reach into the spare capacity, but the second must not.
        let capacity = encoded.len() / 4 * 3;
        return Err(if capacity < BLOCK {
            format!("runtime error: slice bounds out of range [:{BLOCK}] with capacity {capacity}").into()
        } else {
            format!("runtime error: slice bounds out of range [{BLOCK}:{}]", text.len()).into()
        });
    }
    let (iv, rest) = text.split_at_mut(BLOCK);
    let (blocks, []) = rest.as_chunks_mut::<BLOCK>() else {
        return Err("crypto/cipher: input not full blocks".into());
    };
    let mut mode = cbc::Decryptor::<Aes256>::new_from_slices(&key(args), iv).expect("both lengths are right");
    for block in blocks {
        mode.decrypt_block(Array::cast_from_core_mut(block));
    }
    let Some(&padding) = rest.last() else {
        return Err("runtime error: index out of range [-1]".into());
    };
    match rest.len().checked_sub(padding.into()) {
        Some(end) => Ok(Value::str(&rest[..end])),
        None => Err(format!(
            "runtime error: slice bounds out of range [:-{}]",
            usize::from(padding).saturating_sub(rest.len())
        )
        .into()),
    }
}

fn key(args: &[Value]) -> [u8; 32] {
    let mut key = [0; 32];
    key.iter_mut().zip(string(args, 0)).for_each(|(to, from)| *to = *from);
    key
}
