//! A GET over a socket of its own, which is closed when the function returns.
//!
//! A client with a pool closes a connection in a task of its own, some time after the answer: a prober that goes on to the
//! next instance then has more sockets than probes. So the connection is driven here, and dropped here.

use std::error::Error;
use std::io;
use std::pin::pin;

use futures_util::future::{Either, select};
use http::header::{ACCEPT, CONNECTION, HOST};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::ProbeError;

/// The longest head of an answer, in bytes; hyper's own limit is a hundred times a usual one.
const LONGEST: usize = 16 * 1024;

/// The status with which `address` answers a GET of `target`.
pub(super) async fn status(address: (&str, u16), host: &str, target: &str) -> Result<u16, ProbeError> {
    let request = http::Request::get(target)
        .header(HOST, host)
        .header(ACCEPT, "*/*")
        .header(CONNECTION, "close")
        .body(String::new())
        .map_err(|error| ProbeError::new(error.to_string()))?;
    let stream = TcpStream::connect(address).await.map_err(|error| reason(&error))?;
    let mut http = hyper::client::conn::http1::Builder::new();
    let (mut sender, connection) =
        http.max_buf_size(LONGEST).handshake(TokioIo::new(stream)).await.map_err(|error| reason(&error))?;
    let answer = pin!(sender.send_request(request));
    let response = match select(answer, pin!(connection)).await {
        Either::Left((response, _)) => response,
        // A server that closes behind its answer: it is there already.
        Either::Right((_, answer)) => answer.await,
    };
    Ok(response.map_err(|error| reason(&error))?.status().as_u16())
}

/// The innermost cause, without the address, so that the same fault of many instances is one text.
pub(super) fn reason(error: &(dyn Error + 'static)) -> ProbeError {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    match cause.downcast_ref::<io::Error>() {
        Some(error) => ProbeError::new(error.kind().to_string()),
        None => ProbeError::new(cause.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// What a server that says `text` is taken for, and what it was asked.
    async fn asked(text: &'static str, then_more: bool) -> (Result<u16, ProbeError>, String) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 1024];
            let n = stream.read(&mut head).await.unwrap();
            let _ = stream.write_all(text.as_bytes()).await;
            let line = [b'a'; 1024];
            while then_more && stream.write_all(&line).await.is_ok() {}
            String::from_utf8(head[..n].to_vec()).unwrap()
        });
        (status(("127.0.0.1", port), "h:1", "/p?q").await, server.await.unwrap())
    }

    #[tokio::test]
    async fn the_status_counts_and_interim_answers_do_not() {
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 200),
            ("HTTP/1.0 404\r\n\r\nbody", 404),
            ("HTTP/1.1 503 \r\n\r\n", 503),
            ("HTTP/1.1 103 Hints\r\nlink: x\r\n\r\nHTTP/1.1 204 No\r\n\r\n", 204),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 302 F\r\nlocation: /\r\n\r\n", 302),
        ] {
            let (result, head) = asked(text, false).await;
            assert_eq!(result, Ok(expected), "{text:?}");
            assert!(head.starts_with("GET /p?q HTTP/1.1\r\nhost: h:1\r\n"), "{head}");
        }
    }

    #[tokio::test]
    async fn what_is_no_answer_is_a_reason() {
        for text in ["", "SSH-2.0-OpenSSH_9.6\r\n", "HTTP/1.1 2000\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n"]
        {
            let (result, _) = asked(text, false).await;
            assert!(result.is_err(), "{text:?}: {result:?}");
        }
        // One that never gets to the point is cut off.
        let (result, _) = asked("HTTP/1.1 200 OK\r\nx: ", true).await;
        assert!(result.is_err(), "{result:?}");
    }
}
