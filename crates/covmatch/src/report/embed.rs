//! Putting foreign text and bytes into a page: HTML escaping and base64.

/// `text` as it may stand in HTML and SVG, between tags and in quoted attributes.
///
/// Control characters, which XML forbids even when escaped, become U+FFFD.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() => escaped.push(char::REPLACEMENT_CHARACTER),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Base64 of RFC 4648, padded: three bytes become four letters of six bits each.
pub(super) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, i| bits << 8 | usize::from(group.get(i).copied().unwrap_or(0)));
        for letter in 0..4 {
            let six = bits >> (18 - 6 * letter) & 63;
            text.push(if letter <= group.len() { char::from(LETTERS[six]) } else { '=' });
        }
    }
    text
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

    #[test]
    fn base64_matches_the_vectors_of_rfc_4648() {
        let vectors = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, coded) in vectors {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(base64(&[0xfb, 0xef, 0xff]), "++//");
    }
}
