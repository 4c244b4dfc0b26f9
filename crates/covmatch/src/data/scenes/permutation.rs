//! A keyed permutation of `0..n`: distinct numbers in, distinct numbers out, in an order that looks random.
//!
//! Four rounds of a Feistel network permute the smallest power of four that holds `n`; results past `n` are sent
//! through again until they fall inside ("cycle walking"), which takes fewer than four tries on average.
//! It is what makes scenes distinct by construction: scene number `k` has the description number `permute(k)`.

/// The image of `x` (below `n`) under the permutation that `key` selects.
pub fn permute(key: u64, n: u64, x: u64) -> u64 {
    let half = (64 - n.saturating_sub(1).leading_zeros()).div_ceil(2).max(1); // bits of each half
    let mut y = x;
    loop {
        y = feistel(key, half, y);
        if y < n {
            return y;
        }
    }
}

/// Four rounds of `(l, r) -> (r, l ^ f(r))` on two halves of `half` bits.
fn feistel(key: u64, half: u32, x: u64) -> u64 {
    let mask = (1u64 << half) - 1;
    let (mut left, mut right) = (x >> half, x & mask);
    for round in 0..4 {
        (left, right) = (right, left ^ (mix(key ^ (round << 60) ^ right) & mask));
    }
    (left << half) | right
}

/// The finaliser of splitmix64.
pub fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_reached_once() {
        for n in [1, 2, 3, 5, 64, 1000, 4097] {
            let mut seen: Vec<u64> = (0..n).map(|x| permute(42, n, x)).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn another_key_gives_another_order() {
        let order = |key| (0..1000).map(|x| permute(key, 1000, x)).collect::<Vec<_>>();
        assert_ne!(order(1), order(2));
    }
}
