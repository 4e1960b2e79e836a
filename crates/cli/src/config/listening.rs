//! The listener of the API: address, TLS, proxies, limits on connections. Decides which addresses are too open.

use super::{
    Error, Layers,
    keys::{
        HTTP_BODIES_MAX_MIB, HTTP_BODY_TIMEOUT_MS, HTTP_CONNECTIONS_MAX, HTTP_CONNECTIONS_PER_ADDRESS_MAX,
        HTTP_HEADER_TIMEOUT_MS, HTTP_IDLE_TIMEOUT_MS, HTTP_LONG_POLLS_MAX, HTTP_WRITE_TIMEOUT_MS, LISTEN,
        LISTEN_PLAIN, TLS_CERT, TLS_CLIENT_CA, TLS_KEY, TRUSTED_PROXIES,
    },
    layers::Given,
    place::yes_or_no,
    secrets,
};
use punctual_server::{ListenerOptions, ServerOptions, TlsFiles};
use std::{error::Error as _, net::SocketAddr, path::PathBuf, time::Duration};

const TEN_MINUTES_MS: u64 = 600_000;

#[derive(Clone, Debug)]
pub(crate) struct Listening {
    pub(crate) address: SocketAddr,
    /// The settings as they were written.
    given: Given,
    /// Plain HTTP for everybody on a network.
    plain: bool,
    pub(crate) body_timeout: Duration,
    pub(crate) bodies_max_bytes: usize,
    pub(crate) listener: ListenerOptions,
}

impl Listening {
    pub(super) fn from_layers(layers: &Layers) -> Result<Self, Error> {
        let (address, plain) = (address(layers)?, yes_or_no(layers, LISTEN_PLAIN)?);
        let tls = tls(layers)?;
        let trusted = layers.get(TRUSTED_PROXIES).text.parse();
        let trusted_proxies = trusted.map_err(|reason: String| layers.invalid(TRUSTED_PROXIES, reason))?;
        let milliseconds = |key| layers.number(key, 100..=TEN_MINUTES_MS).map(Duration::from_millis);
        let some = |key| Ok(Some(layers.number(key, 0..=1_000_000)?).filter(|number| *number > 0));
        let listener = ListenerOptions {
            only_proxies: !address.ip().is_loopback() && tls.is_none() && !plain,
            tls,
            trusted_proxies,
            connections_max: some(HTTP_CONNECTIONS_MAX)?,
            connections_per_address_max: some(HTTP_CONNECTIONS_PER_ADDRESS_MAX)?,
            long_polls_max: some(HTTP_LONG_POLLS_MAX)?,
            header_timeout: milliseconds(HTTP_HEADER_TIMEOUT_MS)?,
            idle_timeout: milliseconds(HTTP_IDLE_TIMEOUT_MS)?,
            write_timeout: milliseconds(HTTP_WRITE_TIMEOUT_MS)?,
            ..ListenerOptions::default()
        };
        Ok(Self {
            address,
            given: layers.get(LISTEN),
            plain,
            body_timeout: milliseconds(HTTP_BODY_TIMEOUT_MS)?,
            bodies_max_bytes: layers.number::<usize>(HTTP_BODIES_MAX_MIB, 16..=1 << 20)? << 20,
            listener,
        })
    }

    /// The scheme of this server's addresses.
    pub(crate) const fn scheme(&self) -> &'static str {
        if self.listener.tls.is_some() { "https" } else { "http" }
    }

    /// Checks the address before a server starts. Without tokens every caller may do everything, and a token that is
    /// sent over a network in clear text is everybody's.
    pub(crate) fn may_listen(&self, access_is_required: bool) -> Result<(), Error> {
        if self.address.ip().is_loopback() {
            return Ok(());
        }
        if !access_is_required {
            return Err(self.refused(
                "no tokens are required (there are none, or the --grace of the first is not over), and every program that reaches that \
                 address could insert, read and cancel every task; make the first token with `punctual token create --name admin --role admin` and the same settings, or listen \
                 on a loopback address, such as 127.0.0.1:7450, with a proxy in front of it that checks its callers",
            ));
        }
        let has_proxies = !self.listener.trusted_proxies.is_empty();
        if self.listener.tls.is_none() && !self.plain && !has_proxies {
            return Err(self.refused(
                "tokens would cross the network in clear text; set tls.cert and tls.key, or name the proxies that speak \
                 TLS in front of it in trusted_proxies (all other clients are then refused), or, if nobody else can listen on \
                 that network, set listen_plain to true",
            ));
        }
        Ok(())
    }

    /// The warnings about insecure settings.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        let key = self.listener.tls.as_ref().map(|tls| &tls.key).filter(|key| secrets::is_open_to_all(key));
        let key = key.map(|key| {
            format!(
                "everybody on this machine can read {}, the key of {TLS_KEY}: chmod 600 it",
                key.display()
            )
        });
        key.into_iter().chain(self.hidden_callers())
    }

    /// True if plain HTTP is served on a network, to every caller.
    pub(crate) fn is_plain_on_a_network(&self) -> bool {
        !self.address.ip().is_loopback() && self.plain && self.listener.tls.is_none()
    }

    /// Why its callers cannot be distinguished, or `None` if they can.
    pub(crate) fn hidden_callers(&self) -> Option<String> {
        let hides_callers = self.is_plain_on_a_network() && self.listener.trusted_proxies.is_empty();
        hides_callers.then(|| {
            format!(
                "{LISTEN_PLAIN} is true and {TRUSTED_PROXIES} names no proxy: behind a proxy or an ingress all callers have its address, \
                 so that they share one bound of connections, ten bad tokens of one slow all of them down, and the audit says \
                 who called only by token; set {TRUSTED_PROXIES} to the addresses that the proxy calls from"
            )
        })
    }

    fn refused(&self, reason: &str) -> Error {
        let Given { text, from } = self.given.clone();
        Error::Refused { key: LISTEN, value: text, from, reason: reason.to_owned() }
    }

    pub(crate) fn apply(&self, options: ServerOptions) -> ServerOptions {
        ServerOptions {
            body_timeout: self.body_timeout,
            bodies_max_bytes: self.bodies_max_bytes,
            listener: self.listener.clone(),
            ..options
        }
    }
}

fn address(layers: &Layers) -> Result<SocketAddr, Error> {
    let text = layers.get(LISTEN).text.replace("localhost:", "127.0.0.1:");
    text.parse().map_err(|_| layers.invalid(LISTEN, "must be an address and a port, such as 127.0.0.1:7450"))
}

/// The files are read: a server that cannot use them must not start.
fn tls(layers: &Layers) -> Result<Option<TlsFiles>, Error> {
    let [cert, key, client_ca] = [TLS_CERT, TLS_KEY, TLS_CLIENT_CA].map(|text| layers.get(text).text);
    if cert.is_empty() && key.is_empty() && client_ca.is_empty() {
        return Ok(None);
    }
    for (name, text, other) in [(TLS_CERT, &cert, TLS_KEY), (TLS_KEY, &key, TLS_CERT)] {
        if text.is_empty() {
            let set = if other == TLS_KEY && key.is_empty() { TLS_CLIENT_CA } else { other };
            return Err(layers.invalid(name, format!("must name a file in PEM, as {set} is set")));
        }
    }
    let client_ca = Some(client_ca).filter(|client_ca| !client_ca.is_empty()).map(PathBuf::from);
    let files = TlsFiles { cert: cert.into(), key: key.into(), client_ca };
    files.check().map_err(|error| {
        let because = error.source().map_or_else(String::new, |error| format!(": {error}"));
        layers.refused(TLS_CERT, format!("{error}{because}"))
    })?;
    Ok(Some(files))
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_testkit::certificates::Authority;
    use std::os::unix::fs::PermissionsExt as _;

    fn with(flags: &[(&str, &str)]) -> Result<Listening, Error> {
        let mut layers = Layers::defaults();
        for (key, value) in flags {
            layers.flag("--set", key, (*value).to_owned())?;
        }
        Listening::from_layers(&layers)
    }

    fn refusal(flags: &[(&str, &str)], access_is_required: bool) -> String {
        let error = with(flags).unwrap().may_listen(access_is_required).unwrap_err();
        assert!(!error.is_usage());
        error.to_string()
    }

    #[test]
    fn an_address_that_others_reach_is_refused_with_the_reason_and_the_way_out() {
        for address in ["0.0.0.0:7450", "192.168.1.5:80", "[::]:7450"] {
            let said = refusal(&[("listen", address)], false);
            for word in [address, "tokens", "token create", "proxy", "127.0.0.1:7450"] {
                assert!(said.contains(word), "{said}");
            }
        }
        for address in ["[::1]:7450", "127.0.0.9:1", "localhost:7450"] {
            assert!(with(&[("listen", address)]).unwrap().may_listen(false).is_ok(), "{address}");
        }
    }

    #[test]
    fn tokens_do_not_cross_a_network_in_clear_text_unless_it_is_insisted_on() {
        let open = ("listen", "0.0.0.0:7450");
        let said = refusal(&[open], true);
        for way_out in ["tls.cert", "tls.key", "trusted_proxies", "listen_plain"] {
            assert!(said.contains(way_out), "{said}");
        }
        let insisted = with(&[open, ("listen_plain", "true")]).unwrap();
        assert!(insisted.may_listen(true).is_ok() && !insisted.listener.only_proxies);
        assert!(insisted.may_listen(false).is_err(), "tokens are needed all the same");
        assert!(insisted.hidden_callers().is_some_and(|said| said.contains("trusted_proxies")));
        let reported = with(&[open, ("listen_plain", "true"), ("trusted_proxies", "10.0.0.0/8")]).unwrap();
        let near = with(&[("listen_plain", "true")]).unwrap();
        assert_eq!((reported.hidden_callers(), near.hidden_callers()), (None, None));
        let behind = with(&[open, ("trusted_proxies", "10.0.0.0/8, ::1")]).unwrap();
        assert!(behind.may_listen(true).is_ok() && behind.listener.only_proxies);
        let directory = tempfile::tempdir().unwrap();
        let files = Authority::new().issue_loopback().write_to(directory.path());
        let (cert, key) = (files.cert.to_str().unwrap(), files.key.to_str().unwrap());
        let secured = with(&[open, ("tls.cert", cert), ("tls.key", key)]).unwrap();
        assert!(secured.may_listen(true).is_ok() && !secured.listener.only_proxies);
        assert_eq!((secured.scheme(), insisted.scheme()), ("https", "http"));
        assert_eq!(secured.warnings().count(), 0);
        std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o644)).unwrap();
        let said: Vec<String> = secured.warnings().collect();
        assert!(said.len() == 1 && said[0].contains(key) && said[0].contains("chmod 600"), "{said:?}");
    }

    #[test]
    fn what_is_wrong_with_certificates_and_proxies_is_said_at_the_start() {
        for (flags, said) in [
            (&[("tls.cert", "/x.pem")][..], "tls.key"),
            (&[("tls.key", "/x.key")], "tls.cert"),
            (&[("tls.client_ca", "/x.pem")], "tls.client_ca is set"),
            (&[("tls.cert", "/no/x.pem"), ("tls.key", "/no/x.key")], "/no/x.pem cannot be read: "),
            (&[("trusted_proxies", "10.0.0.0/33")], "10.0.0.0/33"),
            (&[("listen_plain", "perhaps")], "true or false"),
            (&[("http.header_timeout_ms", "0")], "100"),
        ] {
            let error = with(flags).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn nought_stands_for_what_follows_from_the_descriptors() {
        let all = with(&[]).unwrap().listener;
        assert_eq!(
            (all.connections_max, all.connections_per_address_max, all.long_polls_max),
            (None, None, None)
        );
        let set = with(&[("http.connections_max", "9"), ("http.long_polls_max", "3")]).unwrap().listener;
        assert_eq!((set.connections_max, set.long_polls_max), (Some(9), Some(3)));
    }
}
