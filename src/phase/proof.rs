//! The proof that a service serves: an answer, asked for as a client would, through SSH to rank 0's loopback.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::runtime::RuntimeNode;
use crate::model::command::printable;
use crate::remote::http;

/// Tokens of the answer: few, but more than the first.
pub const TOKENS: u32 = 16;
/// What is asked.
const QUESTION: &str = "Count from one to ten in words.";

/// An answer and what it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// Tokens generated.
    pub tokens: u64,
    /// Tokens of the prompt, as the API counts them.
    pub prompt_tokens: u64,
    /// From the request to the first text, when it was streamed.
    pub first: Option<Duration>,
    /// From the request to the end.
    pub whole: Duration,
}

impl Answer {
    /// Tokens per second over the whole answer.
    pub fn rate(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "a few tokens")]
        let tokens = self.tokens as f64;
        tokens / self.whole.as_secs_f64().max(1e-6)
    }
}

/// Asks a chat question of so many tokens; a streamed answer is read piece by piece.
///
/// # Errors
/// Why there is no answer, or none with a token.
pub async fn ask(
    node: &RuntimeNode,
    api: SocketAddr,
    body: Value,
    limit: Duration,
) -> Result<(Answer, String), String> {
    tokio::time::timeout(limit, exchange(node, api, body))
        .await
        .unwrap_or_else(|_| Err(format!("no answer within {} s", limit.as_secs())))
}

/// The body of the standard question.
pub fn question(stream: bool) -> Value {
    chat(QUESTION, TOKENS, stream)
}

/// The body of a question.
pub fn chat(text: &str, tokens: u32, stream: bool) -> Value {
    let mut body = json!({
        "messages": [{"role": "user", "content": text}], "max_tokens": tokens, "temperature": 0.0,
    });
    if stream && let Some(body) = body.as_object_mut() {
        body.insert("stream".to_owned(), json!(true));
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    body
}

async fn exchange(node: &RuntimeNode, api: SocketAddr, body: Value) -> Result<(Answer, String), String> {
    let started = Instant::now();
    let stream = node
        .remote
        .open_tcp(&api.ip().to_string(), api.port())
        .await
        .map_err(|e| format!("{api} on this node cannot be reached through SSH: {e}"))?;
    let streamed = body.get("stream").is_some();
    let mut first = None;
    let mut begun = Vec::new();
    let mut seen = |data: &[u8]| {
        if first.is_none() {
            begun.extend_from_slice(data);
            first = has_text(&begun).then(|| started.elapsed());
        }
    };
    let (status, bytes) = http::post(stream, &api.to_string(), "/v1/chat/completions", &body, &mut seen).await?;
    let whole = started.elapsed();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let shown = || printable(&text.chars().take(300).collect::<String>());
    if status != 200 {
        return Err(format!("the model answered with HTTP {status}: {}", shown()));
    }
    let (usage, said) = if streamed { streamed_answer(&text)? } else { whole_answer(&text) };
    let Usage { tokens, prompt_tokens } = usage;
    if tokens == 0 {
        return Err(format!("the model answered without a token: {}", shown()));
    }
    Ok((Answer { tokens, prompt_tokens, first: first.filter(|_| streamed), whole }, said))
}

/// Whether an event with text has come: the first one only opens the message.
fn has_text(begun: &[u8]) -> bool {
    let whole = begun.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
    let text = String::from_utf8_lossy(begun.get(..whole).unwrap_or_default());
    let said = |l: &str| {
        let event: Value = serde_json::from_str(l.strip_prefix("data: ")?).ok()?;
        Some(!event.pointer("/choices/0/delta/content")?.as_str()?.is_empty())
    };
    text.lines().any(|l| said(l) == Some(true))
}

/// What the API counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    tokens: u64,
    prompt_tokens: u64,
}

fn usage(object: &Value) -> Option<Usage> {
    let count = |name: &str| object.pointer(name).and_then(Value::as_u64);
    let tokens = count("/usage/completion_tokens")?;
    Some(Usage { tokens, prompt_tokens: count("/usage/prompt_tokens").unwrap_or(0) })
}

fn whole_answer(text: &str) -> (Usage, String) {
    let object: Value = serde_json::from_str(text).unwrap_or(Value::Null);
    let said = object.pointer("/choices/0/message/content").and_then(Value::as_str).unwrap_or_default();
    (usage(&object).unwrap_or_default(), said.to_owned())
}

/// Server-sent events: `data: {…}` each, the last one `data: [DONE]`.
fn streamed_answer(text: &str) -> Result<(Usage, String), String> {
    let (mut count, mut said, mut done) = (Usage::default(), String::new(), false);
    for data in text.lines().filter_map(|l| l.strip_prefix("data: ")) {
        if data == "[DONE]" {
            done = true;
            break;
        }
        let object: Value =
            serde_json::from_str(data).map_err(|e| format!("an event of the stream is no JSON: {e}"))?;
        if let Some(error) = object.get("error") {
            return Err(format!("the stream ended with an error: {}", printable(&error.to_string())));
        }
        count = usage(&object).unwrap_or(count);
        said.push_str(object.pointer("/choices/0/delta/content").and_then(Value::as_str).unwrap_or_default());
    }
    if done { Ok((count, said)) } else { Err("the stream broke off before its end".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_text_is_not_the_first_event() {
        let opens = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
        let text = "data: {\"choices\":[{\"delta\":{\"content\":\"one\"}}]}";
        assert!(!has_text(opens.as_bytes()));
        assert!(!has_text(format!("{opens}{text}").as_bytes()), "not whole yet");
        assert!(has_text(format!("{opens}{text}\n").as_bytes()));
    }

    #[test]
    fn a_stream_is_read_to_its_end_or_is_an_error() {
        let piece = r#"data: {"choices":[{"delta":{"content":"one"}}]}"#;
        let usage = r#"data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3}}"#;
        let text = format!("{piece}\n\n{piece}\n\n{usage}\n\ndata: [DONE]\n\n");
        assert_eq!(streamed_answer(&text), Ok((Usage { tokens: 3, prompt_tokens: 9 }, "oneone".to_owned())));
        assert!(streamed_answer(piece).expect_err("cut off").contains("broke off"));
        let error = r#"data: {"error":{"message":"the engine is stopping"}}"#;
        assert!(streamed_answer(error).expect_err("an error").contains("the engine is stopping"));
    }
}
