//! `macluster sizing`: what a model needs, before anything of it is sent.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::app::App;
use crate::cli::Format;
use crate::exit::{Exit, Failure, Outcome};
use crate::sizing::choose::{Load, options, pipeline_fits, smallest, wired_limit};
use crate::sizing::{Architecture, headers};
use crate::view::sizing as view;

/// Sequences are this long unless the model or the caller says otherwise.
const CONTEXT: u64 = 8192;

/// Options of `macluster sizing`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 the model runs on that many nodes, or on some of them; 4 it does not; 3 its config.json \
                        cannot be used; 10 the architecture is not known"
)]
pub struct Opts {
    /// A model folder, or a config.json alone
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// So many nodes [default: those of the inventory, else 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=64))]
    nodes: Option<u64>,
    /// Tokens of each sequence [default: 8192, or the model's longest if that is less]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..=16_777_216))]
    context: Option<u64>,
    /// Sequences at once
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=4096))]
    concurrency: u64,
    /// Memory of a node, GiB [default: the smallest node's, asked over SSH]
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u64).range(1..=65_536))]
    memory: Option<u64>,
    /// `iogpu.wired_limit_mb` of the nodes [default: what is set there; without --memory asked over SSH, else macOS's own
    /// limit, taken as 75 % of the memory]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=67_108_864))]
    wired_limit: Option<u64>,
    /// As if it were quantised with so many bits; only without weight files
    #[arg(long, value_name = "BITS", value_parser = ["4", "8"])]
    bits: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
}

/// Runs it.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    let (model, stored) = read(&opts)?;
    let (memory, set, from_rack) = match opts.memory {
        // Nobody is asked, but how many they are is known here.
        Some(gib) => (gib << 30, None, app.inventory().ok().map(|i| i.nodes.len() as u64)),
        None => rack(app).await?,
    };
    let nodes = opts.nodes.or(from_rack).unwrap_or(4);
    let longest = model.context.unwrap_or(u64::MAX);
    let context = opts.context.unwrap_or_else(|| CONTEXT.min(longest));
    if context > longest {
        return Err(Failure::new(
            Exit::Usage,
            format!("--context {context}: the model takes at most {longest} tokens"),
        ));
    }
    let load = Load { context, concurrency: opts.concurrency };
    let choices = options(&model, nodes.max(8), load);
    let limit = wired_limit(memory, opts.wired_limit.or(set));
    let question = view::Question { model: &model, stored: &stored, choices: &choices, nodes, load, memory, limit };
    app.printer.out(&match opts.output {
        Format::Human => view::human(&question),
        Format::Json => view::json(&question).to_string(),
    });
    // Some of the nodes are an answer too.
    let good = smallest(&choices, limit).is_some_and(|n| n <= nodes) || pipeline_fits(&choices, nodes, limit);
    Ok(if good { Exit::Ok } else { Exit::ChecksFailed })
}

/// The model, and in words how its weights are stored.
fn read(opts: &Opts) -> Result<(Architecture, String), Failure> {
    let folder = opts.model.is_dir();
    let config = if folder { opts.model.join("config.json") } else { opts.model.clone() };
    let text = std::fs::read_to_string(&config).map_err(|e| {
        Failure::new(Exit::NotFound, format!("cannot read {}: {e}", config.display()))
            .hint("MODEL is a folder with a config.json, or a config.json")
    })?;
    let bad = |why: String| Failure::new(Exit::Inventory, format!("{}: {why}", config.display()));
    let config: Value = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
    let mut model = Architecture::read(&config).map_err(|e| match e {
        crate::sizing::Unknown::Architecture(_) => Failure::new(Exit::NotFound, e.to_string())
            .hint("nothing is guessed: an engine that cannot split it says so when it is deployed"),
        crate::sizing::Unknown::Config(_) => bad(e.to_string()),
    })?;
    let stored = if folder { stored(&opts.model, &mut model)? } else { None };
    let stored = match (stored, &opts.bits) {
        (Some(words), _) => words,
        (None, Some(bits)) => {
            model.quantise(bits.parse().unwrap_or(4), 64);
            format!("supposed to be quantised with {bits} bits in groups of 64, as mlx_lm.convert does")
        }
        (None, None) => "supposed to be 16-bit numbers: there are no weight files to look at".to_owned(),
    };
    Ok((model, stored))
}

/// Takes what the headers of the weight files say; none without any.
fn stored(folder: &Path, model: &mut Architecture) -> Result<Option<String>, Failure> {
    let tensors = headers::read(folder).map_err(|why| Failure::new(Exit::Inventory, why))?;
    if tensors.is_empty() {
        return Ok(None);
    }
    let told = model.stored_as(&tensors);
    Ok(Some(if told.missing == 0 {
        format!("as the headers of its files say, {} bytes in them", told.bytes)
    } else {
        format!(
            "{} of {} parts are not in its files under mlx-lm's names (it renames them on loading): those are taken as \
             16-bit numbers; {} bytes in the files",
            told.missing,
            told.found + told.missing,
            told.bytes
        )
    }))
}

/// Bytes of memory and, where it was set, `iogpu.wired_limit_mb` of the node that leaves its GPU least; and the number of
/// nodes.
async fn rack(app: &App) -> Result<(u64, Option<u64>, Option<u64>), Failure> {
    let (inventory, snapshot) = app.facts().await.map_err(|e| e.hint("or say it yourself: --memory GIB --nodes N"))?;
    let facts = inventory.nodes.iter().filter_map(|n| snapshot.facts(&n.name));
    let least = facts
        .filter_map(|f| Some((f.memory_bytes()?, f.set_wired_limit())))
        .min_by_key(|(memory, set)| wired_limit(*memory, *set));
    let (memory, set) = least.ok_or_else(|| {
        Failure::new(Exit::NoNodeReachable, "no node said how much memory it has").hint("say it yourself: --memory GIB")
    })?;
    Ok((memory, set, Some(inventory.nodes.len() as u64)))
}
