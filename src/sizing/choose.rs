//! Which number of ranks a model runs on: what splits, what fits, and what is not needed.

use super::arch::Architecture;
use super::split::{Share, Why};

/// What is asked of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Tokens of each sequence.
    pub context: u64,
    /// Sequences at once.
    pub concurrency: u64,
}

/// One number of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// How many.
    pub ranks: u64,
    /// What one rank needs, or why the model does not split so.
    pub need: Result<Need, Why>,
    /// What the largest stage of a pipeline needs; none when mlx-lm has no pipeline of so many.
    pub stage: Option<Need>,
}

/// What one rank needs, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Its share of the weights.
    pub share: Share,
    /// Keys and values of all sequences.
    pub cache: u64,
}

impl Need {
    /// Weights, keys and values.
    pub fn bytes(&self) -> u64 {
        self.share.bytes + self.cache
    }

    /// What is left of this many bytes; none when they do not do.
    pub fn left(&self, limit: u64) -> Option<u64> {
        limit.checked_sub(self.bytes())
    }
}

/// Every number of ranks from 1 to `most`.
pub fn options(model: &Architecture, most: u64, load: Load) -> Vec<Choice> {
    let need = |n| {
        let cache = model.cache_bytes(n, load.context).saturating_mul(load.concurrency);
        model.share(n).map(|share| Need { share, cache })
    };
    let stage = |n| {
        let cache = model.stage_cache_bytes(n, load.context).saturating_mul(load.concurrency);
        model.largest_stage(n).ok().filter(|_| n > 1).map(|share| Need { share, cache })
    };
    (1..=most.max(1)).map(|ranks| Choice { ranks, need: need(ranks), stage: stage(ranks) }).collect()
}

/// The most ranks that split and fit into this many bytes each.
pub fn largest(options: &[Choice], limit: u64) -> Option<u64> {
    fits(options, limit).max()
}

/// The fewest.
pub fn smallest(options: &[Choice], limit: u64) -> Option<u64> {
    fits(options, limit).min()
}

/// Whether the largest stage of a pipeline of so many ranks fits into this many bytes.
pub fn pipeline_fits(options: &[Choice], ranks: u64, limit: u64) -> bool {
    let stage = options.iter().find(|o| o.ranks == ranks).and_then(|o| o.stage);
    stage.is_some_and(|need| need.left(limit).is_some())
}

/// The numbers of ranks that split and fit into this many bytes each.
pub fn fits(options: &[Choice], limit: u64) -> impl Iterator<Item = u64> + '_ {
    let good = move |o: &&Choice| o.need.as_ref().is_ok_and(|need| need.left(limit).is_some());
    options.iter().filter(good).map(|o| o.ranks)
}

/// macOS lets GPUs wire about three quarters of the memory unless `iogpu.wired_limit_mb` says otherwise (FAILURES G5 has
/// 75 to 84 %: the least of it is taken).
pub fn wired_limit(memory: u64, set_mib: Option<u64>) -> u64 {
    match set_mib {
        Some(mib) if mib > 0 => mib << 20,
        _ => memory / 4 * 3,
    }
}
