//! The policies of the dashboard's pages. They hold even where a name or an output from inside a sandbox would be taken for HTML.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

/// Scripts and styles of ours in files of their own, requests to this server, one frame of ours, and nothing else: no inline
/// script, no form that leads away, no page around it.
const PAGE: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; \
connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
require-trusted-types-for 'script'; trusted-types 'none'";

/// HTML of results is shown in a frame with this policy: styles and pictures that it brings along, no script but ours, no
/// request, and an origin that nothing else has.
const FRAME: &str = "sandbox allow-scripts; default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
img-src data:; font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

pub fn page() -> HeaderMap {
    let mut headers = with_policy(PAGE);
    // Not for the frame: a browser shows no page with this header in a sandboxed frame.
    headers.insert(
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    );
    headers
}

pub fn frame() -> HeaderMap {
    with_policy(FRAME)
}

/// The name of an asset changes with its content.
pub fn asset() -> HeaderMap {
    let mut headers = common();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    // The frame's origin is not this one, and its script is ours all the same.
    headers.insert(
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("cross-origin"),
    );
    headers
}

fn with_policy(policy: &'static str) -> HeaderMap {
    let mut headers = common();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(
        HeaderName::from_static("permissions-policy"),
        HeaderValue::from_static("camera=(), microphone=(), geolocation=(), payment=(), usb=()"),
    );
    headers
}

fn common() -> HeaderMap {
    HeaderMap::from_iter([
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_policy_lets_inline_scripts_run() {
        for headers in [page(), frame()] {
            let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().expect("text").to_string();
            let scripts =
                policy.split(';').find(|part| part.trim().starts_with("script-src")).expect("scripts");
            assert_eq!(scripts.trim(), "script-src 'self'");
            assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe-eval"), "{policy}");
        }
        assert!(
            page()[header::CONTENT_SECURITY_POLICY]
                .to_str()
                .expect("text")
                .contains("frame-ancestors 'none'")
        );
        assert!(
            !frame()[header::CONTENT_SECURITY_POLICY].to_str().expect("text").contains("allow-same-origin")
        );
    }
}
