//! Sessions without any state at the server: the token is in the cookie, with the time until which the cookie is good
//! and a seal that only the token's owner can make. So it is good at every engine behind a balancer; and the API
//! checks the token at each request, so that one that is revoked is signed out at once. Forms carry a seal of the
//! same kind.

use axum::http::{HeaderMap, header};
use blake3::Hash;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The cookie without TLS.
const COOKIE: &str = "punctual_session";
/// The cookie over TLS: browsers accept it from this host only, over TLS only, and send it to no other host.
const HOST_COOKIE: &str = "__Host-punctual_session";
/// The duration of a session from the last use.
pub(crate) const LASTS_MS: i64 = 12 * 3_600_000;
/// A cookie that is older than this is written again.
const SLIDES_AFTER_MS: i64 = 10 * 60_000;
const CONTEXT: &str = "punctual console 2026-11-24 seals of sessions and forms";
const VERSION: &str = "v1";
/// The text that the API gets for a session that no token has sealed. It is no token, and counts as a guess, like
/// every invalid token.
const UNSEALED: &str = "(a session that no token has sealed)";

/// Seals with it are good for one token only, or, where there are none, for one process.
#[derive(Clone)]
pub(crate) struct SealKey([u8; 32]);

impl std::fmt::Debug for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

impl SealKey {
    pub(crate) fn of_token(token: &str) -> Self {
        Self(blake3::derive_key(CONTEXT, token.as_bytes()))
    }

    /// Returns `None` if the system has no random numbers.
    pub(crate) fn random() -> Option<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).ok()?;
        Some(Self(key))
    }

    fn seal(&self, what: &str, until_ms: i64) -> Hash {
        blake3::keyed_hash(&self.0, format!("{what}\n{until_ms}").as_bytes())
    }

    /// Hashes are compared in constant time.
    fn is_sealed(&self, what: &str, until_ms: i64, seal: &str) -> bool {
        Hash::from_hex(seal).is_ok_and(|hex| hex == self.seal(what, until_ms))
    }

    /// The token for the forms of one page.
    pub(crate) fn form_token(&self, now_ms: i64) -> String {
        // The same for a while, so that what is rendered twice is the same.
        let until_ms = (now_ms / SLIDES_AFTER_MS + 1) * SLIDES_AFTER_MS + LASTS_MS;
        format!("{until_ms}.{}", self.seal("form", until_ms).to_hex())
    }

    pub(crate) fn made_form_token(&self, sent: &str, now_ms: i64) -> bool {
        let Some((until, seal)) = sent.split_once('.') else { return false };
        until.parse().is_ok_and(|until_ms: i64| until_ms > now_ms && self.is_sealed("form", until_ms, seal))
    }
}

/// The content of the cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Session {
    None,
    /// The cookie is no session: it cannot be read, or its seal is not of its token.
    Unsealed,
    /// There was one, and its time is over.
    Ended,
    Of {
        token: String,
        until_ms: i64,
        /// True if the request used TLS, at least as far as a proxy.
        is_tls: bool,
    },
}

/// The browser's cookie. If the server itself speaks TLS, a cookie that may have been set without TLS is ignored.
fn sent(headers: &HeaderMap, server_is_tls: bool) -> Option<(String, bool)> {
    let secure = cookie(headers, HOST_COOKIE).map(|cookie| (cookie, true));
    secure.or_else(|| cookie(headers, COOKIE).filter(|_| !server_is_tls).map(|cookie| (cookie, false)))
}

/// The browser has sent one, good or not.
pub(crate) fn was_sent(headers: &HeaderMap) -> bool {
    [HOST_COOKIE, COOKIE]
        .into_iter()
        .any(|text| cookie(headers, text).is_some_and(|cookie| !cookie.is_empty()))
}

impl Session {
    pub(crate) fn of(headers: &HeaderMap, now_ms: i64, server_is_tls: bool) -> Self {
        let Some((text, is_tls)) = sent(headers, server_is_tls) else { return Self::None };
        // As it is after the sign-out.
        if text.is_empty() {
            return Self::None;
        }
        let Some((until_ms, token, seal)) = taken_apart(&text) else { return Self::Unsealed };
        let Ok(token) = percent_decode_str(token).decode_utf8() else { return Self::Unsealed };
        if !SealKey::of_token(&token).is_sealed("session", until_ms, seal) {
            return Self::Unsealed;
        }
        match until_ms > now_ms {
            true => Self::Of { token: token.into_owned(), until_ms, is_tls },
            false => Self::Ended,
        }
    }

    pub(crate) fn token(&self) -> Option<&str> {
        match self {
            Self::Of { token, .. } => Some(token),
            Self::None | Self::Unsealed | Self::Ended => None,
        }
    }

    /// The token for the API. `None` if the request has no credentials.
    pub(crate) fn shown(&self) -> Option<&str> {
        if *self == Self::Unsealed { Some(UNSEALED) } else { self.token() }
    }

    /// `None` if the session does not end.
    pub(crate) const fn until_ms(&self) -> Option<i64> {
        match self {
            Self::Of { until_ms, .. } => Some(*until_ms),
            Self::None | Self::Unsealed | Self::Ended => None,
        }
    }

    /// The cookie is to be written again, so that it ends so long after the last use.
    pub(crate) fn slides(&self, now_ms: i64) -> bool {
        matches!(self, Self::Of { until_ms, .. } if until_ms - now_ms < LASTS_MS - SLIDES_AFTER_MS)
    }
}

fn taken_apart(text: &str) -> Option<(i64, &str, &str)> {
    let rest = text.strip_prefix(VERSION)?.strip_prefix('.')?;
    let (until, rest) = rest.split_once('.')?;
    let (token, seal) = rest.rsplit_once('.')?;
    Some((until.parse().ok()?, token, seal))
}

/// True if the token can be sent to the API: that of a configuration may be any text.
pub(crate) fn is_presentable(token: &str) -> bool {
    (1..=512).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
}

/// The value of `Set-Cookie`.
pub(crate) fn written(token: &str, now_ms: i64, is_tls: bool) -> String {
    let until_ms = now_ms + LASTS_MS;
    let seal = SealKey::of_token(token).seal("session", until_ms).to_hex();
    // The prefix asks for this path and for `Secure`.
    let (name, path, secure) = if is_tls { (HOST_COOKIE, "/", "; Secure") } else { (COOKIE, "/console", "") };
    let age = LASTS_MS / 1_000;
    let token = utf8_percent_encode(token, NON_ALPHANUMERIC);
    format!(
        "{name}={VERSION}.{until_ms}.{token}.{seal}; Path={path}; Max-Age={age}; HttpOnly; SameSite=Strict{secure}"
    )
}

/// The headers that clear both kinds of cookies.
pub(crate) fn cleared() -> [String; 2] {
    [
        format!("{COOKIE}=; Path=/console; Max-Age=0; HttpOnly; SameSite=Strict"),
        format!("{HOST_COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict; Secure"),
    ]
}

/// The first of this name.
pub(crate) fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|header| header.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|part| part.trim().split_once('='));
    pairs.find(|pair| pair.0 == name).map(|pair| pair.1.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(written: &str) -> HeaderMap {
        let pair = written.split(';').next().unwrap();
        HeaderMap::from_iter([(header::COOKIE, format!("a=b; {pair}").parse().unwrap())])
    }

    #[test]
    fn a_session_is_what_was_written_until_its_time_is_over() {
        let token = "punctual_abc_def; of \"me\".";
        for (is_tls, parts) in [
            (
                true,
                &["__Host-punctual_session=v1.", "; Path=/;", "; HttpOnly", "; SameSite=Strict", "; Secure"]
                    [..],
            ),
            (false, &["punctual_session=v1.", "; Path=/console;", "; HttpOnly", "; SameSite=Strict"]),
        ] {
            let written = written(token, 1_000, is_tls);
            for part in parts {
                assert!(written.contains(part), "{part}: {written}");
            }
            assert_eq!(written.contains("Secure"), is_tls);
            let headers = headers(&written);
            let session = Session::of(&headers, 1_000, is_tls);
            assert_eq!(session.token(), Some(token));
            assert!(matches!(session, Session::Of { is_tls: tls, .. } if tls == is_tls));
            assert!(!session.slides(1_000 + SLIDES_AFTER_MS) && session.slides(1_001 + SLIDES_AFTER_MS));
            assert_eq!(Session::of(&headers, 1_000 + LASTS_MS, is_tls), Session::Ended);
        }
        assert_eq!(Session::of(&HeaderMap::new(), 0, false), Session::None);
    }

    #[test]
    fn over_tls_no_cookie_is_taken_that_another_host_or_plain_http_may_have_set() {
        let plain = headers(&written("punctual_abc_def", 1_000, false));
        assert_eq!(Session::of(&plain, 1_000, true), Session::None);
        assert!(was_sent(&plain) && !was_sent(&HeaderMap::new()));
        let secure = written("punctual_abc_def", 1_000, true);
        let both = format!("punctual_session=v1.1.x.y; {}", secure.split(';').next().unwrap());
        let both = HeaderMap::from_iter([(header::COOKIE, both.parse().unwrap())]);
        assert_eq!(Session::of(&both, 1_000, false).token(), Some("punctual_abc_def"));
        assert!(cleared().iter().all(|text| text.contains("=; ") && text.contains("Max-Age=0")));
    }

    #[test]
    fn a_session_that_was_changed_is_none() {
        let good = written("punctual_abc_def", 1_000, false);
        let longer = good.replace("43201000", "99999999999");
        assert_ne!(longer, good);
        for bad in
            [longer, good.replace("%5Fdef", "%5Fdeg"), good.replace("v1.", "v2."), good.replace("v1.", "")]
        {
            assert_eq!(Session::of(&headers(&bad), 1_000, false), Session::Unsealed, "{bad}");
        }
    }

    #[test]
    fn the_seal_of_a_form_is_good_for_its_owner_and_for_a_while() {
        let (mine, other) = (SealKey::of_token("a"), SealKey::of_token("b"));
        let token = mine.form_token(5);
        assert!(mine.made_form_token(&token, 6));
        assert!(!mine.made_form_token(&token, 5 + LASTS_MS + SLIDES_AFTER_MS));
        assert!(!other.made_form_token(&token, 6));
        assert!(SealKey::random().is_some_and(|random| !random.made_form_token(&token, 6)));
        for bad in ["", ".", "1", "99999999999999.", "99999999999999.00"] {
            assert!(!mine.made_form_token(bad, 6), "{bad}");
        }
    }

    #[test]
    fn only_what_a_header_can_carry_is_taken_for_a_token() {
        assert!(is_presentable("punctual_abc_def.1-2") && is_presentable("words; and \"more\""));
        for bad in ["", "ä", "a\n", "a\u{7f}", &"a".repeat(513)] {
            assert!(!is_presentable(bad), "{bad:?}");
        }
    }
}
