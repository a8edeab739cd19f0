//! A document in XML, as elements with their local names: namespaces have other prefixes with each
//! maker.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// No answer of a camera has more elements, or is deeper.
const ELEMENTS_MAX: usize = 20_000;
const DEPTH_MAX: usize = 32;

/// An element.
#[derive(Debug, Default)]
pub(super) struct Element {
    pub(super) name: String,
    /// Attributes, by their local names.
    attributes: Vec<(String, String)>,
    /// All text that is in it, but not in one of its elements.
    text: String,
    elements: Vec<Element>,
}

impl Element {
    /// Reads a document. What is wrong with it, if it is none.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut reader = Reader::from_str(text);
        let (mut open, mut count) = (vec![Self::default()], 0);
        loop {
            let event = reader.read_event().map_err(|error| error.to_string())?;
            count += 1;
            if count > ELEMENTS_MAX || open.len() > DEPTH_MAX {
                return Err("the document is too long, or too deep".to_owned());
            }
            match event {
                Event::Start(start) => open.push(Self::of(&start)),
                Event::Empty(start) => close(&mut open, Self::of(&start)),
                Event::End(_) => {
                    // There is one: otherwise the reader would have said so.
                    if let Some(element) = open.pop() {
                        close(&mut open, element);
                    }
                }
                Event::Text(text) => add(&mut open, &text.xml10_content()),
                Event::CData(text) => add(&mut open, &text.xml10_content()),
                Event::GeneralRef(reference) => {
                    let number = reference.resolve_char_ref();
                    let number = number.map_err(|error| error.to_string())?;
                    let letter = number.or(match &*reference.xml10_content() {
                        "amp" => Some('&'),
                        "lt" => Some('<'),
                        "gt" => Some('>'),
                        "quot" => Some('"'),
                        "apos" => Some('\''),
                        // Of a document type, which nobody sends and everybody fears.
                        _ => None,
                    });
                    if let Some(letter) = letter {
                        add(&mut open, letter.encode_utf8(&mut [0; 4]));
                    }
                }
                Event::Eof => break,
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
            }
        }
        match (open.pop(), open.is_empty()) {
            (Some(document), true) => Ok(document),
            _ => Err("the document ends too early".to_owned()),
        }
    }

    fn of(start: &BytesStart<'_>) -> Self {
        let attributes = start.attributes().filter_map(Result::ok);
        let attributes = attributes.filter_map(|attribute| {
            let name = attribute.key.local_name().into_inner().to_owned();
            let value = attribute.normalized_value(quick_xml::XmlVersion::Implicit1_0);
            Some((name, value.ok()?.into_owned()))
        });
        Self {
            name: start.local_name().into_inner().to_owned(),
            attributes: attributes.collect(),
            ..Self::default()
        }
    }

    /// An attribute.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        let mut found = self.attributes.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| &**value)
    }

    /// What it says, without the spaces around it.
    pub(super) fn text(&self) -> &str {
        self.text.trim()
    }

    /// The first element of this name within it, however deep.
    pub(super) fn find(&self, name: &str) -> Option<&Self> {
        self.elements
            .iter()
            .find_map(|element| match element.name == name {
                true => Some(element),
                false => element.find(name),
            })
    }

    /// What that element says, if it says something.
    pub(super) fn said(&self, name: &str) -> Option<&str> {
        let said = self.find(name).map(Self::text);
        said.filter(|text| !text.is_empty())
    }

    /// All elements of this name within it, but none within another of them.
    pub(super) fn all<'a>(&'a self, name: &str) -> Vec<&'a Self> {
        let of_each = |element: &'a Self| match element.name == name {
            true => vec![element],
            false => element.all(name),
        };
        self.elements.iter().flat_map(of_each).collect()
    }
}

fn add(open: &mut [Element], text: &str) {
    if let Some(element) = open.last_mut() {
        element.text.push_str(text);
    }
}

fn close(open: &mut [Element], element: Element) {
    if let Some(around) = open.last_mut() {
        around.elements.push(element);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn elements_are_found_by_their_local_names() {
        let text = "<?xml version=\"1.0\"?><a:E xmlns:a=\"x\"><a:B><b:P token=\"1&amp;2\"><N> one \
                    &amp; &#50; </N></b:P><P token=\"2\"/></a:B><![CDATA[<raw>]]></a:E>";
        let document = Element::read(text).unwrap();
        let profiles = document.all("P");
        assert_eq!(profiles.len(), 2);
        assert_eq!(profiles[0].attribute("token"), Some("1&2"));
        assert_eq!(document.said("N"), Some("one & 2"));
        assert_eq!(document.find("E").unwrap().text(), "<raw>");
        assert_eq!(document.said("B"), None);
        let deep = "<a>".repeat(DEPTH_MAX + 1);
        for wrong in ["<a>", "<a></b>", "<a", &deep] {
            assert!(Element::read(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "[<>/a-c\"=& ;#!?\\[\\]-]{0,60}") {
            let _ = Element::read(&text);
        }
    }
}
