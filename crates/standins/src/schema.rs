//! Values that fit a JSON schema, as models make them up.

use serde_json::{Map, Value, json};

/// A value that fits a schema.
pub(crate) fn fit(schema: &Value, seed: &str) -> Value {
    if let Some(first) = schema["enum"].as_array().and_then(|list| list.first()) {
        return first.clone();
    }
    let kind = match &schema["type"] {
        // What may be missing was not said.
        Value::Array(kinds) if kinds.iter().any(|kind| kind == "null") => None,
        Value::Array(kinds) => kinds.iter().find_map(Value::as_str),
        kind => kind.as_str(),
    };
    match kind {
        Some("object") => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            Value::Object(properties.map(|(name, of)| (name.clone(), fit(of, seed))).collect::<Map<_, _>>())
        }
        Some("array") => json!([fit(&schema["items"], seed)]),
        Some("string") => json!(format!("text {seed}")),
        Some("integer") => json!(7),
        Some("number") => json!(0.5),
        Some("boolean") => json!(true),
        _ => Value::Null,
    }
}
