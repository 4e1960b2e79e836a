//! Who may call, as this engine knows it: all tokens, in memory. A request costs one hash and one look-up; the store is
//! looked at a few times a second, and while it is away, what is known goes on being honoured. Must not know a request.

mod admitted;
pub mod tokens;

pub use admitted::Admitted;

use crate::{answer::Error, core::Core, engine::Engine};
use hashbrown::HashMap;
use parking_lot::RwLock;
use punctual_contract::{
    Error as BackendError,
    access::{Token, Tokens},
};
use punctual_domain::{
    access::{Grant, Role, Secret, SecretHash, TokenId},
    time::Millis,
};
use std::{
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicI64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::Duration,
};
use tokio::time::Instant;

/// Between two looks whether a token was changed: a revocation holds at every engine within a second.
pub(crate) const PERIOD: Duration = Duration::from_millis(300);
/// How often the last uses of tokens are written.
const USED_PERIOD_MS: i64 = 60_000;
/// A token that is not known is looked for in the store; all who bring one look together, and so often at most. However
/// many bad tokens come, the store is asked twenty times a second.
const LOOK_PERIOD: Duration = Duration::from_millis(50);
/// In histories and in the audit, of a token that no store has.
const ADMIN: &str = "admin";

/// A token that was found good.
#[derive(Debug)]
pub struct Identity {
    /// None: the token of the configuration.
    pub id: Option<TokenId>,
    pub name: String,
    pub grant: Grant,
    /// In histories: name and id.
    pub by: String,
    token: Option<Token>,
    used_at: Arc<AtomicI64>,
}

/// What came of a token that was sent, or of none.
#[derive(Clone, Debug)]
pub enum Identified {
    /// There are no tokens: anybody may do anything.
    Anyone,
    As(Admitted),
    /// Why not, for whoever sent it. What is said of a token is said only to those who have its secret.
    Refused(&'static str),
}

#[derive(Debug)]
pub(crate) struct Access {
    admin: Option<(SecretHash, Arc<Identity>)>,
    known: RwLock<Arc<Known>>,
    is_loaded: AtomicBool,
    used_written_at: AtomicI64,
    /// For those who stay a while.
    changes: admitted::Changes,
    /// When the store was last looked at for somebody who brought a token that was not known.
    looked_at: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Debug, Default)]
struct Known {
    revision: i64,
    /// Until then requests without a token are accepted. None: they are not.
    required_at: Option<Millis>,
    tokens: HashMap<String, Arc<Identity>>,
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

    fn of(token: Token, used_at: Arc<AtomicI64>) -> Self {
        Self {
            id: Some(token.id.clone()),
            name: token.name.clone(),
            grant: token.grant.clone(),
            by: format!("{} ({})", token.name, token.id),
            token: Some(token),
            used_at,
        }
    }

    /// None: it does not expire.
    #[must_use]
    pub fn expires_at(&self) -> Option<Millis> {
        self.token.as_ref()?.expires_at
    }

    /// None: it is good. Both secrets are compared whatever comes of the first.
    fn refusal(&self, sent: &SecretHash, now: Millis) -> Option<&'static str> {
        let Some(token) = &self.token else { return Some(UNKNOWN) };
        let is_present = token.secret.matches(sent);
        let is_previous =
            token.previous.as_ref().is_some_and(|it| it.secret.matches(sent) & (now < it.until));
        if !(is_present | is_previous) {
            return Some(UNKNOWN);
        }
        if token.revoked.is_some() {
            return Some("the token was revoked");
        }
        token.expires_at.is_some_and(|it| it <= now).then_some("the token has expired")
    }
}

const UNKNOWN: &str = "the token is not known";
const NO_TOKEN: &str = "send Authorization: Bearer <token>";

impl Access {
    pub(crate) fn new(admin_token: Option<SecretHash>) -> Self {
        Self {
            admin: admin_token.map(|it| (it, Arc::new(Identity::admin()))),
            known: RwLock::default(),
            is_loaded: AtomicBool::new(false),
            used_written_at: AtomicI64::new(0),
            changes: admitted::Changes::new(),
            looked_at: tokio::sync::Mutex::default(),
        }
    }

    fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.read())
    }

    /// Once there was a token, it never is open again, whatever became of that token.
    fn is_configured(&self) -> bool {
        self.admin.is_some() || self.known.read().revision > 0
    }

    /// Whether requests without a token are refused. The first token may have been made with a time in which they are not.
    fn is_required(&self, now: Millis) -> bool {
        let accepts_none = |known: &Known| known.required_at.is_some_and(|at| now < at);
        self.is_configured() && (self.admin.is_some() || !accepts_none(&self.known()))
    }

    /// Unless something newer is known. What is noted of uses stays.
    fn replace(&self, read: Tokens) {
        let mut known = self.known.write();
        if self.is_loaded.load(SeqCst) && read.revision < known.revision {
            return;
        }
        let identity = |token: Token| {
            let id = token.id.as_str().to_owned();
            let used_at = known.tokens.get(&id).map(|it| Arc::clone(&it.used_at)).unwrap_or_default();
            (id, Arc::new(Identity::of(token, used_at)))
        };
        let required_at = read.required_at();
        let tokens = read.all.into_iter().map(identity).collect();
        *known = Arc::new(Known { revision: read.revision, required_at, tokens });
        drop(known);
        self.is_loaded.store(true, SeqCst);
        self.changes.tell();
    }

    fn identify(&self, sent: Option<&str>, now: Millis) -> Identified {
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

/// Looks whether tokens have changed, and reads them if so; from time to time writes when they were used. How many times
/// they were read.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, BackendError> {
    // Before the store, which may be away: what ends by itself ends all the same.
    core.access.tell_of_ends(core.now());
    let read = look(core).await?;
    let (now, written_at) = (core.now(), core.access.used_written_at.load(Relaxed));
    if now.since(Millis(written_at)).abs() >= USED_PERIOD_MS {
        core.access.used_written_at.store(now.0, Relaxed);
        note_used(core).await?;
    }
    Ok(read)
}

async fn look(core: &Arc<Core>) -> Result<usize, BackendError> {
    let revision = core.store.access_revision().await?;
    if core.access.is_loaded.load(SeqCst) && core.access.known().revision == revision {
        return Ok(0);
    }
    core.access.replace(core.store.tokens().await?);
    Ok(1)
}

/// Writes the last uses that the store does not know.
pub(crate) async fn note_used(core: &Arc<Core>) -> Result<(), BackendError> {
    let known = core.access.known();
    let used = known.tokens.values().filter_map(|it| {
        let token = it.token.as_ref()?;
        let at = Some(Millis(it.used_at.load(Relaxed))).filter(|at| at.0 > 0);
        at.filter(|at| token.used_at.is_none_or(|known| known < *at)).map(|at| (token.id.clone(), at))
    });
    let used: Vec<(TokenId, Millis)> = used.collect();
    if used.is_empty() { Ok(()) } else { core.store.note_tokens_used(used).await }
}

impl Engine {
    /// Who sent this. Costs a hash and a look-up; waits for nothing.
    #[must_use]
    pub fn identify(&self, sent: Option<&str>) -> Identified {
        self.core.access.identify(sent, self.core.now())
    }

    /// Whether callers need a token, as far as this engine knows; it does once [`Engine::access_is_known`] has answered.
    #[must_use]
    pub fn access_is_required(&self) -> bool {
        self.core.access.is_required(self.core.now())
    }

    /// Returns at once when the tokens have been read since the start. Nobody is let in before.
    ///
    /// # Errors
    /// A failing store.
    pub async fn access_is_known(&self) -> Result<(), Error> {
        if self.core.access.is_loaded.load(SeqCst) {
            return Ok(());
        }
        let core = Arc::clone(&self.core);
        self.run(async move { Ok(look(&core).await.map(drop)?) }).await
    }

    /// Looks for tokens that other engines have made just now. Who comes while somebody looks gets the same look, and
    /// who comes right after one gets none.
    ///
    /// # Errors
    /// A failing store.
    pub async fn look_for_tokens(&self) -> Result<(), Error> {
        let core = Arc::clone(&self.core);
        self.run(async move {
            let came_at = Instant::now();
            let mut looked_at = core.access.looked_at.lock().await;
            if looked_at.is_some_and(|it| it >= came_at || it.elapsed() < LOOK_PERIOD) {
                return Ok(());
            }
            *looked_at = Some(Instant::now());
            look(&core).await?;
            Ok(())
        })
        .await
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
        access.tell_of_ends(before);
        changes.mark_unchanged();
        access.tell_of_ends(from);
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
        let it = admitted.identity().unwrap();
        assert_eq!((it.by.as_str(), it.grant.reaches_everything()), ("admin", true));
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
