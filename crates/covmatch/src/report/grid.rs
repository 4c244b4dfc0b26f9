//! Distilled pairs as people see them: the picture a pair started from beside what became of it, and the captions.

use askama::Template;

use super::picture::Picture;
use crate::data::RgbImage;

/// A pair before and after distillation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairView {
    /// The real picture that the pair started from.
    pub before: RgbImage,
    /// The distilled picture.
    pub after: RgbImage,
    /// The caption that the pair started from.
    pub init_caption: String,
    /// The real caption whose feature is nearest to the distilled one.
    pub nearest_caption: String,
}

/// All pairs as cards in a list.
#[derive(Template)]
#[template(path = "pairs.html")]
pub(super) struct Pairs<'a> {
    pairs: Vec<Card<'a>>,
}

/// A pair with its pictures encoded.
struct Card<'a> {
    view: &'a PairView,
    before: Picture,
    after: Picture,
}

impl<'a> Pairs<'a> {
    /// The cards of `pairs`, counted from 1.
    pub fn of(pairs: &'a [PairView]) -> Self {
        let card = |(i, view): (usize, &'a PairView)| Card {
            view,
            before: Picture::new(&view.before, format!("Pair {} before: {}", i + 1, view.init_caption)),
            after: Picture::new(&view.after, format!("Pair {} after: {}", i + 1, view.nearest_caption)),
        };
        Self { pairs: pairs.iter().enumerate().map(card).collect() }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::report::picture::tests::grey;

    pub fn pair(init: &str, nearest: &str) -> PairView {
        let (init_caption, nearest_caption) = (init.to_owned(), nearest.to_owned());
        PairView { before: grey(8, 8, 0), after: grey(8, 8, 255), init_caption, nearest_caption }
    }

    fn pairs_html(pairs: &[PairView]) -> String {
        Pairs::of(pairs).to_string()
    }

    #[test]
    fn a_card_has_both_pictures_and_both_captions() {
        let html = pairs_html(&[pair("a dog", "a cat")]);
        assert_eq!(html.matches("<img class=\"small\" width=\"8\" height=\"8\"").count(), 2);
        assert_eq!(html.matches("src=\"data:image/png;base64,iVBORw0KGgo").count(), 2);
        assert!(html.contains("alt=\"Pair 1 before: a dog\"") && html.contains("alt=\"Pair 1 after: a cat\""));
        assert!(html.contains(">a dog</dd>") && html.contains(">a cat</dd>"));
    }

    #[test]
    fn a_caption_that_stayed_is_shown_once() {
        assert_eq!(pairs_html(&[pair("same", "same")]).matches(">same</dd>").count(), 1);
        assert_eq!(pairs_html(&[pair("same", "other")]).matches("</dd>").count(), 2);
    }

    #[test]
    fn captions_cannot_bring_in_tags() {
        let html = pairs_html(&[pair("<script>alert(1)</script>", "\" onload=\"x")]);
        assert!(!html.contains("<script>") && html.contains("&lt;script&gt;"));
        assert!(!html.contains("\" onload="));
    }
}
