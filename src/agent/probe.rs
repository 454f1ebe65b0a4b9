//! The idle completion: when nobody has asked for a while, rank 0's agent does, as a client would. An endpoint that
//! only says that it is alive proves nothing (FAILURES H8).

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;

use crate::remote::http;

/// With no token for so long, one is asked for.
pub const IDLE: Duration = Duration::from_secs(30);
/// For that one token.
const LIMIT: Duration = Duration::from_secs(60);

/// Asks for one token.
///
/// # Errors
/// Why none came.
pub async fn one_token(api: SocketAddr) -> Result<(), String> {
    let ask = async {
        let stream = tokio::net::TcpStream::connect(api).await.map_err(|e| format!("{api}: {e}"))?;
        let body = json!({"prompt": "1", "max_tokens": 1, "temperature": 0.0});
        let (status, answer) = http::post_json(Box::new(stream), &api.to_string(), "/v1/completions", &body).await?;
        match status {
            // 429 and 503: others are being served, which is life enough.
            200 | 429 | 503 => Ok(()),
            _ => Err(format!("HTTP {status}: {}", answer.to_string().chars().take(200).collect::<String>())),
        }
    };
    tokio::time::timeout(LIMIT, ask).await.unwrap_or_else(|_| Err(format!("no token within {} s", LIMIT.as_secs())))
}
