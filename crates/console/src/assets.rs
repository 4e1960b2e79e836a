//! The assets of pages: scripts and styles that are in the binary, under names that change with their content, so
//! that browsers keep them for ever. Nothing is loaded from elsewhere.

use axum::{
    extract::Path,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use std::sync::LazyLock;

pub(crate) const PATH: &str = "/console/assets/{file}";
const FOR_EVER: &str = "public, max-age=31536000, immutable";

struct Asset {
    name: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
}

const ASSETS: [Asset; 6] = [
    Asset {
        name: "console.css",
        media_type: "text/css; charset=utf-8",
        bytes: include_bytes!("../assets/console.css"),
    },
    Asset {
        name: "console.js",
        media_type: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../assets/console.js"),
    },
    Asset {
        name: "htmx.min.js",
        media_type: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../assets/htmx.min.js"),
    },
    Asset {
        name: "uplot.min.js",
        media_type: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../assets/uplot.min.js"),
    },
    Asset {
        name: "uplot.min.css",
        media_type: "text/css; charset=utf-8",
        bytes: include_bytes!("../assets/uplot.min.css"),
    },
    Asset { name: "icon.svg", media_type: "image/svg+xml", bytes: include_bytes!("../assets/icon.svg") },
];

/// Addresses, in the order of the table.
static ADDRESSES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let address = |asset: &Asset| {
        let hash = blake3::hash(asset.bytes).to_hex();
        let (stem, kind) = asset.name.split_once('.').unwrap_or((asset.name, ""));
        format!("/console/assets/{stem}.{}.{kind}", hash.get(..12).unwrap_or_default())
    };
    ASSETS.iter().map(address).collect()
});

/// The address of an asset of the table.
pub(crate) fn address(name: &str) -> &'static str {
    ASSETS.iter().zip(ADDRESSES.iter()).find(|pair| pair.0.name == name).map_or("", |pair| pair.1)
}

/// Changes with any of them: a page of another build has to be loaded anew.
pub(crate) fn build() -> &'static str {
    static BUILD: LazyLock<String> = LazyLock::new(|| {
        let mut all = ADDRESSES.concat();
        all.push_str(env!("CARGO_PKG_VERSION"));
        blake3::hash(all.as_bytes()).to_hex().get(..12).unwrap_or_default().to_owned()
    });
    &BUILD
}

pub(crate) async fn asset(Path(file): Path<String>) -> Response {
    let wanted = format!("/console/assets/{file}");
    let Some((asset, _)) = ASSETS.iter().zip(ADDRESSES.iter()).find(|pair| *pair.1 == wanted) else {
        return (StatusCode::NOT_FOUND, "no such file").into_response();
    };
    ([(header::CONTENT_TYPE, asset.media_type), (header::CACHE_CONTROL, FOR_EVER)], asset.bytes)
        .into_response()
}
