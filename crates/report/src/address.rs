//! Addresses of the dashboard.

/// Where a budget stands on its page, on which page of many that may be.
pub fn budget_at(name: &str) -> String {
    let name = encoded(name);
    format!("/budgets?name={name}#b-{name}")
}

/// A part of an address, percent-encoded.
pub fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(encoded("a b/ü&"), "a%20b%2F%C3%BC%26");
    }
}
