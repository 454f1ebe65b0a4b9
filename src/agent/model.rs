//! A quick look at a model folder: are all its files there, and whole? The engine compares every tensor later;
//! this runs before anything is stopped.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::sizing::{Architecture, Share, Why, headers};

/// No safetensors header is longer (the format's own limit).
const MAX_HEADER: u64 = 100_000_000;
/// No configuration or index is longer.
const MAX_JSON: u64 = 64 * 1024 * 1024;
/// The table of which tensor lies in which file.
const INDEX: &str = "model.safetensors.index.json";

/// What was seen.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ModelFolder {
    /// `model_type` of its configuration.
    pub model_type: String,
    /// Weight files.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// What a rank would hold, for 1 rank and more; empty for an architecture that is not known.
    #[serde(default)]
    pub splits: Vec<Split>,
    /// The same for a pipeline, whose largest stage counts; empty for an architecture without one.
    #[serde(default)]
    pub stages: Vec<Split>,
}

/// One number of ranks.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Split {
    /// How many.
    pub ranks: u64,
    /// Bytes of weights that each holds; none when the model does not split so.
    pub bytes: Option<u64>,
    /// Why it does not.
    pub why: Option<String>,
}

/// Numbers of ranks that are looked at.
const MOST_RANKS: u64 = 16;

/// What each number of ranks would mean, as far as the architecture is known: split, and as a pipeline.
fn divisions(dir: &Path, config: &Value) -> (Vec<Split>, Vec<Split>) {
    let Ok(mut model) = Architecture::read(config) else { return Default::default() };
    let Ok(tensors) = headers::read(dir) else { return Default::default() };
    model.stored_as(&tensors);
    let one = |ranks, share: Result<Share, Why>| match share {
        Ok(share) => Split { ranks, bytes: Some(share.bytes), why: None },
        Err(why) => Split { ranks, bytes: None, why: Some(why.to_string()) },
    };
    let splits = (1..=MOST_RANKS).map(|n| one(n, model.share(n))).collect();
    let stages = (1..=MOST_RANKS).filter(|_| model.pipeline).map(|n| one(n, model.largest_stage(n))).collect();
    (splits, stages)
}

/// Looks at the folder.
///
/// # Errors
/// The first thing that is missing or broken, by name.
pub fn look(dir: &Path) -> Result<ModelFolder, String> {
    if !dir.is_dir() {
        return Err(format!("there is no model folder {}", dir.display()));
    }
    let config = json(dir, "config.json")?;
    let model_type = config.get("model_type").and_then(Value::as_str).unwrap_or_default().to_owned();
    if model_type.is_empty() {
        return Err(format!("{} names no model_type", dir.join("config.json").display()));
    }
    let files = weight_files(dir)?;
    let mut bytes = 0;
    for file in &files {
        bytes += whole(&dir.join(file))?;
    }
    let (splits, stages) = divisions(dir, &config);
    Ok(ModelFolder { model_type, files: files.len(), bytes, splits, stages })
}

fn weight_files(dir: &Path) -> Result<BTreeSet<String>, String> {
    if dir.join(INDEX).is_file() {
        let index = json(dir, INDEX)?;
        let map = index.get("weight_map").and_then(Value::as_object);
        let files: Option<BTreeSet<String>> =
            map.and_then(|m| m.values().map(|v| v.as_str().map(str::to_owned)).collect());
        let files = files.filter(|f| !f.is_empty()).ok_or_else(|| format!("{INDEX} has no usable weight_map"))?;
        if let Some(odd) = files.iter().find(|f| f.contains('/')) {
            return Err(format!("{INDEX} names a file outside the folder: {odd}"));
        }
        return Ok(files);
    }
    let entries = std::fs::read_dir(dir).map_err(|e| format!("cannot read {}: {e}", dir.display()))?;
    let files: BTreeSet<String> = entries
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .filter(|n| n.starts_with("model") && n.ends_with(".safetensors"))
        .collect();
    if files.is_empty() {
        return Err(format!("{} holds no model*.safetensors", dir.display()));
    }
    Ok(files)
}

fn json(dir: &Path, name: &str) -> Result<Value, String> {
    let path = dir.join(name);
    let file = File::open(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    serde_json::from_reader(file.take(MAX_JSON)).map_err(|e| format!("{}: {e}", path.display()))
}

/// Size of a safetensors file whose header and length agree: 8 bytes of header length, the header, the data.
fn whole(path: &Path) -> Result<u64, String> {
    let name = path.display();
    let mut file = File::open(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => format!("{name} is missing"),
        _ => format!("cannot read {name}: {e}"),
    })?;
    let size = file.metadata().map_err(|e| format!("cannot read {name}: {e}"))?.len();
    let mut length = [0; 8];
    let cut = |_| format!("{name} is cut off: it has only {size} bytes");
    file.read_exact(&mut length).map_err(cut)?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER {
        return Err(format!("{name} is no safetensors file"));
    }
    let mut header = Vec::new();
    (&file).take(length).read_to_end(&mut header).map_err(|e| format!("cannot read {name}: {e}"))?;
    if (header.len() as u64) < length {
        return Err(format!("{name} is cut off: it has only {size} bytes"));
    }
    let header: Value = serde_json::from_slice(&header).map_err(|e| format!("{name} has a broken header: {e}"))?;
    let tensors = header.as_object().ok_or_else(|| format!("{name} has a broken header"))?;
    let end = |t: &Value| t.get("data_offsets").and_then(|o| o.get(1)).and_then(Value::as_u64);
    let data = tensors.values().filter_map(end).max().unwrap_or(0);
    let expected = 8 + length + data;
    if size == expected {
        Ok(size)
    } else {
        Err(format!("{name} has {size} bytes, its header says {expected}: copy it again"))
    }
}

/// One number for a whole folder, without reading the weights: SHA-256 over every file's name and size, the headers of
/// the weight files, and the contents of all small files. `macluster model check` reads the weights too.
///
/// # Errors
/// In words.
pub fn digest(dir: &Path) -> Result<String, String> {
    let wrong = |e: std::io::Error| format!("cannot read {}: {e}", dir.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // What downloaders and the Finder leave behind is not part of the model.
        if !name.starts_with('.') && entry.path().is_file() {
            files.push((name, entry.path()));
        }
    }
    files.sort();
    let mut hash = Sha256::new();
    for (name, path) in files {
        let mut file = File::open(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        let size = file.metadata().map_err(wrong)?.len();
        hash.update(format!("{}:{name}{size}:", name.len()));
        let wanted = if name.ends_with(".safetensors") {
            let mut length = [0; 8];
            file.read_exact(&mut length).map_err(wrong)?;
            hash.update(length);
            u64::from_le_bytes(length).min(MAX_HEADER)
        } else {
            MAX_JSON
        };
        let mut rest = (&file).take(wanted);
        let mut piece = [0; 8 * 1024];
        loop {
            match rest.read(&mut piece).map_err(wrong)? {
                0 => break,
                count => hash.update(&piece[..count]),
            }
        }
    }
    Ok(hex::encode(hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn safetensors(path: &Path, data: usize) {
        let header = format!(
            r#"{{"__metadata__":{{"format":"mlx"}},"w":{{"dtype":"U8","shape":[{data}],"data_offsets":[0,{data}]}}}}"#
        );
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.resize(bytes.len() + data, 0);
        std::fs::write(path, bytes).expect("written");
    }

    #[test]
    fn a_whole_folder_is_accepted_and_each_gap_is_named() {
        let dir = tempfile::tempdir().expect("tempdir");
        let dir = dir.path();
        assert!(look(&dir.join("nothing")).expect_err("no folder").contains("no model folder"));
        assert!(look(dir).expect_err("empty").contains("config.json"));
        std::fs::write(dir.join("config.json"), r#"{"model_type":"llama"}"#).expect("written");
        assert!(look(dir).expect_err("no weights").contains("model*.safetensors"));
        safetensors(&dir.join("model-00001-of-00002.safetensors"), 10);
        safetensors(&dir.join("model-00002-of-00002.safetensors"), 20);
        let index = r#"{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}"#;
        std::fs::write(dir.join(INDEX), index).expect("written");
        let seen = look(dir).expect("whole");
        assert_eq!((seen.model_type.as_str(), seen.files), ("llama", 2));

        let second = dir.join("model-00002-of-00002.safetensors");
        let bytes = std::fs::read(&second).expect("read");
        std::fs::write(&second, &bytes[..bytes.len() - 1]).expect("written");
        assert!(look(dir).expect_err("cut").contains("copy it again"));
        for cut in [0, 4, 20] {
            std::fs::write(&second, &bytes[..cut]).expect("written");
            assert!(look(dir).expect_err("cut").contains("cut off"));
        }
        std::fs::remove_file(&second).expect("removed");
        assert!(look(dir).expect_err("missing").contains("model-00002-of-00002.safetensors is missing"));
        std::fs::write(dir.join(INDEX), r#"{"weight_map":{"a":"../../etc/passwd"}}"#).expect("written");
        assert!(look(dir).expect_err("outside").contains("outside"));
        std::fs::write(dir.join(INDEX), "{").expect("written");
        assert!(look(dir).is_err());
    }
}
