//! A Rust file as one flat list of tokens with their lines.
//!
//! Flat, because the rules look for short runs of tokens wherever they stand: in a function, in
//! a macro's body, in an attribute. Comments are no tokens, and a string is a single one, so
//! neither can be mistaken for code.

use std::ops::Range;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// One token: an identifier, a literal, a bracket, `::`, or a punctuation character.
pub(super) struct Token {
    pub(super) text: String,
    /// Counted from 1.
    pub(super) line: usize,
    /// Part of an item that is compiled for tests alone.
    pub(super) in_test: bool,
}

/// All tokens of a file.
pub(super) struct Tokens(Vec<Token>);

impl Tokens {
    /// Nothing if the text is not made of Rust tokens.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut tokens = Vec::new();
        flatten(text.parse().ok()?, &mut tokens);
        mark_tests(&mut tokens);
        Some(Self(tokens))
    }

    pub(super) fn all(&self) -> &[Token] {
        &self.0
    }

    /// Where the run of texts stands, as indices of its first token.
    pub(super) fn runs<'a>(&'a self, texts: &'a [&'a str]) -> impl Iterator<Item = usize> + 'a {
        let matches = move |window: &[Token]| window.iter().zip(texts).all(|(a, b)| a.text == *b);
        let windows = self.0.windows(texts.len()).enumerate();
        windows
            .filter(move |(_, window)| matches(window))
            .map(|(index, _)| index)
    }

    /// The text at an index, or the empty string past either end.
    pub(super) fn text(&self, index: usize) -> &str {
        self.0.get(index).map_or("", |token| &token.text)
    }

    /// Every path that a `use` brings in, its groups written out: `a::b`, or `a::b as c`.
    pub(super) fn imports(&self) -> Vec<Import> {
        let mut imports = Vec::new();
        for range in self.import_ranges() {
            read_tree(&self.0, range.start + 1, "", &mut imports);
        }
        imports
    }

    /// Where each `use` stands, from its first token to its `;`.
    pub(super) fn import_ranges(&self) -> Vec<Range<usize>> {
        // `impl Trait + use<'a>` is no import.
        let starts = self.runs(&["use"]).filter(|at| self.text(at + 1) != "<");
        starts
            .map(|start| start..item_end(&self.0, start, &[";"]))
            .collect()
    }
}

/// One path of a `use`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) path: String,
    /// What the file calls it.
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) in_test: bool,
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    let mut half_of_path = false;
    for tree in stream {
        let line = tree.span().start().line;
        let mut push = |text: String, line| {
            tokens.push(Token {
                text,
                line,
                in_test: false,
            })
        };
        match tree {
            TokenTree::Punct(punct) if punct.as_char() == ':' && half_of_path => {
                tokens
                    .last_mut()
                    .expect("its first half was pushed")
                    .text
                    .push(':');
                half_of_path = false;
                continue;
            }
            TokenTree::Punct(punct) => {
                half_of_path = punct.as_char() == ':' && punct.spacing() == Spacing::Joint;
                push(punct.as_char().to_string(), line);
                continue;
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::None => ("", ""),
                };
                push(open.to_owned(), line);
                flatten(group.stream(), tokens);
                let line = group.span_close().start().line;
                tokens.push(Token {
                    text: close.to_owned(),
                    line,
                    in_test: false,
                });
            }
            TokenTree::Ident(word) => push(word.to_string(), line),
            TokenTree::Literal(literal) => push(literal.to_string(), line),
        }
        half_of_path = false;
    }
}

/// Marks every item that follows a test attribute: `#[test]`, `#[evenkeel::test]`, `#[cfg(test)]`.
fn mark_tests(tokens: &mut [Token]) {
    let mut index = 0;
    while index < tokens.len() {
        let end = attribute_end(tokens, index);
        match end {
            Some(end) if is_test_attribute(&tokens[index..end]) => {
                let end = item_end(tokens, end, &[";", "{"]);
                tokens[index..end]
                    .iter_mut()
                    .for_each(|token| token.in_test = true);
                index = end;
            }
            Some(end) => index = end,
            None => index += 1,
        }
    }
}

/// If an outer attribute starts at `start`, the index after it.
fn attribute_end(tokens: &[Token], start: usize) -> Option<usize> {
    let opens = tokens.get(start)?.text == "#" && tokens.get(start + 1)?.text == "[";
    opens.then(|| group_end(tokens, start + 1))
}

/// The index after the bracket that closes the one at `open`.
fn group_end(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "{" | "[" | "(" => depth += 1,
            "}" | "]" | ")" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}

fn is_test_attribute(attribute: &[Token]) -> bool {
    let word = |index: usize| attribute.get(index).map_or("", |token| token.text.as_str());
    // attribute: `#` `[` … `]`
    if word(2) != "cfg" {
        let path_ends_in_test = attribute
            .windows(2)
            .any(|pair| pair[0].text == "test" && ["]", "("].contains(&pair[1].text.as_str()));
        return path_ends_in_test && (word(2) == "test" || word(3) == "::");
    }
    let any = attribute.iter().any(|token| token.text == "any");
    let test = (0..attribute.len())
        .any(|at| word(at) == "test" && !(at >= 2 && word(at - 1) == "(" && word(at - 2) == "not"));
    test && !any
}

/// The index after the item that starts at `start`: after the first `;` or body, whichever of
/// the two are among its `ends`.
fn item_end(tokens: &[Token], start: usize, ends: &[&str]) -> usize {
    let mut index = start;
    while index < tokens.len() {
        let text = tokens[index].text.as_str();
        let next = if ["(", "[", "{"].contains(&text) {
            group_end(tokens, index)
        } else {
            index + 1
        };
        if ends.contains(&text) {
            return next;
        }
        index = next;
    }
    index
}

/// Reads one tree of a `use` from `start`, and returns the index after it.
fn read_tree(tokens: &[Token], start: usize, prefix: &str, imports: &mut Vec<Import>) -> usize {
    let mut path = prefix.to_owned();
    let mut index = start;
    while let Some(token) = tokens.get(index) {
        match token.text.as_str() {
            "{" => {
                let end = group_end(tokens, index);
                index += 1;
                while index + 1 < end {
                    index = read_tree(tokens, index, &path, imports) + 1;
                }
                return end;
            }
            "," | ";" | "}" | "as" => break,
            // A path from the crate root of another crate means the same without the root.
            "::" if path.is_empty() => {}
            part => path.push_str(part),
        }
        index += 1;
    }
    let Some(last) = index.checked_sub(1).and_then(|last| tokens.get(last)) else {
        return index;
    };
    let (line, in_test) = (last.line, last.in_test);
    let path = path.strip_suffix("::self").unwrap_or(&path).to_owned();
    let mut name = path.rsplit("::").next().unwrap_or_default().to_owned();
    if tokens.get(index).is_some_and(|token| token.text == "as") {
        name = tokens
            .get(index + 1)
            .map_or(String::new(), |token| token.text.clone());
        index += 2;
    }
    if !path.is_empty() {
        imports.push(Import {
            path,
            name,
            line,
            in_test,
        });
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_comments_are_not_code() {
        let tokens = Tokens::parse("// unsafe\nlet a = \"unsafe\"; /* unsafe */").unwrap();
        assert_eq!(tokens.runs(&["unsafe"]).count(), 0);
    }

    #[test]
    fn macro_bodies_are_read() {
        let tokens = Tokens::parse("m! {\n unsafe { f() } }").unwrap();
        let found: Vec<usize> = tokens.runs(&["unsafe", "{"]).collect();
        assert_eq!(tokens.all()[found[0]].line, 2);
    }

    #[test]
    fn imports_are_written_out() {
        let text = "use std::{sync::{self, Arc, atomic::*}, time::Instant as Now};\nuse ::log;";
        let imports = Tokens::parse(text).unwrap().imports();
        let shown: Vec<String> = imports
            .iter()
            .map(|import| format!("{} {}", import.path, import.name))
            .collect();
        assert_eq!(
            shown,
            [
                "std::sync sync",
                "std::sync::Arc Arc",
                "std::sync::atomic::* *",
                "std::time::Instant Now",
                "log log",
            ]
        );
    }

    #[test]
    fn test_items_are_marked_and_nothing_else() {
        let text = "fn a() {}\n#[cfg(test)]\n#[allow(x)]\nmod t { fn b() {} }\nfn c() {}\n\
                    #[evenkeel::test]\nasync fn d() {}\n#[cfg(not(test))] fn e() {}\n\
                    #[cfg(all(test, not(evenkeel_loom)))] use f::g;\n#[latest] fn h() {}";
        let tokens = Tokens::parse(text).unwrap();
        let in_test = |name: &str| {
            let at = tokens.runs(&[name]).next().unwrap();
            tokens.all()[at].in_test
        };
        let marked: Vec<&str> = ["a", "b", "c", "d", "e", "f", "h"]
            .into_iter()
            .filter(|n| in_test(n))
            .collect();
        assert_eq!(marked, ["b", "d", "f"]);
    }
}
