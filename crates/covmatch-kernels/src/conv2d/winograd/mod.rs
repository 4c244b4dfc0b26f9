//! Convolution with 3 x 3 kernels and stride 1 by Winograd's F(2 x 2, 3 x 3) and F(4 x 4, 3 x 3), with AVX-512.
//!
//! Paper: Lavin and Gray 2015, <https://arxiv.org/abs/1509.09308>.
//!
//! A tile `Y` of results reads a window `D` of pixels, two more a side. With the kernel `W`, and `*` by elements,
//!
//! ```text
//! Y = A^T [ sum over channels of (G W G^T) * (B^T D B) ] A
//! ```
//! Results of 2 x 2 read 4 x 4 pixels, and 16 products a channel take the place of 36:
//!
//! ```text
//!       1  0 -1  0          1   0   0
//! B^T = 0  1  1  0     G = 1/2 1/2 1/2     A^T = 1  1  1  0
//!       0 -1  1  0         1/2-1/2 1/2           0  1 -1 -1
//!       0  1  0 -1          0   0   1
//! ```
//! Results of 4 x 4 read 6 x 6 pixels, and 36 products take the place of 144. With the points 0, p, -p, q, -q and
//! infinity, powers written as p2 and p3, and `n_x` = 1 / the product of `x - y` over the other finite points `y`:
//!
//! ```text
//!       p2q2   0  -p2-q2   0    1  0          n_0     0      0
//!         0  -pq2  -q2     p    1  0          n_p   p n_p  p2 n_p           1  1  1  1  1  0
//! B^T =   0   pq2  -q2    -p    1  0     G =  n_p  -p n_p  p2 n_p     A^T = 0  p -p  q -q  0
//!         0  -p2q  -p2     q    1  0          n_q   q n_q  q2 n_q           0 p2 p2 q2 q2  0
//!         0   p2q  -p2    -q    1  0          n_q  -q n_q  q2 n_q           0 p3-p3 q3-q3  1
//!         0  p2q2   0   -p2-q2  0  1           0      0      1
//! ```
//! The paper has p = 1 and q = 2. Here they are 3/4 and 3/2: the powers stay closer to 1, and the largest rounding
//! error of 64 channels is a quarter of the paper's.
//!
//! At each place of the transforms the sum over channels is a matrix product of all tiles ([`convolution`]). The input
//! gradient is the same with `dy` as the source and the kernels turned by half a turn.

mod convolution;
mod kernels;
mod matrices;
mod tiles;
mod transforms;
mod weight_gradient;

use super::geometry::Geometry;
use super::packed::Packed;
use crate::gemm::Clamp;
use crate::gemm::micro::PANEL;
use convolution::Convolution;
use tiles::{Images, Tiling};

/// Whether the convolution is computed faster this way: the channels are enough to make up for the transforms, and a
/// group's transformed kernels stay in L2.
pub(super) fn suits(g: &Geometry) -> bool {
    let channels = |c: usize| (32..=128).contains(&c) && c.is_multiple_of(32);
    // Tiles reach over the border of an image with odd sides.
    let pays = |h, w| 5 * 16 * Tiling::new(2, 1, (h, w)).count() < 4 * 9 * h * w;
    g.k == 3 && g.stride == 1 && channels(g.ci_group()) && channels(g.co_group()) && pays(g.h, g.w) && pays(g.oh, g.ow)
}

/// Results of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// 2 x 2.
    Two,
    /// 4 x 4.
    Four,
}

impl Side {
    /// The side with which results of `size` are computed faster: the larger one if it saves an eighth of the products
    /// and the transformed kernels of a group, 590 KB for 64 x 64 channels, stay in L2.
    ///
    /// The batch has no say: what becomes of an image does not depend on how many others there are.
    fn of(g: &Geometry, size: (usize, usize)) -> Self {
        let products = |side: usize| (side + 2) * (side + 2) * Tiling::new(side, 1, size).count();
        let fits = g.ci_group() <= PANEL && g.co_group() <= PANEL;
        if fits && 8 * products(4) <= 7 * products(2) { Side::Four } else { Side::Two }
    }
}

/// `y = clamp(conv(x, w) + bias)`.
pub(super) fn forward(g: &Geometry, x: &[f32], w: &[f32], bias: Option<&[f32]>, clamp: Clamp) -> Vec<f32> {
    forward_by(Side::of(g, (g.oh, g.ow)), g, x, w, bias, clamp)
}

/// `dx` from `dy`.
pub(super) fn input_gradient(g: &Geometry, dy: &[f32], w: &[f32]) -> Vec<f32> {
    input_gradient_by(Side::of(g, (g.h, g.w)), g, dy, w)
}

/// `dw` `[co, ci / groups, 3, 3]` from `x` and `dy`.
pub(super) fn weight_gradient(g: &Geometry, x: &[f32], dy: &[f32]) -> Vec<f32> {
    weight_gradient_by(Side::of(g, (g.oh, g.ow)), g, x, dy)
}

fn forward_by(side: Side, g: &Geometry, x: &[f32], w: &[f32], bias: Option<&[f32]>, clamp: Clamp) -> Vec<f32> {
    let zeros = vec![0.0; g.ci_group().max(g.co)];
    let convolution = Convolution {
        source: Images { values: x, size: (g.h, g.w), channels: g.ci, zeros: &zeros },
        corner: (g.top as isize, g.left as isize),
        groups: g.groups,
        packed: Packed::forward(g, w),
        order: |tap| tap,
        bias: bias.unwrap_or(&zeros[..g.co]),
        clamp,
        n: g.n,
        size: (g.oh, g.ow),
    };
    convolution_by(side, &convolution)
}

fn input_gradient_by(side: Side, g: &Geometry, dy: &[f32], w: &[f32]) -> Vec<f32> {
    let zeros = vec![0.0; g.co_group().max(g.ci)];
    let convolution = Convolution {
        source: Images { values: dy, size: (g.oh, g.ow), channels: g.co, zeros: &zeros },
        corner: (2 - g.top as isize, 2 - g.left as isize),
        groups: g.groups,
        packed: Packed::input_gradient(g, w),
        order: |tap| 8 - tap,
        bias: &zeros[..g.ci],
        clamp: Clamp::NONE,
        n: g.n,
        size: (g.h, g.w),
    };
    convolution_by(side, &convolution)
}

fn convolution_by(side: Side, convolution: &Convolution) -> Vec<f32> {
    match side {
        Side::Two => convolution.by_tiles::<2, 4>(),
        Side::Four => convolution.by_tiles::<4, 6>(),
    }
}

fn weight_gradient_by(side: Side, g: &Geometry, x: &[f32], dy: &[f32]) -> Vec<f32> {
    match side {
        Side::Two => weight_gradient::by_tiles::<2, 4>(g, x, dy),
        Side::Four => weight_gradient::by_tiles::<4, 6>(g, x, dy),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::conv2d::{Conv2dOptions, Padding, direct};
    use crate::simd::lacks_avx512;

    fn geometry(n: usize, size: (usize, usize), channels: (usize, usize), groups: usize, padding: usize) -> Geometry {
        let options = Conv2dOptions { padding: Padding::Explicit(padding), groups, ..Default::default() };
        let ((h, w), (ci, co)) = (size, channels);
        Geometry::new([n, h, w, ci * groups], [co * groups, ci, 3, 3], options)
    }

    #[test]
    fn tiles_of_4x4_are_chosen_where_they_save_work() {
        let side = |size, channels| {
            let g = geometry(1, (size, size), channels, 1, 1);
            assert!(suits(&g));
            Side::of(&g, (size, size))
        };
        for size in [112, 56, 28, 14, 7] {
            assert_eq!(side(size, (64, 64)), Side::Four, "{size}");
            assert_eq!(side(size, (32, 64)), Side::Four, "{size}");
            assert_eq!(side(size, (64, 128)), Side::Two, "{size}");
        }
        // Tiles of 4 x 4 would cover 8 x 8 pixels.
        assert_eq!(side(6, (64, 64)), Side::Two);
    }

    #[test]
    fn an_image_has_the_same_result_in_any_batch() {
        if lacks_avx512() {
            return;
        }
        for size in [6, 7, 14, 19] {
            let (one, batch) = (geometry(1, (size, size), (64, 64), 2, 1), geometry(9, (size, size), (64, 64), 2, 1));
            let (x, w) = (fill(batch.in_pixels() * batch.ci, 1), fill(batch.co * 64 * 9, 2));
            let y = forward(&batch, &x, &w, None, Clamp::NONE);
            for (x, y) in x.chunks_exact(one.in_pixels() * one.ci).zip(y.chunks_exact(one.out_pixels() * one.co)) {
                assert_eq!(forward(&one, x, &w, None, Clamp::NONE), y);
            }
        }
    }

    fn fill(len: usize, seed: u64) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..len).map(|_| next()).collect()
    }

    fn check(got: &[f32], want: &[f32], what: &str) {
        assert_eq!(got.len(), want.len());
        let scale = want.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
        let error = got.iter().zip(want).fold(0.0_f32, |m, (g, w)| m.max((g - w).abs()));
        assert!(error <= 1e-5 * scale, "{what}: error of {error} among values to {scale}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn tiles_of_either_side_give_what_direct_convolution_gives(
            n in 1_usize..4, h in 3_usize..15, w in 3_usize..15, ci in 1_usize..5, co in 1_usize..5,
            groups in 1_usize..3, padding in 0_usize..4, bias: bool,
            clamp in prop_oneof![Just(Clamp::NONE), Just(Clamp::RELU), Just(Clamp::RELU6)],
        ) {
            if lacks_avx512() {
                return Ok(());
            }
            let g = geometry(n, (h, w), (32 * ci, 32 * co), groups, padding);
            let (x, dy) = (fill(g.in_pixels() * g.ci, 1), fill(g.out_pixels() * g.co, 2));
            let scale = 2.0 / (9.0 * g.ci_group() as f32).sqrt();
            let weight: Vec<f32> = fill(g.co * g.ci_group() * 9, 3).into_iter().map(|v| v * scale).collect();
            let b = fill(g.co, 4);
            let b = bias.then_some(&b[..]);
            let y = direct::forward(&g, &x, &weight, b, clamp);
            let dx = direct::input_gradient(&g, &dy, &weight);
            let dw = direct::weight_gradient(&g, &x, &dy);
            for side in [Side::Two, Side::Four] {
                check(&forward_by(side, &g, &x, &weight, b, clamp), &y, "y");
                check(&input_gradient_by(side, &g, &dy, &weight), &dx, "dx");
                check(&weight_gradient_by(side, &g, &x, &dy), &dw, "dw");
            }
        }
    }
}
