//! Scripts are called by their hash. A connection loads them before its first call, and again when a server does not know
//! them. Holds no Lua itself.

use redis::Cmd;

#[derive(Debug)]
pub struct Script {
    text: &'static str,
    /// SHA-1 of the text, as Redis names it.
    hash: String,
}

impl Script {
    #[must_use]
    pub fn new(text: &'static str) -> Self {
        Self { text, hash: redis::Script::new(text).get_hash().to_owned() }
    }

    #[must_use]
    pub const fn text(&self) -> &'static str {
        self.text
    }

    /// A call of the script; its arguments are appended.
    #[must_use]
    pub fn call(&self, keys: &[&str]) -> Cmd {
        let mut call = redis::cmd("EVALSHA");
        call.arg(&self.hash).arg(keys.len()).arg(keys);
        call
    }

    pub(crate) fn load(&self) -> Cmd {
        let mut call = redis::cmd("SCRIPT");
        call.arg("LOAD").arg(self.text);
        call
    }
}
