//! What is changed in a copy of Tokio's source. Each rule names an item, and what becomes of it.

use semver::{Version, VersionReq};
use serde::Deserialize;
use std::collections::BTreeMap;

use crate::error::RuleError;

/// Where the whole change holds. Without these, the copy is Tokio as it was.
const CONDITION: &str = r#"all(unix, feature = "rt-multi-thread")"#;
/// Where the overlay lies, below `src/`.
const OVERLAY: &str = "evenkeel";

/// One change, as `rules.toml` has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Why it is needed.
    pub why: String,
    /// The file, below the package's folder.
    pub file: String,
    /// The versions of Tokio it is for; without any, all.
    versions: Option<VersionReq>,
    module: Option<String>,
    import: Option<String>,
    by: Option<String>,
    field_of: Option<String>,
    value_in: Option<String>,
    begin: Option<String>,
    append: Option<String>,
    text: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    rule: Vec<Rule>,
}

/// Reads `rules.toml`.
///
/// # Errors
///
/// If it is not TOML, or has keys that no rule has.
pub fn parse(text: &str) -> Result<Vec<Rule>, RuleError> {
    let rules: Rules =
        toml::from_str(text).map_err(|error| RuleError::Syntax(error.to_string()))?;
    Ok(rules.rule)
}

/// The files that rules change, each with what it contains.
pub type Files = BTreeMap<String, String>;

impl Rule {
    /// Whether the rule is for this version of Tokio.
    pub fn is_for(&self, version: &Version) -> bool {
        (self.versions.as_ref()).is_none_or(|versions| versions.matches(version))
    }

    /// Changes the file.
    ///
    /// # Errors
    ///
    /// If the item that the rule names is not there exactly once.
    pub fn apply(&self, files: &mut Files) -> Result<(), RuleError> {
        let misfit = |what: String| RuleError::Misfit {
            file: self.file.clone(),
            what,
            why: self.why.clone(),
        };
        let source =
            (files.get_mut(&self.file)).ok_or_else(|| misfit("there is no such file".into()))?;
        *source = self.changed(source).map_err(misfit)?;
        Ok(())
    }

    fn changed(&self, source: &str) -> Result<String, String> {
        let text = self.text.as_deref().unwrap_or_default();
        let by = self.by.as_deref().unwrap_or_default();
        match self {
            Rule {
                module: Some(module),
                ..
            } => substitute(source, &self.file, module, by),
            Rule {
                import: Some(path), ..
            } => import(source, path, by),
            Rule {
                field_of: Some(name),
                ..
            } => insert_after(source, &format!("struct {name} {{"), text),
            Rule {
                value_in: Some(name),
                ..
            } => insert_after(source, &making(source, name), text),
            Rule {
                begin: Some(name), ..
            } => begin(source, name, text),
            Rule {
                append: Some(text), ..
            } => Ok(append(source, text)),
            _ => Err("the rule does nothing".into()),
        }
    }
}

/// Where `needle` stands, if that is once.
fn find_one(source: &str, needle: &str) -> Result<usize, String> {
    let mut places = source.match_indices(needle);
    match (places.next(), places.next()) {
        (Some((at, _)), None) => Ok(at),
        (None, _) => Err(format!("`{needle}` is not there")),
        (Some(_), Some(_)) => Err(format!("`{needle}` is there more than once")),
    }
}

/// The text, with the condition on each of its items.
fn conditional(text: &str) -> String {
    let mut depth = 0i32;
    let mut out = String::new();
    for line in text.trim().lines() {
        if depth == 0 && !line.trim().is_empty() && !line.starts_with(['}', '#', '/']) {
            out += &format!("#[cfg({CONDITION})]\n");
        }
        depth += count(line, '{') - count(line, '}');
        out += line;
        out.push('\n');
    }
    out
}

fn count(line: &str, wanted: char) -> i32 {
    line.chars().filter(|found| *found == wanted).count() as i32
}

fn append(source: &str, text: &str) -> String {
    format!("{}\n\n{}", source.trim_end(), conditional(text))
}

/// How a function begins to make a struct: as an argument of `new`, or on a line of its own.
fn making(source: &str, name: &str) -> String {
    let argument = format!("new({name} {{");
    if source.contains(&argument) {
        return argument;
    }
    format!("  {name} {{")
}

fn insert_after(source: &str, needle: &str, text: &str) -> Result<String, String> {
    let at = find_one(source, needle)? + needle.len();
    Ok(format!(
        "{}\n#[cfg({CONDITION})]\n{}\n{}",
        &source[..at],
        text.trim(),
        &source[at..]
    ))
}

/// Puts statements at the start of a function's body.
fn begin(source: &str, name: &str, text: &str) -> Result<String, String> {
    let head = if name.contains("fn ") {
        name.to_owned()
    } else {
        format!("fn {name}")
    };
    let places: Vec<usize> = ["(", "<"]
        .iter()
        .filter_map(|after| find_one(source, &format!("{head}{after}")).ok())
        .collect();
    let &[at] = places.as_slice() else {
        return Err(format!("there is no one function `{name}`"));
    };
    let body = source[at..]
        .find("{\n")
        .ok_or_else(|| format!("`{name}` has no body"))?
        + at
        + 2;
    let block = conditional(text);
    Ok(format!("{}{block}{}", &source[..body], &source[body..]))
}

/// Has a file of the overlay take a module's place.
fn substitute(source: &str, file: &str, module: &str, by: &str) -> Result<String, String> {
    let line = format!("\nmod {module};\n");
    find_one(source, &line)?;
    // From the folder of `file`, up to `src/`.
    let up = "../".repeat(file.matches('/').count() - 1);
    let both = format!(
        r#"
#[cfg(not({CONDITION}))]
mod {module};
#[cfg({CONDITION})]
#[path = "{module}.rs"]
#[allow(unreachable_pub)]
mod upstream_{module};
#[cfg({CONDITION})]
#[path = "{up}{OVERLAY}/{by}"]
mod {module};
"#
    );
    Ok(source.replacen(&line, &both, 1))
}

/// Imports another path under the same name.
fn import(source: &str, path: &str, by: &str) -> Result<String, String> {
    let (parent, name) = path.rsplit_once("::").ok_or("a path has parts")?;
    let alone = format!("use {path};");
    let both = format!("#[cfg(not({CONDITION}))]\n{alone}\n#[cfg({CONDITION})]\nuse {by};");
    if let Ok(at) = find_one(source, &alone) {
        return Ok(format!(
            "{}{both}{}",
            &source[..at],
            &source[at + alone.len()..]
        ));
    }
    // In a list: `use parent::{other, Name};`
    let list = format!("use {parent}::{{");
    let at = find_one(source, &list)?;
    let end = source[at..].find("};").ok_or("the list has no end")? + at;
    let names: Vec<&str> = source[at + list.len()..end]
        .split(',')
        .map(str::trim)
        .collect();
    if !names.contains(&name) {
        return Err(format!("`{path}` is not imported"));
    }
    let rest: Vec<&str> = names
        .into_iter()
        .filter(|other| *other != name && !other.is_empty())
        .collect();
    let rest = rest.join(", ");
    Ok(format!(
        "{}use {parent}::{{{rest}}};\n{both}{}",
        &source[..at],
        &source[end + 2..]
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(rule: &str, source: &str) -> Result<String, RuleError> {
        let rules = parse(&format!(
            "[[rule]]\nwhy = \"a test\"\nfile = \"src/a/b.rs\"\n{rule}"
        ))?;
        let mut files = Files::from([("src/a/b.rs".to_owned(), source.to_owned())]);
        rules[0].apply(&mut files)?;
        Ok(files.remove("src/a/b.rs").unwrap_or_default())
    }

    fn refused(rule: &str, source: &str) -> String {
        apply(rule, source)
            .expect_err("the rule does not fit")
            .to_string()
    }

    #[test]
    fn a_module_goes_on_beside_the_one_that_takes_its_place() {
        let changed = apply(
            "module = 'old'\nby = 'new.rs'",
            "use x;\nmod old;\nmod older;\n",
        )
        .unwrap();
        assert!(changed.contains("#[path = \"old.rs\"]"), "{changed}");
        assert!(changed.contains("mod upstream_old;"), "{changed}");
        // From src/a/, the overlay is one folder up.
        assert!(
            changed.contains("#[path = \"../evenkeel/new.rs\"]"),
            "{changed}"
        );
        assert!(changed.contains("mod older;"), "{changed}");
    }

    #[test]
    fn an_import_is_replaced_alone_or_in_a_list() {
        for source in ["use a::b::C;\n", "use a::b::{D, C};\n"] {
            let changed = apply("import = 'a::b::C'\nby = 'crate::C'", source).unwrap();
            assert!(changed.contains("use crate::C;"), "{changed}");
            assert!(changed.contains("use a::b::C;"), "{changed}");
            assert_eq!(changed.contains('D'), source.contains('D'), "{changed}");
        }
    }

    #[test]
    fn text_comes_first_in_a_struct_its_value_and_a_function() {
        let source =
            "struct S {\n    a: u8,\n}\nfn make() -> Arc<S> {\n    Arc::new(S { a: 1 })\n}\n";
        let changed = apply("field_of = 'S'\ntext = 'b: u8,'", source).unwrap();
        assert!(changed.find("b: u8").unwrap() < changed.find("a: u8").unwrap());
        let alone = source.replace("Arc::new(S { a: 1 })", "S { a: 1 }");
        for source in [source, &alone] {
            let changed = apply("value_in = 'S'\ntext = 'b: 2,'", source).unwrap();
            assert!(changed.find("b: 2").unwrap() < changed.find("a: 1").unwrap());
        }
        let changed = apply("begin = 'make'\ntext = 'begun();'", source).unwrap();
        assert!(changed.find("begun").unwrap() < changed.find("Arc::new").unwrap());
        let source = "fn f() {\n    a();\n}\npub fn f() {\n    b();\n}\n";
        let changed = apply("begin = 'pub fn f'\ntext = 'begun();'", source).unwrap();
        assert!(changed.find("a()").unwrap() < changed.find("begun").unwrap());
    }

    #[test]
    fn what_is_appended_holds_only_with_the_feature() {
        let changed = apply(
            "append = \"\"\"\nfn a() {\n    b();\n}\n\nfn c() {}\n\"\"\"",
            "x\n",
        )
        .unwrap();
        assert_eq!(changed.matches("#[cfg(").count(), 2, "{changed}");
    }

    #[test]
    fn a_rule_that_does_not_fit_says_where_and_why() {
        assert!(refused("module = 'old'", "mod other;\n").contains("not there"));
        assert!(refused("field_of = 'S'", "struct S {}\nstruct S {}\n").contains("more than once"));
        assert!(
            refused("begin = 'f'", "fn f(a: u8) {\n}\nfn f<T>() {\n}\n")
                .contains("no one function")
        );
        assert!(refused("import = 'a::C'", "use a::{D};\n").contains("not imported"));
        assert!(refused("begin = 'f'", "").contains("src/a/b.rs"));
        assert!(refused("begin = 'f'", "").contains("a test"));
        assert!(parse("[[rule]]\nwhy = 'x'\nfile = 'y'\nunknown = 1").is_err());
    }
}
