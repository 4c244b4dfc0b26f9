//! The target similarity of pictures and captions that LoRS learns: a diagonal and a low-rank part.
//!
//! ```text
//! S = diag(a) + alpha / r  L R^T          a [N], L [N, r], R [N, r];  at first a = 1, L ~ N(0, 1), R = 0: S = I
//! ```
//! Some of the pairs have the similarity of their rows of `a`, `L` and `R`.

use burn::tensor::{Device, Int, Tensor, TensorData};
use covmatch_kernels::{SgdRates, sgd_step};

use crate::engine::Stream;
use crate::tensor_file::{TensorFile, TensorFileError};

/// The factors of a similarity, or their gradients or velocities.
#[derive(Clone, Debug)]
pub struct Factors {
    /// `a` `[N]`
    pub diagonal: Tensor<1>,
    /// `L` `[N, r]`
    pub left: Tensor<2>,
    /// `R` `[N, r]`
    pub right: Tensor<2>,
}

impl Factors {
    /// Those of the identity, for `pairs` pairs and rank `rank`.
    pub fn identity(pairs: usize, rank: usize, stream: &mut Stream, device: &Device) -> Self {
        let left: Vec<f32> = (0..pairs * rank).map(|_| stream.normal()).collect();
        Self {
            diagonal: Tensor::ones([pairs], device),
            left: Tensor::from_data(TensorData::new(left, [pairs, rank]), device),
            right: Tensor::zeros([pairs, rank], device),
        }
    }

    /// `S` `[N, N]`.
    pub fn matrix(&self, alpha: f32) -> Tensor<2> {
        let [n, rank] = self.left.dims();
        let low_rank = self.left.clone().matmul(self.right.clone().transpose()).mul_scalar(alpha / rank as f32);
        let diagonal = Tensor::<2>::eye(n, &self.diagonal.device()) * self.diagonal.clone().reshape([n, 1]);
        diagonal + low_rank
    }

    /// The same of each of the three.
    fn map(self, of_diagonal: impl FnOnce(Tensor<1>) -> Tensor<1>, of: impl Fn(Tensor<2>) -> Tensor<2>) -> Self {
        Self { diagonal: of_diagonal(self.diagonal), left: of(self.left), right: of(self.right) }
    }

    /// The factors of the pairs at `rows`.
    pub fn select(&self, rows: &Tensor<1, Int>) -> Self {
        self.clone().map(|a| a.select(0, rows.clone()), |f| f.select(0, rows.clone()))
    }

    /// The same values in the graph of autodiff, tracked.
    pub fn tracked(self) -> Self {
        self.map(|a| a.autodiff().require_grad(), |f| f.autodiff().require_grad())
    }

    /// The same values in the graph of autodiff, not tracked.
    pub fn autodiff(self) -> Self {
        self.map(|a| a.autodiff(), |f| f.autodiff())
    }

    /// Zeros in the same shapes.
    pub fn zeros_like(&self) -> Self {
        self.clone().map(|a| a.zeros_like(), |f| f.zeros_like())
    }

    /// `factor (self - other)`.
    pub fn difference(self, other: Self, factor: f32) -> Self {
        Self {
            diagonal: (self.diagonal - other.diagonal).mul_scalar(factor),
            left: (self.left - other.left).mul_scalar(factor),
            right: (self.right - other.right).mul_scalar(factor),
        }
    }

    /// `self` with `part` added at `rows`.
    pub fn add_at(self, rows: &Tensor<1, Int>, part: Self) -> Self {
        use burn::tensor::IndexingUpdateOp::Add;
        Self {
            diagonal: self.diagonal.select_assign(0, rows.clone(), part.diagonal, Add),
            left: self.left.select_assign(0, rows.clone(), part.left, Add),
            right: self.right.select_assign(0, rows.clone(), part.right, Add),
        }
    }

    /// The factors and their velocity after a step along `gradient`.
    pub fn step(self, gradient: Self, velocity: Option<Self>, rates: SgdRates) -> (Self, Self) {
        let velocity = velocity.unwrap_or_else(|| self.zeros_like());
        let (diagonal, v_diagonal) = sgd_step(self.diagonal, gradient.diagonal, Some(velocity.diagonal), rates);
        let (left, v_left) = sgd_step(self.left, gradient.left, Some(velocity.left), rates);
        let (right, v_right) = sgd_step(self.right, gradient.right, Some(velocity.right), rates);
        (Self { diagonal, left, right }, Self { diagonal: v_diagonal, left: v_left, right: v_right })
    }

    /// Adds the three to `file`, under names that begin with `name`.
    pub(super) fn put_into(&self, file: &mut TensorFile, name: &str) {
        file.put(&format!("{name}.diagonal"), self.diagonal.clone());
        file.put(&format!("{name}.left"), self.left.clone());
        file.put(&format!("{name}.right"), self.right.clone());
    }

    /// The three under `name` in `file`; none if they are not there.
    pub(super) fn of(file: &TensorFile, name: &str, device: &Device) -> Result<Option<Self>, TensorFileError> {
        if !file.contains(&format!("{name}.diagonal")) {
            return Ok(None);
        }
        Ok(Some(Self {
            diagonal: file.get(&format!("{name}.diagonal"), device)?,
            left: file.get(&format!("{name}.left"), device)?,
            right: file.get(&format!("{name}.right"), device)?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Seed;

    fn values(t: Tensor<2>) -> Vec<f32> {
        t.into_data().iter::<f32>().collect()
    }

    #[test]
    fn at_first_every_picture_belongs_to_its_own_caption() {
        let device = Device::flex();
        let factors = Factors::identity(4, 3, &mut Seed(1).stream("similarity", 0), &device);
        assert_eq!(values(factors.matrix(3.0)), values(Tensor::eye(4, &device)));
    }

    #[test]
    fn rows_have_the_part_of_the_matrix_that_belongs_to_them() {
        let device = Device::flex();
        let factors = Factors {
            diagonal: Tensor::from_floats([1.0, 2.0, 3.0], &device),
            left: Tensor::from_floats([[1.0, 2.0], [0.5, -1.0], [3.0, 0.0]], &device),
            right: Tensor::from_floats([[0.0, 1.0], [2.0, 1.0], [-1.0, 1.0]], &device),
        };
        // S_ij = a_i [i = j] + 3 / 2 (L_i . R_j)
        let whole = values(factors.matrix(3.0));
        assert_eq!(whole, [4.0, 6.0, 1.5, -1.5, 2.0, -2.25, 0.0, 9.0, -1.5]);
        let rows = Tensor::from_data(TensorData::new(vec![2i64, 0], [2]), &device);
        assert_eq!(values(factors.select(&rows).matrix(3.0)), [whole[8], whole[6], whole[2], whole[0]]);
    }
}
