//! Caption cleaning, as the retrieval protocol does it before any tokenizer.
//!
//! Lower case; each of `. ! " ( ) * # : ; ~` becomes a space; a run of two or more white spaces becomes one space;
//! trailing newlines, then spaces at both ends, are cut; the first [`MAX_WORDS`] words, split at single spaces, stay.
//! Comma, apostrophe, hyphen, question mark, slash and ampersand are kept.

/// Words of a caption that are kept, in training and in evaluation.
pub const MAX_WORDS: usize = 30;

/// `caption` after cleaning, with its first `max_words` words.
pub fn clean(caption: &str, max_words: usize) -> String {
    let spaced = caption.to_lowercase().replace(is_replaced, " ");
    let collapsed = collapse_white_space(&spaced);
    let trimmed = collapsed.trim_end_matches('\n').trim_matches(' ');
    trimmed.split(' ').take(max_words).collect::<Vec<_>>().join(" ")
}

fn is_replaced(c: char) -> bool {
    matches!(c, '.' | '!' | '"' | '(' | ')' | '*' | '#' | ':' | ';' | '~')
}

/// What Python's `\s` matches: Unicode's white space and the four information separators.
fn is_white_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Runs of two or more white spaces become one space; a lone white space stays what it is.
fn collapse_white_space(text: &str) -> String {
    let mut collapsed = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        let mut run = 1;
        while is_white_space(c) && characters.next_if(|&next| is_white_space(next)).is_some() {
            run += 1;
        }
        collapsed.push(if run > 1 { ' ' } else { c });
    }
    collapsed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caption_of_ten_thousand_words_keeps_the_first_thirty() {
        let long = "Word ".repeat(10_000);
        assert_eq!(clean(&long, MAX_WORDS), ["word"; 30].join(" "));
    }

    #[test]
    fn marks_alone_leave_nothing() {
        assert_eq!(clean(" ...!!! \n", MAX_WORDS), "");
    }

    #[test]
    fn no_words_are_kept_when_none_are_asked_for() {
        assert_eq!(clean("a dog", 0), "");
    }
}
