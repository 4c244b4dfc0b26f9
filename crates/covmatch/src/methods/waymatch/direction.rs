//! The way a teacher goes on from a waypoint, and how far the pairs would send it elsewhere.
//!
//! ```text
//! v   = theta_{k+1} - theta_k                        how the teacher moved on all data
//! g   = dInfoNCE/dtheta at theta_k on the pairs
//! L_d = mean over parts p of 1 - cos(-g_p, v_p)      parts: encoder and head of each side
//! ```
//! A cosine has no learning rate in it, neither the teacher's nor that of whoever trains on the pairs. With
//!
//! ```text
//! u_p = dL_d/dg_p = (v^_p + cos_p g^_p) / (P |g_p|)  v^, g^: of length 1, P: number of parts
//! dL_d/dx = d/dx (u . g)                             u held fixed
//! ```
//! the gradient takes one backward pass for `g` and two for the difference along `u`
//! ([`student`](crate::methods::trajectory::student)).

use std::ops::Range;

use burn::tensor::Tensor;
use covmatch_kernels as kernels;

use crate::branches::Branches;
use crate::encoders::EncoderError;
use crate::engine::Stream;
use crate::methods::trajectory::Point;
use crate::methods::trajectory::student::{Pairs, PairsGradient, Student};

/// Where the trained weights of a teacher are, and how they go on.
#[derive(Clone, Debug)]
pub struct Way {
    /// `theta_k`
    pub from: Point,
    /// `v`
    pub way: Point,
    /// Tensors of each side that are its encoder's; those of its head follow.
    pub of_encoder: Branches<usize>,
}

/// What the pairs' gradient says of a way.
#[derive(Clone, Debug)]
pub struct Turned {
    /// `cos(-g_p, v_p)` of encoder and head; none where there is nothing to move.
    pub cosines: Branches<[Option<f64>; 2]>,
    /// `dL_d/dx`
    pub gradient: PairsGradient,
}

impl Turned {
    /// `L_d`
    pub fn loss(&self) -> f32 {
        let Branches { image, text } = self.cosines;
        let turned: Vec<f64> = image.into_iter().chain(text).flatten().map(|cosine| 1.0 - cosine).collect();
        (turned.iter().sum::<f64>() / turned.len().max(1) as f64) as f32
    }
}

/// What `student` says of `way` on `pairs`.
pub fn turn(student: &Student<'_>, way: &Way, pairs: &Pairs, dropout: Option<&Stream>) -> Result<Turned, EncoderError> {
    let (_, g) = student.weights_gradient(&way.from, pairs, dropout)?;
    let sides = way.way.as_ref().zip(g.as_ref(), |v, g| (v, g)).zip(way.of_encoder, |(v, g), of_encoder| {
        [0..of_encoder, of_encoder..v.len()].map(|part| Part::of(v, g, part))
    });
    let count = sides.image.iter().chain(&sides.text).filter(|part| part.angle.is_some()).count();
    let u = sides.as_ref().map(|parts| parts.iter().flat_map(|part| part.pull(count)).collect::<Vec<_>>());
    let gradient = student.along(&way.from, &u, pairs, dropout)?;
    let cosines = sides.as_ref().map(|parts| [0, 1].map(|at| parts[at].angle.map(|angle| angle.cosine)));
    Ok(Turned { cosines, gradient })
}

/// A way and a gradient in one part of the weights.
struct Part<'a> {
    way: &'a [Tensor<1>],
    gradient: &'a [Tensor<1>],
    /// None where one of them has no length.
    angle: Option<Angle>,
}

#[derive(Clone, Copy)]
struct Angle {
    /// `|v_p|`
    way: f64,
    /// `|g_p|`
    gradient: f64,
    /// `cos(-g_p, v_p)`
    cosine: f64,
}

impl<'a> Part<'a> {
    fn of(way: &'a [Tensor<1>], gradient: &'a [Tensor<1>], part: Range<usize>) -> Self {
        let (way, gradient) = (&way[part.clone()], &gradient[part]);
        let [of_way, of_gradient] = [way, gradient].map(|tensors| kernels::dot(tensors, tensors).sqrt());
        let lengths = of_way * of_gradient;
        let angle = (lengths > 0.0 && lengths.is_finite()).then(|| Angle {
            way: of_way,
            gradient: of_gradient,
            cosine: -kernels::dot(way, gradient) / lengths,
        });
        Self { way, gradient, angle }
    }

    /// `u_p`, for `count` parts.
    fn pull(&self, count: usize) -> Vec<Tensor<1>> {
        let Some(Angle { way, gradient, cosine }) = self.angle else {
            return self.gradient.iter().map(Tensor::zeros_like).collect();
        };
        let scale = 1.0 / (gradient * count as f64);
        let (of_way, of_gradient) = ((scale / way) as f32, (scale * cosine / gradient) as f32);
        let sum = |(v, g): (&Tensor<1>, &Tensor<1>)| v.clone().mul_scalar(of_way) + g.clone().mul_scalar(of_gradient);
        self.way.iter().zip(self.gradient).map(sum).collect()
    }
}
