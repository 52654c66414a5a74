//! Style and modules, inside the binary. Their address holds a hash of all of
//! them, so a browser may keep them for ever, and modules find each other by
//! relative names.

use std::sync::LazyLock;

use http::header::CACHE_CONTROL;
use http::{HeaderValue, StatusCode};
use sha2::{Digest, Sha256};

use crate::answer::{Answered, Refusal, with_type};
use crate::ask::Ask;

struct Asset {
    name: &'static str,
    content_type: &'static str,
    text: &'static str,
}

const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

macro_rules! assets {
    ($($name:literal, $content_type:expr;)*) => {
        [$(Asset { name: $name, content_type: $content_type, text: include_str!(concat!("assets/", $name)) }),*]
    };
}

static ASSETS: [Asset; 11] = assets! {
    "style.css", CSS;
    "main.js", JS;
    "act.js", JS;
    "ask.js", JS;
    "keys.js", JS;
    "live.js", JS;
    "many.js", JS;
    "morph.js", JS;
    "still.js", JS;
    "times.js", JS;
    "mark.svg", "image/svg+xml";
};

/// The hash of all assets, in 16 hexadecimal digits.
static SET: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for Asset { name, content_type, text } in &ASSETS {
        for part in [name, content_type, text] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
});

/// The address of an asset.
pub(super) fn address(name: &str) -> String {
    format!("/assets/{}/{name}", *SET)
}

/// Whether a path is that of an asset: these need no token.
pub(crate) fn is_asset(path: &str) -> bool {
    path.strip_prefix("/assets/")
        .and_then(|rest| rest.strip_prefix(SET.as_str())?.strip_prefix('/'))
        .is_some_and(|name| ASSETS.iter().any(|asset| asset.name == name))
}

/// `GET /assets/{set}/{name}`
pub(super) async fn get(ask: Ask) -> Answered {
    let found = ASSETS.iter().find(|asset| asset.name == ask.segment("name"));
    let asset = found.filter(|_| ask.segment("set") == SET.as_str());
    let asset = asset.ok_or_else(|| Refusal::not_found("asset; load the page anew"))?;
    let mut response = with_type(StatusCode::OK, asset.content_type, asset.text.into());
    let cached = HeaderValue::from_static("public, max-age=31536000, immutable");
    response.headers_mut().insert(CACHE_CONTROL, cached);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_assets_and_nothing_else_is() {
        for asset in &ASSETS {
            assert!(is_asset(&address(asset.name)), "{}", asset.name);
        }
        for path in ["/assets/", "/assets/x/main.js", "/assets/../v1/jobs", "/v1/jobs", ""] {
            assert!(!is_asset(path), "{path}");
        }
        assert!(!is_asset(&address("../main.js")));
    }

    /// Fault 67: what the policy forbids is not there: no inline style or
    /// script is made, no text becomes HTML, nothing is asked of another host.
    #[test]
    fn fault_67_modules_make_no_html_of_text() {
        for asset in ASSETS.iter().filter(|asset| asset.content_type == JS) {
            for forbidden in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "http://",
                "https://",
            ] {
                assert!(!asset.text.contains(forbidden), "{}: {forbidden}", asset.name);
            }
        }
    }
}
