//! Times the pieces of transformer layers: `transformer_bench [repetitions]` prints one `name seconds` line each.
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::time::Instant;

use burn::tensor::{Device, Tensor, TensorData};
use covmatch_kernels::*;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn fill<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    let n = shape.iter().product();
    let values: Vec<f32> =
        (0..n).map(|i: usize| (i.wrapping_mul(2_654_435_761) >> 8 & 0xffff) as f32 / 32768.0 - 1.0).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

/// Seconds of processor time that all threads have used: steadier than wall time on a busy machine.
fn cpu_seconds() -> f64 {
    let mut t = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: clock 2 is CLOCK_PROCESS_CPUTIME_ID, and `t` has the layout of a timespec.
    unsafe { clock_gettime(2, &mut t) };
    t.seconds as f64 + t.nanoseconds as f64 * 1e-9
}

/// The least time of `reps` runs of forward, forward + backward(input) and forward + backward(weights).
fn time(name: &str, reps: usize, f: impl Fn(bool, bool) -> Tensor<2>) {
    if !name.contains(&std::env::args().nth(2).unwrap_or_default()) {
        return;
    }
    for (phase, x, w) in [("fwd", false, false), ("bwd_x", true, false), ("bwd_w", true, true)] {
        let mut least = f64::INFINITY;
        for _ in 0..reps {
            let (y0, c0) = (Instant::now(), cpu_seconds());
            let y = f(x, w);
            if x || w {
                let _g = y.sum().backward();
            }
            let seconds = if std::env::var("CPU").is_ok() { cpu_seconds() - c0 } else { y0.elapsed().as_secs_f64() };
            least = least.min(seconds);
        }
        println!("{name}.{phase} {least:.6}");
    }
}

fn main() {
    let reps: usize = std::env::args().nth(1).map_or(20, |v| v.parse().unwrap());
    let plain = Device::flex();
    let auto = Device::flex().autodiff();
    let track = |t: &Tensor<2>, on: bool, any: bool| {
        let t = if any { Tensor::from_inner(t.clone()) } else { t.clone() };
        if on { t.require_grad() } else { t }
    };
    let _ = &auto;
    for (rows, i, o) in
        [(512, 768, 768), (512, 768, 3072), (512, 3072, 768), (3072, 384, 384), (3072, 384, 1536), (3072, 1536, 384)]
    {
        let (x, w, b) = (fill([rows, i], &plain), fill([o, i], &plain), fill([1, o], &plain));
        time(&format!("linear_{rows}_{i}_{o}"), reps, |tx, tw| {
            let any = tx || tw;
            let b = track(&b, tw, any).reshape([o]);
            linear(track(&x, tx, any), track(&w, tw, any), Some(b))
        });
    }
    for (rows, d) in [(512, 768), (3072, 384)] {
        let (x, r, g, b) =
            (fill([rows, d], &plain), fill([rows, d], &plain), fill([1, d], &plain), fill([1, d], &plain));
        time(&format!("add_layer_norm_{rows}_{d}"), reps, |tx, tw| {
            let any = tx || tw;
            let (g, b) = (track(&g, tw, any).reshape([d]), track(&b, tw, any).reshape([d]));
            add_layer_norm(track(&x, tx, any), track(&r, tx, any), g, b, 1e-12)
        });
        let h = fill([rows, 4 * d], &plain);
        time(&format!("gelu_{rows}_{}", 4 * d), reps, |tx, tw| gelu(track(&h, tx, tx || tw)));
        time(&format!("dropout_{rows}_{d}"), reps, |tx, tw| {
            dropout(track(&x, tx, tx || tw), Dropout { probability: 0.1, seed: 3 })
        });
    }
    for (n, l, heads, d) in [(16, 32, 12, 64), (128, 24, 12, 32)] {
        let qkv = [(); 3].map(|()| fill([n * l, heads * d], &plain));
        let mask = Tensor::<2>::ones([n, l], &plain);
        for p in [0.0, 0.1] {
            time(&format!("attention_{n}_{l}_{heads}_{d}_p{p}"), reps, |tx, tw| {
                let any = tx || tw;
                let [q, k, v] = qkv.each_ref().map(|t| track(t, tx, any).reshape([n, l, heads * d]));
                let drop = (p > 0.0).then_some(Dropout { probability: p, seed: 9 });
                let mask = if any { Tensor::from_inner(mask.clone()) } else { mask.clone() };
                attention(q, k, v, Some(mask), heads, drop).reshape([n * l, heads * d])
            });
        }
    }
}
