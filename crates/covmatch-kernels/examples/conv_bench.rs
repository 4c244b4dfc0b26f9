//! Times of convolutions: `conv_bench [filter]`; min of N, in ms: forward, input gradient, weight gradient.
#![allow(clippy::unwrap_used, clippy::print_stdout)]
use burn::tensor::{Device, Tensor, TensorData};
use covmatch_kernels::{Conv2dOptions, Padding, conv2d};
#[global_allocator]
static A: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn t<const D: usize>(shape: [usize; D], d: &Device) -> Tensor<D> {
    let n: usize = shape.iter().product();
    let mut z = 88172645463325252_u64;
    let v: Vec<f32> = (0..n)
        .map(|_| {
            z ^= z << 13;
            z ^= z >> 7;
            z ^= z << 17;
            (z >> 40) as f32 / 8_388_608.0 - 1.0
        })
        .collect();
    Tensor::from_data(TensorData::new(v, shape), d)
}

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
}

/// CPU time of the process (CLOCK=2, default) or wall time (CLOCK=1).
fn now() -> f64 {
    static CLOCK: std::sync::OnceLock<i32> = std::sync::OnceLock::new();
    let clock = *CLOCK.get_or_init(|| std::env::var("CLOCK").map_or(2, |v| v.parse().unwrap()));
    let mut t = [0_i64; 2];
    // SAFETY: writes two i64.
    unsafe { clock_gettime(clock, &mut t) };
    t[0] as f64 + t[1] as f64 * 1e-9
}

fn main() {
    rayon::ThreadPoolBuilder::new()
        .num_threads(std::env::var("T").map_or(1, |v| v.parse().unwrap()))
        .build_global()
        .unwrap();
    let filter = std::env::args().nth(1).unwrap_or_default();
    let reps: usize = std::env::var("N").map_or(12, |v| v.parse().unwrap());
    if filter == "chain" {
        let dev = Device::flex();
        for (h, c, m, k) in [(48, 16, 96, 3), (24, 24, 144, 3), (12, 40, 240, 5), (6, 80, 480, 3), (6, 112, 672, 5)] {
            let x = t([64, h, h, c], &dev);
            let (w1, w2, w3) = (t([m, c, 1, 1], &dev), t([m, 1, k, k], &dev), t([c, m, 1, 1], &dev));
            let o = |groups, epilogue| Conv2dOptions { padding: Padding::Same, groups, epilogue, stride: 1 };
            let mut best = [f64::INFINITY; 3];
            for _ in 0..reps {
                for (i, (tx, tw)) in [(false, false), (true, false), (true, true)].into_iter().enumerate() {
                    let g = |t: Tensor<4>, on: bool| {
                        let t: Tensor<4> = Tensor::from_inner(t);
                        if on { t.require_grad() } else { t }
                    };
                    let (x, w1, w2, w3) = (g(x.clone(), tx), g(w1.clone(), tw), g(w2.clone(), tw), g(w3.clone(), tw));
                    let t0 = now();
                    let y = conv2d(x, w1, None, o(1, covmatch_kernels::Epilogue::Relu6));
                    let y = conv2d(y, w2, None, o(m, covmatch_kernels::Epilogue::Relu6));
                    let y = conv2d(y, w3, None, o(1, covmatch_kernels::Epilogue::None));
                    if i > 0 {
                        drop(y.backward());
                    }
                    best[i] = best[i].min(now() - t0);
                }
            }
            println!("chain{h}x{c} {:.2} {:.2} {:.2}", best[0] * 1e3, best[1] * 1e3, best[2] * 1e3);
        }
        return;
    }
    for line in include_str!("shapes.txt").lines() {
        let f: Vec<&str> = line.split_whitespace().collect();
        if f.len() < 8 || !line.contains(&filter) {
            continue;
        }
        let v: Vec<usize> = f[1..8].iter().map(|s| s.parse().unwrap()).collect();
        let [n, h, ci, co, k, s, g] = v[..] else { continue };
        let padding = if f[0].starts_with("eff") { Padding::Same } else { Padding::Explicit((k - 1) / 2) };
        let o = Conv2dOptions { stride: s, padding, groups: g, ..Default::default() };
        let dev = Device::flex();
        let (x, w, b) = (t([n, h, h, ci], &dev), t([co, ci / g, k, k], &dev), t([co], &dev));
        let y = conv2d(x.clone(), w.clone(), Some(b.clone()), o);
        drop(y);
        let mut best = [f64::INFINITY; 3];
        let mut base = f64::INFINITY;
        for _ in 0..reps {
            let t0 = now();
            let y = conv2d(x.clone(), w.clone(), Some(b.clone()), o);
            best[0] = best[0].min(now() - t0);
            let leaf: Tensor<4> = Tensor::from_inner(y).require_grad();
            let t0 = now();
            drop(leaf.backward());
            base = base.min(now() - t0);
            for (i, (tx, tw)) in [(true, false), (false, true)].into_iter().enumerate() {
                let (mut ax, mut aw) = (Tensor::from_inner(x.clone()), Tensor::from_inner(w.clone()));
                if tx {
                    ax = ax.require_grad();
                }
                if tw {
                    aw = aw.require_grad();
                }
                let y = conv2d(ax, aw, None, o);
                let t0 = now();
                let gr = y.backward();
                best[1 + i] = best[1 + i].min(now() - t0);
                drop(gr);
            }
        }
        best[1] -= base;
        best[2] -= base;
        println!("{} {:.3} {:.3} {:.3}", f[0], best[0] * 1e3, best[1] * 1e3, best[2] * 1e3);
    }
}
