//! Evaluations as a table of results.

use super::protocol::Evaluation;
use crate::tables::{Row, Table};

/// The table of labelled evaluations: last epoch, and the epoch chosen on the validation split where there is one.
pub fn results_table(evaluations: &[(String, &Evaluation)]) -> Table {
    let mut rows = Vec::new();
    for (label, evaluation) in evaluations {
        rows.push(Row::of(label, Some(&evaluation.last)));
        if let Some(chosen) = &evaluation.chosen {
            rows.push(Row::of(format!("{label}, epoch chosen on val"), Some(chosen)));
        }
    }
    Table::of_recalls(rows)
}
