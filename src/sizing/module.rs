//! The parts a model is made of: how many numbers, how they are stored, and how a split takes them apart.

/// Packed weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quant {
    /// Bits of one weight.
    pub bits: u64,
    /// Weights that share a scale.
    pub group: u64,
    /// Bytes of the scale, and of the bias if there is one, for each group.
    pub per_group: u64,
}

impl Quant {
    /// mlx's affine mode: a scale and a bias of two bytes each.
    pub fn affine(bits: u64, group: u64) -> Self {
        Quant { bits, group, per_group: 4 }
    }
}

/// How the ranks share a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Every rank holds all of it.
    Whole,
    /// Each rank computes some of its outputs.
    Outputs,
    /// Each rank takes some of its inputs.
    Inputs,
    /// As `Inputs`, by mlx's layer that quantises anew and so needs whole groups on every rank.
    InputsInGroups,
    /// Each rank holds whole heads, the rest is dropped.
    Heads,
}

/// A part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Name in the weight files, without `.weight`.
    pub path: String,
    /// Its numbers.
    pub kind: Kind,
    /// How it is shared.
    pub sharing: Sharing,
    /// How it is packed; none for plain numbers.
    pub quant: Option<Quant>,
    /// Bytes of a plain number.
    pub width: u64,
}

/// The numbers of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `stack` matrices of `out` × `inp`, each with a bias of `out` or none. Can be quantised.
    Matrix {
        /// Experts or heads; 1 for a plain layer.
        stack: u64,
        /// Outputs.
        out: u64,
        /// Inputs.
        inp: u64,
        /// Has a bias.
        bias: bool,
    },
    /// A matrix that is never quantised.
    Plain {
        /// Outputs.
        out: u64,
        /// Inputs.
        inp: u64,
    },
    /// A vector.
    Vector {
        /// Length.
        len: u64,
    },
}

impl Module {
    fn new(path: impl Into<String>, kind: Kind, sharing: Sharing) -> Self {
        Module { path: path.into(), kind, sharing, quant: None, width: 2 }
    }

    /// A plain layer.
    pub fn linear(path: impl Into<String>, out: u64, inp: u64, bias: bool, sharing: Sharing) -> Self {
        Self::stack(path, 1, out, inp, bias, sharing)
    }

    /// A stack of layers: experts, heads.
    pub fn stack(path: impl Into<String>, stack: u64, out: u64, inp: u64, bias: bool, sharing: Sharing) -> Self {
        Self::new(path, Kind::Matrix { stack, out, inp, bias }, sharing)
    }

    /// A vector.
    pub fn vector(path: impl Into<String>, len: u64, sharing: Sharing) -> Self {
        Self::new(path, Kind::Vector { len }, sharing)
    }

    /// A vector that mlx-lm keeps in float32.
    pub fn wide(path: impl Into<String>, len: u64) -> Self {
        Module { width: 4, ..Self::new(path, Kind::Vector { len }, Sharing::Whole) }
    }

    /// A matrix that is never quantised.
    pub fn plain(path: impl Into<String>, out: u64, inp: u64) -> Self {
        Self::new(path, Kind::Plain { out, inp }, Sharing::Whole)
    }
}
