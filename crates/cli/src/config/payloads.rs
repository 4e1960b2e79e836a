//! The limits of payloads and results, and the place of those that are too long for a row. Opens nothing.

use super::{
    Error, Layers,
    keys::{
        BATCH_BODY_MAX_BYTES, PAYLOAD_MAX_BYTES, PAYLOADS_INLINE_MAX_BYTES, PAYLOADS_MAX_BYTES, PAYLOADS_URL,
    },
    place::StoreLocation,
    settings::object_url,
    source::SettingSource,
};

const GIB: usize = 1 << 30;
/// Around the payload of one task in a request.
const AROUND_BYTES: usize = 1 << 20;
/// `payloads.url` where long ones are to stay in the store.
const OFF: &str = "off";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payloads {
    /// `None` if all are in the store.
    pub(crate) url: Option<String>,
    /// True if the place was named, and is not only derived from the file.
    pub(crate) is_named: bool,
    /// Longer ones are outside, where there is a place for them.
    pub(crate) inline_max_bytes: usize,
    pub(crate) payload_max_bytes: usize,
    pub(crate) batch_body_max_bytes: usize,
}

impl Payloads {
    pub(super) fn from_layers(layers: &Layers, place: &StoreLocation) -> Result<Self, Error> {
        let url = url(layers, place)?;
        let body: usize = layers.number(BATCH_BODY_MAX_BYTES, 1_024..=GIB)?;
        let is_set = |key| layers.get(key).from != SettingSource::Default;
        let long: usize = layers.number(PAYLOADS_MAX_BYTES, 1..=GIB / 2)?;
        let is_long = url.is_some() && !is_set(PAYLOAD_MAX_BYTES);
        let payload_max_bytes = if is_long { long } else { layers.number(PAYLOAD_MAX_BYTES, 1..=body)? };
        // Bytes are a third longer as base 64.
        let one = payload_max_bytes / 3 * 4 + AROUND_BYTES;
        Ok(Self {
            is_named: !layers.get(PAYLOADS_URL).text.is_empty(),
            url,
            inline_max_bytes: layers.number(PAYLOADS_INLINE_MAX_BYTES, 0..=1 << 20)?,
            payload_max_bytes,
            batch_body_max_bytes: if is_set(BATCH_BODY_MAX_BYTES) { body } else { body.max(one) },
        })
    }

    /// Advice on how to allow a longer payload.
    pub(crate) const fn advice(&self) -> &'static str {
        match self.url {
            Some(_) => " (settings payloads.max_bytes and limits.payload_max_bytes)",
            None => "; longer ones need a place outside of the store (setting payloads.url)",
        }
    }
}

fn url(layers: &Layers, place: &StoreLocation) -> Result<Option<String>, Error> {
    if layers.get(PAYLOADS_URL).text == OFF {
        return Ok(None);
    }
    let named = object_url(layers, PAYLOADS_URL, "payloads", "the place that goes with the store")?;
    match (named, place) {
        (Some(named), _) => Ok(Some(named)),
        (None, StoreLocation::Shared(_)) => Ok(None),
        (None, StoreLocation::Embedded { sqlite_path }) => {
            let mut beside = sqlite_path.clone().into_os_string();
            beside.push(".payloads");
            let beside = std::path::absolute(beside).ok();
            Ok(beside.map(|beside| format!("file://{}", beside.display())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    fn with(flags: &[(&str, &str)]) -> Result<Payloads, Error> {
        let mut layers = Layers::defaults();
        for (key, value) in flags {
            layers.flag("--set", key, (*value).to_owned())?;
        }
        Settings::from_layers(&layers).map(|layer| layer.payloads)
    }

    const SHARED: [(&str, &str); 2] = [("store.url", "mysql://h/d"), ("hot.url", "redis://h")];

    #[test]
    fn a_file_has_its_long_payloads_beside_it_and_a_database_has_none() {
        let file = with(&[("store.url", "sqlite:///x/y.db")]).unwrap();
        assert_eq!(file.url.as_deref(), Some("file:///x/y.db.payloads"));
        assert_eq!((file.inline_max_bytes, file.payload_max_bytes), (65_536, 16 << 20));
        let database = with(&SHARED).unwrap();
        assert_eq!((database.url.as_deref(), database.payload_max_bytes), (None, 1 << 20));
        assert!(database.advice().contains("payloads.url"));
        let named = with(&[&SHARED[..], &[("payloads.url", "file:///p")]].concat()).unwrap();
        assert_eq!((named.url.as_deref(), named.payload_max_bytes), (Some("file:///p"), 16 << 20));
        assert_eq!(with(&[("payloads.url", "off")]).unwrap().url, None);
    }

    #[test]
    fn a_limit_that_is_set_holds_with_and_without_a_place() {
        let set = with(&[("limits.payload_max_bytes", "5000")]).unwrap();
        assert_eq!((set.payload_max_bytes, set.batch_body_max_bytes), (5_000, 16 << 20));
        assert_eq!(with(&[("limits.batch_body_max_bytes", "5000")]).unwrap().batch_body_max_bytes, 5_000);
    }

    #[test]
    fn a_body_has_room_for_the_longest_payload_as_base_64() {
        let payloads = with(&[("payloads.max_bytes", "100000000")]).unwrap();
        assert!(payloads.batch_body_max_bytes > payloads.payload_max_bytes.div_ceil(3) * 4);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (key, value) in [
            ("payloads.url", "/p"),
            ("payloads.url", "ftp://h/p"),
            ("payloads.max_bytes", "0"),
            ("payloads.inline_max_bytes", "-1"),
            ("payloads.inline_max_bytes", "99999999"),
        ] {
            let said = with(&[(key, value)]).unwrap_err().to_string();
            assert!(said.contains(key) && said.contains(value), "{said}");
        }
    }
}
