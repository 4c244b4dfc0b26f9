//! A method of one's own, outside of the library: distribution matching, on the built-in dataset.
//!
//! ```text
//! L = || mean z_v^T - mean z_v^S ||^2 + || mean z_l^T - mean z_l^S ||^2      under new random heads in every step
//! ```
//! The type below says how it begins, takes a step and saves itself; [`method`] is its entry for the registry, with a
//! section of the configuration that is its own. Everything else (folder, checkpoints, metrics, evaluation, comparison,
//! report) is the library's.
//!
//! ```text
//! cargo run --release -p covmatch --example own_method
//! ```
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::Path;

use burn::tensor::{Device, Tensor};
use covmatch::config::{Config, ConfigError};
use covmatch::data::loader::Batch;
use covmatch::distill::{self, Quiet};
use covmatch::encoders::{EncoderError, Mode};
use covmatch::evaluate::{evaluate_folder, results_table};
use covmatch::experiment::Experiment;
use covmatch::methods::{
    Chart, Learner, Method, MethodError, Methods, PairGradients, PairRates, RealBatches, StepReport, Synthetic,
    pair_gradients, relative_rate, rms,
};
use covmatch::model::{Inputs, Model};
use covmatch::run_folder::RunFolder;
use covmatch::tensor_file::TensorFile;
use serde::Deserialize;

/// `[distribution_matching]`, the method's own section of the configuration.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    /// Real pairs whose mean is matched in a step.
    real_pairs: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { real_pairs: 64 }
    }
}

impl Settings {
    fn of(config: &Config) -> Result<Self, ConfigError> {
        config.section("distribution_matching")
    }
}

/// Distribution matching between two steps.
struct DistributionMatching {
    experiment: Experiment,
    batches: RealBatches,
    synthetic: Synthetic,
    rates: PairRates,
    done: u64,
}

/// The entry of the method.
fn method() -> Method {
    const CHARTS: [Chart; 1] =
        [Chart { title: "Distance of the means", axis: "L", logarithmic: true, curves: &[("L", "loss")] }];
    Method::learns::<DistributionMatching>("distribution-matching", "Distribution matching")
        .with_sections(&["distribution_matching"])
        .with_problem(|config| Settings::of(config).map(|_| ()))
        .with_steps(&CHARTS, &[])
}

impl Learner for DistributionMatching {
    fn begin(experiment: Experiment) -> Result<Self, MethodError> {
        let model = experiment.model(experiment.config.seed(), 0);
        let synthetic = Synthetic::init(&experiment, &model)?;
        let unknown = PairRates { lr_image: 0.0, lr_text: 0.0, momentum: experiment.config.distill.momentum };
        let mut begun = Self::at(experiment, synthetic, unknown, 0)?;
        // A first step shall change pixels and captions by the fractions that the configuration says.
        let batch = RealBatches::new(&begun.experiment, "calibration", begun.synthetic.len(), 0)?.next_batch()?;
        let (_, gradients) = begun.matched_to(batch)?;
        let (fractions, inputs) = (begun.experiment.config.distill.rates(1.0), &begun.synthetic.inputs);
        let rate = |fraction, size, gradient: Option<f32>, what| {
            gradient.map_or(Ok(0.0), |gradient| relative_rate(fraction, size, gradient, what))
        };
        let lr_image = rate(fractions.image, rms(inputs.pixels.clone()), gradients.pixels.map(rms), "pixels")?;
        let lr_text = rate(fractions.text, rms(inputs.text.clone()), gradients.text.map(rms), "captions")?;
        begun.rates = PairRates { lr_image, lr_text, ..unknown };
        Ok(begun)
    }

    fn resume(experiment: Experiment, checkpoint: &Path) -> Result<Self, MethodError> {
        let file = TensorFile::read(&checkpoint.join("state.safetensors"))?;
        let [lr_image, lr_text] = file.value("rates")?;
        let rates = PairRates { lr_image, lr_text, momentum: experiment.config.distill.momentum };
        let synthetic = Synthetic::of(&file, &experiment.device)?;
        Self::at(experiment, synthetic, rates, file.value("done")?)
    }

    fn save(&self, checkpoint: &Path) -> Result<(), MethodError> {
        let mut file = TensorFile::default();
        self.synthetic.put_into(&mut file);
        file.put_value("rates", &[self.rates.lr_image, self.rates.lr_text]);
        file.put_value("done", &self.done);
        Ok(file.write(&checkpoint.join("state.safetensors"))?)
    }

    fn step(&mut self) -> Result<StepReport, MethodError> {
        let start = std::time::Instant::now();
        let batch = self.batches.next_batch()?;
        let (loss, gradients) = self.matched_to(batch)?;
        MethodError::unless_finite("the loss", loss, self.done, &self.experiment.config.distill)?;
        self.synthetic = self.synthetic.clone().step(gradients, None, self.rates);
        self.done += 1;
        let seconds = vec![("matching", start.elapsed().as_secs_f64())];
        Ok(StepReport { step: self.done - 1, loss, seconds, summary: format!("L {loss:.3}"), ..StepReport::default() })
    }

    fn done(&self) -> u64 {
        self.done
    }

    fn constants(&self) -> String {
        format!("rates: pixels {:.3e}, captions {:.3e}", self.rates.lr_image, self.rates.lr_text)
    }

    fn synthetic(&self) -> &Synthetic {
        &self.synthetic
    }
}

impl DistributionMatching {
    /// The method after `done` steps.
    fn at(experiment: Experiment, synthetic: Synthetic, rates: PairRates, done: u64) -> Result<Self, MethodError> {
        let real_pairs = Settings::of(&experiment.config)?.real_pairs;
        let batches = RealBatches::new(&experiment, "distribution matching", real_pairs, done)?;
        Ok(Self { experiment, batches, synthetic, rates, done })
    }

    /// The loss of the pairs against `batch`, under the heads of this step, and its gradients.
    fn matched_to(&self, batch: Batch) -> Result<(f32, PairGradients), MethodError> {
        let (experiment, eval) = (&self.experiment, &mut Mode::Eval);
        let model = experiment.model(experiment.config.seed(), self.done);
        let real = means(&model, model.inputs(batch, eval, &experiment.device)?)?.map(Tensor::autodiff);
        Ok(pair_gradients(self.synthetic.inputs.clone(), experiment.config.distill.learn, |pairs| {
            let ([image, text], [real_image, real_text]) = (means(&model, pairs)?, real);
            Ok((image - real_image).powi_scalar(2).sum() + (text - real_text).powi_scalar(2).sum())
        })?)
    }
}

/// The means of `z_v` and `z_l`, `[1, z]`.
fn means(model: &Model, pairs: Inputs) -> Result<[Tensor<2>; 2], EncoderError> {
    let h = model.features(pairs, &mut Mode::Eval)?;
    let z = model.project(h, &mut Mode::Eval)?;
    Ok([z.image.mean_dim(0), z.text.mean_dim(0)])
}

fn main() -> Result<(), Box<dyn Error>> {
    let (methods, device) = (Methods::built_in().with(method()), Device::flex());
    let overrides =
        ["distill.method=distribution-matching".to_owned(), "distribution_matching.real_pairs=128".to_owned()];
    let preset = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../presets/demo.toml"));
    let experiment = Experiment::open(methods.read(preset, &overrides)?, &device)?;
    let folder = RunFolder::new("runs/own-method");
    distill::run(&methods, experiment.clone(), &folder, &mut Quiet)?;
    let kept = evaluate_folder(&folder, experiment, &mut |_| {})?;
    println!("{}", results_table(&[("Distribution matching".to_owned(), &kept.file.evaluation)]).text());
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use covmatch::compare::{Cell, Comparison, Plan, Stage, Watcher, fill};
    use covmatch::distill::{DistillError, Event, Observer};
    use covmatch::evaluate::Progress;
    use covmatch::methods::EpochDone;
    use covmatch::report::write_run_report;
    use covmatch::shard::Shard;

    const SMALL: &str = r#"
        [data.scenes]
        train = 60
        val = 8
        test = 10
        size = 32
        [image]
        encoder = "nfnet_scenes"
        weights = "built-in"
        size = 32
        [text]
        encoder = "bert_scenes"
        weights = "built-in"
        [head]
        width = 64
        [distill]
        method = "distribution-matching"
        pairs = 6
        rounds = 3
        steps_per_round = 4
        [distribution_matching]
        real_pairs = 16
        [evaluate]
        runs = 2
        epochs = 2
        [compare]
        methods = ["random", "distribution-matching"]
        pairs = [6]
        full = false
    "#;

    fn methods() -> Methods {
        Methods::built_in().with(method())
    }

    fn experiment(overrides: &[&str]) -> Experiment {
        let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
        Experiment::open(Config::parse("small.toml", SMALL, &overrides).unwrap(), &Device::flex()).unwrap()
    }

    /// Stops a run after so many steps.
    struct StopAfter(u64);

    impl Observer for StopAfter {
        fn event(&mut self, event: Event<'_>) {
            self.0 -= u64::from(matches!(event, Event::Step(_)));
        }

        fn stop(&mut self) -> bool {
            self.0 == 0
        }
    }

    impl Watcher for StopAfter {
        fn stage(&mut self, _cell: &Cell, _stage: Stage) {}

        fn steps(&mut self) -> &mut dyn Observer {
            self
        }

        fn epoch(&mut self, _event: Progress) {}

        fn selecting(&mut self, _event: EpochDone) {}
    }

    #[test]
    fn it_is_learned_broken_off_resumed_evaluated_and_reported_like_any_other() {
        let folder = tempfile::tempdir().unwrap();
        let [whole, part] = ["whole", "part"].map(|name| RunFolder::new(folder.path().join(name)));
        distill::run(&methods(), experiment(&[]), &whole, &mut Quiet).unwrap();
        let stopped = distill::run(&methods(), experiment(&[]), &part, &mut StopAfter(6));
        assert!(matches!(stopped, Err(DistillError::Interrupted { step: 6, .. })));
        let (config, maker) = part.require_learner().unwrap();
        assert_eq!((maker.method.as_str(), maker.title.as_str()), ("distribution-matching", "Distribution matching"));
        let opened = Experiment::open(config, &Device::flex()).unwrap();
        distill::resume(&methods(), opened, &part, &mut Quiet).unwrap();
        let bytes = |run: &RunFolder| std::fs::read(run.set()).unwrap();
        assert_eq!(bytes(&part), bytes(&whole));

        let losses: Vec<f64> = distill::read_metrics(&whole.metrics())
            .unwrap()
            .iter()
            .map(|step| step["loss"].as_f64().unwrap())
            .collect();
        assert_eq!(losses.len(), 12);
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        assert!(mean(&losses[8..]) < mean(&losses[..4]), "it learns: {losses:?}");

        let kept = evaluate_folder(&whole, experiment(&[]), &mut |_| {}).unwrap();
        assert_eq!((kept.file.evaluation.runs.len(), kept.path), (2, whole.path().join("evaluation.json")));
        let page = write_run_report(&methods(), &whole, &experiment(&[])).unwrap();
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains("Distribution matching") && page.contains("Distance of the means"));
    }

    #[test]
    fn it_stands_in_a_comparison_beside_random() {
        let folder = tempfile::tempdir().unwrap();
        let plan = Plan::new(&methods(), &experiment(&[]).config).unwrap();
        let mut watcher = StopAfter(u64::MAX);
        fill(&methods(), &plan, Shard::ALL, folder.path(), &Device::flex(), &mut watcher).unwrap();
        let comparison = Comparison::collect(&plan, folder.path());
        assert!(comparison.missing().is_empty());
        assert!(comparison.text().contains("Distribution matching"));
    }

    #[test]
    fn its_section_is_checked_before_anything_is_made() {
        let config = experiment(&["distribution_matching.real_pear=3"]).config;
        let error = methods().check("small.toml", &config).unwrap_err().to_string();
        assert!(error.contains("distribution_matching") && error.contains("real_pear"), "{error}");
        assert!(Methods::built_in().check("small.toml", &config).is_err(), "others do not know the method");
    }
}
