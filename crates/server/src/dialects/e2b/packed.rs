//! Answers that are compressed while they are sent.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::BodyExt;
use std::io::Write;

/// Bytes that are packed between two looks at other work.
const PIECE: usize = 64 << 10;

/// True if the client takes gzip.
pub fn is_wanted(headers: &HeaderMap) -> bool {
    let given = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    given.flat_map(|list| list.split(',')).any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        let refused = quality
            .trim()
            .strip_prefix("q=")
            .is_some_and(|q| q.trim().parse::<f32>().is_ok_and(|q| q <= 0.0));
        name.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

/// The same answer, packed piece by piece: no more of it is held than one piece. An answer that breaks off stays without its end.
pub fn gzip(response: Response) -> Response {
    let (mut parts, mut body) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    let packed = async_stream::stream! {
        // The fastest level: whoever wants it smaller packs it inside.
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        while let Some(frame) = body.frame().await {
            let mut bytes = match frame {
                Ok(frame) => frame.into_data().unwrap_or_default(),
                Err(error) => {
                    yield Err(error);
                    return;
                }
            };
            while !bytes.is_empty() {
                let piece = bytes.split_to(bytes.len().min(PIECE));
                if let Err(error) = encoder.write_all(&piece) {
                    yield Err(axum::Error::new(error));
                    return;
                }
                let ready = std::mem::take(encoder.get_mut());
                match ready.is_empty() {
                    true => tokio::task::yield_now().await,
                    false => yield Ok(Bytes::from(ready)),
                }
            }
        }
        yield encoder.finish().map(Bytes::from).map_err(axum::Error::new);
    };
    Response::from_parts(parts, Body::from_stream(packed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse;
    use flate2::write::GzDecoder;

    fn wanted(value: &'static str) -> bool {
        let headers = [(header::ACCEPT_ENCODING, HeaderValue::from_static(value))];
        is_wanted(&HeaderMap::from_iter(headers))
    }

    #[test]
    fn a_client_says_what_it_takes() {
        assert!(wanted("gzip") && wanted("br, GZIP;q=0.5") && wanted("gzip, deflate"));
        assert!(!wanted("identity") && !wanted("gzip;q=0") && !wanted("gzip; q=0.0, br") && !wanted(""));
        assert!(!is_wanted(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn what_is_packed_is_the_same() {
        let text = "the same line\n".repeat(50_000);
        let packed = gzip(text.clone().into_response());
        assert!(!packed.headers().contains_key(header::CONTENT_LENGTH));
        let bytes = axum::body::to_bytes(packed.into_body(), 1 << 20).await.expect("a body");
        assert!(bytes.len() < text.len() / 10, "{}", bytes.len());
        let mut decoder = GzDecoder::new(Vec::new());
        decoder.write_all(&bytes).expect("gzip");
        assert_eq!(decoder.finish().expect("whole"), text.as_bytes());
    }

    #[tokio::test]
    async fn an_answer_that_breaks_off_is_no_whole_one() {
        let pieces = [Ok(Bytes::from_static(b"half")), Err(std::io::Error::other("broken"))];
        let body = Body::from_stream(futures_util::stream::iter(pieces));
        let packed = gzip(Response::new(body));
        assert!(axum::body::to_bytes(packed.into_body(), 1 << 20).await.is_err());
    }
}
