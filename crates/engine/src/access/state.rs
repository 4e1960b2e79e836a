//! All tokens as last read, and the identity that a caller has by them. Reads none itself.

use super::admitted::{self, Admitted};
use hashbrown::HashMap;
use parking_lot::RwLock;
use punctual_contract::access::{Token, Tokens};
use punctual_domain::{
    access::{Grant, Role, Secret, SecretHash, TokenId},
    time::Millis,
};
use std::sync::{
    Arc,
    atomic::{
        AtomicBool, AtomicI64,
        Ordering::{Relaxed, SeqCst},
    },
};
use tokio::time::Instant;

/// The name, in histories and in the audit, of a token that no store has.
const ADMIN: &str = "admin";

/// A valid token.
#[derive(Debug)]
pub struct Identity {
    /// `None` for the token of the configuration.
    pub id: Option<TokenId>,
    pub name: String,
    pub grant: Grant,
    /// The author in histories: name and id.
    pub by: String,
    pub(super) token: Option<Token>,
    pub(super) used_at: Arc<AtomicI64>,
}

/// The result of checking a token, or a missing one.
#[derive(Clone, Debug)]
pub enum Identified {
    /// There are no tokens: anybody may do anything.
    Anyone,
    As(Admitted),
    /// The reason, for the caller. Only a caller with a token's secret learns anything about that token.
    Refused(&'static str),
}

#[derive(Debug)]
pub(crate) struct Access {
    admin: Option<(SecretHash, Arc<Identity>)>,
    pub(super) known: RwLock<Arc<KnownTokens>>,
    pub(super) is_loaded: AtomicBool,
    pub(super) used_written_at: AtomicI64,
    /// Notifies callers of long requests of changes.
    pub(super) changes: admitted::Changes,
    /// The instant of the last search of the store for an unknown token.
    pub(super) looked_at: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Debug, Default)]
pub(super) struct KnownTokens {
    pub(super) revision: i64,
    /// The instant until which requests without a token are accepted. `None` if they are refused.
    pub(super) required_at: Option<Millis>,
    pub(super) tokens: HashMap<String, Arc<Identity>>,
}

impl Identity {
    fn admin() -> Self {
        Self {
            id: None,
            name: ADMIN.to_owned(),
            grant: Grant::everywhere(Role::Admin),
            by: ADMIN.to_owned(),
            token: None,
            used_at: Arc::default(),
        }
    }

    pub(super) fn of(token: Token, used_at: Arc<AtomicI64>) -> Self {
        Self {
            id: Some(token.id.clone()),
            name: token.name.clone(),
            grant: token.grant.clone(),
            by: format!("{} ({})", token.name, token.id),
            token: Some(token),
            used_at,
        }
    }

    /// `None` if the token does not expire.
    #[must_use]
    pub fn expires_at(&self) -> Option<Millis> {
        self.token.as_ref()?.expires_at
    }

    /// Returns `None` if the secret is valid. It always compares both secrets, so that the duration reveals nothing.
    pub(super) fn refusal(&self, sent: &SecretHash, now: Millis) -> Option<&'static str> {
        let Some(token) = &self.token else { return Some(UNKNOWN) };
        let is_present = token.secret.matches(sent);
        let is_previous = token
            .previous
            .as_ref()
            .is_some_and(|previous| previous.secret.matches(sent) & (now < previous.until));
        if !(is_present | is_previous) {
            return Some(UNKNOWN);
        }
        if token.revoked.is_some() {
            return Some("the token was revoked");
        }
        token.expires_at.is_some_and(|expires_at| expires_at <= now).then_some("the token has expired")
    }
}

pub(super) const UNKNOWN: &str = "the token is not known";
pub(super) const NO_TOKEN: &str = "send Authorization: Bearer <token>";

impl Access {
    pub(crate) fn new(admin_token: Option<SecretHash>) -> Self {
        Self {
            admin: admin_token.map(|admin_token| (admin_token, Arc::new(Identity::admin()))),
            known: RwLock::default(),
            is_loaded: AtomicBool::new(false),
            used_written_at: AtomicI64::new(0),
            changes: admitted::Changes::new(),
            looked_at: tokio::sync::Mutex::default(),
        }
    }

    pub(super) fn known(&self) -> Arc<KnownTokens> {
        Arc::clone(&self.known.read())
    }

    /// These tokens are known here.
    pub(crate) fn is_current(&self, revision: i64) -> bool {
        self.is_loaded.load(SeqCst) && self.known.read().revision == revision
    }

    /// Once a token has existed, access is never open again, even after that token is revoked.
    fn is_configured(&self) -> bool {
        self.admin.is_some() || self.known.read().revision > 0
    }

    /// True if requests without a token are refused. After the creation of the first token, they may be accepted for
    /// some time.
    pub(super) fn is_required(&self, now: Millis) -> bool {
        let accepts_none = |known: &KnownTokens| known.required_at.is_some_and(|at| now < at);
        self.is_configured() && (self.admin.is_some() || !accepts_none(&self.known()))
    }

    /// Replaces the known tokens, unless newer ones are known. Noted uses are preserved.
    pub(super) fn replace(&self, read: Tokens) {
        let mut known = self.known.write();
        if self.is_loaded.load(SeqCst) && read.revision < known.revision {
            return;
        }
        let identity = |token: Token| {
            let id = token.id.as_str().to_owned();
            let used_at = known.tokens.get(&id).map(|token| Arc::clone(&token.used_at)).unwrap_or_default();
            (id, Arc::new(Identity::of(token, used_at)))
        };
        let required_at = read.required_at();
        let tokens = read.all.into_iter().map(identity).collect();
        *known = Arc::new(KnownTokens { revision: read.revision, required_at, tokens });
        drop(known);
        self.is_loaded.store(true, SeqCst);
        self.changes.notify();
    }

    pub(super) fn identify(&self, sent: Option<&str>, now: Millis) -> Identified {
        if !self.is_configured() {
            return Identified::Anyone;
        }
        let Some(sent) = sent else {
            return if self.is_required(now) { Identified::Refused(NO_TOKEN) } else { Identified::Anyone };
        };
        let hash = SecretHash::of(sent);
        if let Some((admin, identity)) = &self.admin
            && admin.matches(&hash)
        {
            return Identified::As(Admitted::with(Arc::clone(identity), hash));
        }
        let Some(id) = Secret::id_in(sent) else { return Identified::Refused(UNKNOWN) };
        let found = self.known.read().tokens.get(id).map(Arc::clone);
        let Some(identity) = found else { return Identified::Refused(UNKNOWN) };
        if let Some(refusal) = identity.refusal(&hash, now) {
            return Identified::Refused(refusal);
        }
        identity.used_at.store(now.0, Relaxed);
        Identified::As(Admitted::with(identity, hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_contract::access::{Previous, Revoked};

    const NOW: Millis = Millis(1_000_000);

    fn secret(seed: u8) -> Secret {
        Secret::from_random([1; 8], [seed; 32])
    }

    fn token() -> Token {
        Token {
            id: secret(1).id().clone(),
            name: "mailer".to_owned(),
            grant: Grant::everywhere(Role::Submitter),
            secret: secret(1).hash(),
            previous: None,
            created_at: NOW,
            created_by: "test".to_owned(),
            expires_at: None,
            rotated_at: None,
            revoked: None,
            used_at: None,
            revision: 1,
            required_at: None,
        }
    }

    fn with(tokens: Vec<Token>) -> Access {
        let access = Access::new(None);
        access.replace(Tokens { revision: i64::try_from(tokens.len()).unwrap(), all: tokens });
        access
    }

    fn is_good(access: &Access, sent: &Secret, now: Millis) -> bool {
        matches!(access.identify(Some(sent.reveal()), now), Identified::As(_))
    }

    #[test]
    fn without_tokens_anybody_may_and_with_one_nobody_without_it() {
        assert!(matches!(with(vec![]).identify(None, NOW), Identified::Anyone));
        let access = with(vec![token()]);
        assert!(matches!(access.identify(None, NOW), Identified::Refused(_)));
        assert!(is_good(&access, &secret(1), NOW));
        assert!(!is_good(&access, &secret(2), NOW), "the right id with another secret");
        assert!(matches!(access.identify(Some("punctual_x_y"), NOW), Identified::Refused(_)));
    }

    #[test]
    fn until_a_token_is_required_nothing_may_be_sent_but_nothing_wrong() {
        let first = Token { required_at: Some(Millis(NOW.0 + 10)), ..token() };
        let access = with(vec![first]);
        let before = Millis(NOW.0 + 9);
        assert!(matches!(access.identify(None, before), Identified::Anyone));
        assert!(is_good(&access, &secret(1), before));
        assert!(!is_good(&access, &secret(2), before), "a wrong token is found before it matters");
        assert_eq!(access.refusal(&Admitted::without_token(), before), None);
        let from = Millis(NOW.0 + 10);
        assert!(matches!(access.identify(None, from), Identified::Refused(_)));
        assert_eq!(access.refusal(&Admitted::without_token(), from), Some(NO_TOKEN));
        let mut changes = access.changes_seen();
        access.report_expired(before);
        changes.mark_unchanged();
        access.report_expired(from);
        assert!(changes.has_changed().unwrap(), "calls that wait are looked at again");
    }

    #[test]
    fn a_revoked_or_expired_token_is_refused_and_it_does_not_fall_open_again() {
        let revoked = Token { revoked: Some(Revoked { at: NOW, by: String::new() }), ..token() };
        let access = with(vec![revoked]);
        assert!(!is_good(&access, &secret(1), NOW));
        assert!(matches!(access.identify(None, NOW), Identified::Refused(_)));
        let access = with(vec![Token { expires_at: Some(NOW), ..token() }]);
        assert!(is_good(&access, &secret(1), Millis(NOW.0 - 1)));
        assert!(!is_good(&access, &secret(1), NOW));
    }

    #[test]
    fn the_secret_before_is_good_until_its_time_is_over() {
        let previous = Some(Previous { secret: secret(2).hash(), until: NOW });
        let access = with(vec![Token { previous, ..token() }]);
        assert!(is_good(&access, &secret(2), Millis(NOW.0 - 1)));
        assert!(!is_good(&access, &secret(2), NOW));
        assert!(is_good(&access, &secret(1), NOW));
    }

    #[test]
    fn the_token_of_the_configuration_is_an_admin() {
        let access = Access::new(Some(SecretHash::of("a long word that nobody guesses")));
        assert!(matches!(access.identify(None, NOW), Identified::Refused(_)));
        let Identified::As(admitted) = access.identify(Some("a long word that nobody guesses"), NOW) else {
            panic!("it is good");
        };
        let identity = admitted.identity().unwrap();
        assert_eq!((identity.by.as_str(), identity.grant.reaches_everything()), ("admin", true));
        assert!(matches!(access.identify(Some("another word"), NOW), Identified::Refused(_)));
    }

    #[test]
    fn an_older_reading_does_not_bring_a_revoked_token_back() {
        let access = with(vec![]);
        let revoked = Token { revoked: Some(Revoked { at: NOW, by: String::new() }), ..token() };
        access.replace(Tokens { revision: 2, all: vec![revoked] });
        access.replace(Tokens { revision: 1, all: vec![token()] });
        assert!(!is_good(&access, &secret(1), NOW));
    }
}
