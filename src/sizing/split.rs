//! Taking a model apart for so many ranks, as mlx's `shard_linear`, `shard_inplace` and mlx-lm's `shard` do, with
//! everything that makes them, or the forward pass after them, fail.

use std::fmt;

use super::arch::{Architecture, Attention, Reshape};
use super::module::{Kind, Module, Sharing};

/// What one rank holds. All ranks hold the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Numbers; a packed one counts once, scales and biases of groups not at all.
    pub parameters: u64,
    /// Bytes in memory.
    pub bytes: u64,
}

impl Share {
    pub(super) fn add(&mut self, other: Share) {
        self.parameters += other.parameters;
        self.bytes += other.bytes;
    }
}

/// Why a model does not split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// mlx-lm has no `shard` for it.
    NoShard(String),
    /// mlx-lm has no pipeline for it.
    NoPipeline(String),
    /// Fewer layers than ranks of a pipeline.
    Layers {
        /// How many.
        layers: u64,
    },
    /// A dimension does not divide.
    Dimension {
        /// Which part.
        path: String,
        /// What does not divide: `outputs`, `inputs`, `numbers`.
        what: &'static str,
        /// How many there are.
        count: u64,
    },
    /// The groups of packed weights do not divide.
    Groups {
        /// Which part.
        path: String,
        /// Inputs of one rank, or groups of all.
        count: u64,
        /// Weights in a group.
        group: u64,
    },
    /// Attention heads do not divide.
    Heads {
        /// Of queries.
        heads: u64,
        /// Of keys and values.
        kv_heads: u64,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::NoShard(model) => write!(f, "mlx-lm cannot split the architecture {model}"),
            Why::NoPipeline(model) => write!(f, "mlx-lm has no pipeline for the architecture {model}"),
            Why::Layers { layers } => write!(f, "{layers} layers are fewer than the ranks of such a pipeline"),
            Why::Dimension { path, what, count } => write!(f, "the {count} {what} of {path} do not divide"),
            Why::Groups { path, count, group } => {
                write!(f, "the packed weights of {path} do not divide: {count} with {group} to a scale")
            }
            Why::Heads { heads, kv_heads } if heads == kv_heads => write!(f, "{heads} attention heads do not divide"),
            Why::Heads { heads, kv_heads } => {
                write!(f, "{heads} attention heads and {kv_heads} key/value heads do not both divide")
            }
        }
    }
}

impl Architecture {
    /// What each of `n` ranks holds.
    ///
    /// # Errors
    /// Why the model does not split over them.
    pub fn share(&self, n: u64) -> Result<Share, Why> {
        if n > 1 && !self.splits {
            return Err(Why::NoShard(self.model_type.clone()));
        }
        let mut sum = Share::default();
        for module in &self.modules {
            sum.add(share(module, n.max(1))?);
        }
        if n > 1 && !self.attention.works(n) {
            let (heads, kv_heads) = self.attention.heads();
            return Err(Why::Heads { heads, kv_heads });
        }
        Ok(sum)
    }

    /// Bytes of keys and values that one rank keeps for one sequence of so many tokens.
    pub fn cache_bytes(&self, n: u64, tokens: u64) -> u64 {
        let layer = self.attention.cache_numbers(n) * 2;
        let windowed = self.window.map_or(0, |(layers, _)| layers);
        let window = self.window.map_or(0, |(_, tokens)| tokens);
        layer * ((self.layers - windowed) * tokens + windowed * tokens.min(window))
    }
}

pub(super) fn share(module: &Module, n: u64) -> Result<Share, Why> {
    let path = || module.path.clone();
    let dimension = |what, count| Why::Dimension { path: path(), what, count };
    let whole = |what, count: u64| if count.is_multiple_of(n) { Ok(count / n) } else { Err(dimension(what, count)) };
    match module.kind {
        Kind::Vector { len } => {
            let len = match module.sharing {
                Sharing::Whole => len,
                Sharing::Heads => len / n,
                _ => whole("numbers", len)?,
            };
            Ok(Share { parameters: len, bytes: len * module.width })
        }
        Kind::Plain { out, inp } => Ok(Share { parameters: out * inp, bytes: out * inp * module.width }),
        Kind::Matrix { stack, out, inp, bias } => {
            let mut bias = if bias { out } else { 0 };
            let (mut stack, mut out, mut inp) = (stack, out, inp);
            match module.sharing {
                Sharing::Whole => {}
                Sharing::Heads => stack /= n,
                Sharing::Outputs => {
                    out = whole("outputs", out)?;
                    bias /= n;
                }
                Sharing::Inputs | Sharing::InputsInGroups => {
                    let all = inp;
                    inp = whole("inputs", inp)?;
                    if let Some(q) = module.quant {
                        let groups = all / q.group;
                        let broken = match module.sharing {
                            Sharing::InputsInGroups => !inp.is_multiple_of(q.group),
                            _ => !groups.is_multiple_of(n) || !(all * q.bits / 32).is_multiple_of(n),
                        };
                        if broken {
                            let count = if module.sharing == Sharing::InputsInGroups { inp } else { groups };
                            return Err(Why::Groups { path: path(), count, group: q.group });
                        }
                    }
                }
            }
            let numbers = stack * out * inp;
            let bytes = match module.quant {
                Some(q) => numbers * q.bits / 8 + numbers / q.group * q.per_group,
                None => numbers * module.width,
            };
            Ok(Share { parameters: numbers + stack * bias, bytes: bytes + stack * bias * module.width })
        }
    }
}

impl Attention {
    fn heads(&self) -> (u64, u64) {
        match *self {
            Attention::Grouped { heads, kv_heads, .. } => (heads, kv_heads),
            Attention::Latent { heads, .. } => (heads, heads),
        }
    }

    /// Whether the forward pass has consistent shapes on one of `n` ranks: columns that divide are not enough.
    fn works(&self, n: u64) -> bool {
        match *self {
            Attention::Latent { heads, .. } => heads.is_multiple_of(n),
            Attention::Grouped { heads, kv_heads, head_dim, reshape } => {
                let (q, kv) = (heads / n, kv_heads / n);
                if q == 0 || kv == 0 {
                    return false;
                }
                let (columns, kv_columns) = (heads * head_dim / n, kv_heads * head_dim / n);
                match reshape {
                    // The heads that remain take the columns that remain, whatever comes out.
                    Reshape::ByHeads { normed } => {
                        let fits = columns.is_multiple_of(q) && kv_columns.is_multiple_of(kv);
                        let (width, kv_width) = (columns / q, kv_columns / kv);
                        fits && width == kv_width && q.is_multiple_of(kv) && (!normed || width == head_dim)
                    }
                    Reshape::ByWidth => {
                        let fits = columns.is_multiple_of(head_dim) && kv_columns.is_multiple_of(head_dim);
                        fits && columns / head_dim == q && q.is_multiple_of(kv_columns / head_dim)
                    }
                }
            }
        }
    }

    /// Numbers of one layer's cache for one token, on one rank.
    pub(super) fn cache_numbers(&self, n: u64) -> u64 {
        match *self {
            Attention::Grouped { kv_heads, head_dim, .. } => 2 * (kv_heads / n).max(1) * head_dim,
            // Compressed, and the same on every rank.
            Attention::Latent { cached, .. } => cached,
        }
    }
}
