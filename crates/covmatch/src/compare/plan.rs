//! Which cells a comparison has, and which of them a process fills.

use super::error::CompareError;
use crate::config::{Config, FULL};
use crate::data::Dataset;
use crate::methods::{Method, Methods};

/// The cells of a comparison: for each number of pairs all methods, then training on everything.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What was asked for.
    pub config: Config,
    /// The cells, in the order of the table.
    pub cells: Vec<Cell>,
}

/// One evaluation, and what it needs.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The name of its folder.
    pub name: String,
    /// The method's name in tables.
    pub title: &'static str,
    /// Pairs of its set; none for training on everything.
    pub pairs: Option<usize>,
    /// The method; none for training on everything.
    pub method: Option<Method>,
    /// The experiment.
    pub config: Config,
}

impl Plan {
    /// The cells that `config` asks for, of `methods`.
    pub fn new(methods: &Methods, config: &Config) -> Result<Self, CompareError> {
        methods.check("the experiment", config)?;
        let wanted = config.compare.clone().unwrap_or_default();
        let base = Config { compare: None, run: None, ..config.clone() };
        let mut cells = Vec::new();
        for &pairs in &wanted.pairs {
            for name in &wanted.methods {
                let config = base.with(&format!("compare.set.{name}"), &wanted.settings(name, pairs))?;
                cells.push(Cell::of(methods.get(name)?, pairs, config));
            }
        }
        if wanted.full {
            let (name, title) = (FULL.to_owned(), "All train pairs");
            let config = base.with("compare.set.full", wanted.full_settings())?;
            cells.push(Cell { name, title, pairs: None, method: None, config });
        }
        Ok(Self { config: config.clone(), cells })
    }

    /// An error if a set is to have more pairs than `dataset` can give.
    pub fn check(&self, dataset: &Dataset) -> Result<(), CompareError> {
        for cell in &self.cells {
            let most = cell.method.as_ref().map_or(usize::MAX, |method| method.most_pairs(dataset));
            let pairs = cell.pairs.unwrap_or(0);
            if pairs > most {
                return Err(CompareError::TooManyPairs { pairs, most, method: cell.title });
            }
        }
        Ok(())
    }
}

impl Cell {
    /// The cell of `method` with `pairs` pairs, in an experiment that is otherwise `config`.
    fn of(method: &Method, pairs: usize, mut config: Config) -> Self {
        config.distill.pairs = pairs;
        if method.learning().is_some() {
            config.distill.method = method.name.to_owned();
        }
        let (name, method) = (format!("{}-{pairs}", method.name), method.clone());
        Self { name, title: method.title, pairs: Some(pairs), method: Some(method), config }
    }
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::small::small;

    /// A small experiment with `overrides`.
    pub fn config(overrides: &[&str]) -> Config {
        small(&[&["data.scenes.train=30"], overrides].concat())
    }

    pub fn plan(methods: &str, pairs: &str, full: bool) -> Result<Plan, CompareError> {
        let fields = [format!("compare.methods={methods}"), format!("compare.pairs={pairs}")];
        let [methods, pairs] = &fields;
        Plan::new(&Methods::built_in(), &config(&[methods, pairs, &format!("compare.full={full}")]))
    }

    fn names(plan: &Plan) -> Vec<&str> {
        plan.cells.iter().map(|cell| cell.name.as_str()).collect()
    }

    #[test]
    fn there_is_a_cell_for_each_method_and_number_of_pairs_and_one_for_everything() {
        let plan = plan(r#"["random", "k-center", "covmatch"]"#, "[4, 8]", true).unwrap();
        let expected = "random-4 k-center-4 covmatch-4 random-8 k-center-8 covmatch-8 full";
        assert_eq!(names(&plan).join(" "), expected);
        assert_eq!((plan.cells[4].config.distill.pairs, plan.cells[4].pairs), (8, Some(8)));
        assert!(plan.cells[2].method.as_ref().unwrap().learning().is_some() && plan.cells[6].method.is_none());
        assert!(plan.cells.iter().all(|cell| cell.config.compare.is_none()));
    }

    #[test]
    fn without_a_section_the_default_methods_are_compared() {
        let plan = Plan::new(&Methods::built_in(), &config(&[])).unwrap();
        assert_eq!(names(&plan).len(), 9);
        assert_eq!(names(&plan)[3], "covmatch-100");
    }

    #[test]
    fn what_another_comparison_fills_does_not_change_a_cell() {
        let (few, more) = (plan(r#"["random"]"#, "[4]", false), plan(r#"["herding", "random"]"#, "[2, 4]", true));
        let cell = |plan: &Plan, at: usize| (plan.cells[at].name.clone(), plan.cells[at].config.clone());
        assert_eq!(cell(&few.unwrap(), 0), cell(&more.unwrap(), 3));
    }

    #[test]
    fn a_method_that_learns_pairs_is_written_into_its_cell() {
        let plan = plan(r#"["covmatch", "mtt-vl", "lors"]"#, "[4]", false).unwrap();
        let methods: Vec<&str> = plan.cells.iter().map(|cell| cell.config.distill.method.as_str()).collect();
        assert_eq!(methods, ["covmatch", "mtt-vl", "lors"]);
    }

    #[test]
    fn settings_of_a_method_and_of_a_cell_change_those_cells_alone() {
        let cells = |set: &[&str]| {
            let sizes = ["compare.methods=[\"random\", \"lors\"]", "compare.pairs=[4, 8]"];
            Plan::new(&Methods::built_in(), &config(&[&sizes, set].concat())).unwrap().cells
        };
        let set = [
            r#"compare.set.lors=["distill.rounds=3", "distill.pairs=5"]"#,
            r#"compare.set.lors-8=["distill.rounds=7"]"#,
            r#"compare.set.full=["train.epochs=9"]"#,
        ];
        let (plain, changed) = (cells(&[]), cells(&set));
        let rounds: Vec<usize> = changed.iter().map(|cell| cell.config.distill.rounds).collect();
        assert_eq!(rounds, [200, 3, 200, 7, 200]);
        assert_eq!(changed[1].config.distill.pairs, 4, "the pairs are those of the cell");
        assert_eq!(changed[4].config.train.epochs, 9);
        assert_eq!((&plain[0].config, &plain[2].config), (&changed[0].config, &changed[2].config));
    }

    #[test]
    fn a_setting_that_cannot_be_used_is_named_with_its_method() {
        let wrong = config(&["compare.methods=[\"lors\"]", r#"compare.set.lors=["distill.momentum=2"]"#]);
        let error = Plan::new(&Methods::built_in(), &wrong).unwrap_err().to_string();
        assert!(error.contains("compare.set.lors") && error.contains("distill.momentum"), "{error}");
    }

    #[test]
    fn more_pairs_than_the_data_has_are_an_error_before_anything_is_made() {
        let dataset = crate::data::scenes::dataset(&config(&[]).data.scenes.unwrap());
        let check = |method: &str, pairs: &str| plan(&format!("[\"{method}\"]"), pairs, true).unwrap().check(&dataset);
        assert!(check("herding", "[30]").is_ok() && check("random", "[150]").is_ok());
        let error = check("herding", "[4, 31]").unwrap_err().to_string();
        assert!(error.contains("31") && error.contains("at most 30") && error.contains("Herding"), "{error}");
        assert!(check("covmatch", "[151]").is_err());
    }
}
