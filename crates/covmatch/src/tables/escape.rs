//! Text from outside where it is shown: without meaning in HTML and in Markdown.

use std::fmt::{Result, Write};

use askama::filters::Escaper;

/// The escaper of the templates, which `askama.toml` names, and of SVG: between tags and in quoted attributes.
///
/// Control characters, which XML forbids even when escaped, become U+FFFD.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Html;

impl Escaper for Html {
    fn write_escaped_str<W: Write>(&self, mut out: W, text: &str) -> Result {
        text.chars().try_for_each(|c| self.write_escaped_char(&mut out, c))
    }

    fn write_escaped_char<W: Write>(&self, mut out: W, c: char) -> Result {
        match c {
            '&' => out.write_str("&amp;"),
            '<' => out.write_str("&lt;"),
            '>' => out.write_str("&gt;"),
            '"' => out.write_str("&quot;"),
            '\'' => out.write_str("&#39;"),
            '\n' | '\t' => out.write_char(c),
            c if c.is_control() => out.write_char(char::REPLACEMENT_CHARACTER),
            c => out.write_char(c),
        }
    }
}

/// `text` as [`Html`] writes it.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let _ = Html.write_escaped_str(&mut escaped, text); // a string takes everything
    escaped
}

/// `text` without meaning in Markdown, on one line.
pub(super) fn markdown_text(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '|' | '*' | '_' | '`' | '<' | '[' | ']' => plain.extend(['\\', c]),
            c if c.is_control() => plain.push(' '),
            c => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_opens_a_tag_or_ends_an_attribute_stays() {
        let escaped = escape("<script>alert('a' & \"b\")</script>");
        assert_eq!(escaped, "&lt;script&gt;alert(&#39;a&#39; &amp; &quot;b&quot;)&lt;/script&gt;");
    }

    #[test]
    fn other_text_stays_and_control_characters_go() {
        assert_eq!(escape("Straße ± 犬\n\tend"), "Straße ± 犬\n\tend");
        assert_eq!(escape("a\0b\u{1b}c"), "a\u{fffd}b\u{fffd}c");
    }
}
