//! Tables, for people and for programs: results, of which higher ones are better, and facts that are not ranked.
//!
//! A [`Table`] holds scores and is shown as a [`Listing`], whose cells are text: for terminals, in Markdown and on pages.
//! [`Table::csv`] is for programs.

mod aligned;
mod csv_text;
mod escape;
mod listing;
mod table;

pub use aligned::aligned;
pub(crate) use csv_text::csv_text;
pub(crate) use escape::{Html, escape};
pub use listing::{Listing, Shown};
pub use table::{Row, Score, Table};
