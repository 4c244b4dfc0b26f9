//! Tables, for people and for programs: results, of which higher ones are better, and facts that are not ranked.
//!
//! A [`Table`] holds scores, a [`Listing`] words and numbers as they stand. Both become a sheet of cells that are text,
//! which is written for terminals, Markdown and pages; [`Table::csv`] is for programs.

mod aligned;
mod csv_text;
mod escape;
mod listing;
mod sheet;
mod table;

pub use aligned::aligned;
pub(crate) use csv_text::csv_text;
pub(crate) use escape::{Html, escape};
pub use listing::Listing;
pub use table::{Row, Score, Table};
