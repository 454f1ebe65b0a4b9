//! The architectures that are known, laid out from `config.json` as mlx-lm builds them.

use std::fmt;

use serde_json::Value;

use super::module::{Module, Quant, Sharing};

/// A model, part by part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Architecture {
    /// `model_type` of config.json.
    pub model_type: String,
    /// Every part.
    pub modules: Vec<Module>,
    /// Its attention.
    pub attention: Attention,
    /// Number of layers.
    pub layers: u64,
    /// Layers that keep only a window of tokens, and how many tokens.
    pub window: Option<(u64, u64)>,
    /// mlx-lm has `shard` for it.
    pub splits: bool,
    /// mlx-lm has a pipeline for it.
    pub pipeline: bool,
    /// Longest sequence, tokens; none when the config does not say.
    pub context: Option<u64>,
}

/// What must stay together for the forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// Queries share heads of keys and values.
    Grouped {
        /// Heads of queries.
        heads: u64,
        /// Heads of keys and values.
        kv_heads: u64,
        /// Width of a head.
        head_dim: u64,
        /// How columns become heads.
        reshape: Reshape,
    },
    /// Multi-head latent attention: keys and values are compressed.
    Latent {
        /// Heads.
        heads: u64,
        /// Numbers kept for a token.
        cached: u64,
    },
}

/// How columns become heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reshape {
    /// So many heads, of whatever width; `normed`: each head goes through a norm of the true width.
    ByHeads {
        /// See there.
        normed: bool,
    },
    /// Heads of the true width, however many.
    ByWidth,
}

/// Why nothing can be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// An architecture that is not laid out here.
    Architecture(String),
    /// The config lacks something.
    Config(String),
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unknown::Architecture(name) => {
                write!(f, "the architecture `{name}` is not known to `sizing`; known are {}", KNOWN.join(", "))
            }
            Unknown::Config(what) => write!(f, "config.json: {what}"),
        }
    }
}

/// Values of `model_type` that are laid out here.
pub const KNOWN: [&str; 10] =
    ["llama", "qwen2", "qwen3", "qwen3_moe", "deepseek_v3", "kimi_k2", "gpt_oss", "glm4_moe", "minimax", "minimax_m2"];

/// config.json, with errors that name the key.
struct Config<'a>(&'a Value);

impl Config<'_> {
    fn opt(&self, key: &str) -> Result<Option<u64>, Unknown> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(None),
            // So large that no product of a few overflows.
            Some(v) => match v.as_u64().filter(|n| *n < 1 << 20) {
                Some(n) => Ok(Some(n)),
                None => Err(Unknown::Config(format!("`{key}` is not a number that makes sense"))),
            },
        }
    }

    fn num(&self, key: &str) -> Result<u64, Unknown> {
        let n = self.opt(key)?.ok_or_else(|| Unknown::Config(format!("`{key}` is missing")))?;
        if n == 0 { Err(Unknown::Config(format!("`{key}` is 0"))) } else { Ok(n) }
    }

    fn flag(&self, key: &str, default: bool) -> bool {
        self.0.get(key).and_then(Value::as_bool).unwrap_or(default)
    }
}

impl Architecture {
    /// Lays the model out, unquantised.
    ///
    /// # Errors
    /// The architecture is not known, or the config lacks something.
    pub fn read(config: &Value) -> Result<Self, Unknown> {
        let model_type = config.get("model_type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let c = Config(config);
        let mut all = match model_type.as_str() {
            "llama" | "qwen2" | "qwen3" => dense(&c, &model_type)?,
            "qwen3_moe" => qwen3_moe(&c)?,
            "deepseek_v3" | "kimi_k2" => deepseek(&c)?,
            "gpt_oss" => gpt_oss(&c)?,
            "glm4_moe" => glm4_moe(&c)?,
            "minimax" | "minimax_m2" => minimax(&c)?,
            _ => return Err(Unknown::Architecture(model_type)),
        };
        all.pipeline = matches!(model_type.as_str(), "qwen2" | "qwen3_moe" | "deepseek_v3" | "kimi_k2" | "glm4_moe");
        all.context = c.opt("max_position_embeddings")?;
        all.model_type = model_type;
        Ok(all)
    }

    /// Stores it as `mlx_lm.convert -q` does: affine, with the architecture's own exceptions (routers at 8 bits).
    pub fn quantise(&mut self, bits: u64, group: u64) {
        let routers = match self.model_type.as_str() {
            "qwen3_moe" => "mlp.gate",
            "minimax" | "minimax_m2" => "block_sparse_moe.gate",
            "gpt_oss" => "router",
            _ => "\0",
        };
        for module in &mut self.modules {
            let super::module::Kind::Matrix { inp, .. } = module.kind else { continue };
            let quant = if module.path.ends_with(routers) { Quant::affine(8, 64) } else { Quant::affine(bits, group) };
            if inp.is_multiple_of(group) {
                module.quant = Some(quant);
            }
        }
    }
}

/// The layers' common frame: table, norms, head.
fn frame(c: &Config<'_>, tied: bool, attention: Attention) -> Result<Architecture, Unknown> {
    let (vocabulary, width, layers) = (c.num("vocab_size")?, c.num("hidden_size")?, c.num("num_hidden_layers")?);
    let mut modules = vec![
        Module::linear("model.embed_tokens", vocabulary, width, false, Sharing::Whole),
        Module::vector("model.norm", width, Sharing::Whole),
    ];
    if !tied {
        modules.push(Module::linear("lm_head", vocabulary, width, false, Sharing::Whole));
    }
    for n in 0..layers {
        for norm in ["input_layernorm", "post_attention_layernorm"] {
            modules.push(Module::vector(format!("model.layers.{n}.{norm}"), width, Sharing::Whole));
        }
    }
    Ok(Architecture {
        model_type: String::new(),
        modules,
        attention,
        layers,
        window: None,
        splits: true,
        pipeline: false,
        context: None,
    })
}

/// Heads of one kind.
struct Heads {
    count: u64,
    kv: u64,
    dim: u64,
}

impl Heads {
    fn read(c: &Config<'_>) -> Result<Self, Unknown> {
        let heads = c.num("num_attention_heads")?;
        let head_dim = match c.opt("head_dim")? {
            Some(dim) => dim,
            None => c.num("hidden_size")? / heads,
        };
        Ok(Heads { count: heads, kv: c.opt("num_key_value_heads")?.unwrap_or(heads), dim: head_dim })
    }

    fn attention(&self, reshape: Reshape) -> Attention {
        Attention::Grouped { heads: self.count, kv_heads: self.kv, head_dim: self.dim, reshape }
    }

    /// The four projections of a layer.
    fn projections(&self, at: &str, width: u64, bias: (bool, bool)) -> [Module; 4] {
        let (q, kv) = (self.count * self.dim, self.kv * self.dim);
        let out = |name: &str, n| Module::linear(format!("{at}.{name}"), n, width, bias.0, Sharing::Outputs);
        let back = Module::linear(format!("{at}.o_proj"), width, q, bias.1, Sharing::InputsInGroups);
        [out("q_proj", q), out("k_proj", kv), out("v_proj", kv), back]
    }
}

/// Gate, up and down of a feed-forward network. `anew`: by the layer that quantises its share anew.
fn feed_forward(at: &str, stack: u64, width: u64, inner: u64, bias: bool, anew: bool) -> [Module; 3] {
    let down = if anew { Sharing::InputsInGroups } else { Sharing::Inputs };
    let make = |name: &str, out, inp, sharing| Module::stack(format!("{at}.{name}"), stack, out, inp, bias, sharing);
    [
        make("gate_proj", inner, width, Sharing::Outputs),
        make("up_proj", inner, width, Sharing::Outputs),
        make("down_proj", width, inner, down),
    ]
}

fn dense(c: &Config<'_>, model_type: &str) -> Result<Architecture, Unknown> {
    let mut heads = Heads::read(c)?;
    let (width, inner) = (c.num("hidden_size")?, c.num("intermediate_size")?);
    let normed = model_type == "qwen3";
    let (bias, mlp_bias) = match model_type {
        "llama" => {
            let attention = c.flag("attention_bias", false);
            ((attention, attention), c.flag("mlp_bias", false))
        }
        "qwen2" => ((true, false), false),
        _ => ((false, false), false),
    };
    if model_type == "qwen2" {
        heads.dim = width / heads.count;
    }
    let tied = c.flag("tie_word_embeddings", true);
    let mut all = frame(c, tied, heads.attention(Reshape::ByHeads { normed }))?;
    for n in 0..all.layers {
        let at = format!("model.layers.{n}");
        all.modules.extend(heads.projections(&format!("{at}.self_attn"), width, bias));
        if normed {
            for norm in ["q_norm", "k_norm"] {
                all.modules.push(Module::vector(format!("{at}.self_attn.{norm}"), heads.dim, Sharing::Whole));
            }
        }
        all.modules.extend(feed_forward(&format!("{at}.mlp"), 1, width, inner, mlp_bias, true));
    }
    all.window = windows(c, all.layers)?;
    Ok(all)
}

/// Layers that `layer_types` says to be windowed.
fn windows(c: &Config<'_>, layers: u64) -> Result<Option<(u64, u64)>, Unknown> {
    let Some(window) = c.opt("sliding_window")? else { return Ok(None) };
    let Some(types) = c.0.get("layer_types").and_then(Value::as_array) else { return Ok(None) };
    let count = types.iter().filter(|t| t.as_str() == Some("sliding_attention")).count() as u64;
    Ok((count > 0 && count <= layers).then_some((count, window)))
}

fn qwen3_moe(c: &Config<'_>) -> Result<Architecture, Unknown> {
    let heads = Heads::read(c)?;
    let width = c.num("hidden_size")?;
    let (experts, inner, step) =
        (c.num("num_experts")?, c.num("moe_intermediate_size")?, c.num("decoder_sparse_step")?);
    let only: Vec<u64> =
        c.0.get("mlp_only_layers").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_u64).collect();
    let mut all = frame(c, c.flag("tie_word_embeddings", false), heads.attention(Reshape::ByHeads { normed: true }))?;
    for n in 0..all.layers {
        let at = format!("model.layers.{n}");
        all.modules.extend(heads.projections(&format!("{at}.self_attn"), width, (false, false)));
        for norm in ["q_norm", "k_norm"] {
            all.modules.push(Module::vector(format!("{at}.self_attn.{norm}"), heads.dim, Sharing::Whole));
        }
        if !only.contains(&n) && (n + 1).is_multiple_of(step) {
            all.modules.push(Module::linear(format!("{at}.mlp.gate"), experts, width, false, Sharing::Whole));
            all.modules.extend(feed_forward(&format!("{at}.mlp.switch_mlp"), experts, width, inner, false, false));
        } else {
            all.modules.extend(feed_forward(&format!("{at}.mlp"), 1, width, c.num("intermediate_size")?, false, true));
        }
    }
    Ok(all)
}

/// Router, shared and routed experts of GLM and `DeepSeek`.
fn mixture(c: &Config<'_>, at: &str, width: u64) -> Result<Vec<Module>, Unknown> {
    let (experts, inner) = (c.num("n_routed_experts")?, c.num("moe_intermediate_size")?);
    let mut modules = vec![
        Module::plain(format!("{at}.gate"), experts, width),
        Module::wide(format!("{at}.gate.e_score_correction_bias"), experts),
    ];
    if let Some(shared) = c.opt("n_shared_experts")?.filter(|n| *n > 0) {
        modules.extend(feed_forward(&format!("{at}.shared_experts"), 1, width, inner * shared, false, false));
    }
    modules.extend(feed_forward(&format!("{at}.switch_mlp"), experts, width, inner, false, false));
    Ok(modules)
}

fn glm4_moe(c: &Config<'_>) -> Result<Architecture, Unknown> {
    let heads = Heads::read(c)?;
    let width = c.num("hidden_size")?;
    let (bias, normed) = (c.flag("attention_bias", false), c.flag("use_qk_norm", false));
    let first = c.opt("first_k_dense_replace")?.unwrap_or(0);
    let mut all = frame(c, false, heads.attention(Reshape::ByHeads { normed }))?;
    for n in 0..all.layers {
        let at = format!("model.layers.{n}");
        all.modules.extend(heads.projections(&format!("{at}.self_attn"), width, (bias, false)));
        if normed {
            for norm in ["q_norm", "k_norm"] {
                all.modules.push(Module::vector(format!("{at}.self_attn.{norm}"), heads.dim, Sharing::Whole));
            }
        }
        if n >= first {
            all.modules.extend(mixture(c, &format!("{at}.mlp"), width)?);
        } else {
            all.modules.extend(feed_forward(&format!("{at}.mlp"), 1, width, c.num("intermediate_size")?, false, true));
        }
    }
    Ok(all)
}

fn deepseek(c: &Config<'_>) -> Result<Architecture, Unknown> {
    let width = c.num("hidden_size")?;
    let heads = c.num("num_attention_heads")?;
    let (rank, rope, nope) = (c.num("kv_lora_rank")?, c.num("qk_rope_head_dim")?, c.num("qk_nope_head_dim")?);
    let (value, bias) = (c.num("v_head_dim")?, c.flag("attention_bias", false));
    let query = heads * (nope + rope);
    let (first, every) = (c.opt("first_k_dense_replace")?.unwrap_or(0), c.opt("moe_layer_freq")?.unwrap_or(1).max(1));
    let mut all = frame(c, false, Attention::Latent { heads, cached: rank + rope })?;
    for n in 0..all.layers {
        let at = format!("model.layers.{n}.self_attn");
        match c.opt("q_lora_rank")? {
            None => all.modules.push(Module::linear(format!("{at}.q_proj"), query, width, false, Sharing::Outputs)),
            Some(low) => {
                all.modules.push(Module::linear(format!("{at}.q_a_proj"), low, width, bias, Sharing::Whole));
                all.modules.push(Module::vector(format!("{at}.q_a_layernorm"), low, Sharing::Whole));
                all.modules.push(Module::linear(format!("{at}.q_b_proj"), query, low, false, Sharing::Outputs));
            }
        }
        all.modules.extend([
            Module::linear(format!("{at}.kv_a_proj_with_mqa"), rank + rope, width, bias, Sharing::Whole),
            Module::vector(format!("{at}.kv_a_layernorm"), rank, Sharing::Whole),
            Module::stack(format!("{at}.embed_q"), heads, rank, nope, false, Sharing::Heads),
            Module::stack(format!("{at}.unembed_out"), heads, value, rank, false, Sharing::Heads),
            Module::linear(format!("{at}.o_proj"), width, heads * value, bias, Sharing::InputsInGroups),
        ]);
        let at = format!("model.layers.{n}.mlp");
        if n >= first && n.is_multiple_of(every) {
            all.modules.extend(mixture(c, &at, width)?);
        } else {
            all.modules.extend(feed_forward(&at, 1, width, c.num("intermediate_size")?, false, true));
        }
    }
    Ok(all)
}

fn gpt_oss(c: &Config<'_>) -> Result<Architecture, Unknown> {
    let heads = Heads::read(c)?;
    let (width, inner, experts) = (c.num("hidden_size")?, c.num("intermediate_size")?, c.num("num_local_experts")?);
    let mut all = frame(c, false, heads.attention(Reshape::ByWidth))?;
    for n in 0..all.layers {
        let at = format!("model.layers.{n}");
        all.modules.extend(heads.projections(&format!("{at}.self_attn"), width, (true, true)));
        all.modules.push(Module::vector(format!("{at}.self_attn.sinks"), heads.count, Sharing::Heads));
        all.modules.push(Module::linear(format!("{at}.mlp.router"), experts, width, true, Sharing::Whole));
        all.modules.extend(feed_forward(&format!("{at}.mlp.experts"), experts, width, inner, true, false));
    }
    all.window = windows(c, all.layers)?;
    Ok(all)
}

fn minimax(c: &Config<'_>) -> Result<Architecture, Unknown> {
    let heads = Heads::read(c)?;
    let (width, inner, experts) = (c.num("hidden_size")?, c.num("intermediate_size")?, c.num("num_local_experts")?);
    let normed = c.flag("use_qk_norm", true);
    let tied = c.flag("tie_word_embeddings", false);
    // Its norms go over all heads at once and are split with them.
    let mut all = frame(c, tied, heads.attention(Reshape::ByHeads { normed: false }))?;
    for n in 0..all.layers {
        let at = format!("model.layers.{n}");
        all.modules.extend(heads.projections(&format!("{at}.self_attn"), width, (false, false)));
        if normed {
            for (norm, count) in [("q_norm", heads.count), ("k_norm", heads.kv)] {
                let path = format!("{at}.self_attn.{norm}");
                all.modules.push(Module::vector(path, count * heads.dim, Sharing::Outputs));
            }
        }
        let moe = format!("{at}.block_sparse_moe");
        all.modules.push(Module::linear(format!("{moe}.gate"), experts, width, false, Sharing::Whole));
        all.modules.push(Module::wide(format!("{moe}.e_score_correction_bias"), experts));
        all.modules.extend(feed_forward(&format!("{moe}.switch_mlp"), experts, width, inner, false, false));
    }
    Ok(all)
}
