//! `macluster sizing` against mlx-lm itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use macluster::sizing::{Architecture, Share};
use serde_json::{Value, json};

use crate::support::runtime;

fn oracle() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("inference/oracle")
}

fn read(name: &str) -> Value {
    let text = std::fs::read_to_string(oracle().join(name)).expect("readable");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn every_model_equals_the_oracle_at_every_number_of_ranks_and_bits() {
    let (configs, table) = (read("configs.json"), read("table.json"));
    let mut compared = 0;
    let mut wrong = Vec::new();
    for (name, by_bits) in table["models"].as_object().expect("models") {
        for (bits, by_ranks) in by_bits.as_object().expect("bits") {
            let mut model = Architecture::read(&configs[name]).expect(name);
            if bits != "0" {
                model.quantise(bits.parse().expect("bits"), 64);
            }
            for (ranks, truth) in by_ranks.as_object().expect("ranks") {
                let ours = match model.share(ranks.parse().expect("ranks")) {
                    Ok(Share { parameters, bytes }) => json!([parameters, bytes]),
                    Err(_) => Value::Null,
                };
                let truth = if truth.is_string() { Value::Null } else { truth.clone() };
                if ours != truth {
                    wrong.push(format!("{name}, {bits} bits, {ranks} ranks: {ours}, mlx-lm: {truth}"));
                }
                compared += 1;
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(compared, 12 * 3 * 8);
}

#[test]
fn the_table_is_what_the_pinned_mlx_lm_says_today() {
    let output = Command::new(runtime::python())
        .arg("-I")
        .arg(oracle().join("oracle.py"))
        .stdin(Stdio::null())
        .output()
        .expect("python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let now: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(now, read("table.json"), "make it anew: python inference/oracle/oracle.py > inference/oracle/table.json");
}
