//! What got slower between two acceptance runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::report::{KIND, Report, SCHEMA_VERSION};

/// Worse by more than this part is told.
const TOLERANCE: f64 = 0.10;

/// Two reports side by side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// When the older one was made.
    pub with: String,
    /// Figures that both have.
    pub compared: usize,
    /// Figures that are more than a tenth worse.
    pub slower: Vec<Slower>,
    /// What only the older one has.
    pub only_old: Vec<String>,
    /// What only the new one has.
    pub only_new: Vec<String>,
    /// What else differs: figures of another model or backend are no like for like.
    pub differs: Vec<String>,
}

/// A figure that got worse.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slower {
    /// What.
    pub figure: String,
    /// Unit of both.
    pub unit: String,
    /// Before.
    pub old: f64,
    /// Now.
    pub new: f64,
    /// By how much it is worse, of the older figure.
    pub percent: f64,
}

/// One figure of a report.
struct Figure {
    value: f64,
    unit: &'static str,
    more_is_better: bool,
}

/// Reads an older report.
///
/// # Errors
/// In words, when it is none, or one of another schema.
pub fn read(text: &str) -> Result<Report, String> {
    let value: Value = serde_json::from_str(text).map_err(|e| format!("is no JSON: {e}"))?;
    if value.get("report").and_then(Value::as_str) != Some(KIND) {
        return Err("is no report.json of `macluster accept`".to_owned());
    }
    match value.get("schema_version").and_then(Value::as_u64) {
        Some(version) if version == u64::from(SCHEMA_VERSION) => {}
        other => {
            let version = other.map_or_else(|| "none".to_owned(), |v| v.to_string());
            return Err(format!("has schema_version {version}; this macluster compares with {SCHEMA_VERSION}"));
        }
    }
    serde_json::from_value(value).map_err(|e| format!("is damaged: {e}"))
}

/// Sets a new report beside an older one.
pub fn compare(old: &Report, new: &Report) -> Comparison {
    let (before, now) = (figures(old), figures(new));
    let only = |one: &BTreeMap<String, Figure>, other: &BTreeMap<String, Figure>| {
        one.keys().filter(|k| !other.contains_key(*k)).cloned().collect::<Vec<_>>()
    };
    let both = before.iter().filter_map(|(name, was)| Some((name, was, now.get(name)?)));
    let slower = both.clone().filter_map(|(name, was, is)| {
        let worse = if was.more_is_better { was.value - is.value } else { is.value - was.value };
        let part = worse / was.value;
        (was.value > 0.0 && part > TOLERANCE).then(|| Slower {
            figure: name.clone(),
            unit: was.unit.to_owned(),
            old: was.value,
            new: is.value,
            percent: part * 100.0,
        })
    });
    Comparison {
        with: old.started_at.to_string(),
        compared: both.clone().count(),
        slower: slower.collect(),
        only_old: only(&before, &now),
        only_new: only(&now, &before),
        differs: differs(old, new),
    }
}

fn differs(old: &Report, new: &Report) -> Vec<String> {
    let (was, is) = (&old.service, &new.service);
    let words = [
        ("rack", old.rack.clone(), new.rack.clone()),
        ("model", was.model.clone(), is.model.clone()),
        ("backend", was.backend.clone(), is.backend.clone()),
        ("network of the ranks", was.over.clone(), is.over.clone()),
        ("number of ranks", was.ranks.to_string(), is.ranks.to_string()),
        ("release", was.release.clone(), is.release.clone()),
        ("macluster", old.tool_version.clone(), new.tool_version.clone()),
    ];
    words.into_iter().filter(|(_, w, i)| w != i).map(|(what, w, i)| format!("{what}: was {w}, is {i}")).collect()
}

/// Every figure under a name that is the same in all reports.
fn figures(report: &Report) -> BTreeMap<String, Figure> {
    let mut all = BTreeMap::new();
    let mut add = |name: String, value: f64, unit: &'static str, more_is_better: bool| {
        all.insert(name, Figure { value, unit, more_is_better });
    };
    let f = &report.figures;
    if let Some(a) = &f.answer {
        add("answer: rate".to_owned(), a.tokens_per_second, "tokens/s", true);
        add("answer: first token".to_owned(), a.first_token_s, "s", false);
    }
    if let Some(n) = &f.needle {
        add(format!("needle in {} tokens: time", n.size.wanted), n.seconds, "s", false);
    }
    for r in &f.requests {
        add(format!("{} requests at once: rate of all", r.requests), r.tokens_per_second, "tokens/s", true);
    }
    if let Some(i) = &f.idle {
        add(format!("after {} s idle: first token", i.idle_s), i.first_token_s, "s", false);
        add(format!("after {} s idle: rate", i.idle_s), i.tokens_per_second, "tokens/s", true);
    }
    for l in &f.links {
        let mut ends = [l.a.key(), l.b.key()];
        ends.sort();
        let name = ends.join(" – ");
        add(format!("link {name}: bandwidth"), l.gbps, "Gb/s", true);
        add(format!("link {name}: latency"), l.latency_us, "µs", false);
    }
    for r in &f.all_reduce {
        add(format!("all-reduce of {} bytes: bandwidth", r.bytes), r.gbps, "Gb/s", true);
    }
    if let Some(s) = &f.start {
        add("start: until all ranks serve".to_owned(), s.ready_s, "s", false);
    }
    all
}
