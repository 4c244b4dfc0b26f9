//! The steps of a student that follows an expert, and what they say about the pairs.
//!
//! ```text
//! forward:   theta_{i+1} = theta_i - eta g_i                      g_i = dl/dtheta at theta_i on batch x_i
//!            L = |theta_T - theta*|^2 / D                         D = |theta_0 - theta*|^2, of each side or of both
//! backward:  p_T = 2 (theta_T - theta*) / D
//!            dL/dx_i  -= d/dx   (eta p_{i+1} . g_i)
//!            dL/deta  -= p_{i+1} . g_i
//!            p_i = p_{i+1} - d/dtheta (eta p_{i+1} . g_i)         full unroll; p_i = p_T in the constant one (TESLA)
//! ```
//! Both derivatives come from differences along one line (see [`super::student`]). The points `theta_i` are kept: T + 1
//! times the trained weights, and nothing that grows with the activations.

use burn::tensor::{Int, Tensor};

use super::point::Point;
use super::student::{Pairs, PairsGradient, Student};
use crate::branches::Branches;
use crate::config::Unroll;
use crate::encoders::EncoderError;
use crate::engine::Stream;

/// One step of a student.
#[derive(Clone, Debug)]
pub struct StudentStep {
    /// The pairs it sees.
    pub rows: Tensor<1, Int>,
    /// Draws its dropout; none drops nothing.
    pub dropout: Option<Stream>,
}

/// What the distance to the expert is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denominator {
    /// Each side's by the way that the expert's side went.
    OfEachSide,
    /// Both by the way that the expert went.
    OfBoth,
}

/// What a student that followed an expert says about the pairs.
#[derive(Clone, Debug)]
pub struct Followed {
    /// `L` of both sides.
    pub loss: Branches<f64>,
    /// The student's own loss at its last step.
    pub student_loss: f32,
    /// `dL/dx`, for all pairs.
    pub pairs: PairsGradient,
    /// `dL/deta`
    pub rates: Branches<f64>,
}

/// Lets `student` go from `start` towards `target` on `pairs`, in the steps of `plan` at learning rates `eta`.
pub fn follow(
    student: &Student<'_>,
    [start, target]: [&Point; 2],
    pairs: &Pairs,
    plan: &[StudentStep],
    eta: Branches<f32>,
    unroll: Unroll,
    denominator: Denominator,
) -> Result<Followed, EncoderError> {
    let (path, end, student_loss) = walk(student, start, pairs, plan, eta)?;
    let missing = end.minus(target);
    let own = start.minus(target).squares();
    let divisor = match denominator {
        Denominator::OfEachSide => own,
        Denominator::OfBoth => Branches { image: own.image + own.text, text: own.image + own.text },
    };
    let loss = missing.squares().zip(divisor, |distance, divisor| distance / divisor);
    // The rates are judged by their own side in either case.
    let to_own = divisor.zip(own, |divisor, own| divisor / own);
    let mut pull = missing.times(divisor.map(|divisor| (2.0 / divisor) as f32));

    let (mut gradient, mut rates) = (PairsGradient::zeros(pairs), Branches::<f64>::default());
    for (step, Visited { theta, g }) in plan.iter().zip(path).rev() {
        rates = rates.zip(pull.dot(&g).zip(to_own, |slope, to_own| slope * to_own), |sum, slope| sum - slope);
        let seen = pairs.select(&step.rows);
        // The minus sign of dL/dx is put into the direction.
        let direction = pull.clone().times(eta.map(|eta| -eta));
        let part = match unroll {
            Unroll::Constant => student.along(&theta, &direction, &seen, step.dropout.as_ref())?,
            Unroll::Full => {
                let (hessian, part) = student.along_with_hessian(&theta, &direction, &seen, step.dropout.as_ref())?;
                pull = pull.plus(Branches { image: 1.0, text: 1.0 }, &hessian);
                part
            }
        };
        gradient = gradient.add_at(&step.rows, part);
    }
    Ok(Followed { loss, student_loss, pairs: gradient, rates })
}

/// A point on the way, and the gradient there.
struct Visited {
    theta: Point,
    g: Point,
}

/// The student's steps from `start`: where it was, where it ends, and its loss at the last step.
fn walk(
    student: &Student<'_>,
    start: &Point,
    pairs: &Pairs,
    plan: &[StudentStep],
    eta: Branches<f32>,
) -> Result<(Vec<Visited>, Point, f32), EncoderError> {
    let (mut theta, mut loss) = (start.clone(), f32::NAN);
    let mut path = Vec::with_capacity(plan.len());
    for step in plan {
        let (value, g) = student.weights_gradient(&theta, &pairs.select(&step.rows), step.dropout.as_ref())?;
        let next = theta.plus(eta.map(|eta| -eta), &g);
        path.push(Visited { theta, g });
        (theta, loss) = (next, value);
    }
    Ok((path, theta, loss))
}
