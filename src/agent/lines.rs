//! Lines of a child process, however long they are: memory stays bounded, nothing is waited for.

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// Longest line that is kept; the rest of a longer one is dropped.
pub const MAX_LINE: usize = 64 * 1024;

/// Reads the next line without its newline into `line`, at most [`MAX_LINE`] bytes of it.
/// Gives `false` at the end of the stream.
///
/// Not cancel safe: a line may be lost when the future is dropped.
pub async fn next_line<R: AsyncBufRead + Unpin>(reader: &mut R, line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    let mut any = false;
    loop {
        let buffer = reader.fill_buf().await?;
        if buffer.is_empty() {
            return Ok(any);
        }
        any = true;
        let end = buffer.iter().position(|b| *b == b'\n');
        let part = end.map_or(buffer, |n| buffer.split_at(n).0);
        let room = MAX_LINE - line.len();
        line.extend_from_slice(part.get(..room).unwrap_or(part));
        let used = end.map_or(buffer.len(), |n| n + 1);
        reader.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_lines_are_cut_and_the_next_line_is_whole() {
        let mut text = vec![b'x'; MAX_LINE * 3];
        text.extend_from_slice(b"\nshort\n\nlast");
        let mut reader = tokio::io::BufReader::with_capacity(1000, &text[..]);
        let mut line = Vec::new();
        let mut seen = Vec::new();
        while next_line(&mut reader, &mut line).await.expect("readable") {
            seen.push(line.clone());
        }
        assert_eq!(seen.len(), 4);
        assert_eq!(seen[0].len(), MAX_LINE);
        assert_eq!((&seen[1][..], &seen[2][..], &seen[3][..]), (&b"short"[..], &b""[..], &b"last"[..]));
    }
}
