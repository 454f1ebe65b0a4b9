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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report() -> Report {
        let end = |node: &str, receptacle: u32| json!({"node": node, "receptacle": receptacle, "place": node});
        let link = json!({
            "a": end("studio-1", 2), "b": end("studio-2", 3), "round": 1, "gbps": 60.0, "latency_us": 20.0,
            "worst_latency_us": 50.0, "outlier": null,
        });
        let text = json!({
            "report": KIND, "schema_version": SCHEMA_VERSION, "tool_version": "0", "seconds": 1.0, "rack": "r",
            "started_at": "2026-12-01T00:00:00Z", "inventory": "", "verdict": "pass", "nodes": [], "steps": [],
            "service": {"release": "a", "launch": "b", "backend": "ring", "over": "links", "model": "m", "ranks": 2},
            "figures": {
                "answer": {"tokens": 16, "tokens_per_second": 30.0, "first_token_s": 0.5}, "needle": null,
                "requests": [], "idle": null, "links": [link], "all_reduce": [], "start": null,
            },
            "comparison": null,
        });
        read(&text.to_string()).expect("a report")
    }

    #[test]
    fn only_what_is_more_than_a_tenth_worse_is_told() {
        let old = report();
        assert_eq!(compare(&old, &old).slower, []);
        let mut new = report();
        new.figures.links[0].gbps = 54.5;
        new.figures.links[0].latency_us = 10.0;
        assert_eq!(compare(&old, &new).slower, [], "within the tolerance, and better");
        new.figures.links[0].gbps = 45.0;
        new.figures.links[0].latency_us = 30.0;
        let told = compare(&old, &new);
        let slower: Vec<_> = told.slower.iter().map(|s| (s.figure.as_str(), s.old, s.new, s.percent)).collect();
        let name = |what: &str| format!("link studio-1:2 – studio-2:3: {what}");
        let (bandwidth, latency) = (name("bandwidth"), name("latency"));
        assert_eq!(slower, [(bandwidth.as_str(), 60.0, 45.0, 25.0), (latency.as_str(), 20.0, 30.0, 50.0)]);
        assert_eq!(told.compared, 4);
    }

    #[test]
    fn links_are_matched_by_their_ends_in_any_order_and_others_are_named() {
        let (old, mut new) = (report(), report());
        let link = &mut new.figures.links[0];
        std::mem::swap(&mut link.a, &mut link.b);
        assert_eq!(compare(&old, &new).compared, 4);
        new.figures.links[0].a.receptacle = Some(4);
        new.service.backend = "jaccl".to_owned();
        let told = compare(&old, &new);
        assert_eq!(told.only_old[0], "link studio-1:2 – studio-2:3: bandwidth");
        assert_eq!(told.only_new[0], "link studio-1:2 – studio-2:4: bandwidth");
        assert_eq!(told.differs, ["backend: was ring, is jaccl"]);
    }

    #[test]
    fn what_is_no_report_of_this_schema_is_refused_with_the_reason() {
        assert!(read("{").expect_err("cut off").starts_with("is no JSON"));
        assert!(read("{\"schema_version\": 1}").expect_err("a snapshot").contains("no report.json"));
        let other = json!({"report": KIND, "schema_version": 2}).to_string();
        assert_eq!(read(&other).expect_err("newer"), "has schema_version 2; this macluster compares with 1");
        let damaged = json!({"report": KIND, "schema_version": 1}).to_string();
        assert!(read(&damaged).expect_err("empty").starts_with("is damaged"));
    }
}
