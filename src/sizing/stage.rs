//! Taking a model apart by layers, as mlx-lm's pipeline does: rank 0 runs the last layers, and where they do not divide
//! the low ranks have one more. What belongs to no layer is on every rank.

use super::arch::Architecture;
use super::split::{Share, Why, share};

impl Architecture {
    /// What the ranks of a pipeline hold, from rank 0.
    ///
    /// # Errors
    /// Why it cannot be a pipeline of so many.
    pub fn stages(&self, n: u64) -> Result<Vec<Share>, Why> {
        let n = n.max(1);
        if !self.pipeline {
            return Err(Why::NoPipeline(self.model_type.clone()));
        }
        if self.layers < n {
            return Err(Why::Layers { layers: self.layers });
        }
        let mut common = Share::default();
        let mut layers = vec![Share::default(); usize::try_from(self.layers).unwrap_or(0)];
        for module in &self.modules {
            let sum = layer_of(&module.path).and_then(|l| layers.get_mut(l)).unwrap_or(&mut common);
            sum.add(share(module, 1)?);
        }
        let mut stages = Vec::new();
        for rank in 0..n {
            let count = usize::try_from(self.layers / n + u64::from(rank < self.layers % n)).unwrap_or(0);
            let mut stage = common;
            layers.drain(layers.len().saturating_sub(count)..).for_each(|layer| stage.add(layer));
            stages.push(stage);
        }
        Ok(stages)
    }

    /// What the rank holds that holds most.
    ///
    /// # Errors
    /// As [`Architecture::stages`].
    pub fn largest_stage(&self, n: u64) -> Result<Share, Why> {
        Ok(self.stages(n)?.into_iter().max_by_key(|s| s.bytes).unwrap_or_default())
    }

    /// Bytes of keys and values that the rank with most layers keeps for one sequence of so many tokens; at worst none of
    /// its layers is windowed.
    pub fn stage_cache_bytes(&self, n: u64, tokens: u64) -> u64 {
        self.attention.cache_numbers(1) * 2 * self.layers.div_ceil(n.max(1)) * tokens
    }
}

/// Number of the layer that a part belongs to.
fn layer_of(path: &str) -> Option<usize> {
    path.strip_prefix("model.layers.")?.split('.').next()?.parse().ok()
}
