//! What the cells of a comparison hold, collected.
//!
//! Sets of as many pairs stand in one table, so that the best of a column is the best method for that number of pairs.
//! Everything is read from the files of the cells, whoever wrote them.

use std::path::Path;

use serde::Serialize;

use super::plan::{Cell, Plan};
use crate::config::Config;
use crate::evaluate::Evaluation;
use crate::report::Block;
use crate::retrieval::Spread;
use crate::run_folder::Cost;
use crate::tables::{Listing, Row, Shown, Table};

/// All cells, filled or not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What was asked for.
    pub config: Config,
    /// The cells, in the order of the plan.
    pub cells: Vec<Entry>,
}

/// What a cell holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// The name of its folder.
    pub name: String,
    /// The method's name in tables.
    pub title: &'static str,
    /// Pairs of its set; none for training on everything.
    pub pairs: Option<usize>,
    /// What was measured; none if the cell is not filled.
    pub evaluation: Option<Evaluation>,
    /// What making its set took; none if it is not made, or there is none.
    pub cost: Option<Cost>,
}

impl Entry {
    fn of(cell: &Cell, out: &Path) -> Self {
        let Cell { ref name, title, pairs, .. } = *cell;
        Self { name: name.clone(), title, pairs, evaluation: cell.evaluation(out), cost: cell.cost(out) }
    }

    /// Recalls after the last epoch.
    pub(super) fn last(&self) -> Option<&Spread> {
        self.evaluation.as_ref().map(|evaluation| &evaluation.last)
    }

    /// Recalls after the epoch chosen on the validation split.
    pub(super) fn chosen(&self) -> Option<&Spread> {
        self.evaluation.as_ref().and_then(|evaluation| evaluation.chosen.as_ref())
    }
}

impl Comparison {
    /// What the cells of `plan` in `out` hold.
    pub fn collect(plan: &Plan, out: &Path) -> Self {
        let cells = plan.cells.iter().map(|cell| Entry::of(cell, out)).collect();
        Self { config: plan.config.clone(), cells }
    }

    /// The names of the cells that are not filled.
    pub fn missing(&self) -> Vec<&str> {
        let missing = self.cells.iter().filter(|cell| cell.evaluation.is_none());
        missing.map(|cell| cell.name.as_str()).collect()
    }

    /// The recalls: after the last epoch and, where there is one, after the epoch chosen on the validation split.
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = self.blocks_of("", Entry::last);
        if self.cells.iter().any(|cell| cell.chosen().is_some()) {
            blocks.extend(self.blocks_of(", epoch chosen on the validation split", Entry::chosen));
        }
        blocks
    }

    /// A table for each number of pairs, whose title ends in `suffix`.
    fn blocks_of(&self, suffix: &str, recalls: fn(&Entry) -> Option<&Spread>) -> Vec<Block> {
        let same = self.cells.chunk_by(|a, b| a.pairs == b.pairs);
        let block = |cells: &[Entry]| {
            let rows = cells.iter().map(|cell| Row::of(cell.title, recalls(cell))).collect();
            let title = match cells[0].pairs {
                Some(pairs) => format!("{pairs} pairs{suffix}"),
                None => format!("Training on everything{suffix}"),
            };
            Block { title, table: Table::of_recalls(rows) }
        };
        same.map(block).collect()
    }

    /// What making the sets took.
    pub fn costs(&self) -> Listing {
        let sets: Vec<&Entry> = self.cells.iter().filter(|cell| cell.pairs.is_some()).collect();
        let mut costs = sets.iter().filter_map(|cell| cell.cost.as_ref());
        let mut columns = vec!["Steps", "Seconds a step", "Seconds", "Peak MB"];
        if costs.any(|cost| cost.expert_seconds.is_some() || cost.expert_bytes.is_some()) {
            columns.extend(["Expert seconds", "Expert MB"]);
        }
        let row = |cell: &&Entry| {
            let label = format!("{}, {} pairs", cell.title, cell.pairs.unwrap_or(0));
            let mut values = cell.cost.as_ref().map_or(vec![None; 6], cost_values);
            values.truncate(columns.len());
            (label, values)
        };
        let rows = sets.iter().map(row).collect();
        Listing { columns: columns.iter().map(|&name| name.to_owned()).collect(), rows }
    }
}

/// Steps, seconds a step, seconds, peak memory, seconds and bytes of experts.
fn cost_values(cost: &Cost) -> Vec<Option<Shown>> {
    let megabytes = |bytes: u64| format!("{:.0}", bytes as f64 / 1e6);
    let values = [
        (cost.steps > 0).then(|| cost.steps.to_string()),
        cost.seconds_per_step.map(|seconds| format!("{seconds:.3}")),
        Some(format!("{:.1}", cost.seconds)),
        cost.peak_memory.map(megabytes),
        cost.expert_seconds.map(|seconds| format!("{seconds:.1}")),
        cost.expert_bytes.map(megabytes),
    ];
    values.map(|value| value.map(Shown::from)).to_vec()
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::compare::plan::tests::plan;
    use crate::evaluate::Run;
    use crate::retrieval::Recalls;

    /// Two runs whose recalls are about `level`.
    pub fn evaluation(level: f64) -> Evaluation {
        let recalls = |level: f64| Recalls { ir: [level; 3], tr: [level; 3] };
        let run = |level: f64| Run {
            last: recalls(level),
            chosen: Some(recalls(level + 1.0)),
            chosen_epochs: Some(20),
            validation: Some(recalls(level + 1.0)),
            loss: 0.5,
            surge: None,
        };
        let runs = vec![run(level), run(level + 2.0)];
        let last = Spread::of(&[runs[0].last, runs[1].last]).unwrap();
        let chosen = Spread::of(&[recalls(level + 1.0), recalls(level + 3.0)]);
        Evaluation { runs, last, chosen }
    }

    /// Two methods at 4 and 8 pairs and everything; `covmatch-8` is missing.
    pub fn comparison() -> Comparison {
        let plan = plan(r#"["random", "covmatch"]"#, "[4, 8]", true).unwrap();
        let cost = Cost {
            steps: 200,
            seconds_per_step: Some(0.25),
            seconds: 50.0,
            peak_memory: Some(123_000_000),
            expert_seconds: None,
            expert_bytes: None,
        };
        let mut comparison = Comparison::collect(&plan, Path::new("no such folder"));
        for (cell, level) in comparison.cells.iter_mut().zip([10.0, 20.0, 12.0, 0.0, 40.0]) {
            cell.evaluation = (level > 0.0).then(|| evaluation(level));
            cell.cost = (cell.name == "covmatch-4").then_some(cost);
        }
        comparison
    }

    #[test]
    fn there_is_a_table_for_each_number_of_pairs_and_each_way_to_choose_the_epoch() {
        let blocks = comparison().blocks();
        let titles: Vec<&str> = blocks.iter().map(|block| block.title.as_str()).collect();
        assert_eq!(titles[..3], ["4 pairs", "8 pairs", "Training on everything"]);
        assert_eq!(titles[3], "4 pairs, epoch chosen on the validation split");
        assert_eq!(titles.len(), 6);
        let labels: Vec<&str> = blocks[0].table.rows.iter().map(|row| row.label.as_str()).collect();
        assert_eq!(labels, ["Random", "CovMatch"]);
        let score = blocks[0].table.rows[1].scores[6].unwrap();
        assert!((score.mean - 21.0).abs() < 1e-9 && (score.std.unwrap() - 2f64.sqrt()).abs() < 1e-9);
        assert!(blocks[1].table.rows[1].scores.iter().all(Option::is_none), "a missing cell is a row without values");
    }

    #[test]
    fn without_validation_there_is_no_second_part() {
        let mut comparison = comparison();
        comparison.cells.iter_mut().filter_map(|cell| cell.evaluation.as_mut()).for_each(|found| found.chosen = None);
        assert_eq!(comparison.blocks().len(), 3);
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(comparison().missing(), ["covmatch-8"]);
    }

    #[test]
    fn costs_have_columns_for_experts_only_where_there_are_some() {
        let mut comparison = comparison();
        let text = comparison.costs().text();
        assert_eq!(text.lines().count(), 5, "{text}");
        let line = text.lines().find(|line| line.starts_with("CovMatch, 4 pairs")).unwrap();
        let words: Vec<&str> = line.split_whitespace().skip(3).collect();
        assert_eq!(words, ["200", "0.250", "50.0", "123"]);
        comparison.cells[1].cost.as_mut().unwrap().expert_seconds = Some(7.0);
        let text = comparison.costs().text();
        assert!(text.contains("Expert MB") && text.contains("7.0"), "{text}");
    }
}
