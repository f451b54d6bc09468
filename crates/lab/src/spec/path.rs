//! Dotted keys: names joined by dots, a name that is not a bare TOML key in double quotes.

/// `path.name`, quoting `name` where a dot or anything else would make it ambiguous.
pub(super) fn join(path: &str, name: &str) -> String {
    let dot = if path.is_empty() { "" } else { "." };
    format!("{path}{dot}{}", key(name))
}

/// `name` as a TOML key.
pub(super) fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { quote(name) }
}

/// `text` as a TOML basic string.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// The names of a dotted key; `None` if it is none. The empty path has no names.
pub(crate) fn split(path: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = path.trim();
    while !rest.is_empty() {
        let (name, after) = match rest.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let end = rest.find('.').unwrap_or(rest.len());
                let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                let name = rest[..end].trim();
                if name.is_empty() || !name.chars().all(bare) {
                    return None;
                }
                (name.to_owned(), &rest[end..])
            }
        };
        names.push(name);
        rest = match after.strip_prefix('.') {
            Some("") => return None,
            Some(next) => next,
            None if after.is_empty() => after,
            None => return None,
        };
    }
    Some(names)
}

/// The name up to the closing quote, and what follows it.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((name, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                c @ ('"' | '\\') => name.push(c),
                'n' => name.push('\n'),
                't' => name.push('\t'),
                'u' => {
                    let code: String = chars.by_ref().take(4).map(|(_, c)| c).collect();
                    name.push(char::from_u32(u32::from_str_radix(&code, 16).ok()?)?);
                }
                _ => return None,
            },
            c => name.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_with_dots_are_quoted() {
        assert_eq!(join("sweep", "workload.bulk.load"), "sweep.\"workload.bulk.load\"");
        assert_eq!(join("", "hosts"), "hosts");
        assert_eq!(split("a.\"b.c\".d").unwrap(), ["a", "b.c", "d"]);
        assert_eq!(split("").unwrap(), [""; 0]);
    }

    #[test]
    fn what_is_no_dotted_key_is_told_apart() {
        for path in [".", "a.", ".a", "a..b", "a b", "\"a", "\"a\"b", "a=b", "a[0]"] {
            assert_eq!(split(path), None, "{path}");
        }
    }

    proptest! {
        #[test]
        fn joined_names_are_split_again(names in prop::collection::vec(any::<String>(), 0..4)) {
            let path = names.iter().fold(String::new(), |path, name| join(&path, name));
            // A control character beyond U+FFFF does not exist, so four digits suffice.
            prop_assert_eq!(split(&path), Some(names));
        }
    }
}
