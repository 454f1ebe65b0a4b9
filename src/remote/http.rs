//! One HTTP request over a connection that is already there, such as a channel of SSH.

use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde_json::Value;

use super::Duplex;

/// No answer is read further: 4 MiB.
const MAX_ANSWER: usize = 4 * 1024 * 1024;

/// Posts JSON and reads the JSON answer. The caller limits the time.
///
/// # Errors
/// In words.
pub async fn post_json(stream: Box<dyn Duplex>, host: &str, path: &str, body: &Value) -> Result<(u16, Value), String> {
    let (status, body) = post(stream, host, path, body, &mut |_| ()).await?;
    let value =
        serde_json::from_slice(&body).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned()));
    Ok((status, value))
}

/// Posts JSON and reads the answer, which is handed on piece by piece as it comes. The caller limits the time.
///
/// # Errors
/// In words.
pub async fn post(
    stream: Box<dyn Duplex>,
    host: &str,
    path: &str,
    body: &Value,
    seen: &mut (dyn FnMut(&[u8]) + Send),
) -> Result<(u16, Vec<u8>), String> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| format!("no HTTP connection: {e}"))?;
    let request = Request::post(path)
        .header("host", host)
        .header("content-type", "application/json")
        .header("connection", "close")
        .body(Full::new(Bytes::from(body.to_string())))
        .map_err(|e| format!("the request cannot be made: {e}"))?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(|e| format!("no HTTP answer: {e}"))?;
        let status = response.status().as_u16();
        let mut body = Limited::new(response.into_body(), MAX_ANSWER);
        let mut all = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|e| format!("the HTTP answer broke off: {e}"))?;
            if let Some(data) = frame.data_ref() {
                seen(data);
                all.extend_from_slice(data);
            }
        }
        Ok((status, all))
    };
    // The connection must be driven while the answer is awaited; it ends with the answer.
    tokio::pin!(answer);
    let driven = async {
        let _ = connection.await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        result = &mut answer => result,
        () = driven => Err("the HTTP connection ended".to_owned()),
    }
}
