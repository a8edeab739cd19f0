//! Rules about text of any kind: size, width, characters that do not show, words.

use super::Finding;
use super::tree::{File, Tree};

/// The widest a line may be, in characters.
const COLUMNS_MAX: usize = 100;

/// The largest a file may be; what is larger belongs beside the repository, not in it.
const SIZE_BYTES_MAX: u64 = 512 * 1024;

/// Written and read by people, so the rules for lines apply.
const SOURCE_EXTENSIONS: [&str; 6] = ["rs", "toml", "md", "sh", "yml", "yaml"];

/// Names that mean something on one machine only, and hosts of package registries, which are
/// for cargo to know.
const FORBIDDEN_WORDS: [&str; 6] = [
    concat!("/wo", "rk/"),
    concat!("/tm", "p/h/"),
    concat!("/ro", "ot/"),
    concat!("crates", ".io"),
    concat!("npmjs", ".org"),
    concat!("pypi", ".org"),
];

fn is_source(file: &File) -> bool {
    SOURCE_EXTENSIONS.contains(&file.extension()) || file.path == ".ci/run"
}

/// No file is larger than the limit.
pub(super) fn size(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in tree.files().filter(|file| file.size_bytes > SIZE_BYTES_MAX) {
        let message = format!(
            "{} bytes; at most {SIZE_BYTES_MAX} belong here",
            file.size_bytes
        );
        findings.push(Finding::new(&file.path, 0, message));
    }
}

/// Every character shows. (Spaces at a line's end are git's to find.)
pub(super) fn characters(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in tree.files().filter(|file| is_source(file)) {
        for (number, line) in file.lines() {
            if let Some(odd) = line.chars().find(|c| is_odd(*c)) {
                let message = format!("the character U+{:04X} does not show", u32::from(odd));
                findings.push(Finding::new(&file.path, number, message));
            }
        }
    }
}

/// Control characters (tabs are some), and those that turn or hide text around them.
fn is_odd(character: char) -> bool {
    let hides = [
        '\u{FEFF}', '\u{200B}', '\u{200C}', '\u{200D}', '\u{2060}', '\u{00A0}',
    ];
    let turns = ('\u{202A}'..='\u{202E}').contains(&character)
        || ('\u{2066}'..='\u{2069}').contains(&character);
    character.is_control() || turns || hides.contains(&character)
}

/// No line is wider than the limit, but for tables, addresses and TOML's descriptions, none of
/// which can be broken.
pub(super) fn columns(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in tree.files().filter(|file| is_source(file)) {
        for (number, line) in file.lines() {
            let width = line.chars().count();
            let bare = line.trim_start().trim_start_matches(['/', '!', ' ']);
            let unbreakable = bare.starts_with('|')
                || line.contains("://")
                || (file.extension() == "toml" && line.starts_with("description ="));
            if width > COLUMNS_MAX && !unbreakable {
                let message = format!("{width} columns; at most {COLUMNS_MAX}");
                findings.push(Finding::new(&file.path, number, message));
            }
        }
    }
}

/// No word of [`FORBIDDEN_WORDS`], but in the lock file, which cargo writes.
pub(super) fn forbidden_words(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in tree
        .files()
        .filter(|file| !file.path.ends_with("Cargo.lock"))
    {
        for (number, line) in file.lines() {
            if let Some(word) = FORBIDDEN_WORDS.iter().find(|word| line.contains(**word)) {
                let message = format!("`{word}` has no place in this project");
                findings.push(Finding::new(&file.path, number, message));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines at which `rule` finds something in a file of this name.
    fn found(rule: super::super::Rule, path: &str, text: &str) -> Vec<usize> {
        let mut findings = Vec::new();
        rule(&Tree::of(&[(path, text)]), &mut findings);
        findings.into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_large_file_is_seen() {
        let large = "x".repeat(SIZE_BYTES_MAX as usize + 1);
        assert_eq!(found(size, "data.csv", &large), [0]);
        assert!(found(size, "data.csv", &large[1..]).is_empty());
    }

    #[test]
    fn odd_characters_are_seen() {
        assert_eq!(found(characters, "a.rs", "fn a() {}\n\tb();\n"), [2]);
        assert_eq!(found(characters, "a.md", "carriage return\r\n"), [1]);
        assert_eq!(found(characters, "a.rs", "let a = \"\u{202E}b\";\n"), [1]);
        assert!(found(characters, "a.rs", "let größe = '→';\n").is_empty());
        assert!(found(characters, "data.tsv", "a\tb\n").is_empty());
    }

    #[test]
    fn a_wide_line_is_seen() {
        let wide = "é".repeat(COLUMNS_MAX + 1);
        assert_eq!(
            found(columns, "a.rs", &format!("//! A doc.\n// {wide}\n")),
            [2]
        );
        assert!(found(columns, "a.rs", &"é".repeat(COLUMNS_MAX)).is_empty());
        for excepted in [
            format!("| {wide} |"),
            format!("//! | {wide} |"),
            format!("a://{wide}"),
        ] {
            assert!(found(columns, "a.md", &excepted).is_empty(), "{excepted}");
        }
    }

    #[test]
    fn forbidden_words_are_seen() {
        for word in FORBIDDEN_WORDS {
            assert_eq!(
                found(forbidden_words, "a.md", &format!("# A\nsee {word}x\n")),
                [2]
            );
        }
        assert!(found(forbidden_words, "a.md", "the workspace/ folder\n").is_empty());
    }
}
