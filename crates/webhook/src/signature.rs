//! Signatures of requests by the rules of Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`, in base64. Two secrets
//! give two signatures in one header, so that a receiver can change from one to the other. Must not read a clock.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::hmac;

const PREFIX: &str = "whsec_";
/// The length of a key in bytes, as the rules have it.
const KEY_LEN: std::ops::RangeInclusive<usize> = 24..=64;
/// The secrets of one receiver at one time.
const SECRETS_MAX: usize = 2;

/// Checks secrets as they are set.
///
/// # Errors
/// What is wrong with them. The text has no part of a secret.
pub fn checked_secrets(text: &str) -> Result<(), String> {
    keys(text).map(drop)
}

fn keys(text: &str) -> Result<Vec<hmac::Key>, String> {
    let secrets: Vec<&str> = text.split(' ').collect();
    if secrets.len() > SECRETS_MAX {
        return Err(format!("must have at most {SECRETS_MAX} secrets, separated by one space"));
    }
    secrets.into_iter().map(key).collect()
}

fn key(secret: &str) -> Result<hmac::Key, String> {
    let wrong = || {
        let (least, most) = (KEY_LEN.start(), KEY_LEN.end());
        format!(
            "must be `{PREFIX}` and the base64 of {least} to {most} random bytes: printf whsec_; openssl rand -base64 32"
        )
    };
    let encoded = secret.strip_prefix(PREFIX).ok_or_else(wrong)?;
    let bytes = STANDARD.decode(encoded).map_err(|_| wrong())?;
    if !KEY_LEN.contains(&bytes.len()) {
        return Err(wrong());
    }
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

/// The value of the header `webhook-signature`: a signature for each secret.
///
/// # Errors
/// If a secret is not one.
pub(crate) fn signatures(secrets: &str, id: &str, timestamp_s: i64, body: &[u8]) -> Result<String, String> {
    let mut signed = format!("{id}.{timestamp_s}.").into_bytes();
    signed.extend_from_slice(body);
    let signature = |key: hmac::Key| format!("v1,{}", STANDARD.encode(hmac::sign(&key, &signed)));
    Ok(keys(secrets)?.into_iter().map(signature).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the rules of Standard Webhooks.
    #[test]
    fn the_published_example_has_this_signature() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let body = br#"{"test": 2432232314}"#;
        let signed = signatures(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body).unwrap();
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn two_secrets_give_two_signatures() {
        let [old, new] = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"];
        let one = |secrets: &str| signatures(secrets, "a.1", 7, b"{}").unwrap();
        assert_eq!(one(&format!("{new} {old}")), format!("{} {}", one(new), one(old)));
    }

    #[test]
    fn what_is_no_secret_is_refused_and_not_shown() {
        for text in ["", "whsec_", "whsec_c2VjcmV0", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!", "a b c"] {
            let why = checked_secrets(text).unwrap_err();
            assert!(why.contains("must") && !why.contains("c2VjcmV0"), "{text}: {why}");
        }
    }
}
