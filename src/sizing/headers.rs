//! Headers of safetensors files: eight bytes of length, then JSON. What they say of a tensor is what is there; the
//! `quantization` block of a config.json can mislead.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use super::arch::Architecture;
use super::module::{Kind, Quant};

/// No header is longer: 100 MB, the format's own limit.
const LONGEST: u64 = 100_000_000;

/// Type and shape of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// `BF16`, `U32`, …
    pub dtype: String,
    /// Dimensions.
    pub shape: Vec<u64>,
    /// Bytes in the file.
    pub bytes: u64,
}

/// All tensors of a model folder, by name.
pub type Tensors = BTreeMap<String, Tensor>;

/// Reads the headers of every `*.safetensors` in a folder; no weights are read.
///
/// # Errors
/// In words, with the file.
pub fn read(folder: &Path) -> Result<Tensors, String> {
    let trouble = |e: std::io::Error| format!("cannot read {}: {e}", folder.display());
    let mut all = Tensors::new();
    for entry in std::fs::read_dir(folder).map_err(trouble)? {
        let path = entry.map_err(trouble)?.path();
        if path.extension().is_some_and(|e| e == "safetensors") {
            all.extend(read_file(&path).map_err(|why| format!("{}: {why}", path.display()))?);
        }
    }
    Ok(all)
}

fn read_file(path: &Path) -> Result<Tensors, String> {
    let mut file = File::open(path).map_err(|e| e.to_string())?;
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(|e| format!("no safetensors header: {e}"))?;
    let length = u64::from_le_bytes(length);
    if length > LONGEST {
        return Err(format!("no safetensors header: it would have {length} bytes"));
    }
    let mut bytes = Vec::new();
    let got = file.take(length).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if got as u64 != length {
        return Err("its header is cut off".to_owned());
    }
    parse(&bytes)
}

/// Reads a header.
///
/// # Errors
/// In words.
pub fn parse(bytes: &[u8]) -> Result<Tensors, String> {
    let header: Value = serde_json::from_slice(bytes).map_err(|e| format!("its header is no JSON: {e}"))?;
    let object = header.as_object().ok_or("its header is no object")?;
    let one = |(name, value): (&String, &Value)| {
        let dtype = value.get("dtype").and_then(Value::as_str)?.to_owned();
        let shape = value.get("shape")?.as_array()?.iter().map(Value::as_u64).collect::<Option<Vec<_>>>()?;
        let offsets = value.get("data_offsets")?.as_array()?;
        let [from, to] = offsets.as_slice() else { return None };
        let bytes = to.as_u64()?.checked_sub(from.as_u64()?)?;
        Some((name.clone(), Tensor { dtype, shape, bytes }))
    };
    let tensors = object.iter().filter(|(name, _)| *name != "__metadata__");
    tensors.map(|t| one(t).ok_or_else(|| format!("its header describes {} badly", t.0.escape_debug()))).collect()
}

/// How much of a model the headers told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Parts that the files have under their names.
    pub found: usize,
    /// Parts that the files do not have: another layout, which mlx-lm renames when it loads it.
    pub missing: usize,
    /// Bytes of all tensors.
    pub bytes: u64,
}

impl Architecture {
    /// Stores each part as the files do.
    pub fn stored_as(&mut self, tensors: &Tensors) -> Told {
        let mut told = Told { bytes: tensors.values().map(|t| t.bytes).sum(), ..Told::default() };
        for module in &mut self.modules {
            let of = |name: &str| tensors.get(&format!("{}.{name}", module.path));
            // A vector that is no layer of its own stands under its bare name.
            let Some(weight) = of("weight").or_else(|| tensors.get(&module.path)) else {
                told.missing += 1;
                continue;
            };
            told.found += 1;
            match weight.dtype.as_str() {
                "F32" => module.width = 4,
                "F64" => module.width = 8,
                _ => {}
            }
            let Kind::Matrix { inp, .. } = module.kind else { continue };
            let last = |t: &Tensor| t.shape.last().copied().unwrap_or(0);
            module.quant = of("scales").and_then(|scales| {
                let groups = Some(last(scales)).filter(|g| *g > 0 && inp.is_multiple_of(*g))?;
                let bits = Some(last(weight) * 32 / inp).filter(|b| (1..=16).contains(b))?;
                let scale_bytes = if scales.dtype == "U8" { 1 } else { 2 };
                let bias_bytes = if of("biases").is_some() { 2 } else { 0 };
                Some(Quant { bits, group: inp / groups, per_group: scale_bytes + bias_bytes })
            });
            if module.quant.is_some() {
                module.width = 2;
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_and_bad_ones_refused() {
        let header =
            br#"{"__metadata__":{"format":"mlx"},"a.weight":{"dtype":"U32","shape":[8,4],"data_offsets":[0,128]}}"#;
        let tensors = parse(header).expect("a header");
        assert_eq!(tensors["a.weight"], Tensor { dtype: "U32".into(), shape: vec![8, 4], bytes: 128 });
        for bad in [
            &b"{"[..],
            b"[]",
            br#"{"a":{"dtype":"U32"}}"#,
            br#"{"a":{"dtype":"U32","shape":[1],"data_offsets":[9,1]}}"#,
        ] {
            assert!(parse(bad).is_err());
        }
        let dir = tempfile::tempdir().expect("tempdir");
        for (name, bytes) in [("short", &b"abc"[..]), ("long", &[0xff; 16]), ("cut", &[9, 0, 0, 0, 0, 0, 0, 0, b'{'])] {
            let path = dir.path().join(format!("{name}.safetensors"));
            std::fs::write(&path, bytes).expect("written");
            assert!(read(dir.path()).expect_err(name).contains(name));
            std::fs::remove_file(path).expect("removed");
        }
    }
}
