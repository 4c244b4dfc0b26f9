//! The distillation against plain PyTorch: `python python/goldens/distill.py` makes the golden values and says what
//! each file holds.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod parity;

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use covmatch::config::Learn;
use covmatch::encoders::Mode;
use covmatch::losses::info_nce;
use covmatch::methods::covmatch::{Matched, Objective, RealStatistics, match_pairs};
use covmatch::methods::waymatch as way;
use covmatch::methods::{PairRates, Synthetic};
use covmatch::model::{Inputs, Model, ModelOptimizer, TrainRates};
use covmatch_kernels::plain_ops;
use parity::model::{Case, EFFICIENTNET_LITE0, NFNET_L0, batch};
use parity::{Golden, close, gradients_by_key, sampled, values};

const STEPS: usize = 10;
const TAU: f32 = 0.07;
const MOMENTUM: f32 = 0.5;
/// Largest deviation: of a loss relative to itself, of gradients and movements relative to their largest element.
const TOLERANCE: f64 = 1e-3;

/// The model and the synthetic pairs of a golden file.
struct State {
    golden: Golden,
    device: Device,
    model: Model,
    synthetic: Synthetic,
}

impl State {
    fn new(case: Case, kind: &str) -> Self {
        let (golden, device) = (case.golden(kind), Device::flex());
        let model = case.model(&device);
        let inputs = batch("synthetic", golden.get("synthetic_mask"), 6, &model, &device);
        Self { golden, device, model, synthetic: Synthetic { inputs, captions: vec![0; 6], velocity: None } }
    }

    fn real(&self, name: &str) -> Inputs {
        batch(name, self.golden.get("real_mask"), 8, &self.model, &self.device)
    }

    /// The matching step on the pairs at `rows`, or on all.
    fn matched(&self, step: usize, rows: Option<&Tensor<1, Int>>) -> Matched {
        let &[rho, lambda] = self.golden.get("objective") else { panic!("rho and lambda") };
        let objective = Objective { rho: rho as f32, cov: 1.0, feat: lambda as f32 };
        let real = RealStatistics::new(&self.model, self.real(&format!("real.{step}"))).unwrap();
        let part = rows.map_or_else(|| self.synthetic.inputs.clone(), |rows| self.synthetic.inputs.select(rows));
        match_pairs(&self.model, &real, part, objective, Learn::Both).unwrap()
    }

    /// A matching step and an online step. Returns `L_cov`, `L_feat` of both modalities and InfoNCE.
    fn step(mut self, step: usize, rows: Option<&Tensor<1, Int>>, optimizer: &mut ModelOptimizer) -> (Self, [f64; 4]) {
        let &[lr_image, lr_text] = self.golden.get("pair_rates") else { panic!("two rates") };
        let rates = PairRates { lr_image: lr_image as f32, lr_text: lr_text as f32, momentum: MOMENTUM };
        let Matched { cov, feat_image, feat_text, gradients } = self.matched(step, rows);
        self.synthetic = self.synthetic.step(gradients, rows, rates);

        let online = self.real(&format!("online.{step}"));
        let (model, loss) =
            self.model.train_step(online, TAU, TrainRates::default(), optimizer, &mut Mode::Eval).unwrap();
        self.model = model;
        (self, [cov, feat_image, feat_text, loss].map(f64::from))
    }
}

/// Compares pixels or text `[n, ..]` with a golden entry and with the norms of each pair.
fn check_pairs<const D: usize>(golden: &Golden, kind: &str, name: &str, found: Tensor<D>) {
    let (n, found) = (found.dims()[0], values(found));
    let expected = golden.get(&format!("{kind}.{name}"));
    close(&format!("{kind} of {name}"), &sampled(&found, expected.len()), expected, TOLERANCE);
    let norm = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>().sqrt();
    let norms: Vec<f64> = found.chunks(found.len() / n).map(norm).collect();
    close(&format!("norms of {kind} of {name}"), &norms, golden.get(&format!("norm.{name}")), TOLERANCE);
}

fn check_losses(what: &str, found: &[f64], expected: &[f64]) {
    for (name, (found, expected)) in
        ["L_cov", "L_feat_image", "L_feat_text", "InfoNCE"].iter().zip(found.iter().zip(expected))
    {
        close(&format!("{name} of {what}"), &[*found], &[*expected], TOLERANCE);
    }
}

fn check_match(case: Case) {
    let state = State::new(case, "match");
    let Matched { cov, feat_image, feat_text, gradients } = state.matched(0, None);
    check_losses("the step", &[cov, feat_image, feat_text].map(f64::from), state.golden.get("losses"));
    check_pairs(&state.golden, "grad", "pixels", gradients.pixels.unwrap());
    check_pairs(&state.golden, "grad", "text", gradients.text.unwrap());
}

fn check_waypoint(case: Case) {
    let state = State::new(case, "waypoint");
    let weights: Vec<f32> = state.golden.get("weights").iter().map(|&weight| weight as f32).collect();
    let &[fitted, covariance, feat, _, info_nce] = weights.as_slice() else { panic!("weights") };
    let [rho, ridge] = [state.golden.get("objective")[0], state.golden.get("ridge")[0]].map(|x| x as f32);
    let objective = way::Objective { fitted, ridge, rho, covariance, feat, info_nce, tau: TAU };

    let features = state.model.features(state.real("real.0"), &mut Mode::Eval).unwrap();
    let statistics = way::Statistics::of(&state.model, features).unwrap();
    let real = statistics.features.clone();
    let waypoint = way::Waypoint { model: state.model.clone(), statistics, way: None };
    let asked = way::ask(&waypoint, real, state.synthetic.inputs.clone(), objective, Learn::Both).unwrap();

    let [feat_image, feat_text] = asked.feat;
    let found = [asked.fitted, asked.covariance, feat_image, feat_text, asked.info_nce];
    for (term, (found, expected)) in found.into_iter().zip(state.golden.get("losses")).enumerate() {
        close(&format!("term {term}"), &[f64::from(found)], &[*expected], TOLERANCE);
    }
    check_pairs(&state.golden, "grad", "pixels", asked.gradients.pixels.unwrap());
    check_pairs(&state.golden, "grad", "text", asked.gradients.text.unwrap());
}

/// All steps; `kind` says whether each takes all pairs or the rows that the file lists.
fn check_steps(case: Case, kind: &str) {
    let mut state = State::new(case, kind);
    let (before, device) = (state.synthetic.inputs.clone(), state.device.clone());
    let rows: Option<Vec<Tensor<1, Int>>> = (kind == "rows").then(|| {
        let all: Vec<i64> = state.golden.get("rows").iter().map(|&row| row as i64).collect();
        let of_step = |rows: &[i64]| Tensor::from_data(TensorData::new(rows.to_vec(), [rows.len()]), &device);
        all.chunks(all.len() / STEPS).map(of_step).collect()
    });
    let mut optimizer = ModelOptimizer::default();
    for step in 0..STEPS {
        let losses;
        (state, losses) = state.step(step, rows.as_ref().map(|rows| &rows[step]), &mut optimizer);
        check_losses(&format!("step {step}"), &losses, &state.golden.get("losses")[4 * step..4 * (step + 1)]);
    }
    let State { golden, synthetic: Synthetic { inputs: after, .. }, .. } = state;
    check_pairs(&golden, "moved", "pixels", after.pixels - before.pixels);
    check_pairs(&golden, "moved", "text", after.text - before.text);
    assert_eq!(values(after.mask), values(before.mask));
}

fn check_info_nce(case: Case) {
    let State { golden, device, model, .. } = State::new(case, "info_nce");
    let online = batch("online.0", golden.get("real_mask"), 8, &model, &device);
    let model = model.train();
    let features = model.features(online.autodiff(), &mut Mode::Eval).unwrap();
    let z = model.project(features, &mut Mode::Eval).unwrap();
    let loss = info_nce(z.image, z.text, TAU);
    close("InfoNCE", &values(loss.clone()), golden.get("loss"), TOLERANCE);
    golden.check_gradients(&gradients_by_key(&model, &loss.backward()));
}

macro_rules! cases {
    ($($case:ident: $pair:expr;)*) => {
        $(mod $case {
            use super::*;

            #[test]
            fn a_matching_step_agrees_with_pytorch_on_the_cpu_kernels() {
                check_match($pair);
            }

            #[test]
            fn a_matching_step_agrees_with_pytorch_on_plain_operations() {
                plain_ops(|| check_match($pair));
            }

            #[test]
            fn what_a_waypoint_asks_agrees_with_pytorch() {
                check_waypoint($pair);
            }

            #[test]
            fn info_nce_and_its_gradients_of_the_heads_agree_with_pytorch() {
                check_info_nce($pair);
            }
        })*
    };
}

cases!(
    efficientnet_lite0: EFFICIENTNET_LITE0;
    nfnet_l0: NFNET_L0;
);

// Many steps are followed with the smooth NFNet only; distill.py says why.

#[test]
fn ten_steps_agree_with_pytorch_on_the_cpu_kernels() {
    check_steps(NFNET_L0, "steps");
}

#[test]
fn ten_steps_agree_with_pytorch_on_plain_operations() {
    plain_ops(|| check_steps(NFNET_L0, "steps"));
}

#[test]
fn pairs_that_are_not_matched_move_on_with_their_momentum_as_in_pytorch() {
    check_steps(NFNET_L0, "rows");
}
