//! A GET over a socket of its own, which is closed when the function returns.
//!
//! A client with a pool closes a connection in a task of its own, some time after the answer: a prober that goes on to the
//! next instance then has more sockets than probes.

use std::io::{Error, ErrorKind};

use tokio::net::TcpStream;

use super::ProbeError;

/// So much is read in search of a status line; interim answers may stand before it.
const LONGEST: usize = 16 * 1024;

/// The status with which `address` answers a GET of `target`.
pub(super) async fn status(address: (&str, u16), host: &str, target: &str) -> Result<u16, ProbeError> {
    let failed = |error: Error| ProbeError::new(error.kind().to_string());
    let stream = TcpStream::connect(address).await.map_err(failed)?;
    let request =
        format!("GET {target} HTTP/1.1\r\nhost: {host}\r\naccept: */*\r\nconnection: close\r\n\r\n");
    write(&stream, request.as_bytes()).await.map_err(failed)?;
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        match read(&stream, &mut part).await.map_err(failed)? {
            0 => return Err(failed(ErrorKind::UnexpectedEof.into())),
            n => bytes.extend_from_slice(&part[..n]),
        }
        match answer(&bytes) {
            Answer::Status(status) => return Ok(status),
            Answer::More if bytes.len() < LONGEST => {}
            Answer::More | Answer::Other => return Err(ProbeError::new("no answer in HTTP/1")),
        }
    }
}

async fn write(stream: &TcpStream, mut bytes: &[u8]) -> Result<(), Error> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn read(stream: &TcpStream, part: &mut [u8]) -> Result<usize, Error> {
    loop {
        stream.readable().await?;
        match stream.try_read(part) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            done => return done,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Status(u16),
    /// It has not arrived yet.
    More,
    /// It is none of HTTP/1.
    Other,
}

fn answer(mut bytes: &[u8]) -> Answer {
    loop {
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            let is_start = bytes.starts_with(b"HTTP/1.") || b"HTTP/1.".starts_with(bytes);
            return if is_start { Answer::More } else { Answer::Other };
        };
        let Some(status) = status_of(&bytes[..end]) else { return Answer::Other };
        if !matches!(status, 100 | 102..=199) {
            return Answer::Status(status);
        }
        // An interim answer; the one that counts stands behind its headers.
        let blank = [b"\r\n\r\n".as_slice(), b"\n\n"].into_iter().filter_map(|blank| {
            bytes.windows(blank.len()).position(|window| window == blank).map(|at| at + blank.len())
        });
        let Some(next) = blank.min() else { return Answer::More };
        bytes = &bytes[next..];
    }
}

/// Of `HTTP/1.1 200 OK`.
fn status_of(line: &[u8]) -> Option<u16> {
    let rest = line.strip_prefix(b"HTTP/1.")?.get(1..)?.strip_prefix(b" ")?;
    let digits = rest.get(..3).filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
    let ends = rest.get(3).is_none_or(|byte| matches!(byte, b' ' | b'\r'));
    ends.then(|| digits.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_line_counts_and_interim_answers_do_not() {
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\n", Answer::Status(200)),
            ("HTTP/1.0 404\r\n\r\nbody", Answer::Status(404)),
            ("HTTP/1.1 503 \n", Answer::Status(503)),
            ("HTTP/1.1 101 Switching\r\n\r\n", Answer::Status(101)),
            ("HTTP/1.1 103 Hints\r\nlink: x\r\n\r\nHTTP/1.1 204 No\r\n", Answer::Status(204)),
            ("HTTP/1.1 100 Continue\n\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 302 F\r\n", Answer::Status(302)),
            ("HTTP/1.1 100 Continue\r\n\r\n", Answer::More),
            ("HTTP/1.1 100 Continue\r\nlink: x\r\n", Answer::More),
            ("HTTP/1.1 20", Answer::More),
            ("HT", Answer::More),
            ("", Answer::More),
            ("HTTP/2 200\r\n", Answer::Other),
            ("HTTP/1.1 2000\r\n", Answer::Other),
            ("HTTP/1.1 20\r\n", Answer::Other),
            ("HTTP/1.1\r\n", Answer::Other),
            ("SSH-2.0-OpenSSH_9.6", Answer::Other),
            ("\n", Answer::Other),
        ] {
            assert_eq!(answer(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[tokio::test]
    async fn an_answer_that_never_gets_to_the_point_is_none() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = write(&stream, b"HTTP/1.1 100 Continue\r\n").await;
                let line = [b'a'; 1024];
                while write(&stream, &line).await.is_ok() {}
            }
        });
        let result = status(("127.0.0.1", port), "h", "/").await;
        assert_eq!(result, Err(ProbeError::new("no answer in HTTP/1")));
    }
}
