//! The cookie by which a browser comes back to its instance.

use http::header::SET_COOKIE;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};

use super::Onward;
use crate::supplier::StickySession;
use crate::{HttpView, RequestView, ServiceInstance};

/// Tells the browser who served it, unless it says so itself.
pub(super) fn set(
    sticky: &StickySession,
    (parts, onward): (&Parts, &Onward),
    instance: &ServiceInstance,
    headers: &mut HeaderMap,
) {
    let value = sticky.value(instance);
    let view = HttpView::new(&parts.method, &onward.target, &parts.headers);
    if value.is_empty() || !sticky.has_name() || view.cookie(sticky.cookie()) == Some(&*value) {
        return;
    }
    let secure = if onward.secure { "; Secure" } else { "" };
    let cookie = format!("{}={value}; Path=/; HttpOnly; SameSite=Lax{secure}", sticky.cookie());
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        headers.append(SET_COOKIE, cookie);
    }
}
