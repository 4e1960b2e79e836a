//! The secret of a token: its form, its stored form, and its comparison. Never printed by `Debug`.

use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};
use subtle::ConstantTimeEq as _;

/// The prefix of every secret, by which people and repository scanners recognize it.
const PREFIX: &str = "punctual_";
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// 60 bits.
const ID_CHARS: usize = 12;
/// 256 bits, five a character.
const SECRET_CHARS: usize = 52;

/// The part of a token that everybody may see: it names the token in lists, logs and the audit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenId(Arc<str>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of a token")]
pub struct InvalidTokenId(pub String);

impl TokenId {
    /// # Errors
    /// When it does not have the form of `Secret::id`.
    pub fn new(text: &str) -> Result<Self, InvalidTokenId> {
        if text.len() == ID_CHARS && is_plain(text) {
            return Ok(Self(text.into()));
        }
        Err(InvalidTokenId(text.chars().take(ID_CHARS * 2).collect()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for TokenId {
    type Error = InvalidTokenId;
    fn try_from(text: String) -> Result<Self, InvalidTokenId> {
        Self::new(&text)
    }
}

impl From<TokenId> for String {
    fn from(id: TokenId) -> Self {
        id.0.as_ref().to_owned()
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The text that a caller sends: `punctual_<id>_<secret>`. Shown once, and not stored here.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    id: TokenId,
    text: String,
}

impl Secret {
    /// A new token: eight random bytes for its id, 32 for its secret.
    #[must_use]
    pub fn from_random(id: [u8; 8], secret: [u8; 32]) -> Self {
        let id = TokenId(letters(&id, ID_CHARS).into());
        Self::of(id, secret)
    }

    /// Another secret for the same token.
    #[must_use]
    pub fn of(id: TokenId, secret: [u8; 32]) -> Self {
        let text = format!("{PREFIX}{id}_{}", letters(&secret, SECRET_CHARS));
        Self { id, text }
    }

    #[must_use]
    pub const fn id(&self) -> &TokenId {
        &self.id
    }

    /// The text that is sent. Must be shown only once.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.text
    }

    #[must_use]
    pub fn hash(&self) -> SecretHash {
        SecretHash::of(&self.text)
    }

    /// The id in a sent text, or `None` if it is not a token of ours.
    #[must_use]
    pub fn id_in(sent: &str) -> Option<&str> {
        let (id, secret) = sent.strip_prefix(PREFIX)?.split_once('_')?;
        let is_one = id.len() == ID_CHARS && secret.len() == SECRET_CHARS && is_plain(id) && is_plain(secret);
        is_one.then_some(id)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("id", &self.id).finish_non_exhaustive()
    }
}

fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| ALPHABET.contains(&byte))
}

/// The first bits of the bytes, five per letter; bits beyond the end are 0.
fn letters(bytes: &[u8], count: usize) -> String {
    let bit = |nth: usize| bytes.get(nth / 8).map_or(0, |byte| (byte >> (7 - nth % 8)) & 1);
    let letter = |nth: usize| {
        let five = (0..5).fold(0_u8, |five, at| (five << 1) | bit(nth * 5 + at));
        char::from(ALPHABET.get(usize::from(five)).copied().unwrap_or(b'a'))
    };
    (0..count).map(letter).collect()
}

/// The stored form of a secret. One fast hash suffices: slow ones protect guessable passwords, while these
/// 256 random bits cannot be guessed, however fast the hash is. A request costs one hash of a hundred bytes.
#[derive(Clone, Copy)]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    #[must_use]
    pub fn of(sent: &str) -> Self {
        Self(*blake3::hash(sent.as_bytes()).as_bytes())
    }

    /// Compares in constant time.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    #[must_use]
    pub fn to_hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    /// Returns `None` if the text does not have the form of `to_hex`.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text).ok().map(|hex| Self(*hex.as_bytes()))
    }
}

impl PartialEq for SecretHash {
    fn eq(&self, other: &Self) -> bool {
        self.matches(other)
    }
}

impl Eq for SecretHash {}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(seed: u8) -> Secret {
        Secret::from_random([seed; 8], [seed; 32])
    }

    #[test]
    fn a_secret_is_recognised_and_its_id_is_in_it() {
        let secret = secret(0b1010_0110);
        assert!(
            secret.reveal().starts_with("punctual_") && secret.reveal().len() == 9 + 12 + 1 + 52,
            "{}",
            secret.reveal()
        );
        assert_eq!(Secret::id_in(secret.reveal()), Some(secret.id().as_str()));
        assert_eq!(TokenId::new(secret.id().as_str()).unwrap(), *secret.id());
        let other = Secret::of(secret.id().clone(), [7; 32]);
        assert_eq!(other.id(), secret.id());
        assert!(
            !other.hash().matches(&secret.hash()) && secret.hash().matches(&SecretHash::of(secret.reveal()))
        );
    }

    #[test]
    fn what_is_no_secret_has_no_id() {
        let secret = secret(3);
        let cut = &secret.reveal()[..secret.reveal().len() - 1];
        for text in
            ["", "punctual_", "punctual_abc_def", cut, &secret.reveal().to_uppercase(), &format!("{cut}_")]
        {
            assert_eq!(Secret::id_in(text), None, "{text}");
        }
        for id in ["", "abc", "abcdefghijk1", "ABCDEFGHIJKL", "../../../../x"] {
            assert!(TokenId::new(id).is_err(), "{id}");
        }
    }

    #[test]
    fn every_bit_of_the_random_bytes_counts() {
        let zero = Secret::from_random([0; 8], [0; 32]);
        for nth in 0..256 {
            let mut bytes = [0_u8; 32];
            bytes[nth / 8] = 1 << (nth % 8);
            assert_ne!(Secret::from_random([0; 8], bytes), zero, "{nth}");
        }
    }

    #[test]
    fn nothing_prints_a_secret() {
        let secret = secret(9);
        let said = format!("{secret:?} {:?} {:?}", secret.hash(), Some(secret.clone()));
        let hidden = secret.reveal().rsplit('_').next().unwrap();
        assert!(!said.contains(hidden) && !said.contains(&secret.hash().to_hex()), "{said}");
    }

    #[test]
    fn a_hash_comes_back_from_its_stored_form() {
        let hash = secret(5).hash();
        assert_eq!(SecretHash::from_hex(&hash.to_hex()), Some(hash));
        assert_eq!(SecretHash::from_hex("abc"), None);
    }
}
