//! A share of work that many processes do side by side.

use std::str::FromStr;

/// Which of `count` processes this is, from 1; it does every `count`-th piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    count: usize,
}

/// A shard is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no shard: write i/n with i from 1 to n, such as 1/4")]
pub struct ShardError(pub String);

impl Shard {
    /// The only process.
    pub const ALL: Shard = Shard { index: 1, count: 1 };

    /// What this process does of `all`.
    pub fn part<T>(self, all: &[T]) -> impl Iterator<Item = &T> {
        all.iter().skip(self.index - 1).step_by(self.count)
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let numbers = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match numbers {
            Some((index, count)) if (1..=count).contains(&index) => Ok(Self { index, count }),
            _ => Err(ShardError(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn shards_are_a_partition() {
        let all: Vec<u32> = (0..7).collect();
        let mut seen = Vec::new();
        for shard in ["1/3", "2/3", "3/3"] {
            seen.extend(shard.parse::<Shard>().unwrap().part(&all).copied());
        }
        assert_eq!(seen, [0, 3, 6, 1, 4, 2, 5]);
        assert_eq!(Shard::ALL.part(&all).count(), 7);
        for wrong in ["0/3", "4/3", "1", "1/0", "a/b", "-1/2", ""] {
            assert!(wrong.parse::<Shard>().unwrap_err().to_string().contains("1/4"), "{wrong}");
        }
    }
}
