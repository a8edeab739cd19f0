//! Rules about single lines of text: width, characters, words.

use super::Finding;
use super::tree::{File, Tree};

/// The widest a line may be, in characters.
const COLUMNS_MAX: usize = 100;

/// The largest a file may be; what is larger belongs beside the repository, not in it.
const SIZE_BYTES_MAX: u64 = 512 * 1024;

/// Written and read by people, so the rules for lines apply.
const SOURCE_EXTENSIONS: [&str; 6] = ["rs", "toml", "md", "sh", "yml", "yaml"];

/// Words that mark unfinished work. Spelled in halves, so that this file does not hold them.
const MARKERS: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// Macros that mark unfinished work or a forgotten print.
const MARKER_MACROS: [&str; 3] = ["dbg", "todo", "unimplemented"];

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

/// No tab, no space at a line's end, no control character, one line break at the end.
pub(super) fn characters(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in tree.files().filter(|file| is_source(file)) {
        for (number, line) in file.lines() {
            if line.ends_with(char::is_whitespace) {
                findings.push(Finding::new(&file.path, number, "space at the line's end"));
            }
            if let Some(odd) = line.trim_end().chars().find(|c| is_odd(*c)) {
                let message = format!("the character U+{:04X} does not show", u32::from(odd));
                findings.push(Finding::new(&file.path, number, message));
            }
        }
        let text = file.text.as_deref().unwrap_or_default();
        if !text.is_empty() && (!text.ends_with('\n') || text.ends_with("\n\n")) {
            findings.push(Finding::new(
                &file.path,
                0,
                "end the file with one line break",
            ));
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

/// No merge was committed half done. Git's markers stand at a line's start, in any kind of file.
pub(super) fn merges(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in tree.files() {
        for (number, line) in file.lines() {
            let is_marker = |sign: &str| line.starts_with(&format!("{} ", sign.repeat(7)));
            if is_marker("<") || is_marker(">") {
                findings.push(Finding::new(
                    &file.path,
                    number,
                    "a merge left its marker here",
                ));
            }
        }
    }
}

/// Nothing is marked as unfinished: finish it, or write it down where plans are kept.
pub(super) fn markers(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in tree.files().filter(|file| is_source(file)) {
        for (number, line) in file.lines() {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            if let Some(word) = words.find(|word| MARKERS.contains(word)) {
                let message = format!("`{word}` marks unfinished work");
                findings.push(Finding::new(&file.path, number, message));
            }
        }
    }
    for (file, tokens) in tree.rust() {
        for name in MARKER_MACROS {
            for at in tokens.runs(&[name, "!"]) {
                let message = format!("`{name}!` marks unfinished work");
                findings.push(Finding::new(&file.path, tokens.all()[at].line, message));
            }
        }
    }
}

/// No word of [`FORBIDDEN_WORDS`], but in the lock file, which cargo writes.
pub(super) fn forbidden_words(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in tree.files().filter(|file| file.path != "Cargo.lock") {
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
        assert_eq!(found(characters, "a.md", "fine\nspace at the end \n"), [2]);
        assert_eq!(found(characters, "a.md", "carriage return\r\n"), [1]);
        assert_eq!(found(characters, "a.rs", "let a = \"\u{202E}b\";\n"), [1]);
        assert_eq!(found(characters, "a.rs", "no line break at the end"), [0]);
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
    fn a_merge_left_half_done_is_seen() {
        let text = format!(
            "a\n{0} HEAD\nb\n{1}\nc\n{2} d\n",
            "<".repeat(7),
            "=".repeat(7),
            ">".repeat(7)
        );
        assert_eq!(found(merges, "setup.sh", &text), [2, 6]);
        assert!(found(merges, "a.md", "> > quoted\n").is_empty());
    }

    #[test]
    fn unfinished_work_is_seen() {
        for marker in MARKERS {
            assert_eq!(
                found(markers, "a.rs", &format!("fn a() {{}}\n// {marker}: b\n")),
                [2]
            );
        }
        for name in MARKER_MACROS {
            assert_eq!(
                found(markers, "a.rs", &format!("fn a() {{\n    {name}!()\n}}\n")),
                [2]
            );
        }
        assert!(
            found(
                markers,
                "a.rs",
                "// XXXL is a size; `todo!` in a comment is none."
            )
            .is_empty()
        );
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
