//! The words of a line of HAProxy's configuration.
//!
//! Blanks part words, `#` begins a comment, a backslash takes a meaning away and stays before what
//! has none, quotes hold words together, and within double quotes `$NAME` and `${NAME}` stand for
//! variables of the environment.

/// A line that says something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Its number, from 1 on.
    pub number: usize,
    /// Its words; there is at least one.
    pub words: Vec<String>,
}

/// The words of one line, which are none if it says nothing.
///
/// # Errors
///
/// What is wrong with it.
pub(super) fn split(
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        match first {
            '#' => break,
            ' ' | '\t' | '\r' => {
                words.extend(word.take());
                rest = after;
            }
            '\'' => {
                let end = after.find('\'').ok_or("a single quote is not closed")?;
                word.get_or_insert_default().push_str(&after[..end]);
                rest = &after[end + 1..];
            }
            '"' => rest = quoted(after, word.get_or_insert_default(), variable)?,
            '\\' => rest = escaped(after, word.get_or_insert_default(), false)?,
            other => {
                word.get_or_insert_default().push(other);
                rest = after;
            }
        }
    }
    words.extend(word);
    if words.iter().any(|word| word.contains('\0')) {
        return Err("a NUL has no meaning in a configuration: remove it".to_owned());
    }
    Ok(words)
}

/// Reads to the end of a double quote. Returns what is behind it.
fn quoted<'a>(
    mut rest: &'a str,
    word: &mut String,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<&'a str, String> {
    loop {
        let first = rest.chars().next().ok_or("a double quote is not closed")?;
        let after = &rest[first.len_utf8()..];
        match first {
            '"' => return Ok(after),
            '\\' => rest = escaped(after, word, true)?,
            '$' => rest = value(after, word, variable)?,
            other => {
                word.push(other);
                rest = after;
            }
        }
    }
}

/// What stands behind a backslash, within double quotes or outside of them.
fn escaped<'a>(rest: &'a str, word: &mut String, is_quoted: bool) -> Result<&'a str, String> {
    let first = rest
        .chars()
        .next()
        .ok_or("the line ends with a backslash, which has no meaning here")?;
    let after = &rest[first.len_utf8()..];
    match first {
        'n' => word.push('\n'),
        'r' => word.push('\r'),
        't' => word.push('\t'),
        'x' => {
            let code = after
                .get(..2)
                .and_then(|hex| u8::from_str_radix(hex, 16).ok());
            let code = code.filter(u8::is_ascii);
            let code = code.ok_or("\\x is not followed by two digits of a character of ASCII")?;
            word.push(char::from(code));
            return Ok(&after[2..]);
        }
        ' ' | '\\' | '#' | '\'' | '"' => word.push(first),
        '$' if is_quoted => word.push('$'),
        // As in a regular expression.
        other => word.extend(['\\', other]),
    }
    Ok(after)
}

/// The value of a variable, whose name stands behind the dollar sign.
fn value<'a>(
    rest: &'a str,
    word: &mut String,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<&'a str, String> {
    let is_braced = rest.starts_with('{');
    let from = if is_braced { &rest[1..] } else { rest };
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let length = from.bytes().take_while(is_of_name).count();
    let (name, after) = from.split_at(length);
    if name.is_empty() {
        return Err("a dollar sign in double quotes names no variable".to_owned());
    }
    // HAProxy takes one that is not set for nothing, which is seldom what was meant.
    let missing = || format!("the variable {name} is not set in the environment of this command");
    let (default, after) = match after.strip_prefix('-').filter(|_| is_braced) {
        Some(default) => {
            let end = default.find('}').ok_or("a ${ is not closed")?;
            (Some(&default[..end]), &default[end..])
        }
        None => (None, after),
    };
    let known = variable(name).filter(|value| !value.is_empty() || default.is_none());
    let value = known.or(default.map(str::to_owned)).ok_or_else(missing)?;
    word.push_str(&value);
    match (is_braced, after.strip_prefix('}')) {
        (false, _) => Ok(after),
        (true, Some(after)) => Ok(after),
        (true, None) => Err(format!("${{{name} is not closed by }}")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Result<Vec<String>, String> {
        split(text, &|name| (name == "PORT").then(|| "80".to_owned()))
    }

    #[test]
    fn words_are_parted_quoted_and_filled_in() {
        for (text, words) in [
            ("", &[][..]),
            ("  # nothing", &[]),
            ("a\tb  c# d", &["a", "b", "c"]),
            ("a\\ b \\# \\\\", &["a b", "#", "\\"]),
            ("\\.png$ \"\\d+\\$\" \\1", &["\\.png$", "\\d+$", "\\1"]),
            ("'a \"$PORT' \"b #\"c", &["a \"$PORT", "b #c"]),
            ("\"*:${PORT}\" \"x$PORT/\"", &["*:80", "x80/"]),
            ("\"${NONE-7}${PORT-7}\" $PORT", &["780", "$PORT"]),
            ("\"a\\\"b\" \\x41\\n '' ", &["a\"b", "A\n", ""]),
        ] {
            assert_eq!(of(text).unwrap(), words, "{text}");
        }
        for (text, why) in [
            ("'a", "single quote"),
            ("\"a", "double quote"),
            ("a \\", "backslash"),
            ("\"$ \"", "names no variable"),
            ("\"$NONE\"", "NONE is not set"),
            ("\"${PORT\"", "not closed"),
            ("\"${PORT-\"", "not closed"),
            ("\\x4", "two digits"),
            ("\\xff", "ASCII"),
            ("a \\x00 b", "NUL"),
            ("a \0", "NUL"),
        ] {
            let said = of(text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }

    proptest! {
        #[test]
        fn no_line_is_too_strange(line in "[ -~\u{e4}\t]{0,60}") {
            let _ = of(&line);
        }

        #[test]
        fn what_is_in_single_quotes_stays(word in "[^'\n\x00]{0,20}") {
            prop_assert_eq!(of(&format!("x '{word}'")).unwrap(), vec!["x".to_owned(), word]);
        }
    }
}
