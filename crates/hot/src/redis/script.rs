//! The scripts: one file each under `lua/`, called by their hash. Holds no Lua itself.

use punctual_redis_link::Script;
use std::sync::LazyLock;

macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        #[derive(Debug)]
        pub(crate) struct Scripts { $(pub(crate) $name: Script),* }

        impl Scripts {
            pub(crate) fn all(&self) -> impl Iterator<Item = &Script> {
                [$(&self.$name),*].into_iter()
            }
        }

        pub(crate) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts {
            $($name: Script::new(include_str!(concat!("../../lua/", stringify!($name), ".lua")))),*
        });
    };
}

scripts!(
    load,
    drain,
    withdraw,
    clear,
    whole,
    limit_grant,
    limit_room,
    limit_release,
    limit_restore,
    limit_prolong,
    limit_members,
    limit_find,
    limit_holders,
    limit_demands,
    limit_whole,
    clock,
);

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn every_script_is_listed_and_says_what_it_takes_and_answers() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/lua");
        let files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), SCRIPTS.all().count());
        for path in files {
            let text = fs::read_to_string(&path).unwrap();
            assert!(SCRIPTS.all().any(|script| script.text() == text), "{path:?} is not listed");
            assert!(
                text.starts_with("#!lua"),
                "{path:?}: Redis checks memory and slots only with a first line"
            );
            for part in ["-- KEYS ", "-- ARGV ", "-- Returns "] {
                assert!(text.contains(part), "{path:?} does not say {part}");
            }
        }
    }
}
